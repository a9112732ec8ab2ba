/*
 * The device process: one thread, one loop. Each GPU lives on a virtual
 * timeline that is brought up to the present before anything else is handled,
 * so that late wake-ups delay messages but never lose GPU time.
 */
#ifndef SIMGPU_DEVICE_H
#define SIMGPU_DEVICE_H

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "protocol.h"
#include "sched.h"

enum { MAX_CLIENTS = 512 };

struct options {
	const char *dir;
	const char *seed;
	const char *name;
	const char *minors;
	int gpus;
	int mig; /* instances on each GPU */
	bool background;
	bool until_eof;
	uint64_t memory, reserved, context; /* bytes */
	uint64_t slice, switch_cost, period, merge, lag; /* ns */
	uint64_t swap_rate; /* bytes a second */
};

struct kernel {
	uint64_t id;
	uint64_t ns;
};

/* A stretch of time in which a context kept a unit busy, not yet written. */
struct segment {
	bool open;
	uint64_t start, end;
	uint64_t busy;
};

/* What one process has on one unit. Its place in the unit's scheduler is slot. */
struct context {
	struct client *client;
	uint32_t unit;
	int slot;
	uint64_t memory;  /* on the device */
	uint64_t swapped; /* taken off it by a checkpoint */
	struct kernel queue[SIMGPU_QUEUE];
	unsigned head, queued;
	struct segment segment;
	double sampled; /* weighted ns in this sample period */
};

/* A checkpoint operation under way on a process. */
struct operation {
	uint32_t op; /* 0: none */
	uint64_t id; /* in the question to the helper and its answer */
	uint64_t requester; /* serial of the client that waits for the result */
	bool asked;         /* the helper has not answered yet */
	uint64_t deadline; /* of a lock; 0: none */
	uint64_t done_at;  /* when the copying ends; 0: not begun */
};

struct client {
	int fd, pidfd;
	uint64_t serial; /* tells a reused place from its last owner */
	pid_t pid;
	char label[96];
	uint32_t group;
	bool mps;
	bool helper;
	uint64_t thread; /* of a helper */
	double want, cap;
	struct context *context[SIMGPU_UNITS];
	enum simgpu_cuda_state state;
	struct operation operation;
};

struct unit {
	struct sched sched;
	struct context *slot[SIMGPU_PROCS];
};

struct device {
	struct options o;
	struct simgpu_state *state;
	struct unit *unit;
	struct client *client[MAX_CLIENTS];
	FILE *record, *events;
	int epoll, timer, listener;
	uint64_t wall_offset; /* CLOCK_REALTIME less CLOCK_MONOTONIC, ns */
	uint64_t next_tick;   /* 0: nothing to sample */
	uint64_t serials;
	int32_t cuda_fault[OP_ASK]; /* result by operation, 0: none */
	sigset_t signals;     /* blocked while the loop waits */
	bool stop;
};

/* options.c: exits 2 on a malformed command line. */
struct options parse_options(int argc, char **argv);

/* ctl.c: the control command's exit status. */
int control_command(int argc, char **argv);

/* units.c */
void units_init(struct device *d);
int unit_find(const struct device *d, const char *token);
void state_begin(struct device *d);
void state_end(struct device *d);
void publish_unit(struct device *d, uint32_t unit);

/* work.c */
void advance(struct device *d, uint64_t now);
uint64_t next_event(struct device *d, uint64_t now);
struct context *context_get(struct device *d, struct client *c, uint32_t unit);
int context_alloc(struct device *d, struct context *x, uint64_t bytes);
bool context_launch(struct device *d, struct context *x, struct kernel k);
void context_drop(struct device *d, struct context *x);

/* record.c */
void record_open(struct device *d);
void record_add(struct device *d, struct context *x, uint64_t start, uint64_t end, uint64_t busy);
void record_write(struct device *d, struct context *x);
void record_event(struct device *d, const struct client *c, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void tick(struct device *d, uint64_t at);

/* clients.c */
void client_accept(struct device *d);
void client_ready(struct device *d, int index);
void client_drop(struct device *d, struct client *c);
void client_send(struct device *d, struct client *c, struct simgpu_msg *m);
struct client *client_by_serial(struct device *d, uint64_t serial);
struct client *client_by_pid(struct device *d, pid_t pid, bool helper);
bool client_idle(const struct client *c);

/* control.c: answers a command into reply (SIMGPU_REPLY bytes); a result. */
int control(struct device *d, const char *command, char *reply);

/* checkpoint.c */
void checkpoint_request(struct device *d, struct client *requester, struct simgpu_msg *m);
void checkpoint_answer(struct device *d, struct client *helper, const struct simgpu_msg *m);
void checkpoint_turn(struct device *d, uint64_t now);
uint64_t checkpoint_next(const struct device *d);
void checkpoint_gone(struct device *d, struct client *c);

#endif
