/* simgpu-trainer: see trainer.h and --help. */
#include "trainer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util.h"

struct training {
	struct trainer_options o;
	struct gpu gpu;
	uint64_t start;
	uint64_t done; /* iterations */
	uint64_t next_report, next_gap, next_grow;
	uint64_t memory;
	int progress;
};

/* What the signal handlers need: set before they are installed. */
static struct {
	const char *term_file, *notify_file;
	int term_exit;
	bool ignore_term;
	volatile uint64_t iteration;
} signals;

/* Appends "NAME iteration N" to a file; only calls that a handler may make. */
static void note(const char *file, const char *name)
{
	char line[64], digits[24];
	size_t n = 0, k = sizeof digits;
	uint64_t v = signals.iteration;
	do {
		digits[--k] = (char)('0' + v % 10);
	} while ((v /= 10) != 0);
	for (const char *p = name; *p != '\0'; p++)
		line[n++] = *p;
	for (const char *p = " iteration "; *p != '\0'; p++)
		line[n++] = *p;
	while (k < sizeof digits)
		line[n++] = digits[k++];
	line[n++] = '\n';
	int fd = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (fd >= 0 && write(fd, line, n) == (ssize_t)n)
		close(fd);
}

static void on_term(int signal)
{
	int saved = errno;
	(void)signal;
	if (signals.term_file != NULL)
		note(signals.term_file, "terminated");
	if (!signals.ignore_term)
		_exit(signals.term_exit);
	errno = saved;
}

static void on_notify(int signal)
{
	int saved = errno;
	(void)signal;
	note(signals.notify_file, "notified");
	errno = saved;
}

static void catch_signals(const struct trainer_options *o)
{
	struct sigaction term = { .sa_handler = on_term, .sa_flags = SA_RESTART };
	struct sigaction notify = { .sa_handler = on_notify, .sa_flags = SA_RESTART };
	signals.term_file = o->on_term;
	signals.term_exit = o->term_exit;
	signals.ignore_term = o->ignore_term;
	signals.notify_file = o->notify_file;
	if (o->on_term != NULL || o->ignore_term)
		sigaction(SIGTERM, &term, NULL);
	if (o->notify_file != NULL)
		sigaction(o->notify_signal, &notify, NULL);
}

static void open_progress(struct training *t)
{
	t->progress = -1;
	if (t->o.progress != NULL && t->o.progress[0] != '\0')
		t->progress = open(t->o.progress, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
}

static void write_progress(const struct training *t)
{
	char line[32];
	if (t->progress < 0)
		return;
	int n = snprintf(line, sizeof line, "%" PRIu64 "\n", t->done);
	if (pwrite(t->progress, line, (size_t)n, 0) != n)
		fprintf(stderr, "%s: %s\n", t->o.progress, strerror(errno));
}

static void report(struct training *t, uint64_t now)
{
	if (now < t->next_report)
		return;
	t->next_report = now + t->o.report_ns;
	if (t->o.iterations > 0)
		printf("iter %" PRIu64 "/%" PRIu64 "\n", t->done, t->o.iterations);
	else
		printf("iter %" PRIu64 "\n", t->done);
	fflush(stdout);
}

static void grow(struct training *t, uint64_t now)
{
	if (t->o.grow == 0 || now < t->next_grow || t->memory + t->o.grow > t->o.grow_max)
		return;
	gpu_alloc(&t->gpu, t->o.grow);
	t->memory += t->o.grow;
	t->next_grow = now + t->o.grow_every_ns;
}

/* Between two stretches of work the GPU is left alone. */
static void rest(struct training *t, uint64_t now)
{
	if (t->o.gap_ns == 0 || now < t->next_gap)
		return;
	gpu_wait(&t->gpu, 0);
	sleep_until(now_ns() + t->o.gap_ns);
	t->next_gap = now_ns() + t->o.gap_every_ns;
}

static bool finished(const struct training *t, uint64_t now)
{
	if (t->o.iterations > 0 && t->done >= t->o.iterations)
		return true;
	if (t->o.until != NULL && access(t->o.until, F_OK) == 0)
		return true;
	return t->o.duration > 0 && now - t->start >= t->o.duration;
}

static void iterate(struct training *t)
{
	uint64_t begin = now_ns();
	if (t->o.cpu_ns > 0)
		sleep_until(begin + t->o.cpu_ns);
	gpu_wait(&t->gpu, (uint64_t)t->o.queue - 1);
	gpu_launch(&t->gpu, t->o.gpu_ns);
	uint64_t now = now_ns();
	if (t->o.watchdog_ns > 0 && now - begin > t->o.watchdog_ns) {
		fprintf(stderr, "watchdog: an iteration took %.3f s\n", (double)(now - begin) / 1e9);
		abort();
	}
	signals.iteration = ++t->done;
	write_progress(t);
	report(t, now);
	grow(t, now);
	rest(t, now);
}

static void train(struct training *t)
{
	uint64_t now = now_ns();
	t->next_report = now + t->o.report_ns;
	t->next_gap = now + t->o.gap_every_ns;
	t->next_grow = now + t->o.grow_every_ns;
	t->memory = t->o.memory;
	gpu_alloc(&t->gpu, t->o.memory);
	while (!finished(t, now_ns()))
		iterate(t);
	gpu_wait(&t->gpu, 0);
}

int main(int argc, char **argv)
{
	static struct training t;
	if (argc > 1 && strcmp(argv[1], "--worker") == 0)
		return worker_main(argc, argv);
	t.o = trainer_parse(argc, argv);
	t.start = now_ns();
	go_first(); /* a node has cores for its jobs */
	catch_signals(&t.o);
	open_progress(&t);
	if (t.o.startup_ns > 0)
		sleep_until(t.start + t.o.startup_ns);
	gpu_open(&t.gpu, &t.o);
	workers_start(&t.o, t.gpu.fd);
	train(&t);
	printf("done iterations=%" PRIu64 " wall=%.3f\n", t.done, (double)(now_ns() - t.start) / 1e9);
	return 0;
}
