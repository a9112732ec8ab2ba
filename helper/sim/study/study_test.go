package study

import (
	"bytes"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/gimbal-hpc/gimbal/helper/sim"
	"github.com/gimbal-hpc/gimbal/helper/sim/baseline"
	"github.com/gimbal-hpc/gimbal/helper/sim/speed"
)

func jobs() []sim.Job {
	var out []sim.Job
	for i := range 60 {
		out = append(out, sim.Job{
			ID: string(rune('A'+i%26)) + string(rune('a'+i/26)), User: "ann", Model: "m",
			Submit: float64(7 * i), GPUs: 1 + i%3, Iterations: float64(20 + 37*i%101), IterTime: 1,
			Deadline: sim.Never, Util: 0.5,
		})
	}
	out[0].Deadline = 1000
	return out
}

func policies(t *testing.T, names ...string) []Policy {
	var out []Policy
	for _, n := range names {
		out = append(out, Policy{n, func() sim.Scheduler {
			s, err := baseline.New(n)
			if err != nil {
				t.Error(err)
			}
			return s
		}})
	}
	return out
}

var config = sim.Config{Nodes: 2, GPUsPerNode: 2, Interference: &speed.Model{}, Seed: 3}

// TestSameOnAnyCores compares the results on one core and on several.
func TestSameOnAnyCores(t *testing.T) {
	defer goleak.VerifyNone(t)
	all := policies(t, baseline.Names()...)
	several, err := Run(jobs(), all, config, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	one, err := Run(jobs(), all, config, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range one {
		if one[i].Policy != all[i].Name {
			t.Errorf("result %d is of %s, want %s", i, one[i].Policy, all[i].Name)
		}
		if diff := cmp.Diff(one[i].Outcome, several[i].Outcome); diff != "" {
			t.Errorf("%s differs (-one core +several):\n%s", one[i].Policy, diff)
		}
	}
}

func TestProgress(t *testing.T) {
	last := 0.0
	_, err := Run(jobs(), policies(t, "srtf", "naive"), config, func(share float64) {
		if share < last || share > 1 {
			t.Errorf("progress %v after %v", share, last)
		}
		last = share
	})
	if err != nil || last != 1 {
		t.Errorf("progress ends at %v, error %v", last, err)
	}
}

func TestErrorNamesThePolicy(t *testing.T) {
	_, err := Run(jobs(), policies(t, "srtf"), sim.Config{Nodes: 1, GPUsPerNode: 1}, nil)
	if err == nil || !strings.Contains(err.Error(), "simulating srtf: job ") {
		t.Errorf("error %v", err)
	}
}

func TestOutput(t *testing.T) {
	results, err := Run(jobs(), policies(t, "exclusive", "lucid"), config, nil)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := WriteJSON(&text, results); err != nil {
		t.Fatal(err)
	}
	var got []map[string]any
	if err := json.Unmarshal(text.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"policy", "jobs", "avg_jct_s", "median_jct_s", "p99_jct_s", "makespan_s", "max_ftf", "deadlines_met", "gpu_busy", "events", "wall_s"} {
		if _, ok := got[0][key]; !ok {
			t.Errorf("%s is missing in %v", key, got[0])
		}
	}
	if got[0]["policy"] != "exclusive" || got[0]["jobs"] != 60.0 || got[0]["deadlines_met"] != 1.0 {
		t.Errorf("first object: %v", got[0])
	}
	text.Reset()
	if err := WriteTable(&text, results); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(text.String(), "\n")
	if len(lines) != 4 || !strings.Contains(lines[1], "exclusive") || !strings.Contains(lines[1], "1 of 1") || len(lines[0]) != len(lines[2]) {
		t.Errorf("table:\n%s", text.String())
	}
	text.Reset()
	if err := WriteJobs(&text, results); err != nil {
		t.Fatal(err)
	}
	lines = strings.Split(text.String(), "\n")
	if len(lines) != 2+2*60 || lines[1] != "exclusive,Aa,ann,m,1,0.000,0.000,20.000,20.000,20.000,0,1.0000,1000.000" {
		t.Errorf("%d lines of jobs, the first %q", len(lines), lines[1])
	}
	if err := WriteJobs(full{}, results); err == nil {
		t.Error("a full disk is no error")
	}
}

// full is a disk without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestSpan(t *testing.T) {
	for seconds, want := range map[float64]string{0: "0.0s", 59.94: "59.9s", 60: "1m00s", 3599.6: "1h00m", 90061: "1d01h"} {
		if got := Span(seconds); got != want {
			t.Errorf("%v s reads %q, want %q", seconds, got, want)
		}
	}
}
