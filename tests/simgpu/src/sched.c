#include "sched.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

bool sched_busy(const struct sched *s)
{
	for (int i = 0; i < s->size; i++)
		if (s->entity[i].active)
			return true;
	return false;
}

static bool group_active(const struct sched *s, uint32_t group)
{
	for (int i = 0; i < s->size; i++)
		if (s->entity[i].active && s->entity[i].group == group)
			return true;
	return false;
}

/* A group takes its turn at the place of its first active member. */
static bool leads(const struct sched *s, int i)
{
	for (int j = 0; j < i; j++)
		if (s->entity[j].active && s->entity[j].group == s->entity[i].group)
			return false;
	return true;
}

/* The entity whose group is next in turn after the current one, or -1. */
static int next_group(const struct sched *s)
{
	for (int k = 1; k <= s->size; k++) {
		int i = (s->last + k) % s->size;
		const struct sched_entity *e = &s->entity[i];
		if (e->active && e->group != s->group && leads(s, i))
			return i;
	}
	return -1;
}

/* Decides which group has the GPU now. False if none has work. */
static bool choose(struct sched *s)
{
	bool current = group_active(s, s->group);
	int other = next_group(s);
	s->contended = current && other >= 0;
	if (current && (s->slice_left > 0 || other < 0)) {
		if (s->slice_left == 0)
			s->slice_left = s->slice;
		return true;
	}
	if (other < 0)
		return false;
	s->group = s->entity[other].group;
	s->last = other;
	s->slice_left = s->slice;
	s->switch_left = s->switch_cost;
	return true;
}

static bool runs(const struct sched *s, int i)
{
	return s->entity[i].active && s->entity[i].group == s->group;
}

static double allowed(const struct sched_entity *e)
{
	return fmin(e->want, e->cap);
}

/* Share of the SMs wanted by all that run now, at least 1. */
static double demand(const struct sched *s)
{
	double sum = 0;
	for (int i = 0; i < s->size; i++)
		if (runs(s, i))
			sum += allowed(&s->entity[i]);
	return fmax(sum, 1);
}

static uint64_t time_to_end(const struct sched_entity *e, double total)
{
	return (uint64_t)ceil((double)e->remain * e->want * total / allowed(e));
}

static void progress(struct sched *s, struct sched_entity *e, uint64_t dt, double total)
{
	double share = allowed(e) / total;
	uint64_t done = (uint64_t)((double)dt * share / e->want + 0.5);
	e->remain -= least(done, e->remain);
	if (e->since == SCHED_IDLE)
		e->since = s->now;
	e->ran += dt;
	e->work += (double)dt * share;
}

/* Runs the current group up to the end of a kernel, of its slice or until. */
static int run_group(struct sched *s, uint64_t until)
{
	double total = demand(s);
	uint64_t dt = until - s->now;
	if (s->contended)
		dt = least(dt, s->slice_left);
	for (int i = 0; i < s->size; i++)
		if (runs(s, i))
			dt = least(dt, time_to_end(&s->entity[i], total));
	for (int i = 0; i < s->size; i++)
		if (runs(s, i))
			progress(s, &s->entity[i], dt, total);
	s->now += dt;
	s->slice_left -= least(dt, s->slice_left);
	for (int i = 0; i < s->size; i++)
		if (runs(s, i) && s->entity[i].remain == 0)
			return i;
	return -1;
}

int sched_run(struct sched *s, uint64_t until)
{
	while (s->now < until) {
		if (!choose(s)) {
			s->now = until;
			break;
		}
		uint64_t lost = least(s->switch_left, until - s->now);
		s->switch_left -= lost;
		s->now += lost;
		if (s->now == until)
			break;
		int done = run_group(s, until);
		if (done >= 0)
			return done;
	}
	return -1;
}

uint64_t sched_next(const struct sched *s, uint64_t until)
{
	struct sched copy;
	memcpy(&copy, s, offsetof(struct sched, entity));
	memcpy(copy.entity, s->entity, sizeof copy.entity[0] * (size_t)s->size);
	return sched_run(&copy, until) >= 0 ? copy.now : until;
}
