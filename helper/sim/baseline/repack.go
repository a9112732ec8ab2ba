package baseline

import "github.com/gimbal-hpc/gimbal/helper/sim"

// repack places all tasks anew at each moment, in the order of a key: whoever
// does not fit waits, and later ones may fit. It is how the published
// simulators run SRTF and SRSF.
type repack struct {
	w     *sim.World
	key   func(*sim.Task) float64 // lowest first
	order []keyed                 // all tasks that are there
	full  map[shape]bool          // what found no room at this moment
}

// shape is what a job asks for; where one of a shape finds no room, none does.
type shape struct{ gpus, nodes int }

func shapeOf(j *sim.Job) shape { return shape{j.GPUs, j.Nodes} }

type keyed struct {
	key  float64
	task *sim.Task
}

func newRepack(key func(*sim.Task) float64) *repack {
	return &repack{key: key, full: make(map[shape]bool)}
}

func (r *repack) Start(w *sim.World) { r.w = w }

func (r *repack) Arrive(t *sim.Task) {
	r.order = append(r.order, keyed{r.key(t), t})
}

func (r *repack) Finish(t *sim.Task) {
	for i := range r.order {
		if r.order[i].task == t {
			r.order = append(r.order[:i], r.order[i+1:]...)
			return
		}
	}
}

func (r *repack) Schedule() float64 {
	r.sort()
	r.w.Cluster.Reset()
	clear(r.full)
	running := r.w.Running()
	for i := range r.order {
		t := r.order[i].task
		if t.Running() {
			running--
		}
		r.place(t)
		if running == 0 && r.w.Cluster.Used() == r.w.Cluster.GPUs() {
			break
		}
	}
	r.w.Busy = r.w.Cluster.Used()
	return sim.Never
}

// place lets a task run where there is room, and else makes it wait.
func (r *repack) place(t *sim.Task) {
	fits, s := false, shapeOf(t.Job)
	if !r.full[s] {
		t.Nodes = t.Nodes[:0]
		if nodes := r.w.Cluster.Place(t.Job, t.Nodes); nodes != nil {
			t.Nodes, fits = nodes, true
		} else {
			r.full[s] = true
		}
	}
	switch {
	case fits && !t.Running():
		r.w.Start(t, t.Solo)
	case fits:
		r.w.Moved(t)
	case t.Running():
		r.w.Stop(t)
	}
}

// sort brings the keys of running tasks up to date and restores the order.
// Few tasks move between two moments, and equal ones keep their order: an
// insertion sort does both.
func (r *repack) sort() {
	r.w.Settle()
	for i := range r.order {
		if t := r.order[i].task; t.Running() {
			r.order[i].key = r.key(t)
		}
	}
	o := r.order
	for i := 1; i < len(o); i++ {
		e, k := o[i], i
		for ; k > 0 && o[k-1].key > e.key; k-- {
			o[k] = o[k-1]
		}
		o[k] = e
	}
}

func remainingTime(t *sim.Task) float64 { return t.Remaining() }

func remainingGPUTime(t *sim.Task) float64 { return t.Remaining() * float64(t.Job.GPUs) }
