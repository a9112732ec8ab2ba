#include "nvml_view.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "util.h"

enum { GENERATIONS = 64 };

/* Handles are addresses in here: one for each unit and generation of it. */
static const char handles[GENERATIONS][SIMGPU_UNITS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct simgpu_state *_Atomic view;
static unsigned users;

static struct simgpu_state *map_state(void)
{
	char path[4096];
	snprintf(path, sizeof path, "%s/state", device_dir());
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	struct simgpu_state *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (s == MAP_FAILED)
		return NULL;
	if (s->magic == SIMGPU_MAGIC && s->layout == SIMGPU_LAYOUT && atomic_load(&s->running))
		return s;
	munmap(s, sizeof *s);
	return NULL;
}

nvmlReturn_t view_acquire(void)
{
	nvmlReturn_t r = NVML_SUCCESS;
	pthread_mutex_lock(&lock);
	struct simgpu_state *s = users > 0 ? atomic_load(&view) : map_state();
	if (s == NULL)
		r = NVML_ERROR_DRIVER_NOT_LOADED;
	else if (s->driver != 0)
		r = s->driver;
	if (r == NVML_SUCCESS) {
		atomic_fetch_add(&s->inits, 1);
		atomic_store(&view, s);
		users++;
	} else if (s != NULL && users == 0) {
		munmap(s, sizeof *s);
	}
	pthread_mutex_unlock(&lock);
	return r;
}

nvmlReturn_t view_release(void)
{
	pthread_mutex_lock(&lock);
	if (users == 0) {
		pthread_mutex_unlock(&lock);
		return NVML_ERROR_UNINITIALIZED;
	}
	struct simgpu_state *s = atomic_load(&view);
	atomic_fetch_add(&s->shutdowns, 1);
	if (--users == 0) {
		atomic_store(&view, NULL);
		munmap(s, sizeof *s);
	}
	pthread_mutex_unlock(&lock);
	return NVML_SUCCESS;
}

/* A call that the device holds up ends when it has been told to, or later. */
static void hang(const struct simgpu_state *s)
{
	enum { STEP = 10000000 };
	uint64_t now;
	while ((now = now_ns()) < atomic_load(&s->hang_until))
		sleep_until(now + STEP);
}

/* The device has been started again in the same place: look at the new one.
 * The old mapping stays, another thread may be reading it. */
static struct simgpu_state *find_again(struct simgpu_state *old)
{
	pthread_mutex_lock(&lock);
	struct simgpu_state *s = atomic_load(&view);
	if (s == old) {
		s = map_state();
		if (s != NULL)
			atomic_store(&view, s);
	}
	pthread_mutex_unlock(&lock);
	return s;
}

nvmlReturn_t view_enter(struct simgpu_state **state)
{
	struct simgpu_state *s = atomic_load(&view);
	if (s == NULL)
		return NVML_ERROR_UNINITIALIZED;
	if (!atomic_load(&s->running) && (s = find_again(s)) == NULL)
		return NVML_ERROR_GPU_IS_LOST;
	atomic_fetch_add_explicit(&s->calls, 1, memory_order_relaxed);
	hang(s);
	*state = s;
	return s->driver;
}

nvmlReturn_t view_unit(const struct simgpu_state *s, uint32_t index, struct simgpu_unit *copy)
{
	enum { PATIENCE = 1000000000 };
	uint64_t start = 0;
	for (;;) {
		uint32_t before = atomic_load_explicit(&s->sequence, memory_order_acquire);
		if ((before & 1) == 0) {
			memcpy(copy, &s->unit[index], sizeof *copy);
			atomic_thread_fence(memory_order_acquire);
			if (atomic_load_explicit(&s->sequence, memory_order_relaxed) == before)
				return NVML_SUCCESS;
		}
		if (start == 0)
			start = now_ns();
		if (now_ns() - start > PATIENCE)
			return NVML_ERROR_TIMEOUT;
	}
}

nvmlReturn_t view_device(nvmlDevice_t device, struct simgpu_state **s, uint32_t *index, struct simgpu_unit *copy)
{
	nvmlReturn_t r = view_enter(s);
	if (r != NVML_SUCCESS)
		return r;
	uintptr_t offset = (uintptr_t)device - (uintptr_t)handles;
	if ((uintptr_t)device < (uintptr_t)handles || offset >= sizeof handles)
		return NVML_ERROR_INVALID_ARGUMENT;
	*index = (uint32_t)(offset % SIMGPU_UNITS);
	if (*index >= (*s)->units)
		return NVML_ERROR_INVALID_ARGUMENT;
	r = view_unit(*s, *index, copy);
	if (r != NVML_SUCCESS)
		return r;
	if (!copy->present || copy->fault[FAULT_LOST])
		return NVML_ERROR_GPU_IS_LOST;
	bool current = copy->generation % GENERATIONS == offset / SIMGPU_UNITS;
	return current ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlDevice_t view_handle(uint32_t index, const struct simgpu_unit *u)
{
	return (nvmlDevice_t)(uintptr_t)&handles[u->generation % GENERATIONS][index];
}
