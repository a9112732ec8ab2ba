package slurmtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseJob(t *testing.T) {
	tests := []struct {
		name, text string
		want       Job
	}{
		{"running", "JobId=7 JobName=wrap\n   JobState=RUNNING Reason=None Dependency=(null)\n   Requeue=1 Restarts=0 ExitCode=0:0\n   StdOut=/x/out\n",
			Job{ID: 7, State: "RUNNING", Reason: "None", StdOut: "/x/out"}},
		{"failed after a requeue", "JobId=8 JobName=x\n   JobState=FAILED\n   Requeue=1 Restarts=2 ExitCode=3:0",
			Job{ID: 8, State: "FAILED", Restarts: 2, ExitCode: 3}},
		{"ended by a signal", "JobId=9 JobName=x\n   JobState=CANCELLED\n   Requeue=1 ExitCode=0:15",
			Job{ID: 9, State: "CANCELLED", Signal: 15}},
		{"spaces in values", "JobId=10 JobName=two words\n   StdOut=/x/a b",
			Job{ID: 10, StdOut: "/x/a b"}},
		{"an array's task", "JobId=12 ArrayJobId=11 ArrayTaskId=1 JobName=x\n   JobState=PENDING",
			Job{ID: 12, State: "PENDING"}},
		{"a name that poses as fields", "JobId=13 JobName=x JobId=99 JobState=COMPLETED ExitCode=1:0\n   JobState=RUNNING",
			Job{ID: 13, State: "RUNNING"}},
		{"paths that pose as fields", "JobId=14 JobName=x\n   SubmitLine=sbatch StdOut=/y\n   WorkDir=/x Restarts=7\n   StdOut=/x ExitCode=1:0\n   Requeue=1 Restarts=2",
			Job{ID: 14, StdOut: "/x ExitCode=1:0", Restarts: 2}},
		{"nothing", "", Job{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := parseJob(test.text)
			got.Fields = nil
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("parseJob(%q), -want +got:\n%s", test.text, diff)
			}
		})
	}
}

func FuzzParseJob(f *testing.F) {
	f.Add("JobId=1 JobName=a b JobState=RUNNING ExitCode=1:9")
	f.Add("==  = JobId=")
	f.Fuzz(func(t *testing.T, line string) {
		for name, value := range parseJob(line).Fields {
			if !strings.Contains(line, name+"="+value) {
				t.Errorf("%s=%s is not in %q", name, value, line)
			}
		}
	})
}

func TestParseProc(t *testing.T) {
	tests := []struct {
		line string
		want Proc
		ok   bool
	}{
		{"PID      JOBID    STEPID   LOCALID GLOBALID", Proc{}, false},
		{"4190     1        batch    0       0       ", Proc{PID: 4190, Step: "batch", Task: true}, true},
		{"4195     1        batch    -       -       ", Proc{PID: 4195, Step: "batch"}, true},
		{"-1       1        0        0       1       ", Proc{}, false},
		{"", Proc{}, false},
	}
	for _, test := range tests {
		got, ok := parseProc(test.line)
		if got != test.want || ok != test.ok {
			t.Errorf("parseProc(%q) = %+v, %v, want %+v, %v", test.line, got, ok, test.want, test.ok)
		}
	}
}

func FuzzParseProc(f *testing.F) {
	f.Add("4190 1 batch 0 0")
	f.Fuzz(func(t *testing.T, line string) {
		proc, ok := parseProc(line)
		if ok && (proc.PID <= 0 || proc.Step == "") {
			t.Errorf("parseProc(%q) = %+v", line, proc)
		}
	})
}

func TestOptionsArgs(t *testing.T) {
	tests := []struct {
		name string
		opts Options
		want string
	}{
		{"zero value leaves slurm-node's defaults", Options{}, ""},
		{"no GPUs", Options{GPUs: -1}, "--gpus 0"},
		{"lists", Options{Env: []string{"A=1", "B=2"}, ConfExtra: []string{"X=y"}}, "--env A=1 --env B=2 --conf-extra X=y"},
		{"devices", Options{Proctrack: "cgroup", ConstrainDevices: true}, "--proctrack cgroup --constrain-devices"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := test.opts.args(); !slices.Equal(got, strings.Fields(test.want)) {
				t.Errorf("args() = %q, want %q", got, test.want)
			}
		})
	}
}
