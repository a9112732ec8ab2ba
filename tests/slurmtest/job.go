package slurmtest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// pollEvery is how often a wait asks slurmctld.
const pollEvery = 100 * time.Millisecond

// ended are the states that a job does not leave.
var ended = []string{
	"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED",
	"NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT",
}

// Job is what `scontrol show job` says of one.
type Job struct {
	ID       int
	State    string // COMPLETED, RUNNING, SUSPENDED, ...
	Reason   string
	ExitCode int // exit status of the batch script
	Signal   int // the signal that ended it, else 0
	Restarts int
	StdOut   string            // path of its output file
	Fields   map[string]string // everything, under scontrol's names
}

// Ended says whether the job is over.
func (j Job) Ended() bool { return slices.Contains(ended, j.State) }

// Jobs returns what scontrol knows by this id: one job, or the tasks of an
// array, or the components of a het job.
func (c *Cluster) Jobs(id int) ([]Job, error) {
	result := c.Run("scontrol", "show", "job", strconv.Itoa(id))
	if result.Exit != 0 {
		return nil, fmt.Errorf("show job %d: %s", id, result)
	}
	var jobs []Job
	for text := range strings.SplitSeq(result.Stdout, "\n\n") {
		if strings.HasPrefix(text, "JobId=") {
			jobs = append(jobs, parseJob(text))
		}
	}
	return jobs, nil
}

// Job returns the job with this very id.
func (c *Cluster) Job(id int) (Job, error) {
	jobs, err := c.Jobs(id)
	if err != nil {
		return Job{}, err
	}
	for _, job := range jobs {
		if job.ID == id {
			return job, nil
		}
	}
	return Job{}, fmt.Errorf("show job %d: not in scontrol's answer", id)
}

// WaitState waits until the job is in one of these states and returns it. The
// test fails when that takes longer, or when the job ends in another state.
func (c *Cluster) WaitState(t testing.TB, id int, timeout time.Duration, states ...string) Job {
	t.Helper()
	return c.wait(t, id, timeout, strings.Join(states, " or "), func(job Job) bool {
		return slices.Contains(states, job.State)
	})
}

// WaitDone waits until the job has ended, whichever way, and returns it.
func (c *Cluster) WaitDone(t testing.TB, id int, timeout time.Duration) Job {
	t.Helper()
	return c.wait(t, id, timeout, "its end", Job.Ended)
}

func (c *Cluster) wait(t testing.TB, id int, timeout time.Duration, what string, reached func(Job) bool) Job {
	t.Helper()
	for deadline := time.Now().Add(timeout); ; time.Sleep(pollEvery) {
		job, err := c.Job(id)
		switch {
		case err == nil && reached(job):
			return job
		case err == nil && job.Ended():
			t.Fatalf("waited for %s of job %d: it ended: %v", what, id, job.Fields)
		case time.Now().After(deadline):
			t.Fatalf("waited %v for %s of job %d: %v (%v)", timeout, what, id, job.Fields, err)
		}
	}
}

// JobOutput returns what the job has written to its output file so far, which
// is nothing before slurmstepd has made the file.
func (c *Cluster) JobOutput(t testing.TB, id int) string {
	t.Helper()
	job, err := c.Job(id)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(job.StdOut)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("output of job %d: %v", id, err)
	}
	return string(text)
}

// field finds where a field of a line of scontrol's begins. A value may hold
// spaces, a name does not.
var field = regexp.MustCompile(`(?:^| )([A-Za-z][A-Za-z0-9_/:]*)=`)

// several are the first fields of the lines of which the others are taken apart,
// too: in these no user wrote anything that looks like a field.
var several = []string{"JobState", "Requeue"}

// parseJob reads what `scontrol show job` says of a job, in several lines. Of two
// fields with one name the first counts.
func parseJob(text string) Job {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		places := field.FindAllStringSubmatchIndex(line, -1)
		if len(places) > 0 && !slices.Contains(several, line[places[0][2]:places[0][3]]) {
			places = places[:1]
		}
		for i, place := range places {
			name, end := line[place[2]:place[3]], len(line)
			if i+1 < len(places) {
				end = places[i+1][0]
			}
			if _, known := fields[name]; !known {
				fields[name] = line[place[1]:end]
			}
		}
	}
	job := Job{State: fields["JobState"], Reason: fields["Reason"], StdOut: fields["StdOut"], Fields: fields}
	id, _, _ := strings.Cut(fields["JobId"], " ") // the job's name is in this line
	job.ID, _ = strconv.Atoi(id)
	job.Restarts, _ = strconv.Atoi(fields["Restarts"])
	exit, signal, _ := strings.Cut(fields["ExitCode"], ":")
	job.ExitCode, _ = strconv.Atoi(exit)
	job.Signal, _ = strconv.Atoi(signal)
	return job
}

// Proc is a process of a job.
type Proc struct {
	PID  int
	Step string // "batch", "0", ...
	Task bool   // the root process of a task, not one that it started
}

// Procs lists the job's processes on every node, as slurmd sees them; none for
// a job that does not run.
func (c *Cluster) Procs(id int) []Proc {
	var procs []Proc
	for _, node := range c.Nodes {
		result := c.Run("scontrol", "listpids", strconv.Itoa(id), node)
		for line := range strings.Lines(result.Stdout) {
			if proc, ok := parseProc(line); ok {
				procs = append(procs, proc)
			}
		}
	}
	return procs
}

// Pids lists the process ids of Procs.
func (c *Cluster) Pids(id int) []int {
	var pids []int
	for _, proc := range c.Procs(id) {
		pids = append(pids, proc.PID)
	}
	return pids
}

// parseProc reads a line of `scontrol listpids`: PID, job, step, local and
// global task. A process below a task has "-" for both tasks, and a task that
// is just being launched has the PID -1.
func parseProc(line string) (Proc, bool) {
	columns := strings.Fields(line)
	if len(columns) < 4 {
		return Proc{}, false
	}
	pid, err := strconv.Atoi(columns[0])
	if err != nil || pid <= 0 {
		return Proc{}, false
	}
	return Proc{PID: pid, Step: columns[2], Task: columns[3] != "-"}, true
}
