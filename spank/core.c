/*
 * The Go library: loaded only in the slurmstepd of a packed step, only once it
 * is needed, and called so that nothing of its runtime shows in the process.
 *
 *   - Each call runs in a thread of its own with all signals blocked. So a
 *     signal for slurmstepd never lands in a thread of Go's, slurmstepd's own
 *     threads never enter Go, and a call that hangs can be left behind.
 *   - The runtime's signal handlers are in place only while a call runs.
 *   - It raises the soft limit on open files; that is undone.
 *   - A forked child never loads it nor calls it: Go does not survive a fork.
 */
#include "gimbal.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* How long the runtime may take to come up, and a call beyond its own bound. */
#define LOAD_MS 1000
#define GRACE_MS 250

#define SIGNALS 64

static const char *const call_names[CORE_OPS] = {
	[CORE_READ] = "gimbal_core_read",
	[CORE_LEAVE] = "gimbal_core_leave",
};

static struct {
	pid_t tried; /* that tried to load it; 0: none yet */
	bool loaded; /* and can call it */
	gimbal_core_call *calls[CORE_OPS];
	/* Handlers that the runtime installed: NULL where it installed none. */
	bool changed[SIGNALS + 1];
	struct sigaction go[SIGNALS + 1];
} core;

/* ---- a call in a thread of its own ---- */

struct job {
	int (*run)(struct job *);
	/* in */
	const char *path;
	enum core_op op;
	char *params, *answer; /* copies: the thread may outlive the call */
	struct gimbal_core_request request;
	/* out */
	struct gimbal_core_reply reply;
	int result;
	/* The last of caller and thread to leave frees it. */
	pthread_mutex_t lock;
	pthread_cond_t finished;
	bool done, abandoned;
};

static struct job *job_new(int (*run)(struct job *))
{
	struct job *job = calloc(1, sizeof *job);
	pthread_condattr_t attr;

	if (!job)
		return NULL;
	job->run = run;
	job->result = -1;
	pthread_mutex_init(&job->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&job->finished, &attr);
	pthread_condattr_destroy(&attr);
	return job;
}

static void job_free(struct job *job)
{
	pthread_cond_destroy(&job->finished);
	pthread_mutex_destroy(&job->lock);
	free(job->params);
	free(job->answer);
	free(job);
}

static void *job_thread(void *arg)
{
	struct job *job = arg;
	bool abandoned;

	job->result = job->run(job);
	pthread_mutex_lock(&job->lock);
	job->done = true;
	abandoned = job->abandoned;
	pthread_cond_signal(&job->finished);
	pthread_mutex_unlock(&job->lock);
	if (abandoned)
		job_free(job);
	return NULL;
}

/* Starts the thread with every signal blocked, which Go's threads inherit. */
static bool job_start(struct job *job, pthread_t *thread)
{
	sigset_t all, old;
	int rc;

	sigfillset(&all);
	if (pthread_sigmask(SIG_SETMASK, &all, &old) != 0)
		return false;
	rc = pthread_create(thread, NULL, job_thread, job);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rc == 0;
}

/* Waits for the end of the thread; false: it is left behind and frees job. */
static bool job_wait(struct job *job, pthread_t thread, uint32_t ms)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += ms / 1000;
	until.tv_nsec += (long)(ms % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	pthread_mutex_lock(&job->lock);
	while (!job->done)
		if (pthread_cond_timedwait(&job->finished, &job->lock, &until) == ETIMEDOUT)
			break;
	bool done = job->done;
	job->abandoned = !done;
	pthread_mutex_unlock(&job->lock);
	if (done)
		pthread_join(thread, NULL);
	else
		pthread_detach(thread);
	return done;
}

/* ---- signal handlers ---- */

static void handlers_save(struct sigaction *actions)
{
	for (int sig = 1; sig <= SIGNALS; sig++)
		if (sigaction(sig, NULL, &actions[sig]) != 0)
			memset(&actions[sig], 0, sizeof actions[sig]);
}

static void *handler_of(const struct sigaction *action)
{
	return action->sa_flags & SA_SIGINFO ? (void *)action->sa_sigaction : (void *)action->sa_handler;
}

/*
 * Whether a handler is in the library at path. Newer slurmstepds install their
 * own in a thread of their own, while we load: those are to stay.
 */
static bool handler_in(const struct sigaction *action, const char *path)
{
	Dl_info where;

	return dladdr(handler_of(action), &where) && where.dli_fname && strcmp(where.dli_fname, path) == 0;
}

/* Notes which handlers are the runtime's, and puts the old ones back. */
static void handlers_learn(const struct sigaction *before, const char *path)
{
	handlers_save(core.go);
	for (int sig = 1; sig <= SIGNALS; sig++) {
		core.changed[sig] = handler_of(&core.go[sig]) != handler_of(&before[sig]) && handler_in(&core.go[sig], path);
		if (core.changed[sig])
			sigaction(sig, &before[sig], NULL);
	}
}

static void handlers_install(struct sigaction *before)
{
	for (int sig = 1; sig <= SIGNALS; sig++)
		if (core.changed[sig])
			sigaction(sig, &core.go[sig], &before[sig]);
}

/* What somebody else has installed meanwhile stays. */
static void handlers_restore(const struct sigaction *before)
{
	struct sigaction now;

	for (int sig = 1; sig <= SIGNALS; sig++)
		if (core.changed[sig] && sigaction(sig, NULL, &now) == 0 && handler_of(&now) == handler_of(&core.go[sig]))
			sigaction(sig, &before[sig], NULL);
}

/* ---- loading ---- */

/* Only root, or who runs this anyway, may be able to change the thing. */
static bool trusted(const struct stat *st)
{
	return (st->st_uid == 0 || st->st_uid == geteuid()) && !(st->st_mode & (S_IWGRP | S_IWOTH));
}

/* The file itself and its folder; what is above it is the system's matter. */
static const char *check_file(const char *path)
{
	char folder[PATH_MAX];
	struct stat st;
	char *slash;

	if (stat(path, &st) != 0)
		return strerror(errno);
	if (!S_ISREG(st.st_mode))
		return "not a regular file";
	if (!trusted(&st))
		return "others than root may change it";
	if (snprintf(folder, sizeof folder, "%s", path) >= (int)sizeof folder || !(slash = strrchr(folder, '/')))
		return "no absolute path";
	slash[slash == folder] = '\0';
	if (stat(folder, &st) != 0 || !trusted(&st))
		return "others than root may change its folder";
	return NULL;
}

/* Runs in the thread: the constructor starts the runtime, the call awaits it. */
static int load_run(struct job *job)
{
	void *handle = dlopen(job->path, RTLD_NOW | RTLD_LOCAL);
	gimbal_core_version *version;

	if (!handle) {
		snprintf(job->reply.message, GIMBAL_MESSAGE_SIZE, "%s", dlerror());
		return -1;
	}
	*(void **)&version = dlsym(handle, "gimbal_core_abi");
	if (!version || version() != GIMBAL_CORE_ABI) {
		snprintf(job->reply.message, GIMBAL_MESSAGE_SIZE, "it belongs to another version of gimbal.so");
		return -1;
	}
	for (int op = 0; op < CORE_OPS; op++) {
		*(void **)&core.calls[op] = dlsym(handle, call_names[op]);
		if (!core.calls[op]) {
			snprintf(job->reply.message, GIMBAL_MESSAGE_SIZE, "it lacks %s", call_names[op]);
			return -1;
		}
	}
	return 0;
}

/* The path must outlive a load that hangs: a static buffer does. */
static bool load(const char *path, char *why)
{
	static struct sigaction before[SIGNALS + 1];
	struct rlimit files;
	bool have_files = getrlimit(RLIMIT_NOFILE, &files) == 0;
	struct job *job = job_new(load_run);
	pthread_t thread;

	if (!job)
		return false;
	job->path = path;
	handlers_save(before);
	if (!job_start(job, &thread)) {
		job_free(job);
		return false;
	}
	bool done = job_wait(job, thread, LOAD_MS);
	handlers_learn(before, path);
	if (have_files)
		setrlimit(RLIMIT_NOFILE, &files);
	if (!done) {
		snprintf(why, GIMBAL_MESSAGE_SIZE, "it does not come up");
		return false;
	}
	bool loaded = job->result == 0;
	snprintf(why, GIMBAL_MESSAGE_SIZE, "%s", job->reply.message);
	job_free(job);
	return loaded;
}

/* Loads it at the first call, and says once why that does not work. */
static bool ready(const char *path)
{
	static char real[PATH_MAX];
	char why[GIMBAL_MESSAGE_SIZE] = "";
	const char *problem;

	if (core.tried != 0)
		return core.loaded && core.tried == getpid();
	core.tried = getpid();
	if (!realpath(path, real))
		problem = strerror(errno);
	else if (!(problem = check_file(real)))
		problem = load(real, why) ? NULL : why;
	if (problem)
		slurm_info("gimbal: %s: %s; the step runs without it", path, problem);
	core.loaded = !problem;
	return core.loaded;
}

/* ---- calling ---- */

static int call_run(struct job *job)
{
	return core.calls[job->op](&job->request, &job->reply);
}

static struct job *call_new(enum core_op op, const struct gimbal_core_request *req)
{
	struct job *job = job_new(call_run);

	if (!job)
		return NULL;
	job->op = op;
	job->request = *req;
	job->request.params = job->params = strdup(req->params);
	job->request.answer = job->answer = strdup(req->answer);
	if (job->params && job->answer)
		return job;
	job_free(job);
	return NULL;
}

int core_call(const struct plugstack *args, enum core_op op, const struct gimbal_core_request *req, struct gimbal_core_reply *reply)
{
	struct sigaction before[SIGNALS + 1];
	struct job *job;
	pthread_t thread;
	int result = -1;

	memset(reply, 0, sizeof *reply);
	if (!ready(args->core) || !(job = call_new(op, req)))
		return -1;
	handlers_install(before);
	if (!job_start(job, &thread)) {
		job_free(job);
	} else if (job_wait(job, thread, args->timeout_ms + GRACE_MS)) {
		result = job->result;
		*reply = job->reply;
		job_free(job);
	} else {
		core.loaded = false;
		slurm_info("gimbal: the core does not come back, left alone from now on");
	}
	handlers_restore(before);
	return result;
}
