/* How the NVML library sees the device: a copy of a unit for each call. */
#ifndef SIMGPU_NVML_VIEW_H
#define SIMGPU_NVML_VIEW_H

#include "nvml_abi.h"
#include "protocol.h"

/* Each is an NVML result. Every use counts; the last release unmaps. */
nvmlReturn_t view_acquire(void);
nvmlReturn_t view_release(void);

/* Starts a call: counts it, hangs or fails as the device has been told to.
 * On success *state is the device's state, of which only single words may be
 * read without view_unit. */
nvmlReturn_t view_enter(struct simgpu_state **state);

/* A consistent copy of a unit. */
nvmlReturn_t view_unit(const struct simgpu_state *s, uint32_t index, struct simgpu_unit *copy);

/* Starts a call on a device: its unit's number and a copy of the unit. */
nvmlReturn_t view_device(nvmlDevice_t device, struct simgpu_state **s, uint32_t *index, struct simgpu_unit *copy);

/* The handle of a unit as it is now. */
nvmlDevice_t view_handle(uint32_t index, const struct simgpu_unit *u);

#endif
