package model

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gimbal-hpc/gimbal/tests/draw"
)

const (
	gpu0 = "GPU-0"
	sec  = time.Second
)

func testNode() *Node {
	n := NewNode()
	n.Look(Sample{GPUs: &GPUReport{GPUs: []GPU{{UUID: gpu0, Minor: 0, Total: Known(16 * GiB), Reserved: Known(Bytes(0))}}}}, 0)
	return n
}

func register(t *testing.T, n *Node, id TenantID, pid int, mem Reading[Bytes], parent TenantID, now time.Duration) *Tenant {
	t.Helper()
	tn, err := n.Apply(Event{Kind: EvRegistered, Tenant: id,
		Reg:   &Registration{JobID: 1, StepID: 0, Proc: ProcID{PID: pid, Start: 1}},
		Grant: &Grant{Terms: Terms{Class: Guaranteed, Weight: 1, Memory: mem}, GPUs: []string{gpu0}, Parent: parent}}, now)
	if err != nil {
		t.Fatal(err)
	}
	return tn
}

func TestClaimsAndRoom(t *testing.T) {
	n := testNode()
	job := register(t, n, "1@1", 10, Unknown[Bytes](), "", 0)
	if err := n.Fire(job, DoRun, Reason{}, 0); err != nil {
		t.Fatal(err)
	}
	wantBytes(t, "free under a whole-GPU claim", n.Free(gpu0), 0)

	step := register(t, n, "1.0@1", 11, Known(10*GiB), "1@1", 0)
	wantBytes(t, "room of a step inside its job's claim", n.Room(step, gpu0), 16*GiB)
	if err := n.Fire(step, DoRun, Reason{}, 0); err != nil {
		t.Fatal(err)
	}
	second := register(t, n, "1.1@1", 12, Known(10*GiB), "1@1", 0)
	wantBytes(t, "room of the second step", n.Room(second, gpu0), 6*GiB)

	other := register(t, n, "2@1", 13, Known(GiB), "", 0)
	wantBytes(t, "room of another job", n.Room(other, gpu0), 0)
}

func TestUnknownIsNotZero(t *testing.T) {
	n := testNode()
	n.Foreign = map[string]Reading[Bytes]{gpu0: Unknown[Bytes]()}
	if n.Free(gpu0).Known() {
		t.Error("free memory is known although what strangers hold is not")
	}
	if n.Free("GPU-none").Known() {
		t.Error("free memory of a GPU that is not there is known")
	}
}

func TestUseOverTheClaimCounts(t *testing.T) {
	n := testNode()
	a := register(t, n, "1@1", 10, Known(4*GiB), "", 0)
	if err := n.Fire(a, DoRun, Reason{}, 0); err != nil {
		t.Fatal(err)
	}
	n.Look(Sample{Tenants: []TenantSample{{Tenant: a.ID, Procs: 1, Use: map[string]Usage{gpu0: {Procs: 1, Memory: Known(9 * GiB)}}}}}, sec)
	wantBytes(t, "free", n.Free(gpu0), 7*GiB)
	if a.Over != sec || a.Peak[gpu0] != 9*GiB || !a.OnGPU {
		t.Errorf("over since %s, peak %s, on GPU %t", a.Over, a.Peak[gpu0], a.OnGPU)
	}
	n.Look(Sample{Tenants: []TenantSample{{Tenant: a.ID, Procs: 1, Use: map[string]Usage{gpu0: {Procs: 1, Memory: Unknown[Bytes]()}}}}}, 2*sec)
	if a.Over != 0 {
		t.Error("an unknown reading counts as over the limit")
	}
}

func wantBytes(t *testing.T, what string, got Reading[Bytes], want Bytes) {
	t.Helper()
	if v, ok := got.Get(); !ok || v != want {
		t.Errorf("%s: %s (known %t), want %s", what, v, ok, want)
	}
}

func TestSettleAfterAnothersContinue(t *testing.T) {
	n := testNode()
	a := register(t, n, "1@1", 10, Known(GiB), "", 0)
	for _, trig := range []Trigger{DoRun, DoPause} {
		if err := n.Fire(a, trig, Reason{}, 0); err != nil {
			t.Fatal(err)
		}
	}
	a.Action = 7
	apply(t, n, Event{Kind: EvDone, Tenant: a.ID, Action: 7}, sec)
	if a.State != Paused || a.Tally.Pauses != 1 {
		t.Fatalf("state %s after %d pauses", a.State, a.Tally.Pauses)
	}
	apply(t, n, Event{Kind: EvContinued, Tenant: a.ID, Text: "by slurm"}, 3*sec)
	if a.State != Running || a.Settle <= 3*sec || a.Tally.Paused != 2*sec {
		t.Errorf("state %s, settles until %s, paused for %s", a.State, a.Settle, a.Tally.Paused)
	}
}

// TestSlurmsAnswerEndsTheWait: a tenant that somebody continued is left alone
// for longer while Slurm ends it, and no longer once Slurm says that it goes on;
// what a signal gave it stays.
func TestSlurmsAnswerEndsTheWait(t *testing.T) {
	for _, c := range []struct {
		name   string
		code   string
		text   string
		settle time.Duration
	}{
		{"ending", codeContinued, "Slurm is ending the job", 4*time.Second + settleAfterContinue},
		{"goes on", codeContinued, "", 4 * time.Second},
		{"goes on, but a signal came", "signalled", "", 9 * time.Second},
	} {
		x := &Tenant{State: Running, Reason: Reason{Code: c.code}, Settle: 9 * time.Second}
		if x.asked(c.text, 4*time.Second); x.Settle != c.settle {
			t.Errorf("%s: settles until %s, want %s", c.name, x.Settle, c.settle)
		}
	}
}

func TestStaleOutcomeChangesNothing(t *testing.T) {
	n := testNode()
	a := register(t, n, "1@1", 10, Known(GiB), "", 0)
	for _, trig := range []Trigger{DoRun, DoPause} {
		if err := n.Fire(a, trig, Reason{}, 0); err != nil {
			t.Fatal(err)
		}
	}
	a.Action = 8
	apply(t, n, Event{Kind: EvDone, Tenant: a.ID, Action: 7}, sec)
	if a.State != Pausing {
		t.Errorf("the outcome of another action led to %s", a.State)
	}
}

func apply(t *testing.T, n *Node, ev Event, now time.Duration) {
	t.Helper()
	n.Advance(now)
	if _, err := n.Apply(ev, now); err != nil {
		t.Fatal(err)
	}
}

// TestTallyAddsUp runs random histories: the times in all states together are
// always the time since the registration.
func TestTallyAddsUp(t *testing.T) {
	draw.Check(t, func(rt *rapid.T) {
		n := testNode()
		a := register(t, n, "1@1", 10, Known(GiB), "", 0)
		now := time.Duration(0)
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			now += time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(rt, "dt"))
			n.Advance(now)
			trig := rapid.SampledFrom(Triggers()).Draw(rt, "trigger")
			if trig == Ended {
				continue
			}
			_ = n.Fire(a, trig, Reason{}, now) // what the table refuses changes nothing
			if rapid.Bool().Draw(rt, "known") {
				a.Use["GPU-0"] = Usage{SM: Known(rapid.Float64Range(0, 1).Draw(rt, "sm"))}
			} else {
				a.Use["GPU-0"] = Usage{}
			}
			if a.Tally.Seen > a.Tally.Running || a.Tally.SM > a.Tally.Seen {
				rt.Fatalf("%s of work known over %s of %s running", a.Tally.SM, a.Tally.Seen, a.Tally.Running)
			}
			if trig == DoThrottle && a.State == Throttled {
				a.Throttle = Throttle{Share: rapid.Float64Range(LeastShare, 0.99).Draw(rt, "share"), Period: ShortestPeriod}
			}
			sum := a.Tally.Held + a.Tally.Running + a.Tally.Withheld + a.Tally.Paused + a.Tally.Swapped
			if sum != now {
				rt.Fatalf("held %s + running %s + withheld %s + paused %s + swapped %s = %s, but %s have passed",
					a.Tally.Held, a.Tally.Running, a.Tally.Withheld, a.Tally.Paused, a.Tally.Swapped, sum, now)
			}
			if a.State != Throttled && a.Throttle != (Throttle{}) {
				rt.Fatalf("%s, and a throttle of %v is left", a.State, a.Throttle)
			}
		}
	})
}

// TestUtilIsTheMeanWhileItRan: neither pauses, nor times of which nothing is
// known, nor a driver that cannot be read count.
func TestUtilIsTheMeanWhileItRan(t *testing.T) {
	n := testNode()
	a := register(t, n, "1@1", 10, Known(GiB), "", 0)
	if _, ok := a.Tally.Util().Get(); ok {
		t.Error("a share is known of one that has not run")
	}
	fire := func(now time.Duration, trigs ...Trigger) {
		n.Advance(now)
		for _, trig := range trigs {
			if err := n.Fire(a, trig, Reason{}, now); err != nil {
				t.Fatal(err)
			}
		}
	}
	sees := func(sm ...Reading[float64]) {
		a.Use = map[string]Usage{}
		for i, x := range sm {
			a.Use[string(rune('a'+i))] = Usage{SM: x}
		}
	}
	fire(0, DoRun)
	fire(5 * sec)
	sees(Known(1.0), Known(0.5))
	fire(15*sec, DoPause, OpDone)
	fire(25*sec, DoResume, OpDone)
	sees(Known(0.25), Known(0.25))
	fire(35 * sec)
	sees(Known(1.0), Unknown[float64]())
	fire(45 * sec)
	sees(Known(1.0))
	apply(t, n, Event{Kind: EvDegraded, Text: "gone"}, 45*sec)
	fire(55 * sec)
	if u, ok := a.Tally.Util().Get(); !ok || u != 0.5 || a.Tally.Seen != 20*sec {
		t.Errorf("share %v (known: %t) over %s", u, ok, a.Tally.Seen)
	}
}

// TestThrottledCountsForItsShare: of a throttled tenant's time its share counts
// as running, and the rest as withheld; another share is no other throttle.
func TestThrottledCountsForItsShare(t *testing.T) {
	n := testNode()
	a := register(t, n, "1@1", 10, Known(GiB), "", 0)
	a.OnGPU = true
	fire := func(trig Trigger, share float64, at time.Duration) {
		t.Helper()
		n.Advance(at)
		if err := n.Fire(a, trig, Reason{}, at); err != nil {
			t.Fatal(err)
		}
		if a.State == Throttled {
			a.Throttle = Throttle{Share: share, Period: sec}
		}
	}
	fire(DoRun, 1, 0)
	fire(DoThrottle, 0.25, 10*sec)
	fire(DoThrottle, 0.5, 30*sec)
	if a.Since != 10*sec {
		t.Errorf("throttled since %s", a.Since)
	}
	fire(DoPause, 0, 40*sec)
	want := Tally{Running: 20 * sec, Attained: 20 * sec, Throttled: 30 * sec, Withheld: 20 * sec, Throttles: 1}
	if a.Tally != want || a.LastRan != 40*sec || a.Service != 20 {
		t.Errorf("%+v, want %+v; last ran %s, service %g", a.Tally, want, a.LastRan, a.Service)
	}
}

func TestRegisteredTwiceCountsOnce(t *testing.T) {
	n := testNode()
	register(t, n, "1@1", 10, Known(GiB), "", 0)
	a := register(t, n, "1@1", 10, Known(GiB), "", sec)
	if len(a.Workers) != 1 || a.Steps[0].Tasks != 1 {
		t.Errorf("%d workers, %d tasks", len(a.Workers), a.Steps[0].Tasks)
	}
}

// TestSwappedClaimsNothing: a tenant whose memory is in host RAM gives its
// claim up, is admitted again before it is restored, and stays known as one
// that computes on a GPU although the driver does not show it.
// TestWorkersKeepWhatTheyAreTold: what a later daemon must know of each step,
// not of the tenant's first alone.
func TestWorkersKeepWhatTheyAreTold(t *testing.T) {
	n := testNode()
	var tenant *Tenant
	for step := range uint32(2) {
		reg := Registration{JobID: 1, StepID: step, TaskID: 7, PTY: step == 1,
			Proc: ProcID{PID: 10 + int(step), Start: 1}, Stepd: ProcID{PID: 20 + int(step), Start: 1}}
		tn, err := n.Apply(Event{Kind: EvRegistered, Tenant: "1@1", Reg: &reg, Grant: &Grant{GPUs: []string{gpu0}}}, sec)
		if err != nil {
			t.Fatal(err)
		}
		tenant = tn
	}
	want := []Worker{
		{Proc: ProcID{PID: 10, Start: 1}, Stepd: ProcID{PID: 20, Start: 1}, Task: 7, Since: sec},
		{Proc: ProcID{PID: 11, Start: 1}, Stepd: ProcID{PID: 21, Start: 1}, Step: 1, Task: 7, PTY: true, Since: sec},
	}
	if !slices.Equal(tenant.Workers, want) {
		t.Errorf("%+v, want %+v", tenant.Workers, want)
	}
}

func TestSwappedClaimsNothing(t *testing.T) {
	n := testNode()
	a := register(t, n, "1@1", 10, Known(10*GiB), "", 0)
	b := register(t, n, "2@1", 11, Known(10*GiB), "", 0)
	see := func(m Bytes, at time.Duration) {
		procs := 0
		if m > 0 {
			procs = 1
		}
		n.Look(Sample{GPUs: &GPUReport{At: at, GPUs: n.GPUs},
			Tenants: []TenantSample{{Tenant: "1@1", Procs: 1, Use: map[string]Usage{gpu0: {Procs: procs, Memory: Known(m)}}}}}, at)
	}
	fire := func(tn *Tenant, at time.Duration, triggers ...Trigger) {
		t.Helper()
		for _, trig := range triggers {
			if err := n.Fire(tn, trig, Reason{}, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	fire(a, 0, DoRun)
	see(10*GiB, sec)
	b.PassedOver = 3
	fire(a, 2*sec, DoSwap)
	wantBytes(t, "free while it is being swapped", n.Free(gpu0), 6*GiB)
	fire(a, 3*sec, OpDone)
	wantBytes(t, "free once it is swapped", n.Free(gpu0), 16*GiB)
	see(0, 4*sec)
	if !a.OnGPU || a.Admitted {
		t.Errorf("swapped: on GPU %t, admitted %t", a.OnGPU, a.Admitted)
	}
	fire(b, 5*sec, DoRun)
	wantBytes(t, "room of the swapped one", n.Room(a, gpu0), 6*GiB)
	fire(a, 6*sec, DoRestore)
	if !a.Admitted {
		t.Error("restored without being admitted")
	}
	fire(a, 7*sec, OpFailed)
	wantBytes(t, "room after a restore that failed", n.Room(a, gpu0), 6*GiB)
	see(2*GiB, 8*sec)
	wantBytes(t, "free while it uses memory all the same", n.Free(gpu0), 4*GiB)
	wantBytes(t, "its own room then", n.Room(a, gpu0), 6*GiB)
	fire(a, 9*sec, DoRestore, OpDone)
	see(0, 9*sec)
	if !a.OnGPU {
		t.Error("a look from before it was restored took it off its GPU")
	}
	see(0, 10*sec)
	if a.OnGPU {
		t.Error("it left its GPU, and that was not seen")
	}
}

// TestWhateverRunsIsAdmitted: a hold that failed, and a tenant that was adopted
// as running although the journal had not seen it run.
func TestWhateverRunsIsAdmitted(t *testing.T) {
	n := testNode()
	a := register(t, n, "1@1", 10, Known(6*GiB), "", 0)
	for _, trig := range []Trigger{DoHold, OpFailed} {
		if err := n.Fire(a, trig, Reason{}, 0); err != nil {
			t.Fatal(err)
		}
	}
	wantBytes(t, "free beside one whose hold failed", n.Free(gpu0), 10*GiB)
	b := &Tenant{ID: "2@1", State: Running, GPUs: []string{gpu0}, Terms: Terms{Memory: Known(4 * GiB)}}
	apply(t, n, Event{Kind: EvAdopted, Tenant: b.ID, Adopt: b}, sec)
	wantBytes(t, "free beside an adopted one too", n.Free(gpu0), 6*GiB)
	if !b.HasRun || b.FirstRan != sec {
		t.Errorf("has run: %t, first at %s", b.HasRun, b.FirstRan)
	}
	c := &Tenant{ID: "3@1", State: Held, GPUs: []string{gpu0}, Terms: Terms{Memory: Known(4 * GiB)}}
	apply(t, n, Event{Kind: EvAdopted, Tenant: c.ID, Adopt: c}, sec)
	if c.Admitted || c.HasRun {
		t.Error("a held one is admitted by being adopted")
	}
}
