/* libnvidia-ml.so.1: events, and the names that only have to be there. */
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "nvml_abi.h"
#include "nvml_view.h"
#include "util.h"

struct event_set {
	uint32_t seen;
	uint32_t units; /* a bit for each unit that is registered */
};

EXPORT nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
	struct simgpu_state *s;
	nvmlReturn_t r = view_enter(&s);
	if (r != NVML_SUCCESS)
		return r;
	struct event_set *e = calloc(1, sizeof *e);
	if (e == NULL)
		return NVML_ERROR_MEMORY;
	e->seen = atomic_load(&s->xids);
	*set = e;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
	free(set);
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, uint64_t *types)
{
	struct simgpu_state *s;
	struct simgpu_unit u;
	uint32_t index;
	nvmlReturn_t r = view_device(device, &s, &index, &u);
	if (r == NVML_SUCCESS)
		*types = NVML_EVENT_XID;
	return r;
}

EXPORT nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, uint64_t types, nvmlEventSet_t set)
{
	struct simgpu_state *s;
	struct simgpu_unit u;
	uint32_t index;
	nvmlReturn_t r = view_device(device, &s, &index, &u);
	if (r != NVML_SUCCESS)
		return r;
	if ((types & ~(uint64_t)NVML_EVENT_XID) != 0)
		return NVML_ERROR_NOT_SUPPORTED;
	((struct event_set *)set)->units |= 1u << index;
	return NVML_SUCCESS;
}

/* Takes the next event of a registered unit. */
static nvmlReturn_t take(struct simgpu_state *s, struct event_set *e, struct nvml_event *out)
{
	struct simgpu_unit u;
	while (e->seen != atomic_load(&s->xids)) {
		struct simgpu_xid x = s->xid[e->seen++ % SIMGPU_XIDS];
		if (x.unit >= s->units || (e->units & 1u << x.unit) == 0)
			continue;
		nvmlReturn_t r = view_unit(s, x.unit, &u);
		*out = (struct nvml_event){
			view_handle(x.unit, &u), NVML_EVENT_XID, x.code, NVML_NO_INSTANCE, NVML_NO_INSTANCE,
		};
		return r;
	}
	return NVML_ERROR_TIMEOUT;
}

EXPORT nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, struct nvml_event *out, unsigned timeout_ms)
{
	struct event_set *e = set;
	uint64_t end = now_ns() + (uint64_t)timeout_ms * 1000000, now;
	struct simgpu_state *s;
	for (;;) {
		nvmlReturn_t r = view_enter(&s);
		if (r == NVML_SUCCESS)
			r = take(s, e, out);
		if (r != NVML_ERROR_TIMEOUT || (now = now_ns()) >= end)
			return r;
		struct timespec left = { (time_t)((end - now) / 1000000000u), (long)((end - now) % 1000000000u) };
		syscall(SYS_futex, &s->xids, FUTEX_WAIT, e->seen, &left, NULL, 0);
	}
}

EXPORT nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, struct nvml_event *out, unsigned timeout_ms)
{
	return nvmlEventSetWait_v2(set, out, timeout_ms);
}

/* What tools ask for and the simulation does not model. */
#define NOT_SUPPORTED(name)                      \
	EXPORT nvmlReturn_t name(void);          \
	EXPORT nvmlReturn_t name(void)           \
	{                                        \
		return NVML_ERROR_NOT_SUPPORTED; \
	}

NOT_SUPPORTED(nvmlDeviceGetTemperature)
NOT_SUPPORTED(nvmlDeviceGetPowerUsage)
NOT_SUPPORTED(nvmlDeviceGetEnforcedPowerLimit)
NOT_SUPPORTED(nvmlDeviceGetPowerManagementLimit)
NOT_SUPPORTED(nvmlDeviceGetFanSpeed)
NOT_SUPPORTED(nvmlDeviceGetClockInfo)
NOT_SUPPORTED(nvmlDeviceGetMaxClockInfo)
NOT_SUPPORTED(nvmlDeviceGetEncoderUtilization)
NOT_SUPPORTED(nvmlDeviceGetDecoderUtilization)
NOT_SUPPORTED(nvmlDeviceGetPcieThroughput)
NOT_SUPPORTED(nvmlDeviceGetCurrPcieLinkGeneration)
NOT_SUPPORTED(nvmlDeviceGetCurrPcieLinkWidth)
NOT_SUPPORTED(nvmlDeviceGetMaxPcieLinkGeneration)
NOT_SUPPORTED(nvmlDeviceGetMaxPcieLinkWidth)
NOT_SUPPORTED(nvmlDeviceGetTemperatureThreshold)
NOT_SUPPORTED(nvmlDeviceGetSerial)
NOT_SUPPORTED(nvmlDeviceGetBrand)
NOT_SUPPORTED(nvmlDeviceGetArchitecture)
NOT_SUPPORTED(nvmlDeviceGetVbiosVersion)
NOT_SUPPORTED(nvmlDeviceGetAccountingMode)
NOT_SUPPORTED(nvmlDeviceGetMPSComputeRunningProcesses)
NOT_SUPPORTED(nvmlDeviceGetMPSComputeRunningProcesses_v3)
NOT_SUPPORTED(nvmlDeviceGetProcessesUtilizationInfo)
NOT_SUPPORTED(nvmlDeviceGetAttributes_v2)
NOT_SUPPORTED(nvmlDeviceGetPerformanceState)
NOT_SUPPORTED(nvmlDeviceGetBAR1MemoryInfo)
NOT_SUPPORTED(nvmlDeviceGetTotalEccErrors)
NOT_SUPPORTED(nvmlDeviceGetGpuOperationMode)
NOT_SUPPORTED(nvmlDeviceGetDisplayMode)
NOT_SUPPORTED(nvmlDeviceGetDisplayActive)
NOT_SUPPORTED(nvmlGpmQueryDeviceSupport)
