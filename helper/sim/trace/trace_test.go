package trace

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gimbal-hpc/gimbal/helper/sim"
)

func read(t *testing.T, text string) *Trace {
	t.Helper()
	tr, err := Read(strings.NewReader(text), "t.csv")
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func TestReadCSV(t *testing.T) {
	tr := read(t, "\xef\xbb\xbfgpus,job_id,submit_s,duration_s,model,user,iterations,iter_ms,t_load_cpu_ms,t_gpu_ms,t_net_ms,priority,deadline_s,nodes,memory_mib,gpu_util,limit_s\r\n"+
		"8,a,5,100,\"bert, large\",ann,2000,50,10,30,5,1,300,2,1024,0.5,600\r\n"+
		"1,b,7.5,60,,,,,,,,,,,,,\r\n")
	want := []sim.Job{{
		ID: "a", User: "ann", Model: "bert, large", Submit: 5, GPUs: 8, Nodes: 2, Memory: 1024, Util: 0.5,
		Iterations: 2000, IterTime: 0.05, Stages: sim.Stages{0.01, 0.03, 0.005}, Opportunistic: true,
		Deadline: 300, Limit: 600, Line: 2, Column: 1,
	}, {
		ID: "b", Submit: 7.5, GPUs: 1, Iterations: 60, IterTime: 1, Deadline: sim.Never, Line: 3, Column: 1,
	}}
	if diff := cmp.Diff(want, tr.Jobs); diff != "" {
		t.Errorf("jobs (-want +got):\n%s", diff)
	}
	if len(tr.Notes) != 0 {
		t.Errorf("notes: %q", tr.Notes)
	}
}

func TestReadSacct(t *testing.T) {
	tr := read(t, `JobIDRaw|JobName|User|Submit|ElapsedRaw|Timelimit|NNodes|State|AllocTRES
101|train|ann|2025-10-01T12:00:10|3600|1-00:00:00|2|COMPLETED|billing=8,cpu=8,gres/gpu:a100=4,gres/gpu=4,mem=64G,node=2
101.batch|batch||2025-10-01T12:00:10|3600||1|COMPLETED|cpu=4
102|a "quoted" name|bob|2025-10-01T12:00:00|50|UNLIMITED|1|CANCELLED by 1000|gres/gpu:v100=1
103|cpu only|bob|2025-10-01T12:00:00|50|00:10:00|1|COMPLETED|cpu=4,mem=1G
104|never ran|bob|2025-10-01T12:00:00|0|10:00|1|CANCELLED|
105|still running|bob|2025-10-01T12:00:00|50|10:00|1|RUNNING|gres/gpu=1
106_7|small|bob|2025-10-01T12:00:20|50|10:00|1|FAILED|gres/shard=2,node=1
`)
	want := []sim.Job{
		{ID: "102", User: "bob", Model: `a "quoted" name`, Submit: 0, GPUs: 1, Iterations: 50, IterTime: 1, Deadline: sim.Never, Line: 4, Column: 78},
		{ID: "101", User: "ann", Model: "train", Submit: 10, GPUs: 4, Nodes: 2, Iterations: 3600, IterTime: 1, Deadline: sim.Never, Limit: 86400, Line: 2, Column: 63},
		{ID: "106_7", User: "bob", Model: "small", Submit: 20, GPUs: 1, Shards: 2, Iterations: 50, IterTime: 1, Deadline: sim.Never, Limit: 600, Line: 8, Column: 55},
	}
	if diff := cmp.Diff(want, tr.Jobs); diff != "" {
		t.Errorf("jobs (-want +got):\n%s", diff)
	}
	notes := strings.Join(tr.Notes, "\n")
	for _, want := range []string{"job steps left out, since their jobs count: 1", "never ran: 1", "had not ended: 1", "had no GPU: 1", "a whole one: 1", "order of arrival"} {
		if !strings.Contains(notes, want) {
			t.Errorf("no note with %q in:\n%s", want, notes)
		}
	}
}

func TestSacctOtherColumns(t *testing.T) {
	tr := read(t, "JobID|Submit|Elapsed|NNodes|ReqGRES\n7|1759320000|1-02:03:04|2|gpu:a100:4,license:1\n8|1759320060|05:06|1|gpu\n9|1759320061|00:05:06.5|1|gres:gpu:2(IDX:0-1)\n")
	for i, want := range []struct {
		submit, seconds float64
		gpus            int
	}{{0, 93784, 8}, {60, 306, 1}, {61, 306.5, 2}} {
		if j := tr.Jobs[i]; j.Submit != want.submit || j.Work() != want.seconds || j.GPUs != want.gpus {
			t.Errorf("job %s: submitted at %v, %v s on %d GPUs; want %v", j.ID, j.Submit, j.Work(), j.GPUs, want)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	const header = "job_id,submit_s,duration_s,gpus\n"
	for name, c := range map[string]struct{ text, want string }{
		"empty":            {"", "t.csv:1: the file is empty"},
		"only a header":    {header, "t.csv:1: no job is left to run"},
		"missing column":   {"job_id,submit_s,duration_s\n1,2,3\n", `t.csv:1: column "gpus" is missing; the header has job_id, submit_s, duration_s`},
		"another table":    {"a,b\n1,2\n", `t.csv:1: column "job_id" is missing`},
		"a pair table":     {"job_a,job_b,norm_a,norm_b\n", "--interference"},
		"a cost table":     {"num_gpu,model,overhead_s\n", "--cost"},
		"column twice":     {"job_id,submit_s,GPUs,duration_s,gpus\n", `t.csv:1:33: column "gpus" is there twice`},
		"not a number":     {header + "1,0,ten,1\n", `t.csv:2:5: duration_s: "ten" is not a number`},
		"NaN":              {header + "1,NaN,10,1\n", `t.csv:2:3: submit_s: "NaN" is not a number`},
		"infinite":         {header + "1,0,+Inf,1\n", `t.csv:2:5: duration_s: "+Inf" is not a number`},
		"negative":         {header + "1,0,10,1\n2,-5,10,1\n", "t.csv:3:3: submit_s: -5 is not between 0"},
		"absurd":           {header + "1,0,1e11,1\n", "t.csv:2:5: duration_s: 1e11 is not between 0"},
		"half a GPU":       {header + "1,0,10,0.5\n", "t.csv:2:8: gpus: 0.5 is not between 1"},
		"one and a half":   {header + "1,0,10,1.5\n", "t.csv:2:8: gpus: 1.5 is not a whole number"},
		"no GPU":           {header + "1,0,10,0\n", "t.csv:2:8: gpus: 0 is not between 1"},
		"blank":            {header + "1,,10,1\n", "t.csv:2:3: submit_s: is blank"},
		"no name":          {header + ",0,10,1\n", "t.csv:2:1: job_id: is blank"},
		"name twice":       {header + "1,0,10,1\n2,0,1,1\n1,5,10,1\n", "t.csv:4:1: job_id: job 1 is on line 2 already"},
		"too few fields":   {header + "1,0,10\n", "t.csv:2: 3 fields, but the header has 4"},
		"open quote":       {header + "\"1,0,10,1\n", "t.csv:2: "},
		"half the stages":  {"job_id,submit_s,duration_s,gpus,t_gpu_ms\n1,0,10,1,5\n", "t.csv:2:10: t_gpu_ms: 1 of 3 stage times are filled"},
		"nodes over GPUs":  {"job_id,submit_s,duration_s,gpus,nodes\n1,0,10,1,2\n", "t.csv:2:10: nodes: 2 nodes for 1 GPUs"},
		"shards of two":    {"job_id,submit_s,duration_s,gpus,shards\n1,0,10,2,3\n", "t.csv:2:10: shards: shards are of one GPU"},
		"no work at all":   {header + "1,0,,1\n", "no job is left to run"},
		"sacct no time":    {"JobID|Submit|ElapsedRaw|AllocTRES\n1|yesterday|5|gres/gpu=1\n", `t.csv:2:3: Submit: "yesterday" is no time`},
		"sacct no span":    {"JobID|Submit|Elapsed|AllocTRES\n1|2025-10-01T12:00:00|soon|gres/gpu=1\n", `t.csv:2:23: Elapsed: "soon" is no span`},
		"sacct GPUs":       {"JobID|Submit|ElapsedRaw|AllocTRES\n1|2025-10-01T12:00:00|5|cpu=1,gres/gpu=x\n", `t.csv:2:25: AllocTRES: "gres/gpu=x" is no count`},
		"sacct no GPUs":    {"JobID|Submit|ElapsedRaw\n1|2025-10-01T12:00:00|5\n", `t.csv:1: column "AllocTRES" is missing`},
		"sacct no elapsed": {"JobID|Submit|AllocTRES\n", `t.csv:1: column "ElapsedRaw" is missing`},
		"sacct bar":        {"JobID|JobName|Comment|Submit|ElapsedRaw|AllocTRES\n1|a|b|c|2025-10-01T12:00:00|5|gres/gpu=1\n", "t.csv:2: 7 fields, but the header has 6; of JobName, Comment one holds a bar"},
		"sacct cut short":  {"JobID|JobName|Submit|ElapsedRaw|AllocTRES\n1|a|b\n", "t.csv:2: 3 fields, but the header has 5"},
		"sacct without -P": {"JobID           JobName  Partition\n------------ ---------- ----------\n", "without -P"},
		"sacct --json":     {"{\n", "looks like JSON"},
		"sacct no GPU":     {"JobID|Submit|ElapsedRaw|AllocTRES\n1|2025-10-01T12:00:00|5|cpu=1\n", "no job is left to run of 1 rows; column"},
		"sacct not told":   {"JobID|Submit|ElapsedRaw|AllocTRES\n1|2025-10-01T12:00:00|5|cpu=1\n", "had no GPU in AllocTRES, where Slurm counts them if its AccountingStorageTRES"},
		"a slip":           {"job_id,submit_s,duration_s,gpu\n1,2,3,1\n", `column "gpus" is missing (is it "gpu"?)`},
	} {
		_, err := Read(strings.NewReader(c.text), "t.csv")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}

func TestNotes(t *testing.T) {
	tr := read(t, "job_id,submit_s,duration_s,gpus,priorty\n1,9,10,1,red\n2,5,,1,blue\n3,4,7,1,\n")
	if len(tr.Jobs) != 2 || tr.Jobs[0].ID != "3" || tr.Jobs[1].ID != "1" {
		t.Errorf("jobs %v, want 3 before 1", tr.Jobs)
	}
	for i, want := range []string{`column "priorty" is not known and not used (is it "priority"?)`, "1 of 3 jobs are left out", "not in order of arrival"} {
		if i >= len(tr.Notes) || !strings.Contains(tr.Notes[i], want) {
			t.Fatalf("notes %q, want %q at %d", tr.Notes, want, i)
		}
	}
}

func TestColumnsOfSacct(t *testing.T) {
	tr := read(t, "JobID|User|Account|Partition|JobName|Submit|Start|ElapsedRaw|NNodes|State|AllocTRES|\n"+
		"1|ann|vision|gpu|bert|2025-10-01T12:00:00|x|5|1|COMPLETED|gres/gpu=1|\n")
	if j := tr.Jobs[0]; j.Account != "vision" || j.Partition != "gpu" {
		t.Errorf("job %+v", j)
	}
	want := []string{`t.csv: column "Timelimit" is missing: no job has one`, `t.csv: column "Start" is not used`}
	if !slices.Equal(tr.Notes, want) {
		t.Errorf("notes %q, want %q", tr.Notes, want)
	}
	tr = read(t, "job_id,submit_s,duration_s,gpus,account,partition\n1,0,10,1,vision,gpu\n")
	if j := tr.Jobs[0]; j.Account != "vision" || j.Partition != "gpu" || len(tr.Notes) > 0 {
		t.Errorf("job %+v, notes %q", j, tr.Notes)
	}
}

// TestMonthOfASite reads what a site's accounting holds beside plain jobs: names
// with bars and commas, arrays, heterogeneous, cancelled and requeued jobs, jobs
// without GPUs, two outputs one after the other.
func TestMonthOfASite(t *testing.T) {
	const header = "JobID|User|Account|Partition|JobName|Submit|ElapsedRaw|Timelimit|NNodes|State|AllocTRES\n"
	tr := read(t, header+`7|ann|a|gpu|lr=1|wd=2|2025-10-01T12:00:00|60|UNLIMITED|1|COMPLETED|cpu=4,gres/gpu:a100=1,gres/gpu=1
7.batch||a||batch|2025-10-01T12:00:00|60||1|COMPLETED|cpu=4
8_1|ann|a|gpu|"sweep", of|two|2025-10-01T12:00:01|61|Partition_Limit|1|TIMEOUT|gres/gpu=1
8_[2-9%2]|ann|a|gpu|"sweep", of|two|2025-10-01T12:00:01|0|Partition_Limit|1|CANCELLED by 1000|
9+0|ann|a|gpu|het|2025-10-01T12:00:02|62|01:00:00|1|COMPLETED|gres/gpu=2
9+1|ann|a|gpu|het|2025-10-01T12:00:02|62|01:00:00|2|COMPLETED|gres/gpu=4
10|bob|b|gpu||2025-10-01T12:00:03|30|01:00:00|1|REQUEUED|gres/gpu=1
11|bob|b|gpu|lost|2025-10-01T12:00:04|30|01:00:00|1|NODE_FAIL|gres/gpu=1
11|bob|b|gpu|lost|2025-10-01T12:00:34|64|01:00:00|1|COMPLETED|gres/gpu=1
12|bob|b|cpu|cpus|2025-10-01T12:00:05|65|01:00:00|1|COMPLETED|cpu=4
13|bob|b|gpu|spans the months|2025-10-01T12:00:06|600|01:00:00|1|RUNNING|gres/gpu=1
`+header+`10|bob|b|gpu||2025-10-01T12:00:33|63|01:00:00|1|COMPLETED|gres/gpu=1
13|bob|b|gpu|spans the months|2025-10-01T12:00:06|666|01:00:00|1|CANCELLED by 1000|gres/gpu=1
`)
	var got []string
	for i := range tr.Jobs {
		j := &tr.Jobs[i]
		got = append(got, fmt.Sprintf("%s %s: %v s on %d from %v", j.ID, j.Model, j.Work(), j.GPUs, j.Submit))
	}
	want := []string{"7 lr=1|wd=2: 60 s on 1 from 0", `8_1 "sweep", of|two: 61 s on 1 from 1`, "9+0 het: 62 s on 2 from 2", "9+1 het: 62 s on 4 from 2",
		"13 spans the months: 666 s on 1 from 6", "10 : 63 s on 1 from 33", "11 lost: 64 s on 1 from 34"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("jobs (-want +got):\n%s", diff)
	}
	notes := strings.Join(tr.Notes, "\n")
	for _, want := range []string{"job steps left out, since their jobs count: 1", "more header lines left out: 1", "their last row counts: 3", "never ran: 1", "had no GPU: 1", "a job of its own: 2", "in JobName: 3"} {
		if !strings.Contains(notes, want) {
			t.Errorf("no note with %q in:\n%s", want, notes)
		}
	}
}

func packed(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestGzip(t *testing.T) {
	whole := packed(t, "job_id,submit_s,duration_s,gpus\n1,0,10,1\n2,3,10,1\n")
	tr, err := Read(bytes.NewReader(whole), "t.csv.gz")
	if err != nil || len(tr.Jobs) != 2 {
		t.Fatalf("%v, error %v; want two jobs", tr, err)
	}
	for cut := range whole { // wherever it is cut, it is refused
		if _, err := Read(bytes.NewReader(whole[:cut]), "t.csv.gz"); err == nil {
			t.Errorf("cut after %d of %d bytes, it is read", cut, len(whole))
		}
	}
	if _, err := Read(bytes.NewReader(whole[:len(whole)-4]), "t.csv.gz"); !strings.Contains(err.Error(), "t.csv.gz:") || !strings.Contains(err.Error(), "cut short") {
		t.Errorf("error %v, want the file, the line and that it is cut short", err)
	}
}

func TestCheckFits(t *testing.T) {
	tr := read(t, "job_id,submit_s,gpus,duration_s\na,0,8,5\nb,0,12,5\n")
	if err := tr.CheckFits(3, 4); err != nil {
		t.Error(err)
	}
	err := tr.CheckFits(1, 8)
	if want := "t.csv:3:5: job b asks for 12 GPUs: it does not fit (nodes: 1, GPUs of each: 8)"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestCheckMemory(t *testing.T) {
	tr := read(t, "job_id,submit_s,gpus,duration_s,memory_mib\na,0,8,5,\nb,0,1,5,2048\n")
	for _, gpu := range []float64{0, 2048, 4096} {
		if err := tr.CheckMemory(gpu); err != nil {
			t.Error(err)
		}
	}
	err := tr.CheckMemory(1024)
	if want := "t.csv:3: job b needs 2048 MiB on each of its GPUs, which have 1024"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// TestSharedTraces reads every published trace that is beside the repository.
func TestSharedTraces(t *testing.T) {
	const data = "../../../../shared/data"
	for name, jobs := range map[string]int{
		"trace_muri_trace1": 1494, "trace_muri_trace3": 992, "trace_muri_testbed400": 400,
		"trace_philly_7d_20171030": 3805, "trace_gavel_philly_ee9e8c": 1627,
		"trace_gavel_physical_makespan": 100, "trace_gavel_physical_las": 96,
	} {
		path := filepath.Join(data, name+".csv")
		if _, err := os.Stat(path); err != nil {
			t.Skipf("SKIPPED, NOT CHECKED: %v", err)
		}
		tr, err := ReadFile(path)
		if err != nil {
			t.Error(err)
			continue
		}
		if len(tr.Jobs) != jobs {
			t.Errorf("%s: %d jobs, want %d; notes %q", name, len(tr.Jobs), jobs, tr.Notes)
		}
		for i := range tr.Jobs {
			if j := &tr.Jobs[i]; !(j.Work() >= 0) || math.IsInf(j.Work(), 0) {
				t.Errorf("%s: job %s takes %v s", name, j.ID, j.Work())
			}
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, s := range []string{
		"job_id,submit_s,duration_s,gpus\n1,0,10,1\n",
		"job_id,submit_s,duration_s,gpus,model,iterations,iter_ms,t_load_cpu_ms,t_gpu_ms,t_net_ms,priority\na,0,,4,\"x\ny\",10,5,1,2,3,1\nb,1,5,1,,,,,,,\n",
		"JobID|User|Submit|ElapsedRaw|Timelimit|NNodes|State|AllocTRES\n1|u|2025-10-01T12:00:00|5|1-00:00:00|1|COMPLETED|gres/gpu:a=2,gres/gpu=2\n1.0|u|2025-10-01T12:00:00|5||1|COMPLETED|\n",
		"JobIDRaw|Submit|Elapsed|NNodes|ReqGRES\n1|1759320000|01:02|2|gpu:3,shard:2(IDX:1)\n",
		"JobID|JobName|Submit|ElapsedRaw|AllocTRES|\n1|a|b|1759320000|5|gres/gpu=1|\n1|a|1759320009|5|gres/gpu=1|\n",
		"\xef\xbb\xbfjob_id,submit_s,duration_s,gpus,total_steps\r\n1,0,10,1,3\r\n",
		"\x1f\x8b",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		tr, err := Read(bytes.NewReader(text), "t.csv")
		if err != nil {
			if !strings.HasPrefix(err.Error(), "t.csv:") {
				t.Fatalf("error without file and line: %v", err)
			}
			return
		}
		last, seen := 0.0, make(map[string]bool)
		for i := range tr.Jobs {
			j := &tr.Jobs[i]
			sound := j.Submit >= last && j.Submit <= maxSeconds && j.GPUs >= 1 && j.GPUs <= maxGPUs && j.ID != "" && !seen[j.ID] &&
				j.Iterations >= 0 && j.IterTime >= 0 && !math.IsInf(j.Work(), 0) && j.Line > 1
			if !sound {
				t.Fatalf("job %d of %q is %+v", i, text, *j)
			}
			last, seen[j.ID] = j.Submit, true
		}
	})
}
