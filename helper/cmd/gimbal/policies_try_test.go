package main

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gimbal-hpc/gimbal/helper/journal"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/sim"
)

// past is the view of a tenant that ended after it had computed.
func past(job uint32, start time.Time, attained time.Duration) model.View {
	t := *tenant(job, "train", 1001, 0)
	t.State, t.Tally.Attained = model.Gone, attained
	return model.View{Tenant: t, Start: start, End: start.Add(2 * attained)}
}

func TestJobsOfTheJournal(t *testing.T) {
	full := past(7, noon.Add(time.Minute), 100*time.Second)
	full.GPUs = []string{"GPU-a", "GPU-b"}
	full.Terms = model.Terms{Class: model.Guaranteed, Weight: 3, Memory: model.Known(8 * model.GiB), Declared: model.Known(8 * model.GiB), Deadline: noon.Add(time.Hour)}
	full.Tally.SM, full.Tally.Seen = 30*time.Second, 120*time.Second
	full.Peak = map[string]model.Bytes{"GPU-a": 9 * model.GiB}
	full.Reg.EndTime = noon.Add(11 * time.Minute).Unix()
	blank := past(5, noon, 50*time.Second)
	blank.Terms.Declared = model.Unknown[model.Bytes]()
	blank.Peak = map[string]model.Bytes{"GPU-aa": 2 * model.GiB, "GPU-bb": 3 * model.GiB}
	idle, live, hidden := past(8, noon, 0), past(9, noon, time.Hour), past(10, noon, time.Hour)
	live.State, hidden.Hidden = model.Running, true

	h := newPastJobs([]model.View{full, blank, idle, live, hidden}, "here")
	want := []sim.Job{
		{ID: "5", User: "user1001", Model: "train", GPUs: 1, Memory: 3072, Iterations: 50, IterTime: 1,
			Opportunistic: true, Weight: 1, Deadline: sim.Never},
		{ID: "7", User: "user1001", Model: "train", Submit: 60, GPUs: 2, Memory: 8192, Util: 0.25, Iterations: 100, IterTime: 1,
			Weight: 3, Deadline: 3600, Limit: 600},
	}
	if d := cmp.Diff(want, h.jobs); d != "" {
		t.Errorf("jobs (-want +got):\n%s", d)
	}
	if h.idle != 1 || h.left != 2 || h.gpus != 3 || h.shards != 1 {
		t.Errorf("%d idle, %d left out, %d GPUs, %d shards", h.idle, h.left, h.gpus, h.shards)
	}
}

func TestGPUsAndMates(t *testing.T) {
	on := func(gpu string, from, to int) model.View {
		at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
		return model.View{Tenant: model.Tenant{GPUs: []string{gpu}}, Start: at(from), End: at(to)}
	}
	for _, c := range []struct {
		name        string
		views       []model.View
		gpus, mates int
	}{
		{"nobody", nil, 1, 1},
		{"one after the other", []model.View{on("a", 0, 5), on("a", 5, 9)}, 1, 1},
		{"three at once, two elsewhere", []model.View{on("a", 0, 9), on("a", 1, 4), on("a", 3, 5), on("b", 0, 9), on("b", 2, 3)}, 2, 3},
	} {
		if gpus, mates := gpusAndMates(c.views); gpus != c.gpus || mates != c.mates {
			t.Errorf("%s: %d GPUs, %d mates, want %d and %d", c.name, gpus, mates, c.gpus, c.mates)
		}
	}
}

// The journal that the simulator writes under a policy that lets one tenant at a
// time compute gives back the jobs that it was given.
func TestSimulatedJournalGivesTheJobsBack(t *testing.T) {
	var csv strings.Builder
	csv.WriteString("job_id,submit_s,duration_s,gpus,gpu_util,memory_mib,priority,deadline_s\n")
	for i := range 7 {
		fmt.Fprintf(&csv, "%d,%d,%d,1,0.%d,%d,%d,%d\n", 700+i, 300*i, 1500+250*(i%5), 3+i%6, 2000+100*i, i%2, 5000+1000*i)
	}
	f := files(t, map[string]string{"trace.csv": csv.String()})
	for _, name := range []string{"timeslice", "swap"} {
		dir := filepath.Join(t.TempDir(), "journal")
		cluster := []string{"--nodes", "1", "--gpus-per-node", "2", "--gpu-memory", "16GiB"}
		args := append(cluster, "--trace", f["trace.csv"], "--policy", name, "--journal", dir)
		if code, _, errs := simulateOutput(args...); code != 0 {
			t.Fatalf("exit %d: %s", code, errs)
		}
		want := tryItself(t, name, append([]string{"--trace", f["trace.csv"]}, cluster...)...)
		for _, path := range append(glob(t, dir, "ended-*.log"), dir) {
			got := tryItself(t, name, "--journal", path, "--gpu-memory", "16GiB", "--shards", "4")
			if got.PerNode != 2 || got.Results[0].Jobs != 7 || got.Results[0].Deadlines != 7 {
				t.Errorf("%s: %d jobs, %d deadlines, %d GPUs of %s", name, got.Results[0].Jobs, got.Results[0].Deadlines, got.PerNode, path)
			}
			near(t, name+": mean JCT", got.Results[0].AvgJCT, want.Results[0].AvgJCT)
			near(t, name+": makespan", got.Results[0].Makespan, want.Results[0].Makespan)
		}
		ended := 0
		for _, path := range glob(t, dir, "journal-*.jsonl") {
			views, err := journal.EndedIn(path)
			if ended += len(views); err != nil {
				t.Error(err)
			}
		}
		if ended != 7 {
			t.Errorf("%s: %d tenants ended in the files of records, want 7", name, ended)
		}
	}
}

func glob(t *testing.T, dir, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s in %s: %d files, %v", pattern, dir, len(paths), err)
	}
	return paths
}

// tryItself tries the policy against itself.
func tryItself(t *testing.T, name string, args ...string) (out trialReport) {
	t.Helper()
	code, text, errs := try(append([]string{"policies", "try", name, "--against", name, "--json"}, args...)...)
	if code != exitOK {
		t.Fatalf("exit %d: %s", code, errs)
	}
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	if len(out.Results) != 2 || out.Results[0].AvgJCT != out.Results[1].AvgJCT {
		t.Fatalf("%s differs from itself: %+v", name, out.Results)
	}
	return out
}

// near holds a figure to another within 3 %.
func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got/want-1) > 0.03 {
		t.Errorf("%s: %.1f s, want about %.1f s", what, got, want)
	}
}

func TestChangeInWords(t *testing.T) {
	for _, c := range []struct {
		old, fresh float64
		want       string
	}{
		{100, 50, "it is 50 % shorter"},
		{100, 125, "it is 25 % longer"},
		{100, 100.1, "it stays the same"},
		{0, 5, "it stays the same"},
	} {
		if got := change("it", c.old, c.fresh); got != c.want {
			t.Errorf("from %v to %v: %q, want %q", c.old, c.fresh, got, c.want)
		}
	}
}
