/* simgpu-device: the simulated GPUs of one node, and the control command. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "device.h"
#include "util.h"

enum { WOKE_LISTENER = MAX_CLIENTS * 2, WOKE_TIMER, WOKE_STDIN };

static void *must(void *p, const char *what)
{
	if (p == NULL || p == MAP_FAILED)
		usage_error("%s: %s", what, strerror(errno));
	return p;
}

static int must_fd(int fd, const char *what)
{
	if (fd < 0)
		usage_error("%s: %s", what, strerror(errno));
	return fd;
}

/* The state appears under its name only when it is complete. */
static void make_state(struct device *d)
{
	char path[4096], temporary[4096];
	snprintf(path, sizeof path, "%s/state", d->o.dir);
	snprintf(temporary, sizeof temporary, "%s/.state", d->o.dir);
	unlink(temporary);
	int fd = must_fd(open(temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666), temporary);
	must_fd(fchmod(fd, 0666), temporary);
	must_fd(ftruncate(fd, sizeof *d->state), temporary);
	d->state = must(mmap(NULL, sizeof *d->state, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), temporary);
	close(fd);
	units_init(d);
	d->state->layout = SIMGPU_LAYOUT;
	d->state->magic = SIMGPU_MAGIC;
	atomic_store(&d->state->running, 1);
	must_fd(rename(temporary, path), path);
}

static void make_listener(struct device *d)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int n = snprintf(a.sun_path, sizeof a.sun_path, "%s/socket", d->o.dir);
	if ((size_t)n >= sizeof a.sun_path)
		usage_error("%s: path too long for a socket", d->o.dir);
	unlink(a.sun_path);
	d->listener = must_fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), "socket");
	must_fd(bind(d->listener, (struct sockaddr *)&a, sizeof a), a.sun_path);
	must_fd(chmod(a.sun_path, 0666), a.sun_path);
	must_fd(listen(d->listener, 128), a.sun_path);
}

static void write_pid(const struct device *d)
{
	char path[4096];
	snprintf(path, sizeof path, "%s/pid", d->o.dir);
	FILE *f = must(fopen(path, "we"), path);
	fprintf(f, "%d\n", (int)getpid());
	fclose(f);
}

static void watch(const struct device *d, int fd, uint32_t what)
{
	struct epoll_event e = { .events = EPOLLIN, .data.u32 = what };
	must_fd(epoll_ctl(d->epoll, EPOLL_CTL_ADD, fd, &e), "epoll");
}

/* In the background: the child goes on, the parent leaves when it is ready. */
static void go_to_background(void)
{
	pid_t child = fork();
	must_fd(child, "fork");
	if (child > 0)
		_exit(0);
	setsid();
	int null = open("/dev/null", O_RDWR);
	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	if (null > 2)
		close(null);
}

static void start(struct device *d)
{
	if (mkdir(d->o.dir, 0755) != 0 && errno != EEXIST)
		usage_error("%s: %s", d->o.dir, strerror(errno));
	signal(SIGPIPE, SIG_IGN);
	d->unit = must(calloc(SIMGPU_UNITS, sizeof *d->unit), "memory");
	make_state(d);
	record_open(d);
	make_listener(d);
	if (d->o.background)
		go_to_background();
	write_pid(d);
	prctl(PR_SET_TIMERSLACK, 1);
	go_first(); /* hardware does not wait for a CPU */
	d->epoll = must_fd(epoll_create1(EPOLL_CLOEXEC), "epoll");
	d->timer = must_fd(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), "timerfd");
	watch(d, d->listener, WOKE_LISTENER);
	watch(d, d->timer, WOKE_TIMER);
	if (d->o.until_eof)
		watch(d, STDIN_FILENO, WOKE_STDIN);
}

static volatile sig_atomic_t terminated;

static void on_term(int signal)
{
	(void)signal;
	terminated = 1;
}

/* They interrupt nothing but the wait for events. */
static void catch_signals(struct device *d)
{
	struct sigaction term = { .sa_handler = on_term };
	sigset_t both;
	sigemptyset(&both);
	sigaddset(&both, SIGTERM);
	sigaddset(&both, SIGINT);
	sigprocmask(SIG_BLOCK, &both, &d->signals);
	sigdelset(&d->signals, SIGTERM);
	sigdelset(&d->signals, SIGINT);
	sigaction(SIGTERM, &term, NULL);
	sigaction(SIGINT, &term, NULL);
}

static void set_timer(struct device *d, uint64_t at)
{
	struct itimerspec t = { 0 };
	if (at != UINT64_MAX) {
		t.it_value.tv_sec = (time_t)(at / 1000000000u);
		t.it_value.tv_nsec = (long)(at % 1000000000u);
	}
	timerfd_settime(d->timer, TFD_TIMER_ABSTIME, &t, NULL);
}

static void handle(struct device *d, uint32_t what)
{
	uint64_t expirations;
	char byte;
	if (what == WOKE_TIMER)
		(void)!read(d->timer, &expirations, sizeof expirations);
	else if (what == WOKE_STDIN)
		d->stop |= read(STDIN_FILENO, &byte, 1) <= 0;
	else if (what != WOKE_LISTENER)
		client_ready(d, (int)what);
}

/* Newcomers are taken last: they must not get the place of a client whose
 * other event is still in the same batch. */
static void wait_and_handle(struct device *d)
{
	struct epoll_event events[64];
	bool newcomer = false;
	int n = epoll_pwait(d->epoll, events, 64, -1, &d->signals);
	advance(d, now_ns());
	for (int i = 0; i < n; i++) {
		newcomer |= events[i].data.u32 == WOKE_LISTENER;
		handle(d, events[i].data.u32);
	}
	if (newcomer)
		client_accept(d);
}

static void run(struct device *d)
{
	while (!d->stop && !terminated) {
		uint64_t now = now_ns();
		advance(d, now);
		d->wall_offset = wall_ns() - now;
		checkpoint_turn(d, now);
		uint64_t a = next_event(d, now), b = checkpoint_next(d);
		set_timer(d, a < b ? a : b);
		wait_and_handle(d);
	}
}

static void finish(struct device *d)
{
	char path[4096];
	for (int i = 0; i < MAX_CLIENTS; i++)
		if (d->client[i] != NULL)
			client_drop(d, d->client[i]);
	atomic_store(&d->state->running, 0);
	fclose(d->record);
	fclose(d->events);
	snprintf(path, sizeof path, "%s/socket", d->o.dir);
	unlink(path);
	snprintf(path, sizeof path, "%s/pid", d->o.dir);
	unlink(path);
}

int main(int argc, char **argv)
{
	static struct device d;
	if (argc > 1 && strcmp(argv[1], "ctl") == 0)
		return control_command(argc, argv);
	d.o = parse_options(argc, argv);
	catch_signals(&d);
	start(&d);
	run(&d);
	finish(&d);
	return 0;
}
