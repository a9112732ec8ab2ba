package metrics

import (
	"slices"
	"strconv"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// unknown stands for whatever has no id of its own.
const unknown = "unknown"

// strayKinds are the kinds of processes that belong to no tenant; others count
// as "other".
func strayKinds() []string {
	return []string{model.StrayForeign, model.StrayUnmanaged, model.StrayOrphan, model.StrayGhost, "other"}
}

// gpus fills in the series of each GPU.
func (p *page) gpus(s model.Snapshot) {
	known := map[string]bool{}
	for i := range s.GPUs {
		g := &s.GPUs[i]
		if g.UUID == "" || known[g.UUID] {
			continue // it could not be told from another
		}
		known[g.UUID] = true
		p.gpu(g, s)
	}
	for i := range s.Tenants {
		if v := &s.Tenants[i]; v.Live() {
			p.tenantOnGPUs(v, known)
		}
	}
	for _, stray := range s.Strays {
		kind := stray.Kind
		if !slices.Contains(strayKinds(), kind) {
			kind = "other"
		}
		p.add(gpuStrays, 1, "gpu", gpuLabel(stray.GPU, known), "kind", kind)
	}
}

// gpu fills in what the driver says of one, and zeros for what is counted.
func (p *page) gpu(g *model.GPU, s model.Snapshot) {
	p.set(gpuInfo, 1, "gpu", g.UUID, "index", strconv.Itoa(g.Index), "model", g.Name,
		"parent", g.Parent, "policy", s.Policies[g.UUID])
	p.set(gpuFault, truth(g.Fault != ""), "gpu", g.UUID)
	p.bytes(gpuTotal, g.Total, "gpu", g.UUID)
	p.bytes(gpuUsed, g.Used, "gpu", g.UUID)
	p.bytes(gpuReserved, g.Reserved, "gpu", g.UUID)
	if foreign, ok := s.Foreign[g.UUID]; ok {
		p.bytes(gpuForeign, foreign, "gpu", g.UUID)
	}
	if share, ok := g.Util.Get(); ok {
		p.set(gpuUtilization, share, "gpu", g.UUID)
	}
	for _, state := range liveStates() {
		p.add(gpuTenants, 0, "gpu", g.UUID, "state", state.String())
	}
	p.add(gpuIdle, 0, "gpu", g.UUID)
	for _, kind := range strayKinds() {
		p.add(gpuStrays, 0, "gpu", g.UUID, "kind", kind)
	}
}

// tenantOnGPUs counts a live tenant on the GPUs that it was given.
func (p *page) tenantOnGPUs(v *model.View, known map[string]bool) {
	for _, uuid := range labels(v.GPUs, known) {
		p.add(gpuTenants, 1, "gpu", uuid, "state", v.State.String())
		if known[uuid] && v.State.Computes() && v.Use[uuid].Procs == 0 {
			p.add(gpuIdle, 1, "gpu", uuid)
		}
	}
}

// labels are those of a tenant's GPUs, each once; a tenant that none is known
// of is on the unknown one.
func labels(uuids []string, known map[string]bool) []string {
	var all []string
	for _, uuid := range uuids {
		if l := gpuLabel(uuid, known); !slices.Contains(all, l) {
			all = append(all, l)
		}
	}
	if len(all) == 0 {
		return []string{unknown}
	}
	return all
}

func gpuLabel(uuid string, known map[string]bool) string {
	if known[uuid] {
		return uuid
	}
	return unknown
}

// bytes sets a size that is known.
func (p *page) bytes(metric string, r model.Reading[model.Bytes], labels ...string) {
	if b, ok := r.Get(); ok {
		p.set(metric, float64(b), labels...)
	}
}
