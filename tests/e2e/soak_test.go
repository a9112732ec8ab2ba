package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/tests/draw"
)

// soak is a node under random load and random faults.
type soak struct {
	*Stack
	t         *testing.T
	rng       *rand.Rand
	stranger  int          // a job that asked for nothing
	jobs      []int        // that may live
	stepped   map[int]bool // by srun
	cancelled map[int]bool
	suspended map[int]bool
	injected  map[string]int
	held      int
}

const soakTurns = `
name = "timeslice"
objective = "short turns, so that whatever goes wrong meets a pause"
[share]
together = 1
quantum = "700ms"
[limits]
min_run = "0s"
launch_grace = "3s"
`

// TestSoak lets packed jobs come and go while the daemon is killed, hung,
// restarted and reloaded, its guard is killed, and jobs are cancelled, suspended
// and continued by hand. After each fault everything runs that should, a job
// that asked for nothing is never stopped, and in the end each job has ended as
// it does without Gimbal. GIMBAL_SOAK says for how long, else it takes two minutes;
// GIMBAL_SEED repeats a run's choices.
func TestSoak(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	length, err := time.ParseDuration(os.Getenv("GIMBAL_SOAK"))
	if err != nil {
		length, seed = 2*time.Minute, draw.Seed(t)
	}
	if given, err := strconv.ParseUint(os.Getenv("GIMBAL_SEED"), 10, 64); err == nil {
		seed = given
	}
	t.Logf("GIMBAL_SOAK=%s GIMBAL_SEED=%d", length, seed)
	o := Options{Policies: map[string]string{"timeslice": soakTurns},
		Config: "[guard]\nstall = \"1s\"\nheld = \"1s\"\n"}
	o.Slurm.Shards, o.Slurm.CPUs, o.Slurm.KillWait = 32, 64, 5*time.Second
	s := &soak{Stack: Start(t, o), t: t, rng: rand.New(rand.NewPCG(seed, 0)),
		stepped: map[int]bool{}, cancelled: map[int]bool{}, suspended: map[int]bool{}, injected: map[string]int{}}
	s.stranger = s.Sbatch(t, Trainer("--memory 256MiB --seconds 100000"), oneShard)
	s.WaitClients(t, 1)
	for end := time.Now().Add(length); time.Now().Before(end) && !t.Failed(); {
		s.fill()
		time.Sleep(time.Duration(s.rng.IntN(500)) * time.Millisecond)
		s.fault()
	}
	s.finish()
	total := 0
	for _, n := range s.injected {
		total += n
	}
	t.Logf("%s: %d faults injected, %d held: %v", t.Name(), total, s.held, s.injected)
}

// fill keeps a handful of jobs alive.
func (s *soak) fill() {
	s.jobs = slices.DeleteFunc(s.jobs, func(id int) bool {
		j, err := s.Job(id)
		return err == nil && j.Ended() && s.ended(id)
	})
	for len(s.jobs) < 5 {
		script := []string{"exec ", byStep}[s.rng.IntN(2)] + Trainer(fmt.Sprintf("--memory 512MiB --gpu-ms 10 --iterations %d --fork %d", 50+s.rng.IntN(300), s.rng.IntN(4)))
		id := s.Sbatch(s.t, script, oneShard, "--gimbal-pack", "--gimbal-memory=1GiB")
		s.stepped[id] = strings.HasPrefix(script, byStep)
		s.jobs = append(s.jobs, id)
	}
}

// ended checks how a job ended.
func (s *soak) ended(id int) bool {
	want := "COMPLETED"
	done := s.WaitDone(s.t, id, 5*time.Minute)
	if done.State != want && (!s.cancelled[id] || done.State != "CANCELLED") {
		s.t.Errorf("job %d is %s (exit %d, signal %d)", id, done.State, done.ExitCode, done.Signal)
	}
	return true
}

// fault lets one thing go wrong and checks what is left.
func (s *soak) fault() {
	job := s.jobs[s.rng.IntN(len(s.jobs))]
	faults := []struct {
		name string
		do   func()
	}{
		{"daemon killed", func() { s.KillDaemon(); s.allRun(); s.StartDaemon() }},
		{"daemon and guard killed", func() {
			_ = syscall.Kill(guardPID(s.t, s.DaemonPID()), syscall.SIGKILL)
			s.KillDaemon()
			s.StartDaemon()
		}},
		{"daemon hung", func() { s.Signal(syscall.SIGSTOP); s.allRun(); s.Signal(syscall.SIGCONT) }},
		{"daemon restarted", func() { s.StopDaemon(); s.allRun(); s.StartDaemon() }},
		{"reloaded", func() { s.Signal(syscall.SIGHUP) }},
		{"cancelled", func() { s.cancelled[job] = true; s.Run("scancel", fmt.Sprint(job)) }},
		{"suspended", func() { s.suspend(job) }},
		{"continued by hand", func() {
			for _, pid := range s.Pids(job) {
				_ = syscall.Kill(pid, syscall.SIGCONT)
			}
		}},
	}
	f := faults[s.rng.IntN(len(faults))]
	s.injected[f.name]++
	f.do()
	if stopped, _ := Stopped(s.Pids(s.stranger)); len(stopped) > 0 {
		s.t.Errorf("after %s: processes %v of a job that asked for nothing are stopped", f.name, stopped)
	}
	if !s.t.Failed() {
		s.held++
	}
}

// byStep starts a trainer as a step of its job, and says when that has started.
const byStep = "srun -v "

// suspend has Slurm suspend a job, or resume one that it has suspended. Not while a
// step of it is launched: Slurm then stops srun, waits for the launch, which waits for
// srun, and never resumes the job, with or without Gimbal (seen with 22.05.8).
func (s *soak) suspend(job int) {
	for id := range s.suspended {
		s.Run("scontrol", "resume", fmt.Sprint(id))
		delete(s.suspended, id)
		return
	}
	Eventually(s.t, patience, "the job's step is launched", func() bool {
		j, err := s.Job(job)
		return !s.stepped[job] || err == nil && j.Ended() || strings.Contains(s.JobOutput(s.t, job), "tasks started")
	})
	if s.Run("scontrol", "suspend", fmt.Sprint(job)).Exit == 0 {
		s.suspended[job] = true
	}
}

// allRun waits until, with nobody to decide, every job runs but the suspended.
func (s *soak) allRun() {
	var job int
	var stopped []int
	defer func() {
		if s.t.Failed() {
			s.t.Logf("of job %d, suspended %v, stopped: %v", job, s.suspended, stopped)
		}
	}()
	Eventually(s.t, patience, "every job runs", func() bool {
		for _, job = range s.jobs {
			if stopped, _ = Stopped(s.Pids(job)); len(stopped) > 0 && !s.suspended[job] {
				return false
			}
		}
		return true
	})
}

// finish lets everything come to its end.
func (s *soak) finish() {
	for id := range s.suspended {
		s.Run("scontrol", "resume", fmt.Sprint(id))
	}
	for _, id := range s.jobs {
		s.ended(id)
	}
	s.scancel(s.t, s.stranger)
	wantState(s.t, s.WaitDone(s.t, s.stranger, patience), "CANCELLED")
	s.wantHealthy(s.t)
}
