package slurm_test

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/slurm"
	"github.com/gimbal-hpc/gimbal/tests/slurmtest"
)

// One cluster for all: what the commands do on a real Slurm.
func TestRealSlurm(t *testing.T) {
	cluster := slurmtest.Start(t, slurmtest.Options{ConfExtra: []string{"PrivateData=jobs"}})
	client := slurm.New(slurm.Options{Conf: filepath.Join(cluster.Dir, "slurm.conf"), Gap: time.Millisecond})
	ctx := t.Context()
	id := cluster.Sbatch(t, "#!/bin/sh\nsleep 300\n", "--time=5", "--job-name=x JobState=CANCELLED UserId=0")
	job := uint32(id)
	wait := func(id uint32, state string) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			j, err := client.Job(ctx, id)
			if err == nil && j.State == state {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("job %d is not %s: %+v, %v", id, state, j, err)
			}
		}
	}
	wait(job, "RUNNING")

	t.Run("node", func(t *testing.T) {
		if got, err := client.NodeName(ctx); err != nil || got != cluster.Nodes[0] {
			t.Errorf("%q, %v; want %q", got, err, cluster.Nodes[0])
		}
		if got, err := client.NodesHere(ctx); err != nil || !slices.Equal(got, cluster.Nodes) {
			t.Errorf("nodes here %q, %v; want %q", got, err, cluster.Nodes)
		}
		for name, want := range map[string]bool{cluster.Nodes[0]: true, "elsewhere": false} {
			if got, err := client.KnowsNode(ctx, name); err != nil || got != want {
				t.Errorf("knows %s: %v, %v", name, got, err)
			}
		}
		if got, err := client.PrivateData(ctx); err != nil || !slices.Equal(got, []string{"jobs"}) {
			t.Errorf("PrivateData %q, %v", got, err)
		}
	})
	t.Run("job", func(t *testing.T) {
		j, err := client.Job(ctx, job)
		if err != nil || j.State != "RUNNING" || j.Nodes != cluster.Nodes[0] || j.TimeLimit != 5*time.Minute {
			t.Fatalf("%+v, %v", j, err)
		}
		if left := time.Until(j.End); left < 0 || left > 5*time.Minute+time.Second {
			t.Errorf("ends in %s", left)
		}
		if over, err := client.Completing(ctx, job); err != nil || over {
			t.Errorf("completing %v, %v", over, err)
		}
	})
	t.Run("credit", func(t *testing.T) {
		if got, err := client.Credit(ctx, job, 3*time.Minute); err != nil || got != 3*time.Minute {
			t.Fatalf("%s, %v", got, err)
		}
		if j, err := client.Job(ctx, job); err != nil || j.TimeLimit != 8*time.Minute {
			t.Errorf("%+v, %v", j, err)
		}
	})
	t.Run("shards", func(t *testing.T) {
		poses := "x\n   JobState=RUNNING Nodes=n1 CPU_IDs=0 Mem=0 GRES=shard:1(IDX:1)"
		sharer := cluster.Sbatch(t, "#!/bin/sh\nsleep 300\n", "--gres=shard:3", "--job-name="+poses)
		wait(uint32(sharer), "RUNNING")
		got, err := client.Shards(ctx, cluster.Nodes[0])
		used := slices.Collect(maps.Values(got.Used))
		if err != nil || got.Each != 4 || !slices.Equal(used, []int{3}) || len(got.Whole) > 0 {
			t.Errorf("%+v, %v; want 3 of the 4 shards of one GPU", got, err)
		}
	})
	t.Run("site", func(t *testing.T) { // while the sharer above runs
		if got, err := client.Site(ctx, cluster.Nodes[0]); err != nil || got != (slurm.Site{GPUs: 2, Shards: 4}) {
			t.Errorf("%+v, %v", got, err)
		}
		whole := cluster.Sbatch(t, "#!/bin/sh\nsleep 300\n", "--gres=gpu:1")
		wait(uint32(whole), "RUNNING")
		if got, err := client.Site(ctx, cluster.Nodes[0]); err != nil || got != (slurm.Site{GPUs: 2, Shards: 4, Whole: 1}) {
			t.Errorf("beside a job with a whole GPU: %+v, %v", got, err)
		}
		if confined, err := client.Confines(ctx); err != nil || confined {
			t.Errorf("confined %v, %v", confined, err)
		}
	})
	t.Run("comment", func(t *testing.T) {
		for _, set := range []error{client.SetComment(ctx, job, "for the user = a"), client.SetAdminComment(ctx, job, "for the admin: 'b'")} {
			if set != nil {
				t.Fatal(set)
			}
		}
		show := cluster.Run("scontrol", "show", "job", "-o", strconv.Itoa(id)).Stdout
		for _, want := range []string{" Comment=for the user = a ", " AdminComment=for the admin:  b "} {
			if !strings.Contains(show, want) {
				t.Errorf("%q is not in %s", want, show)
			}
		}
	})
	t.Run("requeue", func(t *testing.T) {
		if err := client.Requeue(ctx, job); err != nil {
			t.Fatal(err)
		}
		wait(job, "PENDING")
	})
	t.Run("cancel", func(t *testing.T) {
		if err := client.Cancel(ctx, job, "gone over its memory"); err != nil {
			t.Fatal(err)
		}
		wait(job, "CANCELLED")
		if over, err := client.Completing(ctx, job); err != nil || !over {
			t.Errorf("completing %v, %v", over, err)
		}
	})
	t.Run("no such job", func(t *testing.T) {
		if _, err := client.Job(ctx, 99999); !errors.Is(err, slurm.ErrNoJob) {
			t.Errorf("job: %v", err)
		}
		if err := client.Requeue(ctx, 99999); !errors.Is(err, slurm.ErrNoJob) {
			t.Errorf("requeue: %v", err)
		}
		if err := client.Cancel(ctx, 99999, "why"); !errors.Is(err, slurm.ErrNoJob) {
			t.Errorf("cancel: %v", err)
		}
	})
	t.Run("array", func(t *testing.T) {
		first := cluster.Sbatch(t, "#!/bin/sh\nsleep 300\n", "--array=0-1")
		for _, n := range []int{first, first + 1} {
			wait(uint32(n), "RUNNING")
			j, err := client.Job(ctx, uint32(n))
			if err != nil || int(j.ID) != n {
				t.Errorf("job %d: %+v, %v", n, j, err)
			}
		}
	})
}

func TestNoController(t *testing.T) {
	slurmtest.Need(t)
	client := slurm.New(slurm.Options{Conf: filepath.Join(t.TempDir(), "none.conf"), Timeout: 2 * time.Second})
	if _, err := client.Job(t.Context(), 1); err == nil || errors.Is(err, slurm.ErrNoJob) {
		t.Errorf("without a configuration: %v", err)
	}
}
