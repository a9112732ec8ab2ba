/*
 * In srun, sbatch and salloc. What GIMBAL_* variables ask for is put where
 * Slurm looks for options that a job inherits; so it takes the same way to the
 * node as an option does, whatever --export says.
 */
#include "gimbal.h"

#include <stdlib.h>
#include <string.h>

/* Set by srun for its own step when its command line carries --gimbal-pack. */
#define OWN "SLURM_SPANK_GIMBAL_OWN"

/* Offers one variable's value as an inherited option. */
static void take_variable(const struct option_spec *spec)
{
	const char *value = getenv(spec->env);
	char canonical[OPTION_SIZE];

	if (!value || !*value || getenv(spec->carrier))
		return;
	if (!spec->check(value, canonical)) {
		slurm_error("gimbal: ignoring %s=%.60s: allowed is %s", spec->env, value, spec->allowed);
		/* The sruns inside the job need not say it again. */
		unsetenv(spec->env);
		return;
	}
	/* "off" is what a job is anyway. */
	if (strcmp(canonical, "off") != 0)
		setenv(spec->carrier, canonical, 0);
}

void submit_init(spank_t sp)
{
	(void)sp;
	for (int id = 0; id < OPT_COUNT; id++) {
		take_variable(&option_specs[id]);
		if (getenv(option_specs[id].carrier))
			option_expect_inherited((enum option_id)id);
	}
}

/*
 * Sends the canonical value in place of what the user wrote: a relative
 * deadline is resolved here and now, not where and when the job starts.
 */
static void send_option(spank_t sp, enum option_id id)
{
	const struct option_spec *spec = &option_specs[id];
	const char *value = option_value(id);

	if (!value)
		return;
	setenv(spec->carrier, value, 1);
	if (spank_context() == S_CTX_ALLOCATOR)
		spank_job_control_setenv(sp, spec->control, value, 1);
}

static void warn_without_pack(void)
{
	for (int id = 0; id < OPT_COUNT; id++)
		if (id != OPT_PACK && option_is_own((enum option_id)id))
			slurm_error("gimbal: --%s has no effect without --gimbal-pack", option_specs[id].name);
}

/*
 * A step with an option of its own is packed by itself. An srun that makes its
 * own allocation asks for the whole job.
 */
static void mark_own(void)
{
	if (spank_context() == S_CTX_LOCAL && option_is_own(OPT_PACK) && getenv("SLURM_JOB_ID"))
		setenv(OWN, "1", 1);
	else
		unsetenv(OWN);
}

void submit_post_opt(spank_t sp)
{
	for (int id = 0; id < OPT_COUNT; id++)
		send_option(sp, (enum option_id)id);
	mark_own();
	/* What an enclosing job was told of itself says nothing of this one. */
	unsetenv("GIMBAL_ACTIVE");
	if (options_packed()) {
		setenv("GIMBAL_REQUESTED", option_value(OPT_PACK), 1);
	} else {
		unsetenv("GIMBAL_REQUESTED");
		warn_without_pack();
	}
}
