/* The device's command line. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "util.h"

static const char usage[] =
	"usage: simgpu-device [--dir DIR] [options]     run the device\n"
	"       simgpu-device ctl [--dir DIR] COMMAND   change or show a running one\n"
	"  --dir DIR          all its files (default: SIMGPU_DIR, else " SIMGPU_DEFAULT_DIR ")\n"
	"  --gpus N           GPUs (1)\n"
	"  --memory SIZE      on each GPU (16GiB)\n"
	"  --reserved SIZE    of it, for the driver (300MiB)\n"
	"  --context SIZE     that each context takes (0)\n"
	"  --minors A,B,...   minor numbers in NVML's order (0,1,...)\n"
	"  --mig K            MIG mode with K instances on each GPU\n"
	"  --seed TEXT        from which the UUIDs are made (the directory)\n"
	"  --name TEXT        of the GPUs\n"
	"  --slice TIME       a process's turn on a GPU (2ms)\n"
	"  --switch TIME      lost at each change of process (100us)\n"
	"  --period TIME      of utilisation samples and record lines (100ms)\n"
	"  --merge TIME       gaps in the record that are filled (1ms)\n"
	"  --lag TIME         by which NVML's samples come late (0)\n"
	"  --swap-rate SIZE   bytes a second of a checkpoint (5GiB)\n"
	"  --background       return once the socket is there\n"
	"  --until-eof        end when standard input ends\n"
	"commands: set KEY=VALUE [gpu=N], ghost pid=P memory=SIZE [gpu=N],\n"
	"          xid code=N [gpu=N], show, stop\n";

static uint64_t size_option(const char *name, const char *text)
{
	uint64_t v;
	if (!parse_size(text, &v))
		usage_error("--%s: not a size: %s", name, text);
	return v;
}

static uint64_t time_option(const char *name, const char *text)
{
	uint64_t v;
	if (!parse_duration(text, "s", &v))
		usage_error("--%s: not a duration: %s", name, text);
	return v;
}

enum { MAX_OPTIONS = 32 };

enum kind { TEXT, NUMBER, SIZE, TIME, SWITCH };

struct choice {
	const char *name;
	enum kind kind;
	void *value;
};

static void store(const struct choice *c, const char *text)
{
	switch (c->kind) {
	case TEXT:
		*(const char **)c->value = text;
		break;
	case NUMBER:
		*(int *)c->value = atoi(text);
		break;
	case SIZE:
		*(uint64_t *)c->value = size_option(c->name, text);
		break;
	case TIME:
		*(uint64_t *)c->value = time_option(c->name, text);
		break;
	case SWITCH:
		*(bool *)c->value = true;
		break;
	}
}

static void check(const struct options *o)
{
	if (o->gpus < 0 || o->mig < 0 || o->gpus * (o->mig + 1) > SIMGPU_UNITS)
		usage_error("--gpus, --mig: at most %d units", SIMGPU_UNITS);
	if (o->slice == 0 || o->period < 1000000 || o->swap_rate == 0 || o->reserved > o->memory)
		usage_error("--slice, --period, --swap-rate or --reserved out of range");
}

static void parse(const struct choice *table, int count, int argc, char **argv)
{
	struct option longs[MAX_OPTIONS + 2] = { { "help", no_argument, NULL, 'h' } };
	for (int i = 0; i < count; i++)
		longs[i + 1] = (struct option){
			table[i].name, table[i].kind == SWITCH ? no_argument : required_argument, NULL, 0,
		};
	int c, which = 0;
	while ((c = getopt_long(argc, argv, "h", longs, &which)) != -1) {
		if (c == 'h') {
			fputs(usage, stdout);
			exit(0);
		}
		if (c != 0)
			exit(2);
		store(&table[which - 1], optarg);
	}
	if (optind < argc)
		usage_error("unexpected argument: %s", argv[optind]);
}

struct options parse_options(int argc, char **argv)
{
	struct options o = {
		.dir = device_dir(), .name = "Simulated GPU", .gpus = 1,
		.memory = (uint64_t)16 << 30, .reserved = (uint64_t)300 << 20,
		.slice = 2000000, .switch_cost = 100000, .period = 100000000, .merge = 1000000,
		.swap_rate = (uint64_t)5 << 30,
	};
	const struct choice table[] = {
		{ "dir", TEXT, &o.dir },	 { "seed", TEXT, &o.seed },
		{ "name", TEXT, &o.name },	 { "minors", TEXT, &o.minors },
		{ "gpus", NUMBER, &o.gpus },	 { "mig", NUMBER, &o.mig },
		{ "memory", SIZE, &o.memory },	 { "reserved", SIZE, &o.reserved },
		{ "context", SIZE, &o.context }, { "swap-rate", SIZE, &o.swap_rate },
		{ "slice", TIME, &o.slice },	 { "switch", TIME, &o.switch_cost },
		{ "period", TIME, &o.period },	 { "merge", TIME, &o.merge },
		{ "lag", TIME, &o.lag },	 { "background", SWITCH, &o.background },
		{ "until-eof", SWITCH, &o.until_eof },
	};
	parse(table, sizeof table / sizeof table[0], argc, argv);
	check(&o);
	if (o.seed == NULL)
		o.seed = o.dir;
	return o;
}
