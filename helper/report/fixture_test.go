package report

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

var update = flag.Bool("update", false, "write the golden files anew")

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// golden compares with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// view makes a tenant of a job that registered age ago.
func view(job uint32, name string, s model.State, age time.Duration) model.View {
	v := model.View{Start: noon.Add(-age), Elapsed: age, SinceWall: noon.Add(-age / 2), PolicyNow: "timeslice"}
	v.ID = model.TenantID(model.Registration{JobID: job}.JobLabel() + "@1")
	v.State, v.Whole, v.GPUs = s, true, []string{"GPU-aa"}
	v.Reg = model.Registration{JobID: job, StepID: model.StepBatch, ArrayTask: model.NoVal, HetOffset: model.NoVal,
		JobName: name, User: "u1001", UID: 1001, Account: "lab", Partition: "gpu", Node: "n0"}
	v.Terms = model.Terms{Class: model.Opportunistic, Weight: 1, Memory: model.Known(12 * model.GiB)}
	v.Steps = []model.Step{{ID: model.StepBatch, Tasks: 1}, {ID: 0, Tasks: 2}}
	v.StepWall = []model.StepWall{{Start: v.Start}, {Start: v.Start.Add(time.Second)}}
	v.Peak = map[string]model.Bytes{"GPU-aa": 9*model.GiB + 512*model.MiB}
	v.Use = map[string]model.Usage{"GPU-aa": {Procs: 2, Memory: model.Known(9 * model.GiB), SM: model.Known(0.874)}}
	v.Procs, v.HasRun, v.FirstRan = 5, s != model.Held, age/4
	v.Tally = model.Tally{Running: age / 2, Paused: age / 4, Held: age / 4, Attained: age / 2, Pauses: 3, Holds: 1}
	return v
}

// fixture is a node with a tenant of every kind.
func fixture() *model.Snapshot {
	s := &model.Snapshot{Node: "n0", At: noon, Policies: map[string]string{"GPU-aa": "timeslice", "GPU-bb": "priority"}}
	s.GPUs = []model.GPU{
		{UUID: "GPU-aa", Index: 0, Name: "Model H", Total: model.Known(80 * model.GiB), Used: model.Known(19 * model.GiB), Util: model.Known(0.9)},
		{UUID: "GPU-bb", Index: 1, Name: "Model H"},
	}
	done := view(7, "train", model.Gone, time.Hour)
	done.End, done.Reason, done.Use = noon, model.Reason{Code: "ended"}, nil
	done.Terms.Declared, done.Speed = model.Known(10*model.GiB), model.Known(model.Speed{Mean: 0.623, Error: 0.0128})
	done.Terms.Placed = "GPU 0, alone; next best GPU 1 beside 5, at about 60 % of its speed alone; Slurm gave GPU 1"
	done.HasRun, done.Tally.SM, done.Tally.Seen = true, 12*time.Minute, 30*time.Minute
	for i := range done.Steps {
		done.Steps[i].Ended, done.StepWall[i].End = true, noon
	}
	failed := view(8, "crazy|name,with\\slash", model.Gone, 30*time.Hour)
	failed.End, failed.Reason, failed.HasRun = noon, model.Reason{Code: "ended"}, true
	failed.Steps[0].Status, failed.Steps[0].Ended = 137<<8, true
	failed.StepWall[0].End = noon
	array := view(20, "训练 一二三四五", model.Running, 10*time.Minute)
	array.Reg.ArrayJob, array.Reg.ArrayTask = 19, 4
	array.Reason.Text = "its turn (timeslice, quantum 30s)"
	paused := view(21, "a-name-that-is-longer-than-its-column", model.Paused, 90*time.Second)
	paused.Reg.User = "a-user-name-of-thirty-three-chars"
	paused.Reason = model.Reason{Code: "turn", Text: "turn of 19_4 (timeslice, quantum 30s)"}
	paused.Order, paused.OrderEnds = &model.Order{Do: model.PrimPause, User: "ann", Why: "a demo"}, noon.Add(time.Hour)
	own := view(22, "steps", model.Held, 59*time.Second)
	own.Whole, own.Reg.StepID = false, 3
	own.Reg.HetJob, own.Reg.HetOffset = 22, 1
	own.Steps, own.StepWall, own.Use, own.Peak = own.Steps[:1], own.StepWall[:1], nil, nil
	own.GPUs = []string{"GPU-aa", "GPU-bb"}
	slurm := view(23, "", model.Running, 2*time.Hour)
	slurm.Suspended = "slurm"
	hidden := model.View{Hidden: true}
	hidden.State, hidden.GPUs = model.Running, []string{"GPU-bb"}
	hidden.Use = map[string]model.Usage{"GPU-bb": {Memory: model.Known(12 * model.GiB)}}
	s.Tenants = []model.View{done, failed, array, paused, own, slurm, hidden}
	s.Strays = []model.Stray{{GPU: "GPU-bb", PID: 99, UID: 1002, Memory: model.Known(100 * model.GiB), Kind: "orphan"},
		{GPU: "GPU-gone", Kind: "ghost"}}
	return s
}

func utc() Style { return Style{Location: time.UTC} }

func everything() Selection { return Selection{Strays: true} }

func columns(t testing.TB, format string) []Column {
	t.Helper()
	c, err := ParseFormat(format)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
