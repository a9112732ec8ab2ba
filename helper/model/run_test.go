package model

import "testing"

// TestRunNumbers: a command's job id lies where none of Slurm's does, in any
// cluster of a federation, and is written and read as r1 and so on.
func TestRunNumbers(t *testing.T) {
	const maxJobID = 0x03ff0000 // slurm.conf's MaxJobId at most
	for _, n := range []uint32{1, 2, 4711, MaxRun} {
		job := RunJob(n)
		if local := job & 0x03ffffff; local <= maxJobID || job>>26 != 0 {
			t.Errorf("r%d is %#x, which may be a job of Slurm's", n, job)
		}
		reg := Registration{JobID: job, ArrayTask: NoVal, HetOffset: NoVal}
		back, ok, err := ParseRun(reg.JobLabel())
		if !reg.Run() || RunNumber(job) != n || back != job || !ok || err != nil {
			t.Errorf("%d: %s, %d, %t, %v", n, reg.JobLabel(), back, ok, err)
		}
	}
	for _, job := range []uint32{0, 1, 12, maxJobID, RunJob(MaxRun) + 1, NoVal} {
		if reg := (Registration{JobID: job}); reg.Run() {
			t.Errorf("job %d counts as a command", job)
		}
	}
	for text, isRun := range map[string]bool{"r0": true, "r65536": true, "r": true, "r1x": true, "r-1": true, "12": false, "": false} {
		if _, ok, err := ParseRun(text); ok != isRun || ok && err == nil {
			t.Errorf("%q: %t, %v", text, ok, err)
		}
	}
}
