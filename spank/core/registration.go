package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// stepOf is all of a registration that does not depend on the task.
func stepOf(r request, now time.Time) model.Registration {
	reg := model.Registration{
		JobID: r.job, StepID: r.step,
		ArrayJob: r.arrayJob, ArrayTask: r.arrayTask,
		HetJob: r.hetJob, HetOffset: r.hetOffset,
		Tasks: r.tasks, NNodes: r.nnodes, NodeID: r.node, Restart: r.restart,
		UID: r.uid, GID: r.gid,
		GPUs: splitGPUs(r.gpus), GPUsFrom: r.gpusFrom, Visible: r.visible,
		User: r.user, Account: r.account, Partition: r.partition, JobName: r.jobName,
		EndTime: r.endTime, Launched: now.UnixNano(),
		Options: model.Options{
			Pack: r.pack, Memory: r.memory, Class: r.class, Weight: r.weight,
			// The front's canonical form of a resolved time is Slurm's own.
			Deadline: strings.TrimPrefix(r.deadline, "uts"), Signal: r.signal,
		},
		Own: r.own, PTY: r.pty,
	}
	// A stepd whose own start time cannot be read is one fact less.
	start, err := startTime(os.Getpid())
	if err == nil {
		reg.Stepd = model.ProcID{PID: os.Getpid(), Start: start}
	}
	return reg
}

// addTask adds the task, or fails where it is gone already.
func addTask(reg *model.Registration, r request) error {
	start, err := startTime(r.pid)
	if err != nil {
		return fmt.Errorf("task %d of job %d: %w", r.task, r.job, err)
	}
	// A kernel without cgroups has no such file.
	cgroup, err := readShort(fmt.Sprintf("/proc/%d/cgroup", r.pid))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("task %d of job %d: %w", r.task, r.job, err)
	}
	reg.TaskID, reg.LocalTask = r.task, r.localTask
	reg.Proc = model.ProcID{PID: r.pid, Start: start}
	reg.Cgroup = strings.TrimSuffix(string(cgroup), "\n")
	return nil
}

// splitGPUs parses the lists that Slurm makes: 0,2 or 0-3 or UUIDs.
func splitGPUs(list string) []string {
	gpus := []string{}
	for part := range strings.SplitSeq(list, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		gpus = append(gpus, expandRange(part)...)
	}
	return gpus
}

// expandRange turns 2-4 into 2, 3, 4 and leaves all else as it is.
func expandRange(part string) []string {
	const most = 256 // more GPUs than that are no node's
	first, last, ok := strings.Cut(part, "-")
	lo, err1 := strconv.ParseUint(first, 10, 16)
	hi, err2 := strconv.ParseUint(last, 10, 16)
	if !ok || err1 != nil || err2 != nil || hi < lo || hi-lo >= most {
		return []string{part}
	}
	gpus := make([]string, 0, hi-lo+1)
	for n := lo; n <= hi; n++ {
		gpus = append(gpus, strconv.FormatUint(n, 10))
	}
	return gpus
}

// startTime is when a process was started, in clock ticks since boot.
func startTime(pid int) (uint64, error) {
	path := fmt.Sprintf("/proc/%d/stat", pid)
	data, err := readShort(path)
	if err != nil {
		return 0, err
	}
	start, err := parseStart(data)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return start, nil
}

// parseStart takes field 22 out of a stat file. The command name, field 2, may
// hold blanks and parentheses.
func parseStart(stat []byte) (uint64, error) {
	const after = 22 - 3 // of the fields that follow the name
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= after {
		return 0, fmt.Errorf("only %d fields follow the name", len(fields))
	}
	return strconv.ParseUint(string(fields[after]), 10, 64)
}

// readShort reads a file of /proc, up to what such files ever hold.
func readShort(path string) ([]byte, error) {
	const most = 16 << 10
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, most))
}

// checkEnv turns the daemon's variables into sorted NAME=VALUE strings, and
// leaves out, with an error, what may not be set so.
func checkEnv(vars map[string]string) ([]string, error) {
	var env []string
	var bad []error
	for name, value := range vars {
		switch {
		case !envName(name) || strings.HasPrefix(name, "LD_"):
			bad = append(bad, fmt.Errorf("gimbald may not set the variable %q", name))
		case strings.IndexByte(value, 0) >= 0:
			bad = append(bad, fmt.Errorf("value of %s holds a NUL", name))
		default:
			env = append(env, name+"="+value)
		}
	}
	slices.Sort(env)
	return env, errors.Join(bad...)
}

func envName(name string) bool {
	for i, c := range []byte(name) {
		letter := c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// packEnv writes the strings one after the other, each with a NUL, and an
// empty one at the end. What does not fit is left out whole.
func packEnv(room []byte, env []string) {
	n := 0
	for _, kv := range env {
		if n+len(kv)+2 <= len(room) {
			n += copy(room[n:], kv)
			room[n] = 0
			n++
		}
	}
	room[n] = 0
}

// copyInto writes text with a NUL after it, on one line, cut if it must be.
func copyInto(room []byte, text string) {
	text = strings.ReplaceAll(text, "\n", "; ")
	n := copy(room[:len(room)-1], text)
	room[n] = 0
}
