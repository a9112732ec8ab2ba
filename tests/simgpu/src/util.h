/* Small helpers that every program of the simulation uses. */
#ifndef SIMGPU_UTIL_H
#define SIMGPU_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct simgpu_msg;

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t now_ns(void);

/* CLOCK_REALTIME in nanoseconds. */
uint64_t wall_ns(void);

/* Sleeps until CLOCK_MONOTONIC reaches t; signals do not shorten it. */
void sleep_until(uint64_t t);

/* Has this thread run whenever it can, where it may: what is modelled by sleeping
 * does not depend on what else the machine does. */
void go_first(void);

/* "16GiB", "300MiB", "1g", "4096": bytes; all prefixes are powers of 1024, as
 * CUDA reads them. False if it is malformed. */
bool parse_size(const char *text, uint64_t *bytes);

/* "2ms", "0.5s", "100us", "3m": nanoseconds; a bare number has the given unit. */
bool parse_duration(const char *text, const char *unit, uint64_t *ns);

/* Prints "program: message" to stderr and exits 2. */
void usage_error(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* The device's directory: SIMGPU_DIR, or the default. */
const char *device_dir(void);

/* Connects to the device in dir. Returns a descriptor, or -1 with errno. */
int device_connect(const char *dir);

/* Sends m and waits for the reply. False if the device has gone. */
bool device_call(int fd, struct simgpu_msg *m);

#endif
