/*
 * What passes between gimbal.so (plain C) and gimbal_core.so (Go): one struct
 * down, one struct up. Both are built from the same tree; GIMBAL_CORE_ABI is
 * checked all the same, as an upgrade may replace one file before the other.
 */
#ifndef GIMBAL_CORE_H
#define GIMBAL_CORE_H

#include <stdint.h>

#define GIMBAL_CORE_ABI 1

#define GIMBAL_MESSAGE_SIZE 512
#define GIMBAL_ENV_SIZE 8192

/* Strings are never NULL; an empty one means unknown or not given. */
struct gimbal_core_request {
	/* from the plugstack line */
	const char *socket;
	const char *pending;
	uint32_t timeout_ms;
	/* the step */
	uint32_t job, step;
	uint32_t array_job, array_task; /* task: NO_VAL when in no array */
	uint32_t het_job, het_offset;   /* offset: NO_VAL when in no het job */
	uint32_t tasks, nnodes, node, restart, uid, gid;
	int64_t end_time;               /* unix seconds, 0 unknown */
	const char *gpus, *gpus_from, *visible;
	const char *user, *account, *partition, *job_name;
	/* the options in force, in their canonical form */
	const char *pack, *memory, *class_, *weight, *deadline, *signal;
	uint8_t own, pty;
	/* the task; zero in a call for the whole step */
	uint32_t task, local_task;
	int32_t pid, status;
};

struct gimbal_core_reply {
	int32_t active;                    /* the daemon calibrates the step */
	int32_t left;                      /* no daemon: left in the pending folder */
	char message[GIMBAL_MESSAGE_SIZE]; /* for the log, empty if none */
	char env[GIMBAL_ENV_SIZE];         /* "NAME=VALUE" strings, an empty one at the end */
};

/*
 * The exports: 0 when the daemon answered, 1 when the request was left for it,
 * -1 when neither worked (message says why). gimbal_core_abi takes nothing and
 * returns GIMBAL_CORE_ABI; it returns once the Go runtime is up.
 */
typedef int gimbal_core_call(struct gimbal_core_request *, struct gimbal_core_reply *);
typedef int gimbal_core_version(void);

#endif
