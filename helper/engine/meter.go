package engine

import (
	"sort"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// Meter keeps what the GPUs and the tenants took, as a coarse series. Load
// takes one stretch, and says how long the next one is to be at least: whoever
// has to keep the series short asks for longer ones.
type Meter interface {
	Load(l model.Load) (next time.Duration, err error)
}

// loadPeriod is the shortest stretch that a meter is told of.
const loadPeriod = 10 * time.Second

// gauge adds readings up to levels. A reading holds until the next one.
type gauge struct {
	to     Meter
	period time.Duration
	from   time.Duration // start of the stretch
	last   time.Duration // up to which readings have been added
	begun  bool
	blind  bool // the driver could not be read: what was known before says nothing
	gpus   map[string]*gpuSum
	shares map[holder]*tenantSum
}

// holder is a tenant on one GPU.
type holder struct {
	gpu    string
	tenant model.TenantID
}

type gpuSum struct{ used, util sum }
type tenantSum struct{ memory, sm sum }

// sum is a reading over the time in which it was known.
type sum struct {
	known, area, max float64
	gap              bool // for a part it was not known
}

func (s *sum) add(v float64, ok bool, d time.Duration) {
	if !ok || d <= 0 {
		s.gap = s.gap || d > 0
		return
	}
	s.known += d.Seconds()
	s.area += v * d.Seconds()
	s.max = max(s.max, v)
}

// level is the reading's mean. Nothing, where a part is not known, says nothing: a job
// that was paused tells nothing of the time in which it computed.
func (s *sum) level() model.Reading[model.Level] {
	if s.known == 0 || s.gap && s.max == 0 {
		return model.Unknown[model.Level]()
	}
	return model.Known(model.Level{Mean: s.area / s.known, Max: s.max})
}

func newGauge(to Meter) *gauge {
	return &gauge{to: to, period: loadPeriod, gpus: map[string]*gpuSum{}, shares: map[holder]*tenantSum{}}
}

// add counts the readings that held until now. It is called when new ones have
// come, before they are taken in.
func (g *gauge) add(n *model.Node, now time.Duration) {
	switch {
	case !g.begun:
		g.begun, g.from = true, now
	case !g.blind:
		g.count(n, now-g.last)
	}
	g.last = now
}

func (g *gauge) count(n *model.Node, d time.Duration) {
	for i := range n.GPUs {
		gpu := &n.GPUs[i]
		s := g.gpus[gpu.UUID]
		if s == nil {
			s = &gpuSum{}
			g.gpus[gpu.UUID] = s
		}
		used, ok := gpu.Used.Get()
		s.used.add(float64(used), ok, d)
		util, ok := gpu.Util.Get()
		s.util.add(util, ok, d)
	}
	for _, t := range n.Tenants {
		for uuid, u := range t.Use {
			g.countUse(holder{uuid, t.ID}, u, d)
		}
	}
}

func (g *gauge) countUse(h holder, u model.Usage, d time.Duration) {
	memory, ok := u.Memory.Get()
	s := g.shares[h]
	if s == nil {
		if u.Procs == 0 && memory == 0 {
			return // it has nothing there
		}
		s = &tenantSum{}
		g.shares[h] = s
	}
	s.memory.add(float64(memory), ok, d)
	sm, ok := u.SM.Get()
	s.sm.add(sm, ok, d)
}

// tell hands a stretch that is long enough to the meter.
func (g *gauge) tell(n *model.Node, now time.Duration, wall func() time.Time) error {
	if !g.begun || now-g.from < g.period {
		return nil
	}
	l := model.Load{From: wall().Add(g.from - now), Length: now - g.from}
	for i := range n.GPUs {
		l.GPUs = append(l.GPUs, g.gpuLoad(n, &n.GPUs[i]))
	}
	g.from = now
	clear(g.gpus)
	clear(g.shares) // of GPUs that the driver does not show any more
	next, err := g.to.Load(l)
	g.period = max(next, loadPeriod)
	return err
}

// gpuLoad lists the tenants in the order in which they came; those that ended
// within the stretch come last.
func (g *gauge) gpuLoad(n *model.Node, gpu *model.GPU) model.GPULoad {
	l := model.GPULoad{UUID: gpu.UUID, Index: gpu.Index, Name: gpu.Name, Total: gpu.Total}
	if s := g.gpus[gpu.UUID]; s != nil {
		l.Used, l.Util = s.used.level(), s.util.level()
	}
	take := func(id model.TenantID) {
		h := holder{gpu.UUID, id}
		if s := g.shares[h]; s != nil {
			l.Tenants = append(l.Tenants, model.TenantLoad{Tenant: id, Memory: s.memory.level(), SM: s.sm.level()})
			delete(g.shares, h)
		}
	}
	for _, t := range n.Tenants {
		take(t.ID)
	}
	for _, id := range g.left(gpu.UUID) {
		take(id)
	}
	return l
}

// left lists the tenants of a GPU that have not been taken.
func (g *gauge) left(gpu string) []model.TenantID {
	var ids []model.TenantID
	for h := range g.shares {
		if h.gpu == gpu {
			ids = append(ids, h.tenant)
		}
	}
	sort.Slice(ids, func(i, k int) bool { return ids[i] < ids[k] })
	return ids
}
