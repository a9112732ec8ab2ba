package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// live makes a tenant on a GPU of the node at noon.
func live(job uint32, s model.State, claim, used model.Bytes, admitted bool) model.View {
	t := tenant(job, "x", 1001, 0)
	t.State, t.Admitted, t.HasRun, t.OnGPU = s, admitted, admitted, used > 0
	t.Terms.Memory = model.Known(claim)
	t.Use = map[string]model.Usage{"GPU-aa": {Memory: model.Known(used)}}
	v := model.ViewAt(t, noon, time.Hour)
	v.SinceWall = noon.Add(-10 * time.Second)
	return v
}

// TestWhatWouldLetItRun: a tenant that waits is told whose end, or turn's end, or
// whose order it waits for.
func TestWhatWouldLetItRun(t *testing.T) {
	const gib = model.GiB
	anothers := model.View{Hidden: true}
	anothers.State, anothers.GPUs, anothers.Use = model.Running, []string{"GPU-aa"}, map[string]model.Usage{"GPU-aa": {Memory: model.Known(4 * gib)}}
	turn := live(2, model.Running, 4*gib, gib, true)
	turn.Reason.Text = "its turn (timeslice, quantum 30s)"
	ordered := live(1, model.Paused, gib, gib, true)
	ordered.Order, ordered.OrderEnds = &model.Order{Do: model.PrimPause, User: "ann", Why: "a demo"}, noon.Add(time.Minute)
	guarded := live(1, model.Paused, gib, 2*gib, true)
	guarded.Reason = model.Reason{Code: "guard", Text: "1 uses more GPU memory than it declared"}
	running := live(1, model.Running, gib, gib, true)
	running.Order = &model.Order{Do: model.PrimPause, UID: 7}
	bears := live(1, model.Running, gib, gib, true)
	bears.Terms.MaxPause, bears.Reg.Options.MaxPause = 30*time.Second, "30s"
	spared := live(1, model.Running, gib, gib, true)
	spared.Terms.MaxPause, spared.Reg.Options.MaxPause = 20*time.Second, "30s"
	for name, c := range map[string]struct {
		v      model.View
		others []model.View
		want   string
	}{
		"one of two": {live(1, model.Held, 6*gib, 0, false), []model.View{live(2, model.Running, 8*gib, 3*gib, true), live(3, model.Paused, 5*gib, 5*gib, true)},
			"On GPU 0 it needs 6GiB; 3GiB of 16GiB can be had.\n  2 (RUNNING) may count on 8GiB and uses 3GiB.\n  3 (PAUSED) may count on 5GiB and uses 5GiB.\n  It fits once 2 or 3 ends."},
		"several": {live(1, model.Held, 12*gib, 0, false), []model.View{live(2, model.Running, 8*gib, 3*gib, true), anothers},
			"On GPU 0 it needs 12GiB; 4GiB of 16GiB can be had.\n  2 (RUNNING) may count on 8GiB and uses 3GiB.\n  another's job (RUNNING) may count on 4GiB and uses 4GiB.\n  It fits once 2 ends."},
		"both": {live(1, model.Held, 15*gib, 0, false), []model.View{live(2, model.Running, 8*gib, 3*gib, true), anothers},
			"On GPU 0 it needs 15GiB; 4GiB of 16GiB can be had.\n  2 (RUNNING) may count on 8GiB and uses 3GiB.\n  another's job (RUNNING) may count on 4GiB and uses 4GiB.\n  It fits once several of 2, another's job end."},
		"a turn, held": {live(1, model.Held, 6*gib, 0, false), []model.View{turn, live(3, model.Held, 2*gib, 0, false)},
			"Now on GPU 0: 2 (its turn ends in 20s at the latest)."},
		"a turn, paused": {live(1, model.Paused, 6*gib, 6*gib, true), []model.View{turn, live(3, model.Paused, 2*gib, gib, true)},
			"Now on GPU 0: 2 (its turn ends in 20s at the latest); waiting as well: 3."},
		"an order":   {ordered, []model.View{turn}, "ann ordered: pause, until 12:01:00 or 'gimbal release 1': a demo"},
		"not yet":    {running, nil, "user 7 ordered: pause, until 'gimbal release 1'\nIt is not paused yet, for the reason above."},
		"its pause":  {bears, nil, "A pause of it lasts 30s at most, as it asked for."},
		"a rule's":   {spared, nil, "A pause of it lasts 20s at most, as its site says."},
		"no daemon":  {live(1, model.Held, 6*gib, 0, false), nil, ""},
		"a guard":    {guarded, []model.View{turn}, ""},
		"it runs on": {live(1, model.Running, 6*gib, gib, true), []model.View{turn}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			node := model.Snapshot{At: noon, GPUs: gpus(), Tenants: append(c.others, c.v)}
			if name == "no daemon" {
				node = model.Snapshot{}
			}
			x := explanation{v: &c.v, reply: &model.RecordsReply{}, node: &node, loc: noon.Location()}
			if d := cmp.Diff(c.want, strings.Join(x.now()[1:], "\n")); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
}

// TestWhoseItIs: a user whom this host does not know is told by number.
func TestWhoseItIs(t *testing.T) {
	for _, c := range []struct {
		user string
		uid  uint32
		want string
	}{{"ann", 7, "1 x, user ann, GPU GPU-aa"}, {"", 7, "1 x, user 7, GPU GPU-aa"}, {"", 0, "1 x, GPU GPU-aa"}} {
		v := live(1, model.Running, model.GiB, model.GiB, true)
		v.Reg.User, v.Reg.UID = c.user, c.uid
		x := explanation{v: &v, reply: &model.RecordsReply{}, node: &model.Snapshot{At: noon, GPUs: gpus()}, loc: noon.Location()}
		if got := x.title(); got != c.want {
			t.Errorf("%q, %d: %s, want %s", c.user, c.uid, got, c.want)
		}
	}
}
