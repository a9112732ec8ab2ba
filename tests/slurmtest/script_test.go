package slurmtest

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// script runs scripts/slurm-node by hand and returns what it printed and its
// exit status.
func script(t *testing.T, args ...string) (string, int) {
	t.Helper()
	path, err := findScript()
	if err != nil {
		t.Fatal(err)
	}
	result := run(exec.Command(path, args...))
	return result.Stdout + result.Stderr, result.Exit
}

// folder makes a folder with a short name that every user can reach.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "slurm-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestScriptUsage(t *testing.T) {
	tests := []struct {
		args []string
		exit int
		want string
	}{
		{[]string{"--help"}, 0, "usage:"},
		{nil, 2, "unknown command ''"},
		{[]string{"sideways", "x"}, 2, "unknown command 'sideways'"},
		{[]string{"up"}, 2, "up needs a folder"},
		{[]string{"down", "x", "--now"}, 2, "down takes no options"},
		{[]string{"up", "x", "--nodes"}, 2, "--nodes needs a value"},
		{[]string{"up", "x", "--nodes", "65"}, 2, "--nodes must be 1 to 64"},
		{[]string{"up", "x", "--nodes", "two"}, 2, "--nodes must be a number, not 'two'"},
		{[]string{"up", "x", "--colour", "red"}, 2, "unknown option --colour"},
		{[]string{"up", "x", "--env", "1=2"}, 2, "--env must be NAME=VALUE, not '1=2'"},
		{[]string{"restart", "x", "munged"}, 2, "restart slurmctld or slurmd, not 'munged'"},
		{[]string{"reboot", "/nonexistent/cluster"}, 1, "no cluster in /nonexistent/cluster"},
		{[]string{"env", "/nonexistent/cluster"}, 1, "no cluster in /nonexistent/cluster"},
		{[]string{"down", "/nonexistent/cluster"}, 0, "no cluster in /nonexistent/cluster"},
	}
	for _, test := range tests {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			out, exit := script(t, test.args...)
			if exit != test.exit || !strings.Contains(out, test.want) {
				t.Errorf("exit %d, want %d and %q:\n%s", exit, test.exit, test.want, out)
			}
		})
	}
}

func TestScriptRefusesForeignFiles(t *testing.T) {
	Need(t)
	dir := folder(t)
	precious := filepath.Join(dir, "log")
	if err := os.WriteFile(precious, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, exit := script(t, "up", dir); exit != 1 || !strings.Contains(out, "is not of a cluster") {
		t.Errorf("up: exit %d, %s", exit, out)
	}
	if out, exit := script(t, "down", dir); exit != 0 {
		t.Errorf("down: exit %d, %s", exit, out)
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
}

// TestScriptWaitsForPorts: up takes the ports of a cluster that a crash left, and
// waits for those that are in use, and not for what is typed.
func TestScriptWaitsForPorts(t *testing.T) {
	t.Parallel()
	Need(t)
	const base = 61440 // above what the kernel hands out, and below no block of up's own
	crashed, dir := folder(t), folder(t)
	if err := os.Mkdir(filepath.Join(crashed, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	registry := fmt.Sprintf("/run/slurm-node.%d", base)
	for file, text := range map[string]string{filepath.Join(crashed, "run/munged"): "4194304 1\n", registry: crashed + "\n"} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	busy, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", base+7))
	if err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	defer busy.Close()
	path, err := findScript()
	if err != nil {
		t.Fatal(err)
	}
	up := exec.Command(path, "up", dir, "--port-base", strconv.Itoa(base))
	typed, terminal, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	defer typed.Close()
	up.Stdin = typed
	said, err := up.StderrPipe()
	var out strings.Builder
	up.Stdout = &out
	if err = errors.Join(err, up.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { script(t, "down", dir); os.Remove(registry) })
	first, err := bufio.NewReader(said).ReadString('\n')
	if want := "slurm-node: waits for a block of 1024 ports to be free (slurm-node list)\n"; first != want {
		t.Errorf("said %q, %v", first, err)
	}
	busy.Close()
	if err := up.Wait(); err != nil || out.String() != fmt.Sprintf("up: p%dn0\n", base) {
		t.Errorf("%v, printed %q", err, out.String())
	}
	if out, _ := script(t, "list"); !strings.Contains(out, fmt.Sprintf("%d %s\n", base, dir)) || strings.Contains(out, crashed) {
		t.Errorf("list: %s", out)
	}
}

func TestScriptByHand(t *testing.T) {
	t.Parallel()
	Need(t)
	dir := folder(t)
	envFile := filepath.Join(dir, "variables")
	if err := os.WriteFile(envFile, []byte("QUOTED=it's \"two  words\" $HOME\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	owner := exec.Command("sleep", "300")
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	endOwner := func() { owner.Process.Kill(); _, _ = owner.Process.Wait() }
	t.Cleanup(func() { endOwner(); script(t, "down", dir) })
	out, exit := script(t, "up", dir, "--env-file", envFile, "--owner", strconv.Itoa(owner.Process.Pid), "--nodes", "2")
	if names := regexp.MustCompile(`^up: p\d+n0 p\d+n1\n$`); exit != 0 || !names.MatchString(out) {
		t.Fatalf("up: exit %d, %s", exit, out)
	}
	if out, exit := script(t, "up", dir); exit != 1 || !strings.Contains(out, "a cluster runs in "+dir) {
		t.Errorf("up once more: exit %d, %s", exit, out)
	}

	if out, exit := script(t, "status", dir); exit != 0 || !strings.Contains(out, "n0 idle") || !strings.Contains(out, "n1 idle") {
		t.Errorf("status: exit %d, %s", exit, out)
	}
	if out, _ := script(t, "list"); !strings.Contains(out, " "+dir+"\n") {
		t.Errorf("list does not show %s: %s", dir, out)
	}
	variables, _ := script(t, "env", dir)
	result := run(exec.Command("bash", "-c", variables+`sinfo -h -o %T; echo "$QUOTED"`))
	if want := "idle\nit's \"two  words\" $HOME\n"; result.Stdout != want {
		t.Errorf("in the shell: %s, want %q", result, want)
	}

	endOwner()
	eventually(t, "the cluster to follow its owner", func() bool {
		out, _ := script(t, "list")
		return !strings.Contains(out, " "+dir+"\n")
	})
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("files left: %v, %v", left, err)
	}
}
