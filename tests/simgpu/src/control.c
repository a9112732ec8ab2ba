/* Commands that change the device while it runs, and show it. */
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "device.h"
#include "util.h"

enum { MAX_WORDS = 8 };

struct command {
	struct device *d;
	char *word[MAX_WORDS];
	int words;
	char *reply;
};

struct name {
	const char *text;
	int value;
};

static int fail(struct command *c, const char *what, const char *word)
{
	snprintf(c->reply, SIMGPU_REPLY, "%s: %s", word, what);
	return RESULT_INVALID;
}

/* The value of KEY=VALUE among the words after the first; NULL: absent. */
static const char *argument(const struct command *c, const char *key)
{
	size_t n = strlen(key);
	for (int i = 1; i < c->words; i++)
		if (strncmp(c->word[i], key, n) == 0 && c->word[i][n] == '=')
			return c->word[i] + n + 1;
	return NULL;
}

static bool look_up(const struct name *names, const char *text, int *value)
{
	for (; names->text != NULL; names++)
		if (strcmp(names->text, text) == 0) {
			*value = names->value;
			return true;
		}
	char *end;
	long v = strtol(text, &end, 10);
	*value = (int)v;
	return end != text && *end == '\0' && v >= INT_MIN && v <= INT_MAX;
}

/* NVML's results and the answers yes and no. */
static const struct name returns[] = {
	{ "ok", 0 },	   { "no", 0 },	    { "available", 0 }, { "yes", 1 },
	{ "not-supported", 3 },	   { "no-permission", 4 },  { "not-found", 6 },
	{ "driver-not-loaded", 9 }, { "timeout", 10 },	    { "lost", 15 },
	{ "mismatch", 18 },	   { "unknown", 999 },	    { "not-available", 1 },
	{ "garbage", SIMGPU_GARBAGE }, { NULL, 0 },
};

static const struct name faults[] = {
	{ "process-util", FAULT_PROCESS_UTIL },
	{ "utilization", FAULT_UTILIZATION },
	{ "process-memory", FAULT_PROCESS_MEMORY },
	{ "processes", FAULT_PROCESSES },
	{ "memory-info", FAULT_MEMORY_INFO },
	{ "lost", FAULT_LOST },
	{ NULL, 0 },
};

static const struct name cuda_results[] = {
	{ "ok", RESULT_OK },
	{ "failed", RESULT_UNKNOWN },
	{ "not-supported", RESULT_NOT_SUPPORTED },
	{ "not-ready", RESULT_NOT_READY },
	{ "illegal-state", RESULT_ILLEGAL_STATE },
	{ NULL, 0 },
};

static const struct name cuda_operations[] = {
	{ "cuda-lock", OP_LOCK },	{ "cuda-checkpoint", OP_CHECKPOINT },
	{ "cuda-restore", OP_RESTORE }, { "cuda-unlock", OP_UNLOCK },
	{ "cuda-state", OP_GET_STATE }, { NULL, 0 },
};

static void set_unit(struct device *d, int unit, const char *key, const char *value, int number)
{
	struct simgpu_unit *u = &d->state->unit[unit];
	int fault;
	if (look_up(faults, key, &fault)) {
		u->fault[fault] = number;
		return;
	}
	u->generation++;
	if (strcmp(key, "present") == 0)
		u->present = number;
	else
		snprintf(u->uuid, sizeof u->uuid, "%s", value);
}

/* Applies a setting to one unit, or to all. */
static int set_units(struct command *c, const char *key, const char *value, int number)
{
	struct simgpu_state *s = c->d->state;
	const char *gpu = argument(c, "gpu");
	int only = gpu != NULL ? atoi(gpu) : -1;
	if (only >= (int)s->units)
		return fail(c, "no such GPU", gpu);
	state_begin(c->d);
	for (int i = 0; i < (int)s->units; i++)
		if (only < 0 || i == only)
			set_unit(c->d, i, key, value, number);
	state_end(c->d);
	return RESULT_OK;
}

static int set_lag(struct command *c, uint64_t ns)
{
	state_begin(c->d);
	for (uint32_t i = 0; i < c->d->state->units; i++)
		c->d->state->unit[i].lag_us = ns / 1000;
	state_end(c->d);
	return RESULT_OK;
}

static int set_duration(struct command *c, const char *key, const char *value)
{
	uint64_t ns;
	if (!parse_duration(value, "s", &ns))
		return fail(c, "not a duration", value);
	if (strcmp(key, "lag") == 0)
		return set_lag(c, ns);
	atomic_store(&c->d->state->hang_until, ns == 0 ? 0 : now_ns() + ns);
	return RESULT_OK;
}

static int set(struct command *c)
{
	char *key = c->words > 1 ? c->word[1] : NULL;
	char *value = key != NULL ? strchr(key, '=') : NULL;
	int number = 0, which;
	if (value == NULL)
		return fail(c, "expected KEY=VALUE", "set");
	*value++ = '\0';
	if (strcmp(key, "hang") == 0 || strcmp(key, "lag") == 0)
		return set_duration(c, key, value);
	if (look_up(cuda_operations, key, &which)) {
		if (!look_up(cuda_results, value, &number))
			return fail(c, "unknown result", value);
		c->d->cuda_fault[which] = number;
		return RESULT_OK;
	}
	if (strcmp(key, "uuid") == 0)
		return set_units(c, key, value, 0);
	if (!look_up(returns, value, &number))
		return fail(c, "unknown value", value);
	if (strcmp(key, "driver") == 0) {
		c->d->state->driver = number;
		return RESULT_OK;
	}
	if (strcmp(key, "present") == 0 || look_up(faults, key, &which))
		return set_units(c, key, value, number);
	return fail(c, "unknown setting", key);
}

static struct simgpu_process *find_ghost(struct simgpu_unit *u, uint32_t pid)
{
	for (uint32_t i = 0; i < u->processes; i++)
		if (u->process[i].ghost && u->process[i].pid == pid)
			return &u->process[i];
	return NULL;
}

/* A process that NVML lists though it is no client; no memory: it leaves. */
static int ghost(struct command *c)
{
	const char *pid = argument(c, "pid"), *memory = argument(c, "memory"), *gpu = argument(c, "gpu");
	uint32_t unit = gpu != NULL ? (uint32_t)atoi(gpu) : 0;
	uint64_t bytes;
	if (pid == NULL || memory == NULL || !parse_size(memory, &bytes) || unit >= c->d->state->units)
		return fail(c, "expected pid=PID memory=SIZE [gpu=N]", "ghost");
	struct simgpu_unit *u = &c->d->state->unit[unit];
	struct simgpu_process *p = find_ghost(u, (uint32_t)atoi(pid));
	state_begin(c->d);
	if (p == NULL && bytes > 0 && u->processes < SIMGPU_PROCS)
		p = &u->process[u->processes++];
	if (p != NULL && bytes > 0)
		*p = (struct simgpu_process){ (uint32_t)atoi(pid), 1, bytes };
	else if (p != NULL)
		p->ghost = 0;
	state_end(c->d);
	publish_unit(c->d, unit);
	return RESULT_OK;
}

static int xid(struct command *c)
{
	const char *gpu = argument(c, "gpu"), *code = argument(c, "code");
	if (code == NULL)
		return fail(c, "expected code=N [gpu=N]", "xid");
	struct simgpu_state *s = c->d->state;
	uint32_t n = atomic_load(&s->xids);
	s->xid[n % SIMGPU_XIDS] = (struct simgpu_xid){ gpu ? (uint32_t)atoi(gpu) : 0, (uint32_t)atoi(code) };
	atomic_store(&s->xids, n + 1);
	syscall(SYS_futex, &s->xids, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	return RESULT_OK;
}

static void show_unit(FILE *f, const struct simgpu_unit *u, uint32_t index)
{
	fprintf(f,
		"%s{\"index\":%u,\"uuid\":\"%s\",\"minor\":%d,\"parent\":%d,\"present\":%s,"
		"\"total\":%" PRIu64 ",\"reserved\":%" PRIu64 ",\"used\":%" PRIu64 ",\"processes\":[",
		index ? "," : "", index, u->uuid, u->minor, u->parent, u->present ? "true" : "false", u->total,
		u->reserved, u->used);
	for (uint32_t i = 0; i < u->processes; i++)
		fprintf(f, "%s{\"pid\":%u,\"memory\":%" PRIu64 ",\"ghost\":%s}", i ? "," : "", u->process[i].pid,
			u->process[i].memory, u->process[i].ghost ? "true" : "false");
	fprintf(f, "]}");
}

static void show_clients(FILE *f, const struct device *d)
{
	static const char *const states[] = { "running", "locked", "checkpointed", "failed" };
	bool first = true;
	for (int i = 0; i < MAX_CLIENTS; i++) {
		const struct client *c = d->client[i];
		if (c == NULL || client_by_pid((struct device *)d, c->pid, false) != c)
			continue;
		fprintf(f, "%s{\"pid\":%d,\"label\":\"%s\",\"mps\":%s,\"state\":\"%s\"}", first ? "" : ",",
			(int)c->pid, c->label, c->mps ? "true" : "false", states[c->state]);
		first = false;
	}
}

static int show(struct command *c)
{
	struct simgpu_state *s = c->d->state;
	FILE *f = fmemopen(c->reply, SIMGPU_REPLY, "w");
	if (f == NULL)
		return fail(c, "out of memory", "show");
	fprintf(f, "{\"inits\":%u,\"shutdowns\":%u,\"calls\":%" PRIu64 ",\"looks\":%" PRIu64 ",\"gpus\":[",
		atomic_load(&s->inits), atomic_load(&s->shutdowns), atomic_load(&s->calls), atomic_load(&s->looks));
	for (uint32_t i = 0; i < s->units; i++)
		show_unit(f, &s->unit[i], i);
	fprintf(f, "],\"clients\":[");
	show_clients(f, c->d);
	fprintf(f, "]}");
	fclose(f);
	return RESULT_OK;
}

static int stop(struct command *c)
{
	c->d->stop = true;
	return RESULT_OK;
}

int control(struct device *d, const char *text, char *reply)
{
	static const struct {
		const char *name;
		int (*run)(struct command *);
	} verbs[] = { { "set", set }, { "ghost", ghost }, { "xid", xid }, { "show", show }, { "stop", stop } };
	struct command c = { .d = d, .reply = reply };
	char copy[sizeof((struct simgpu_msg *)0)->text], *rest = copy, *word;
	snprintf(copy, sizeof copy, "%s", text);
	while (c.words < MAX_WORDS && (word = strsep(&rest, " ")) != NULL)
		if (*word != '\0')
			c.word[c.words++] = word;
	for (size_t i = 0; c.words > 0 && i < sizeof verbs / sizeof verbs[0]; i++)
		if (strcmp(verbs[i].name, c.word[0]) == 0)
			return verbs[i].run(&c);
	return fail(&c, "expected set, ghost, xid, show or stop", c.words > 0 ? c.word[0] : "control");
}
