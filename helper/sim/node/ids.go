package node

import (
	"strconv"
	"strings"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/sim"
)

// Numbered says whether all job ids are such as Slurm gives, 12 or 12_3. Then
// a node's records call jobs by them, else by their place in the trace, from 1
// on, and a job without a model has its id for a name.
func Numbered(jobs []sim.Job) bool {
	for i := range jobs {
		if _, _, ok := numbers(jobs[i].ID); !ok {
			return false
		}
	}
	return true
}

// numbers reads a job id; task is NoVal where the job is none of an array.
func numbers(id string) (job, task uint32, ok bool) {
	first, rest, array := strings.Cut(id, "_")
	n, err := strconv.ParseUint(first, 10, 31)
	if err != nil || n == 0 {
		return 0, 0, false
	}
	if !array {
		return uint32(n), model.NoVal, true
	}
	k, err := strconv.ParseUint(rest, 10, 31)
	return uint32(n), uint32(k), err == nil
}

// name calls a registration as its job is called.
func (s *scheduler) name(reg *model.Registration, t *sim.Task) {
	reg.JobID, reg.JobName = uint32(t.Index+1), t.Job.Model
	if s.numbered {
		reg.JobID, reg.ArrayTask, _ = numbers(t.Job.ID)
		if reg.ArrayTask != model.NoVal {
			reg.ArrayJob = reg.JobID
		}
	} else if reg.JobName == "" {
		reg.JobName = t.Job.ID
	}
}
