/*
 * The parts of gimbal.so, one file for each process that Slurm loads it into:
 *
 *   gimbal.c     the hooks: asks where it is, hands on
 *   submit.c     srun, sbatch, salloc: options are checked and sent
 *   step.c       slurmstepd: a packed step is made known to gimbald
 *
 * and what they share: options.c and check.c (the options), deadline.c (its
 * time forms), plugstack.c (arguments, double load); and of what slurmstepd
 * tells gimbald: request.c (the words), daemon.c (the socket), tell.c (who is
 * asked, and for how long), core.c (the Go library).
 */
#ifndef GIMBAL_H
#define GIMBAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

/* What spank.h declares is what a plugin exports; the rest stays hidden. */
#pragma GCC visibility push(default)
#include <slurm/spank.h>
#pragma GCC visibility pop

#include "gimbal_core.h"

#define GIMBAL_NO_VAL 0xfffffffeu

/* ---- options.c ---- */

enum option_id { OPT_PACK, OPT_MEMORY, OPT_CLASS, OPT_WEIGHT, OPT_DEADLINE, OPT_SIGNAL, OPT_MAX_PAUSE, OPT_COUNT };

/* The longest canonical value, with its NUL. */
#define OPTION_SIZE 48

/*
 * Checks a value as the user wrote it (NULL: no argument) and puts its
 * canonical form, at most OPTION_SIZE bytes, in out. False: malformed.
 */
typedef bool option_check(const char *value, char *out);

struct option_spec {
	const char *name;      /* "gimbal-pack"; NULL: it is asked for by its variable alone */
	const char *env;       /* "GIMBAL_PACK" */
	const char *carrier;   /* the variable in which Slurm hands the option on */
	const char *control;   /* the same in the job control environment, of an option */
	const char *arginfo, *usage;
	int has_arg;           /* 0 none, 1 required, 2 optional */
	option_check *check;
	const char *allowed;   /* for error lines */
};

extern const struct option_spec option_specs[OPT_COUNT];

/* Registers the options with Slurm; from slurm_spank_init only. */
void options_register(spank_t sp);

/* The canonical value in force, or NULL when the option was not given. */
const char *option_value(enum option_id id);
void option_set(enum option_id id, const char *canonical);

/* Whether the command line itself carries the option, not the environment. */
bool option_is_own(enum option_id id);

/*
 * Notes that Slurm will first call back with a value out of the environment,
 * which is kept by reference.
 */
void option_expect_inherited(enum option_id id, const char *value);

/* Whether the options ask for packing: a policy or "1", not "off". */
bool options_packed(void);

/* ---- check.c ---- */

option_check check_pack, check_memory, check_class, check_weight, check_signal, check_pause;

/* ---- deadline.c ---- */

option_check check_deadline;

/*
 * Unix seconds of a time in one of sbatch's forms, seen from now in the local
 * time zone, or -1 when it is malformed.
 */
int64_t parse_deadline(const char *text, time_t now);

/* ---- plugstack.c ---- */

struct plugstack {
	char socket[108], core[4096], pending[4096];
	uint32_t timeout_ms;
};

/*
 * Reads NAME=VALUE arguments over the defaults. Calls complain, which may be
 * NULL, for each that is unknown or malformed; it is ignored.
 */
void plugstack_parse(struct plugstack *out, int ac, char **av, void (*complain)(const char *arg));

/*
 * Puts the node's name for each %n of a path, as slurmd does in slurm.conf. A
 * name that is none leaves %n there. False: it does not fit.
 */
bool plugstack_path(char *out, size_t size, const char *path, const char *node);

/* Whether an earlier line of the plugin stack loaded another copy of us. */
bool plugstack_loaded_twice(void);

/* ---- submit.c ---- */

/*
 * What srun tells of its own step in passing, gone again before the tasks
 * start: that its command line carries --gimbal-pack, and the jobs of the het
 * job that it runs in, as a list.
 */
#define GIMBAL_OWN_VAR "SLURM_SPANK_GIMBAL_OWN"
#define GIMBAL_HET_VAR "SLURM_SPANK_GIMBAL_HET"

/*
 * What a packed job was given beyond what its user set, NAME=VALUE with semicolons
 * between: jobs that are submitted from inside it do not have it.
 */
#define GIMBAL_GIVEN_VAR "GIMBAL_GIVEN"

/* As many components as Slurm allows. */
#define HET_COMPONENTS 128

/* Whether this srun runs in a het job, so that Slurm parses options repeatedly. */
bool in_het_job(void);

void submit_init(spank_t sp);
void submit_post_opt(spank_t sp);

/* ---- step.c ---- */

void step_post_opt(spank_t sp, const struct plugstack *args);
void step_task_post_fork(spank_t sp);
void step_task_exit(spank_t sp);
void step_exit(void);

/* ---- request.c ---- */

/* The longest parameters, with their NUL; wire.MaxRequest bounds the line. */
#define REQUEST_SIZE (60 << 10)

/* The same for the end of a task or of a step. */
#define SHORT_REQUEST_SIZE 256

/* A longer value of the environment is no value: none is in earnest. */
#define VALUE_MOST 1024

/* What Slurm says of the step; NO_VAL and "" where it says nothing. */
struct step_facts {
	uint32_t job, step;
	uint32_t array_job, array_task; /* task: NO_VAL when in no array */
	uint32_t het_job, het_offset;   /* offset: NO_VAL when in no het job */
	uint32_t tasks, nnodes, node, restart, uid, gid;
	uint32_t shards;                /* of the step on this node, 0 none */
	int64_t end_time;               /* unix seconds, 0 unknown */
	bool own, pty;
	const char *gpus_from;          /* the variable that gpus are from */
	char gpus[VALUE_MOST + 1], visible[VALUE_MOST + 1], user[VALUE_MOST + 1];
	char placed[VALUE_MOST + 1];    /* CUDA_VISIBLE_DEVICES as gimbald chose it, "" as Slurm did */
	char account[VALUE_MOST + 1], partition[VALUE_MOST + 1], job_name[VALUE_MOST + 1];
	char options[OPT_COUNT][OPTION_SIZE]; /* in force, in their canonical form */
};

struct task_facts {
	uint32_t global, local; /* its number in the step, and on this node */
	pid_t pid;
	uint64_t start;         /* clock ticks since boot, 0 unknown */
	int status;             /* as wait(2) gives it */
};

/* The parameters of each request, as JSON in REQUEST_SIZE bytes; false: too long. */
bool request_prepare(char *out, const struct step_facts *f);
void request_task_exit(char *out, const struct step_facts *f, const struct task_facts *task);
void request_step_end(char *out, const struct step_facts *f);

/* Finds the task's start time as well; false and errno when the task is gone. */
bool request_register(char *out, const struct step_facts *f, struct task_facts *task);

/* ---- daemon.c ---- */

/* The longest answer that is read, with its NUL. */
#define ANSWER_SIZE (64 << 10)

int64_t monotonic_ms(void);

/*
 * Sends a line to the daemon at a socket until a monotonic time and returns the
 * connection. -1 and errno when nobody takes it who can be trusted.
 */
int daemon_send(const char *path, const char *line, int64_t until);

/* Reads the answer, without its newline, and closes; false and errno: none. */
bool daemon_receive(int fd, char *answer, size_t size, int64_t until);

/* ---- tell.c ---- */

enum tell_op { TELL_PREPARE, TELL_REGISTER, TELL_TASK_EXIT, TELL_STEP_END, TELL_COUNT };

/*
 * Tells the daemon, or leaves it for a daemon to come; all of a step's calls
 * together take hardly longer than the time-out. The reply is empty when no
 * daemon answered.
 */
void tell(enum tell_op op, const struct plugstack *args, const char *params, struct gimbal_core_reply *reply);

/* ---- core.c ---- */

enum core_op { CORE_READ, CORE_LEAVE, CORE_OPS };

/*
 * Calls the core, which the first call loads, in a thread of its own and waits
 * at most for the time-out and a little. Returns what the core returns, -1 also
 * when there is none (the log says why, once) or it did not come back in time;
 * after that it is not called again. A forked child always gets -1. The
 * process's signal handlers, signal mask and limits are afterwards what they
 * were.
 */
int core_call(const struct plugstack *args, enum core_op op, const struct gimbal_core_request *req, struct gimbal_core_reply *reply);

#endif
