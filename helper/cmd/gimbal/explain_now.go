package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/config"
	"github.com/gimbal-hpc/gimbal/helper/model"
)

// ordered tells of a person's order that is in force.
func (x *explanation) ordered() []string {
	o := x.v.Order
	if o == nil {
		return nil
	}
	text := fmt.Sprintf("%s ordered: %s, until ", o.By(), o.Do)
	if ends := x.v.OrderEnds; !ends.IsZero() {
		text += ends.In(x.loc).Format("15:04:05") + " or "
	}
	text = because(text+"'gimbal release "+x.v.Name()+"'", model.Reason{Text: o.Why})
	if o.Do == model.PrimPause && x.v.State.Runs() {
		return []string{text, "It is not paused yet, for the reason above."}
	}
	return []string{text}
}

// paused tells of a longest pause of the tenant's own.
func (x *explanation) paused() []string {
	most := x.v.Terms.MaxPause
	if most == 0 {
		return nil
	}
	by := "as its site says"
	if asked, err := config.ParsePause(x.v.Reg.Options.MaxPause); err == nil && asked == most {
		by = "as it asked for"
	}
	return []string{fmt.Sprintf("A pause of it lasts %s at most, %s.", config.FormatDuration(most), by)}
}

// wouldRun tells what would let a tenant that waits run now: whose end or turn's
// end, on each of its GPUs. Where a person or a guard stopped it, nobody's would.
func (x *explanation) wouldRun() []string {
	if x.v.Order != nil && x.v.Order.Do == model.PrimPause || x.v.Reason.Code == "guard" {
		return nil
	}
	var out []string
	for i := range x.node.GPUs {
		g := &x.node.GPUs[i]
		if !x.v.Uses(g.UUID) {
			continue
		}
		room := x.room(g)
		if x.v.Admitted || room == nil {
			room = x.turns(g)
		}
		out = append(out, room...)
	}
	return out
}

// room tells what is free on a GPU to be claimed, and who would have to end for a
// tenant that waits for memory; nothing where there is enough.
func (x *explanation) room(g *model.GPU) []string {
	total, ok := g.Total.Get()
	foreign, known := x.foreign(g).Get()
	if !ok || !known {
		return []string{fmt.Sprintf("On GPU %d how much memory is free is not known.", g.Index)}
	}
	free := total - g.Reserved.Or(0) - foreign
	var lines []string
	var holders []*model.View
	for _, o := range x.others(g) {
		if claim := claimOf(o, g); claim > 0 {
			holders = append(holders, o)
			free -= claim
			lines = append(lines, claimText(o, g))
		}
	}
	need, what := x.need(g)
	if need <= free {
		return nil
	}
	text := fmt.Sprintf("On GPU %d it needs %s; %s of %s can be had", g.Index, what, max(free, 0), total)
	if foreign > 0 {
		text += fmt.Sprintf(", as %s is used outside Gimbal", foreign)
	}
	lines = append([]string{text + "."}, lines...)
	if who := enough(g, holders, need-free); who != "" {
		lines = append(lines, "  It fits once "+who+".")
	}
	return lines
}

// claimText says how much of a GPU somebody may count on.
func claimText(o *model.View, g *model.GPU) string {
	text := fmt.Sprintf("  %s (%s) may count on %s", nameOf(o), o.Word(), claimOf(o, g))
	if used, ok := o.Use[g.UUID].Memory.Get(); ok {
		text += fmt.Sprintf(" and uses %s", used)
	}
	return text + "."
}

// enough says whose end would make the room that is missing: of any one that holds
// as much, else of several.
func enough(g *model.GPU, holders []*model.View, missing model.Bytes) string {
	var one, all []string
	sum := model.Bytes(0)
	for _, o := range holders {
		all = append(all, nameOf(o))
		sum += claimOf(o, g)
		if claimOf(o, g) >= missing {
			one = append(one, nameOf(o))
		}
	}
	switch {
	case len(one) > 0:
		return strings.Join(one, " or ") + " ends"
	case sum >= missing:
		return "several of " + strings.Join(all, ", ") + " end"
	}
	return ""
}

// turns tells who computes on a GPU, and for how long still.
func (x *explanation) turns(g *model.GPU) []string {
	var now, waiting []string
	for _, o := range x.others(g) {
		switch {
		case o.State.Stopped() && o.Admitted:
			waiting = append(waiting, nameOf(o))
		case o.State.Runs() && o.OnGPU:
			name := nameOf(o)
			if left, ok := turnLeft(o, x.node.At); ok {
				name += fmt.Sprintf(" (its turn ends in %s at the latest)", config.FormatDuration(left.Round(time.Second)))
			}
			now = append(now, name)
		}
	}
	if len(now) == 0 {
		return nil
	}
	text := fmt.Sprintf("Now on GPU %d: %s", g.Index, strings.Join(now, ", "))
	if len(waiting) > 0 {
		text += "; waiting as well: " + strings.Join(waiting, ", ")
	}
	return []string{text + "."}
}

// others are the live tenants on a GPU but the one that is explained and the job
// that it is a step of.
func (x *explanation) others(g *model.GPU) (out []*model.View) {
	for i := range x.node.Tenants {
		o := &x.node.Tenants[i]
		own := !o.Hidden && (o.ID == x.v.ID || o.ID == x.v.Parent)
		if !own && o.State != model.Gone && o.Uses(g.UUID) {
			out = append(out, o)
		}
	}
	return out
}

func (x *explanation) foreign(g *model.GPU) model.Reading[model.Bytes] {
	if f, ok := x.node.Foreign[g.UUID]; ok {
		return f
	}
	return model.Known(model.Bytes(0))
}

// need is the memory that the tenant asks for on a GPU, and that in words.
func (x *explanation) need(g *model.GPU) (model.Bytes, string) {
	if m, ok := x.v.Terms.Memory.Get(); ok {
		return m, m.String()
	}
	m := g.Total.Or(0) - g.Reserved.Or(0)
	return m, fmt.Sprintf("%s, all of it, as it declared nothing", m)
}

// claimOf is what a tenant may count on; of one that was not admitted, and of another's
// that is not shown, what it uses.
func claimOf(o *model.View, g *model.GPU) model.Bytes {
	if !o.Admitted {
		return o.Use[g.UUID].Memory.Or(0)
	}
	return o.Claim(*g).Or(0)
}

func nameOf(o *model.View) string {
	if o.Hidden {
		return "another's job"
	}
	return o.Name()
}
