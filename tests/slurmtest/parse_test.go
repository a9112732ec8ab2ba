package slurmtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseJob(t *testing.T) {
	tests := []struct {
		name, line string
		want       Job
	}{
		{"running", "JobId=7 JobName=wrap JobState=RUNNING Reason=None ExitCode=0:0 StdOut=/x/out",
			Job{ID: 7, State: "RUNNING", Reason: "None", StdOut: "/x/out"}},
		{"failed after a requeue", "JobId=8 JobState=FAILED Restarts=2 ExitCode=3:0",
			Job{ID: 8, State: "FAILED", Restarts: 2, ExitCode: 3}},
		{"ended by a signal", "JobId=9 JobState=CANCELLED ExitCode=0:15",
			Job{ID: 9, State: "CANCELLED", Signal: 15}},
		{"spaces in a value", "JobId=10 JobName=two words StdOut=/x/a b",
			Job{ID: 10, StdOut: "/x/a b"}},
		{"an array's task", "JobId=12 ArrayJobId=11 ArrayTaskId=1 JobState=PENDING",
			Job{ID: 12, State: "PENDING"}},
		{"a name that poses as a field", "JobId=13 JobName=x JobId=99 JobState=RUNNING",
			Job{ID: 13, State: "RUNNING"}},
		{"nothing", "", Job{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := parseJob(test.line)
			got.Fields = nil
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("parseJob(%q), -want +got:\n%s", test.line, diff)
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
