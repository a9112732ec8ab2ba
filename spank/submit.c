/*
 * In srun, sbatch and salloc. What GIMBAL_* variables ask for is put where
 * Slurm looks for options that a job inherits; so it takes the same way to the
 * node as an option does, whatever --export says.
 */
#include "gimbal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Offers one variable's value as an inherited option. What is inherited already
 * may be an option's, and stands; where there is no such option the variable of
 * today wins over that of the enclosing job.
 */
static void take_variable(const struct option_spec *spec)
{
	const char *value = getenv(spec->env);
	char canonical[OPTION_SIZE];

	if (!value || !*value || (spec->name && getenv(spec->carrier)))
		return;
	if (!spec->check(value, canonical)) {
		slurm_error("gimbal: ignoring %s=%.60s: allowed is %s", spec->env, value, spec->allowed);
		/* The sruns inside the job need not say it again. */
		unsetenv(spec->env);
		return;
	}
	/* "off" is what a job is anyway. */
	if (strcmp(canonical, "off") != 0)
		setenv(spec->carrier, canonical, 1);
}

bool in_het_job(void)
{
	return getenv("SLURM_HET_SIZE") != NULL;
}

/* Takes away what the enclosing job was given, but for what its user has set anew. */
static void drop_given(void)
{
	const char *given = getenv(GIMBAL_GIVEN_VAR);
	char *list = given ? strdup(given) : NULL, *rest = NULL;

	for (char *entry = list ? strtok_r(list, ";", &rest) : NULL; entry; entry = strtok_r(NULL, ";", &rest)) {
		char *equals = strchr(entry, '=');
		if (!equals)
			continue;
		*equals = '\0';
		const char *now = getenv(entry);
		if (now && strcmp(now, equals + 1) == 0)
			unsetenv(entry);
	}
	free(list);
	unsetenv(GIMBAL_GIVEN_VAR);
}

/*
 * A job that is submitted from inside another has nothing of that one's options but
 * what any exported variable gives: Slurm would take what carries them for the new
 * job's own, over its directives.
 */
static void leave_enclosing_job(void)
{
	for (int id = 0; id < OPT_COUNT; id++)
		unsetenv(option_specs[id].carrier);
	drop_given();
}

void submit_init(spank_t sp)
{
	(void)sp;
	if (spank_context() == S_CTX_ALLOCATOR)
		leave_enclosing_job();
	for (int id = 0; id < OPT_COUNT; id++) {
		const char *carried;
		take_variable(&option_specs[id]);
		if ((carried = getenv(option_specs[id].carrier)))
			option_expect_inherited((enum option_id)id, carried);
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
	bool in_job = getenv("SLURM_JOB_ID") || in_het_job();

	if (spank_context() == S_CTX_LOCAL && option_is_own(OPT_PACK) && in_job)
		setenv(GIMBAL_OWN_VAR, "1", 1);
	else
		unsetenv(GIMBAL_OWN_VAR);
}

/*
 * Inside a het allocation srun does not pass on which jobs it is made of: lists
 * them, in the order of the components.
 */
static void list_het_jobs(void)
{
	char name[48], list[HET_COMPONENTS * 12] = "";
	size_t used = 0;

	for (int i = 0; i < HET_COMPONENTS; i++) {
		snprintf(name, sizeof name, "SLURM_JOB_ID_HET_GROUP_%d", i);
		const char *id = getenv(name);
		if (!id || strlen(id) > 10)
			break;
		used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? "," : "", id);
	}
	if (used)
		setenv(GIMBAL_HET_VAR, list, 1);
	else
		unsetenv(GIMBAL_HET_VAR);
}

void submit_post_opt(spank_t sp)
{
	for (int id = 0; id < OPT_COUNT; id++)
		send_option(sp, (enum option_id)id);
	mark_own();
	if (options_packed()) {
		list_het_jobs();
		/* srun sets it anew for a terminal; that of an enclosing step is none of ours. */
		unsetenv("SLURM_PTY_PORT");
	}
	/* What an enclosing job was told of itself says nothing of this one. */
	unsetenv("GIMBAL_ACTIVE");
	unsetenv("GIMBAL_PROGRESS");
	if (options_packed()) {
		setenv("GIMBAL_REQUESTED", option_value(OPT_PACK), 1);
	} else {
		unsetenv("GIMBAL_REQUESTED");
		warn_without_pack();
	}
}
