package slurm

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestShards reads what scontrol of 22.05 prints, shortened, of jobs whose names
// and comments look like it.
func TestShards(t *testing.T) {
	job := func(state, node, gres string) string {
		return "JobId=1 JobName=wrap JobState=RUNNING Nodes=n0 CPU_IDs=0 Mem=0 GRES=shard:4(IDX:3)\n" +
			"   JobState=" + state + " Reason=None Dependency=(null)\n   JOB_GRES=x\n" +
			"     Nodes=" + node + " CPU_IDs=0 Mem=0 GRES=" + gres + "\n   MinCPUsNode=1\n" +
			"   Comment=x Nodes=n0 CPU_IDs=0 Mem=0 GRES=shard:4(IDX:3)\n\n"
	}
	const node = "NodeName=n0 Arch=x86_64 Gres=gpu:h:4,shard:16 GresDrain=N/A GresUsed=gpu:0,shard:(null):2(IDX:0-1)\n"
	for name, tt := range map[string]struct {
		node, jobs string
		want       Shards
		fails      bool
	}{
		"nobody": {node, "", Shards{Each: 4, Used: map[int]int{}, Whole: map[int]bool{}}, false},
		"some": {node, job("RUNNING", "n0", "shard:3(IDX:1)") + job("RUNNING", "n0", "shard:h:1(IDX:1)") + job("SUSPENDED", "n0", "gpu:h:2(IDX:2-3)") +
			job("PENDING", "n0", "shard:4(IDX:0)") + job("RUNNING", "n1", "shard:4(IDX:0)") + job("RUNNING", "n0", ""),
			Shards{Each: 4, Used: map[int]int{1: 4}, Whole: map[int]bool{2: true, 3: true}}, false},
		"apart":           {node, job("RUNNING", "n0", "gpu:h:3(IDX:0-1,3),shard:2(IDX:2)"), Shards{Each: 4, Used: map[int]int{2: 2}, Whole: map[int]bool{0: true, 1: true, 3: true}}, false},
		"of each GPU":     {node, job("RUNNING", "n0", "shard:h:3(1/4,0/4,2/4,0/4)"), Shards{Each: 4, Used: map[int]int{0: 1, 2: 2}, Whole: map[int]bool{}}, false},
		"of other kinds":  {node, job("RUNNING", "n0", "nic:1(IDX:0),shard:2(IDX:2)"), Shards{Each: 4, Used: map[int]int{2: 2}, Whole: map[int]bool{}}, false},
		"not understood":  {node, job("RUNNING", "n0", "shard:2"), Shards{}, true},
		"no numbers":      {node, job("RUNNING", "n0", "gpu:2(IDX:N/A)"), Shards{}, true},
		"of two GPUs":     {node, job("RUNNING", "n0", "shard:6(IDX:0-1)"), Shards{}, true},
		"on two nodes":    {node, job("RUNNING", "n[0-1]", "shard:1(IDX:0)"), Shards{}, true},
		"no shards":       {"NodeName=n0 Gres=gpu:4 \n", "", Shards{}, true},
		"an odd number":   {"NodeName=n0 Gres=gpu:4,shard:7 \n", "", Shards{}, true},
		"no gres":         {"NodeName=n0 Gres=(null) \n", "", Shards{}, true},
		"no such program": {"", "", Shards{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			bin := t.TempDir()
			for file, text := range map[string]string{"node": tt.node, "jobs": tt.jobs,
				"scontrol": "#!/bin/sh\ncase \"$*\" in *job*) exec cat \"$(dirname \"$0\")/jobs\" ;; *) exec cat \"$(dirname \"$0\")/node\" ;; esac\n"} {
				if err := os.WriteFile(filepath.Join(bin, file), []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
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
