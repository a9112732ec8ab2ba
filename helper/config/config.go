// Package config reads gimbald.toml: defaults, strict keys, units, bounds, and
// what a job is granted under them.
package config

import (
	"io/fs"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// Schema is the version of the file that this program reads.
const Schema = 1

// Path is where gimbald looks for its file unless it is told otherwise.
const Path = "/etc/gimbal/gimbald.toml"

// Config is the whole of gimbald.toml. A key whose field is tagged restart is
// read at the start only; all others take effect on a reload.
type Config struct {
	Schema  int     `toml:"schema"`
	Node    Node    `toml:"node"`
	Socket  Socket  `toml:"socket"`
	Sample  Sample  `toml:"sample"`
	Policy  Policy  `toml:"policy"`
	Limits  Limits  `toml:"limits"`
	Terms   Terms   `toml:"terms"`
	Memory  Memory  `toml:"memory"`
	Bounds  []Bound `toml:"bound"`
	Guard   Guard   `toml:"guard"`
	Swap    Swap    `toml:"swap"`
	Learn   Learn   `toml:"learn"`
	Run     Run     `toml:"run"`
	MPS     MPS     `toml:"mps"`
	Slurm   Slurm   `toml:"slurm"`
	Access  Access  `toml:"access"`
	Metrics Metrics `toml:"metrics"`
	Log     Log     `toml:"log"`

	src      *document // where each key stands, for errors found after loading
	policies []Source  // as LoadPolicies read them
}

// Node says what this node is called and where its state lies.
type Node struct {
	Name       string `toml:"name" restart:"yes"`        // Slurm's name of the node; "": asked of Slurm
	StateDir   string `toml:"state_dir" restart:"yes"`   // journal and tenant records
	PendingDir string `toml:"pending_dir" restart:"yes"` // registrations made while the daemon was down
	Place      string `toml:"place"`                     // who chooses which of the shared GPUs a job uses: PlaceSlurm or PlaceGimbal
}

// The answers to node.place.
const (
	PlaceSlurm  = "slurm"
	PlaceGimbal = "gimbal" // where the site lets it
)

// Socket is where gimbald listens.
type Socket struct {
	Path string      `toml:"path" restart:"yes"`
	Mode fs.FileMode `toml:"mode" restart:"yes"` // permission bits of the socket
}

// Sample says how the driver and the kernel are watched.
type Sample struct {
	Interval time.Duration `toml:"interval"`              // between two looks
	Stale    time.Duration `toml:"stale"`                 // a reading older than this counts as unknown
	NVML     string        `toml:"nvml" restart:"yes"`    // the driver's library, a name or a path
	Proc     string        `toml:"proc" restart:"yes"`    // root of procfs
	Cgroup   string        `toml:"cgroup" restart:"yes"`  // root of the cgroup hierarchies
	Freezer  bool          `toml:"freezer" restart:"yes"` // pause by the cgroup freezer where a tenant has cgroups of its own
}

// Policy says which policy rules which GPU.
type Policy struct {
	Default string            `toml:"default"`           // of every GPU that PerGPU does not name
	PerGPU  map[string]string `toml:"gpu"`               // by UUID
	Allow   []string          `toml:"allow"`             // patterns of the names that a job may ask for
	Dir     string            `toml:"dir" restart:"yes"` // policies of the site, over the shipped ones
}

// Limits bind every policy of the node.
type Limits struct {
	MaxPause      time.Duration `toml:"max_pause"`       // longest pause in one piece
	LeastMaxPause time.Duration `toml:"least_max_pause"` // the shortest max_pause that a job may ask for itself
	StopTimeout   time.Duration `toml:"stop_timeout"`    // for a pause to be confirmed
	EvictGrace    time.Duration `toml:"evict_grace"`     // between a notice and SIGTERM
}

// Terms are what a job gets that asks for nothing.
type Terms struct {
	Class  model.Class `toml:"class"`
	Weight float64     `toml:"weight"`
}

// Memory says what is claimed on a GPU.
type Memory struct {
	Default model.Reading[model.Bytes] `toml:"default"` // claim of a job that states none; unknown: the whole GPU
	Margin  model.Bytes                `toml:"margin"`  // added to each stated claim
}

// Bound is one [[bound]] rule. It matches a job that fulfils every condition
// that it states; no condition matches all jobs. For each limit, the first
// rule that matches and states it decides, as in ssh_config: exceptions come
// first, the rule for everybody last.
type Bound struct {
	User      []string `toml:"user"` // patterns, any of which may match
	Group     []string `toml:"group"`
	Account   []string `toml:"account"`
	Partition []string `toml:"partition"`

	MaxWeight *float64       `toml:"max_weight"`
	MaxMemory *model.Bytes   `toml:"max_memory"` // on each GPU
	MaxPause  *time.Duration `toml:"max_pause"`  // for jobs that bear less than the others
	Classes   []model.Class  `toml:"classes"`    // that may be had
	Policies  []string       `toml:"policies"`   // patterns of the names that may be asked for
}

// Guard is the process that resumes everything when the daemon does not.
type Guard struct {
	Enabled bool          `toml:"enabled" restart:"yes"`
	Check   time.Duration `toml:"check" restart:"yes"` // between two looks at the daemon
	Stall   time.Duration `toml:"stall" restart:"yes"` // without a turn of its loop: taken for hung
	Held    time.Duration `toml:"held" restart:"yes"`  // how long held tenants wait for a new daemon
}

// Swap says how GPU memory is moved to host RAM, for the policies that do so.
type Swap struct {
	Enabled bool        `toml:"enabled" restart:"yes"` // where the driver can
	Library string      `toml:"library" restart:"yes"` // CUDA's, a name or a path
	Command string      `toml:"command" restart:"yes"` // cuda-checkpoint, where the library cannot; "": none
	Margin  model.Bytes `toml:"margin" restart:"yes"`  // host RAM that has to be left beside what is moved
}

// Learn says how it is learnt how fast jobs are beside each other.
type Learn struct {
	Window time.Duration `toml:"window"` // shortest time over which a speed is measured
	Keep   time.Duration `toml:"keep"`   // after which a job that did not come again is forgotten
}

// Run says who may have commands packed that Slurm does not know of.
type Run struct {
	Allow   string `toml:"allow"`    // RunAuto, RunYes or RunNo
	PerUser int    `toml:"per_user"` // live commands of one user
}

// The answers to run.allow.
const (
	RunAuto = "auto" // where no Slurm places jobs on this node
	RunYes  = "yes"
	RunNo   = "no"
)

// MPS says where the site's MPS control daemon is found, for the policies that
// make jobs its clients.
type MPS struct {
	Pipe      string        `toml:"pipe_directory" restart:"yes"` // folder of its pipes; "": there is none
	Control   string        `toml:"control" restart:"yes"`        // its control program, a name or a path
	MultiUser bool          `toml:"multi_user" restart:"yes"`     // it was started for several users
	Check     time.Duration `toml:"check" restart:"yes"`          // between two questions whether it answers
}

// Slurm says how Slurm's own commands are called.
type Slurm struct {
	Bin          string        `toml:"bin" restart:"yes"`  // folder of scontrol and scancel; "": PATH
	Conf         string        `toml:"conf" restart:"yes"` // SLURM_CONF for them; "": Slurm's own
	Timeout      time.Duration `toml:"timeout"`            // of one call
	AdminComment bool          `toml:"admin_comment"`      // write a summary into accounting's AdminComment of each packed job

	Credit      bool          `toml:"credit"`       // whether a job's time limit is moved by what it was kept stopped
	CreditEvery time.Duration `toml:"credit_every"` // between two such calls of this node
	CreditMax   time.Duration `toml:"credit_max"`   // that one job gets in all
}

// Access says who sees and calibrates what.
type Access struct {
	Private   Private  `toml:"private"`
	Operators []string `toml:"operators"` // users who may calibrate every job, as root and the operators of Slurm may
}

// Metrics says how Prometheus is told what the node does.
type Metrics struct {
	Textfile string        `toml:"textfile"` // for node_exporter's textfile collector; "": none
	Interval time.Duration `toml:"interval"` // between two writings of it
	Listen   string        `toml:"listen"`   // an address on loopback that answers GET /metrics; "": none
	Jobs     bool          `toml:"jobs"`     // series of each live job, by its id
	Users    bool          `toml:"users"`    // whose job it is
	Names    bool          `toml:"names"`    // what a job is called
}

// Log says what is logged, on standard error.
type Log struct {
	Level  string `toml:"level"`
	Format string `toml:"format" restart:"yes"`
}

// Private says whether users see each other's jobs.
type Private string

// The answers to access.private.
const (
	PrivateOff   Private = "off"   // private = false: everybody sees all
	PrivateOn    Private = "on"    // private = true: others are shown without a name
	PrivateSlurm Private = "slurm" // as Slurm's PrivateData says
)

// Default is the configuration of a node without a file.
func Default() *Config {
	return &Config{
		Schema: Schema,
		Node:   Node{StateDir: "/var/lib/gimbal", PendingDir: "/run/gimbal/pending", Place: PlaceSlurm},
		Socket: Socket{Path: "/run/gimbal/gimbald.sock", Mode: 0o666},
		Sample: Sample{
			Interval: time.Second, Stale: 5 * time.Second, NVML: "libnvidia-ml.so.1",
			Proc: "/proc", Cgroup: "/sys/fs/cgroup", Freezer: true,
		},
		Policy: Policy{Default: "timeslice", PerGPU: map[string]string{}, Allow: []string{"*"}, Dir: "/etc/gimbal/policies.d"},
		Limits: Limits{MaxPause: time.Minute, LeastMaxPause: 10 * time.Second, StopTimeout: 5 * time.Second, EvictGrace: 30 * time.Second},
		Terms:  Terms{Class: model.Guaranteed, Weight: 1},
		Memory: Memory{Default: model.Unknown[model.Bytes]()},
		Guard: Guard{
			Enabled: true, Check: 200 * time.Millisecond, Stall: 5 * time.Second, Held: 30 * time.Second,
		},
		Swap:   Swap{Enabled: true, Library: "libcuda.so.1", Command: "cuda-checkpoint", Margin: model.GiB},
		Learn:  Learn{Window: 5 * time.Second, Keep: 30 * 24 * time.Hour},
		Run:    Run{Allow: RunAuto, PerUser: 32},
		MPS:    MPS{Control: "nvidia-cuda-mps-control", Check: 10 * time.Second},
		Slurm:  Slurm{Timeout: 10 * time.Second, CreditEvery: time.Minute, CreditMax: 24 * time.Hour},
		Access: Access{Private: PrivateSlurm, Operators: []string{}},
		Metrics: Metrics{
			Textfile: "/var/lib/prometheus/node-exporter/gimbal.prom", Interval: 15 * time.Second, Jobs: true,
		},
		Log: Log{Level: "info", Format: "text"},
	}
}
