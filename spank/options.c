/* The options: what they are called, and which values are in force. */
#include "gimbal.h"

#include <stdio.h>
#include <string.h>

/* How Slurm names the variables that carry an option to a job's steps. */
#define CONTROL(opt) "_SLURM_SPANK_OPTION_gimbal_gimbal_" opt
#define CARRIER(opt) "SLURM_SPANK_" CONTROL(opt)

const struct option_spec option_specs[OPT_COUNT] = {
	[OPT_PACK] = {
		"gimbal-pack", "GIMBAL_PACK", CARRIER("pack"), CONTROL("pack"), "[POLICY|off]",
		"share the GPUs with other packed jobs, under the node's policy or POLICY", 2, check_pack,
		"nothing, a policy's name (a-z, 0-9, _ and -, from a letter on, at most 32), or off",
	},
	[OPT_MEMORY] = {
		"gimbal-memory", "GIMBAL_MEMORY", CARRIER("memory"), CONTROL("memory"), "SIZE",
		"peak GPU memory that the job will use on each GPU, such as 16GiB", 1, check_memory,
		"a size with its unit, K, M, G or T (powers of 1024), such as 16GiB, 500M or 1.5T",
	},
	[OPT_CLASS] = {
		"gimbal-class", "GIMBAL_CLASS", CARRIER("class"), CONTROL("class"), "CLASS",
		"guaranteed or opportunistic", 1, check_class,
		"guaranteed or opportunistic",
	},
	[OPT_WEIGHT] = {
		"gimbal-weight", "GIMBAL_WEIGHT", CARRIER("weight"), CONTROL("weight"), "N",
		"share of GPU time relative to other jobs", 1, check_weight,
		"a whole number from 1 to 10000",
	},
	[OPT_DEADLINE] = {
		"gimbal-deadline", "GIMBAL_DEADLINE", CARRIER("deadline"), CONTROL("deadline"), "TIME",
		"when the job should be done, in the forms of --deadline, such as now+2hours", 1, check_deadline,
		"a time to come: HH:MM[:SS] [AM|PM], YYYY-MM-DD[THH:MM[:SS]], MM/DD[/YY][-HH:MM[:SS]], "
		"now+N[seconds|minutes|hours|days|weeks], tomorrow, noon, ...",
	},
	[OPT_SIGNAL] = {
		"gimbal-signal", "GIMBAL_SIGNAL", CARRIER("signal"), CONTROL("signal"), "SIG[@SECONDS]",
		"signal to send before the job is evicted or asked to shrink, and how long before", 1, check_signal,
		"SIG[@SECONDS]: a signal's name or number, but KILL, STOP and CONT, and 0 to 65535 seconds",
	},
	[OPT_MAX_PAUSE] = {
		.env = "GIMBAL_MAX_PAUSE", .carrier = "SLURM_SPANK_GIMBAL_MAX_PAUSE", .check = check_pause,
		.allowed = "a time with its unit, from 1s to 24h, such as 30s or 1m30s",
	},
};

static struct {
	bool set, own;
	bool inherited_first;  /* the next call is for what the environment holds */
	const char *inherited; /* and that is this */
	char value[OPTION_SIZE];
} state[OPT_COUNT];

const char *option_value(enum option_id id)
{
	return state[id].set ? state[id].value : NULL;
}

void option_set(enum option_id id, const char *canonical)
{
	state[id].set = true;
	snprintf(state[id].value, OPTION_SIZE, "%s", canonical);
}

bool option_is_own(enum option_id id)
{
	return state[id].own;
}

void option_expect_inherited(enum option_id id, const char *value)
{
	state[id].inherited_first = true;
	state[id].inherited = value;
}

bool options_packed(void)
{
	return state[OPT_PACK].set && strcmp(state[OPT_PACK].value, "off") != 0;
}

/* In slurmstepd: what was checked at submission is only taken up. */
static int take_remote(enum option_id id, const char *value)
{
	char canonical[OPTION_SIZE];

	if (option_specs[id].check(value, canonical))
		option_set(id, canonical);
	else
		slurm_debug("gimbal: --%s: malformed value from the submitting host, ignored", option_specs[id].name);
	return 0;
}

/*
 * Whether a call at submission is for the value in the environment. Slurm
 * makes it before it looks at the command line, and in a het job once more for
 * each component; there only a value of its own tells the command line apart.
 */
static bool is_inherited(enum option_id id, const char *value)
{
	bool first = state[id].inherited_first;

	state[id].inherited_first = false;
	if (first)
		return true;
	return state[id].inherited && in_het_job() && strcmp(value ? value : "", state[id].inherited) == 0;
}

static int take_local(enum option_id id, const char *value)
{
	const struct option_spec *spec = &option_specs[id];
	bool inherited = is_inherited(id, value);
	char canonical[OPTION_SIZE];

	if (spec->check(value, canonical)) {
		if (inherited && state[id].own)
			return 0; /* what the command line said stands */
		option_set(id, canonical);
		state[id].own |= !inherited;
		return 0;
	}
	if (inherited) {
		slurm_error("gimbal: ignoring malformed %s in the environment; allowed is %s", spec->carrier, spec->allowed);
		return 0;
	}
	slurm_error("--%s=%.60s: allowed is %s", spec->name, value ? value : "", spec->allowed);
	return -1;
}

static int option_callback(int val, const char *value, int remote)
{
	if (val < 0 || val >= OPT_COUNT)
		return 0;
	return remote ? take_remote((enum option_id)val, value) : take_local((enum option_id)val, value);
}

void options_register(spank_t sp)
{
	for (int id = 0; id < OPT_COUNT; id++) {
		const struct option_spec *spec = &option_specs[id];
		if (!spec->name)
			continue;
		/* Slurm copies the struct and never writes to the strings. */
		struct spank_option option = {
			.name = (char *)spec->name,
			.arginfo = (char *)spec->arginfo,
			.usage = (char *)spec->usage,
			.has_arg = spec->has_arg,
			.val = id,
			.cb = option_callback,
		};
		if (spank_option_register(sp, &option) != ESPANK_SUCCESS)
			slurm_debug("gimbal: --%s could not be registered", spec->name);
	}
}
