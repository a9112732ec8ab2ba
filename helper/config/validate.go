package config

import (
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

// Bounds of the values, and the pause above which a warning is due.
const (
	minInterval = 50 * time.Millisecond
	maxInterval = time.Minute
	pauseWarn   = 110 * time.Second
	maxSocket   = 107 // characters of a unix socket's path

	// mostStop is far below what the engine waits for the outcome of a pause.
	mostStop   = 10 * time.Second
	maxPerUser = 1024
)

// validate checks every value and returns the mistake that stands first in
// the file.
func (c *Config) validate(dec *decoder) error {
	c.checkPaths(dec)
	c.checkTimes(dec)
	c.checkTerms(dec)
	c.checkPolicy(dec)
	c.Metrics.check(dec)
	for i := range c.Bounds {
		c.Bounds[i].check(dec, fmt.Sprintf("bound.%d", i))
	}
	return dec.first()
}

func (c *Config) checkPaths(dec *decoder) {
	for _, p := range []struct {
		key, value string
		empty      bool // may be empty
	}{
		{"node.state_dir", c.Node.StateDir, false},
		{"node.pending_dir", c.Node.PendingDir, false},
		{"socket.path", c.Socket.Path, false},
		{"sample.proc", c.Sample.Proc, false},
		{"sample.cgroup", c.Sample.Cgroup, false},
		{"policy.dir", c.Policy.Dir, false},
		{"mps.pipe_directory", c.MPS.Pipe, true},
		{"slurm.bin", c.Slurm.Bin, true},
		{"slurm.conf", c.Slurm.Conf, true},
		{"metrics.textfile", c.Metrics.Textfile, true},
	} {
		if !filepath.IsAbs(p.value) && (p.value != "" || !p.empty) {
			dec.fail(p.key, "%s: %q must be an absolute path", p.key, p.value)
		}
	}
	if filepath.Clean(c.MPS.Pipe) == "/tmp/nvidia-mps" {
		dec.fail("mps.pipe_directory", "mps.pipe_directory: in %q every process that uses CUDA is a client, asked or not; start the control daemon with another CUDA_MPS_PIPE_DIRECTORY", c.MPS.Pipe)
	}
	if c.MPS.Control == "" {
		dec.fail("mps.control", "mps.control must name the control program")
	}
	if c.Sample.NVML == "" {
		dec.fail("sample.nvml", "sample.nvml must name the driver's library")
	}
	if c.Swap.Library == "" {
		dec.fail("swap.library", "swap.library must name CUDA's library; write swap.enabled = false to swap nothing")
	}
	if len(c.Socket.Path) > maxSocket {
		dec.fail("socket.path", "socket.path: %d characters are more than a unix socket's path may have (%d)", len(c.Socket.Path), maxSocket)
	}
	if c.Socket.Mode&0o600 != 0o600 {
		dec.fail("socket.mode", "socket.mode: %04o takes the socket from its owner", c.Socket.Mode)
	}
}

func (c *Config) checkTimes(dec *decoder) {
	for _, t := range []struct {
		key         string
		value       time.Duration
		least, most time.Duration
	}{
		{"sample.interval", c.Sample.Interval, minInterval, maxInterval},
		{"sample.stale", c.Sample.Stale, 2 * c.Sample.Interval, time.Hour},
		{"limits.max_pause", c.Limits.MaxPause, 100 * time.Millisecond, 24 * time.Hour},
		{"limits.least_max_pause", c.Limits.LeastMaxPause, leastPause, mostPause},
		{"limits.stop_timeout", c.Limits.StopTimeout, 100 * time.Millisecond, mostStop},
		{"limits.evict_grace", c.Limits.EvictGrace, 0, 24 * time.Hour},
		{"guard.check", c.Guard.Check, 10 * time.Millisecond, 500 * time.Millisecond},
		{"guard.stall", c.Guard.Stall, time.Second, time.Minute},
		{"guard.held", c.Guard.Held, 0, time.Hour},
		{"learn.window", c.Learn.Window, 200 * time.Millisecond, 10 * time.Minute},
		{"learn.keep", c.Learn.Keep, 0, 10 * 365 * 24 * time.Hour},
		{"slurm.timeout", c.Slurm.Timeout, time.Second, 10 * time.Minute},
		{"mps.check", c.MPS.Check, 100 * time.Millisecond, time.Hour},
		{"slurm.credit_every", c.Slurm.CreditEvery, time.Second, time.Hour},
		{"slurm.credit_max", c.Slurm.CreditMax, time.Minute, 365 * 24 * time.Hour},
		{"metrics.interval", c.Metrics.Interval, time.Second, 10 * time.Minute},
	} {
		if t.value < t.least || t.value > t.most {
			dec.fail(t.key, "%s: %q is not between %q and %q", t.key,
				FormatDuration(t.value), FormatDuration(t.least), FormatDuration(t.most))
		}
	}
}

func (c *Config) checkTerms(dec *decoder) {
	if c.Terms.Weight <= 0 || c.Terms.Weight > MaxWeight {
		dec.fail("terms.weight", "terms.weight: %v is not above 0 and at most 10000", c.Terms.Weight)
	}
	if m, ok := c.Memory.Default.Get(); ok && m == 0 {
		dec.fail("memory.default", "memory.default: a claim of nothing would let every job in; write \"whole\" or a size")
	}
	oneOf(dec, "node.place", c.Node.Place, PlaceSlurm, PlaceGimbal)
	oneOf(dec, "run.allow", c.Run.Allow, RunAuto, RunYes, RunNo)
	if c.Run.PerUser < 1 || c.Run.PerUser > maxPerUser {
		dec.fail("run.per_user", "run.per_user: %d is not between 1 and %d", c.Run.PerUser, maxPerUser)
	}
	oneOf(dec, "log.level", c.Log.Level, "debug", "info", "warn", "error")
	oneOf(dec, "log.format", c.Log.Format, "text", "json")
}

func oneOf(dec *decoder, key, value string, valid ...string) {
	if slices.Contains(valid, value) {
		return
	}
	near, _ := nearest(value, valid)
	dec.fail(key, "%s: %q is none of %q; did you mean %q?", key, value, valid, near)
}

// policyName is the form of a policy's name.
var policyName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)

// PolicyName tells whether a name is one that a policy can have.
func PolicyName(s string) bool { return policyName.MatchString(s) }

// gpuName is the form of a GPU's or an instance's UUID, as nvidia-smi -L
// prints it, in the new and the old way.
var gpuName = regexp.MustCompile(`^((GPU|MIG)-` + uuid + `|MIG-GPU-` + uuid + `/[0-9]+/[0-9]+)$`)

const uuid = `[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`

func (c *Config) checkPolicy(dec *decoder) {
	if !policyName.MatchString(c.Policy.Default) {
		dec.fail("policy.default", "policy.default: %q is not a policy's name", c.Policy.Default)
	}
	for gpu, name := range c.Policy.PerGPU {
		key := "policy.gpu." + gpu
		if !gpuName.MatchString(gpu) {
			dec.fail(key, "policy.gpu: %q is not a GPU's whole UUID, as nvidia-smi -L prints it", gpu)
		}
		if !policyName.MatchString(name) {
			dec.fail(key, "policy.gpu: %q is not a policy's name", name)
		}
	}
	patterns(dec, "policy.allow", c.Policy.Allow, true)
	patterns(dec, "access.operators", c.Access.Operators, true)
}

// patterns checks a list of shell patterns; an empty one matches nothing and
// is a mistake unless empty says otherwise.
func patterns(dec *decoder, key string, list []string, empty bool) {
	if list != nil && len(list) == 0 && !empty {
		dec.fail(key, "%s: an empty list matches nobody; leave the key out to match everybody", display(key))
	}
	for _, p := range list {
		if _, err := path.Match(p, ""); err != nil || p == "" {
			dec.fail(key, "%s: %q is not a name or a shell pattern", display(key), p)
		}
	}
}

func (b *Bound) check(dec *decoder, at string) {
	patterns(dec, at+".user", b.User, false)
	patterns(dec, at+".group", b.Group, false)
	patterns(dec, at+".account", b.Account, false)
	patterns(dec, at+".partition", b.Partition, false)
	patterns(dec, at+".policies", b.Policies, true)
	if b.MaxWeight != nil && (*b.MaxWeight <= 0 || *b.MaxWeight > MaxWeight) {
		dec.fail(at+".max_weight", "bound.max_weight: %v is not above 0 and at most 10000", *b.MaxWeight)
	}
	if b.MaxMemory != nil && *b.MaxMemory == 0 {
		dec.fail(at+".max_memory", "bound.max_memory: no job can live with no memory at all")
	}
	if b.Classes != nil && len(b.Classes) == 0 {
		dec.fail(at+".classes", "bound.classes: a job must be of one class; name at least one")
	}
	if m := b.MaxPause; m != nil && (*m < leastPause || *m > mostPause) {
		dec.fail(at+".max_pause", "bound.max_pause: %q is not between \"1s\" and \"24h\"", FormatDuration(*m))
	}
	if !b.statesAny() {
		dec.fail(at, "[[bound]] states no limit: max_weight, max_memory, max_pause, classes or policies")
	}
}

// warnings says what is allowed but likely to hurt.
func (c *Config) warnings(d *document) []string {
	var out []string
	warn := func(key, format string, args ...any) {
		e := Error{File: d.file, Line: d.line(key), Msg: fmt.Sprintf(format, args...)}
		out = append(out, e.Error())
	}
	if c.Limits.MaxPause > pauseWarn {
		warn("limits.max_pause", "limits.max_pause = %q: NCCL's heartbeat monitor ends a job that does not answer for 2 minutes (in some versions of PyTorch); 60s is safe", FormatDuration(c.Limits.MaxPause))
	}
	if !c.Guard.Enabled {
		warn("guard.enabled", "guard.enabled = false: if gimbald dies, paused jobs wait for its next start")
	}
	for i, b := range c.Bounds[:max(len(c.Bounds)-1, 0)] {
		if b.everybody() && b.statesAll() {
			warn(fmt.Sprintf("bound.%d", i), "this [[bound]] matches everybody and states every limit: the rules after it are never used")
			break
		}
	}
	return out
}

func (b *Bound) statesAny() bool {
	return b.MaxWeight != nil || b.MaxMemory != nil || b.MaxPause != nil || b.Classes != nil || b.Policies != nil
}

func (b *Bound) statesAll() bool {
	return b.MaxWeight != nil && b.MaxMemory != nil && b.MaxPause != nil && b.Classes != nil && b.Policies != nil
}

func (b *Bound) everybody() bool {
	return b.User == nil && b.Group == nil && b.Account == nil && b.Partition == nil
}
