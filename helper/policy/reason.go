package policy

import (
	"fmt"
	"strings"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// code says why a tenant computes or waits.
type code uint8

const (
	_ code = iota
	turn
	othersTurn
	noPair
	handOver
	slowed
	unslowed
	noRoom
	memoryUnknown
	notAdmitted
	behind
	behindShort
	swapOut
	starving
	breath
	exempt
	suspended
	failed
	signalled
	settling
	young
	ordered
	inFlight
	offGPU
	noGPU
	guarded
	degraded
	faulty
)

// codeNames are the codes for machines.
var codeNames = map[code]string{
	turn: "turn", othersTurn: "turn", noPair: "pair", slowed: "throttle", unslowed: "pair", handOver: "hand-over", noRoom: "memory",
	memoryUnknown: "memory unknown", notAdmitted: "admit", behind: "queue", behindShort: "queue", swapOut: "swap", starving: "max_pause",
	breath: "max_pause", exempt: "exempt", suspended: "suspended", failed: "failed",
	signalled: "signalled", settling: "settling", young: "min_run", ordered: "order",
	inFlight: "in flight", offGPU: "off GPU", noGPU: "no GPU", guarded: "guard", degraded: "degraded", faulty: "degraded",
}

// verdict is what a decision found of a tenant. It becomes words only when
// somebody asks: most decisions change nothing.
type verdict struct {
	code  code
	other *view
	gpu   *gpuView
	guard *Guard
	claim model.Bytes
	room  model.Bytes
}

// needsMemory tells whether it is for memory, or what the admit rule wants,
// that the tenant waits, and not for its turn.
func (w verdict) needsMemory() bool {
	switch w.code {
	case noRoom, memoryUnknown, notAdmitted, behind, behindShort:
		return true
	}
	return false
}

// reason puts the verdict on a tenant into words.
func (d *Decider) reason(v *view) model.Reason {
	return model.Reason{Code: codeNames[v.why.code], Text: d.words(v)}
}

func (d *Decider) words(v *view) string {
	w, p := v.why, v.p
	switch w.code {
	case turn:
		return d.turnWords(v)
	case othersTurn:
		return fmt.Sprintf("turn of %s (%s%s)", w.other.name(), p.Name, d.quantumWords(w.other))
	case handOver:
		return fmt.Sprintf("waits until %s has stopped", w.other.name())
	case noPair:
		return fill(p.Share.PairReason, "not beside {mate} ("+p.Name+")", v, w)
	case slowed:
		return d.slowWords(v)
	case unslowed:
		return fmt.Sprintf("cannot be throttled beside %s, since it computes with several processes or GPUs (%s)", w.other.name(), p.Name)
	case notAdmitted:
		return fill(p.Share.AdmitReason, "not admitted by "+p.Name, v, w)
	case noRoom:
		return fmt.Sprintf("needs %s on GPU %s, %s free%s%s", w.claim, w.gpu.name(), max(w.room, 0), d.holders(v, w.gpu), d.unmovable(v, w.gpu))
	case memoryUnknown:
		return fmt.Sprintf("memory of GPU %s is unknown: one tenant at a time%s", w.gpu.name(), d.holders(v, w.gpu))
	case behind:
		return fmt.Sprintf("waits behind %s, which has waited longest for room on GPU %s", w.other.name(), w.gpu.name())
	case behindShort:
		return fmt.Sprintf("waits behind %s, which needs room on GPU %s", w.other.name(), w.gpu.name())
	case swapOut:
		return d.swapWords(v)
	case starving, breath:
		return d.starvedWords(v)
	case guarded:
		return d.guardWords(v, w.guard)
	case faulty:
		return fmt.Sprintf("GPU %s cannot be managed: %s", w.gpu.name(), w.gpu.fault(d.n))
	case degraded:
		return "Gimbal manages nothing now: " + d.n.Degraded
	}
	return d.standWords(v)
}

// standWords says why a tenant is left as it is, whoever is beside it.
func (d *Decider) standWords(v *view) string {
	switch v.why.code {
	case exempt:
		return "never stopped: " + v.t.Exempt
	case suspended:
		return "stopped by another: " + v.t.Suspended
	case failed:
		return fmt.Sprintf("left alone for %s after a failure", short(v.t.Retry-d.now))
	case signalled:
		return "let go on to take " + v.t.Signalled
	case settling:
		return fmt.Sprintf("left alone for %s: somebody else continued or signalled it", short(v.t.Settle-d.now))
	case young:
		return fmt.Sprintf("not stopped in the first %s after a launch, for %s more", short(v.p.Limits.MinRun), short(d.youngUntil(v)-d.now))
	case ordered:
		o := d.n.Orders[v.t.ID]
		return strings.TrimSuffix(fmt.Sprintf("%s ordered by %s: %s", o.Do, o.By(), o.Why), ": ")
	case offGPU:
		return "computes nothing on a GPU, takes no turn"
	case noGPU:
		return "has no shared GPU"
	}
	return ""
}

// turnWords say that a tenant runs; of turns only where there are any.
func (d *Decider) turnWords(v *view) string {
	for _, s := range v.seats {
		if d.gpus[s].p.Share.Together > 0 {
			return fmt.Sprintf("its turn (%s%s)", v.p.Name, d.quantumWords(v))
		}
	}
	return fmt.Sprintf("there is room (%s)", v.p.Name)
}

func (d *Decider) starvedWords(v *view) string {
	switch {
	case v.t.State == model.Held:
		return fmt.Sprintf("was held for max_hold, %s", short(v.p.Limits.MaxHold))
	case v.t.State == model.Swapped:
		return fmt.Sprintf("was swapped for max_swap, %s: runs at least %s", short(v.p.Limits.MaxSwap), short(d.stay(v)))
	case v.m.breath && v.m.starved == model.Held:
		return fmt.Sprintf("was held for max_hold, %s: runs at least %s", short(v.p.Limits.MaxHold), short(v.m.stay))
	case v.m.breath && v.m.stay > v.p.Limits.Breath:
		return fmt.Sprintf("was restored out of turn: runs at least %s", short(v.m.stay))
	}
	return fmt.Sprintf("was paused for max_pause, %s: runs at least %s", short(v.maxPause()), short(v.p.Limits.Breath))
}

func (d *Decider) guardWords(v *view, g *Guard) string {
	if g.Say == "" {
		return g.Name
	}
	return fill(g.Say, "", v, verdict{})
}

func (d *Decider) quantumWords(v *view) string {
	if v == nil || v.quantum == 0 {
		return ""
	}
	return ", quantum " + short(v.quantum)
}

// name is the tenant's, or "another" where it is not known.
func (v *view) name() string {
	if v == nil {
		return "another"
	}
	return v.t.Name()
}

// fill puts names into a text of the policy's.
func fill(text, def string, v *view, w verdict) string {
	if text == "" {
		text = def
	}
	gpu := ""
	if w.gpu != nil {
		gpu = w.gpu.name()
	}
	return strings.NewReplacer("{tenant}", v.name(), "{mate}", w.other.name(), "{gpu}", gpu).Replace(text)
}

// holders names those that hold the memory of a GPU, the first three of them.
func (d *Decider) holders(v *view, g *gpuView) string {
	var names []string
	for _, o := range g.pack {
		if o != v && o.holds() && o != v.parent {
			names = append(names, o.name())
		}
	}
	if len(names) == 0 {
		return outside(d.foreign(g.uuid))
	}
	more := ""
	if n := len(names) - 3; n > 0 {
		names, more = names[:3], fmt.Sprintf(" and %d more", n)
	}
	return ": waits for " + strings.Join(names, ", ") + more
}

// outside tells of memory that no tenant holds.
func outside(foreign model.Reading[model.Bytes]) string {
	if m, ok := foreign.Get(); ok && m > 0 {
		return fmt.Sprintf(": %s is used outside Gimbal", m)
	}
	return ""
}

// short writes a time with two or three digits: "30s", "1.5s", "1m30s".
func short(t time.Duration) string {
	switch {
	case t < time.Second:
		t = t.Round(time.Millisecond)
	case t < time.Minute:
		t = t.Round(100 * time.Millisecond)
	default:
		t = t.Round(time.Second)
	}
	s := t.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// name is what people call the GPU: Slurm's number, else the driver's, else
// its UUID.
func (g *gpuView) name() string {
	switch {
	case g.gpu == nil || g.gpu.MIG:
		return g.uuid
	case g.gpu.Minor >= 0:
		return fmt.Sprint(g.gpu.Minor)
	}
	return fmt.Sprint(g.gpu.Index)
}
