/* The trainer's command line. */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer.h"
#include "util.h"

static const char usage[] =
	"usage: simgpu-trainer [options]\n"
	"ends after    --iterations N, --seconds S, once --until FILE is there; without any it runs on\n"
	"an iteration  --cpu-ms MS (5), --gpu-ms MS (20), --queue N kernels ahead (2)\n"
	"memory        --memory SIZE on each GPU (1GiB), --grow SIZE --grow-every S up to --grow-max SIZE\n"
	"devices       --gpus K of those in CUDA_VISIBLE_DEVICES (1), --dir DIR (SIMGPU_DIR)\n"
	"sharing       --mps (or SIMGPU_MPS=1) --sm SHARE of the SMs that a kernel fills (1)\n"
	"rhythm        --startup S without the GPU, --gap-every S of work then --gap S without\n"
	"workers       --fork N, --setsid-workers N, --daemon-workers N, --exec-workers N\n"
	"              --fork-every MS, each for --child-life MS (500), of --fork-kind plain|setsid|daemon|exec\n"
	"              --pids FILE gets a line for each\n"
	"signals       --on-term FILE written on SIGTERM, then exit --term-exit STATUS (143),\n"
	"              or go on with --ignore-term\n"
	"              --notify SIG:FILE appends a line on SIG (USR1, USR2, HUP, INT or a number)\n"
	"              --watchdog S aborts when an iteration takes longer, as a collective's does\n"
	"other         --label TEXT (SIMGPU_LABEL, else SLURM_JOB_ID.SLURM_STEP_ID), --report S (1)\n"
	"Under --mps, CUDA_MPS_ACTIVE_THREAD_PERCENTAGE and CUDA_MPS_PINNED_DEVICE_MEM_LIMIT hold.\n"
	"GIMBAL_PROGRESS names a file that holds the count of iterations as text.\n";

enum kind { TEXT, COUNT, INT, SHARE, SIZE, SECONDS, MILLISECONDS, FLAG, NOTIFY, FORK_KIND };

struct choice {
	const char *name;
	enum kind kind;
	void *value;
};

static int signal_number(const char *text)
{
	static const struct {
		const char *name;
		int number;
	} names[] = { { "USR1", SIGUSR1 }, { "USR2", SIGUSR2 }, { "HUP", SIGHUP }, { "INT", SIGINT } };
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (strcmp(names[i].name, text) == 0)
			return names[i].number;
	return atoi(text);
}

static bool parse_notify(struct trainer_options *o, char *text)
{
	char *colon = strchr(text, ':');
	if (colon == NULL)
		return false;
	*colon = '\0';
	o->notify_signal = signal_number(text);
	o->notify_file = colon + 1;
	return o->notify_signal > 0;
}

static bool parse_spawn(enum spawn *kind, const char *text)
{
	static const char *const names[] = { "plain", "setsid", "daemon", "exec" };
	for (int i = SPAWN_PLAIN; i <= SPAWN_EXEC; i++)
		if (strcmp(names[i], text) == 0) {
			*kind = (enum spawn)i;
			return true;
		}
	return false;
}

static bool parse_number(const char *text, double *v)
{
	char *end;
	*v = strtod(text, &end);
	return end != text && *end == '\0' && *v >= 0;
}

static bool store(const struct choice *c, char *text)
{
	double v = 0;
	switch (c->kind) {
	case TEXT:
		*(const char **)c->value = text;
		return true;
	case FLAG:
		*(bool *)c->value = true;
		return true;
	case SIZE:
		return parse_size(text, c->value);
	case SECONDS:
		return parse_duration(text, "s", c->value);
	case MILLISECONDS:
		return parse_duration(text, "ms", c->value);
	case NOTIFY:
		return parse_notify(c->value, text);
	case FORK_KIND:
		return parse_spawn(c->value, text);
	default:
		break;
	}
	if (!parse_number(text, &v))
		return false;
	if (c->kind == COUNT)
		*(uint64_t *)c->value = (uint64_t)v;
	else if (c->kind == INT)
		*(int *)c->value = (int)v;
	else
		*(double *)c->value = v;
	return true;
}

static void parse(const struct choice *table, int count, int argc, char **argv)
{
	struct option longs[64] = { { "help", no_argument, NULL, 'h' } };
	int c, which = 0;
	for (int i = 0; i < count; i++)
		longs[i + 1] = (struct option){
			table[i].name, table[i].kind == FLAG ? no_argument : required_argument, NULL, 0,
		};
	while ((c = getopt_long(argc, argv, "h", longs, &which)) != -1) {
		if (c == 'h') {
			fputs(usage, stdout);
			exit(0);
		}
		if (c != 0)
			exit(2);
		if (!store(&table[which - 1], optarg))
			usage_error("--%s: malformed value: %s", table[which - 1].name, optarg);
	}
	if (optind < argc)
		usage_error("unexpected argument: %s", argv[optind]);
}

static struct trainer_options defaults(void)
{
	const char *mps = getenv("SIMGPU_MPS");
	return (struct trainer_options){
		.dir = device_dir(),
		.gpu_ns = 20000000,
		.cpu_ns = 5000000,
		.report_ns = 1000000000,
		.memory = (uint64_t)1 << 30,
		.grow_max = UINT64_MAX,
		.grow_every_ns = 1000000000,
		.queue = 2,
		.gpus = 1,
		.sm = 1,
		.mps = mps != NULL && strcmp(mps, "1") == 0,
		.child_life_ns = 500000000,
		.term_exit = 143,
		.progress = getenv("GIMBAL_PROGRESS"),
	};
}

struct trainer_options trainer_parse(int argc, char **argv)
{
	struct trainer_options o = defaults();
	const struct choice table[] = {
		{ "dir", TEXT, &o.dir },
		{ "label", TEXT, &o.label },
		{ "iterations", COUNT, &o.iterations },
		{ "seconds", SECONDS, &o.duration },
		{ "until", TEXT, &o.until },
		{ "gpu-ms", MILLISECONDS, &o.gpu_ns },
		{ "cpu-ms", MILLISECONDS, &o.cpu_ns },
		{ "report", SECONDS, &o.report_ns },
		{ "startup", SECONDS, &o.startup_ns },
		{ "watchdog", SECONDS, &o.watchdog_ns },
		{ "gap", SECONDS, &o.gap_ns },
		{ "gap-every", SECONDS, &o.gap_every_ns },
		{ "memory", SIZE, &o.memory },
		{ "grow", SIZE, &o.grow },
		{ "grow-every", SECONDS, &o.grow_every_ns },
		{ "grow-max", SIZE, &o.grow_max },
		{ "queue", INT, &o.queue },
		{ "gpus", INT, &o.gpus },
		{ "mps", FLAG, &o.mps },
		{ "sm", SHARE, &o.sm },
		{ "fork", INT, &o.plain },
		{ "setsid-workers", INT, &o.setsid },
		{ "daemon-workers", INT, &o.daemon },
		{ "exec-workers", INT, &o.exec },
		{ "fork-every", MILLISECONDS, &o.fork_every_ns },
		{ "child-life", MILLISECONDS, &o.child_life_ns },
		{ "fork-kind", FORK_KIND, &o.fork_kind },
		{ "pids", TEXT, &o.pids },
		{ "on-term", TEXT, &o.on_term },
		{ "term-exit", INT, &o.term_exit },
		{ "ignore-term", FLAG, &o.ignore_term },
		{ "notify", NOTIFY, &o },
	};
	parse(table, sizeof table / sizeof table[0], argc, argv);
	if (o.queue < 1 || o.queue > SIMGPU_QUEUE || o.gpus < 1 || o.gpus > SIMGPU_UNITS)
		usage_error("--queue or --gpus out of range");
	if (o.sm <= 0 || o.sm > 1)
		usage_error("--sm: a share from 0.001 to 1");
	return o;
}
