package fieldlog

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gimbal-hpc/gimbal/tests/e2e"
)

// faults are the ways in which a driver's calls fail one by one, with what
// ends each.
var faults = [][3]string{
	{"process-util", "garbage", "ok"}, {"process-util", "unknown", "ok"}, {"utilization", "unknown", "ok"},
	{"memory-info", "unknown", "ok"}, {"processes", "unknown", "ok"}, {"process-memory", "not-available", "available"},
	{"lost", "yes", "no"},
}

// TestLogStaysShort is DL-07: every call of the driver fails at twenty looks a
// second, a stranger sends requests that are refused in a thousand different
// words, and a packed job comes and goes: the log names each cause once, and
// the changes of state.
func TestLogStaysShort(t *testing.T) {
	s := start(t, e2e.Options{Policies: turns("1s")})
	s.configure(t, replace(t, `interval = "100ms"`, `interval = "50ms"`))
	s.logged(t, "now in force: sample.interval")
	job := s.pack(t, "exec "+e2e.Trainer("--memory 512MiB --seconds 300"))
	s.WaitTenant(job, patience, "RUNNING")
	before := strings.Count(s.Log(), "\n")

	for _, f := range faults {
		s.GPU.Ctl("set", f[0]+"="+f[1])
		s.looks(t, 20)
		s.GPU.Ctl("set", f[0]+"="+f[2])
	}
	s.GPU.Ctl("set", "driver=mismatch")
	s.logged(t, "degraded, no job is stopped: ")
	var junk []string
	for i := range 1000 {
		junk = append(junk, fmt.Sprintf(`{"v":1,"op":"ping","made-up-%d":1}`, i))
	}
	s.askAs(t, stranger, junk...)

	lines := strings.Split(strings.TrimSpace(s.Log()), "\n")[before:]
	if len(lines) > 60 {
		t.Errorf("%d lines for %d causes:\n%s", len(lines), len(faults)+2, strings.Join(lines[:60], "\n"))
	}
	text := strings.Join(lines, "\n")
	for _, want := range []string{"mismatch", fmt.Sprintf("uid %d", stranger)} {
		if !strings.Contains(text, want) {
			t.Errorf("the log does not name %q:\n%s", want, text)
		}
	}
	s.GPU.Ctl("set", "driver=ok")
	s.cancel(t, job)
	s.wantClean(t)
}

// looks waits until the daemon has called the driver's library so many times.
func (s *site) looks(t *testing.T, n uint64) {
	t.Helper()
	calls := func() uint64 { return uint64(s.GPU.Show().Calls) }
	from := calls()
	e2e.Eventually(t, patience, fmt.Sprintf("%d calls of the driver", n), func() bool { return calls() >= from+n })
}
