/* libnvidia-ml.so.1: the library itself and the facts about each GPU. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "nvml_abi.h"
#include "nvml_view.h"

EXPORT nvmlReturn_t nvmlInit_v2(void)
{
	return view_acquire();
}

EXPORT nvmlReturn_t nvmlInit(void)
{
	return view_acquire();
}

EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned flags)
{
	(void)flags;
	return view_acquire();
}

EXPORT nvmlReturn_t nvmlShutdown(void)
{
	return view_release();
}

EXPORT const char *nvmlErrorString(nvmlReturn_t result)
{
	static const char *const texts[] = {
		[0] = "Success",
		[1] = "Uninitialized",
		[2] = "Invalid Argument",
		[3] = "Not Supported",
		[4] = "Insufficient Permissions",
		[6] = "Not Found",
		[7] = "Insufficient Size",
		[9] = "Driver Not Loaded",
		[10] = "Timeout",
		[13] = "Function Not Found",
		[15] = "GPU is lost",
		[18] = "Driver/library version mismatch",
		[20] = "Insufficient Memory",
		[25] = "Argument version mismatch",
	};
	if (result < 0 || (size_t)result >= sizeof texts / sizeof texts[0] || texts[result] == NULL)
		return "Unknown Error";
	return texts[result];
}

/* Copies text into a caller's buffer. */
static nvmlReturn_t give(const char *text, char *out, unsigned length)
{
	if (out == NULL)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (strlen(text) >= length)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	strcpy(out, text);
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *out, unsigned length)
{
	struct simgpu_state *s;
	nvmlReturn_t r = view_enter(&s);
	return r != NVML_SUCCESS ? r : give(s->driver_version, out, length);
}

EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char *out, unsigned length)
{
	struct simgpu_state *s;
	nvmlReturn_t r = view_enter(&s);
	char text[40];
	if (r != NVML_SUCCESS)
		return r;
	snprintf(text, sizeof text, "12.%s", s->driver_version);
	return give(text, out, length);
}

EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
	struct simgpu_state *s;
	nvmlReturn_t r = view_enter(&s);
	if (r == NVML_SUCCESS)
		*version = s->cuda_version;
	return r;
}

EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
	return nvmlSystemGetCudaDriverVersion(version);
}

/* The first unit that fits: a GPU by position and text, or a MIG instance. */
typedef bool (*fits)(const struct simgpu_unit *u, const void *wanted);

static nvmlReturn_t find(fits fit, const void *wanted, unsigned skip, nvmlDevice_t *device)
{
	struct simgpu_state *s;
	struct simgpu_unit u;
	nvmlReturn_t r = view_enter(&s);
	for (uint32_t i = 0; r == NVML_SUCCESS && i < s->units; i++) {
		r = view_unit(s, i, &u);
		if (r != NVML_SUCCESS || !u.present || !fit(&u, wanted))
			continue;
		if (skip-- > 0)
			continue;
		*device = view_handle(i, &u);
		return NVML_SUCCESS;
	}
	return r != NVML_SUCCESS ? r : NVML_ERROR_NOT_FOUND;
}

static bool is_gpu(const struct simgpu_unit *u, const void *wanted)
{
	(void)wanted;
	return u->parent < 0;
}

static bool has_uuid(const struct simgpu_unit *u, const void *wanted)
{
	return strcmp(u->uuid, wanted) == 0;
}

static void bus_id(const struct simgpu_unit *u, char *out, size_t size)
{
	snprintf(out, size, "00000000:%02X:00.0", u->bus);
}

static bool has_bus_id(const struct simgpu_unit *u, const void *wanted)
{
	char id[32];
	const char *text = wanted;
	size_t length = strlen(text);
	bus_id(u, id, sizeof id);
	return u->parent < 0 && length >= 7 && length <= strlen(id) &&
	       strcasecmp(id + strlen(id) - length, text) == 0;
}

EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count)
{
	struct simgpu_state *s;
	nvmlReturn_t r = view_enter(&s);
	if (r != NVML_SUCCESS)
		return r;
	atomic_fetch_add_explicit(&s->looks, 1, memory_order_relaxed);
	*count = 0;
	for (uint32_t i = 0; i < s->units; i++)
		*count += s->unit[i].present && s->unit[i].parent < 0;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetCount(unsigned *count)
{
	return nvmlDeviceGetCount_v2(count);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
	nvmlReturn_t r = find(is_gpu, NULL, index, device);
	return r == NVML_ERROR_NOT_FOUND ? NVML_ERROR_INVALID_ARGUMENT : r;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device)
{
	return nvmlDeviceGetHandleByIndex_v2(index, device);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
	return find(has_uuid, uuid, 0, device);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvmlDevice_t *device)
{
	return find(has_bus_id, id, 0, device);
}

/* The beginning of every call that asks something about a device. */
#define ENTER(device)                                              \
	struct simgpu_state *s;                                    \
	struct simgpu_unit u;                                      \
	uint32_t index;                                            \
	nvmlReturn_t r = view_device(device, &s, &index, &u);      \
	if (r != NVML_SUCCESS)                                     \
	return r

EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *out, unsigned length)
{
	ENTER(device);
	return give(u.uuid, out, length);
}

EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *out, unsigned length)
{
	ENTER(device);
	return give(u.name, out, length);
}

EXPORT nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned *minor)
{
	ENTER(device);
	if (u.parent >= 0)
		return NVML_ERROR_INVALID_ARGUMENT;
	*minor = (unsigned)u.minor;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *out)
{
	ENTER(device);
	*out = u.parent >= 0 ? (unsigned)u.instance : index;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, struct nvml_pci *pci)
{
	ENTER(device);
	*pci = (struct nvml_pci){ .bus = u.bus, .device_id = 0x233010de };
	snprintf(pci->legacy, sizeof pci->legacy, "0000:%02X:00.0", u.bus & 0xff);
	bus_id(&u, pci->id, sizeof pci->id);
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, struct nvml_pci_v1 *pci)
{
	ENTER(device);
	*pci = (struct nvml_pci_v1){ .bus = u.bus, .device_id = 0x233010de };
	snprintf(pci->legacy, sizeof pci->legacy, "0000:%02X:00.0", u.bus & 0xff);
	return NVML_SUCCESS;
}

/* Of a GPU in MIG mode: what its instances use together. */
static nvmlReturn_t used_memory(const struct simgpu_state *s, uint32_t index, const struct simgpu_unit *u, uint64_t *used)
{
	struct simgpu_unit child;
	*used = u->used;
	for (uint32_t i = 0; u->mig && u->parent < 0 && i < s->units; i++) {
		if (s->unit[i].parent != (int32_t)index)
			continue;
		nvmlReturn_t r = view_unit(s, i, &child);
		if (r != NVML_SUCCESS)
			return r;
		*used += child.used;
	}
	return NVML_SUCCESS;
}

/* The first version counts what the driver reserves as used. */
EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, struct nvml_memory *m)
{
	ENTER(device);
	uint64_t used;
	if (u.fault[FAULT_MEMORY_INFO])
		return u.fault[FAULT_MEMORY_INFO];
	r = used_memory(s, index, &u, &used);
	*m = (struct nvml_memory){ u.total, u.total - u.reserved - used, used + u.reserved };
	return r;
}

#ifndef SIMGPU_PROCESSES_v1
EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, struct nvml_memory_v2 *m)
{
	ENTER(device);
	uint64_t used;
	if (m->version != NVML_MEMORY_V2)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	if (u.fault[FAULT_MEMORY_INFO])
		return u.fault[FAULT_MEMORY_INFO];
	r = used_memory(s, index, &u, &used);
	*m = (struct nvml_memory_v2){ m->version, u.total, u.reserved, u.total - u.reserved - used, used };
	return r;
}
#endif

EXPORT nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, int *mode)
{
	ENTER(device);
	*mode = 0;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, int *mode)
{
	ENTER(device);
	*mode = 1;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
	ENTER(device);
	*major = 9;
	*minor = 0;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *current, unsigned *pending)
{
	ENTER(device);
	*current = *pending = (unsigned)u.mig;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned *is)
{
	ENTER(device);
	*is = u.parent >= 0;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned *count)
{
	ENTER(device);
	*count = u.mig && u.parent < 0 ? 7 : 0;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned number, nvmlDevice_t *mig)
{
	ENTER(device);
	if (!u.mig || u.parent >= 0)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (uint32_t i = 0; i < s->units; i++) {
		struct simgpu_unit child;
		r = view_unit(s, i, &child);
		if (r != NVML_SUCCESS)
			return r;
		if (child.parent == (int32_t)index && child.instance == (int32_t)number && child.present) {
			*mig = view_handle(i, &child);
			return NVML_SUCCESS;
		}
	}
	return NVML_ERROR_NOT_FOUND;
}

EXPORT nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t device, nvmlDevice_t *parent)
{
	struct simgpu_unit gpu;
	ENTER(device);
	if (u.parent < 0)
		return NVML_ERROR_INVALID_ARGUMENT;
	r = view_unit(s, (uint32_t)u.parent, &gpu);
	*parent = view_handle((uint32_t)u.parent, &gpu);
	return r;
}

static nvmlReturn_t instance(nvmlDevice_t device, unsigned *id)
{
	ENTER(device);
	if (u.parent < 0)
		return NVML_ERROR_NOT_SUPPORTED;
	*id = (unsigned)u.instance + 1;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned *id)
{
	return instance(device, id);
}

EXPORT nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned *id)
{
	nvmlReturn_t r = instance(device, id);
	if (r == NVML_SUCCESS)
		*id = 0;
	return r;
}
