/*
 * One question to gimbald and its answer: a line of JSON each way on its unix
 * socket, within a time. Each question makes a connection of its own, which
 * costs some ten microseconds: a step lasts for hours, and while it runs its
 * slurmstepd holds no descriptor of ours.
 *
 * There is no thread here and no wait that the kernel does not bound.
 */
#include "gimbal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

int64_t monotonic_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Bounds the next call on fd; which is SO_SNDTIMEO or SO_RCVTIMEO. */
static bool bound(int fd, int which, int64_t until)
{
	int64_t left = until - monotonic_ms();
	struct timeval tv = { .tv_sec = left / 1000, .tv_usec = left % 1000 * 1000 };

	errno = ETIMEDOUT;
	return left > 0 && setsockopt(fd, SOL_SOCKET, which, &tv, sizeof tv) == 0;
}

/* What a daemon of a stranger says is not to be believed. */
static bool trusted(int fd)
{
	struct ucred peer;
	socklen_t size = sizeof peer;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
		return false;
	errno = EACCES;
	return peer.uid == 0 || peer.uid == geteuid();
}

/* Connects; a full queue of the daemon's is waited for. */
static bool dial(int fd, const char *path, int64_t until)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof to.sun_path) {
		errno = ENAMETOOLONG;
		return false;
	}
	strcpy(to.sun_path, path);
	while (bound(fd, SO_SNDTIMEO, until)) {
		if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
			return trusted(fd);
		if (errno != EINTR)
			return false;
	}
	return false;
}

static void send_all(int fd, const char *line, int64_t until)
{
	for (size_t left = strlen(line); left > 0 && bound(fd, SO_SNDTIMEO, until);) {
		ssize_t n = send(fd, line, left, MSG_NOSIGNAL);
		if (n < 0 && errno != EINTR)
			return;
		if (n > 0) {
			line += n;
			left -= (size_t)n;
		}
	}
}

/* Reads one line and cuts its newline off. */
static bool receive_line(int fd, char *answer, size_t size, int64_t until)
{
	size_t used = 0;

	while (used < size - 1 && bound(fd, SO_RCVTIMEO, until)) {
		ssize_t n = recv(fd, answer + used, size - 1 - used, 0);
		if (n == 0)
			errno = ECONNRESET;
		if (n == 0 || (n < 0 && errno != EINTR))
			return false;
		char *end = n > 0 ? memchr(answer + used, '\n', (size_t)n) : NULL;
		if (end) {
			*end = '\0';
			return true;
		}
		used += n > 0 ? (size_t)n : 0;
	}
	if (used >= size - 1)
		errno = EMSGSIZE;
	return false;
}

int daemon_send(const char *path, const char *line, int64_t until)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	if (dial(fd, path, until)) {
		/*
		 * A daemon that is too busy says so before it reads: then sending
		 * fails, and its answer is there all the same.
		 */
		send_all(fd, line, until);
		return fd;
	}
	int why = errno == EAGAIN ? ETIMEDOUT : errno;
	close(fd);
	errno = why;
	return -1;
}

bool daemon_receive(int fd, char *answer, size_t size, int64_t until)
{
	bool answered = receive_line(fd, answer, size, until);
	int why = errno == EAGAIN ? ETIMEDOUT : errno;

	close(fd);
	errno = why;
	return answered;
}
