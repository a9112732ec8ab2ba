/*
 * In slurmstepd. A step that asks to be packed is announced before its tasks
 * are forked, each task is registered before it may exec, and its end is told.
 * A step that does not ask costs a look at one variable.
 */
#include "gimbal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

/* Slurm's step that only holds the job's cgroup: it has no task of the user. */
#define EXTERN_STEP 0xfffffffcu

/* A longer value is no value: none of these is in earnest. */
#define VALUE_MOST 1024

/* The strings of the request; they live as long as the process. */
enum text { TEXT_GPUS, TEXT_VISIBLE, TEXT_USER, TEXT_ACCOUNT, TEXT_PARTITION, TEXT_JOB_NAME, TEXT_COUNT };

static struct {
	bool begun, packed;
	pid_t registered, exited; /* the last task that was told of */
	struct gimbal_core_request request;
	char text[TEXT_COUNT][VALUE_MOST + 1];
	char options[OPT_COUNT][OPTION_SIZE];
	char socket[sizeof(((struct plugstack *)0)->socket)];
	char pending[sizeof(((struct plugstack *)0)->pending)];
} step;

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
static void gather_het(spank_t sp, struct gimbal_core_request *r)
{
	char list[VALUE_MOST + 1];

	job_env(sp, GIMBAL_HET_VAR, list, sizeof list);
	r->het_job = 0;
	r->het_offset = GIMBAL_NO_VAL;
	for (int i = 0; i < HET_COMPONENTS; i++) {
		uint32_t id = het_component(sp, list, i);
		if (id == 0)
			return;
		if (id == r->job) {
			r->het_job = het_component(sp, list, 0);
			r->het_offset = (uint32_t)i;
			return;
		}
	}
}

static void gather_numbers(spank_t sp, struct gimbal_core_request *r)
{
	uid_t uid;
	gid_t gid;

	r->uid = spank_get_item(sp, S_JOB_UID, &uid) == ESPANK_SUCCESS ? uid : GIMBAL_NO_VAL;
	r->gid = spank_get_item(sp, S_JOB_GID, &gid) == ESPANK_SUCCESS ? gid : GIMBAL_NO_VAL;
	r->array_task = item_u32(sp, S_JOB_ARRAY_TASK_ID, GIMBAL_NO_VAL);
	r->array_job = r->array_task == GIMBAL_NO_VAL ? 0 : item_u32(sp, S_JOB_ARRAY_ID, 0);
	gather_het(sp, r);
	r->tasks = item_u32(sp, S_JOB_LOCAL_TASK_COUNT, 0);
	r->nnodes = (uint32_t)job_env_number(sp, "SLURM_JOB_NUM_NODES", 0);
	if (r->nnodes == 0)
		r->nnodes = item_u32(sp, S_JOB_NNODES, 0);
	r->node = item_u32(sp, S_JOB_NODEID, 0);
	r->restart = item_u32(sp, S_SLURM_RESTART_COUNT, 0);
	r->end_time = job_env_number(sp, "SLURM_JOB_END_TIME", 0);
}

static const char *text_of(spank_t sp, enum text which, const char *name)
{
	return job_env(sp, name, step.text[which], sizeof step.text[which]);
}

static void gather_texts(spank_t sp, struct gimbal_core_request *r)
{
	r->gpus_from = "SLURM_STEP_GPUS";
	r->gpus = text_of(sp, TEXT_GPUS, r->gpus_from);
	if (!*r->gpus) {
		r->gpus_from = "SLURM_JOB_GPUS";
		r->gpus = text_of(sp, TEXT_GPUS, r->gpus_from);
	}
	if (!*r->gpus)
		r->gpus_from = "";
	r->visible = text_of(sp, TEXT_VISIBLE, "CUDA_VISIBLE_DEVICES");
	r->user = text_of(sp, TEXT_USER, "SLURM_JOB_USER");
	r->account = text_of(sp, TEXT_ACCOUNT, "SLURM_JOB_ACCOUNT");
	r->partition = text_of(sp, TEXT_PARTITION, "SLURM_JOB_PARTITION");
	r->job_name = text_of(sp, TEXT_JOB_NAME, "SLURM_JOB_NAME");
}

static void gather(spank_t sp, struct gimbal_core_request *r, const struct plugstack *args)
{
	const char *node = getenv("SLURMD_NODENAME");
	char text[8];

	/* Where the name does not fit %n stays, and nobody listens there. */
	if (!plugstack_path(step.socket, sizeof step.socket, args->socket, node))
		strcpy(step.socket, args->socket);
	if (!plugstack_path(step.pending, sizeof step.pending, args->pending, node))
		strcpy(step.pending, args->pending);
	r->socket = step.socket;
	r->pending = step.pending;
	r->timeout_ms = args->timeout_ms;
	gather_numbers(sp, r);
	gather_texts(sp, r);
	r->pack = step.options[OPT_PACK];
	r->memory = step.options[OPT_MEMORY];
	r->class_ = step.options[OPT_CLASS];
	r->weight = step.options[OPT_WEIGHT];
	r->deadline = step.options[OPT_DEADLINE];
	r->signal = step.options[OPT_SIGNAL];
	r->own = strcmp(job_env(sp, GIMBAL_OWN_VAR, text, sizeof text), "1") == 0;
	r->pty = *job_env(sp, "SLURM_PTY_PORT", text, sizeof text) != '\0';
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
		snprintf(step.options[id], OPTION_SIZE, "%s", value ? value : "");
	}
}

/* ---- the tasks' environment ---- */

static void set_environment(spank_t sp, const char *env)
{
	char name[128];

	for (; *env; env += strlen(env) + 1) {
		const char *equals = strchr(env, '=');
		if (!equals || (size_t)(equals - env) >= sizeof name)
			continue;
		memcpy(name, env, (size_t)(equals - env));
		name[equals - env] = '\0';
		spank_setenv(sp, name, equals + 1, 1);
	}
}

/* Announces the step and gives its tasks what the daemon wants them to have. */
static void prepare(spank_t sp, const char *core)
{
	struct gimbal_core_reply reply = { .active = 0 };

	if (core_load(core))
		core_call(CORE_PREPARE, &step.request, &reply);
	if (reply.message[0])
		slurm_info("gimbal: %s", reply.message);
	spank_setenv(sp, "GIMBAL_REQUESTED", step.request.pack, 1);
	/* So that index 0 means the same to CUDA and to NVML. */
	spank_setenv(sp, "CUDA_DEVICE_ORDER", "PCI_BUS_ID", 0);
	if (reply.active)
		spank_setenv(sp, "GIMBAL_ACTIVE", "1", 1);
	else
		spank_unsetenv(sp, "GIMBAL_ACTIVE");
	set_environment(sp, reply.env);
}

/* ---- hooks ---- */

void step_post_opt(spank_t sp, const struct plugstack *args)
{
	struct gimbal_core_request *r = &step.request;

	if (step.begun)
		return;
	step.begun = true;
	take_options(sp);
	if (!options_packed()) {
		if (option_value(OPT_PACK)) /* off inside a packed job */
			spank_unsetenv(sp, "GIMBAL_ACTIVE");
		return;
	}
	r->job = item_u32(sp, S_JOB_ID, 0);
	r->step = item_u32(sp, S_JOB_STEPID, GIMBAL_NO_VAL);
	if (r->job == 0 || r->step == GIMBAL_NO_VAL || r->step == EXTERN_STEP)
		return;
	step.packed = true;
	gather(sp, r, args);
	spank_unsetenv(sp, GIMBAL_OWN_VAR);
	spank_unsetenv(sp, GIMBAL_HET_VAR);
	prepare(sp, args->core);
}

/* The request with what is known of the task that the hook is called for. */
static bool task_request(spank_t sp, struct gimbal_core_request *r)
{
	pid_t pid = 0;
	int local = 0;

	if (!step.packed)
		return false;
	*r = step.request;
	if (spank_get_item(sp, S_TASK_PID, &pid) != ESPANK_SUCCESS || pid <= 1)
		return false;
	if (spank_get_item(sp, S_TASK_ID, &local) != ESPANK_SUCCESS || local < 0)
		local = 0;
	r->pid = pid;
	r->local_task = (uint32_t)local;
	r->task = item_u32(sp, S_TASK_GLOBAL_ID, r->local_task);
	return true;
}

static void tell(enum core_op op, const struct gimbal_core_request *r)
{
	struct gimbal_core_reply reply;

	core_call(op, r, &reply);
	if (reply.message[0])
		slurm_info("gimbal: %s", reply.message);
}

void step_task_post_fork(spank_t sp)
{
	struct gimbal_core_request r;

	if (!task_request(sp, &r) || r.pid == step.registered)
		return;
	step.registered = r.pid;
	tell(CORE_REGISTER, &r);
}

void step_task_exit(spank_t sp)
{
	struct gimbal_core_request r;

	if (!task_request(sp, &r) || r.pid == step.exited)
		return;
	step.exited = r.pid;
	if (spank_get_item(sp, S_TASK_EXIT_STATUS, &r.status) != ESPANK_SUCCESS)
		r.status = 0;
	tell(CORE_TASK_EXIT, &r);
}

void step_exit(void)
{
	if (step.packed)
		tell(CORE_STEP_END, &step.request);
	step.packed = false;
}
