/* What clients run and keep on the units: kernels, memory, contexts. */
#include <stdlib.h>
#include <string.h>

#include "device.h"

static struct sched_entity *entity(struct device *d, const struct context *x)
{
	return &d->unit[x->unit].sched.entity[x->slot];
}

/* Accounts what x has run since the last time this was called. */
static void settle(struct device *d, struct context *x, bool goes_on)
{
	struct sched_entity *e = entity(d, x);
	uint64_t now = d->unit[x->unit].sched.now;
	if (e->since != SCHED_IDLE)
		record_add(d, x, e->since, now, e->ran);
	x->sampled += e->work;
	e->ran = 0;
	e->work = 0;
	e->since = goes_on && e->since != SCHED_IDLE ? now : SCHED_IDLE;
}

static void load_head(struct device *d, struct context *x)
{
	struct sched_entity *e = entity(d, x);
	e->active = x->queued > 0;
	e->remain = e->active ? x->queue[x->head].ns : 0;
}

static void complete(struct device *d, struct context *x)
{
	struct simgpu_msg m = { .op = OP_COMPLETE, .unit = x->unit, .id = x->queue[x->head].id };
	x->head = (x->head + 1) % SIMGPU_QUEUE;
	x->queued--;
	settle(d, x, x->queued > 0);
	load_head(d, x);
	client_send(d, x->client, &m);
}

static void advance_unit(struct device *d, uint32_t unit, uint64_t now)
{
	struct unit *u = &d->unit[unit];
	int done;
	while ((done = sched_run(&u->sched, now)) >= 0)
		complete(d, u->slot[done]);
}

static void advance_all(struct device *d, uint64_t now)
{
	for (uint32_t i = 0; i < d->state->units; i++)
		advance_unit(d, i, now);
}

static void settle_all(struct device *d)
{
	for (uint32_t i = 0; i < d->state->units; i++)
		for (int k = 0; k < d->unit[i].sched.size; k++)
			if (d->unit[i].slot[k] != NULL)
				settle(d, d->unit[i].slot[k], true);
}

/* Brings every unit up to now, through the ends of the sample periods. */
void advance(struct device *d, uint64_t now)
{
	while (d->next_tick != 0 && d->next_tick <= now) {
		advance_all(d, d->next_tick);
		settle_all(d);
		tick(d, d->next_tick);
	}
	advance_all(d, now);
}

/* When the device has to act next of its own accord; UINT64_MAX: never. */
uint64_t next_event(struct device *d, uint64_t now)
{
	enum { AHEAD = 100000000 };
	uint64_t next = UINT64_MAX;
	for (uint32_t i = 0; i < d->state->units; i++) {
		if (!sched_busy(&d->unit[i].sched))
			continue;
		uint64_t t = sched_next(&d->unit[i].sched, now + AHEAD);
		next = t < next ? t : next;
	}
	if (d->next_tick != 0 && d->next_tick < next)
		next = d->next_tick;
	return next;
}

static int free_slot(struct unit *u)
{
	for (int i = 0; i < SIMGPU_PROCS; i++)
		if (u->slot[i] == NULL)
			return i;
	return -1;
}

static void occupy(struct unit *u, struct context *x)
{
	struct client *c = x->client;
	u->slot[x->slot] = x;
	if (x->slot >= u->sched.size)
		u->sched.size = x->slot + 1;
	u->sched.entity[x->slot] = (struct sched_entity){
		.used = true, .group = c->group, .want = c->want, .cap = c->cap, .since = SCHED_IDLE,
	};
}

/* The client's context on a unit, made if it has none. NULL: no room. */
struct context *context_get(struct device *d, struct client *c, uint32_t unit)
{
	if (unit >= d->state->units)
		return NULL;
	if (c->context[unit] != NULL)
		return c->context[unit];
	int slot = free_slot(&d->unit[unit]);
	struct context *x = slot < 0 ? NULL : calloc(1, sizeof *x);
	if (x == NULL)
		return NULL;
	*x = (struct context){ .client = c, .unit = unit, .slot = slot };
	if (context_alloc(d, x, d->o.context) != RESULT_OK) {
		free(x);
		return NULL;
	}
	c->context[unit] = x;
	occupy(&d->unit[unit], x);
	publish_unit(d, unit);
	return x;
}

/* Takes bytes of the unit's memory, or refuses. */
int context_alloc(struct device *d, struct context *x, uint64_t bytes)
{
	const struct simgpu_unit *u = &d->state->unit[x->unit];
	uint64_t taken = u->used + u->reserved;
	if (taken > u->total || bytes > u->total - taken)
		return RESULT_NO_MEMORY;
	x->memory += bytes;
	publish_unit(d, x->unit);
	return RESULT_OK;
}

/* Queues a kernel. False if the queue is full. */
bool context_launch(struct device *d, struct context *x, struct kernel k)
{
	if (x->queued == SIMGPU_QUEUE)
		return false;
	x->queue[(x->head + x->queued) % SIMGPU_QUEUE] = k;
	if (x->queued++ == 0)
		load_head(d, x);
	if (d->next_tick == 0)
		d->next_tick = (d->unit[x->unit].sched.now / d->o.period + 1) * d->o.period;
	return true;
}

/* Ends a context: what it had queued is dropped, its memory is free. */
void context_drop(struct device *d, struct context *x)
{
	struct unit *u = &d->unit[x->unit];
	settle(d, x, false);
	record_write(d, x);
	u->slot[x->slot] = NULL;
	u->sched.entity[x->slot] = (struct sched_entity){ .since = SCHED_IDLE };
	while (u->sched.size > 0 && u->slot[u->sched.size - 1] == NULL)
		u->sched.size--;
	if (u->sched.last >= u->sched.size)
		u->sched.last = 0;
	x->client->context[x->unit] = NULL;
	publish_unit(d, x->unit);
	free(x);
}
