/*
 * The library that Slurm loads. Every hook asks in which process it is and
 * hands on; after submission none of them ever fails a job.
 */
#include "gimbal.h"

#pragma GCC visibility push(default)
SPANK_PLUGIN(gimbal, 1)
#pragma GCC visibility pop

static struct plugstack args;

/* A second copy in the same process, or one whose init was never called. */
static bool inert = true;

/*
 * Two lines with the same path are one copy whose hooks are all called twice:
 * the second call of each finds nothing left to do.
 */
static bool initialised;

static void complain_in_log(const char *arg)
{
	slurm_error("gimbal: plugstack argument %s is not understood, ignored", arg);
}

int slurm_spank_init(spank_t sp, int ac, char *argv[])
{
	spank_context_t context = spank_context();

	if (initialised)
		return ESPANK_SUCCESS;
	initialised = true;
	inert = context == S_CTX_ERROR || plugstack_loaded_twice();
	if (inert)
		return ESPANK_SUCCESS;
	/* slurmd says it once for the node; the others would repeat it to users. */
	plugstack_parse(&args, ac, argv, context == S_CTX_SLURMD ? complain_in_log : NULL);
	if (context == S_CTX_LOCAL || context == S_CTX_ALLOCATOR)
		submit_init(sp);
	if (context != S_CTX_SLURMD)
		options_register(sp);
	return ESPANK_SUCCESS;
}

int slurm_spank_init_post_opt(spank_t sp, int ac, char *argv[])
{
	(void)ac, (void)argv;
	if (inert)
		return ESPANK_SUCCESS;
	switch (spank_context()) {
	case S_CTX_LOCAL:
	case S_CTX_ALLOCATOR:
		submit_post_opt(sp);
		break;
	case S_CTX_REMOTE:
		step_post_opt(sp, &args);
		break;
	default:
		break;
	}
	return ESPANK_SUCCESS;
}

/*
 * There are no task_init hooks: they run in the forked child, and all that a
 * task needs is in its environment before the fork.
 */

int slurm_spank_task_post_fork(spank_t sp, int ac, char *argv[])
{
	(void)ac, (void)argv;
	if (!inert)
		step_task_post_fork(sp);
	return ESPANK_SUCCESS;
}

int slurm_spank_task_exit(spank_t sp, int ac, char *argv[])
{
	(void)ac, (void)argv;
	if (!inert)
		step_task_exit(sp);
	return ESPANK_SUCCESS;
}

int slurm_spank_exit(spank_t sp, int ac, char *argv[])
{
	(void)sp, (void)ac, (void)argv;
	if (!inert && spank_context() == S_CTX_REMOTE)
		step_exit();
	return ESPANK_SUCCESS;
}
