package main

import (
	"fmt"
	"strings"
	"testing"
)

// TestSizes: sizes for which no memory would suffice are refused at once, by each
// command that takes them, with the limit; the limit itself is not.
func TestSizes(t *testing.T) {
	f := files(t, map[string]string{"trace.csv": simulateTrace})
	trace := []string{"--trace", f["trace.csv"]}
	for _, c := range []struct{ sizes, want string }{
		{"--nodes 1000000000 --gpus-per-node 1000000000", "--nodes: 1000000000 is too many: at most 100000 can be simulated"},
		{"--nodes 9223372036854775807 --gpus-per-node 2", "--nodes: 9223372036854775807 is too many"},
		{"--nodes 100001 --gpus-per-node 1", "--nodes: 100001 is too many"},
		{"--nodes 1 --gpus-per-node 1001", "--gpus-per-node: 1001 is too many: at most 1000"},
		{"--nodes 1 --gpus-per-node 2 --shards 1001", "--shards: 1001 is too many: at most 1000"},
		{"--nodes 100000 --gpus-per-node 11", "make 1100000 GPUs: at most 1000000"},
		{"--nodes 100000 --gpus-per-node 10 --shards 11", "--shards: 1000000 GPUs have 11000000 of them: at most 10000000"},
	} {
		for _, of := range []string{"simulate --policy naive", "policies try swap --against timeslice"} {
			args := append(append(strings.Fields(of), trace...), strings.Fields(c.sizes)...)
			if code, out, errs := try(args...); code != exitUsage || out != "" || !strings.Contains(errs, c.want) {
				t.Errorf("%s %s: exit %d, stdout %q, stderr %q; want %q", of, c.sizes, code, out, errs, c.want)
			}
		}
	}
	for _, of := range []string{"timeline", "report"} {
		want := fmt.Sprintf("at most %d can be drawn", mostWidth)
		if code, out, errs := try(of, "--width", "1000000000"); code != exitUsage || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", of, code, out, errs)
		}
	}
	if err := checkSize(mostNodes, mostGPUs/mostNodes, mostSeats/mostGPUs); err != nil {
		t.Error(err)
	}
}
