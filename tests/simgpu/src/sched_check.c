/*
 * sched-check SEED: drives the scheduler with random arrivals and checks what
 * must hold of any GPU that shares its time. Prints what does not, exits 1.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sched.h"

enum { STEPS = 4000, ENTITIES = 6, MS = 1000000 };

static unsigned long long random_state;

static unsigned next_random(unsigned below)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(random_state >> 33) % below;
}

static void check(bool ok, const char *what)
{
	if (ok)
		return;
	printf("does not hold: %s\n", what);
	exit(1);
}

static void add(struct sched *s, int i, bool mps)
{
	s->entity[i] = (struct sched_entity){
		.used = true,
		.group = mps ? 0 : (uint32_t)i + 1,
		.want = 1 - next_random(8) / 10.0,
		.cap = mps ? 1 - next_random(8) / 10.0 : 1,
		.since = SCHED_IDLE,
	};
	if (i >= s->size)
		s->size = i + 1;
}

static void start(struct sched *s, int i)
{
	s->entity[i].active = true;
	s->entity[i].remain = 1 + next_random(30 * MS);
}

/* Runs to a time; what ends is started again or left idle. */
static void run_to(struct sched *s, uint64_t until, unsigned idle_chance)
{
	while (s->now < until) {
		uint64_t expected = sched_next(s, until), before = s->now;
		int done = sched_run(s, until);
		check(s->now >= before && s->now <= until, "time goes forward, and not too far");
		check(done < 0 ? s->now == until : s->now == expected, "the end of a kernel was foreseen");
		if (done < 0)
			return;
		check(s->entity[done].active && s->entity[done].remain == 0, "only what has run ends");
		s->entity[done].active = false;
		if (idle_chance == 0 || next_random(idle_chance) != 0)
			start(s, done);
	}
}

static uint64_t ran_by_group(const struct sched *s, bool mps)
{
	uint64_t sum = 0, longest = 0;
	for (int i = 0; i < s->size; i++) {
		if (s->entity[i].group == 0 && s->entity[i].ran > longest)
			longest = s->entity[i].ran;
		else if (s->entity[i].group != 0)
			sum += s->entity[i].ran;
	}
	return mps ? longest : sum;
}

static void check_random_arrivals(void)
{
	static struct sched s;
	double work = 0;
	memset(&s, 0, sizeof s);
	s.slice = 2 * MS;
	s.switch_cost = next_random(2) * MS / 10;
	s.group = UINT32_MAX;
	for (int i = 0; i < ENTITIES; i++)
		add(&s, i, i % 2 == 0);
	for (int step = 0; step < STEPS; step++) {
		int i = (int)next_random(ENTITIES);
		if (!s.entity[i].active)
			start(&s, i);
		run_to(&s, s.now + 1 + next_random(5 * MS), 4);
	}
	for (int i = 0; i < ENTITIES; i++)
		work += s.entity[i].work;
	check(ran_by_group(&s, false) <= s.now, "processes never run side by side");
	check(ran_by_group(&s, true) <= s.now, "no client runs longer than time passes");
	check(work <= (double)s.now * 1.000001, "no more work is done than the SMs can do");
}

/* Clients that are always busy get the same, but for a slice each. */
static void check_fairness(void)
{
	static struct sched s;
	memset(&s, 0, sizeof s);
	s.slice = 2 * MS;
	s.switch_cost = MS / 10;
	s.group = UINT32_MAX;
	for (int i = 0; i < ENTITIES; i++) {
		add(&s, i, false);
		start(&s, i);
	}
	run_to(&s, 3000 * (uint64_t)MS, 0);
	uint64_t sum = 0, first = s.entity[0].ran;
	for (int i = 0; i < ENTITIES; i++) {
		uint64_t ran = s.entity[i].ran;
		sum += ran;
		uint64_t apart = ran > first ? ran - first : first - ran;
		/* A kernel's end gives back what is left of a slice. */
		check(apart < s.now / ENTITIES / 10, "equal clients get equal time");
	}
	check(sum > s.now * 9 / 10, "a GPU with work is busy");
}

int main(int argc, char **argv)
{
	random_state = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	check_random_arrivals();
	check_fairness();
	return 0;
}
