package journal

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// TestJoinLevel: nothing that was seen for a part of the time says nothing of the part
// that is not known.
func TestJoinLevel(t *testing.T) {
	unknown := model.Unknown[model.Level]()
	for _, c := range []struct{ a, b, want model.Reading[model.Level] }{
		{unknown, unknown, unknown},
		{unknown, level(0, 0), unknown},
		{unknown, level(0, .1), level(0, .1)},
		{unknown, level(.5, .5), level(.5, .5)},
		{level(0, 0), level(0, 0), level(0, 0)},
		{level(0, 0), level(1, 1), level(.5, 1)},
	} {
		for _, got := range []model.Reading[model.Level]{joinLevel(c.a, c.b, time.Second, time.Second), joinLevel(c.b, c.a, time.Second, time.Second)} {
			if d := cmp.Diff(model.Load{GPUs: []model.GPULoad{{Util: c.want}}}, model.Load{GPUs: []model.GPULoad{{Util: got}}}, sameLoads()); d != "" {
				t.Errorf("%v and %v (-want +got):\n%s", c.a, c.b, d)
			}
		}
	}
}
