package journal

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func testOptions() Options {
	return Options{Boot: "boot-a", Now: func() time.Time { return epoch }}
}

func mustOpen(t testing.TB, dir string, o Options) *Journal {
	t.Helper()
	j, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

// tenant makes one of job n in a state.
func tenant(n int, s model.State) *model.Tenant {
	return &model.Tenant{
		ID: model.TenantID(fmt.Sprintf("%d@1", n)), State: s, Whole: true, GPUs: []string{"GPU-0"},
		Reg: model.Registration{JobID: uint32(n), StepID: model.StepBatch, ArrayTask: model.NoVal, HetOffset: model.NoVal,
			UID: 1000, User: "u1", JobName: "train"},
		Registered: time.Duration(n) * time.Second,
	}
}

// at makes a record of a tenant at second sec.
func at(sec int, t *model.Tenant, a *model.Action, ev *model.Event) model.Record {
	return model.Record{Wall: epoch.Add(time.Duration(sec) * time.Second), At: time.Duration(sec) * time.Second,
		Tenant: t, Action: a, Event: ev}
}

func appendAll(t testing.TB, j *Journal, recs ...model.Record) {
	t.Helper()
	for _, r := range recs {
		if err := j.Append(r); err != nil {
			t.Fatal(err)
		}
	}
}

func pause(n int, id uint64) *model.Action {
	return &model.Action{ID: id, Do: model.PrimPause, Tenant: model.TenantID(fmt.Sprintf("%d@1", n))}
}

// stopped lists what a replay calls stopped.
func stopped(r Replayed) map[string]bool {
	m := map[string]bool{}
	for _, l := range r.Live {
		m[string(l.Tenant.ID)] = l.Stopped
	}
	return m
}

func TestReplayTellsWhatMayBeStopped(t *testing.T) {
	evicting := tenant(7, model.Evicting)
	tests := []struct {
		name string
		recs []model.Record
		want map[string]bool
	}{
		{"new", []model.Record{at(1, tenant(1, model.New), nil, nil)}, map[string]bool{"1@1": false}},
		{"running", []model.Record{at(1, tenant(1, model.Running), nil, nil)}, map[string]bool{"1@1": false}},
		{"intent alone", []model.Record{at(1, tenant(1, model.Running), nil, nil), at(2, nil, pause(1, 4), nil)}, map[string]bool{"1@1": true}},
		{"intent with its tenant", []model.Record{at(2, tenant(1, model.Pausing), pause(1, 4), nil)}, map[string]bool{"1@1": true}},
		{"paused", []model.Record{at(2, tenant(1, model.Paused), nil, nil)}, map[string]bool{"1@1": true}},
		{"resume intended", []model.Record{at(2, tenant(1, model.Resuming), nil, nil)}, map[string]bool{"1@1": true}},
		{"resumed", []model.Record{at(2, tenant(1, model.Paused), nil, nil), at(3, tenant(1, model.Running), nil, nil)}, map[string]bool{"1@1": false}},
		{"evicted while paused", []model.Record{at(2, tenant(7, model.Paused), nil, nil), at(3, evicting, nil, nil)}, map[string]bool{"7@1": true}},
		{"evicted while running", []model.Record{at(2, tenant(7, model.Running), nil, nil), at(3, evicting, nil, nil)}, map[string]bool{"7@1": false}},
		{"gone", []model.Record{at(2, tenant(1, model.Paused), nil, nil), at(3, tenant(1, model.Gone), nil, nil)}, map[string]bool{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			j := mustOpen(t, dir, testOptions())
			appendAll(t, j, tt.recs...)
			for _, how := range []string{"from records", "from a checkpoint"} {
				r, err := Replay(dir, "boot-a")
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, stopped(r)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", how, diff)
				}
				if err := j.rotate(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestReplayAfterReboot(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir, testOptions())
	appendAll(t, j, at(2, tenant(1, model.Paused), nil, nil))
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := Replay(dir, "boot-b")
	if err != nil {
		t.Fatal(err)
	}
	if r.SameBoot || len(r.Live) != 0 {
		t.Errorf("after a reboot %d tenants are live", len(r.Live))
	}
	o := testOptions()
	o.Boot = "boot-b"
	j = mustOpen(t, dir, o)
	past, err := Ended(dir, model.StatusQuery{})
	if err != nil || len(past) != 1 || past[0].Word() != "ENDED" {
		t.Errorf("history after a reboot: %v, %v; want one tenant ENDED", past, err)
	}
	if got := j.Seq(); got != 1 {
		t.Errorf("numbers go on at %d, want 1", got)
	}
}

func TestReplayIsExact(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir, testOptions())
	want := tenant(3, model.Running)
	want.Peak = map[string]model.Bytes{"GPU-0": 5 << 30}
	want.Use = map[string]model.Usage{"GPU-0": {Procs: 2, Memory: model.Known(model.Bytes(7))}}
	want.Workers = []model.Worker{{Proc: model.ProcID{PID: 42, Start: 99}, Stepd: model.ProcID{PID: 41, Start: 98}, Step: 0, PTY: true}}
	order := model.Order{Do: model.PrimPause, UID: 5, Why: "maintenance", Until: time.Hour}
	appendAll(t, j, at(1, want, nil, nil),
		at(2, nil, &model.Action{ID: 17, Do: model.PrimWarn, Tenant: want.ID}, nil),
		at(3, nil, nil, &model.Event{Kind: model.EvOrder, Tenant: want.ID, Order: &order}))
	r, err := Replay(dir, "boot-a")
	if err != nil {
		t.Fatal(err)
	}
	got := Replayed{Boot: "boot-a", SameBoot: true, Seq: 3, Action: 17, Last: epoch.Add(3 * time.Second),
		Live:   []Live{{Tenant: want, Wall: epoch.Add(time.Second), At: time.Second}},
		Orders: map[model.TenantID]model.Order{want.ID: order}}
	if diff := cmp.Diff(got, r, readings); diff != "" {
		t.Errorf("replay (-want +got):\n%s", diff)
	}
}

// A daemon that dies anywhere in a write must find all records before it, and
// none of it.
func TestTornAtEveryByte(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir, testOptions())
	appendAll(t, j, at(1, tenant(1, model.Running), nil, nil))
	whole := j.tail.size
	appendAll(t, j, at(2, tenant(1, model.Pausing), pause(1, 1), nil))
	path := j.tail.f.Name()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	for n := int(whole); n <= len(b); n++ {
		if err := os.WriteFile(path, b[:n], 0o640); err != nil {
			t.Fatal(err)
		}
		want := n == len(b)
		r, err := Replay(dir, "boot-a")
		if err != nil || len(r.Live) != 1 || r.Live[0].Stopped != want {
			t.Fatalf("cut at %d of %d: %+v, %v", n, len(b), r, err)
		}
		if n > int(whole)+3 && n < len(b)-3 && n%17 != 0 {
			continue // healing is tried at some of them
		}
		j, err := Open(dir, testOptions())
		if err != nil {
			t.Fatalf("cut at %d: %v", n, err)
		}
		appendAll(t, j, at(3, tenant(2, model.Running), nil, nil))
		_ = j.Close()
		if r, err = Replay(dir, "boot-a"); err != nil || len(r.Live) != 2 || r.Skipped != 0 {
			t.Fatalf("cut at %d, healed: %+v, %v", n, r, err)
		}
	}
}

func TestTornCheckpointFallsBack(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir, testOptions())
	appendAll(t, j, at(1, tenant(1, model.Paused), nil, nil))
	_ = j.Close()
	bad := j.records.name(j.book.seq + 1)
	for _, content := range []string{"", "{", `{"journal":1,"boot":"boot-a"`, "junk\nmore\n"} {
		if err := os.WriteFile(bad, []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
		r, err := Replay(dir, "boot-a")
		if err != nil || !stopped(r)["1@1"] {
			t.Errorf("newest file is %q: %+v, %v", content, r, err)
		}
	}
}

func TestDamagedLinesAreSkipped(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir, testOptions())
	appendAll(t, j, at(1, tenant(1, model.Paused), nil, nil))
	if err := j.tail.write([]byte("\x00\x00{]\n{}\n")); err != nil {
		t.Fatal(err)
	}
	appendAll(t, j, at(2, tenant(2, model.Running), nil, nil))
	r, err := Replay(dir, "boot-a")
	if err != nil || len(r.Live) != 2 || r.Skipped != 2 {
		t.Errorf("%d live, %d skipped, %v; want 2, 2", len(r.Live), r.Skipped, err)
	}
}

func TestRotationKeepsTheState(t *testing.T) {
	dir := t.TempDir()
	o := testOptions()
	o.SegmentBytes, o.KeepBytes = 20_000, 60_000
	j := mustOpen(t, dir, o)
	appendAll(t, j, at(0, tenant(999, model.Paused), nil, nil)) // never mentioned again
	for i := range 400 {
		appendAll(t, j, at(i, tenant(1, model.Paused), nil, nil), at(i, tenant(1, model.Running), nil, nil))
	}
	r, err := Replay(dir, "boot-a")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]bool{"999@1": true, "1@1": false}, stopped(r)); diff != "" {
		t.Errorf("after rotation (-want +got):\n%s", diff)
	}
	if r.Seq != 801 {
		t.Errorf("newest record is %d, want 801", r.Seq)
	}
	total := int64(0)
	paths, _ := j.records.list()
	for _, p := range paths {
		st, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		total += st.Size()
	}
	if len(paths) < 2 || total > o.KeepBytes+o.SegmentBytes {
		t.Errorf("%d files with %d bytes are kept", len(paths), total)
	}
}

func TestRetentionByAge(t *testing.T) {
	dir := t.TempDir()
	o := testOptions()
	now := time.Now()
	o.Now = func() time.Time { return now }
	j := mustOpen(t, dir, o)
	old := j.tail.f.Name()
	appendAll(t, j, model.Record{Tenant: tenant(1, model.Running)})
	if err := os.Chtimes(old, now, now.Add(-40*24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	now = now.Add(25 * time.Hour) // the file is due by age
	appendAll(t, j, model.Record{Tenant: tenant(1, model.Running)})
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file of 40 days ago is still there: %v", err)
	}
	if paths, _ := j.records.list(); len(paths) != 1 {
		t.Errorf("files: %v", paths)
	}
}

func TestOneWriter(t *testing.T) {
	dir := t.TempDir()
	mustOpen(t, dir, testOptions())
	if _, err := Open(dir, testOptions()); !errors.Is(err, ErrLocked) {
		t.Errorf("a second writer got %v, want ErrLocked", err)
	}
}
