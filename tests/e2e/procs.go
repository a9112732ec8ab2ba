package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Stopped parts processes into those that are stopped or frozen and those that
// run; srun and Slurm's own are left out.
func Stopped(pids []int) (stopped, running []int) {
	for _, pid := range pids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		text := string(b)
		i := strings.LastIndexByte(text, ')')
		comm := text[strings.IndexByte(text, '(')+1 : i]
		if comm == "srun" || comm == "slurmstepd" {
			continue
		}
		if state := text[i+2]; state == 'T' || frozen(pid) {
			stopped = append(stopped, pid)
		} else if state != 'Z' {
			running = append(running, pid)
		}
	}
	return stopped, running
}

// frozen tells whether a process's freezer cgroup is frozen.
func frozen(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		_, path, ok := strings.Cut(strings.TrimSpace(line), ":freezer:")
		if !ok {
			continue
		}
		state, err := os.ReadFile(filepath.Join("/sys/fs/cgroup/freezer", path, "freezer.state"))
		return err == nil && strings.TrimSpace(string(state)) == "FROZEN"
	}
	return false
}
