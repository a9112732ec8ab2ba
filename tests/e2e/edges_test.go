package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// TestLaunchedWhileTheDaemonWasDown: a job that started without the daemon is
// taken over by it, and takes turns like any other.
func TestLaunchedWhileTheDaemonWasDown(t *testing.T) {
	o := lastComes()
	o.NoDaemon = true
	s := Start(t, o)
	early := s.Sbatch(t, Trainer("--memory 2GiB"), oneShard, "--gimbal-pack", "--gimbal-memory=2GiB")
	s.WaitClients(t, 1)
	s.StartDaemon()
	s.WaitTenant(early, patience, "RUNNING")
	late := s.overtake(t, early, Trainer("--memory 2GiB"))
	s.scancel(t, early)
	s.scancel(t, late)
	s.wantHealthy(t)
}

// TestSrunIsNeverStopped: of a job that is paused the trainer is stopped, and
// the srun that launched it is not.
func TestSrunIsNeverStopped(t *testing.T) {
	for _, track := range []string{"linuxproc", "cgroup"} {
		t.Run(track, func(t *testing.T) {
			o := lastComes()
			o.Slurm.Proctrack = track
			s := Start(t, o)
			paused, other := s.onePaused(t, "srun "+Trainer("--memory 2GiB"))
			sruns, trainers := 0, 0
			for _, pid := range s.Pids(paused) {
				b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
				if err != nil {
					continue
				}
				text := string(b)
				state := text[strings.LastIndexByte(text, ')')+2]
				halted := state == 'T' || frozen(pid)
				switch {
				case strings.Contains(text, "(srun)"):
					sruns++
					if halted {
						t.Errorf("srun %d is stopped", pid)
					}
				case strings.Contains(text, "(simgpu-trainer)"):
					trainers++
					if !halted {
						t.Errorf("trainer %d of the paused job runs: %s", pid, text)
					}
				}
			}
			if sruns == 0 || trainers == 0 {
				t.Errorf("saw %d sruns and %d trainers", sruns, trainers)
			}
			s.scancel(t, paused)
			s.scancel(t, other)
			s.wantHealthy(t)
		})
	}
}

// TestTimeLimit: a paused and a held job whose time is over are ended by Slurm
// as usual.
func TestTimeLimit(t *testing.T) {
	s := Start(t, lastComes())
	pack := []string{oneShard, "--gimbal-pack"}
	paused := s.Sbatch(t, Trainer("--memory 8GiB"), append(pack, "--gimbal-memory=8GiB", "--time=1")...)
	s.WaitClients(t, 1)
	runs := s.overtake(t, paused, Trainer("--memory 2GiB"))
	noRoom := s.Sbatch(t, slowly("--memory 12GiB"), append(pack, "--gimbal-memory=12GiB", "--time=1")...)
	s.WaitTenant(noRoom, patience, "HELD")
	for _, j := range []int{paused, noRoom} {
		wantState(t, s.WaitDone(t, j, 5*time.Minute), "TIMEOUT")
	}
	s.scancel(t, runs)
	s.wantHealthy(t)
}

// TestReload: a broken file changes nothing and is said with its line; a right
// one is in force at once.
func TestReload(t *testing.T) {
	s := Start(t, Options{Policies: map[string]string{"timeslice": quickTurns}})
	good, err := os.ReadFile(s.ConfigPath())
	if err != nil {
		t.Fatal(err)
	}
	s.write(s.ConfigPath(), string(good)+"\n[sampel]\n")
	s.Signal(syscall.SIGHUP)
	line := fmt.Sprintf("%s:%d", s.ConfigPath(), strings.Count(string(good), "\n")+2)
	Eventually(t, patience, "the log names "+line, func() bool { return strings.Contains(s.Log(), line) })
	var told string
	eventuallyShown(t, "status --daemon says what is wrong", &told, func() bool {
		told = s.Gimbal("status", "--daemon").Stdout
		return strings.Contains(told, line)
	})
	s.write(s.ConfigPath(), strings.Replace(string(good), `default = "timeslice"`, `default = "together"`, 1))
	s.Signal(syscall.SIGHUP)
	Eventually(t, patience, "the new policy is in force", func() bool {
		reply := s.Status(model.StatusQuery{Start: time.Now()})
		if reply == nil {
			return false
		}
		for _, name := range reply.Policies {
			return name == "together"
		}
		return false
	})
	if _, err := os.Stat(filepath.Join(s.Dir, "run", "gimbald.sock")); err != nil {
		t.Error(err)
	}
}
