package model

import "time"

// Load is what the GPUs of a node, and the tenants on them, took over a stretch
// of time.
type Load struct {
	From   time.Time
	Length time.Duration
	GPUs   []GPULoad // in the driver's order
}

// GPULoad is one GPU's part of a Load.
type GPULoad struct {
	UUID    string
	Index   int
	Name    string
	Total   Reading[Bytes]
	Used    Reading[Level] // bytes, by all processes
	Util    Reading[Level] // share of time in which a kernel ran, 0 to 1
	Tenants []TenantLoad   // those with a process on it, or memory
}

// TenantLoad is what one tenant took of one GPU.
type TenantLoad struct {
	Tenant TenantID
	Memory Reading[Level] // bytes
	SM     Reading[Level] // share of time on the multiprocessors, 0 to 1
}

// Level is a reading over a stretch of time: its mean over the part in which it
// was known, and the highest value that was seen.
type Level struct{ Mean, Max float64 }

// Change tells what a tenant is from a moment on.
type Change struct {
	At        time.Time
	Tenant    TenantID
	State     State
	Suspended bool    // by somebody else
	Share     float64 // of time, where it is throttled; else 0
}
