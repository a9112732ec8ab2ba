/* The part of NVML's binary interface that the simulated library offers. */
#ifndef SIMGPU_NVML_ABI_H
#define SIMGPU_NVML_ABI_H

#include <stdint.h>

typedef int nvmlReturn_t;
typedef void *nvmlDevice_t;
typedef void *nvmlEventSet_t;

enum {
	NVML_SUCCESS = 0,
	NVML_ERROR_UNINITIALIZED = 1,
	NVML_ERROR_INVALID_ARGUMENT = 2,
	NVML_ERROR_NOT_SUPPORTED = 3,
	NVML_ERROR_NOT_FOUND = 6,
	NVML_ERROR_INSUFFICIENT_SIZE = 7,
	NVML_ERROR_DRIVER_NOT_LOADED = 9,
	NVML_ERROR_TIMEOUT = 10,
	NVML_ERROR_GPU_IS_LOST = 15,
	NVML_ERROR_MEMORY = 20,
	NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25
};

enum { NVML_EVENT_XID = 8 };

#define NVML_VALUE_NOT_AVAILABLE UINT64_MAX
#define NVML_NO_INSTANCE UINT32_MAX

struct nvml_memory {
	uint64_t total, free, used;
};

struct nvml_memory_v2 {
	uint32_t version;
	uint64_t total, reserved, free, used;
};

#define NVML_MEMORY_V2 (sizeof(struct nvml_memory_v2) | 2u << 24)

struct nvml_utilization {
	uint32_t gpu, memory;
};

struct nvml_process_v1 {
	uint32_t pid;
	uint64_t memory;
};

struct nvml_process {
	uint32_t pid;
	uint64_t memory;
	uint32_t gpu_instance, compute_instance;
};

/* What some drivers of the 535 series wrote under the name of v3. */
struct nvml_process_long {
	uint32_t pid;
	uint64_t memory;
	uint32_t gpu_instance, compute_instance;
	uint64_t protected_memory;
};

struct nvml_process_sample {
	uint32_t pid;
	uint64_t time_us;
	uint32_t sm, memory, encoder, decoder;
};

struct nvml_event {
	nvmlDevice_t device;
	uint64_t type, data;
	uint32_t gpu_instance, compute_instance;
};

struct nvml_pci {
	char legacy[16];
	uint32_t domain, bus, device, device_id, subsystem_id;
	char id[32];
};

struct nvml_pci_v1 {
	char legacy[16];
	uint32_t domain, bus, device, device_id, subsystem_id;
	uint32_t unused[4];
};

_Static_assert(sizeof(struct nvml_memory) == 24, "nvmlMemory_t");
_Static_assert(sizeof(struct nvml_memory_v2) == 40, "nvmlMemory_v2_t");
_Static_assert(sizeof(struct nvml_process_v1) == 16, "nvmlProcessInfo_v1_t");
_Static_assert(sizeof(struct nvml_process) == 24, "nvmlProcessInfo_v2_t");
_Static_assert(sizeof(struct nvml_process_long) == 32, "nvmlProcessDetail_v1_t");
_Static_assert(sizeof(struct nvml_process_sample) == 32, "nvmlProcessUtilizationSample_t");
_Static_assert(sizeof(struct nvml_event) == 32, "nvmlEventData_t");
_Static_assert(sizeof(struct nvml_pci) == 68, "nvmlPciInfo_t");

#define EXPORT __attribute__((visibility("default")))

#endif
