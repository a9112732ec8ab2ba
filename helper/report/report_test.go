package report

import (
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// TestSharesOfShortJobs: where no stretch of load tells of a job, what is known of
// its life does, as long as the report tells all of that life.
func TestSharesOfShortJobs(t *testing.T) {
	cells := func(c *Course) [][2]string {
		for i := range c.Tenants {
			c.Tenants[i].Tally.SM, c.Tenants[i].Tally.Seen = 4*time.Second, 10*time.Second
			c.Tenants[i].Peak = map[string]model.Bytes{"GPU-aa": 9 * model.GiB, "GPU-bb": 7 * model.GiB}
		}
		var out [][2]string
		for _, r := range NewReport(c).shares().Rows {
			out = append(out, [2]string{r[10], r[11]})
		}
		return out
	}
	level := func(v float64) model.Reading[model.Level] { return model.Known(model.Level{Mean: v, Max: v}) }
	measured := turns(noon, noon.Add(time.Minute))
	measured.Loads = []model.Load{{From: noon, Length: 10 * time.Second, GPUs: []model.GPULoad{{UUID: "GPU-aa",
		Tenants: []model.TenantLoad{{Tenant: "1@1", Memory: level(float64(2 * model.GiB)), SM: level(0.25)}}}}}}
	life, unknown := [2]string{"40 %", "9GiB"}, [2]string{"not known", "not known"}
	for name, c := range map[string]struct {
		course *Course
		want   [2][2]string // of alpha, which runs, and of beta, which has ended
	}{
		"both lives":     {turns(noon, noon.Add(time.Minute)), [2][2]string{life, life}},
		"begun before":   {turns(noon.Add(time.Second), noon.Add(time.Minute)), [2][2]string{unknown, life}},
		"ended after":    {turns(noon, noon.Add(40*time.Second)), [2][2]string{life, unknown}},
		"alpha measured": {measured, [2][2]string{{"25 %", "2GiB"}, life}},
	} {
		if got := cells(c.course); len(got) != 2 || [2][2]string(got) != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
