package journal

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// TestChangeTellsTheShare: a throttled tenant's share of time is picked out of its
// record, and survives the packing; another share is a change.
func TestChangeTellsTheShare(t *testing.T) {
	p := NewChangePacker()
	for _, share := range []float64{0.25, 0.25, 0.5} {
		b, err := json.Marshal(model.Record{Wall: time.Unix(9, 0), Action: &model.Action{Throttle: model.Throttle{Share: 0.9, Period: time.Second}},
			Tenant: &model.Tenant{ID: "1@1", State: model.Throttled, Throttle: model.Throttle{Share: share, Period: time.Second}}})
		if err != nil {
			t.Fatal(err)
		}
		c, ok := changeOf(b)
		if !ok || c.State != model.Throttled || c.Share != share {
			t.Fatalf("%+v, %t of %s", c, ok, b)
		}
		p.Add(c)
	}
	got := UnpackChanges(p.Text())
	if len(got) != 2 || got[0].Share != 0.25 || got[1].Share != 0.5 || got[1].State != model.Throttled {
		t.Errorf("%+v of %s", got, p.Text())
	}
	for _, bad := range []string{"", "x", "NaN", "-1", "2", "1"} {
		if x := shareOf(bad); x != 0 {
			t.Errorf("%q is a share of %g", bad, x)
		}
	}
}
