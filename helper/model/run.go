package model

import (
	"fmt"
	"strconv"
	"strings"
)

// Names of the operations by which gimbal run tells a daemon of a command that
// it starts, each with its query and its reply. Any user may ask, for his own
// processes alone.
const (
	OpRun     = "run"      // RunRequest → RunReply
	OpRunSeen = "run_seen" // RunNews → nothing: somebody stopped or continued it, look now
	OpRunExit = "run_exit" // RunNews → nothing: its root process has ended
)

// RunRequest tells of a command that is about to begin. Who asks, and whose
// process it is, the daemon takes from the kernel.
type RunRequest struct {
	Proc    ProcID  `json:"proc"`              // a child of the caller that waits for the reply
	Choose  string  `json:"choose,omitempty"`  // ChooseAny or ChooseAll; "": what Visible names
	Visible string  `json:"visible,omitempty"` // in the form of CUDA_VISIBLE_DEVICES
	Named   bool    `json:"named,omitempty"`   // by the user for this command: what Visible names must be there
	Options Options `json:"options"`
	Name    string  `json:"name"`
}

// How a command comes by its GPUs where it names none.
const (
	ChooseAny = "any" // the one with most room
	ChooseAll = "all"
)

// RunReply says as what the command is known, and where it is to compute.
type RunReply struct {
	Job      uint32   `json:"job"`
	GPUs     []string `json:"gpus,omitempty"`     // UUIDs
	Progress string   `json:"progress,omitempty"` // file into which it may write its progress
	Message  string   `json:"message,omitempty"`
}

// RunNews is about a command that is known.
type RunNews struct {
	Job    uint32 `json:"job"`
	Status int    `json:"status,omitempty"` // as wait(2) gives it
}

// The numbers of commands that gimbal run started lie where no job of Slurm's
// is: MaxJobId is at most 0x03ff0000, and a federation's cluster number stands
// in the six bits above.
const (
	runBase uint32 = 0x03ff0000
	// MaxRun is the highest number of a command; the lowest is 1.
	MaxRun uint32 = 0xffff
)

// RunJob is the job id under which command n is known.
func RunJob(n uint32) uint32 { return runBase + n }

// RunNumber is the number of a command, 0 for a job of Slurm's.
func RunNumber(job uint32) uint32 {
	if job <= runBase || job > runBase+MaxRun {
		return 0
	}
	return job - runBase
}

// Run tells whether gimbal run started it, rather than Slurm.
func (r *Registration) Run() bool { return RunNumber(r.JobID) != 0 }

// RunLabel writes command n as status shows it.
func RunLabel(n uint32) string { return "r" + strconv.FormatUint(uint64(n), 10) }

// ParseRun reads what RunLabel wrote and returns the job id; ok is false for
// what is not of that form.
func ParseRun(s string) (job uint32, ok bool, err error) {
	digits, ok := strings.CutPrefix(s, "r")
	if !ok {
		return 0, false, nil
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || n == 0 || n > uint64(MaxRun) {
		return 0, true, fmt.Errorf("%q is neither a job number nor a command of gimbal run, r1 to r%d", s, MaxRun)
	}
	return RunJob(uint32(n)), true, nil
}
