package plugin

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/wire"
)

// TestFaults breaks the node in every way that a node was seen broken, and
// runs a step of four tasks: it must run as if Gimbal were not there.
func TestFaults(t *testing.T) {
	core := filepath.Join(built, "gimbal_core.so")
	for _, tc := range []struct {
		name     string
		sabotage func(t *testing.T, s *site)
		left     bool // the requests are in the pending folder
	}{
		{"no socket", func(*testing.T, *site) {}, true},
		{"stale socket", func(t *testing.T, s *site) {
			l := listen(t, s.socket)
			l.SetUnlinkOnClose(false)
			_ = l.Close()
		}, true},
		{"socket is a folder", func(t *testing.T, s *site) { must(t, os.MkdirAll(filepath.Join(s.socket, "full"), 0o755)) }, true},
		{"socket is a file", func(t *testing.T, s *site) { must(t, os.WriteFile(s.socket, nil, 0o666)) }, true},
		{"mute daemon", mute, true},
		{"daemon that hangs up", hangUp, true},
		{"no core", func(_ *testing.T, s *site) { s.plugstack(s.line(soon, "core=/nowhere/gimbal_core.so")) }, false},
		{"junk for a core", func(t *testing.T, s *site) {
			path := filepath.Join(filepath.Dir(s.socket), "junk.so")
			must(t, os.WriteFile(path, []byte("junk"), 0o755))
			s.plugstack(s.line(soon, "core="+path))
		}, false},
		{"core is another library", func(_ *testing.T, s *site) { s.plugstack(s.line(soon, "core="+filepath.Join(built, "gimbal.so"))) }, false},
		{"core that others may change", func(t *testing.T, s *site) {
			path := filepath.Join(filepath.Dir(s.socket), "open.so")
			data, err := os.ReadFile(core)
			must(t, err)
			must(t, os.WriteFile(path, data, 0o755))
			must(t, os.Chmod(path, 0o777))
			s.plugstack(s.line(soon, "core="+path))
		}, false},
		{"pending folder that is a file", func(t *testing.T, s *site) { must(t, os.WriteFile(s.pending, nil, 0o600)) }, false},
		{"unknown arguments", func(t *testing.T, s *site) { s.plugstack(s.line(soon, "colour=blue", "timeout=later", "junk")) }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSite(t)
			s.plugstack(s.line(soon))
			tc.sabotage(t, s)
			s.timeLikeUsual(func(option ...string) time.Duration {
				if len(option) > 0 {
					_ = os.RemoveAll(s.pending + "/")
				}
				args := append(option, "-n4", "bash", "-c", "echo ran; env | grep GIMBAL_ACTIVE; true")
				r := s.run("srun", args...)
				if strings.Count(r.Stdout, "ran\n") != 4 || strings.Contains(r.Stdout, "ACTIVE") || r.Stderr != "" {
					t.Errorf("%v", r)
				}
				return r.Took
			})
			s.checkLeft(tc.left)
		})
	}
}

// soon is the plugin's own default, under which faults are timed.
const soon = "timeout=1s"

// timeLikeUsual times run with and without --gimbal-pack: at most 1.5 s more.
// The machine may be busy with other things, so that is to hold once in three.
func (s *site) timeLikeUsual(run func(option ...string) time.Duration) {
	s.t.Helper()
	var usual, packed time.Duration
	for range 3 {
		packed = run("--gimbal-pack")
		if packed <= 1500*time.Millisecond {
			return // whatever is usual
		}
		if usual = run(); packed <= usual+1500*time.Millisecond {
			return
		}
	}
	s.t.Errorf("took %v, usually %v", packed, usual)
}

// checkLeft looks for what the plugin left for a daemon to come.
func (s *site) checkLeft(want bool) {
	s.t.Helper()
	var regs []model.Registration
	var exits, ends int
	// srun does not wait for slurmstepd's last hook.
	for deadline := time.Now().Add(patience); want && ends == 0 && time.Now().Before(deadline); {
		pending, bad := wire.ReadPending(s.pending)
		if bad != nil {
			s.t.Fatal(bad)
		}
		regs, exits, ends = nil, 0, 0
		for _, p := range pending {
			switch p.Op {
			case wire.OpRegister:
				regs = append(regs, decode[model.Registration](s.t, p.Request()))
			case wire.OpTaskExit:
				exits++
			case wire.OpStepEnd:
				ends++
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	if want && (len(regs) != 4 || exits != 4 || ends != 1) {
		s.t.Errorf("left: %d registrations, %d exits, %d ends", len(regs), exits, ends)
	}
	for _, r := range regs {
		if r.Proc.Start == 0 || r.Options.Pack != "1" {
			s.t.Errorf("left: %s", as(r))
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func listen(t *testing.T, path string) *net.UnixListener {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	must(t, err)
	return l
}

// accept hands each connection to use until the test ends.
func accept(t *testing.T, s *site, use func(net.Conn)) {
	t.Helper()
	l := listen(t, s.socket)
	var wg sync.WaitGroup
	wg.Go(func() {
		var open []net.Conn
		for {
			conn, err := l.Accept()
			if err != nil {
				break
			}
			use(conn)
			open = append(open, conn)
		}
		for _, conn := range open {
			_ = conn.Close()
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
}

func mute(t *testing.T, s *site) { accept(t, s, func(net.Conn) {}) }

func hangUp(t *testing.T, s *site) { accept(t, s, func(c net.Conn) { _ = c.Close() }) }
