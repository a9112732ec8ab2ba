/* The trainer's children: data loaders, daemons, and a steady stream of them. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trainer.h"
#include "util.h"

/* Children live until the pipe's other end, held by the trainer, is closed. */
struct nursery {
	const struct trainer_options *o;
	int read_end, write_end, gpu_fd;
};

static void note_pid(const struct trainer_options *o)
{
	char line[32];
	if (o->pids == NULL)
		return;
	int fd = open(o->pids, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	int n = snprintf(line, sizeof line, "%d\n", (int)getpid());
	if (fd >= 0 && write(fd, line, (size_t)n) == n)
		close(fd);
}

/* Waits for the trainer's end, or for the time given (ns, 0: none). */
static void live(int read_end, uint64_t ns)
{
	struct pollfd p = { .fd = read_end, .events = POLLIN };
	uint64_t end = now_ns() + ns;
	for (;;) {
		int64_t left = ns == 0 ? -1000000 : (int64_t)(end - now_ns());
		if (ns != 0 && left <= 0)
			return;
		int n = poll(&p, 1, (int)(left / 1000000) + (left > 0));
		if (n > 0 || (n < 0 && errno != EINTR))
			return;
	}
}

static void become_worker(const struct nursery *n, enum spawn kind, uint64_t life)
{
	char fd[16], ns[32];
	close(n->write_end);
	if (n->gpu_fd >= 0)
		close(n->gpu_fd);
	signal(SIGTERM, SIG_DFL);
	if (kind == SPAWN_SETSID)
		setsid();
	note_pid(n->o);
	if (kind == SPAWN_EXEC) {
		snprintf(fd, sizeof fd, "%d", n->read_end);
		snprintf(ns, sizeof ns, "%llu", (unsigned long long)life);
		fcntl(n->read_end, F_SETFD, 0);
		execl("/proc/self/exe", "simgpu-worker", "--worker", fd, ns, (char *)NULL);
	}
	live(n->read_end, life);
	_exit(0);
}

/* A daemon: the child leads a session and leaves its own child to init. */
static void become_daemon(const struct nursery *n, uint64_t life)
{
	setsid();
	if (fork() != 0)
		_exit(0);
	become_worker(n, SPAWN_PLAIN, life);
}

static void spawn(const struct nursery *n, enum spawn kind, uint64_t life)
{
	pid_t child = fork();
	if (child == 0 && kind == SPAWN_DAEMON)
		become_daemon(n, life);
	if (child == 0)
		become_worker(n, kind, life);
}

static void *keep_forking(void *arg)
{
	const struct nursery *n = arg;
	uint64_t at = now_ns();
	for (;;) {
		spawn(n, n->o->fork_kind, n->o->child_life_ns);
		at += n->o->fork_every_ns;
		if (at < now_ns())
			at = now_ns(); /* it was stopped: no burst to catch up */
		sleep_until(at);
	}
	return NULL;
}

/* Starts what the options ask for. gpu_fd is closed in each child. */
void workers_start(const struct trainer_options *o, int gpu_fd)
{
	static struct nursery n;
	int ends[2];
	pthread_t thread;
	if (o->plain + o->setsid + o->daemon + o->exec == 0 && o->fork_every_ns == 0)
		return;
	if (pipe2(ends, O_CLOEXEC) != 0)
		usage_error("pipe: %s", strerror(errno));
	n = (struct nursery){ o, ends[0], ends[1], gpu_fd };
	signal(SIGCHLD, SIG_IGN);
	const int counts[] = { o->plain, o->setsid, o->daemon, o->exec };
	for (int kind = SPAWN_PLAIN; kind <= SPAWN_EXEC; kind++)
		for (int i = 0; i < counts[kind]; i++)
			spawn(&n, (enum spawn)kind, 0);
	if (o->fork_every_ns > 0 && pthread_create(&thread, NULL, keep_forking, &n) == 0)
		pthread_detach(thread);
}

/* What an exec'ed worker runs: --worker FD NS. */
int worker_main(int argc, char **argv)
{
	if (argc != 4)
		usage_error("--worker is internal");
	live(atoi(argv[2]), strtoull(argv[3], NULL, 10));
	return 0;
}
