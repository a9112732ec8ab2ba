package gpu

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// fatal tells whether a return code is about the library or the driver as a
// whole.
func fatal(ret nvml.Return) bool {
	switch ret {
	case nvml.ERROR_UNINITIALIZED, nvml.ERROR_DRIVER_NOT_LOADED, nvml.ERROR_LIBRARY_NOT_FOUND,
		nvml.ERROR_LIB_RM_VERSION_MISMATCH, nvml.ERROR_FUNCTION_NOT_FOUND:
		return true
	}
	return false
}

// dead tells whether a return code says that the GPU, or the handle to it, is
// no more.
func dead(ret nvml.Return) bool {
	switch ret {
	case nvml.ERROR_GPU_IS_LOST, nvml.ERROR_RESET_REQUIRED, nvml.ERROR_INVALID_ARGUMENT, nvml.ERROR_GPU_NOT_FOUND:
		return true
	}
	return false
}

// absent tells whether a return code says that there is no such reading here,
// which is no news after the first time.
func absent(ret nvml.Return) bool {
	switch ret {
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_FUNCTION_NOT_FOUND, nvml.ERROR_NO_DATA,
		nvml.ERROR_NOT_FOUND, nvml.ERROR_ARGUMENT_VERSION_MISMATCH, nvml.ERROR_DEPRECATED:
		return true
	}
	return false
}

// describe words a return code. The library's own words are not asked for:
// they need a library that works.
func describe(ret nvml.Return) string {
	if s, ok := words[ret]; ok {
		return s
	}
	return fmt.Sprintf("NVML error %d", int32(ret))
}

var words = map[nvml.Return]string{
	nvml.SUCCESS:                       "ok",
	nvml.ERROR_UNINITIALIZED:           "the driver library is not initialised",
	nvml.ERROR_INVALID_ARGUMENT:        "the driver no longer knows the GPU",
	nvml.ERROR_NOT_SUPPORTED:           "not supported",
	nvml.ERROR_NO_PERMISSION:           "no permission",
	nvml.ERROR_NOT_FOUND:               "not found",
	nvml.ERROR_INSUFFICIENT_SIZE:       "the list kept growing",
	nvml.ERROR_INSUFFICIENT_POWER:      "a power cable is missing",
	nvml.ERROR_DRIVER_NOT_LOADED:       "driver not loaded",
	nvml.ERROR_TIMEOUT:                 "the driver timed out",
	nvml.ERROR_IRQ_ISSUE:               "the kernel does not get the GPU's interrupts",
	nvml.ERROR_LIBRARY_NOT_FOUND:       "driver library not found",
	nvml.ERROR_FUNCTION_NOT_FOUND:      "the driver library lacks a function that is needed",
	nvml.ERROR_GPU_IS_LOST:             "lost",
	nvml.ERROR_RESET_REQUIRED:          "reset required",
	nvml.ERROR_OPERATING_SYSTEM:        "the system refused access to the GPU",
	nvml.ERROR_LIB_RM_VERSION_MISMATCH: "driver/library version mismatch",
	nvml.ERROR_IN_USE:                  "in use",
	nvml.ERROR_MEMORY:                  "the driver is out of memory",
	nvml.ERROR_GPU_NOT_FOUND:           "device gone",
	nvml.ERROR_UNKNOWN:                 "the driver failed for an unknown reason",
}
