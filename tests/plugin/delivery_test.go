package plugin

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// TestOptionReachesTheNode submits in each way that Slurm knows. The batch
// step and the srun inside it must both be packed.
func TestOptionReachesTheNode(t *testing.T) {
	s := newSite(t)
	d := s.startDaemon()
	batch := []string{"-o", "/dev/null", "--wrap", "srun /bin/true"}
	type want struct {
		pack  string
		own   bool
		steps int
	}
	for _, tc := range []struct {
		name string
		env  []string
		cmd  string
		args []string
		want want
	}{
		{"srun", nil, "srun", []string{"--gimbal-pack=alpha", "/bin/true"}, want{"alpha", false, 1}},
		{"srun bare", nil, "srun", []string{"--gimbal-pack", "/bin/true"}, want{"1", false, 1}},
		{"srun NONE", nil, "srun", []string{"--export=NONE", "--gimbal-pack=alpha", "/bin/true"}, want{"alpha", false, 1}},
		{"srun NIL", nil, "srun", []string{"--export=NIL", "--gimbal-pack=alpha", "/bin/true"}, want{"alpha", false, 1}},
		{"srun environment", []string{"GIMBAL_PACK=beta"}, "srun", []string{"/bin/true"}, want{"beta", false, 1}},
		{"srun environment NONE", []string{"GIMBAL_PACK=beta"}, "srun", []string{"--export=NONE", "/bin/true"}, want{"beta", false, 1}},
		{"srun environment NIL", []string{"GIMBAL_PACK=beta"}, "srun", []string{"--export=NIL", "/bin/true"}, want{"beta", false, 1}},
		{"option wins", []string{"GIMBAL_PACK=beta"}, "srun", []string{"--gimbal-pack=alpha", "/bin/true"}, want{"alpha", false, 1}},
		{"option wins over off", []string{"GIMBAL_PACK=off"}, "srun", []string{"--gimbal-pack", "/bin/true"}, want{"1", false, 1}},
		{"sbatch", nil, "sbatch", append([]string{"--gimbal-pack=alpha"}, batch...), want{"alpha", false, 2}},
		{"sbatch bare", nil, "sbatch", append([]string{"--gimbal-pack"}, batch...), want{"1", false, 2}},
		{"sbatch bare NONE", nil, "sbatch", append([]string{"--export=NONE", "--gimbal-pack"}, batch...), want{"1", false, 2}},
		{"sbatch NONE", nil, "sbatch", append([]string{"--export=NONE", "--gimbal-pack=alpha"}, batch...), want{"alpha", false, 2}},
		{"sbatch NIL", nil, "sbatch", append([]string{"--export=NIL", "--gimbal-pack=alpha"}, batch...), want{"alpha", false, 2}},
		{"sbatch environment", []string{"GIMBAL_PACK=yes"}, "sbatch", batch, want{"1", false, 2}},
		{"sbatch environment NONE", []string{"GIMBAL_PACK=beta"}, "sbatch", append([]string{"--export=NONE"}, batch...), want{"beta", false, 2}},
		{"sbatch wins", []string{"GIMBAL_PACK=beta"}, "sbatch", append([]string{"--gimbal-pack=alpha"}, batch...), want{"alpha", false, 2}},
		{"salloc", nil, "salloc", []string{"-Q", "--gimbal-pack=alpha", "srun", "/bin/true"}, want{"alpha", false, 1}},
		{"salloc bare", nil, "salloc", []string{"-Q", "--gimbal-pack", "srun", "/bin/true"}, want{"1", false, 1}},
		{"salloc environment", []string{"GIMBAL_PACK=beta"}, "salloc", []string{"-Q", "srun", "/bin/true"}, want{"beta", false, 1}},
		{"srun in salloc", nil, "salloc", []string{"-Q", "srun", "--gimbal-pack=alpha", "/bin/true"}, want{"alpha", true, 1}},
		{"srun environment in salloc", nil, "salloc", []string{"-Q", "env", "GIMBAL_PACK=beta", "srun", "/bin/true"}, want{"beta", false, 1}},
		{"overlap", nil, "salloc", []string{"-Q", "--gimbal-pack=alpha", "srun", "--overlap", "/bin/true"}, want{"alpha", false, 1}},
		{"own overlap", nil, "salloc", []string{"-Q", "--gimbal-pack=alpha", "srun", "--overlap", "--gimbal-pack=beta", "/bin/true"}, want{"beta", true, 1}},
		{"own with the same value", nil, "salloc", []string{"-Q", "--gimbal-pack", "srun", "--gimbal-pack", "/bin/true"}, want{"1", true, 1}},
		{"off", nil, "salloc", []string{"-Q", "--gimbal-pack=alpha", "srun", "--gimbal-pack=off", "/bin/true"}, want{"", false, 0}},
		{"environment off", []string{"GIMBAL_PACK=off"}, "srun", []string{"/bin/true"}, want{"", false, 0}},
		{"not asked", nil, "sbatch", batch, want{"", false, 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d.t, s.t = t, t
			d.forget()
			s.runWith(tc.env, tc.cmd, tc.args...)
			regs := d.registrations(tc.want.steps)
			if len(regs) != tc.want.steps || tc.want.steps == 0 && len(d.calls()) != 0 {
				t.Fatalf("%d registrations, want %d; calls: %s", len(regs), tc.want.steps, d)
			}
			for _, r := range regs {
				if r.Options.Pack != tc.want.pack || r.Own != tc.want.own {
					t.Errorf("got pack %q own %v, want %q %v", r.Options.Pack, r.Own, tc.want.pack, tc.want.own)
				}
			}
		})
	}
}

// TestOwnEndsWithItsStep: a step of its own, and an srun inside that step,
// which only inherits.
func TestOwnEndsWithItsStep(t *testing.T) {
	s := newSite(t)
	d := s.startDaemon()
	s.run("salloc", "-Q", "--gimbal-pack=alpha", "srun", "--gimbal-pack=beta", "bash", "-c", "srun --overlap /bin/true")
	for _, r := range d.registrations(2) {
		if own := r.StepID == 0; r.Own != own || r.Options.Pack != "beta" {
			t.Errorf("step %d: own %v, pack %s", r.StepID, r.Own, r.Options.Pack)
		}
	}
}

func TestDirectiveInTheScript(t *testing.T) {
	s := newSite(t)
	d := s.startDaemon()
	id := s.Sbatch(t, "#!/bin/bash\n#SBATCH --gimbal-pack=alpha\n#SBATCH --gimbal-memory=1.5G\n#SBATCH --gimbal-signal=USR1@30\ntrue\n")
	s.WaitDone(t, id, patience)
	regs := d.registrations(1)
	want := model.Options{Pack: "alpha", Memory: "1536MiB", Signal: "USR1@30"}
	if len(regs) != 1 || regs[0].Options != want || regs[0].StepID != model.StepBatch {
		t.Errorf("got %s", as(regs))
	}
}

// TestSisters carries every option through each way in.
func TestSisters(t *testing.T) {
	s := newSite(t)
	d := s.startDaemon()
	pause := []string{"GIMBAL_MAX_PAUSE=1m30s"} // has no option
	env := append(pause, "GIMBAL_MEMORY=2G", "GIMBAL_CLASS=opportunistic", "GIMBAL_WEIGHT=3", "GIMBAL_SIGNAL=12", "GIMBAL_DEADLINE=now+1hour")
	for _, tc := range []struct {
		name string
		env  []string
		cmd  string
		args []string
	}{
		{"options", pause, "sbatch", []string{"--gimbal-pack", "--gimbal-memory=2G", "--gimbal-class=opportunistic",
			"--gimbal-weight=3", "--gimbal-signal=USR2", "--gimbal-deadline=now+1hour"}},
		{"environment", append(env, "GIMBAL_PACK=1"), "sbatch", nil},
		{"environment, option for pack", env, "sbatch", []string{"--gimbal-pack", "--export=NONE"}},
		{"options win", append(env, "GIMBAL_PACK=other"), "sbatch", []string{"--gimbal-pack", "--gimbal-memory=2048MiB"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d.t, s.t = t, t
			d.forget()
			begin := time.Now()
			s.runWith(tc.env, tc.cmd, append(tc.args, "-o", "/dev/null", "--wrap", "srun /bin/true")...)
			for _, r := range d.registrations(2) {
				seconds, err := strconv.ParseInt(r.Options.Deadline, 10, 64)
				if err != nil || seconds < begin.Unix()+3600 || seconds > time.Now().Unix()+3600 {
					t.Errorf("deadline %q, %v", r.Options.Deadline, err)
				}
				r.Options.Deadline = ""
				if want := (model.Options{Pack: "1", Memory: "2048MiB", Class: "opportunistic", Weight: "3", Signal: "USR2", MaxPause: "90s"}); r.Options != want {
					t.Errorf("step %d: %+v", r.StepID, r.Options)
				}
			}
		})
	}
}

// TestDeadlineIsResolvedAtSubmission lets a job wait between submission and
// start: both its steps must hold the deadline of the submission.
func TestDeadlineIsResolvedAtSubmission(t *testing.T) {
	s := newSite(t)
	d := s.startDaemon()
	before := time.Now().Unix()
	id := s.Sbatch(t, "srun /bin/true\n", "-H", "--gimbal-pack", "--gimbal-deadline=now+100")
	after := time.Now().Unix()
	// The clock must have moved on for the test to mean anything.
	for time.Now().Unix() <= after {
		time.Sleep(20 * time.Millisecond)
	}
	s.run("scontrol", "release", strconv.Itoa(id))
	s.WaitDone(t, id, patience)
	for _, r := range d.registrations(2) {
		if got, _ := strconv.ParseInt(r.Options.Deadline, 10, 64); got < before+100 || got > after+100 {
			t.Errorf("step %d: deadline %d, submitted from %d to %d", r.StepID, got, before, after)
		}
	}
}

func TestArray(t *testing.T) {
	s := newSite(t)
	d := s.startDaemon()
	s.run("sbatch", "-a", "3,5", "--gimbal-pack", "-o", "/dev/null", "--wrap", "srun /bin/true")
	regs := d.registrations(4)
	var got []string
	for _, r := range regs {
		got = append(got, fmt.Sprint(r.ArrayTask, " ", r.StepID))
		if r.ArrayJob != regs[0].ArrayJob || r.ArrayJob == 0 || r.HetOffset != model.NoVal || r.HetJob != 0 {
			t.Errorf("registration %s", as(r))
		}
	}
	slices.Sort(got)
	if want := []string{"3 0", "3 4294967291", "5 0", "5 4294967291"}; !slices.Equal(got, want) {
		t.Errorf("array tasks and steps %q, want %q", got, want)
	}
}

func TestHetJob(t *testing.T) {
	s := newSite(t)
	d := s.startDaemon()
	for _, tc := range []struct {
		name  string
		args  []string
		pack  string
		own   bool
		steps int
	}{
		{"salloc", []string{"salloc", "-Q", "-n1", "--gimbal-pack=alpha", ":", "-n1", "srun", "--het-group=0,1", "/bin/true"}, "alpha", false, 2},
		{"own", []string{"salloc", "-Q", "-n1", "--gimbal-pack=alpha", ":", "-n1", "srun", "--gimbal-pack=beta", "--het-group=0,1", "/bin/true"}, "beta", true, 2},
		{"srun", []string{"srun", "-Q", "-n1", "--gimbal-pack=alpha", "/bin/true", ":", "-n1", "/bin/true"}, "alpha", false, 2},
		{"environment", []string{"env", "GIMBAL_PACK=alpha", "srun", "-Q", "-n1", "/bin/true", ":", "-n1", "/bin/true"}, "alpha", false, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d.t, s.t = t, t
			d.forget()
			s.run(tc.args[0], tc.args[1:]...)
			regs := d.registrations(tc.steps)
			var offsets []uint32
			for _, r := range regs {
				offsets = append(offsets, r.HetOffset)
				if r.HetJob+r.HetOffset != r.JobID || r.HetJob == 0 || r.Options.Pack != tc.pack || r.Own != tc.own {
					t.Errorf("registration %s", as(r))
				}
			}
			slices.Sort(offsets)
			if !slices.Equal(offsets, []uint32{0, 1}) {
				t.Errorf("offsets %v", offsets)
			}
		})
	}
}

func TestHetBatch(t *testing.T) {
	s := newSite(t)
	d := s.startDaemon()
	id := s.Sbatch(t, "#!/bin/bash\n#SBATCH --gimbal-pack -n1\n#SBATCH hetjob\n#SBATCH -n1\nsrun --het-group=1 /bin/true\n")
	s.WaitDone(t, id, patience)
	for _, r := range d.registrations(2) {
		offset := uint32(0)
		if r.StepID != model.StepBatch {
			offset = 1
		}
		if r.HetJob != uint32(id) || r.HetOffset != offset || r.Own || r.Options.Pack != "1" {
			t.Errorf("registration %s", as(r))
		}
	}
}

// TestRegistrationSaysAll looks at each field of a step with two tasks.
func TestRegistrationSaysAll(t *testing.T) {
	s := newSite(t)
	d := s.startDaemon()
	begin := time.Now()
	name := "we ird|\"é\n"
	// An unprivileged user, whose shell prints what the kernel says of it.
	show := `echo $SLURM_PROCID $$ $PPID $(cut -d" " -f22 /proc/$$/stat) $SLURM_JOB_ID $SLURM_STEP_ID`
	r := s.RunAs(65534, 65534, "srun", "--gimbal-pack=alpha", "-n2", "--gres=shard:2", "-J", name, "bash", "-c", show+"; exit 3")
	if r.Exit != 3 {
		t.Fatalf("srun: %v", r)
	}
	regs := d.registrations(1)
	if len(regs) != 2 {
		t.Fatalf("got %s", as(regs))
	}
	for i, reg := range regs {
		got := fmt.Sprint(reg.TaskID, " ", reg.Proc.PID, " ", reg.Stepd.PID, " ", reg.Proc.Start, " ", reg.JobID, " ", reg.StepID)
		if !slices.Contains(strings.Split(r.Stdout, "\n"), got) {
			t.Errorf("task %d: %q is not among what the tasks said: %q", i, got, r.Stdout)
		}
		if reg.TaskID != uint32(i) || reg.LocalTask != uint32(i) || reg.Tasks != 2 || reg.NNodes != 1 || reg.NodeID != 0 {
			t.Errorf("task %d: %s", i, as(reg))
		}
		if reg.UID != 65534 || reg.GID != 65534 || reg.Stepd.Start == 0 || reg.Own || reg.PTY {
			t.Errorf("task %d: %s", i, as(reg))
		}
		if !slices.Equal(reg.GPUs, []string{"0"}) || reg.GPUsFrom != "SLURM_STEP_GPUS" || reg.Visible != "0" {
			t.Errorf("GPUs %q from %s, visible %s", reg.GPUs, reg.GPUsFrom, reg.Visible)
		}
		if reg.JobName != name || reg.Partition == "" || reg.ArrayTask != model.NoVal || reg.ArrayJob != 0 {
			t.Errorf("task %d: %s", i, as(reg))
		}
		if at := time.Unix(0, reg.Launched); at.Before(begin) || at.After(time.Now()) {
			t.Errorf("launched %v", at)
		}
		if _, err := os.Stat("/proc/self/cgroup"); err == nil && !strings.Contains(reg.Cgroup, ":/") {
			t.Errorf("cgroup %q", reg.Cgroup)
		}
	}
	for _, c := range d.calls() {
		if c.req.Op != "task_exit" {
			continue
		}
		if exit := decode[model.TaskExit](t, c.req); exit.Status != 3<<8 {
			t.Errorf("exit status %#x", exit.Status)
		}
	}
}

// TestInteractive: a step with a terminal says so; what runs inside does not.
func TestInteractive(t *testing.T) {
	s := newSite(t)
	d := s.startDaemon()
	s.run("script", "-qec", "srun --gimbal-pack --pty bash -c 'srun --overlap /bin/true'", "/dev/null")
	for _, r := range d.registrations(2) {
		if r.PTY != (r.StepID == 0) {
			t.Errorf("step %d: PTY %v", r.StepID, r.PTY)
		}
	}
}
