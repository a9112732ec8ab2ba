package slurm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// shown is a job as scontrol and squeue tell of it.
type shown struct {
	on, gres      string // its node, "" for one that waits
	name, comment string
}

func (j shown) record(id int) string {
	return fmt.Sprintf("JobId=%d JobName=%s\n   JobState=x Reason=None\n   JOB_GRES=x\n     Nodes=%s CPU_IDs=0 Mem=0 GRES=%s\n"+
		"   MinCPUsNode=1\n   Comment=%s\n   TresPerNode=x\n   \n\n", id, j.name, j.on, j.gres, j.comment)
}

// fakeSlurm is a folder with an scontrol and a squeue that tell of a node n0 and
// its jobs.
func fakeSlurm(t *testing.T, node string, jobs []shown) string {
	t.Helper()
	var ids, records strings.Builder
	for i, j := range jobs {
		records.WriteString(j.record(i + 1))
		if j.on == "n0" || j.on == "n[0-1]" {
			fmt.Fprintln(&ids, i+1)
		}
	}
	bin := t.TempDir()
	for file, text := range map[string]string{"node": node, "jobs": records.String(), "ids": ids.String(),
		"squeue":   "#!/bin/sh\nexec cat \"$(dirname \"$0\")/ids\"\n",
		"scontrol": "#!/bin/sh\ncase \"$*\" in *job*) exec cat \"$(dirname \"$0\")/jobs\" ;; *) exec cat \"$(dirname \"$0\")/node\" ;; esac\n"} {
		if err := os.WriteFile(filepath.Join(bin, file), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return bin
}

// TestShards reads what scontrol of 22.05 prints, shortened.
func TestShards(t *testing.T) {
	const node = "NodeName=n0 Arch=x86_64 Gres=gpu:h:4,shard:16 GresDrain=N/A GresUsed=gpu:0,shard:(null):2(IDX:0-1)\n"
	const poses = "     Nodes=n0 CPU_IDs=0 Mem=0 GRES=shard:4(IDX:3)"
	on := func(gres ...string) (jobs []shown) {
		for _, g := range gres {
			jobs = append(jobs, shown{on: "n0", gres: g})
		}
		return jobs
	}
	used := func(used map[int]int, whole ...int) Shards {
		s := Shards{Each: 4, Used: used, Whole: map[int]bool{}}
		for _, gpu := range whole {
			s.Whole[gpu] = true
		}
		return s
	}
	named := func(name string) []shown { return []shown{{on: "n0", gres: "shard:1(IDX:0)", name: name}} }
	for name, tt := range map[string]struct {
		node  string
		jobs  []shown
		want  Shards
		fails bool
	}{
		"nobody":          {node, nil, used(map[int]int{}), false},
		"some":            {node, on("shard:3(IDX:1)", "shard:h:1(IDX:1)", "gpu:h:2(IDX:2-3)", ""), used(map[int]int{1: 4}, 2, 3), false},
		"some elsewhere":  {node, []shown{{on: "n1", gres: "shard:4(IDX:0)"}, {gres: "shard:4(IDX:0)"}, {on: "n0", gres: "shard:2(IDX:1)"}}, used(map[int]int{1: 2}), false},
		"apart":           {node, on("gpu:h:3(IDX:0-1,3),shard:2(IDX:2)"), used(map[int]int{2: 2}, 0, 1, 3), false},
		"of each GPU":     {node, on("shard:h:3(1/4,0/4,2/4,0/4)"), used(map[int]int{0: 1, 2: 2}), false},
		"of other kinds":  {node, on("nic:1(IDX:0),shard:2(IDX:2)"), used(map[int]int{2: 2}), false},
		"not understood":  {node, on("shard:2"), Shards{}, true},
		"no numbers":      {node, on("gpu:2(IDX:N/A)"), Shards{}, true},
		"of two GPUs":     {node, on("shard:6(IDX:0-1)"), Shards{}, true},
		"on two nodes":    {node, []shown{{on: "n[0-1]", gres: "shard:1(IDX:0)"}}, Shards{}, true},
		"no shards":       {"NodeName=n0 Gres=gpu:4 \n", nil, Shards{}, true},
		"an odd number":   {"NodeName=n0 Gres=gpu:4,shard:7 \n", nil, Shards{}, true},
		"no gres":         {"NodeName=n0 Gres=(null) \n", nil, Shards{}, true},
		"no such program": {"", nil, Shards{}, true},

		"a name that poses":         {node, named("x JobState=RUNNING" + poses), used(map[int]int{0: 1}), false},
		"a name that poses as more": {node, named("x\n" + poses), Shards{}, true},
		"a name that poses as all":  {node, named("x\n   JOB_GRES=x\n" + poses), Shards{}, true},
		"a name as a stranger's":    {node, named("x\n   JOB_GRES=x\n\nJobId=7 JobName=y\n   JOB_GRES=x\n" + poses + "\n\nJobId=1 JobName=x"), Shards{}, true},
		"a comment of two lines":    {node, []shown{{on: "n0", gres: "shard:1(IDX:0)", comment: "a\nb" + poses}}, used(map[int]int{0: 1}), false},
		"a comment as another's":    {node, []shown{{on: "n0", gres: "shard:1(IDX:0)"}, {comment: "x\n\nJobId=1 JobName=y\n   JOB_GRES=x\n" + poses + "\n"}}, Shards{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			bin := fakeSlurm(t, tt.node, tt.jobs)
			if name == "no such program" {
				bin = t.TempDir()
			}
			got, err := New(Options{Bin: bin}).Shards(t.Context(), "n0")
			if (err != nil) != tt.fails || tt.fails && name != "no such program" && !errors.Is(err, errShards) {
				t.Fatalf("error %v", err)
			}
			if d := cmp.Diff(tt.want, got); err == nil && d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}
