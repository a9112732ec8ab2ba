package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/journal"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/tests/race"
)

// day is a node of eight GPUs of which each has three jobs that take turns,
// with what the journal of a day holds of it.
type day struct {
	j     *journal.Journal
	start time.Time
	id    uint64
	live  []*model.Tenant // three for each GPU
	jobs  uint32
	err   error
}

const (
	dayGPUs   = 8
	dayMates  = 3
	jobLength = 4 * time.Hour
)

// busyDay writes the journal of the day before noon; turns are so long.
func busyDay(dir string, quantum time.Duration) error {
	now := noon.Add(-24 * time.Hour)
	j, err := journal.Open(dir, journal.Options{Now: func() time.Time { return now }})
	if err != nil {
		return err
	}
	d := day{j: j, start: now, live: make([]*model.Tenant, dayGPUs*dayMates)}
	for turn := 0; now.Before(noon); turn++ {
		for g := range dayGPUs {
			d.turn(g, turn, now)
		}
		d.load(turn, now, quantum)
		now = now.Add(quantum)
	}
	return errors.Join(d.err, j.Close())
}

func (d *day) put(now time.Time, t *model.Tenant, ev *model.Event, do model.Primitive) {
	r := model.Record{Wall: now, At: now.Sub(d.start), Event: ev, Tenant: t}
	if do != "" {
		d.id++
		r.Action = &model.Action{ID: d.id, Do: do, Tenant: t.ID, Why: model.Reason{Text: "turn of " + string(t.ID) + " (timeslice, quantum 30s)"}}
	}
	d.err = errors.Join(d.err, d.j.Append(r))
}

// turn pauses one tenant of a GPU and lets the next go on, or begin anew.
func (d *day) turn(g, turn int, now time.Time) {
	for i := range dayMates {
		t := &d.live[g*dayMates+i]
		age := jobLength + time.Duration(g*dayMates+i)*time.Minute
		if *t != nil && now.Sub(d.start)-(*t).Registered > age {
			(*t).State, (*t).EndedAt = model.Gone, now.Sub(d.start)
			d.put(now, *t, &model.Event{Kind: model.EvEnded, Tenant: (*t).ID}, "")
			*t = nil
		}
		if *t == nil {
			*t = d.job(g, now)
		}
		switch state := (*t).State; {
		case turn%dayMates == i && state != model.Running:
			(*t).State = model.Running
			d.put(now, *t, nil, model.PrimResume)
			d.put(now, *t, &model.Event{Kind: model.EvDone, Tenant: (*t).ID, Action: d.id, Took: time.Millisecond}, "")
		case turn%dayMates != i && state == model.Running:
			d.put(now, *t, nil, model.PrimPause)
			(*t).State = model.Paused
			d.put(now.Add(10*time.Millisecond), *t, &model.Event{Kind: model.EvDone, Tenant: (*t).ID, Action: d.id, Took: time.Millisecond}, "")
		}
	}
}

func (d *day) job(g int, now time.Time) *model.Tenant {
	d.jobs++
	t := tenant(d.jobs, fmt.Sprintf("train-%d", d.jobs%7), 1000+d.jobs%5, 0)
	t.GPUs, t.Registered, t.State, t.HasRun, t.FirstRan = []string{dayUUID(g)}, now.Sub(d.start), model.Held, true, now.Sub(d.start)
	t.Steps[0].Start = t.Registered
	t.Workers = []model.Worker{{Proc: model.ProcID{PID: int(d.jobs) + 100, Start: 1}}}
	t.Use = map[string]model.Usage{dayUUID(g): {Procs: 1, Memory: model.Known(9 * model.GiB), SM: model.Known(.5)}}
	t.Peak = map[string]model.Bytes{dayUUID(g): 9 * model.GiB}
	d.put(now, t, &model.Event{Kind: model.EvRegistered, Tenant: t.ID, Reg: &t.Reg}, "")
	return t
}

func dayUUID(g int) string { return fmt.Sprintf("GPU-%08d-0000-0000-0000-000000000000", g) }

func (d *day) load(turn int, now time.Time, length time.Duration) {
	l := model.Load{From: now, Length: length}
	level := func(v float64) model.Reading[model.Level] { return model.Known(model.Level{Mean: v, Max: v * 1.1}) }
	for g := range dayGPUs {
		gpu := model.GPULoad{UUID: dayUUID(g), Index: g, Name: "Model H", Total: model.Known(80 * model.GiB), Used: level(float64(40*model.GiB) + float64(turn%9)*1e8), Util: level(.8)}
		for i := range dayMates {
			gpu.Tenants = append(gpu.Tenants, model.TenantLoad{Tenant: d.live[g*dayMates+i].ID, Memory: level(float64(9*model.GiB) + float64(turn%7)*1e8), SM: level(float64((turn+i)%3) * .3)})
		}
		l.GPUs = append(l.GPUs, gpu)
	}
	_, err := d.j.Load(l)
	d.err = errors.Join(d.err, err)
}

// reported runs gimbal report on a journal and returns the page.
func reported(tb testing.TB, dir string, args ...string) string {
	tb.Helper()
	out := filepath.Join(tb.TempDir(), "report.html")
	var stdout, stderr bytes.Buffer
	w := world{stdout: &stdout, stderr: &stderr, env: func(string) string { return "" }, now: func() time.Time { return noon }}
	if code := run(append([]string{"report", "--offline", "--state-dir", dir, "--html", out}, args...), w); code != exitOK {
		tb.Fatalf("exit %d: %s", code, &stderr)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

// busyJobs is a trace that tells how busy its jobs keep a GPU: without that there is
// no telling what packing gained.
func busyJobs(n int) string {
	head, rows, _ := strings.Cut(manyJobs(n), "\n")
	return head + ",gpu_util\n" + strings.ReplaceAll(rows, "\n", ",0.6\n")
}

// reportPage is the report of a simulated node.
func reportPage(t *testing.T) string {
	t.Helper()
	f := files(t, map[string]string{"trace.csv": busyJobs(24)})
	dir := filepath.Join(t.TempDir(), "journal")
	if code, _, errs := simulateOutput("--trace", f["trace.csv"], "--nodes", "1", "--gpus-per-node", "8", "--policy", "throughput", "--journal", dir); code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	return reported(t, dir)
}

// timelinePage is the page of gimbal timeline on the scripts' node.
func timelinePage(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := writeJournal(dir); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	w := world{stdout: &out, stderr: &errs, env: func(string) string { return "" }, now: func() time.Time { return noon }}
	if code := run([]string{"timeline", "--offline", "--state-dir", dir, "--html"}, w); code != exitOK {
		t.Fatalf("exit %d: %s", code, &errs)
	}
	return out.String()
}

func TestReportOfASimulation(t *testing.T) {
	page := reportPage(t)
	for _, want := range []string{"What the GPUs did", "which gimbal simulate wrote", "8 GPUs", "Who computed when", "GPU memory", "Utilisation", "Shares of the time",
		"What packing gained", "Not measured, but estimated", `<td data-name="name">model-&lt;0&gt;</td>`, `<td data-name="GPU">all</td>`, " times<"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if m := regexp.MustCompile(`<script|src=|url\(|@import|https?://|NaN|Inf`).FindString(page); m != "" {
		t.Errorf("the page holds %q: it is to need nothing else", m)
	}
}

// TestReportOfAnUnknownUse: where the trace does not tell how busy jobs keep a GPU,
// the report does not tell either, over a job's turns and over a day.
func TestReportOfAnUnknownUse(t *testing.T) {
	f := files(t, map[string]string{"trace.csv": simulateTrace})
	dir := filepath.Join(t.TempDir(), "journal")
	if code, _, errs := simulateOutput("--trace", f["trace.csv"], "--nodes", "1", "--gpus-per-node", "2", "--policy", "timeslice", "--journal", dir); code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	for _, args := range [][]string{nil, {"-j", "1"}} {
		code, out, errs := try(append([]string{"report", "--offline", "--state-dir", dir, "--text", "--width", "100"}, args...)...)
		if code != exitOK {
			t.Fatalf("exit %d: %s", code, errs)
		}
		if n := len(regexp.MustCompile(`(?m)^  utilisation │\?+│  not known$`).FindAllString(out, -1)); n != 2 {
			t.Errorf("%v: the utilisation of %d of 2 GPUs is not known:\n%s", args, n, out)
		}
		if n := len(regexp.MustCompile(`(?m)  not known +1GiB$`).FindAllString(out, -1)); n != 3 {
			t.Errorf("%v: the share of %d of 3 jobs is not known:\n%s", args, n, out)
		}
	}
}

// TestReportOfADay holds the report of a day of eight GPUs to its size, and to a
// generous time.
func TestReportOfADay(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: the journal of a day takes seconds to write")
	}
	dir := t.TempDir()
	if err := busyDay(dir, time.Minute); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	page := reported(t, dir)
	took := time.Since(start)
	limit := 20 * time.Second
	if race.Enabled {
		limit *= 10
	}
	if len(page) > 2<<20 || took > limit {
		t.Errorf("the page has %d bytes and took %s", len(page), took)
	}
	if !strings.Contains(page, "From 2026-02-28T11:") || !strings.Contains(page, "packed jobs on 8 GPUs") {
		t.Errorf("the page is not of a day of eight GPUs: %.2000s", page[strings.Index(page, "<h1>"):])
	}
	t.Logf("%d bytes in %s", len(page), took.Round(time.Millisecond))
}

// BenchmarkReportOfADay makes the page of a day of eight GPUs whose jobs take
// turns of 30 s, read from disk. MB tells how much was read.
func BenchmarkReportOfADay(b *testing.B) {
	dir := b.TempDir()
	if err := busyDay(dir, 30*time.Second); err != nil {
		b.Fatal(err)
	}
	size := int64(0)
	all, _ := filepath.Glob(dir + "/*")
	for _, p := range all {
		if st, err := os.Stat(p); err == nil {
			size += st.Size()
		}
	}
	page := ""
	for b.Loop() {
		page = reported(b, dir)
	}
	b.ReportMetric(float64(len(page))/1e6, "page-MB")
	b.ReportMetric(float64(size)/1e6, "journal-MB")
}
