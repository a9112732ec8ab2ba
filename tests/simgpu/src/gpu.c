/* The trainer's side of the device: what CUDA's runtime is to a real one. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "trainer.h"
#include "util.h"

/* Held by a checkpoint from lock to unlock, and around each call. */
static pthread_mutex_t api = PTHREAD_MUTEX_INITIALIZER;

static void cuda_error(const char *what) __attribute__((noreturn));

static void cuda_error(const char *what)
{
	fflush(stdout);
	fprintf(stderr, "CUDA error: %s\n", what);
	exit(1);
}

static void put(int fd, const struct simgpu_msg *m)
{
	if (send(fd, m, sizeof *m, MSG_NOSIGNAL) != (ssize_t)sizeof *m)
		cuda_error("the device has gone");
}

static void get(int fd, struct simgpu_msg *m)
{
	ssize_t n;
	do {
		n = recv(fd, m, sizeof *m, 0);
	} while (n < 0 && errno == EINTR);
	if (n != (ssize_t)sizeof *m)
		cuda_error("the device has gone");
}

static void count(struct gpu *g, const struct simgpu_msg *m)
{
	if (m->result != RESULT_OK)
		cuda_error("launch failed");
	g->completed++;
}

/* Sends a request; kernels may end while the reply is under way. */
static void call(struct gpu *g, struct simgpu_msg *m)
{
	uint32_t op = m->op;
	put(g->fd, m);
	for (;;) {
		get(g->fd, m);
		if (m->op == op)
			return;
		count(g, m);
	}
}

struct helper {
	const char *dir;
	sem_t known; /* to the device, or never */
};

/* Connects this thread as the process's helper; the device answers that it is. */
static int introduce(const char *dir)
{
	struct simgpu_msg m = { .op = OP_HELPER, .value = (uint64_t)syscall(SYS_gettid) };
	int fd = device_connect(dir);
	if (fd >= 0 && send(fd, &m, sizeof m, MSG_NOSIGNAL) == (ssize_t)sizeof m &&
	    recv(fd, &m, sizeof m, 0) == (ssize_t)sizeof m)
		return fd;
	return -1;
}

/* Answers the device's checkpoint requests for as long as the process lives. */
static void *help(void *arg)
{
	struct helper *h = arg;
	struct simgpu_msg m;
	int fd = introduce(h->dir);
	bool locked = false;
	sem_post(&h->known);
	while (fd >= 0 && recv(fd, &m, sizeof m, 0) == (ssize_t)sizeof m) {
		if (m.flags == OP_LOCK && !locked) {
			pthread_mutex_lock(&api);
			locked = true;
		} else if (m.flags == OP_UNLOCK && locked) {
			pthread_mutex_unlock(&api);
			locked = false;
		}
		if (send(fd, &m, sizeof m, MSG_NOSIGNAL) < 0)
			break;
	}
	return NULL;
}

static const char *default_label(char *buffer, size_t size)
{
	const char *given = getenv("SIMGPU_LABEL"), *job = getenv("SLURM_JOB_ID"), *step = getenv("SLURM_STEP_ID");
	if (given != NULL)
		return given;
	if (job == NULL)
		return "";
	/* Slurm 26.05 numbers the batch step, others do not. */
	snprintf(buffer, size, "%s.%s", job, step != NULL && strcmp(step, "-5") != 0 ? step : "batch");
	return buffer;
}

static uint32_t thread_percentage(void)
{
	const char *text = getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
	double percent = text != NULL ? atof(text) : 100;
	return percent > 0 && percent < 100 ? (uint32_t)(percent * 10) : 1000;
}

/* CUDA_MPS_PINNED_DEVICE_MEM_LIMIT is "0=4G,1=4G"; the first size counts. */
static uint64_t memory_limit(const struct trainer_options *o)
{
	const char *text = getenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
	const char *equals = o->mps && text != NULL ? strchr(text, '=') : NULL;
	char size[32];
	uint64_t bytes;
	if (equals == NULL)
		return UINT64_MAX;
	snprintf(size, sizeof size, "%.*s", (int)strcspn(equals + 1, ","), equals + 1);
	return parse_size(size, &bytes) ? bytes : UINT64_MAX;
}

static void say_hello(const struct gpu *g, const struct trainer_options *o)
{
	char buffer[96];
	struct simgpu_msg m = {
		.op = OP_HELLO,
		.flags = o->mps ? SIMGPU_MPS : 0,
		.want = (uint32_t)(o->sm * 1000 + 0.5),
		.cap = thread_percentage(),
	};
	const char *label = o->label != NULL ? o->label : default_label(buffer, sizeof buffer);
	snprintf(m.text, sizeof m.text, "%s", label);
	put(g->fd, &m);
}

static bool attach(struct gpu *g, const char *token)
{
	struct simgpu_msg m = { .op = OP_ATTACH };
	snprintf(m.text, sizeof m.text, "%s", token);
	call(g, &m);
	if (m.result == RESULT_NO_MEMORY)
		cuda_error("out of memory");
	if (m.result != RESULT_OK)
		return false;
	g->unit[g->units++] = m.unit;
	return true;
}

/* As CUDA does, takes devices up to the first token that names none. */
static void attach_visible(struct gpu *g, int wanted)
{
	char list[4096] = "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15", *rest = list, *token;
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	if (visible != NULL)
		snprintf(list, sizeof list, "%s", visible);
	while (g->units < wanted && (token = strsep(&rest, ",")) != NULL)
		if (!attach(g, token))
			break;
}

/* As in a CUDA process, whoever sees it on a GPU can have it checkpointed. */
static void start_helper(const char *dir)
{
	static struct helper h;
	pthread_t thread;
	h.dir = dir;
	sem_init(&h.known, 0, 0);
	if (pthread_create(&thread, NULL, help, &h) != 0)
		return;
	pthread_detach(thread);
	while (sem_wait(&h.known) != 0)
		; /* a signal came */
}

void gpu_open(struct gpu *g, const struct trainer_options *o)
{
	*g = (struct gpu){ .fd = device_connect(o->dir), .limit = memory_limit(o) };
	if (g->fd < 0)
		cuda_error("no CUDA-capable device is detected");
	say_hello(g, o);
	start_helper(o->dir);
	attach_visible(g, o->gpus);
	if (g->units == 0)
		cuda_error("no CUDA-capable device is detected");
	if (g->units < o->gpus)
		cuda_error("invalid device ordinal");
}

void gpu_alloc(struct gpu *g, uint64_t bytes)
{
	if (bytes > g->limit - g->allocated)
		cuda_error("out of memory");
	g->allocated += bytes;
	for (int i = 0; bytes > 0 && i < g->units; i++) {
		struct simgpu_msg m = { .op = OP_ALLOC, .unit = g->unit[i], .value = bytes };
		pthread_mutex_lock(&api);
		call(g, &m);
		pthread_mutex_unlock(&api);
		if (m.result != RESULT_OK)
			cuda_error("out of memory");
	}
}

/* Queues a kernel of ns on every unit. */
void gpu_launch(struct gpu *g, uint64_t ns)
{
	pthread_mutex_lock(&api);
	for (int i = 0; i < g->units; i++) {
		struct simgpu_msg m = { .op = OP_LAUNCH, .unit = g->unit[i], .value = ns, .id = ++g->launched };
		put(g->fd, &m);
	}
	pthread_mutex_unlock(&api);
}

/* Waits until at most outstanding kernels are left on each unit. */
void gpu_wait(struct gpu *g, uint64_t outstanding)
{
	struct simgpu_msg m;
	while (g->launched - g->completed > outstanding * (uint64_t)g->units) {
		get(g->fd, &m);
		count(g, &m);
	}
}
