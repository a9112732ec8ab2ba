package policy

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/tests/draw"
)

// TestRoomIsTheModels compares the ledger with the model's own account of a
// GPU's memory, on random nodes with jobs and steps of their own.
func TestRoomIsTheModels(t *testing.T) {
	draw.Check(t, func(t *rapid.T) {
		n := randomNode(t)
		d := NewDecider(&Set{Default: &Policy{}}, Options{})
		d.begin(n, 0)
		for i := range d.views {
			v := &d.views[i]
			for _, s := range v.seats {
				g := &d.gpus[s]
				room, known := d.room(v, g)
				want, ok := n.Room(v.t, g.uuid).Get()
				if known != ok || room != want && ok {
					t.Fatalf("%s on %s: %v %v, the model has %v %v", v.t.ID, g.uuid, room, known, want, ok)
				}
				claim, known := g.claim(v.t).Get()
				wantClaim, ok := v.t.Claim(*g.gpu).Get()
				if known != ok || claim != wantClaim {
					t.Fatalf("claim of %s: %v, the model has %v", v.t.ID, claim, wantClaim)
				}
			}
		}
	})
}

func randomNode(t *rapid.T) *model.Node {
	n := model.NewNode()
	gib := func(name string, most int) model.Reading[model.Bytes] {
		if x := rapid.IntRange(-1, most).Draw(t, name); x >= 0 {
			return model.Known(model.Bytes(x) * model.GiB)
		}
		return model.Unknown[model.Bytes]()
	}
	gpus := []model.GPU{{UUID: "a", Total: model.Known(80 * model.GiB), Reserved: gib("reserved", 2)}, {UUID: "b", Total: gib("total", 80)}}
	n.Look(model.Sample{GPUs: &model.GPUReport{GPUs: gpus}, Foreign: map[string]model.Reading[model.Bytes]{"a": gib("foreign", 20)}}, 0)
	for i := range rapid.IntRange(1, 6).Draw(t, "tenants") {
		id := model.TenantID(fmt.Sprint(i))
		grant := &model.Grant{GPUs: [][]string{{"a"}, {"b"}, {"a", "b"}}[rapid.IntRange(0, 2).Draw(t, "gpus")],
			Terms: model.Terms{Weight: 1, Memory: gib("declared", 40)}}
		if i > 0 && rapid.Bool().Draw(t, "child") { // of a job; a step has no steps
			if p := n.Tenants[rapid.IntRange(0, i-1).Draw(t, "parent")]; p.Parent == "" {
				grant.Parent = p.ID
			}
		}
		_, err := n.Apply(model.Event{Kind: model.EvRegistered, Tenant: id, Grant: grant, Reg: &model.Registration{Proc: model.ProcID{PID: i + 1}}}, 0)
		if err != nil {
			t.Fatal(err)
		}
		tenant := n.Tenant(id)
		if rapid.Bool().Draw(t, "runs") {
			if err := n.Fire(tenant, model.DoRun, model.Reason{}, time.Second); err != nil {
				t.Fatal(err)
			}
		}
		for _, g := range tenant.GPUs {
			if rapid.Bool().Draw(t, "uses") {
				tenant.Use[g] = model.Usage{Procs: 1, Memory: gib("used", 50)}
			}
		}
	}
	return n
}
