// Package harness runs gimbal.so in a stand-in for Slurm's processes, a C
// program that calls it as a test says.
package harness

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The values of enum spank_context and of the items that the plugin reads.
const (
	local, remote, allocator, slurmd = 1, 2, 3, 4

	itemUID, itemGID, itemJob, itemStep, itemNNodes, itemNode, itemTasks = 0, 1, 2, 3, 4, 5, 6
)

const patience = time.Minute

// binaries are the stand-in and the plugin, built in the same way.
type binaries struct{ dir, fake, plugin, core string }

var plain, sanitized binaries

func TestMain(m *testing.M) { os.Exit(runAll(m)) }

func runAll(m *testing.M) int {
	if _, err := exec.LookPath("gcc"); err != nil {
		fmt.Fprintln(os.Stderr, "SKIPPED: gcc is missing: run scripts/install-deps build")
		return 0
	}
	dir, err := os.MkdirTemp("", "harness")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		// The plugin refuses a core in a folder that others may write to.
		err = os.Chmod(dir, 0o755)
	}
	if err == nil {
		plain, err = build(filepath.Join(dir, "plain"))
	}
	if err == nil {
		sanitized, err = build(filepath.Join(dir, "sanitized"), "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-U_FORTIFY_SOURCE")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// build makes a stand-in and the plugin with these flags, and for the plain
// pair the core.
func build(dir string, flags ...string) (binaries, error) {
	b := binaries{dir: dir, fake: filepath.Join(dir, "fake"), plugin: filepath.Join(dir, "gimbal.so"), core: filepath.Join(dir, "gimbal_core.so")}
	root, err := filepath.Abs("../..")
	if err != nil {
		return b, err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return b, err
	}
	fake := append([]string{"gcc", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", "-rdynamic"}, flags...)
	commands := [][]string{
		append(fake, "-o", b.fake, "spank/harness/testdata/fake_slurm.c", "-ldl", "-pthread"),
		{"make", "-s", "-B", "-f", "spank/spank.mk", b.plugin, "CFLAGS=" + strings.Join(flags, " "), "GIMBAL_SO=" + b.plugin},
	}
	if len(flags) == 0 {
		commands = append(commands, []string{"make", "-s", "-f", "spank/spank.mk", "build/gimbal_core.so"},
			[]string{"cp", "build/gimbal_core.so", b.core})
	}
	for _, args := range commands {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			return b, fmt.Errorf("%q: %w\n%s", args, err, out)
		}
	}
	return b, nil
}

// script collects commands for the stand-in.
type script struct {
	bin  binaries
	text bytes.Buffer
	env  []string
}

func (b binaries) script(context int, args ...string) *script {
	s := &script{bin: b}
	s.do("context %d", context)
	s.do("args %s", strings.Join(args, " "))
	s.do("load %s", b.plugin)
	return s
}

// do adds a command.
func (s *script) do(format string, args ...any) *script {
	fmt.Fprintf(&s.text, format+"\n", args...)
	return s
}

// again drops the plugin and loads it anew.
func (s *script) again() *script { return s.do("unload").do("load %s", s.bin.plugin) }

// items gives the stand-in what every slurmstepd knows.
func (s *script) items() *script {
	for item, value := range map[int]int{itemUID: 1000, itemGID: 1000, itemJob: 42, itemStep: 0, itemNNodes: 1, itemNode: 0, itemTasks: 1} {
		s.do("item %d %d", item, value)
	}
	return s
}

// run runs the commands and returns the lines that were printed.
func (s *script) run(t *testing.T) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.bin.fake)
	cmd.Stdin = &s.text
	cmd.Env = append([]string{"PATH=/usr/bin:/bin", "TZ=Europe/Berlin", "ASAN_OPTIONS=detect_leaks=0"}, s.env...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil || errs.Len() > 0 {
		t.Fatalf("stand-in: %v\n%s\n%s", err, out, errs.String())
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

// value returns what follows NAME= in the lines, "" and false if none does.
func value(lines []string, name string) (string, bool) {
	for _, line := range lines {
		if v, ok := strings.CutPrefix(line, name+"="); ok {
			return v, true
		}
	}
	return "", false
}
