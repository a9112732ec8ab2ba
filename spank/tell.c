/*
 * Tells gimbald one thing about the step.
 *
 * The question goes to the daemon from here, in plain C, and one answer is
 * understood here: yes. That is what a step nearly always gets. A Go runtime in
 * the slurmstepd of every packed step costs 7 ms of processor time (its start, a
 * thread for each call, 600 page faults, a copy of each page that it writes to
 * after the fork of the tasks), and srun waits for most of it.
 *
 * srun waits for the announcement, for each registration and for task_exit, not
 * for slurmstepd's last hook. So the end of a task is sent, and its answer is
 * looked at with the next call. A late task_exit costs more than it lasts:
 * 30 ms of it made srun 100 ms slower, as it then waits in steps of its own.
 *
 * All else is the core's matter: an answer that says more, and what is left in
 * a folder while no daemon answers. That is to be parsed and written with care,
 * and is rare enough to cost milliseconds.
 */
#include "gimbal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/*
 * The waits of a step are bounded as a whole, not one by one: a step of 64
 * tasks must not wait 64 times for a daemon that does not answer.
 */
static struct phase {
	uint32_t spent_ms;
	bool down; /* a call failed: the rest of the phase does not try */
	bool told; /* and the log has it */
} launch, end;

static const struct tell {
	const char *op;
	struct phase *phase;
	bool later;      /* its answer may wait until the next call */
	bool leave;      /* for a daemon to come */
	const char *yes; /* the plainest answer */
} tells[TELL_COUNT] = {
	[TELL_PREPARE] = { "prepare", &launch, false, false, "{\"v\":1,\"result\":{\"active\":true}}" },
	[TELL_REGISTER] = { "register", &launch, false, true, "{\"v\":1,\"result\":{\"active\":true}}" },
	[TELL_TASK_EXIT] = { "task_exit", &end, true, true, "{\"v\":1,\"result\":null}" },
	[TELL_STEP_END] = { "step_end", &end, false, true, "{\"v\":1,\"result\":null}" },
};

/* What was sent and is yet to be answered, if anything. */
static struct {
	const struct tell *what; /* NULL: nothing */
	int fd;
	char params[SHORT_REQUEST_SIZE];
} open_question;

/*
 * What one wait may take. A daemon that does not answer costs all of the launch
 * and one call of the end, together the time-out; one that answers slowly may
 * have as much again for the ends.
 */
static uint32_t allowance(const struct phase *phase, uint32_t timeout)
{
	uint32_t total = phase == &launch ? timeout * 4 / 5 : timeout;
	uint32_t each = phase == &launch ? total : timeout / 5;
	uint32_t left = phase->spent_ms < total ? total - phase->spent_ms : 0;

	return left < each ? left : each;
}

/* Counts the time since begin; errno stays. */
static void account(struct phase *phase, int64_t begin, bool worked)
{
	phase->spent_ms += (uint32_t)(monotonic_ms() - begin);
	phase->down |= !worked;
}

/* Sends within what the phase has left; -1 and errno when nobody takes it. */
static int send_request(const struct tell *what, const struct plugstack *args, const char *params)
{
	static char line[REQUEST_SIZE + 64];
	uint32_t ms = allowance(what->phase, args->timeout_ms);
	int64_t begin = monotonic_ms();

	errno = ETIMEDOUT;
	if (what->phase->down || ms == 0)
		return -1;
	snprintf(line, sizeof line, "{\"v\":1,\"op\":\"%s\",\"params\":%s}\n", what->op, params);
	int fd = daemon_send(args->socket, line, begin + ms);
	account(what->phase, begin, fd >= 0);
	return fd;
}

static bool receive_answer(const struct tell *what, const struct plugstack *args, int fd, char *answer)
{
	int64_t begin = monotonic_ms();
	bool answered = daemon_receive(fd, answer, ANSWER_SIZE, begin + allowance(what->phase, args->timeout_ms));

	account(what->phase, begin, answered);
	return answered;
}

/* Says once in a phase that there is no daemon, and where things are kept. */
static void complain(const struct tell *what, const struct plugstack *args, int why)
{
	if (what->phase->told)
		return;
	what->phase->told = true;
	slurm_info("gimbal: gimbald does not answer at %s: %s%s%s", args->socket, strerror(why),
	           what->leave ? "; what it should know is left in " : "", what->leave ? args->pending : "");
}

/* No daemon, as errno says: what may wait is left for the next. */
static void leave(const struct tell *what, const struct plugstack *args, const char *params)
{
	struct gimbal_core_request request = { what->op, params, "", args->pending };
	struct gimbal_core_reply reply;
	int why = errno;

	if (!what->leave || core_call(args, CORE_LEAVE, &request, &reply) == 0)
		complain(what, args, why);
	else if (reply.message[0])
		slurm_info("gimbal: %s is lost: gimbald: %s; %s", what->op, strerror(why), reply.message);
}

/* Takes the answer to what was sent, or leaves it as there is none. */
static void settle(const struct tell *what, const struct plugstack *args, int fd, const char *params, struct gimbal_core_reply *reply)
{
	static char answer[ANSWER_SIZE];
	struct gimbal_core_request request = { what->op, params, answer, args->pending };

	if (!receive_answer(what, args, fd, answer)) {
		leave(what, args, params);
		return;
	}
	if (strcmp(answer, what->yes) == 0)
		reply->active = what->phase == &launch;
	else if (core_call(args, CORE_READ, &request, reply) != 0)
		reply->active = 0;
	if (reply->message[0])
		slurm_info("gimbal: %s", reply->message);
}

static void settle_open(const struct plugstack *args)
{
	const struct tell *what = open_question.what;
	struct gimbal_core_reply reply = { .active = 0 };

	open_question.what = NULL;
	if (what)
		settle(what, args, open_question.fd, open_question.params, &reply);
}

void tell(enum tell_op op, const struct plugstack *args, const char *params, struct gimbal_core_reply *reply)
{
	const struct tell *what = &tells[op];

	memset(reply, 0, sizeof *reply);
	settle_open(args);
	int fd = send_request(what, args, params);
	if (fd < 0) {
		leave(what, args, params);
	} else if (what->later && strlen(params) < sizeof open_question.params) {
		open_question.what = what;
		open_question.fd = fd;
		strcpy(open_question.params, params);
	} else {
		settle(what, args, fd, params, reply);
	}
}
