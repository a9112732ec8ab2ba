/*
 * simgpu-trainer: a training job as the node sees it. It alternates work on
 * the CPU, for which it sleeps, and kernels on a simulated GPU.
 */
#ifndef SIMGPU_TRAINER_H
#define SIMGPU_TRAINER_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol.h"

enum spawn { SPAWN_PLAIN, SPAWN_SETSID, SPAWN_DAEMON, SPAWN_EXEC };

struct trainer_options {
	const char *dir;
	const char *label;
	uint64_t iterations; /* 0: no limit */
	uint64_t duration;   /* ns, 0: no limit */
	const char *until;   /* file that ends it once it is there */
	uint64_t gpu_ns, cpu_ns, report_ns, startup_ns, watchdog_ns;
	uint64_t gap_ns, gap_every_ns;
	uint64_t memory, grow, grow_every_ns, grow_max;
	int queue;
	int gpus;
	bool mps;
	double sm;
	int plain, setsid, daemon, exec; /* worker processes of each kind */
	uint64_t fork_every_ns, child_life_ns;
	enum spawn fork_kind;
	const char *pids; /* file that gets the pid of each child */
	const char *on_term;
	int term_exit;
	bool ignore_term; /* note it, and go on */
	int notify_signal;
	const char *notify_file;
	const char *progress;
};

struct trainer_options trainer_parse(int argc, char **argv);

/* gpu.c: the process's connection to the device. Failures of the device end
 * the process as a CUDA error would: a line on stderr, status 1. */
struct gpu {
	int fd;
	int units;
	uint64_t allocated; /* on each unit */
	uint64_t limit;     /* that MPS sets on each unit */
	uint32_t unit[SIMGPU_UNITS];
	uint64_t launched, completed; /* kernels on all units */
};
void gpu_open(struct gpu *g, const struct trainer_options *o);
void gpu_alloc(struct gpu *g, uint64_t bytes);
void gpu_launch(struct gpu *g, uint64_t ns);
void gpu_wait(struct gpu *g, uint64_t outstanding);

/* workers.c: data loaders and other children; they leave with their parent. */
void workers_start(const struct trainer_options *o, int gpu_fd);
int worker_main(int argc, char **argv);

#endif
