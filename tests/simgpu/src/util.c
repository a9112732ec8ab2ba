#include "util.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "protocol.h"

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

uint64_t wall_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}

void sleep_until(uint64_t t)
{
	struct timespec at = { (time_t)(t / 1000000000u), (long)(t % 1000000000u) };
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
		;
}

void go_first(void)
{
	struct sched_param p = { .sched_priority = 1 };
	(void)!sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &p);
}

struct unit {
	const char *name;
	double factor;
};

static bool parse_scaled(const char *text, const struct unit *units, uint64_t *out)
{
	char *end;
	errno = 0;
	double v = strtod(text, &end);
	if (end == text || errno != 0 || !isfinite(v) || v < 0)
		return false;
	for (; units->name != NULL; units++) {
		if (strcasecmp(end, units->name) != 0)
			continue;
		*out = (uint64_t)(v * units->factor + 0.5);
		return v * units->factor < 1e19;
	}
	return false;
}

bool parse_size(const char *text, uint64_t *bytes)
{
	static const struct unit units[] = {
		{ "", 1 },
		{ "b", 1 },
		{ "k", 1024.0 },
		{ "kb", 1024.0 },
		{ "kib", 1024.0 },
		{ "m", 1048576.0 },
		{ "mb", 1048576.0 },
		{ "mib", 1048576.0 },
		{ "g", 1073741824.0 },
		{ "gb", 1073741824.0 },
		{ "gib", 1073741824.0 },
		{ NULL, 0 },
	};
	return parse_scaled(text, units, bytes);
}

bool parse_duration(const char *text, const char *unit, uint64_t *ns)
{
	static const struct unit units[] = {
		{ "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 }, { "m", 60e9 }, { NULL, 0 },
	};
	char full[64];
	size_t n = strlen(text);
	if (n == 0 || n > 40)
		return false;
	bool bare = strspn(text, "0123456789.") == n;
	snprintf(full, sizeof full, "%s%s", text, bare ? unit : "");
	return parse_scaled(full, units, ns);
}

void usage_error(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	fprintf(stderr, "%s: ", program_invocation_short_name);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(2);
}

const char *device_dir(void)
{
	const char *dir = getenv("SIMGPU_DIR");
	return dir != NULL && dir[0] != '\0' ? dir : SIMGPU_DEFAULT_DIR;
}

int device_connect(const char *dir)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int n = snprintf(a.sun_path, sizeof a.sun_path, "%s/socket", dir);
	if (n < 0 || (size_t)n >= sizeof a.sun_path) {
		errno = ENAMETOOLONG;
		return -1;
	}
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
		return fd;
	int saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

bool device_call(int fd, struct simgpu_msg *m)
{
	if (send(fd, m, sizeof *m, MSG_NOSIGNAL) != (ssize_t)sizeof *m)
		return false;
	ssize_t n;
	do {
		n = recv(fd, m, sizeof *m, 0);
	} while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof *m;
}
