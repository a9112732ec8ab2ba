package baseline

import (
	"math"

	"github.com/gimbal-hpc/gimbal/helper/sim"
)

// Lucid's sharing labels: how much a job suffers beside others on average, and
// what two of them may add up to.
const (
	tinySpeed   = 0.95 // from here on a job's label is 0
	mediumSpeed = 0.85 // from here on 1, below it 2
	labels      = 3
	mostLabels  = 2
)

// lucid is Lucid's indolent packing (ASPLOS 2023). Tasks wait in the order of
// their GPU time. One goes beside the first task that runs alone on as many
// GPUs, if their labels add up to at most 2, they fit in memory, and its GPU
// time is at most twice the other's; else it takes free GPUs. Nothing is
// preempted, and nothing larger than a node shares.
type lucid struct {
	*slots
	label  []int // of each task
	order  []int // of each task, by when it started
	place  []int // of each task among the hosts of its label
	lines  lines[lucidLine]
	hosts  map[int]*hosts // by GPUs
	starts int
}

// lucidLine is what decides whether a waiting task finds a partner or room.
type lucidLine struct {
	shape
	profile int32
}

// hosts is the tasks that have started, by label, in the order of their starts.
type hosts [labels]struct {
	tasks []*sim.Task
	alone *sim.MaxTree // the GPU time of those that run alone, minus infinity for others
}

func newLucid() sim.Scheduler { return &lucid{} }

func (l *lucid) Start(w *sim.World) {
	l.slots = newSlots(w)
	l.lines = newLines[lucidLine]()
	l.hosts = make(map[int]*hosts)
	byProfile, n := l.labels(), len(w.Tasks)
	l.label, l.order, l.place = make([]int, n), make([]int, n), make([]int, n)
	for i := range w.Tasks {
		l.label[i] = byProfile[l.profile[i]]
	}
}

// mostProfiles bounds how many kinds of jobs a label is the mean over.
const mostProfiles = 1000

// labels is the label of each profile of the trace: by the mean of its speed
// beside each of them with which it can run.
func (l *lucid) labels() map[int32]int {
	seen := make(map[int32]int)
	var tasks []*sim.Task
	for i := range l.w.Tasks {
		if _, ok := seen[l.profile[i]]; !ok {
			seen[l.profile[i]] = 0
			tasks = append(tasks, &l.w.Tasks[i])
		}
	}
	for _, t := range tasks {
		sum, n := 0.0, 0
		for _, o := range tasks[:min(len(tasks), mostProfiles)] {
			if speed, _ := l.pair(t, o); speed > 0 {
				sum += speed
				n++
			}
		}
		seen[l.profile[t.Index]] = labelOf(sum / float64(max(n, 1)))
	}
	return seen
}

func labelOf(speed float64) int {
	switch {
	case speed < mediumSpeed:
		return 2
	case speed < tinySpeed:
		return 1
	}
	return 0
}

// gpuTime is the priority of a task: lower goes first.
func gpuTime(t *sim.Task) float64 { return t.Job.Work() * float64(t.Job.GPUs) }

func (l *lucid) Arrive(t *sim.Task) {
	l.lines.add(lucidLine{shapeOf(t.Job), l.profile[t.Index]}, gpuTime(t), t)
}

func (l *lucid) Finish(t *sim.Task) {
	l.setAlone(t, false)
	if at := l.leave(t); at != nil {
		l.setAlone(at.tasks[0], true)
	}
}

func (l *lucid) Schedule() float64 {
	l.lines.retry()
	for at := l.lines.first(); at != nil; at = l.lines.first() {
		if t := at.waiting[0].task; l.begin(t) {
			at.waiting.pop()
			continue
		}
		at.stuck = true
	}
	l.w.Busy = l.w.Cluster.Used()
	return sim.Never
}

func (l *lucid) begin(t *sim.Task) bool {
	if partner := l.partner(t); partner != nil {
		l.setAlone(partner, false)
		l.join(t, l.of[partner.Index])
		l.started(t)
		return true
	}
	if !l.open(t) {
		return false
	}
	l.started(t)
	l.setAlone(t, true)
	l.lines.retry() // others may go beside it
	return true
}

// partner is the task that started first of those which t may go beside.
func (l *lucid) partner(t *sim.Task) *sim.Task {
	h := l.hosts[t.Job.GPUs]
	if h == nil || !l.mayShare(t) {
		return nil
	}
	var best *sim.Task
	for label := 0; label <= mostLabels-l.label[t.Index]; label++ {
		at, least := &h[label], gpuTime(t)/2
		for i := at.alone.First(0, least); i >= 0; i = at.alone.First(i+1, least) {
			p := at.tasks[i]
			if best != nil && l.order[best.Index] < l.order[p.Index] {
				break
			}
			if speed, _ := l.pair(t, p); speed > 0 {
				best = p
				break
			}
		}
	}
	return best
}

// mayShare says whether a task is small enough to share.
func (l *lucid) mayShare(t *sim.Task) bool {
	return t.Job.GPUs <= l.w.Cluster.PerNode && t.Job.Nodes <= 1
}

// started gives a task its place among those that started before and after it.
func (l *lucid) started(t *sim.Task) {
	l.starts++
	l.order[t.Index] = l.starts
	h := l.hosts[t.Job.GPUs]
	if h == nil {
		h = new(hosts)
		for i := range h {
			h[i].alone = sim.NewMaxTree(0)
		}
		l.hosts[t.Job.GPUs] = h
	}
	at := &h[l.label[t.Index]]
	l.place[t.Index] = len(at.tasks)
	at.tasks = append(at.tasks, t)
	at.alone.Grow(len(at.tasks))
}

// setAlone says whether others may go beside a task that has started.
func (l *lucid) setAlone(t *sim.Task, alone bool) {
	v := math.Inf(-1)
	if alone && l.mayShare(t) {
		v = gpuTime(t)
	}
	l.hosts[t.Job.GPUs][l.label[t.Index]].alone.Set(l.place[t.Index], v)
}
