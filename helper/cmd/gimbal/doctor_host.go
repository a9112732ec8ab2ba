package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/report"
)

// ticks is the kernel's unit of start times in /proc, a constant on Linux.
const ticks = 100

// process is a program as it is looked for.
type process struct {
	pid     int
	started time.Time
	args    []string
}

// processes lists the running programs of a name, as /proc/PID/comm has it.
func (d *doctor) processes(name string) []process {
	dir := d.path(d.cfg.Sample.Proc)
	boot := bootTime(dir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var out []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		comm, err := os.ReadFile(filepath.Join(dir, e.Name(), "comm"))
		if err != nil || strings.TrimSpace(string(comm)) != name {
			continue
		}
		p := process{pid: pid, started: startTime(filepath.Join(dir, e.Name(), "stat"), boot)}
		if b, err := os.ReadFile(filepath.Join(dir, e.Name(), "cmdline")); err == nil {
			p.args = strings.Split(string(bytes.TrimRight(b, "\x00")), "\x00")
		}
		out = append(out, p)
	}
	return out
}

// bootTime is when the kernel started; the zero time where that is not told.
func bootTime(proc string) time.Time {
	b, err := os.ReadFile(filepath.Join(proc, "stat"))
	if err != nil {
		return time.Time{}
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "btime "); ok {
			if sec, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64); err == nil {
				return time.Unix(sec, 0)
			}
		}
	}
	return time.Time{}
}

// startTime reads when a process started from its stat; the 22nd field counts
// from the boot, and the second may hold blanks and brackets.
func startTime(stat string, boot time.Time) time.Time {
	b, err := os.ReadFile(stat)
	if err != nil || boot.IsZero() {
		return time.Time{}
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 20 {
		return time.Time{}
	}
	n, err := strconv.ParseInt(f[19], 10, 64)
	if err != nil {
		return time.Time{}
	}
	return boot.Add(time.Duration(n) * time.Second / ticks)
}

// checkSlurmd compares when slurmd started with when plugstack.conf changed: a
// running one keeps the plugins that it has.
func (d *doctor) checkSlurmd() {
	all := d.slurmds()
	if len(all) == 0 {
		d.warn("slurmd", "Start it, if this is a node", "slurmd does not run here")
		return
	}
	stack := slices.DeleteFunc(slices.Clone(d.conf.files), func(f string) bool { return filepath.Base(f) == "slurm.conf" })
	if len(stack) == 0 {
		return // there is no plugstack.conf, which has been said
	}
	for _, file := range stack {
		st, err := os.Stat(file)
		if err != nil {
			continue
		}
		for _, p := range all {
			// A start time is told to the hundredth, a file's to the nanosecond.
			if !p.started.IsZero() && st.ModTime().After(p.started.Add(time.Second)) {
				d.problem("slurmd", "Restart slurmd", "slurmd started before plugstack.conf changed: process %d at %s, %s at %s", p.pid,
					report.Clock(p.started, d.w.now().Location()), file, report.Clock(st.ModTime(), d.w.now().Location()))
				return
			}
		}
	}
	d.ok("slurmd", "started after plugstack.conf last changed")
}

// slurmds are those that read the slurm.conf that is looked at; those that do
// not say which one may.
func (d *doctor) slurmds() []process {
	all := d.processes("slurmd")
	return slices.DeleteFunc(all, func(p process) bool {
		for i, a := range p.args {
			if a == "-f" && i+1 < len(p.args) {
				return d.conf.dir != "" && filepath.Dir(p.args[i+1]) != filepath.Clean(d.conf.dir)
			}
		}
		return false
	})
}

// cgroupLayout is which hierarchies are mounted.
type cgroupLayout struct {
	unified string // where cgroup2 is, "" nowhere
	v1      bool   // some controllers are v1
	freezer bool   // the v1 freezer is among them
}

func (l cgroupLayout) String() string {
	switch {
	case l.unified != "" && l.v1:
		return "hybrid (v1 controllers beside cgroup2)"
	case l.unified != "":
		return "v2"
	case l.v1:
		return "v1"
	}
	return "none"
}

// readLayout reads the mounted hierarchies from mountinfo: that
// cgroup.controllers exists proves nothing, a hybrid layout has it too.
func readLayout(path string) (l cgroupLayout, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return l, err
	}
	for line := range strings.Lines(string(b)) {
		head, tail, ok := strings.Cut(line, " - ")
		h, t := strings.Fields(head), strings.Fields(tail)
		if !ok || len(h) < 5 || len(t) < 3 {
			continue
		}
		switch t[0] {
		case "cgroup2":
			l.unified = h[4]
		case "cgroup":
			if !strings.Contains(t[2], "name=") {
				l.v1 = true
			}
			l.freezer = l.freezer || slices.Contains(strings.Split(t[2], ","), "freezer")
		}
	}
	return l, nil
}

// checkCgroups tells by what tenants are paused.
func (d *doctor) checkCgroups() {
	l, err := readLayout(filepath.Join(d.path(d.cfg.Sample.Proc), "self", "mountinfo"))
	if err != nil {
		d.unknown("cgroup", "the layout cannot be told: %v", err)
		return
	}
	plugin := strings.ToLower(d.cgroupConf("cgroupplugin"))
	track := strings.ToLower(d.conf.values["proctracktype"])
	switch {
	case !l.freezer && l.unified == "":
		d.warn("cgroup", "Mount cgroup2, or the v1 freezer", "no freezer is mounted: tenants are paused by signals")
	case plugin == "cgroup/v2" && l.v1:
		d.problem("cgroup", "Boot with systemd.unified_cgroup_hierarchy=1, or set CgroupPlugin=cgroup/v1", "CgroupPlugin=cgroup/v2 on a %s layout: slurmd refuses it", l)
	case plugin == "cgroup/v1" && !l.v1:
		d.problem("cgroup", "Set CgroupPlugin=cgroup/v2 or autodetect", "CgroupPlugin=cgroup/v1, but the layout is %s", l)
	case plugin == "disabled" || !strings.HasSuffix(track, "/cgroup") && track != "":
		d.warn("cgroup", "", "layout %s, but Slurm puts jobs into no cgroups: tenants are paused by signals", l)
	case !d.cfg.Sample.Freezer:
		d.warn("cgroup", "Set sample.freezer = true in gimbald.toml", "layout %s; the freezer is switched off: tenants are paused by signals", l)
	default:
		d.ok("cgroup", "layout %s: tenants are paused by its freezer", l)
	}
}

// clockSynced asks the kernel whether something keeps the clock in step.
func clockSynced() (bool, error) {
	var t unix.Timex
	if _, err := unix.Adjtimex(&t); err != nil {
		return false, fmt.Errorf("adjtimex: %w", err)
	}
	return t.Status&unix.STA_UNSYNC == 0, nil
}
