/* The processes that talk to the device, one connection each. */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "device.h"

/* epoll's data: the client's place, and whether its pidfd or its socket woke. */
static void watch(const struct device *d, int fd, int index)
{
	struct epoll_event e = { .events = EPOLLIN, .data.u32 = (uint32_t)index };
	epoll_ctl(d->epoll, EPOLL_CTL_ADD, fd, &e);
}

static int free_place(const struct device *d)
{
	for (int i = 0; i < MAX_CLIENTS; i++)
		if (d->client[i] == NULL)
			return i;
	return -1;
}

void client_accept(struct device *d)
{
	struct ucred peer;
	socklen_t size = sizeof peer;
	int fd = accept4(d->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return;
	int place = free_place(d);
	struct client *c = place < 0 ? NULL : calloc(1, sizeof *c);
	if (c == NULL || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
		free(c);
		close(fd);
		return;
	}
	c->fd = fd;
	c->pid = peer.pid;
	c->serial = ++d->serials;
	c->pidfd = (int)syscall(SYS_pidfd_open, peer.pid, 0);
	c->group = (uint32_t)c->serial;
	c->want = c->cap = 1;
	snprintf(c->label, sizeof c->label, "pid-%d", (int)c->pid);
	d->client[place] = c;
	watch(d, fd, place * 2);
	if (c->pidfd >= 0)
		watch(d, c->pidfd, place * 2 + 1);
}

static bool has_context(const struct client *c)
{
	for (int i = 0; i < SIMGPU_UNITS; i++)
		if (c->context[i] != NULL)
			return true;
	return false;
}

struct client *client_by_serial(struct device *d, uint64_t serial)
{
	for (int i = 0; i < MAX_CLIENTS; i++)
		if (d->client[i] != NULL && d->client[i]->serial == serial)
			return d->client[i];
	return NULL;
}

/* The connection of a process that computes, or that of its helper thread. */
struct client *client_by_pid(struct device *d, pid_t pid, bool helper)
{
	for (int i = 0; i < MAX_CLIENTS; i++) {
		struct client *c = d->client[i];
		if (c != NULL && c->pid == pid && (helper ? c->helper : has_context(c)))
			return c;
	}
	return NULL;
}

bool client_idle(const struct client *c)
{
	for (int i = 0; i < SIMGPU_UNITS; i++)
		if (c->context[i] != NULL && c->context[i]->queued > 0)
			return false;
	return true;
}

/* Sends without waiting: a client that reads nothing loses its messages. */
void client_send(struct device *d, struct client *c, struct simgpu_msg *m)
{
	if (send(c->fd, m, sizeof *m, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno == EAGAIN)
		record_event(d, c, "overrun");
}

void client_drop(struct device *d, struct client *c)
{
	if (has_context(c))
		record_event(d, c, "exit");
	checkpoint_gone(d, c);
	for (int i = 0; i < SIMGPU_UNITS; i++)
		if (c->context[i] != NULL)
			context_drop(d, c->context[i]);
	fflush(d->record);
	for (int i = 0; i < MAX_CLIENTS; i++)
		if (d->client[i] == c)
			d->client[i] = NULL;
	close(c->fd);
	if (c->pidfd >= 0)
		close(c->pidfd);
	free(c);
}

/* Labels are one word in the record. */
static void set_label(struct client *c, const char *text)
{
	if (text[0] == '\0')
		return;
	snprintf(c->label, sizeof c->label, "%.*s", (int)sizeof c->label - 1, text);
	for (char *p = c->label; *p != '\0'; p++)
		if (*p <= ' ' || *p > '~')
			*p = '_';
}

static void hello(struct client *c, const struct simgpu_msg *m)
{
	set_label(c, m->text);
	c->mps = (m->flags & SIMGPU_MPS) != 0;
	if (c->mps)
		c->group = 0;
	if (m->want >= 1 && m->want <= 1000)
		c->want = m->want / 1000.0;
	if (c->mps && m->cap >= 1 && m->cap <= 1000)
		c->cap = m->cap / 1000.0;
}

static void attach(struct device *d, struct client *c, struct simgpu_msg *m)
{
	int unit = unit_find(d, m->text);
	m->result = RESULT_NO_DEVICE;
	if (unit < 0)
		return;
	m->unit = (uint32_t)unit;
	m->result = context_get(d, c, m->unit) != NULL ? RESULT_OK : RESULT_NO_MEMORY;
	record_event(d, c, m->result == RESULT_OK ? "attach %d" : "attach-refused %d", unit);
}

static void change_memory(struct device *d, struct client *c, struct simgpu_msg *m)
{
	struct context *x = m->unit < SIMGPU_UNITS ? c->context[m->unit] : NULL;
	m->result = RESULT_INVALID_DEVICE;
	if (x == NULL)
		return;
	if (m->op == OP_ALLOC) {
		m->result = context_alloc(d, x, m->value);
		record_event(d, c, "%s %u %" PRIu64, m->result ? "out-of-memory" : "alloc", m->unit, m->value);
		return;
	}
	m->result = m->value <= x->memory ? RESULT_OK : RESULT_INVALID;
	if (m->result == RESULT_OK) {
		x->memory -= m->value;
		publish_unit(d, m->unit);
		record_event(d, c, "free %u %" PRIu64, m->unit, m->value);
	}
}

enum { LONGEST_KERNEL_S = 3600 };

static void launch(struct device *d, struct client *c, const struct simgpu_msg *m)
{
	struct context *x = m->unit < SIMGPU_UNITS ? c->context[m->unit] : NULL;
	struct simgpu_msg failed = { .op = OP_COMPLETE, .unit = m->unit, .id = m->id, .result = RESULT_INVALID };
	bool sane = m->value > 0 && m->value <= LONGEST_KERNEL_S * (uint64_t)1000000000;
	if (x == NULL || !sane || !context_launch(d, x, (struct kernel){ m->id, m->value }))
		client_send(d, c, &failed);
}

static void answer_control(struct device *d, struct client *c, struct simgpu_msg *m)
{
	static char buffer[sizeof *m + SIMGPU_REPLY];
	char *text = buffer + offsetof(struct simgpu_msg, text);
	m->text[sizeof m->text - 1] = '\0';
	text[0] = '\0';
	m->result = control(d, m->text, text);
	memcpy(buffer, m, offsetof(struct simgpu_msg, text));
	size_t size = offsetof(struct simgpu_msg, text) + strlen(text) + 1;
	if (send(c->fd, buffer, size < sizeof *m ? sizeof *m : size, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		record_event(d, c, "control-reply-lost");
}

static void dispatch(struct device *d, struct client *c, struct simgpu_msg *m)
{
	m->text[sizeof m->text - 1] = '\0';
	switch (m->op) {
	case OP_HELLO:
		hello(c, m);
		return;
	case OP_HELPER:
		c->helper = true;
		c->thread = m->value;
		break;
	case OP_LAUNCH:
		launch(d, c, m);
		return;
	case OP_ATTACH:
		attach(d, c, m);
		break;
	case OP_ALLOC:
	case OP_FREE:
		change_memory(d, c, m);
		break;
	case OP_CONTROL:
		answer_control(d, c, m);
		return;
	case OP_ASK:
		checkpoint_answer(d, c, m);
		return;
	default:
		checkpoint_request(d, c, m);
		return;
	}
	client_send(d, c, m);
}

/* Handles what woke the loop for a client: its socket, or its death. */
void client_ready(struct device *d, int index)
{
	struct client *c = d->client[index / 2];
	struct simgpu_msg m;
	if (c == NULL)
		return;
	if (index % 2 == 1) {
		client_drop(d, c);
		return;
	}
	ssize_t n = recv(c->fd, &m, sizeof m, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n != (ssize_t)sizeof m)
		client_drop(d, c);
	else
		dispatch(d, c, &m);
}
