/*
 * What the device writes down.
 *
 * record: after a header line, one line per busy stretch
 *     GPU PID LABEL START END BUSY
 * START and END in CLOCK_MONOTONIC nanoseconds, BUSY the nanoseconds of GPU
 * time within. A stretch lasts from the first slice of a kernel to the end of
 * the last one queued behind it: where two processes compete for a GPU their
 * stretches overlap, though their slices do not. A stretch that goes on is
 * written in parts, one per sample period, that meet exactly.
 *
 * events: TIME PID LABEL EVENT DETAILS...
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "util.h"

static FILE *open_log(const struct device *d, const char *name)
{
	char path[4096];
	snprintf(path, sizeof path, "%s/%s", d->o.dir, name);
	FILE *f = fopen(path, "we");
	if (f == NULL)
		usage_error("%s: %s", path, strerror(errno));
	fprintf(f, "# simgpu 1 monotonic_ns=%" PRIu64 " wall_ns=%" PRIu64 "\n", now_ns(), wall_ns());
	fflush(f);
	return f;
}

void record_open(struct device *d)
{
	d->record = open_log(d, "record");
	d->events = open_log(d, "events");
}

/* Adds a stretch to the open segment, or starts a new one. */
void record_add(struct device *d, struct context *x, uint64_t start, uint64_t end, uint64_t busy)
{
	struct segment *g = &x->segment;
	if (g->open && start > g->end + d->o.merge)
		record_write(d, x);
	if (!g->open)
		*g = (struct segment){ .open = true, .start = start };
	g->end = end;
	g->busy += busy;
}

void record_write(struct device *d, struct context *x)
{
	struct segment *g = &x->segment;
	if (g->open && g->end > g->start)
		fprintf(d->record, "%u %d %s %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", x->unit,
			(int)x->client->pid, x->client->label, g->start, g->end, g->busy);
	*g = (struct segment){ .open = false };
}

void record_event(struct device *d, const struct client *c, const char *format, ...)
{
	va_list args;
	fprintf(d->events, "%" PRIu64 " %d %s ", now_ns(), c ? (int)c->pid : 0, c ? c->label : "-");
	va_start(args, format);
	vfprintf(d->events, format, args);
	va_end(args);
	fputc('\n', d->events);
	fflush(d->events);
}

static void put_sample(struct simgpu_unit *u, struct simgpu_sample s)
{
	u->sample[u->sampled++ % SIMGPU_SAMPLES] = s;
}

static uint32_t busy_share(const struct device *d, double ns)
{
	double share = ns * 10000 / (double)d->o.period;
	return share > 10000 ? 10000 : (uint32_t)(share + 0.5);
}

/* Ends a sample period on one unit. True if anything ran in it. */
static bool tick_unit(struct device *d, uint32_t unit, uint64_t time_us)
{
	struct simgpu_unit *u = &d->state->unit[unit];
	double sum = 0;
	for (int i = 0; i < d->unit[unit].sched.size; i++) {
		struct context *x = d->unit[unit].slot[i];
		if (x == NULL)
			continue;
		record_write(d, x);
		uint32_t share = busy_share(d, x->sampled);
		if (share > 0)
			put_sample(u, (struct simgpu_sample){ time_us, (uint32_t)x->client->pid, share });
		sum += x->sampled;
		x->sampled = 0;
	}
	if (sum > 0)
		put_sample(u, (struct simgpu_sample){ time_us, 0, busy_share(d, sum) });
	return sum > 0 || sched_busy(&d->unit[unit].sched);
}

/* Ends a sample period: samples for NVML, lines for the record. */
void tick(struct device *d, uint64_t at)
{
	bool busy = false;
	state_begin(d);
	for (uint32_t i = 0; i < d->state->units; i++)
		busy |= tick_unit(d, i, (at + d->wall_offset) / 1000);
	state_end(d);
	fflush(d->record);
	d->next_tick = busy ? at + d->o.period : 0;
}
