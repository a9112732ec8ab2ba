/*
 * How one GPU shares its time. Pure: no clock, no input, no output.
 *
 * Entities with a kernel to run belong to groups. Groups take turns of one
 * slice each; a change of group costs time in which nothing runs. The members
 * of a group (clients of one MPS server) run together and share the SMs. A
 * group alone keeps the GPU.
 */
#ifndef SIMGPU_SCHED_H
#define SIMGPU_SCHED_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol.h"

#define SCHED_IDLE UINT64_MAX

struct sched_entity {
	bool used;
	bool active;     /* has a kernel at its head */
	uint32_t group;
	double want;     /* share of the SMs that its kernels can fill */
	double cap;      /* share that it may use */
	uint64_t remain; /* ns of the head kernel still to run at full speed */
	uint64_t since;  /* when it first ran since the owner last reset it */
	uint64_t ran;    /* ns in which it ran, since the owner last reset it */
	double work;     /* the same, weighted by its share of the SMs */
};

struct sched {
	uint64_t now;
	uint64_t slice;
	uint64_t switch_cost;
	uint64_t slice_left;
	uint64_t switch_left;
	uint32_t group; /* that has the GPU, or had it last */
	int last;       /* entity from which the search for the next starts */
	bool contended; /* another group waits */
	int size;       /* entities in use lie below it */
	struct sched_entity entity[SIMGPU_PROCS];
};

/* Runs until the time given or until a kernel ends, whichever comes first.
 * Returns the entity whose kernel has ended, at s->now, or -1. */
int sched_run(struct sched *s, uint64_t until);

/* When the next kernel will end if nothing else arrives; until, if later. */
uint64_t sched_next(const struct sched *s, uint64_t until);

/* True if any entity has work. */
bool sched_busy(const struct sched *s);

#endif
