// Package faults kills, stops and starves gimbald, without a Slurm: the test
// launches tasks and registers them as the plugin does, real processes train on
// a simulated GPU, and what the daemon leaves behind is looked at.
package faults

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/tests/simgpu"
)

// What the test binary is when it is started again.
const (
	asBystander = "FAULTS_BYSTANDER" // a file that gets the signals it receives
	asLauncher  = "FAULTS_LAUNCHER"  // what slurmstepd's child is before its exec
	asConfined  = "FAULTS_CONFINED"  // what denies its program system calls: their numbers
	asInside    = "FAULTS_INSIDE"    // a test in a namespace: the folder of what is built
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(asBystander) != "":
		os.Exit(standBy(os.Getenv(asBystander)))
	case os.Getenv(asLauncher) != "":
		os.Exit(launch())
	case os.Getenv(asConfined) != "":
		os.Exit(confine())
	case os.Getenv(floodVar) != "":
		os.Exit(flood(os.Getenv(floodVar)))
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil { // they mostly wait
		panic(err)
	}
	code := m.Run()
	if built.dir != "" && os.Getenv(asInside) == "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// standBy writes down every signal that it can catch. The runtime's own is not
// one that somebody sent.
func standBy(file string) int {
	signals := make(chan os.Signal, 64)
	signal.Notify(signals)
	signal.Reset(syscall.SIGURG)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return 1
	}
	for s := range signals {
		if s == syscall.SIGURG {
			continue
		}
		f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return 1
		}
		fmt.Fprintln(f, s)
		_ = f.Close()
	}
	return 0
}

// launch waits until its task may begin, then becomes it.
func launch() int {
	if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
		return 1
	}
	_ = os.Unsetenv(asLauncher)
	fmt.Fprintln(os.Stderr, syscall.Exec(os.Args[1], os.Args[1:], os.Environ()))
	return 1
}

// built is what is made once for all tests: gimbald with its failpoints, and a
// slurmstepd that launches a task.
var built struct {
	once  sync.Once
	dir   string
	fault error
}

func need(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: gimbald runs as root alone")
	}
	built.once.Do(func() { built.fault = build() })
	if built.fault != nil {
		t.Fatal(built.fault)
	}
}

func build() error {
	if built.dir = os.Getenv(asInside); built.dir != "" {
		return nil
	}
	dir, err := os.MkdirTemp("", "faults")
	if err != nil {
		return err
	}
	built.dir = dir
	cmd := exec.Command("go", "build", "-tags", "failpoints", "-ldflags", "-extldflags=-Wl,-z,lazy",
		"-o", gimbald(), "./helper/cmd/gimbald")
	cmd.Dir = simgpu.Root()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build gimbald with failpoints: %w\n%s", err, out)
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return err
	}
	return os.WriteFile(stepd(), self, 0o755)
}

func gimbald() string { return filepath.Join(built.dir, "gimbald") }
func stepd() string   { return filepath.Join(built.dir, "slurmstepd") }

// halt stops a process, and waits until each of its threads stands.
func halt(t *testing.T, pid int) {
	t.Helper()
	kill(t, pid, unix.SIGSTOP)
	eventually(t, patience, fmt.Sprintf("process %d stands", pid), func() bool {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		for _, file := range threads {
			if s, ok := statIn(file); ok && s.state != 'T' {
				return false
			}
		}
		return true
	})
}

// kill sends a signal to a process that the test started, or whose parent it did.
func kill(t *testing.T, pid int, sig unix.Signal) {
	t.Helper()
	if err := unix.Kill(pid, sig); err != nil && err != unix.ESRCH {
		t.Fatalf("%s to %d: %v", unix.SignalName(sig), pid, err)
	}
}
