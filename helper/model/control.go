package model

import "time"

// OpControl is the operation by which a person pauses, resumes, evicts,
// notifies or releases a job: ControlQuery in, ControlReply out.
const OpControl = "control"

// ControlQuery is a person's order for a job on this node.
type ControlQuery struct {
	Job    JobRef        `json:"job"`
	Do     Primitive     `json:"do"` // pause, resume, evict, notify, or "release" to end an order
	Why    string        `json:"why,omitempty"`
	For    time.Duration `json:"for,omitempty"`    // after which it lapses; 0: until it is released
	Signal int           `json:"signal,omitempty"` // of a notify
}

// ControlReply names the tenants that were meant.
type ControlReply struct {
	Tenants []string `json:"tenants"`
	Denied  int      `json:"denied,omitempty"` // of others, left alone
	Notes   []string `json:"notes,omitempty"`  // what else the person is to know, such as what a pause waits for
}
