package mps

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake makes a control program of a shell script, which finds the question in $q;
// each is written to a file.
func fake(t *testing.T, script string) (c *Control, questions func() []string) {
	t.Helper()
	dir := t.TempDir()
	path, log := filepath.Join(dir, "control"), filepath.Join(dir, "questions")
	text := "#!/bin/sh\nread -r q\nprintf '%s|%s\\n' \"$q\" \"$CUDA_MPS_PIPE_DIRECTORY\" >>" + log + "\n" + script + "\n"
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return &Control{Command: path, Pipe: "/run/mps"}, func() []string {
		b, err := os.ReadFile(log)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return strings.Fields(strings.ReplaceAll(string(b), " ", "_"))
	}
}

// twoServers answers as a control daemon with two servers does.
const twoServers = `case "$q" in
get_server_list) printf '700\n800\n' ;;
"get_client_list 700") printf '71\n72\n' ;;
"get_client_list 800") echo 81 ;;
esac`

func TestReleaseEndsTheWorkOfItsClientsAlone(t *testing.T) {
	c, questions := fake(t, twoServers)
	if err := c.Release(t.Context(), []int{72, 81, 99}); err != nil {
		t.Fatal(err)
	}
	want := []string{"get_server_list|/run/mps", "get_client_list_700|/run/mps", "terminate_client_700_72|/run/mps",
		"get_client_list_800|/run/mps", "terminate_client_800_81|/run/mps"}
	if got := questions(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestReleaseFails: whatever cannot be asked is no permission to kill.
func TestReleaseFails(t *testing.T) {
	for name, script := range map[string]string{
		"no daemon":        "echo 'Cannot find MPS control daemon process' >&2; exit 1",
		"no such client":   twoServers + "\ncase $q in terminate*) echo 'Failed' >&2; exit 1;; esac",
		"nonsense":         "echo 'Server list: none'",
		"an endless reply": "yes 77",
		"no clients":       "case $q in get_server_list) echo 700;; *) exit 3;; esac",
		"the daemon's pid": "echo 1",
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := fake(t, script)
			if err := c.Release(t.Context(), []int{71}); err == nil {
				t.Error("taken for done")
			}
		})
	}
	c := &Control{Command: "/nonexistent/control"}
	if err := c.Release(t.Context(), []int{71}); err == nil {
		t.Error("without a program: taken for done")
	}
}

// TestControlThatHangs is given up in time.
func TestControlThatHangs(t *testing.T) {
	c, _ := fake(t, "exec sleep 60")
	begin := time.Now()
	if _, err := c.Servers(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if took := time.Since(begin); took < Timeout || took > Timeout+time.Second {
		t.Errorf("took %s", took)
	}
}

// TestNoChildIsLeft: fifty questions, half of them to a program that hangs, leave
// no child and no zombie of this process.
func TestNoChildIsLeft(t *testing.T) {
	good, _ := fake(t, twoServers)
	bad, _ := fake(t, "exec sleep 60")
	for range 25 {
		if _, err := good.Servers(t.Context()); err != nil {
			t.Fatal(err)
		}
		bad.Timeout = 20 * time.Millisecond
		_, _ = bad.Servers(t.Context())
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	if kids := strings.TrimSpace(string(b)); kids != "" {
		t.Errorf("children are left: %s", kids)
	}
}

// TestWatchTellsOfChangesAlone: one line when it fails, one when it is back.
func TestWatchTellsOfChangesAlone(t *testing.T) {
	var told []string
	w := NewWatch(&Control{}, time.Hour, func(err error) { told = append(told, fmt.Sprint(err)) })
	if w.Err() == nil {
		t.Error("fine before it was asked")
	}
	hangs := errors.New("hangs")
	for _, err := range []error{nil, nil, hangs, hangs, hangs, nil, nil} {
		w.note(err)
		if !errors.Is(w.Err(), err) {
			t.Errorf("%v after %v", w.Err(), err)
		}
	}
	if want := []string{"hangs", "<nil>"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

func TestWatchRuns(t *testing.T) {
	c, questions := fake(t, twoServers)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	w := NewWatch(c, 10*time.Millisecond, func(error) {})
	go func() { w.Run(ctx); close(done) }()
	for end := time.Now().Add(5 * time.Second); len(questions()) < 3; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not asked again")
		}
	}
	cancel()
	<-done
	if w.Err() != nil {
		t.Error(w.Err())
	}
}
