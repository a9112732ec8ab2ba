/* libcuda.so.1: only the checkpoint calls, which the device carries out. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "protocol.h"
#include "util.h"

#define EXPORT __attribute__((visibility("default")))

typedef int CUresult;

struct lock_args {
	uint32_t timeout_ms;
	uint32_t reserved;
	uint64_t reserved_64[7];
};

struct plain_args {
	uint64_t reserved[8];
};

struct restore_args {
	void *pairs;
	uint32_t count;
	char reserved[52];
};

_Static_assert(sizeof(struct lock_args) == 64, "CUcheckpointLockArgs");
_Static_assert(sizeof(struct plain_args) == 64, "CUcheckpointCheckpointArgs");
_Static_assert(sizeof(struct restore_args) == 64, "CUcheckpointRestoreArgs");

static atomic_bool initialized;

EXPORT CUresult cuInit(unsigned flags)
{
	if (flags != 0)
		return RESULT_INVALID;
	int fd = device_connect(device_dir());
	if (fd < 0)
		return RESULT_NO_DEVICE;
	close(fd);
	atomic_store(&initialized, true);
	return RESULT_OK;
}

EXPORT CUresult cuDriverGetVersion(int *version)
{
	if (version == NULL)
		return RESULT_INVALID;
	*version = 12090;
	return RESULT_OK;
}

/* One connection for each call: calls on several processes run side by side. */
static CUresult request(uint32_t op, int pid, uint64_t value, uint64_t *answer)
{
	struct simgpu_msg m = { .op = op, .id = (uint64_t)pid, .value = value };
	if (!atomic_load(&initialized))
		return RESULT_NOT_INITIALIZED;
	if (pid <= 0)
		return RESULT_INVALID;
	int fd = device_connect(device_dir());
	if (fd < 0)
		return RESULT_UNKNOWN;
	bool answered = device_call(fd, &m);
	close(fd);
	if (!answered)
		return RESULT_UNKNOWN;
	if (answer != NULL && m.result == RESULT_OK)
		*answer = m.value;
	return m.result;
}

static bool all_zero(const void *p, size_t size)
{
	const char *c = p;
	for (size_t i = 0; i < size; i++)
		if (c[i] != 0)
			return false;
	return true;
}

EXPORT CUresult cuCheckpointProcessLock(int pid, const struct lock_args *args)
{
	uint32_t timeout = args != NULL ? args->timeout_ms : 0;
	if (args != NULL && !all_zero(&args->reserved, sizeof *args - offsetof(struct lock_args, reserved)))
		return RESULT_INVALID;
	return request(OP_LOCK, pid, timeout, NULL);
}

EXPORT CUresult cuCheckpointProcessCheckpoint(int pid, const struct plain_args *args)
{
	if (args != NULL && !all_zero(args, sizeof *args))
		return RESULT_INVALID;
	return request(OP_CHECKPOINT, pid, 0, NULL);
}

/* A map of GPUs is checked for its shape only: memory returns to where it was. */
EXPORT CUresult cuCheckpointProcessRestore(int pid, const struct restore_args *args)
{
	if (args != NULL && ((args->pairs == NULL) != (args->count == 0) || !all_zero(args->reserved, sizeof args->reserved)))
		return RESULT_INVALID;
	return request(OP_RESTORE, pid, 0, NULL);
}

EXPORT CUresult cuCheckpointProcessUnlock(int pid, const struct plain_args *args)
{
	if (args != NULL && !all_zero(args, sizeof *args))
		return RESULT_INVALID;
	return request(OP_UNLOCK, pid, 0, NULL);
}

EXPORT CUresult cuCheckpointProcessGetState(int pid, int *state)
{
	uint64_t value = 0;
	if (state == NULL)
		return RESULT_INVALID;
	CUresult r = request(OP_GET_STATE, pid, 0, &value);
	if (r == RESULT_OK)
		*state = (int)value;
	return r;
}

EXPORT CUresult cuCheckpointProcessGetRestoreThreadId(int pid, int *thread)
{
	uint64_t value = 0;
	if (thread == NULL)
		return RESULT_INVALID;
	CUresult r = request(OP_GET_THREAD, pid, 0, &value);
	if (r == RESULT_OK)
		*thread = (int)value;
	return r;
}
