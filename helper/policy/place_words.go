package policy

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
)

// pace is how fast a tenant is expected to be on a GPU.
type pace struct {
	share   float64 // of its speed alone, its turns included
	guessed bool    // by demands: how fast it is beside the others was not learnt
}

// paceOf is how fast v is while a group computes that it belongs to.
func (d *Decider) paceOf(v *view, group []*view, g *gpuView) pace {
	d.env.t, d.env.mate, d.env.g, d.env.with = v, nil, g, group
	if x := finite(d.env.speedOf(v)); !math.IsNaN(x) {
		return pace{share: x}
	}
	return pace{d.env.speedGuess(), true}
}

// plannedPace is how fast the planner's last member is with its plan.
func (d *Decider) plannedPace(g *gpuView) pace {
	p, last := &d.planner, len(d.planner.members)-1
	for _, s := range p.groups {
		if !s.has(last) {
			continue
		}
		var group []*view
		for ; s != 0; s &= s - 1 {
			group = append(group, p.members[bits.TrailingZeros64(uint64(s))])
		}
		out := d.paceOf(p.members[last], group, g)
		out.share /= float64(len(p.groups))
		return out
	}
	return pace{}
}

// percent is the pace as it is told.
func (p pace) percent() int { return int(math.Round(100 * p.share)) }

// whyPlaced tells of the first offer, and of the second what speaks against it.
func whyPlaced(offers []offer) string {
	first := &offers[0]
	text, rest := first.where(), ofItsSpeed
	if len(first.with) > 0 {
		text, rest = text+first.percentText()+rest, ""
	}
	if len(offers) == 1 {
		return text
	}
	second := &offers[1]
	text += "; next best " + second.where()
	if len(second.with) > 0 {
		text += second.percentText() + rest
	}
	if why := first.beats(second); why != "" {
		text += " (" + why + ")"
	}
	return text
}

// ofItsSpeed says once what a share is of.
const ofItsSpeed = " of its speed alone"

// where names the GPU and who is on it.
func (o *offer) where() string {
	text := "GPU " + o.g.name()
	switch {
	case len(o.with) == 0:
		return text + ", alone"
	case o.turns > 1:
		return text + " in turns with " + o.mates()
	}
	return text + " beside " + o.mates()
}

// percentText says how fast the tenant is expected to be.
func (o *offer) percentText() string {
	if o.guessed {
		return fmt.Sprintf(", at a guess at %d %%", o.percent())
	}
	return fmt.Sprintf(", at about %d %%", o.percent())
}

// mates names who is on the GPU: three of them at most.
func (o *offer) mates() string {
	const most = 3
	var all []string
	for _, v := range o.with[:min(len(o.with), most)] {
		all = append(all, v.name())
	}
	if n := len(o.with) - most; n > 0 {
		all = append(all, fmt.Sprintf("%d more", n))
	}
	last := len(all) - 1
	if last == 0 {
		return all[0]
	}
	return strings.Join(all[:last], ", ") + " and " + all[last]
}

// beats says for what an offer goes before another on which the tenant would be
// no slower, "" where it would: then its speed says it.
func (o *offer) beats(other *offer) string {
	idle, idleThan := -reading(o.g.gpu.Util), -reading(other.g.gpu.Util)
	switch {
	case other.percent() < o.percent():
		return ""
	case highest(o.rank, other.rank) != 0:
		return o.g.p.Name + " ranks it lower"
	case len(o.with) < len(other.with):
		return "more jobs are there"
	case highest(o.gain, other.gain) != 0:
		return "all there together would do less"
	case highest(idle, idleThan) != 0:
		return less(idleThan, "it is busier", "how busy it is is not known")
	case highest(o.free, other.free) != 0:
		return less(other.free, "less memory is free there", "what is free there is not known")
	}
	return "as good"
}

// less is what speaks against a number that is lower, or that is not known.
func less(x float64, lower, unknown string) string {
	if math.IsNaN(x) {
		return unknown
	}
	return lower
}
