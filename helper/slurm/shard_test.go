package slurm

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestShards reads what scontrol of 22.05 prints, shortened.
func TestShards(t *testing.T) {
	job := func(state, node, gres string) string {
		return "JobId=1 JobName=wrap JobState=" + state + " Reason=None JOB_GRES=x Nodes=" + node + " CPU_IDs=0 Mem=0 GRES=" + gres + " MinCPUsNode=1\n"
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
