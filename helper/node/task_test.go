package node_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/proc"
)

// task is a shell in a session of its own, and what it has started.
type task struct {
	id    proc.ID
	lines *bufio.Reader
	stdin io.WriteCloser
}

// launch runs a script in a shell. Its session is killed at the end.
func launch(t *testing.T, script string) *task { return launchBy(t, "/bin/sh", script) }

func launchBy(t *testing.T, shell, script string) *task {
	t.Helper()
	cmd := exec.Command(shell, "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = w, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	pid := cmd.Process.Pid
	id, err := proc.Host{}.Identify(pid) // before it can be reaped
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = unix.Kill(-pid, unix.SIGKILL)
		<-ended
		_ = out.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	return &task{id: id, lines: bufio.NewReader(out), stdin: stdin}
}

// child reads a pid that the script printed.
func (k *task) child(t *testing.T) proc.ID {
	t.Helper()
	line, err := k.lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	id, err := proc.Host{}.Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (k *task) goOn(t *testing.T) {
	t.Helper()
	if _, err := io.WriteString(k.stdin, "\n"); err != nil {
		t.Fatal(err)
	}
}

// stepd makes a shell that passes for Slurm's slurmstepd: a task that it runs
// has not started its program until it calls exec.
func stepd(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: needs root")
	}
	data, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "slurmstepd")
	if err := os.WriteFile(file, data, 0o755); err != nil {
		t.Fatal(err)
	}
	return file
}

func look(id proc.ID) proc.Condition { return proc.Host{}.Look(id) }

func wantAll(t *testing.T, c proc.Condition, ids ...proc.ID) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d processes to be %s", len(ids), c), func() bool {
		for _, id := range ids {
			if is := look(id); is != c && (c != proc.ConditionStopped || !inVfork(id)) {
				return false
			}
		}
		return true
	})
}

// inVfork tells whether a process that was told to stop sleeps until its vfork
// child goes on, which is stopped.
func inVfork(id proc.ID) bool {
	waits, err := proc.Host{}.Pending(id)
	return err == nil && waits.Has(unix.SIGSTOP)
}

// eventually polls until a condition holds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}
