package e2e

import (
	"fmt"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// What lets tests say in which order things happen, so that none rests on how fast a
// machine is.

// slowly is the command line of a trainer that, as the import of a framework does,
// takes longer until it is at the GPU than it takes to hold it.
func slowly(args string) string { return Trainer("--startup 2 " + args) }

// until is an option that makes trainers run until end is called.
func (s *Stack) until(t *testing.T, name string) (option string, end func()) {
	t.Helper()
	file := filepath.Join(s.Out, name)
	return " --until " + file, func() { t.Helper(); s.write(file, "") }
}

// eventuallyShown is Eventually with patience; where it fails, the test's log has
// what was seen last.
func eventuallyShown(t *testing.T, what string, last *string, holds func() bool) {
	t.Helper()
	held := false
	defer func() {
		if !held {
			t.Logf("seen last: %s", *last)
		}
	}()
	Eventually(t, patience, what, holds)
	held = true
}

// tenant is a live tenant by its name, once the daemon knows of it.
func (s *Stack) tenant(t *testing.T, name string) *model.View {
	t.Helper()
	var v *model.View
	Eventually(t, patience, "status shows "+name, func() bool { v = s.Tenant(name); return v != nil })
	return v
}

// waitComputes waits until the trainer of a job's batch step computes: its memory is
// there by then.
func (s *Stack) waitComputes(t *testing.T, job int) {
	t.Helper()
	Eventually(t, patience, fmt.Sprintf("job %d computes", job), func() bool { return s.GPU.Record().Busy(label(job)) > 0 })
}

// waitStates waits until jobs are in these states, all at one moment.
func (s *Stack) waitStates(t *testing.T, want map[int]string) {
	t.Helper()
	Eventually(t, patience, fmt.Sprintf("the jobs are %v", want), func() bool {
		reply, found := s.Status(model.StatusQuery{Start: time.Now()}), 0
		if reply == nil {
			return false
		}
		for i := range reply.Tenants {
			v := &reply.Tenants[i]
			for job, state := range want {
				if v.Name() == fmt.Sprint(job) && v.Word() == state {
					found++
				}
			}
		}
		return found == len(want)
	})
}

// goFirst has these processes, and what they start, run whenever they can until the
// test ends, where that is allowed: what else the machine does is not to be measured.
// Trainers do so by themselves; a script around one does not, and is slow to stop.
func goFirst(t *testing.T, pids ...int) {
	t.Helper()
	set := func(a unix.SchedAttr) {
		for _, pid := range pids {
			threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
			for _, thread := range threads {
				if id, err := strconv.Atoi(filepath.Base(thread)); err == nil {
					_ = unix.SchedSetAttr(id, &a, 0)
				}
			}
		}
	}
	set(unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1})
	t.Cleanup(func() { set(unix.SchedAttr{Size: unix.SizeofSchedAttr}) })
}
