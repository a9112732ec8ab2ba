package faults

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gimbal-hpc/gimbal/helper/journal"
	"github.com/gimbal-hpc/gimbal/helper/model"
)

// alive lists the tasks that live.
func (r *rig) alive() []*task {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.tasks), func(k *task) bool { return !k.alive() })
}

// wantIntent checks, while the daemon stands at a point, that everything it has
// stopped is written down.
func (r *rig) wantIntent() {
	r.t.Helper()
	set, err := journal.LoadStopSet(r.path("run/stopped"))
	if err != nil {
		r.t.Fatal(err)
	}
	written := map[int]bool{}
	frozenJobs := ""
	for _, s := range set.Tenants {
		for _, p := range s.Procs {
			written[p.PID] = true
		}
		frozenJobs += strings.Join(s.Cgroups, " ")
	}
	for _, k := range r.alive() {
		for _, pid := range k.stopped() {
			if !written[pid] && !strings.Contains(frozenJobs, fmt.Sprintf("/job_%d/", k.job)) {
				r.t.Errorf("process %d of job %d is stopped and not written down: %+v", pid, k.job, set.Tenants)
			}
		}
	}
}

// wantRunning checks that, with no daemon, everything runs but what is held.
func (r *rig) wantRunning() {
	r.t.Helper()
	eventually(r.t, patience, "everything runs but what is held", func() bool {
		set, err := journal.LoadStopSet(r.path("run/stopped"))
		if err != nil {
			return false
		}
		held := map[int]bool{}
		for _, s := range set.Tenants {
			for _, p := range s.Procs {
				held[p.PID] = s.Held
			}
		}
		for _, k := range r.alive() {
			for _, pid := range k.stopped() {
				if !held[pid] {
					return false
				}
			}
		}
		return true
	})
}

// wantWhole checks what the next daemon makes of what the last one left.
func (r *rig) wantWhole() {
	r.t.Helper()
	for _, k := range r.tasks {
		if !k.alive() {
			k.wantEnd()
		}
	}
	var wrong string
	settled := func() bool { wrong = r.mismatch(); return wrong == "" }
	for end := time.Now().Add(patience); !settled() && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	if wrong != "" {
		r.t.Error(wrong)
	}
	r.strange.wantUntouched(r.t)
}

// mismatch compares what the daemon says, what the journal says and what the
// processes do; "" if they agree.
func (r *rig) mismatch() string {
	reply := r.status()
	if reply == nil {
		return "the daemon does not answer"
	}
	alive := r.alive()
	views, known := map[uint32]*model.View{}, map[uint32]bool{}
	for i := range reply.Tenants {
		views[reply.Tenants[i].Reg.JobID] = &reply.Tenants[i]
	}
	for _, k := range alive {
		v := views[k.of]
		if v == nil {
			return fmt.Sprintf("job %d lives and is not known", k.job)
		}
		if k.tenant == "" {
			k.tenant = v.ID
		}
		if k.tenant != v.ID {
			return fmt.Sprintf("job %d was tenant %s and is %s", k.job, k.tenant, v.ID)
		}
		if stopped := k.stopped(); v.State.Transient() || v.State.Stopped() != (len(stopped) > 0) {
			return fmt.Sprintf("job %d is %s (%s), and its processes %v are stopped", k.job, v.State, v.Reason.Text, stopped)
		}
		known[k.of] = true
	}
	for job := range views {
		if !known[job] {
			return fmt.Sprintf("job %d has ended and is still known", job)
		}
	}
	return r.replays(reply)
}

// replays compares what the journal adds up to with what the daemon says.
func (r *rig) replays(reply *model.StatusReply) string {
	replayed, err := journal.Replay(r.path("state"), "")
	if err != nil {
		return err.Error()
	}
	said, wrote := map[model.TenantID]string{}, map[model.TenantID]string{}
	for i := range reply.Tenants {
		v := &reply.Tenants[i]
		said[v.ID] = stands(&v.Tenant, v.Order)
	}
	for _, l := range replayed.Live {
		var order *model.Order
		if o, ok := replayed.Orders[l.Tenant.ID]; ok {
			order = &o
		}
		wrote[l.Tenant.ID] = stands(l.Tenant, order)
	}
	if diff := cmp.Diff(wrote, said); diff != "" {
		return "the journal (-) and the daemon (+) differ:\n" + diff
	}
	return ""
}

// stands is how a tenant stands, but for what is measured of it.
func stands(t *model.Tenant, order *model.Order) string {
	text := fmt.Sprintf("%s since %s on %v, admitted %t, exempt %q, suspended %q, throttled %v\ntasks %+v\nsteps %+v\nterms %+v",
		t.State, t.Since, t.GPUs, t.Admitted, t.Exempt, t.Suspended, t.Throttle, t.Workers, t.Steps, t.Terms)
	if order != nil {
		text += fmt.Sprintf("\norder %q of %d until %s", order.Do, order.UID, order.Until)
	}
	return text
}

// finishAll ends every job by its owner's signal: each ends by its own handler,
// stopped or not, and history has each once.
func (r *rig) finishAll() {
	for _, k := range slices.Backward(r.alive()) { // a job's first task is its end
		k.finish()
	}
	eventually(r.t, patience, "nobody is left", r.empty)
	ended, err := journal.Ended(r.path("state"), model.StatusQuery{})
	if err != nil {
		r.t.Fatal(err)
	}
	count := map[uint32]int{}
	for i := range ended {
		count[ended[i].Reg.JobID]++
	}
	for _, k := range r.tasks {
		if n := count[k.of]; n != 1 && k.of == k.job {
			r.t.Errorf("job %d is %d times in the history", k.job, n)
		}
	}
	r.strange.wantUntouched(r.t)
	r.launcher.wantWell()
}
