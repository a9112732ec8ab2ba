/*
 * The requests as helper/wire has them. A registration is written here and
 * nowhere else: what goes to the daemon at once and what is left for a later
 * one are the same bytes.
 */
#include "gimbal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* What files of /proc hold of one process at most. */
#define PROC_MOST (16 << 10)

/* More GPUs than that are no node's. */
#define RANGE_MOST 256

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* JSON under construction; full once something did not fit. */
struct text {
	char *at, *end;
	bool full;
};

static void __attribute__((format(printf, 2, 3))) put(struct text *t, const char *format, ...)
{
	size_t room = (size_t)(t->end - t->at);
	va_list args;

	va_start(args, format);
	int n = vsnprintf(t->at, room, format, args);
	va_end(args);
	t->full |= n < 0 || (size_t)n >= room;
	if (!t->full)
		t->at += n;
}

static void put_char(struct text *t, char c)
{
	t->full |= t->end - t->at < 2; /* a NUL follows */
	if (!t->full)
		*t->at++ = c;
}

/*
 * A string of n bytes. Bytes that are no UTF-8 pass through, and the daemon
 * puts U+FFFD in their place, as Go does everywhere.
 */
static void put_string(struct text *t, const char *s, size_t n)
{
	put_char(t, '"');
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)s[i];
		if (c < 0x20) {
			put(t, "\\u%04x", c);
			continue;
		}
		if (c == '"' || c == '\\')
			put_char(t, '\\');
		put_char(t, s[i]);
	}
	put_char(t, '"');
}

/* ,"name":"value", or nothing for an empty value */
static void put_member(struct text *t, const char *name, const char *value)
{
	if (!*value)
		return;
	put(t, ",\"%s\":", name);
	put_string(t, value, strlen(value));
}

/* ---- of /proc ---- */

/* Reads a file of a process, NUL at the end; -1 and errno when there is none. */
static ssize_t read_proc(pid_t pid, const char *name, char *out, size_t size)
{
	char path[64];
	size_t used = 0;
	ssize_t n = -1;

	snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && used < size - 1 && (n = read(fd, out + used, size - 1 - used)) != 0) {
		if (n < 0 && errno != EINTR)
			break;
		used += n > 0 ? (size_t)n : 0;
	}
	int why = errno;
	if (fd >= 0)
		close(fd);
	out[used] = '\0';
	errno = why;
	return n < 0 ? -1 : (ssize_t)used;
}

/*
 * Field 22 of a stat file, in clock ticks since boot, or 0. The command name,
 * field 2, may hold blanks and parentheses.
 */
static uint64_t start_of(const char *stat)
{
	const char *p = strrchr(stat, ')');
	char *end;

	for (int field = 2; p && field < 22; field++) {
		p = strchr(p, ' ');
		p = p ? p + strspn(p, " ") : NULL;
	}
	if (!p || !is_digit(*p))
		return 0;
	unsigned long long start = strtoull(p, &end, 10);
	return *end == ' ' || *end == '\n' ? start : 0;
}

/* When a process was started, or 0 when it is gone. */
static uint64_t start_time(pid_t pid)
{
	char stat[1024];

	return read_proc(pid, "stat", stat, sizeof stat) < 0 ? 0 : start_of(stat);
}

/* ---- parts of a registration ---- */

/* Whether n bytes are a range such as 2-4. */
static bool is_range(const char *item, size_t n, unsigned long *first, unsigned long *last)
{
	char *end;

	if (!is_digit(item[0]))
		return false;
	*first = strtoul(item, &end, 10);
	if (*end != '-' || !is_digit(end[1]))
		return false;
	*last = strtoul(end + 1, &end, 10);
	return end == item + n && *last >= *first && *last <= UINT16_MAX && *last - *first < RANGE_MOST;
}

/* 2-4 as 2, 3, 4, and all else as it is. */
static void put_gpu(struct text *t, const char *item, size_t n, const char *separator)
{
	unsigned long first, last;

	if (!is_range(item, n, &first, &last)) {
		put(t, "%s", separator);
		put_string(t, item, n);
		return;
	}
	for (; first <= last; first++, separator = ",")
		put(t, "%s\"%lu\"", separator, first);
}

/* The lists that Slurm makes: 0,2 or 0-3 or UUIDs. */
static void put_gpus(struct text *t, const char *list)
{
	const char *separator = "";

	put(t, ",\"gpus\":[");
	while (*list) {
		list += strspn(list, " \t,");
		size_t n = strcspn(list, ",");
		const char *next = list + n;
		while (n > 0 && (list[n - 1] == ' ' || list[n - 1] == '\t'))
			n--;
		if (n > 0) {
			put_gpu(t, list, n, separator);
			separator = ",";
		}
		list = next;
	}
	put(t, "]");
}

static void put_options(struct text *t, const struct step_facts *f)
{
	const char *deadline = f->options[OPT_DEADLINE];

	/* The canonical form of a resolved time is Slurm's own. */
	if (strncmp(deadline, "uts", 3) == 0)
		deadline += 3;
	put(t, ",\"options\":{\"pack\":");
	put_string(t, f->options[OPT_PACK], strlen(f->options[OPT_PACK]));
	put_member(t, "memory", f->options[OPT_MEMORY]);
	put_member(t, "class", f->options[OPT_CLASS]);
	put_member(t, "weight", f->options[OPT_WEIGHT]);
	put_member(t, "deadline", deadline);
	put_member(t, "signal", f->options[OPT_SIGNAL]);
	put_member(t, "max_pause", f->options[OPT_MAX_PAUSE]);
	put(t, "}");
}

static void put_texts(struct text *t, const struct step_facts *f)
{
	put_member(t, "gpus_from", f->gpus_from);
	put_member(t, "visible", f->visible);
	put_member(t, "placed", f->placed);
	put_member(t, "user", f->user);
	put_member(t, "account", f->account);
	put_member(t, "partition", f->partition);
	put_member(t, "job_name", f->job_name);
}

static void put_numbers(struct text *t, const struct step_facts *f)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	put(t, "\"job\":%u,\"step\":%u,\"array_job\":%u,\"array_task\":%u,\"het_job\":%u,\"het_offset\":%u",
	    f->job, f->step, f->array_job, f->array_task, f->het_job, f->het_offset);
	put(t, ",\"tasks\":%u,\"nnodes\":%u,\"node\":%u,\"restart\":%u,\"uid\":%u,\"gid\":%u",
	    f->tasks, f->nnodes, f->node, f->restart, f->uid, f->gid);
	put(t, ",\"end_time\":%lld,\"launched\":%lld", (long long)f->end_time,
	    (long long)now.tv_sec * 1000000000 + now.tv_nsec);
	if (f->shards)
		put(t, ",\"shards\":%u", f->shards);
	put(t, ",\"own\":%s,\"pty\":%s", f->own ? "true" : "false", f->pty ? "true" : "false");
}

/* All of a registration that does not depend on the task. */
static void put_step(struct text *t, const struct step_facts *f)
{
	uint64_t start = start_time(getpid());

	put_numbers(t, f);
	put_gpus(t, f->gpus);
	put_texts(t, f);
	put_options(t, f);
	/* Without its start time the pid of slurmstepd says nothing. */
	if (start)
		put(t, ",\"stepd\":{\"pid\":%d,\"start\":%llu}", (int)getpid(), (unsigned long long)start);
}

static struct text open_text(char *out)
{
	return (struct text){ .at = out, .end = out + REQUEST_SIZE };
}

/* ---- the parameters ---- */

bool request_prepare(char *out, const struct step_facts *f)
{
	struct text t = open_text(out);

	put(&t, "{\"step\":{");
	put_step(&t, f);
	put(&t, "}}");
	return !t.full;
}

bool request_register(char *out, const struct step_facts *f, struct task_facts *task)
{
	static char cgroup[PROC_MOST];
	struct text t = open_text(out);

	task->start = start_time(task->pid);
	/* A kernel without cgroups has no such file. */
	if (!task->start || (read_proc(task->pid, "cgroup", cgroup, sizeof cgroup) < 0 && errno != ENOENT))
		return false;
	size_t n = strlen(cgroup);
	if (n > 0 && cgroup[n - 1] == '\n')
		cgroup[n - 1] = '\0';
	put(&t, "{");
	put_step(&t, f);
	put(&t, ",\"task\":%u,\"local_task\":%u,\"proc\":{\"pid\":%d,\"start\":%llu}", task->global, task->local,
	    (int)task->pid, (unsigned long long)task->start);
	put(&t, ",\"cgroup\":");
	put_string(&t, cgroup, strlen(cgroup));
	put(&t, "}");
	errno = EMSGSIZE;
	return !t.full;
}

void request_task_exit(char *out, const struct step_facts *f, const struct task_facts *task)
{
	snprintf(out, SHORT_REQUEST_SIZE, "{\"job\":%u,\"step\":%u,\"proc\":{\"pid\":%d,\"start\":%llu},\"task\":%u,\"status\":%d}",
	         f->job, f->step, (int)task->pid, (unsigned long long)task->start, task->global, task->status);
}

void request_step_end(char *out, const struct step_facts *f)
{
	snprintf(out, SHORT_REQUEST_SIZE, "{\"job\":%u,\"step\":%u}", f->job, f->step);
}
