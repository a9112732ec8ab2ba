package fieldlog

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/tests/e2e"
)

// TestStatusTellsWhatIs is ST-05: what status shows is what the processes do,
// not what the daemon last did; and without a daemon it says so, soon, and
// shows what is on disk with its age.
func TestStatusTellsWhatIs(t *testing.T) {
	s := start(t, e2e.Options{})
	job := s.pack(t, "exec "+e2e.Trainer("--memory 512MiB --seconds 300"))
	s.WaitTenant(job, patience, "RUNNING")
	e2e.Eventually(t, patience, "the trainer runs", func() bool { return len(s.trainers(job)) == 1 })

	t.Run("stopped from outside", func(t *testing.T) {
		pid := s.trainers(job)[0]
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		s.WaitTenant(job, 10*time.Second, "stopped (external)")
		r := s.Gimbal("status", "-n", "-P", "-X", "-o", "State", "-j", fmt.Sprint(job))
		if strings.TrimSpace(r.Stdout) != "stopped (external)" || r.Exit != 0 {
			t.Errorf("gimbal status: %v", r)
		}
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		s.WaitTenant(job, 10*time.Second, "RUNNING")
	})
	t.Run("daemon dead", func(t *testing.T) {
		s.KillDaemon()
		r := s.Gimbal("status", "-X", "-o", "JobID,State")
		if r.Exit != 3 || !strings.Contains(r.Stderr, "gimbald does not answer") || r.Took > 10*time.Second {
			t.Errorf("gimbal status: %v, want exit 3 and a clear message, soon", r)
		}
		if !strings.Contains(r.Stderr, "ago") || !regexp.MustCompile(fmt.Sprintf(`(?m)^%d +RUNNING`, job)).MatchString(r.Stdout) {
			t.Errorf("gimbal status: %v, want what is on disk, with its age", r)
		}
		if r := s.Gimbal("status", "--offline", "-X", "-n", "-P", "-o", "JobID"); r.Exit != 0 || strings.TrimSpace(r.Stdout) != fmt.Sprint(job) || !strings.Contains(r.Stderr, "ago") {
			t.Errorf("gimbal status --offline: %v", r)
		}
		s.StartDaemon()
	})
	s.cancel(t, job)
	s.wantClean(t)
}

// TestReloadOfABrokenFile is CF-03: a file with a mistake changes nothing,
// keeps the daemon alive, and the job that is paused stays under max_pause; a
// good file that changes a key that is read at the start only names it.
func TestReloadOfABrokenFile(t *testing.T) {
	policies := turns("25s")
	page := filepath.Join(t.TempDir(), "gimbal.prom")
	s := start(t, e2e.Options{Policies: policies, Config: fmt.Sprintf("[limits]\nmax_pause = \"5s\"\n[metrics]\ntextfile = %q\n", page)})
	paused, other := s.pair(t, "exec "+e2e.Trainer("--memory 512MiB --seconds 300"))
	since := s.tenant(t, paused).SinceWall

	good, err := os.ReadFile(s.ConfigPath())
	if err != nil {
		t.Fatal(err)
	}
	s.configure(t, func(text string) string { return text + "\n[limitz]\nmax_pause = \"500s\"\n" })
	where := fmt.Sprintf("%s:%d", s.ConfigPath(), strings.Count(string(good), "\n")+2)
	s.logged(t, where)
	if r := s.Gimbal("status", "--daemon"); r.Exit != 0 || !strings.Contains(r.Stdout, where) {
		t.Errorf("gimbal status --daemon: %v, want the mistake at %s", r, where)
	}
	wantReloaded(t, page, 0)
	e2e.Eventually(t, patience, "max_pause holds", func() bool {
		v := s.Tenant(fmt.Sprint(paused))
		return v != nil && v.State == model.Running
	})
	if d := time.Since(since); d > 20*time.Second {
		t.Errorf("the job was paused for %s with max_pause = 5s", d)
	}

	if err := os.WriteFile(s.ConfigPath(), good, 0o644); err != nil {
		t.Fatal(err)
	}
	s.configure(t, replace(t, "[node]\n", "[node]\nname = \"another\"\n"))
	s.logged(t, "not applied until a restart: node.name")
	e2e.Eventually(t, patience, "status --daemon names the key", func() bool {
		r := s.Gimbal("status", "--daemon")
		return strings.Contains(r.Stdout, "node.name") && !strings.Contains(r.Stdout, "limitz")
	})
	wantReloaded(t, page, 1)
	s.cancel(t, paused, other)
	s.wantClean(t)
}

// wantReloaded waits until the metrics tell how the last reload went.
func wantReloaded(t *testing.T, page string, went int) {
	t.Helper()
	want := fmt.Sprintf("\ngimbal_config_last_reload_successful %d\n", went)
	e2e.Eventually(t, patience, "the metrics say"+want, func() bool {
		text, err := os.ReadFile(page)
		return err == nil && strings.Contains(string(text), want)
	})
}

// TestSlowCommands is SP-08: where scontrol, scancel and others hang, a packed
// step starts and ends as soon as one that is not packed, and none of them is
// called on its way.
func TestSlowCommands(t *testing.T) {
	bin := t.TempDir()
	log := filepath.Join(bin, "called")
	for _, name := range []string{"scontrol", "scancel", "squeue", "sacct", "sacctmgr", "nvidia-smi"} {
		text := fmt.Sprintf("#!/bin/sh\necho \"$0 $*\" >>%s\nexec sleep 60\n", log)
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := start(t, e2e.Options{Config: fmt.Sprintf("[slurm]\nbin = %q\n", bin)})
	if err := os.WriteFile(log, nil, 0o644); err != nil { // the daemon's own start may ask, with a bound
		t.Fatal(err)
	}
	usual := s.quickest(t)
	packed := s.quickest(t, "--gres=shard:1", "--gimbal-pack", "--gimbal-memory=1GiB")
	if packed > usual+3*time.Second {
		t.Errorf("a packed step takes %s, another %s", packed, usual)
	}
	if text, err := os.ReadFile(log); err != nil || len(text) > 0 {
		t.Errorf("called: %q %v", text, err)
	}
	s.wantClean(t)
}

// quickest is the least time of three sruns.
func (s *site) quickest(t *testing.T, options ...string) time.Duration {
	t.Helper()
	best := time.Hour
	for range 3 {
		r := s.Run("srun", append(options, "/bin/true")...)
		if r.Exit != 0 {
			t.Fatalf("srun %q: %v", options, r)
		}
		best = min(best, r.Took)
	}
	return best
}

// TestPluginIsGone is SP-02: the plugin's file is gone, its line stayed. Every
// command works; what it says is Slurm's own.
func TestPluginIsGone(t *testing.T) {
	s := start(t, e2e.Options{NoDaemon: true, NoPlugin: true})
	line := "optional " + filepath.Join(t.TempDir(), "gimbal.so") + "\n"
	if err := os.WriteFile(filepath.Join(s.Cluster.Dir, "plugstack.conf"), []byte(line), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, cmd := range [][]string{{"sbatch", "-W", "-o", "/dev/null", "--wrap", "srun true"}, {"srun", "true"}, {"salloc", "-Q", "srun", "true"}} {
		r := s.Run(cmd[0], cmd[1:]...)
		if r.Exit != 0 {
			t.Errorf("%q: %v", cmd, r)
		}
		for l := range strings.Lines(r.Stderr) {
			if !strings.Contains(l, "error: spank:") && !strings.Contains(l, "error: plugin_") {
				t.Errorf("%q says %q", cmd, l)
			}
		}
	}
	if why := s.DrainReason(t); why != "" {
		t.Errorf("the node is drained: %s", why)
	}
}
