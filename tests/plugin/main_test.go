// Package plugin runs gimbal.so and gimbal_core.so in a real Slurm, against a
// daemon that only writes down what it is told.
package plugin

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/tests/slurmtest"
)

// patience bounds every wait; nothing here takes nearly that long.
const patience = time.Minute

// shared is the one cluster; each test writes the plugstack.conf that it
// wants. nil where there can be none. The tests run one after the other.
var shared *slurmtest.Cluster

// built is the folder with the libraries.
var built string

func TestMain(m *testing.M) { os.Exit(runAll(m)) }

func runAll(m *testing.M) int {
	if slurmtest.Unavailable() != nil {
		return m.Run()
	}
	if err := build(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var err error
	shared, err = slurmtest.Up(context.Background(), "", slurmtest.Options{
		Nodes:     2,   // a het job wants one for each component
		CPUs:      256, // -n64 at once
		ConfExtra: []string{"SchedulerParameters=bf_interval=1,sched_min_interval=0"},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := shared.Down(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func build() error {
	root, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	built = filepath.Join(root, "build")
	cmd := exec.Command("make", "-s", "build/gimbal.so", "build/gimbal_core.so")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the plugin: %w\n%s", err, out)
	}
	return nil
}

// site is the shared cluster with a plug stack, and where a daemon would be.
type site struct {
	*slurmtest.Cluster
	t       *testing.T
	socket  string
	pending string
}

// line is the plugin's line with what this site needs. The time-out leaves room
// for a machine that is busy; later arguments win.
func (s *site) line(more ...string) string {
	return strings.Join(append([]string{"optional", filepath.Join(built, "gimbal.so"),
		"socket=" + s.socket, "pending=" + s.pending, "timeout=5s"}, more...), " ")
}

// newSite gives the cluster the plugin's usual line and an empty folder for
// the daemon.
func newSite(t *testing.T) *site {
	t.Helper()
	slurmtest.Need(t)
	dir, err := os.MkdirTemp("", "gimbal-plugin")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := &site{Cluster: shared, t: t,
		socket: filepath.Join(dir, "gimbald.sock"), pending: filepath.Join(dir, "pending")}
	shared.LogsOnFailure(t)
	s.plugstack(s.line())
	return s
}

// plugstack replaces the lines of plugstack.conf, which commands and
// slurmstepd read each time they start.
func (s *site) plugstack(lines ...string) {
	s.t.Helper()
	text := strings.Join(lines, "\n") + "\n"
	if err := os.WriteFile(filepath.Join(s.Dir, "plugstack.conf"), []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// run runs a command that must exit with 0 and returns what it did. After
// sbatch it waits for the end of the job, as sbatch -W does, only sooner.
func (s *site) run(name string, args ...string) slurmtest.Result {
	s.t.Helper()
	r := s.Run(name, args...)
	if r.Exit != 0 {
		s.t.Fatalf("%s %q: %v", name, args, r)
	}
	if id, ok := strings.CutPrefix(r.Stdout, "Submitted batch job "); ok {
		s.waitExit0(strings.TrimSpace(id))
	}
	return r
}

// runWith is run with more environment.
func (s *site) runWith(env []string, name string, args ...string) slurmtest.Result {
	s.t.Helper()
	return s.run("env", append(append(env, name), args...)...)
}

func (s *site) waitExit0(id string) {
	s.t.Helper()
	n, err := strconv.Atoi(id)
	if err != nil {
		s.t.Fatal(err)
	}
	if job := s.WaitDone(s.t, n, patience); job.State != "COMPLETED" {
		s.t.Fatalf("job %s: %+v", id, job)
	}
}
