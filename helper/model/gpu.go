package model

import "time"

// GPU is one shared device, or one MIG instance, as the driver last showed it.
// Everything of ours is keyed by UUID: an index or a minor number changes its
// meaning between the driver, CUDA and Slurm.
type GPU struct {
	UUID  string `json:"uuid"`
	Index int    `json:"index"` // the driver's order
	Minor int    `json:"minor"` // N of /dev/nvidiaN, Slurm's index; -1 unknown
	Name  string `json:"name,omitempty"`
	// Capability is CUDA's compute capability in tenths: 70 is 7.0. 0: unknown.
	Capability int                `json:"capability,omitempty"`
	MIG        bool               `json:"mig,omitempty"`    // an instance of a partitioned GPU
	Parent     string             `json:"parent,omitempty"` // UUID of the partitioned GPU
	Total      Reading[Bytes]     `json:"total"`
	Reserved   Reading[Bytes]     `json:"reserved"`        // by the driver, outside any process
	Used       Reading[Bytes]     `json:"used"`            // by processes
	Util       Reading[float64]   `json:"util"`            // share of time in which a kernel ran, 0 to 1
	Procs      Reading[[]GPUProc] `json:"-"`               // processes with a context on it
	Fault      string             `json:"fault,omitempty"` // why it cannot be managed: "lost", "device gone"
}

// GPUProc is one process on a GPU.
type GPUProc struct {
	PID    int
	Memory Reading[Bytes]
	SM     Reading[float64] // share of time on the multiprocessors, 0 to 1
}

// GPUReport is what one look at the driver gave.
type GPUReport struct {
	At    time.Duration // when the look began, on the caller's monotonic clock
	GPUs  []GPU
	Fault string // why nothing can be read: "driver/library version mismatch"
}
