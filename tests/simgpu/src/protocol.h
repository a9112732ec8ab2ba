/*
 * What the simulated device, its client programs and its two libraries share:
 * the layout of the state file that the device publishes, and the messages on
 * the device's socket.
 *
 * All of a device lives in one directory:
 *   state   struct simgpu_state, mapped by the NVML library
 *   socket  SOCK_SEQPACKET, one struct simgpu_msg per packet
 *   record  busy intervals as text, see record.h
 *   events  one line per noteworthy event, see record.h
 *   pid     pid of the device process
 */
#ifndef SIMGPU_PROTOCOL_H
#define SIMGPU_PROTOCOL_H

#include <stdatomic.h>
#include <stdint.h>

#define SIMGPU_DEFAULT_DIR "/run/simgpu"

enum {
	SIMGPU_MAGIC = 0x53475055,
	SIMGPU_LAYOUT = 2,
	SIMGPU_UNITS = 32,     /* GPUs and MIG instances together */
	SIMGPU_PROCS = 128,    /* contexts on one unit */
	SIMGPU_SAMPLES = 2048, /* utilisation samples kept per unit */
	SIMGPU_XIDS = 16,
	SIMGPU_QUEUE = 64,     /* kernels that one context may have in flight */
	SIMGPU_REPLY = 131072  /* longest reply to a control command */
};

struct simgpu_process {
	uint32_t pid;
	uint32_t ghost; /* 1: invented by the control command */
	uint64_t memory;
};

/* One process's (pid 0: the whole unit's) share of one sample period. */
struct simgpu_sample {
	uint64_t time_us; /* end of the period, CLOCK_REALTIME */
	uint32_t pid;
	uint32_t busy; /* hundredths of a percent */
};

struct simgpu_xid {
	uint32_t unit;
	uint32_t code;
};

enum simgpu_fault {
	FAULT_PROCESS_UTIL,   /* an nvmlReturn_t, or SIMGPU_GARBAGE */
	FAULT_UTILIZATION,    /* an nvmlReturn_t */
	FAULT_PROCESS_MEMORY, /* nonzero: usedGpuMemory is not available */
	FAULT_PROCESSES,      /* an nvmlReturn_t for the list of processes */
	FAULT_MEMORY_INFO,    /* an nvmlReturn_t */
	FAULT_LOST,           /* nonzero: GPU_IS_LOST */
	FAULTS
};

enum { SIMGPU_GARBAGE = -1 };

struct simgpu_unit {
	char uuid[80];
	char name[64];
	int32_t parent; /* unit that a MIG instance belongs to, -1: a GPU */
	int32_t instance;
	int32_t minor;
	int32_t present;
	int32_t mig;
	uint32_t generation; /* changes when the unit vanishes or returns */
	int32_t fault[FAULTS];
	uint32_t bus;
	uint64_t total;
	uint64_t reserved;
	uint64_t used; /* without what is reserved */
	uint64_t lag_us;
	uint32_t processes;
	struct simgpu_process process[SIMGPU_PROCS];
	uint64_t sampled; /* samples ever written */
	struct simgpu_sample sample[SIMGPU_SAMPLES];
};

struct simgpu_state {
	uint32_t magic;
	uint32_t layout;
	_Atomic uint32_t sequence; /* odd while the device writes */
	_Atomic uint32_t running;  /* 0 once the device has left */
	_Atomic uint32_t inits;
	_Atomic uint32_t shutdowns;
	_Atomic uint64_t calls;
	_Atomic uint64_t looks; /* calls that ask how many GPUs there are, with which a reader begins */
	_Atomic uint64_t hang_until; /* CLOCK_MONOTONIC ns */
	int32_t driver;              /* nvmlReturn_t of every call; 0: fine */
	uint64_t sample_us;          /* length of one sample period */
	uint32_t units;
	_Atomic uint32_t xids; /* events ever raised; a futex */
	struct simgpu_xid xid[SIMGPU_XIDS];
	char driver_version[32];
	int32_t cuda_version;
	struct simgpu_unit unit[SIMGPU_UNITS];
};

enum simgpu_op {
	OP_HELLO = 1, /* flags, want, cap, text = label */
	OP_HELPER,    /* this connection answers for the process's checkpoints; answered alike */
	OP_ATTACH,    /* text = token of CUDA_VISIBLE_DEVICES; reply: unit */
	OP_ALLOC,     /* unit, value = bytes; reply: result */
	OP_FREE,      /* unit, value = bytes; reply: result */
	OP_LAUNCH,    /* unit, value = ns of GPU time, id; no reply */
	OP_COMPLETE,  /* from the device: kernel id on unit has finished */
	OP_CONTROL,   /* text = command; the reply's text may be longer */
	OP_LOCK,      /* id = pid, value = timeout in ms, 0: none */
	OP_CHECKPOINT,
	OP_RESTORE,
	OP_UNLOCK,
	OP_GET_STATE,    /* reply: value = enum simgpu_cuda_state */
	OP_GET_THREAD,   /* reply: value = thread id */
	OP_ASK,          /* device to helper: flags = operation; answered alike */
};

enum { SIMGPU_MPS = 1 };

enum simgpu_cuda_state { CUDA_RUNNING, CUDA_LOCKED, CUDA_CHECKPOINTED, CUDA_FAILED };

/* CUDA's numbers for the results that the device gives. */
enum simgpu_result {
	RESULT_OK = 0,
	RESULT_INVALID = 1,
	RESULT_NO_MEMORY = 2,
	RESULT_NOT_INITIALIZED = 3,
	RESULT_NO_DEVICE = 100,
	RESULT_INVALID_DEVICE = 101,
	RESULT_ILLEGAL_STATE = 401,
	RESULT_NOT_READY = 600,
	RESULT_NOT_SUPPORTED = 801,
	RESULT_UNKNOWN = 999
};

struct simgpu_msg {
	uint32_t op;
	int32_t result;
	uint32_t unit;
	uint32_t flags;
	uint32_t want; /* share of the SMs that a kernel can use, in 1/1000 */
	uint32_t cap;  /* share that MPS lets it use, in 1/1000 */
	uint64_t id;
	uint64_t value;
	char text[216];
};

#endif
