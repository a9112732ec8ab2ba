/* The GPUs and MIG instances of a device, and what the state file says of them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "device.h"
#include "util.h"

/* FNV-1a: identifiers only have to be stable and distinct. */
static uint64_t hash(const char *text, uint64_t h)
{
	for (; *text != '\0'; text++)
		h = (h ^ (unsigned char)*text) * 0x100000001b3u;
	h ^= h >> 29;
	return h * 0xbf58476d1ce4e5b9u;
}

static void make_uuid(char *out, size_t size, const char *prefix, const char *seed, int a, int b)
{
	char text[512];
	snprintf(text, sizeof text, "%s/%s/%d/%d", prefix, seed, a, b);
	uint64_t x = hash(text, 0xcbf29ce484222325u), y = hash(text, x);
	snprintf(out, size, "%s-%08x-%04x-%04x-%04x-%012" PRIx64, prefix, (unsigned)(x >> 32),
		 (unsigned)(x >> 16) & 0xffff, (unsigned)x & 0xffff, (unsigned)(y >> 48),
		 y & 0xffffffffffffu);
}

static int minor_of(const char *minors, int index)
{
	for (int i = 0; minors != NULL; i++) {
		if (i == index)
			return atoi(minors);
		minors = strchr(minors, ',');
		if (minors != NULL)
			minors++;
	}
	return index;
}

static struct simgpu_unit *add_unit(struct device *d, int gpu, int instance)
{
	struct simgpu_unit *u = &d->state->unit[d->state->units++];
	bool mig = instance >= 0;
	make_uuid(u->uuid, sizeof u->uuid, mig ? "MIG" : "GPU", d->o.seed, gpu, instance);
	snprintf(u->name, sizeof u->name, "%s%s", d->o.name, mig ? " MIG" : "");
	u->parent = mig ? gpu : -1;
	u->instance = instance;
	u->minor = minor_of(d->o.minors, gpu);
	u->present = 1;
	u->mig = d->o.mig > 0;
	u->bus = 0x10 + (uint32_t)gpu;
	u->total = d->o.memory / (mig ? (uint64_t)d->o.mig : 1);
	u->reserved = d->o.reserved / (mig ? (uint64_t)d->o.mig : 1);
	u->lag_us = d->o.lag / 1000;
	return u;
}

/* GPUs come first, so that a GPU's unit number is its NVML index. */
void units_init(struct device *d)
{
	struct simgpu_state *s = d->state;
	for (int i = 0; i < d->o.gpus; i++)
		add_unit(d, i, -1);
	for (int i = 0; i < d->o.gpus; i++)
		for (int k = 0; k < d->o.mig; k++)
			add_unit(d, i, k);
	for (uint32_t i = 0; i < s->units; i++) {
		d->unit[i].sched.slice = d->o.slice;
		d->unit[i].sched.switch_cost = d->o.switch_cost;
		d->unit[i].sched.now = now_ns();
		d->unit[i].sched.group = UINT32_MAX;
	}
	s->sample_us = d->o.period / 1000;
	strcpy(s->driver_version, "575.57.08");
	s->cuda_version = 12090;
}

/* True for a unit that CUDA shows: a GPU without MIG, or a MIG instance. */
static bool usable(const struct simgpu_unit *u)
{
	return u->present && (u->parent >= 0 || !u->mig);
}

static int find_uuid(const struct simgpu_state *s, const char *token)
{
	int found = -1;
	for (uint32_t i = 0; i < s->units; i++) {
		if (!usable(&s->unit[i]) || strncasecmp(s->unit[i].uuid, token, strlen(token)) != 0)
			continue;
		if (found >= 0)
			return -1;
		found = (int)i;
	}
	return found;
}

/* The unit that an element of CUDA_VISIBLE_DEVICES names: an index among the
 * units that CUDA shows, a UUID or the unambiguous start of one. -1: none. */
int unit_find(const struct device *d, const char *token)
{
	const struct simgpu_state *s = d->state;
	char *end;
	long index = strtol(token, &end, 10);
	if (end == token || *end != '\0')
		return strlen(token) > 4 ? find_uuid(s, token) : -1;
	for (uint32_t i = 0; i < s->units; i++)
		if (usable(&s->unit[i]) && index-- == 0)
			return (int)i;
	return -1;
}

void state_begin(struct device *d)
{
	atomic_fetch_add_explicit(&d->state->sequence, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
}

void state_end(struct device *d)
{
	atomic_fetch_add_explicit(&d->state->sequence, 1, memory_order_release);
}

static void add_process(struct simgpu_unit *u, uint32_t *n, struct simgpu_process p)
{
	u->used += p.memory;
	if (*n < SIMGPU_PROCS)
		u->process[(*n)++] = p;
}

/* Brings the list of processes and the memory in use up to date. */
void publish_unit(struct device *d, uint32_t unit)
{
	struct simgpu_unit *u = &d->state->unit[unit];
	uint32_t old = u->processes, n = 0;
	state_begin(d);
	u->used = 0;
	for (uint32_t i = 0; i < old; i++)
		if (u->process[i].ghost)
			add_process(u, &n, u->process[i]);
	for (int i = 0; i < SIMGPU_PROCS; i++) {
		const struct context *x = d->unit[unit].slot[i];
		if (x != NULL && x->client->state != CUDA_CHECKPOINTED)
			add_process(u, &n, (struct simgpu_process){ (uint32_t)x->client->pid, 0, x->memory });
	}
	u->processes = n;
	state_end(d);
}
