package fieldlog

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/tests/e2e"
	"github.com/gimbal-hpc/gimbal/tests/slurmtest"
)

// faults are the ways in which a driver's calls fail one by one, with what ends each,
// and how many calls a look at one GPU with one process makes meanwhile, at most.
var faults = []struct {
	what, how, well string
	calls           int
}{
	{"process-util", "garbage", "ok", 12}, {"process-util", "unknown", "ok", 12}, {"utilization", "unknown", "ok", 12},
	{"memory-info", "unknown", "ok", 12}, {"processes", "unknown", "ok", 12}, {"process-memory", "not-available", "available", 12},
	{"lost", "yes", "no", 3},
}

// TestLogStaysShort is DL-07: every call of the driver fails at twenty looks a
// second, a stranger sends requests that are refused in a thousand different
// words, and a packed job comes and goes: the log names each cause once, and
// the changes of state.
func TestLogStaysShort(t *testing.T) {
	s := start(t, e2e.Options{Policies: turns("1s")})
	s.configure(t, replace(t, `interval = "100ms"`, `interval = "50ms"`))
	s.logged(t, "now in force: sample.interval")
	job := s.pack(t, "exec "+e2e.Trainer("--memory 512MiB --seconds 3000"))
	s.WaitTenant(job, patience, "RUNNING")
	before := strings.Count(s.Log(), "\n")

	for _, f := range faults {
		s.GPU.Ctl("set", f.what+"="+f.how)
		s.looks(t, slurmtest.Long(10000/len(faults)+1, 5), f.calls)
		s.GPU.Ctl("set", f.what+"="+f.well)
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

// looks waits until the daemon has looked at the driver so often, by its calls.
func (s *site) looks(t *testing.T, n, callsEach int) {
	t.Helper()
	calls := func() int { return int(s.GPU.Show().Calls) }
	enough := calls() + n*callsEach
	limit := patience + time.Duration(n)*time.Second
	e2e.Eventually(t, limit, fmt.Sprintf("%d looks at the driver", n), func() bool { return calls() >= enough })
}
