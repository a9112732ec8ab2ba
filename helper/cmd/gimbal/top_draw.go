package main

import (
	"fmt"
	"strings"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/report"
)

// topLine is one line of the screen: its text, which part of it has a colour,
// and whether the whole is the chosen one.
type topLine struct {
	text   string
	paint  string // ANSI attributes, "" none
	from   int    // bytes of text that paint holds for
	to     int
	chosen bool
}

func plain(text string) topLine { return topLine{text: text} }

// whole paints all of a line.
func whole(text, paint string) topLine { return topLine{text: text, paint: paint, to: len(text)} }

// ANSI attributes.
const (
	bold    = "1"
	reverse = "7"
	red     = "31"
	green   = "32"
	yellow  = "33"
	cyan    = "36"
)

// lines draws the screen for a terminal of a size, no line wider than it and
// no more of them than fit. A height of 0 is that of a file: everything.
func (s *screen) lines(width, height int) []topLine {
	if s.history != nil && height > 0 {
		return s.drawHistory(width, height)
	}
	body, chosen := s.body(width)
	head := s.head(width)
	if height <= 0 {
		return append(append(head, body...), s.tail(width, maxNews)...)
	}
	room := height - len(head) - 1 // the last line is for the keys
	tail := s.tail(width, min(6, room-len(body)-1))
	body = s.scroll(body, chosen, room-len(tail))
	out := append(head, body...)
	for len(out) < height-1-len(tail) {
		out = append(out, plain(""))
	}
	out = append(out, tail...)
	return append(out, s.foot(width))[:height]
}

// scroll cuts the body to the room so that the chosen line is in it.
func (s *screen) scroll(body []topLine, chosen, room int) []topLine {
	room = max(room, 0)
	if len(body) <= room {
		s.offset = 0
		return body
	}
	if chosen >= 0 {
		s.offset = min(s.offset, chosen)
		s.offset = max(s.offset, chosen-room+1)
	}
	s.offset = min(max(s.offset, 0), len(body)-room)
	return body[s.offset : s.offset+room]
}

func (s *screen) head(width int) []topLine {
	counts := map[string]int{}
	n := 0
	for i := range s.snap.Tenants {
		if v := &s.snap.Tenants[i]; v.State != model.Gone {
			counts[strings.ToLower(v.Word())]++
			n++
		}
	}
	text := fmt.Sprintf("gimbal top: %s %s, %s, %s", s.snap.Node, s.snap.At.In(s.now.Location()).Format("15:04:05"),
		plural(len(s.snap.GPUs), "GPU"), plural(n, "tenant"))
	for _, w := range model.Words() {
		if c := counts[strings.ToLower(w)]; c > 0 {
			text += fmt.Sprintf(", %d %s", c, strings.ToLower(w))
		}
	}
	out := []topLine{whole(fit(text, width), bold)}
	switch {
	case s.trouble != "":
		out = append(out, whole(fit(s.trouble+"; this is what was known "+ago(s.now.Sub(s.snap.At))+" ago", width), red))
	case s.snap.Degraded != "":
		out = append(out, whole(fit("degraded: "+s.snap.Degraded, width), red))
	}
	return out
}

// nameFrom is the width from which the jobs' names are shown.
const nameFrom = 108

// body draws the GPUs with their tenants; chosen is the chosen line, or -1.
func (s *screen) body(width int) (out []topLine, chosen int) {
	chosen = -1
	for _, l := range s.lanes() {
		out = append(out, s.drawGPU(l, width))
		if len(l.tenants) > 0 {
			out = append(out, plain(tenantColumns(width, "JOBID", "USER", "STATE", "MEM", "SM", "TIME", "NAME", "REASON")))
		}
		for i, v := range l.tenants {
			line := s.drawTenant(l, v, width)
			if placeOf(l, i) == s.chosen {
				line.chosen = true
				chosen = len(out)
			}
			out = append(out, line)
		}
	}
	if len(out) == 0 {
		out = append(out, plain("no GPU is known"))
	}
	return out, chosen
}

func (s *screen) drawGPU(l topLane, width int) topLine {
	if l.gpu == nil {
		return whole(fit("on no GPU", width), cyan)
	}
	g := l.gpu
	if g.Fault != "" {
		return whole(fit(fmt.Sprintf("GPU %d %s: %s", g.Index, g.Name, g.Fault), width), red)
	}
	text := fmt.Sprintf("GPU %-2d mem %s %s  util %s %s  %s", g.Index, bar(shareOf(g.Used, g.Total), 14), amounts(g),
		bar(g.Util, 10), percent(g.Util), s.snap.Policies[g.UUID])
	if f, ok := s.snap.Foreign[g.UUID]; ok && f.Or(0) > 0 {
		text += ", foreign " + report.Memory(f.Or(0), 0)
	}
	return whole(fit(text+"  "+g.Name, width), cyan)
}

func shareOf(a, b model.Reading[model.Bytes]) model.Reading[float64] {
	used, ok1 := a.Get()
	total, ok2 := b.Get()
	if !ok1 || !ok2 || total <= 0 {
		return model.Unknown[float64]()
	}
	return model.Known(float64(used) / float64(total))
}

func amounts(g *model.GPU) string {
	used, total := "?", "?"
	if u, ok := g.Used.Get(); ok {
		used = report.Memory(u, 0)
	}
	if t, ok := g.Total.Get(); ok {
		total = report.Memory(t, 0)
	}
	return fmt.Sprintf("%11s", used+"/"+total)
}

// bar draws a share of 0 to 1.
func bar(share model.Reading[float64], width int) string {
	v, ok := share.Get()
	if !ok {
		return "[" + fit(strings.Repeat(" ", width/2-1)+"?", width) + "]"
	}
	n := int(min(max(v, 0), 1)*float64(width) + 0.5)
	return "[" + strings.Repeat("|", n) + strings.Repeat(" ", width-n) + "]"
}

func percent(share model.Reading[float64]) string {
	v, ok := share.Get()
	if !ok {
		return "  ?%"
	}
	return fmt.Sprintf("%3.0f%%", min(max(v, 0), 1)*100)
}

// tenantColumns lays out one line of a tenant, or the heads of the columns.
func tenantColumns(width int, job, user, state, mem, sm, time, name, reason string) string {
	text := "  " + fit(job, 10) + " " + fit(user, 8) + " " + fit(state, 9) + fmt.Sprintf(" %6s %4s %8s ", mem, sm, time)
	if width >= nameFrom {
		text += fit(name, 16) + " "
	}
	return fit(text+reason, width)
}

func (s *screen) drawTenant(l topLane, v *model.View, width int) topLine {
	mem, sm := "-", "-"
	if l.gpu != nil {
		u, ok := v.Use[l.gpu.UUID]
		if m, known := u.Memory.Get(); known && ok {
			mem = report.Memory(m, 0)
		}
		if x, known := u.SM.Get(); known && ok {
			sm = strings.TrimSpace(percent(model.Known(x)))
		}
	}
	name, user, reason := v.Name(), v.Reg.User, v.Reason.Text
	if v.Hidden {
		name, user, reason = "-", "-", ""
	}
	if user == "" && !v.Hidden {
		user = fmt.Sprint(v.Reg.UID)
	}
	line := topLine{text: tenantColumns(width, name, user, v.Word(), mem, sm, s.clock(v), v.Reg.JobName, reason), paint: stateColour(v)}
	line.from = min(len("  ")+len(fit(name, 10))+1+len(fit(user, 8))+1, len(line.text))
	line.to = min(line.from+len(fit(v.Word(), 9)), len(line.text))
	return line
}

func stateColour(v *model.View) string {
	switch {
	case v.Suspended != "":
		return red
	case v.State == model.Running:
		return green
	case v.State.Stopped():
		return yellow
	}
	return ""
}

// tail tells the last that happened.
func (s *screen) tail(width, most int) []topLine {
	out := []topLine{whole(fit("last", width), cyan)}
	for _, n := range s.news {
		if len(out) <= most && s.isUser(n.user, n.uid) {
			out = append(out, plain(fit(n.at.In(s.now.Location()).Format("15:04:05")+" "+n.text, width)))
		}
	}
	if len(out) == 1 || most < 1 {
		return nil
	}
	return out
}

// foot is the last line: what is asked, what was said, or the keys.
func (s *screen) foot(width int) topLine {
	user := s.user
	if user == "" {
		user = "all"
	}
	text := fmt.Sprintf("q quit  s sort: %s  f user: %s  arrows choose  enter history", s.sort, user)
	switch {
	case s.asking:
		text = "user (enter: show, empty: all): " + s.typed + "_"
	case s.message != "":
		text = s.message
	}
	return whole(fit(text, width), reverse)
}

// drawHistory draws a tenant's story.
func (s *screen) drawHistory(width, height int) []topLine {
	var out []topLine
	from := min(s.offset, max(len(s.history)-(height-1), 0))
	for _, l := range s.history[from:min(from+height-1, len(s.history))] {
		out = append(out, plain(fit(l, width)))
	}
	for len(out) < height-1 {
		out = append(out, plain(""))
	}
	text := fmt.Sprintf("line %d of %d  arrows scroll  q back", from+1, len(s.history))
	return append(out, whole(fit(text, width), reverse))[:height]
}
