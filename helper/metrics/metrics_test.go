package metrics

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// everything shows all that a page may hold.
var everything = Options{Jobs: true, Users: true, Names: true, Version: "1.2.3",
	Counters: map[string]uint64{"refused": 3, "faults": 0}}

// gpu is one whose readings are known.
func gpu(uuid string, index int) model.GPU {
	return model.GPU{UUID: uuid, Index: index, Name: "Model H", Total: model.Known(80 * model.GiB),
		Reserved: model.Known(512 * model.MiB), Used: model.Known(19 * model.GiB), Util: model.Known(0.9)}
}

// view is a job's part of a node that has run for an hour on these GPUs.
func view(id uint32, gpus ...string) model.View {
	v := model.View{Start: noon.Add(-time.Hour), Elapsed: time.Hour}
	v.ID, v.State, v.Whole, v.GPUs = model.TenantID(fmt.Sprint(id, "@1")), model.Running, true, gpus
	v.Reg = model.Registration{JobID: id, StepID: model.StepBatch, ArrayTask: model.NoVal, HetOffset: model.NoVal,
		JobName: "train", User: "u1001", UID: 1001, Account: "lab", Partition: "gpu", Proc: model.ProcID{PID: 987654}}
	v.Terms = model.Terms{Class: model.Guaranteed, Weight: 1, Memory: model.Known(12 * model.GiB)}
	v.Registered, v.BusyAt = 10*time.Minute, 65*time.Minute
	v.Use, v.Peak, v.Procs = map[string]model.Usage{}, map[string]model.Bytes{}, len(gpus)
	for _, g := range gpus {
		v.Use[g] = model.Usage{Procs: 1, Memory: model.Known(9 * model.GiB), SM: model.Known(0.25)}
		v.Peak[g] = 10 * model.GiB
	}
	v.Tally = model.Tally{Held: time.Second, Running: 30 * time.Minute, Paused: 20 * time.Minute, Attained: 29 * time.Minute, Pauses: 7}
	return v
}

// step is a step of a job that is a tenant of its own.
func step(id, number uint32, gpus ...string) model.View {
	v := view(id, gpus...)
	v.ID, v.Whole, v.Reg.StepID = model.TenantID(fmt.Sprint(id, ".", number, "@1")), false, number
	v.Terms.Memory = model.Known(8 * model.GiB)
	return v
}

func snapshot(views ...model.View) model.Snapshot {
	return model.Snapshot{Node: "n0", At: noon, GPUs: []model.GPU{gpu("GPU-aa", 0), gpu("GPU-bb", 1)},
		Foreign:  map[string]model.Reading[model.Bytes]{"GPU-aa": model.Known(model.GiB)},
		Policies: map[string]string{"GPU-aa": "timeslice"}, Tenants: views}
}

// read writes a page and reads it again.
func read(t testing.TB, s model.Snapshot, o Options) []sample {
	t.Helper()
	var page bytes.Buffer
	if err := Write(&page, Gather(s, o)); err != nil {
		t.Fatal(err)
	}
	all, err := parsePage(bytes.NewReader(page.Bytes()))
	if err != nil {
		t.Fatalf("%v\n%s", err, page.String())
	}
	return all
}

// find is the value of the series with at least these labels ("name=value").
func find(all []sample, metric string, labels ...string) (value float64, n int) {
	for _, s := range all {
		match := s.metric == metric
		for _, l := range labels {
			name, want, _ := strings.Cut(l, "=")
			got, ok := s.labels[name]
			match = match && ok && got == want
		}
		if match {
			value = s.value
			n++
		}
	}
	return value, n
}

// want is a series that a page must have once with this value; absent ones are
// said with a negative value.
type want struct {
	metric string
	labels []string
	value  float64
}

func check(t *testing.T, all []sample, wants []want) {
	t.Helper()
	for _, w := range wants {
		value, n := find(all, w.metric, w.labels...)
		switch {
		case w.value < 0 && n != 0:
			t.Errorf("%s%v is there (%v)", w.metric, w.labels, value)
		case w.value >= 0 && (n != 1 || value != w.value):
			t.Errorf("%s%v: %d series, the last %v, want one of %v", w.metric, w.labels, n, value, w.value)
		}
	}
}

const gib = float64(model.GiB)

func TestPage(t *testing.T) {
	waits := view(8, "GPU-aa")
	waits.State = model.Paused
	s := snapshot(view(7, "GPU-aa", "GPU-bb"), waits)
	s.Strays = []model.Stray{{GPU: "GPU-bb", PID: 5, Kind: "foreign"}, {GPU: "GPU-bb", PID: 6, Kind: "foreign"}, {GPU: "GPU-gone", Kind: "odd"}}
	check(t, read(t, s, everything), []want{
		{nodeInfo, []string{"node=n0", "version=1.2.3"}, 1},
		{nodeDegraded, nil, 0},
		{snapshotTime, nil, float64(noon.Unix())},
		{tenants, []string{"state=running"}, 1},
		{tenants, []string{"state=paused"}, 1},
		{tenants, []string{"state=held"}, 0},
		{tenants, []string{"state=gone"}, -1},
		{gpuInfo, []string{"gpu=GPU-aa", "index=0", "model=Model H", "policy=timeslice"}, 1},
		{gpuFault, []string{"gpu=GPU-bb"}, 0},
		{gpuTotal, []string{"gpu=GPU-aa"}, 80 * gib},
		{gpuUsed, []string{"gpu=GPU-aa"}, 19 * gib},
		{gpuReserved, []string{"gpu=GPU-aa"}, gib / 2},
		{gpuForeign, []string{"gpu=GPU-aa"}, gib},
		{gpuForeign, []string{"gpu=GPU-bb"}, -1},
		{gpuUtilization, []string{"gpu=GPU-bb"}, 0.9},
		{gpuTenants, []string{"gpu=GPU-aa", "state=running"}, 1},
		{gpuTenants, []string{"gpu=GPU-bb", "state=paused"}, 0},
		{gpuStrays, []string{"gpu=GPU-bb", "kind=foreign"}, 2},
		{gpuStrays, []string{"gpu=unknown", "kind=other"}, 1},
		{jobInfo, []string{"jobid=7", "user=u1001", "account=lab", "partition=gpu", "name=train"}, 1},
		{jobTenants, []string{"jobid=8", "state=paused"}, 1},
		{jobProcesses, []string{"jobid=7"}, 2},
		{jobIdle, []string{"jobid=7"}, 300},
		{jobStateTime, []string{"jobid=7", "state=running"}, 1800},
		{jobStateTime, []string{"jobid=7", "state=swapped"}, 0},
		{jobAttained, []string{"jobid=7"}, 29 * 60},
		{jobStops, []string{"jobid=7", "kind=pause"}, 7},
		{jobGPUUsed, []string{"jobid=7", "gpu=GPU-bb"}, 9 * gib},
		{jobGPUPeak, []string{"jobid=8", "gpu=GPU-aa"}, 10 * gib},
		{jobGPUClaim, []string{"jobid=8", "gpu=GPU-aa"}, 12 * gib},
		{jobGPUClaim, []string{"jobid=8", "gpu=GPU-bb"}, -1},
		{jobGPUSM, []string{"jobid=7", "gpu=GPU-aa"}, 0.25},
		{"gimbal_daemon_refused_total", nil, 3},
		{"gimbal_daemon_faults_total", nil, 0},
	})
}

// Unknown is not zero.
func TestUnknownHasNoSeries(t *testing.T) {
	s := snapshot(view(7, "GPU-aa"))
	s.GPUs[0] = model.GPU{UUID: "GPU-aa", Fault: "lost"}
	s.Degraded = "the driver has not answered yet"
	s.Tenants[0].Use["GPU-aa"] = model.Usage{Procs: 1}
	s.Tenants[0].Terms.Memory = model.Unknown[model.Bytes]()
	all := read(t, s, everything)
	check(t, all, []want{
		{nodeDegraded, nil, 1},
		{gpuFault, []string{"gpu=GPU-aa"}, 1},
		{jobGPUProcs, []string{"jobid=7"}, 1},
	})
	for _, metric := range []string{gpuTotal, gpuUsed, gpuReserved, gpuUtilization, jobGPUUsed, jobGPUSM, jobGPUClaim} {
		check(t, all, []want{{metric, []string{"gpu=GPU-aa"}, -1}})
	}
}

// MT-01: what 5,000 short jobs leave behind is nothing, and no label tells of
// processes, steps or commands.
func TestSeriesLeaveWithTheJob(t *testing.T) {
	before := read(t, snapshot(), everything)
	var ended []model.View
	most := 0
	for id := uint32(1); id <= 5000; id++ {
		v := view(id, "GPU-aa")
		if id%500 == 0 {
			most = max(most, len(read(t, snapshot(append(ended, v)...), everything)))
		}
		v.State = model.Gone
		ended = append(ended, v)
	}
	if after := read(t, snapshot(ended...), everything); len(after) != len(before) {
		t.Errorf("%d series before, %d after", len(before), len(after))
	}
	if most > len(before)+30 {
		t.Errorf("%d series without a job, %d with one", len(before), most)
	}
	allowed := []string{"node", "version", "state", "gpu", "index", "model", "parent", "policy", "kind", "jobid", "user", "account", "partition", "name"}
	for _, s := range read(t, snapshot(view(7, "GPU-aa"), step(7, 3, "GPU-aa")), everything) {
		for name, value := range s.labels {
			if !slices.Contains(allowed, name) || strings.Contains(value, "987654") || strings.Contains(value, "7.3") {
				t.Errorf("%s has the label %s=%q", s.metric, name, value)
			}
		}
	}
}

func TestWhatIsSwitchedOff(t *testing.T) {
	s := snapshot(view(7, "GPU-aa"))
	for _, x := range read(t, s, Options{Users: true, Names: true}) {
		if strings.HasPrefix(x.metric, "gimbal_job") || x.labels["jobid"] != "" {
			t.Errorf("without Jobs there is %s%v", x.metric, x.labels)
		}
	}
	check(t, read(t, s, Options{Jobs: true}), []want{{jobProcesses, []string{"jobid=7"}, 1}, {jobInfo, nil, -1}})
	users := read(t, s, Options{Jobs: true, Users: true})
	check(t, users, []want{{jobInfo, []string{"user=u1001"}, 1}, {jobInfo, []string{"name=train"}, -1}})
	names := read(t, s, Options{Jobs: true, Names: true})
	check(t, names, []want{{jobInfo, []string{"name=train"}, 1}, {jobInfo, []string{"user=u1001"}, -1}})
}

// A page has a size that does not grow with the jobs.
func TestJobsAreBounded(t *testing.T) {
	var views []model.View
	for id := uint32(1); id <= 1000; id++ {
		views = append(views, view(id, "GPU-aa", "GPU-bb"))
	}
	all := read(t, snapshot(views...), Options{Jobs: true, MaxJobs: 10})
	jobs := map[string]bool{}
	for _, s := range all {
		if s.labels["jobid"] != "" {
			jobs[s.labels["jobid"]] = true
		}
	}
	if len(jobs) != 11 {
		t.Errorf("%d jobs are labelled, want 10 and one for the rest", len(jobs))
	}
	check(t, all, []want{{jobProcesses, []string{"jobid=10"}, 2}, {jobProcesses, []string{"jobid=other"}, 2 * 990}})
}

// MT-03: nothing is there twice, whatever has no id of its own.
func TestNoDuplicates(t *testing.T) {
	nobody, noGPU := view(0, "GPU-aa"), view(0)
	array := view(21, "GPU-aa")
	array.Reg.ArrayJob, array.Reg.ArrayTask = 20, 4
	requeued := view(7, "GPU-aa")
	requeued.ID, requeued.Reg.JobName = "7@2", "another"
	hidden := model.View{Hidden: true}
	hidden.State, hidden.GPUs = model.Running, []string{"GPU-bb"}
	s := snapshot(view(7, "GPU-aa", "GPU-bb"), step(7, 0, "GPU-aa"), step(7, 1, "GPU-aa", "GPU-aa"), view(30, "MIG-1"), nobody, noGPU, array, requeued, hidden)
	mig := gpu("MIG-1", 2)
	mig.MIG, mig.Parent = true, "GPU-bb"
	s.GPUs = append(s.GPUs, mig, mig, model.GPU{}, model.GPU{}, gpu("GPU-aa", 5))
	all := read(t, s, everything)
	check(t, all, []want{
		{gpuInfo, []string{"gpu=MIG-1", "parent=GPU-bb"}, 1},
		{gpuInfo, []string{"gpu=GPU-aa"}, 1},
		{jobInfo, []string{"jobid=7", "name=train"}, 1},
		{jobTenants, []string{"jobid=7", "state=running"}, 4},
		{jobTenants, []string{"jobid=unknown", "state=running"}, 3},
		{jobTenants, []string{"jobid=20_4", "state=running"}, 1},
		{jobGPUUsed, []string{"jobid=7", "gpu=GPU-aa"}, 4 * 9 * gib},
		{gpuTenants, []string{"gpu=unknown", "state=running"}, 1},
		{gpuTenants, []string{"gpu=MIG-1", "state=running"}, 1},
	})
}

// The claim of a job covers its steps; a step may claim more than its job.
func TestClaimOfAJobCoversItsSteps(t *testing.T) {
	for n, claim := range map[int]float64{0: 12, 1: 12, 2: 18, 3: 27} {
		views := []model.View{view(7, "GPU-aa")}
		for i := range n {
			views = append(views, step(7, uint32(i), "GPU-aa")) // 8 GiB stated, 9 GiB used
		}
		check(t, read(t, snapshot(views...), everything), []want{{jobGPUClaim, []string{"jobid=7", "gpu=GPU-aa"}, claim * gib}})
	}
}

// MT-05: a job that only holds its allocation stays in view, and its idle time
// grows.
func TestIdleJobStaysInView(t *testing.T) {
	v := view(7, "GPU-aa")
	v.Procs, v.Use = 0, map[string]model.Usage{}
	last := -1.0
	for _, age := range []time.Duration{2 * time.Hour, 3 * time.Hour} {
		v.Elapsed = age
		all := read(t, snapshot(v), everything)
		check(t, all, []want{
			{jobProcesses, []string{"jobid=7"}, 0},
			{jobGPUProcs, []string{"jobid=7", "gpu=GPU-aa"}, 0},
			{gpuIdle, []string{"gpu=GPU-aa"}, 1},
			{gpuTenants, []string{"gpu=GPU-aa", "state=running"}, 1},
		})
		idle, _ := find(all, jobIdle, "jobid=7")
		if idle <= last || idle != (v.Registered+age-v.BusyAt).Seconds() {
			t.Errorf("after %v idle for %v s, before %v", age, idle, last)
		}
		last = idle
	}
}

// A job is idle for as long as all of it is.
func TestIdleIsThatOfTheBusiest(t *testing.T) {
	idle, busy := view(7, "GPU-aa"), step(7, 1, "GPU-aa")
	busy.BusyAt = 69 * time.Minute
	for _, s := range []model.Snapshot{snapshot(idle, busy), snapshot(busy, idle)} {
		check(t, read(t, s, everything), []want{{jobIdle, []string{"jobid=7"}, 60}})
	}
}

func TestCounterNames(t *testing.T) {
	o := Options{Counters: map[string]uint64{"a": 1, "a_total": 2, "B": 3, "": 4, "x-y": 5, "ü": 6}}
	all := read(t, snapshot(), o)
	n := 0
	for _, s := range all {
		if strings.HasPrefix(s.metric, daemonCounters) {
			n++
		}
	}
	if value, _ := find(all, "gimbal_daemon_a_total"); n != 1 || value != 1 {
		t.Errorf("%d counters, a is %v, want one of 1", n, value)
	}
}

// The page is the same for the same snapshot, so that only what changed is
// written anew.
func TestPageIsStable(t *testing.T) {
	s := snapshot(view(7, "GPU-aa", "GPU-bb"), view(8, "GPU-bb"), step(7, 1, "GPU-aa"))
	var one, two bytes.Buffer
	if err := errors.Join(Write(&one, Gather(s, everything)), Write(&two, Gather(s, everything))); err != nil {
		t.Fatal(err)
	}
	if one.String() != two.String() {
		t.Error("two pages of one snapshot differ")
	}
}

func TestNamesAreThoseOfThePage(t *testing.T) {
	s := snapshot(view(7, "GPU-aa"))
	seen := map[string]bool{}
	for _, x := range read(t, s, everything) {
		seen[x.metric] = true
	}
	for _, name := range Names() {
		if !seen[name] {
			t.Errorf("%s is in the catalogue and never on a page", name)
		}
	}
	if len(seen) != len(Names())+len(everything.Counters) {
		t.Errorf("%d metrics on the page, %d in the catalogue", len(seen), len(Names()))
	}
}

// Whatever names hold, the page can be read and holds them.
func FuzzLabels(f *testing.F) {
	f.Add("train", "GPU-aa")
	f.Add("a\"b\\c\nd\r\x00{}=,", "GPU\n\"")
	f.Add("\xff\xfe", "unknown")
	f.Fuzz(func(t *testing.T, name, uuid string) {
		s := snapshot(view(7, uuid, "GPU-aa"))
		s.GPUs = append(s.GPUs, gpu(uuid, 2))
		s.Tenants[0].Reg.JobName, s.Node = name, name
		all := read(t, s, everything)
		if _, n := find(all, jobInfo, "name="+strings.ToValidUTF8(name, "\uFFFD")); n != 1 {
			t.Errorf("%d jobs are called %q", n, name)
		}
	})
}
