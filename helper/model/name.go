package model

import (
	"fmt"
	"strconv"
	"strings"
)

// JobLabel writes the job as sacct's JobID column does: 123, 123_4 for a task
// of an array, 123+1 for a part of a het job; r12 for what gimbal run started.
func (r Registration) JobLabel() string {
	switch {
	case r.Run():
		return RunLabel(RunNumber(r.JobID))
	case r.ArrayJob != 0 && r.ArrayTask != NoVal:
		return fmt.Sprintf("%d_%d", r.ArrayJob, r.ArrayTask)
	case r.HetJob != 0 && r.HetOffset != NoVal:
		return fmt.Sprintf("%d+%d", r.HetJob, r.HetOffset)
	}
	return strconv.FormatUint(uint64(r.JobID), 10)
}

// StepLabel writes a step of the job as sacct does: 123.0, 123.batch.
func (r Registration) StepLabel(step uint32) string {
	return r.JobLabel() + "." + stepName(step)
}

// UserLabel is the user's login name, else the number, as of a user whom this host
// does not know; "" of root without a name, as in a journal of gimbal simulate.
func (r Registration) UserLabel() string {
	if r.User == "" && r.UID != 0 {
		return strconv.FormatUint(uint64(r.UID), 10)
	}
	return r.User
}

func stepName(step uint32) string {
	switch step {
	case StepBatch:
		return "batch"
	case StepExtern:
		return "extern"
	case StepInteractive:
		return "interactive"
	case StepPending:
		return "pending"
	}
	return strconv.FormatUint(uint64(step), 10)
}

// Name is the tenant as a user of sacct knows it: the job for a job's part of
// the node, the step for a step that is a tenant of its own. A tenant that no
// job is known of goes by its own name, without its incarnation.
func (t *Tenant) Name() string {
	if t.Reg.JobID == 0 {
		name, _, _ := strings.Cut(string(t.ID), "@")
		return name
	}
	if t.Whole {
		return t.Reg.JobLabel()
	}
	return t.Reg.StepLabel(t.Reg.StepID)
}
