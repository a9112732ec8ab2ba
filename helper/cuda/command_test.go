package cuda

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/tests/simgpu"
)

// script writes an executable shell script.
func script(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cuda-checkpoint")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCommandSupported(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, c := range []struct {
		path   string
		ok     bool
		reason string
	}{
		{simgpu.Binary("cuda-checkpoint"), true, ""},
		{script(t, "echo 'usage: --toggle --pid PID'"), false, "no --action"},
		{"/nonexistent/cuda-checkpoint", false, "no such file"},
		{"gimbal-no-such-command", false, "not found"},
	} {
		s := NewCommand(c.path, append(os.Environ(), "LD_LIBRARY_PATH="+filepath.Dir(simgpu.CUDA()))).Supported(ctx)
		if s.OK != c.ok || !strings.Contains(s.Reason, c.reason) {
			t.Errorf("%s: %+v", c.path, s)
		}
	}
}

func TestCommandIsTakenWhereTheLibraryLacksTheCalls(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	library := startClient(t, r.command(r.d, simgpu.NVML("")), nil)
	d := FirstOf(library, NewCommand(simgpu.Binary("cuda-checkpoint"), r.d.Env()))
	a := r.train("a", model.GiB)
	if s := d.Supported(r.within(5 * time.Second)); !s.OK || s.By != "command" {
		t.Errorf("%+v", s)
	}
	if err := d.Lock(r.within(5*time.Second), a.id, time.Second); err != nil {
		t.Error(err)
	}
	a.expect(Locked)
}

func TestCommandFails(t *testing.T) {
	me := identify(t, os.Getpid())
	for _, c := range []struct {
		body string
		want error
	}{
		{"echo 'CUDA result 2' >&2; exit 1", ErrNoRoom},
		{"echo 'Could not restore: \"out of memory\"' >&2; exit 1", ErrNoRoom},
		{"echo 'OS call failed or operation not supported on this OS' >&2; exit 1", ErrUnsupported},
		{"exec sleep 60", ErrTimeout},
		{"sleep 60 & echo $!; wait", ErrTimeout},
	} {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		if !errors.Is(c.want, ErrTimeout) {
			cancel()
			ctx, cancel = context.WithTimeout(context.Background(), 10*time.Second)
		}
		begin := time.Now()
		err := NewCommand(script(t, c.body), nil).Restore(ctx, me)
		if cancel(); !errors.Is(err, c.want) || time.Since(begin) > 5*time.Second {
			t.Errorf("%s: after %v: %v", c.body, time.Since(begin), err)
		}
	}
}

func TestCommandsThatHangAreBounded(t *testing.T) {
	c := NewCommand("/bin/sleep", nil)
	for range maxCommands {
		c.slots <- struct{}{}
	}
	if _, err := c.run(context.Background(), "0"); !errors.Is(err, ErrHelper) {
		t.Errorf("one too many: %v", err)
	}
}

func TestParseState(t *testing.T) {
	for out, want := range map[string]State{"running\n": Running, "2": Checkpointed, "Failed": Failed, "": Unknown, "6": Unknown, "no": Unknown} {
		if got, err := parseState(out); got != want || (err != nil) != (want == Unknown) {
			t.Errorf("%q: %v, %v", out, got, err)
		}
	}
}

func FuzzParseState(f *testing.F) {
	for _, s := range []string{"running", "3\n", "CUDA result 401", "out of memory", "result: 99999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, out string) {
		if s, err := parseState(out); (err == nil) != (s != Unknown) || s < Unknown || s > Restoring {
			t.Errorf("%q: %v, %v", out, s, err)
		}
		if r, ok := parseResult(out); ok && r <= 0 {
			t.Errorf("%q: result %d", out, r)
		}
	})
}
