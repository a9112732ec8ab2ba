/* libnvidia-ml.so.1: who uses a GPU, and how much. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "nvml_abi.h"
#include "nvml_view.h"
#include "util.h"

struct list {
	uint32_t count;
	bool no_memory;
	struct nvml_process process[SIMGPU_PROCS];
};

static void add_processes(struct list *l, const struct simgpu_unit *u)
{
	bool mig = u->parent >= 0;
	for (uint32_t i = 0; i < u->processes && l->count < SIMGPU_PROCS; i++)
		l->process[l->count++] = (struct nvml_process){
			.pid = u->process[i].pid,
			.memory = l->no_memory ? NVML_VALUE_NOT_AVAILABLE : u->process[i].memory,
			.gpu_instance = mig ? (uint32_t)u->instance + 1 : NVML_NO_INSTANCE,
			.compute_instance = mig ? 0 : NVML_NO_INSTANCE,
		};
}

/* A GPU in MIG mode shows the processes of its instances. */
static nvmlReturn_t list_processes(nvmlDevice_t device, struct list *l)
{
	struct simgpu_state *s;
	struct simgpu_unit u, child;
	uint32_t index;
	nvmlReturn_t r = view_device(device, &s, &index, &u);
	if (r != NVML_SUCCESS)
		return r;
	if (u.fault[FAULT_PROCESSES])
		return u.fault[FAULT_PROCESSES];
	*l = (struct list){ .no_memory = u.fault[FAULT_PROCESS_MEMORY] != 0 };
	add_processes(l, &u);
	for (uint32_t i = 0; u.mig && u.parent < 0 && i < s->units; i++) {
		if (s->unit[i].parent != (int32_t)index)
			continue;
		r = view_unit(s, i, &child);
		if (r != NVML_SUCCESS)
			return r;
		add_processes(l, &child);
	}
	return NVML_SUCCESS;
}

/* Which of the functions there are depends on the driver's age. */
#ifndef SIMGPU_PROCESSES_none
/* Lists into a caller's array of *count entries of the given size. The caller
 * believes that they are `believed` bytes long: no more than that is written. */
static nvmlReturn_t give_processes(nvmlDevice_t device, unsigned *count, char *out, size_t size, size_t believed)
{
	struct list l;
	nvmlReturn_t r = list_processes(device, &l);
	if (r != NVML_SUCCESS)
		return r;
	if (l.count > *count || (out == NULL && l.count > 0)) {
		*count = l.count;
		return NVML_ERROR_INSUFFICIENT_SIZE;
	}
	size_t room = *count * believed;
	for (uint32_t i = 0; i < l.count && i * size < room; i++) {
		struct nvml_process_long p = {
			l.process[i].pid, l.process[i].memory, l.process[i].gpu_instance, l.process[i].compute_instance, 0,
		};
		size_t left = room - i * size;
		memcpy(out + i * size, &p, size < left ? size : left);
	}
	*count = l.count;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned *count, void *out)
{
	return give_processes(device, count, out, sizeof(struct nvml_process_v1), sizeof(struct nvml_process_v1));
}

#ifndef SIMGPU_PROCESSES_v1
EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned *count, void *out)
{
	return give_processes(device, count, out, sizeof(struct nvml_process), sizeof(struct nvml_process));
}
#endif

#ifdef SIMGPU_PROCESSES_v3_32
typedef struct nvml_process_long process_v3;
#else
typedef struct nvml_process process_v3;
#endif

#if !defined SIMGPU_PROCESSES_v1 && !defined SIMGPU_PROCESSES_v2
EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count, void *out)
{
	return give_processes(device, count, out, sizeof(process_v3), sizeof(struct nvml_process));
}
#endif
#endif

static nvmlReturn_t no_processes(nvmlDevice_t device, unsigned *count)
{
	struct list l;
	nvmlReturn_t r = list_processes(device, &l);
	if (r == NVML_SUCCESS)
		*count = 0;
	return r;
}

EXPORT nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t device, unsigned *count, void *out)
{
	(void)out;
	return no_processes(device, count);
}

EXPORT nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device, unsigned *count, void *out)
{
	(void)out;
	return no_processes(device, count);
}

EXPORT nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned *count, void *out)
{
	(void)out;
	return no_processes(device, count);
}

/* The stretch of samples that a call may see. */
struct window {
	uint64_t first, past; /* positions in the ring */
	uint64_t periods;     /* sample periods that it covers, at least 1 */
};

static const struct simgpu_sample *sample(const struct simgpu_unit *u, uint64_t i)
{
	return &u->sample[i % SIMGPU_SAMPLES];
}

/* Samples after `since` that are old enough to be seen; times in microseconds. */
static struct window visible(const struct simgpu_unit *u, uint64_t since, uint64_t period)
{
	struct window w = { .past = u->sampled, .periods = 1 };
	uint64_t now = wall_ns() / 1000 - u->lag_us;
	w.first = u->sampled > SIMGPU_SAMPLES ? u->sampled - SIMGPU_SAMPLES : 0;
	while (w.past > w.first && sample(u, w.past - 1)->time_us > now)
		w.past--;
	while (w.first < w.past && sample(u, w.first)->time_us <= since)
		w.first++;
	if (w.first == w.past)
		return w;
	uint64_t start = sample(u, w.first)->time_us - period;
	uint64_t end = sample(u, w.past - 1)->time_us;
	if (since > 0 && since < start)
		start = since;
	if (end + period < now)
		end = now - period;
	if (end > start + period)
		w.periods = (end - start + period / 2) / period;
	return w;
}

/* The average over the last second. */
EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, struct nvml_utilization *out)
{
	enum { SPAN_US = 1000000 };
	struct simgpu_state *s;
	struct simgpu_unit u;
	uint32_t index;
	uint64_t sum = 0;
	nvmlReturn_t r = view_device(device, &s, &index, &u);
	if (r != NVML_SUCCESS)
		return r;
	if (u.fault[FAULT_UTILIZATION])
		return u.fault[FAULT_UTILIZATION];
	if (u.mig)
		return NVML_ERROR_NOT_SUPPORTED;
	struct window w = visible(&u, wall_ns() / 1000 - u.lag_us - SPAN_US, s->sample_us);
	for (uint64_t i = w.first; i < w.past; i++)
		if (sample(&u, i)->pid == 0)
			sum += sample(&u, i)->busy;
	uint64_t periods = SPAN_US / s->sample_us;
	out->gpu = (uint32_t)(sum / (periods > 0 ? periods : 1) / 100);
	out->gpu = out->gpu > 100 ? 100 : out->gpu;
	out->memory = out->gpu * 2 / 5;
	return NVML_SUCCESS;
}

static struct nvml_process_sample *place(struct nvml_process_sample *list, unsigned *n, uint32_t pid)
{
	for (unsigned i = 0; i < *n; i++)
		if (list[i].pid == pid)
			return &list[i];
	if (*n == SIMGPU_PROCS)
		return NULL;
	list[*n] = (struct nvml_process_sample){ .pid = pid };
	return &list[(*n)++];
}

/* One entry for each process that ran: its average over the window. */
static unsigned average(const struct simgpu_unit *u, struct window w, struct nvml_process_sample *list)
{
	unsigned n = 0;
	for (uint64_t i = w.first; i < w.past; i++) {
		const struct simgpu_sample *x = sample(u, i);
		struct nvml_process_sample *p = x->pid != 0 ? place(list, &n, x->pid) : NULL;
		if (p == NULL)
			continue;
		p->sm += x->busy;
		p->time_us = x->time_us;
	}
	for (unsigned i = 0; i < n; i++) {
		list[i].sm = (uint32_t)((list[i].sm + 50 * w.periods) / (100 * w.periods));
		list[i].memory = list[i].sm * 2 / 5;
	}
	return n;
}

static void spoil(struct nvml_process_sample *list, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		list[i].sm = 1u << 30;
		list[i].memory = 12345;
		list[i].time_us = i % 2 ? 0 : UINT64_MAX / 2;
	}
}

/* Without a buffer: the largest number of entries there may be. */
EXPORT nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, struct nvml_process_sample *out, unsigned *count,
						    uint64_t since)
{
	struct simgpu_state *s;
	struct simgpu_unit u;
	struct nvml_process_sample list[SIMGPU_PROCS];
	uint32_t index;
	nvmlReturn_t r = view_device(device, &s, &index, &u);
	if (r != NVML_SUCCESS)
		return r;
	if (u.fault[FAULT_PROCESS_UTIL] > 0)
		return u.fault[FAULT_PROCESS_UTIL];
	if (u.mig)
		return NVML_ERROR_NOT_SUPPORTED;
	if (out == NULL) {
		*count = SIMGPU_PROCS;
		return NVML_ERROR_INSUFFICIENT_SIZE;
	}
	unsigned n = average(&u, visible(&u, since, s->sample_us), list);
	if (n > *count)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	if (u.fault[FAULT_PROCESS_UTIL] == SIMGPU_GARBAGE)
		spoil(list, n);
	memcpy(out, list, n * sizeof list[0]);
	*count = n;
	return n > 0 ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}
