package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/slurm"
)

// Slurm as far as notes ask it: squeue tells a job's state and nodes, accounting
// keeps the comment in a file.
type fakeSlurm struct {
	t   *testing.T
	dir string
}

func newFakeSlurm(t *testing.T) fakeSlurm {
	t.Helper()
	f := fakeSlurm{t, t.TempDir()}
	for name, body := range map[string]string{
		"squeue":   `cat "$d/job"`,
		"scontrol": `echo n0; echo n1`,
		"sacct":    `printf '7|COMPLETED|%s\n' "$(cat "$d/comment")"`,
		"sacctmgr": `for a; do case $a in AdminComment=*) printf '%s' "${a#*=}" >"$d/comment" ;; esac; done`,
	} {
		text := fmt.Sprintf("#!/bin/sh\nd=%s\necho %s >>$d/calls\n%s\n", f.dir, name, body)
		if err := os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	f.put("job", "7|COMPLETED|N/A|5:00|n[0-1]|None")
	f.put("comment", "")
	return f
}

func (f fakeSlurm) put(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

func (f fakeSlurm) get(name string) string {
	text, err := os.ReadFile(filepath.Join(f.dir, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		f.t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

func (f fakeSlurm) notes(node string) (n *notes, said fmt.Stringer) {
	f.t.Helper()
	log, out, _ := testLog(f.t)
	return &notes{client: slurm.New(slurm.Options{Bin: f.dir, Gap: time.Millisecond}), log: log, node: node,
		on: func() bool { return true }, ended: make(chan model.View, 10)}, out
}

// endedView is a tenant of job 7 that has ended.
func endedView(step uint32, nodeID uint32) *model.View {
	v := &model.View{}
	v.State, v.Policy = model.Gone, "timeslice"
	v.Reg = model.Registration{JobID: 7, StepID: step, NodeID: nodeID}
	v.Tally = model.Tally{Running: 90*time.Second + 900*time.Millisecond, Paused: 30 * time.Second, Held: time.Second, Pauses: 3}
	v.Peak = map[string]model.Bytes{"GPU-a": 2 * model.GiB, "GPU-b": model.GiB}
	return v
}

const summary = "gimbal: node=n0 policy=timeslice tenants=1 ran=90s paused=30s held=1s swapped=0s pauses=3 swaps=0 gpumem=2048MiB"

func TestNoteText(t *testing.T) {
	n := note{}
	n.add(endedView(model.StepBatch, 0))
	if got := n.text("n0"); got != strings.ToLower(summary) {
		t.Errorf("%q", got)
	}
	evicted := endedView(3, 0)
	evicted.Reason.Code = model.CodeEvicted
	n.add(evicted)
	want := "gimbal: node=n0 policy=timeslice tenants=2 ran=181s paused=60s held=2s swapped=0s pauses=6 swaps=0 gpumem=2048mib evicted=yes"
	if got := n.text("N0"); got != want {
		t.Errorf("%q", got)
	}
}

func TestNoteBesideOthers(t *testing.T) {
	for _, c := range []struct {
		there, want string
		err         error
	}{
		{"", "gimbal: node=b", nil},
		{"by the admin", "by the admin; gimbal: node=b", nil},
		{"gimbal: node=a ran=1s", "gimbal: node=b", nil},
		{"gimbal: node=a; more", "more; gimbal: node=b", nil},
		{"x; gimbal: node=a; y", "x; y; gimbal: node=b", nil},
		{"gimbal: over its memory", "gimbal: over its memory; gimbal: node=b", nil},
		{"By the admin", "", errKept},
	} {
		if got, err := beside(c.there, "gimbal: node=b"); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%q: %q, %v", c.there, got, err)
		}
	}
}

// Only the job's batch host writes, only once the job is over.
func TestWhoWritesANote(t *testing.T) {
	const over, lives = "7|COMPLETED|N/A|5:00|n[0-1]|None", "7|RUNNING|N/A|5:00|n[0-1]|None"
	for name, c := range map[string]struct {
		view      *model.View
		node, job string
		calls     string
		err       error
	}{
		"its batch script was here":   {endedView(model.StepBatch, 0), "n0", over, "squeue sacct sacctmgr", nil},
		"forgotten by slurmctld":      {endedView(model.StepBatch, 0), "n0", "", "squeue sacct sacctmgr", nil},
		"a step on the first node":    {endedView(0, 0), "n0", over, "squeue scontrol sacct sacctmgr", nil},
		"a step on the second node":   {endedView(0, 1), "n1", over, "", nil},
		"a step on another node only": {endedView(0, 0), "n1", over, "squeue scontrol", nil},
		"it lives on":                 {endedView(model.StepBatch, 0), "n0", lives, "squeue", errLives},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeSlurm(t)
			f.put("job", c.job)
			n, _ := f.notes(c.node)
			w := &note{job: 7}
			w.add(c.view)
			if err := n.write(t.Context(), w); !errors.Is(err, c.err) {
				t.Errorf("error %v", err)
			}
			if got := strings.Join(strings.Fields(f.get("calls")), " "); got != c.calls {
				t.Errorf("calls %q, want %q", got, c.calls)
			}
			if wrote := strings.Contains(c.calls, "sacctmgr"); wrote != (f.get("comment") == strings.ToLower(summary)) {
				t.Errorf("comment %q", f.get("comment"))
			}
		})
	}
}

func TestNoteKeepsWhatIsThere(t *testing.T) {
	f := newFakeSlurm(t)
	f.put("comment", "By the Admin")
	n, said := f.notes("n0")
	n.take(endedView(model.StepBatch, 0), time.Now())
	n.writeFirst(t.Context())
	if got := f.get("comment"); got != "By the Admin" || len(n.waiting) != 0 {
		t.Errorf("comment %q, %d wait", got, len(n.waiting))
	}
	if !strings.Contains(said.String(), "capital letters") {
		t.Errorf("said %s", said)
	}
}

// What a job's tenants did comes together; what cannot be written is tried
// again, ever more seldom, and given up.
func TestNotesWait(t *testing.T) {
	f := newFakeSlurm(t)
	f.put("job", "7|RUNNING|N/A|5:00|n0|None")
	n, said := f.notes("n0")
	n.take(endedView(model.StepBatch, 0), time.Now())
	n.take(endedView(3, 0), time.Now())
	if len(n.waiting) != 1 || n.waiting[0].tenants != 2 {
		t.Fatalf("%d wait", len(n.waiting))
	}
	var before time.Duration
	for i := range noteTries {
		if len(n.waiting) != 1 {
			t.Fatalf("given up after %d tries", i)
		}
		n.writeFirst(t.Context())
		if len(n.waiting) == 1 {
			wait := time.Until(n.waiting[0].due).Round(time.Second)
			if wait < before || wait > noteLast {
				t.Errorf("try %d: waits %s after %s", i, wait, before)
			}
			before = wait
		}
	}
	if len(n.waiting) != 0 || said.String() != "" {
		t.Errorf("%d wait, said %s", len(n.waiting), said)
	}
}

func TestNotesAreBounded(t *testing.T) {
	n, said := newFakeSlurm(t).notes("n0")
	v := endedView(model.StepBatch, 0)
	for id := range uint32(2 * maxNotes) {
		v.Reg.JobID = id + 1
		n.take(v, time.Now())
	}
	if len(n.waiting) != maxNotes || !strings.Contains(said.String(), "some get none") {
		t.Errorf("%d wait, said %s", len(n.waiting), said)
	}
}

// From the journal's record of the end to the comment; nothing where the admin
// did not ask for it.
func TestNotesRun(t *testing.T) {
	f := newFakeSlurm(t)
	n, _ := f.notes("n0")
	j := n.journalOf(nowhere{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); n.run(ctx) }()
	defer func() { cancel(); <-done }()
	tenant := endedView(model.StepBatch, 0).Tenant
	if err := j.Append(model.Record{Tenant: &tenant}); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); f.get("comment") == ""; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nothing is written")
		}
	}
	if diff := cmp.Diff(strings.ToLower(summary), f.get("comment")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestNotesAreOff(t *testing.T) {
	n, _ := newFakeSlurm(t).notes("n0")
	n.on = func() bool { return false }
	tenant := endedView(model.StepBatch, 0).Tenant
	if err := n.journalOf(nowhere{}).Append(model.Record{Tenant: &tenant}); err != nil || len(n.ended) != 0 {
		t.Errorf("%v, %d to be written", err, len(n.ended))
	}
}

// nowhere is a journal that keeps nothing.
type nowhere struct{}

func (nowhere) Append(model.Record) error { return nil }
