package fieldlog

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/tests/e2e"
	"github.com/gimbal-hpc/gimbal/tests/simgpu"
	"github.com/gimbal-hpc/gimbal/tests/slurmtest"
)

// faults are the ways in which a driver's calls fail one by one, each on a GPU of its
// own, with what the log says of that GPU; nothing where a reading is merely absent.
var faults = []struct{ what, said string }{
	{"process-util=garbage", "implausible utilisation of a process"},
	{"process-util=unknown", "the utilisation of processes cannot be read"},
	{"utilization=unknown", "the utilisation cannot be read"},
	{"memory-info=unknown", "the memory cannot be read"},
	{"processes=unknown", "the list of processes cannot be read"},
	{"process-memory=not-available", ""},
	{"lost=yes", "lost"},
}

// TestLogStaysShort is DL-07: every call of the driver fails at twenty looks a
// second at seven GPUs, ten thousand looks at a GPU in a long run, a stranger sends
// requests that are refused in a thousand different words, and a packed job comes and
// goes: the log names each cause once, and the changes of state.
func TestLogStaysShort(t *testing.T) {
	s := start(t, e2e.Options{Policies: turns("1s"), GPU: simgpu.Options{GPUs: len(faults)}, Interval: 50 * time.Millisecond})
	job := s.pack(t, "exec "+e2e.Trainer(fmt.Sprintf("--gpus %d --memory 512MiB --seconds 3000", len(faults))), fmt.Sprintf("--gres=gpu:%d", len(faults)))
	s.WaitTenant(job, patience, "RUNNING")
	e2e.Eventually(t, patience, "the job computes", func() bool { return s.computes(job) })
	before := strings.Count(s.Log(), "\n")

	for i, f := range faults {
		s.GPU.Ctl("set", f.what, fmt.Sprintf("gpu=%d", i))
	}
	s.looks(t, slurmtest.Long(10000/len(faults)+1, 20))
	for i, g := range s.GPU.Show().GPUs {
		s.loggedOf(t, g.UUID, faults[i].said)
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

// looks waits until the daemon has looked at all GPUs so often.
func (s *site) looks(t *testing.T, n int) {
	t.Helper()
	enough := s.GPU.Show().Looks + int64(n)
	limit := patience + time.Duration(n)*time.Second
	e2e.Eventually(t, limit, fmt.Sprintf("%d looks at the driver", n), func() bool { return s.GPU.Show().Looks >= enough })
}

// loggedOf waits until the log says something of a GPU.
func (s *site) loggedOf(t *testing.T, uuid, text string) {
	t.Helper()
	e2e.Eventually(t, patience, fmt.Sprintf("gimbald logs %q of %s", text, uuid), func() bool {
		for line := range strings.Lines(s.Log()) {
			if strings.Contains(line, uuid) && strings.Contains(line, text) {
				return true
			}
		}
		return text == ""
	})
}
