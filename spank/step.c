/*
 * In slurmstepd. A step that asks to be packed is announced before its tasks
 * are forked, each task is registered before it may exec, and its end is told.
 * A step that does not ask costs a look at one variable.
 */
#include "gimbal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

/* Slurm's step that only holds the job's cgroup: it has no task of the user. */
#define EXTERN_STEP 0xfffffffcu
/* The step that runs a batch script. */
#define BATCH_STEP 0xfffffffbu

/* What names the GPUs; Slurm sets it for a step that it gave any. */
#define VISIBLE_VAR "CUDA_VISIBLE_DEVICES"

/* A task that was told of, by pid; slurmstepd reaps it before it tells its end. */
struct known { pid_t pid; uint64_t start; };

static struct {
	bool begun, packed;
	pid_t registered, exited; /* the last task that was told of */
	struct known *tasks;
	size_t task_count;
	struct plugstack args;
	struct step_facts facts;
} step;

/* The parameters of the request at hand. */
static char params[REQUEST_SIZE];

/* ---- what Slurm knows of the step ---- */

/* The value of a variable of the job, "" when it has none or a monstrous one. */
static const char *job_env(spank_t sp, const char *name, char *buf, size_t size)
{
	buf[0] = '\0';
	if (spank_getenv(sp, name, buf, (int)size) != ESPANK_SUCCESS)
		buf[0] = '\0';
	return buf;
}

/* A variable that holds a number, or what it is when it does not. */
static int64_t job_env_number(spank_t sp, const char *name, int64_t otherwise)
{
	char text[24], *end;

	job_env(sp, name, text, sizeof text);
	if (text[0] < '0' || text[0] > '9')
		return otherwise;
	long long n = strtoll(text, &end, 10);
	return *end == '\0' ? n : otherwise;
}

static uint32_t item_u32(spank_t sp, spank_item_t item, uint32_t otherwise)
{
	uint32_t value = otherwise;

	return spank_get_item(sp, item, &value) == ESPANK_SUCCESS ? value : otherwise;
}

/* Component i of the het job by what srun, Slurm or older Slurms call it, or 0. */
static uint32_t het_component(spank_t sp, const char *list, int i)
{
	static const char *const words[] = { "HET", "PACK" };
	char name[48];

	for (size_t n = 0; n < sizeof words / sizeof words[0]; n++) {
		snprintf(name, sizeof name, "SLURM_JOB_ID_%s_GROUP_%d", words[n], i);
		int64_t id = job_env_number(sp, name, 0);
		if (id > 0)
			return (uint32_t)id;
	}
	for (; i > 0 && list; i--)
		list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL;
	return list ? (uint32_t)strtoul(list, NULL, 10) : 0;
}

/* Which component of which het job the step's job is, if it is one. */
static void gather_het(spank_t sp, struct step_facts *f)
{
	char list[VALUE_MOST + 1];

	job_env(sp, GIMBAL_HET_VAR, list, sizeof list);
	f->het_job = 0;
	f->het_offset = GIMBAL_NO_VAL;
	for (int i = 0; i < HET_COMPONENTS; i++) {
		uint32_t id = het_component(sp, list, i);
		if (id == 0)
			return;
		if (id == f->job) {
			f->het_job = het_component(sp, list, 0);
			f->het_offset = (uint32_t)i;
			return;
		}
	}
}

static void gather_numbers(spank_t sp, struct step_facts *f)
{
	uid_t uid;
	gid_t gid;

	f->uid = spank_get_item(sp, S_JOB_UID, &uid) == ESPANK_SUCCESS ? uid : GIMBAL_NO_VAL;
	f->gid = spank_get_item(sp, S_JOB_GID, &gid) == ESPANK_SUCCESS ? gid : GIMBAL_NO_VAL;
	f->array_task = item_u32(sp, S_JOB_ARRAY_TASK_ID, GIMBAL_NO_VAL);
	f->array_job = f->array_task == GIMBAL_NO_VAL ? 0 : item_u32(sp, S_JOB_ARRAY_ID, 0);
	gather_het(sp, f);
	f->tasks = item_u32(sp, S_JOB_LOCAL_TASK_COUNT, 0);
	f->nnodes = (uint32_t)job_env_number(sp, "SLURM_JOB_NUM_NODES", 0);
	if (f->nnodes == 0)
		f->nnodes = item_u32(sp, S_JOB_NNODES, 0);
	f->node = item_u32(sp, S_JOB_NODEID, 0);
	f->restart = item_u32(sp, S_SLURM_RESTART_COUNT, 0);
	f->end_time = job_env_number(sp, "SLURM_JOB_END_TIME", 0);
	f->shards = (uint32_t)job_env_number(sp, "SLURM_SHARDS_ON_NODE", 0);
}

/* A text of the job's environment, into one of the facts. */
#define TEXT_OF(sp, fact, name) job_env(sp, name, fact, sizeof(fact))

static void gather_texts(spank_t sp, struct step_facts *f)
{
	f->gpus_from = "SLURM_STEP_GPUS";
	if (!*TEXT_OF(sp, f->gpus, f->gpus_from)) {
		f->gpus_from = "SLURM_JOB_GPUS";
		TEXT_OF(sp, f->gpus, f->gpus_from);
	}
	if (!*f->gpus)
		f->gpus_from = "";
	TEXT_OF(sp, f->visible, VISIBLE_VAR);
	TEXT_OF(sp, f->user, "SLURM_JOB_USER");
	TEXT_OF(sp, f->account, "SLURM_JOB_ACCOUNT");
	TEXT_OF(sp, f->partition, "SLURM_JOB_PARTITION");
	/* A script that came by standard input, and no name: sbatch says none in the
	 * environment, and calls the job by its own. */
	if (!*TEXT_OF(sp, f->job_name, "SLURM_JOB_NAME") && f->step == BATCH_STEP)
		strcpy(f->job_name, "sbatch");
}

/* Where the node's name does not fit, %n stays, and nobody listens there. */
static void take_arguments(const struct plugstack *args)
{
	const char *node = getenv("SLURMD_NODENAME");

	step.args = *args;
	if (!plugstack_path(step.args.socket, sizeof step.args.socket, args->socket, node))
		strcpy(step.args.socket, args->socket);
	if (!plugstack_path(step.args.pending, sizeof step.args.pending, args->pending, node))
		strcpy(step.args.pending, args->pending);
}

static void gather(spank_t sp, struct step_facts *f)
{
	char text[8];

	gather_numbers(sp, f);
	gather_texts(sp, f);
	f->own = strcmp(job_env(sp, GIMBAL_OWN_VAR, text, sizeof text), "1") == 0;
	f->pty = *job_env(sp, "SLURM_PTY_PORT", text, sizeof text) != '\0';
}

/*
 * The canonical value is in the variable that carries the option; Slurm's call
 * back has what the user wrote, and is all there is under --export=NIL.
 */
static void take_options(spank_t sp)
{
	char text[OPTION_SIZE], canonical[OPTION_SIZE];

	for (int id = 0; id < OPT_COUNT; id++) {
		const struct option_spec *spec = &option_specs[id];
		if (spank_getenv(sp, spec->carrier, text, sizeof text) == ESPANK_SUCCESS && spec->check(text, canonical))
			option_set((enum option_id)id, canonical);
		const char *value = option_value((enum option_id)id);
		snprintf(step.facts.options[id], OPTION_SIZE, "%s", value ? value : "");
	}
}

/* ---- the tasks' environment ---- */

/* Puts the GPUs that gimbald chose in the place of those that Slurm did. */
static void place(spank_t sp, const char *gpus)
{
	struct step_facts *f = &step.facts;

	if (!f->shards || !*f->gpus || !*f->visible || strlen(gpus) > VALUE_MOST)
		return;
	if (spank_setenv(sp, VISIBLE_VAR, gpus, 1) == ESPANK_SUCCESS)
		strcpy(f->placed, gpus);
}

/* What the tasks are given, as GIMBAL_GIVEN_VAR has it. */
struct given {
	char list[4096];
	size_t used;
};

/* Sets a variable, unless the user did, and notes it. */
static void give(spank_t sp, struct given *g, const char *name, const char *value)
{
	if (spank_setenv(sp, name, value, 0) != ESPANK_SUCCESS)
		return;
	size_t room = sizeof g->list - g->used;
	int n = snprintf(g->list + g->used, room, "%s%s=%s", g->used ? ";" : "", name, value);

	if (n > 0 && (size_t)n < room)
		g->used += (size_t)n;
	else
		g->list[g->used] = '\0';
}

static void set_environment(spank_t sp, struct given *g, const char *env)
{
	char name[128];

	for (; *env; env += strlen(env) + 1) {
		const char *equals = strchr(env, '=');
		if (!equals || (size_t)(equals - env) >= sizeof name)
			continue;
		memcpy(name, env, (size_t)(equals - env));
		name[equals - env] = '\0';
		if (strcmp(name, VISIBLE_VAR) == 0)
			place(sp, equals + 1);
		else
			give(sp, g, name, equals + 1);
	}
}

/* Names the file into which the job may write its progress, if gimbald made one. */
static void offer_progress(spank_t sp)
{
	char path[sizeof step.args.socket + 48];
	const char *end = strrchr(step.args.socket, '/');
	int folder = end ? (int)(end - step.args.socket) : 0;
	int n = snprintf(path, sizeof path, "%.*s/progress/%u.%u", folder, step.args.socket, step.facts.job, step.facts.step);

	if (n > 0 && (size_t)n < sizeof path && access(path, F_OK) == 0)
		spank_setenv(sp, "GIMBAL_PROGRESS", path, 1);
	else
		spank_unsetenv(sp, "GIMBAL_PROGRESS"); /* of the step that this one is inside */
}

/* Announces the step and gives its tasks what the daemon wants them to have. */
static void prepare(spank_t sp)
{
	struct gimbal_core_reply reply = { .active = 0 };
	struct given given = { .used = 0 };

	if (spank_getenv(sp, GIMBAL_GIVEN_VAR, given.list, sizeof given.list) == ESPANK_SUCCESS)
		given.used = strlen(given.list); /* by the batch step */
	else
		*given.list = '\0';
	if (request_prepare(params, &step.facts))
		tell(TELL_PREPARE, &step.args, params, &reply);
	spank_setenv(sp, "GIMBAL_REQUESTED", step.facts.options[OPT_PACK], 1);
	/* So that index 0 means the same to CUDA and to NVML. */
	give(sp, &given, "CUDA_DEVICE_ORDER", "PCI_BUS_ID");
	if (reply.active)
		spank_setenv(sp, "GIMBAL_ACTIVE", "1", 1);
	else
		spank_unsetenv(sp, "GIMBAL_ACTIVE");
	offer_progress(sp);
	set_environment(sp, &given, reply.env);
	if (given.used)
		spank_setenv(sp, GIMBAL_GIVEN_VAR, given.list, 1);
}

/* ---- hooks ---- */

void step_post_opt(spank_t sp, const struct plugstack *args)
{
	struct step_facts *f = &step.facts;

	if (step.begun)
		return;
	step.begun = true;
	take_options(sp);
	if (!options_packed()) {
		if (option_value(OPT_PACK)) /* off inside a packed job */
			spank_unsetenv(sp, "GIMBAL_ACTIVE");
		return;
	}
	f->job = item_u32(sp, S_JOB_ID, 0);
	f->step = item_u32(sp, S_JOB_STEPID, GIMBAL_NO_VAL);
	if (f->job == 0 || f->step == GIMBAL_NO_VAL || f->step == EXTERN_STEP)
		return;
	step.packed = true;
	take_arguments(args);
	gather(sp, f);
	spank_unsetenv(sp, GIMBAL_OWN_VAR);
	spank_unsetenv(sp, GIMBAL_HET_VAR);
	prepare(sp);
}

/* What is known of the task that the hook is called for; false: nothing. */
static bool task_facts(spank_t sp, struct task_facts *task)
{
	pid_t pid = 0;
	int local = 0;

	*task = (struct task_facts){ .start = 0 };
	if (!step.packed)
		return false;
	if (spank_get_item(sp, S_TASK_PID, &pid) != ESPANK_SUCCESS || pid <= 1)
		return false;
	if (spank_get_item(sp, S_TASK_ID, &local) != ESPANK_SUCCESS || local < 0)
		local = 0;
	task->pid = pid;
	task->local = (uint32_t)local;
	task->global = item_u32(sp, S_TASK_GLOBAL_ID, task->local);
	return true;
}

static void remember(const struct task_facts *task)
{
	struct known *grown = realloc(step.tasks, (step.task_count + 1) * sizeof *grown);

	if (!grown)
		return;
	step.tasks = grown;
	step.tasks[step.task_count++] = (struct known){ task->pid, task->start };
}

/* The start time of a task that ended, 0 when it was never registered. */
static uint64_t recall(pid_t pid)
{
	for (size_t i = 0; i < step.task_count; i++)
		if (step.tasks[i].pid == pid)
			return step.tasks[i].start;
	return 0;
}

void step_task_post_fork(spank_t sp)
{
	struct gimbal_core_reply reply;
	struct task_facts task;

	if (!task_facts(sp, &task) || task.pid == step.registered)
		return;
	step.registered = task.pid;
	if (!request_register(params, &step.facts, &task)) {
		slurm_info("gimbal: task %u of job %u is not registered: %s", task.global, step.facts.job, strerror(errno));
		return;
	}
	remember(&task);
	tell(TELL_REGISTER, &step.args, params, &reply);
}

void step_task_exit(spank_t sp)
{
	struct gimbal_core_reply reply;
	struct task_facts task;

	if (!task_facts(sp, &task) || task.pid == step.exited)
		return;
	step.exited = task.pid;
	task.start = recall(task.pid);
	if (spank_get_item(sp, S_TASK_EXIT_STATUS, &task.status) != ESPANK_SUCCESS)
		task.status = 0;
	request_task_exit(params, &step.facts, &task);
	tell(TELL_TASK_EXIT, &step.args, params, &reply);
}

void step_exit(void)
{
	struct gimbal_core_reply reply;

	if (step.packed) {
		request_step_end(params, &step.facts);
		tell(TELL_STEP_END, &step.args, params, &reply);
	}
	step.packed = false;
}
