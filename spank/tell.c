/*
 * Tells gimbald one thing about the step.
 *
 * The question goes to the daemon from here, in plain C, and one answer is
 * understood here: yes. That is what a step nearly always gets, and it costs
 * srun some tenths of a millisecond. To start the Go runtime in every packed
 * step's slurmstepd, as was done before, cost 8 ms of processor time (the
 * runtime's start, a thread for each call, 600 page faults, a copy of each page
 * that it writes to after the fork), which a small srun waits for.
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
	bool leave;      /* for a daemon to come */
	const char *yes; /* the plainest answer */
} tells[TELL_COUNT] = {
	[TELL_PREPARE] = { "prepare", &launch, false, "{\"v\":1,\"result\":{\"active\":true}}" },
	[TELL_REGISTER] = { "register", &launch, true, "{\"v\":1,\"result\":{\"active\":true}}" },
	[TELL_TASK_EXIT] = { "task_exit", &end, true, "{\"v\":1,\"result\":null}" },
	[TELL_STEP_END] = { "step_end", &end, true, "{\"v\":1,\"result\":null}" },
};

/*
 * What one call may take. A daemon that does not answer costs all of the launch
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

/* Asks within what the phase has left. */
static bool ask(const struct tell *tell, const struct plugstack *args, const char *params, char *answer)
{
	static char line[REQUEST_SIZE + 64];
	uint32_t ms = allowance(tell->phase, args->timeout_ms);
	int64_t begin = monotonic_ms();

	errno = ETIMEDOUT;
	if (tell->phase->down || ms == 0)
		return false;
	snprintf(line, sizeof line, "{\"v\":1,\"op\":\"%s\",\"params\":%s}\n", tell->op, params);
	bool answered = daemon_ask(args->socket, line, ms, answer, ANSWER_SIZE);
	int why = errno;
	tell->phase->spent_ms += (uint32_t)(monotonic_ms() - begin);
	tell->phase->down = !answered;
	errno = why;
	return answered;
}

/* Says once in a phase that there is no daemon, and where things are kept. */
static void complain(const struct tell *tell, const struct plugstack *args, int why)
{
	if (tell->phase->told)
		return;
	tell->phase->told = true;
	slurm_info("gimbal: gimbald does not answer at %s: %s%s%s", args->socket, strerror(why),
	           tell->leave ? "; what it should know is left in " : "", tell->leave ? args->pending : "");
}

/* No daemon: what may wait is left for the next. */
static void leave(const struct tell *tell, const struct plugstack *args, const char *params, struct gimbal_core_reply *reply)
{
	struct gimbal_core_request request = { tell->op, params, "", args->pending };
	int why = errno;

	if (tell->leave && core_call(args, CORE_LEAVE, &request, reply) != 0) {
		if (reply->message[0])
			slurm_info("gimbal: %s is lost: gimbald: %s; %s", tell->op, strerror(why), reply->message);
		return;
	}
	complain(tell, args, why);
}

bool tell(enum tell_op op, const struct plugstack *args, const char *params, struct gimbal_core_reply *reply)
{
	static char answer[ANSWER_SIZE];
	const struct tell *what = &tells[op];
	struct gimbal_core_request request = { what->op, params, answer, args->pending };

	memset(reply, 0, sizeof *reply);
	if (!ask(what, args, params, answer)) {
		leave(what, args, params, reply);
		return false;
	}
	if (strcmp(answer, what->yes) == 0)
		reply->active = what->phase == &launch;
	else if (core_call(args, CORE_READ, &request, reply) != 0)
		reply->active = 0;
	if (reply->message[0])
		slurm_info("gimbal: %s", reply->message);
	return true;
}
