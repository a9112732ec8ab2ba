package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/policy"
)

// BenchmarkStep is one turn of a node of 8 GPUs with 64 tenants, on each of
// which a fresh sample has come.
func BenchmarkStep(b *testing.B) {
	p, err := policy.Parse("timeslice.toml", []byte("name = \"timeslice\"\nobjective = \"turns\"\n[share]\ntogether = 1\nquantum = \"30s\"\n"))
	if err != nil {
		b.Fatal(err)
	}
	w := &world{}
	e := New(model.NewNode(), Parts{Source: w, Actuator: w, Journal: w,
		Meter: &shelf{}, Decider: policy.NewDecider(&policy.Set{Default: p}, policy.Options{}), Wall: func() time.Time { return time.Unix(0, 0) }})
	sample := fullNode(w)
	e.Step(0)
	now := time.Second
	b.ReportAllocs()
	for b.Loop() {
		now += time.Millisecond
		w.sample = sample
		e.Step(now)
		w.done, w.records = w.done[:0], w.records[:0]
	}
}

// fullNode registers 64 tenants on 8 GPUs and returns a sample of all of them.
func fullNode(w *world) model.Sample {
	report := &model.GPUReport{}
	s := model.Sample{GPUs: report, Foreign: map[string]model.Reading[model.Bytes]{}}
	for g := range 8 {
		report.GPUs = append(report.GPUs, model.GPU{UUID: fmt.Sprintf("GPU-%d", g), Minor: g,
			Total: model.Known(80 * model.GiB), Reserved: model.Known(model.GiB)})
	}
	for i := range 64 {
		id, gpu := model.TenantID(fmt.Sprintf("%d@1", i)), report.GPUs[i%8].UUID
		ev := registered(id)
		ev.Reg.Proc.PID = 100 + i
		ev.Grant.GPUs = []string{gpu}
		ev.Grant.Terms.Memory = model.Known(8 * model.GiB)
		w.news(ev)
		s.Tenants = append(s.Tenants, model.TenantSample{Tenant: id, Procs: 4, Busy: true,
			Use: map[string]model.Usage{gpu: {Procs: 1, Memory: model.Known(6 * model.GiB), SM: model.Known(0.5)}}})
	}
	return s
}
