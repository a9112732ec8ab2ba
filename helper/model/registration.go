package model

// Slurm's reserved step numbers (slurm.h): they name the parts of a job that
// are not numbered steps.
const (
	StepPending     uint32 = 0xfffffffd
	StepExtern      uint32 = 0xfffffffc
	StepBatch       uint32 = 0xfffffffb
	StepInteractive uint32 = 0xfffffffa
	// NoVal is Slurm's "no value": an array or het field that a job lacks.
	NoVal uint32 = 0xfffffffe
)

// ProcID names a process for good: a pid alone may be used again, a pid with
// the start time (clock ticks since boot, field 22 of /proc/PID/stat) is not.
type ProcID struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
}

// Options are what a user asked for with the --gimbal-* options and the
// GIMBAL_* variables, each as written; an empty string means that it was not given.
type Options struct {
	Pack     string `json:"pack,omitempty"`      // a policy's name, "1" for the node's own, or "off"
	Memory   string `json:"memory,omitempty"`    // peak GPU memory on each GPU, with a unit
	Class    string `json:"class,omitempty"`     // guaranteed or opportunistic
	Weight   string `json:"weight,omitempty"`    // a positive whole number
	Deadline string `json:"deadline,omitempty"`  // unix seconds, resolved at submission
	Signal   string `json:"signal,omitempty"`    // SIG[@SECONDS]
	MaxPause string `json:"max_pause,omitempty"` // longest pause in one piece, where less is borne than the policy allows
}

// Registration is what the plugin says of one task as it is launched. One
// task of a packed step makes one registration.
type Registration struct {
	JobID     uint32 `json:"job"`
	StepID    uint32 `json:"step"`
	ArrayJob  uint32 `json:"array_job,omitempty"`
	ArrayTask uint32 `json:"array_task"` // NoVal when the job is in no array
	HetJob    uint32 `json:"het_job,omitempty"`
	HetOffset uint32 `json:"het_offset"` // NoVal when the job is in no het job
	TaskID    uint32 `json:"task"`       // global task number
	LocalTask uint32 `json:"local_task"` // task number on this node
	Tasks     uint32 `json:"tasks"`      // local tasks of the step on this node, 0 unknown
	NNodes    uint32 `json:"nnodes"`     // nodes of the job, 0 unknown
	NodeID    uint32 `json:"node"`       // this node's number in the step
	Restart   uint32 `json:"restart,omitempty"`
	UID       uint32 `json:"uid"`
	GID       uint32 `json:"gid"`
	Proc      ProcID `json:"proc"`   // the task's root process
	Stepd     ProcID `json:"stepd"`  // the slurmstepd that launched it
	Cgroup    string `json:"cgroup"` // /proc/PID/cgroup as read at the launch, lines joined by newlines

	GPUs      []string `json:"gpus"`                // as Slurm names them: minor numbers or UUIDs
	GPUsFrom  string   `json:"gpus_from,omitempty"` // the variable that told them
	Visible   string   `json:"visible,omitempty"`   // CUDA_VISIBLE_DEVICES of the task, as Slurm set it
	Shards    uint32   `json:"shards,omitempty"`    // of the step on this node, 0: none, or not told
	Placed    string   `json:"placed,omitempty"`    // CUDA_VISIBLE_DEVICES that gimbald chose in its place, "" none
	User      string   `json:"user,omitempty"`      // login name
	Account   string   `json:"account,omitempty"`   // Slurm account
	Partition string   `json:"partition,omitempty"` // Slurm partition
	JobName   string   `json:"job_name,omitempty"`  // whole, whatever characters it holds
	Node      string   `json:"node_name,omitempty"` // Slurm's name of this node
	EndTime   int64    `json:"end_time,omitempty"`  // unix seconds of the job's time limit, 0 unknown
	Launched  int64    `json:"launched,omitempty"`  // unix nanoseconds at the launch
	Options   Options  `json:"options"`             // in force for the step
	Own       bool     `json:"own"`                 // the step's own srun line carries --gimbal-pack
	PTY       bool     `json:"pty,omitempty"`       // an interactive step: its shell is never stopped
}

// StepKey names a step on this node.
type StepKey struct {
	JobID  uint32 `json:"job"`
	StepID uint32 `json:"step"`
}

// TaskExit reports that a task's root process ended.
type TaskExit struct {
	StepKey
	Proc   ProcID `json:"proc"`
	TaskID uint32 `json:"task"`
	Status int    `json:"status"` // as wait(2) gives it
}
