/*
 * CUDA's checkpoint calls. The process's helper thread takes part in each of
 * them, as the driver's own thread in a process does: while the process is
 * stopped nothing answers, and only a lock's timeout ends the wait.
 */
#include <inttypes.h>
#include <stddef.h>

#include "device.h"
#include "util.h"

enum { SETUP_NS = 20000000 }; /* what a copy takes beside its bytes */

static int required_state(uint32_t op)
{
	switch (op) {
	case OP_LOCK:
		return CUDA_RUNNING;
	case OP_RESTORE:
		return CUDA_CHECKPOINTED;
	default:
		return CUDA_LOCKED;
	}
}

static void ask(struct device *d, struct client *c, uint32_t op, uint64_t id)
{
	struct client *helper = client_by_pid(d, c->pid, true);
	struct simgpu_msg m = { .op = OP_ASK, .flags = op, .id = id };
	if (helper != NULL)
		client_send(d, helper, &m);
}

static void finish(struct device *d, struct client *c, int result)
{
	struct operation o = c->operation;
	struct client *requester = client_by_serial(d, o.requester);
	struct simgpu_msg m = { .op = o.op, .result = result, .value = c->state };
	c->operation = (struct operation){ 0 };
	record_event(d, c, "cuda %u result %d state %d", o.op, result, (int)c->state);
	if (requester != NULL)
		client_send(d, requester, &m);
}

static void set_state(struct device *d, struct client *c, enum simgpu_cuda_state state)
{
	c->state = state;
	for (uint32_t i = 0; i < SIMGPU_UNITS; i++)
		if (c->context[i] != NULL)
			publish_unit(d, i);
}

/* Starts an operation that the target's state allows. */
static void begin(struct device *d, struct client *requester, struct client *c, const struct simgpu_msg *m)
{
	uint64_t id = ++d->serials;
	c->operation = (struct operation){ .op = m->op, .id = id, .requester = requester->serial, .asked = true };
	if (m->op == OP_LOCK && m->value != 0)
		c->operation.deadline = now_ns() + m->value * 1000000;
	ask(d, c, m->op, id);
}

/* The result that can be given at once; -1: the operation has begun. */
static int decide(struct device *d, struct client *requester, struct simgpu_msg *m)
{
	struct client *c = client_by_pid(d, (pid_t)m->id, false);
	if (m->op < OP_LOCK || m->op > OP_GET_THREAD || c == NULL)
		return RESULT_INVALID;
	struct client *helper = client_by_pid(d, c->pid, true);
	m->value = m->op == OP_GET_STATE ? c->state : m->value;
	if (m->op == OP_GET_THREAD && helper != NULL)
		m->value = helper->thread;
	if (d->cuda_fault[m->op] != 0) {
		if (d->cuda_fault[m->op] == RESULT_UNKNOWN)
			set_state(d, c, CUDA_FAILED);
		return d->cuda_fault[m->op];
	}
	if (m->op >= OP_GET_STATE)
		return RESULT_OK;
	if (helper == NULL)
		return RESULT_NOT_SUPPORTED;
	if (c->operation.op != 0 || (int)c->state != required_state(m->op))
		return RESULT_ILLEGAL_STATE;
	begin(d, requester, c, m);
	return -1;
}

void checkpoint_request(struct device *d, struct client *requester, struct simgpu_msg *m)
{
	int result = decide(d, requester, m);
	if (result < 0)
		return;
	m->result = result;
	client_send(d, requester, m);
}

static uint64_t largest(const struct client *c)
{
	uint64_t bytes = 0;
	for (int i = 0; i < SIMGPU_UNITS; i++) {
		const struct context *x = c->context[i];
		if (x != NULL && x->memory + x->swapped > bytes)
			bytes = x->memory + x->swapped;
	}
	return bytes;
}

static bool fits_back(const struct device *d, const struct client *c)
{
	for (int i = 0; i < SIMGPU_UNITS; i++) {
		const struct simgpu_unit *u = &d->state->unit[i];
		if (c->context[i] != NULL && u->used + u->reserved + c->context[i]->swapped > u->total)
			return false;
	}
	return true;
}

static void move(struct client *c, bool off)
{
	for (int i = 0; i < SIMGPU_UNITS; i++) {
		struct context *x = c->context[i];
		if (x == NULL)
			continue;
		uint64_t bytes = off ? x->memory : x->swapped;
		x->memory += off ? -bytes : bytes;
		x->swapped += off ? bytes : -bytes;
	}
}

static void begin_copy(struct device *d, struct client *c)
{
	if (c->operation.op == OP_RESTORE) {
		if (!fits_back(d, c)) {
			finish(d, c, RESULT_NO_MEMORY);
			return;
		}
		move(c, false);
		set_state(d, c, CUDA_LOCKED); /* the memory is taken from now on */
	}
	double seconds = (double)largest(c) / (double)d->o.swap_rate;
	c->operation.done_at = now_ns() + SETUP_NS + (uint64_t)(seconds * 1e9);
}

/* The helper has answered: what is left is up to the device. */
void checkpoint_answer(struct device *d, struct client *helper, const struct simgpu_msg *m)
{
	struct client *c = client_by_pid(d, helper->pid, false);
	if (c == NULL || !c->operation.asked || c->operation.id != m->id)
		return;
	c->operation.asked = false;
	switch (c->operation.op) {
	case OP_CHECKPOINT:
	case OP_RESTORE:
		begin_copy(d, c);
		break;
	case OP_UNLOCK:
		set_state(d, c, CUDA_RUNNING);
		finish(d, c, RESULT_OK);
		break;
	}
}

static void end_copy(struct device *d, struct client *c)
{
	if (c->operation.op == OP_CHECKPOINT) {
		move(c, true);
		set_state(d, c, CUDA_CHECKPOINTED);
	}
	finish(d, c, RESULT_OK);
}

static void turn(struct device *d, struct client *c, uint64_t now)
{
	struct operation *o = &c->operation;
	if (o->op == OP_LOCK && !o->asked && client_idle(c)) {
		set_state(d, c, CUDA_LOCKED);
		finish(d, c, RESULT_OK);
	} else if (o->deadline != 0 && o->deadline <= now) {
		ask(d, c, OP_UNLOCK, 0);
		finish(d, c, RESULT_NOT_READY);
	} else if (o->done_at != 0 && o->done_at <= now) {
		end_copy(d, c);
	}
}

/* Ends what is due. */
void checkpoint_turn(struct device *d, uint64_t now)
{
	for (int i = 0; i < MAX_CLIENTS; i++)
		if (d->client[i] != NULL && d->client[i]->operation.op != 0)
			turn(d, d->client[i], now);
}

/* When checkpoint_turn has something to do next; UINT64_MAX: never. */
uint64_t checkpoint_next(const struct device *d)
{
	uint64_t next = UINT64_MAX;
	for (int i = 0; i < MAX_CLIENTS; i++) {
		if (d->client[i] == NULL)
			continue;
		const struct operation *o = &d->client[i]->operation;
		if (o->deadline != 0 && o->deadline < next)
			next = o->deadline;
		if (o->done_at != 0 && o->done_at < next)
			next = o->done_at;
	}
	return next;
}

/* The process has gone: whoever waits for it learns so. */
void checkpoint_gone(struct device *d, struct client *c)
{
	if (c->operation.op != 0)
		finish(d, c, RESULT_INVALID);
}
