/*
 * What passes between gimbal.so (plain C) and gimbal_core.so (Go): one struct
 * down, one struct up. Both are built from the same tree; GIMBAL_CORE_ABI is
 * checked all the same, as an upgrade may replace one file before the other.
 */
#ifndef GIMBAL_CORE_H
#define GIMBAL_CORE_H

#include <stdint.h>

#define GIMBAL_CORE_ABI 2

#define GIMBAL_MESSAGE_SIZE 512
#define GIMBAL_ENV_SIZE 8192

/* Strings are never NULL. */
struct gimbal_core_request {
	const char *op;      /* of helper/wire: "register" */
	const char *params;  /* its parameters, JSON */
	const char *answer;  /* to be read: the daemon's line, without its newline */
	const char *pending; /* to be left in: the folder */
};

struct gimbal_core_reply {
	int32_t active;                    /* the daemon calibrates the step */
	char message[GIMBAL_MESSAGE_SIZE]; /* for the log, empty if none */
	char env[GIMBAL_ENV_SIZE];         /* "NAME=VALUE" strings, an empty one at the end */
};

/*
 * The exports: gimbal_core_read makes a reply of the daemon's answer,
 * gimbal_core_leave leaves the request for a daemon to come. 0, or -1 when the
 * daemon refused or the request is lost (message says why). gimbal_core_abi
 * takes nothing and returns GIMBAL_CORE_ABI; it returns once the Go runtime is
 * up.
 */
typedef int gimbal_core_call(struct gimbal_core_request *, struct gimbal_core_reply *);
typedef int gimbal_core_version(void);

#endif
