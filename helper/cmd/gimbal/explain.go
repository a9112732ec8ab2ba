package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/gimbal-hpc/gimbal/helper/config"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/report"
	"github.com/gimbal-hpc/gimbal/helper/wire"
)

const explainUsage = `Usage: gimbal explain [OPTION]... JOB...

Tell in words what happened to a job on this node, and why, and what it waits
for now. JOB is 12, 12_3 or 12+1, each with .STEP; or a job's name, for the
newest one of that name.

`

type explainFlags struct {
	source
	last int
}

func (e *explainFlags) set() *pflag.FlagSet {
	f := newFlags("explain")
	f.IntVarP(&e.last, "last", "n", 40, "only the last `number` of entries; 0: all")
	e.flags(f)
	return f
}

func runExplain(args []string, w world) int {
	var e explainFlags
	f := e.set()
	check := func() error {
		switch {
		case f.NArg() == 0:
			return errNoJob
		case e.last < 0:
			return errors.New("the number of entries is below 0")
		}
		return nil
	}
	if code, over := parse(f, args, w, explainUsage, check); over {
		return code
	}
	refs, label, err := e.called(strings.Join(f.Args(), ","), "explain", w)
	if err != nil {
		return badJobs(w, "explain", err)
	}
	r, node, note, err := e.story(refs, w.now())
	if err != nil && note == "" {
		return failure(w, "explain", err)
	}
	if len(r.Tenants) == 0 {
		return failure(w, "explain", e.notKnown(label, err))
	}
	code := exitFor(e.sayWhere(w, "explain", note, err))
	var b strings.Builder
	for i := range r.Tenants {
		x := explanation{v: &r.Tenants[i], reply: &r, node: &node, loc: w.now().Location(), last: e.last}
		x.write(&b)
	}
	if _, err = io.WriteString(w.stdout, b.String()); err != nil {
		return failure(w, "explain", err)
	}
	return code
}

// story gets what befell some jobs, and how the node is now. An error with a note
// comes with what is on disk.
func (e *explainFlags) story(refs []model.JobRef, now time.Time) (r model.RecordsReply, node model.Snapshot, note string, err error) {
	q := model.RecordsQuery{StatusQuery: model.StatusQuery{Jobs: refs}}
	if !e.offline {
		r, err = e.records(q)
		if err == nil {
			if snap, serr := e.fromDaemon(model.StatusQuery{Start: now}); serr == nil {
				node, r.GPUs = snap, snap.GPUs
			}
		}
		if !errors.Is(err, wire.ErrUnreachable) {
			return r, node, "", err
		}
	}
	disk := e.source
	disk.offline = true
	_, note, derr := disk.fromDisk(model.StatusQuery{Start: now}, now)
	if derr == nil {
		r, derr = disk.records(q)
	}
	switch {
	case derr == nil:
		return r, node, note, err
	case e.offline:
		return r, node, "", derr
	}
	return r, node, "", err
}

// explanation tells one tenant's life.
type explanation struct {
	v     *model.View
	reply *model.RecordsReply
	node  *model.Snapshot // now; nobody is on it where the daemon does not answer
	loc   *time.Location
	last  int
}

func (x *explanation) write(w *strings.Builder) {
	fmt.Fprintln(w, x.title())
	lines := x.lines()
	if x.last > 0 && len(lines) > x.last {
		fmt.Fprintf(w, "  (%d earlier entries are left out; --last 0 shows all)\n", len(lines)-x.last)
		lines = lines[len(lines)-x.last:]
	}
	day := ""
	for _, l := range lines {
		if d := l.at.In(x.loc).Format("2006-01-02"); d != day {
			day = d
			fmt.Fprintf(w, "  %s\n", day)
		}
		fmt.Fprintf(w, "  %s %s\n", l.at.In(x.loc).Format("15:04:05"), report.Printable(l.text))
	}
	for _, l := range x.now() {
		fmt.Fprintf(w, "%s\n", report.Printable(l))
	}
}

func (x *explanation) title() string {
	v := x.v
	text := v.Name()
	if v.Reg.JobName != "" {
		text += " " + v.Reg.JobName
	}
	if user := v.Reg.UserLabel(); user != "" {
		text += ", user " + user
	}
	if len(v.GPUs) > 0 {
		text += ", GPU " + x.gpus()
	}
	if v.Reg.Restart > 0 {
		text += fmt.Sprintf(", restart %d", v.Reg.Restart)
	}
	return report.Printable(text)
}

func (x *explanation) gpus() string {
	s := model.Snapshot{GPUs: x.reply.GPUs, Tenants: []model.View{*x.v}}
	cols, err := report.ParseFormat("GPUs")
	rows := report.Rows(&s, report.Selection{Allocations: true}, report.Style{})
	if err != nil || len(rows) == 0 {
		return ""
	}
	return cols[0].Value(&rows[0])
}

// told is one line of the story.
type told struct {
	at     time.Time
	text   string
	action uint64
	do     model.Primitive
}

// lines puts the tenant's entries into words. The outcome of an action is told
// where the action is.
func (x *explanation) lines() []told {
	var out []told
	byAction := map[uint64]int{}
	steps := map[uint32]int{} // where the launch of a step is told
	launched := map[uint32]int{}
	ran := false
	for _, e := range x.reply.Entries {
		if e.Tenant != x.v.ID && e.Tenant != "" || e.Tenant == "" && !x.alive(e.Wall) {
			continue
		}
		if i, ok := byAction[e.Action]; ok && e.Action != 0 && e.Event != "" {
			out[i].text = outcome(out[i], e)
			continue
		}
		if e.Event == model.EvRegistered {
			launched[e.Step]++
			text := fmt.Sprintf("step %s: %s launched", report.StepName(e.Step), plural(launched[e.Step], "task"))
			if i, ok := steps[e.Step]; ok {
				out[i].text = text
				continue
			}
			steps[e.Step] = len(out)
			out = append(out, told{at: e.Wall, text: text})
			continue
		}
		if e.Do == model.PrimResume && e.Event == "" && !ran {
			e.Do = model.PrimRun // what was held has not run before
		}
		ran = ran || e.Do == model.PrimRun && e.Event == ""
		text := entryText(e)
		if text == "" {
			continue
		}
		if e.Action != 0 && e.Event == "" {
			byAction[e.Action] = len(out)
		}
		out = append(out, told{at: e.Wall, text: text, action: e.Action, do: e.Do})
	}
	return out
}

// alive tells whether something that befell the node befell the tenant.
func (x *explanation) alive(t time.Time) bool {
	return !t.Before(x.v.Start) && (x.v.End.IsZero() || !t.After(x.v.End))
}

func because(text string, why model.Reason) string {
	switch {
	case why.Text != "":
		return text + ": " + why.Text
	case why.Code != "":
		return text + ": " + why.Code
	}
	return text
}

// entryText is an entry in words, "" where it tells nothing.
func entryText(e model.Entry) string {
	if e.Event == "" {
		return actionText(e)
	}
	switch e.Event {
	case model.EvAdopted:
		return "taken over by a new gimbald"
	case model.EvTaskExit:
		return taskExitText(e)
	case model.EvStepEnd:
		return fmt.Sprintf("step %s ended", report.StepName(e.Step))
	case model.EvFailed:
		return "an action failed and was undone: " + e.Text
	case model.EvContinued:
		return because("continued by somebody else", model.Reason{Text: e.Text})
	case model.EvAsked:
		if e.Text == "" {
			return "Slurm says that the job goes on: it may be stopped again"
		}
		return "left alone: " + e.Text
	case model.EvSuspended:
		return "stopped by somebody else: " + e.Text
	case model.EvUnstopped:
		return "somebody else's stop ended"
	case model.EvMoved:
		return "computes on other GPUs than it was given, and takes its turns there"
	case model.EvCredited:
		return e.Text
	case model.EvSignalled:
		return "a signal waits for it: " + e.Text
	case model.EvEnded:
		return "ended: no process is left"
	case model.EvOrder:
		return orderText(e)
	case model.EvDegraded:
		return "the node cannot be managed: " + e.Text
	case model.EvRecovered:
		return "the node can be managed again"
	case model.EvStarted:
		return "gimbald started"
	case model.EvStopped:
		return "gimbald stopped"
	case model.EvPolicy:
		return because("policies were loaded", model.Reason{Text: e.Text})
	}
	return ""
}

func actionText(e model.Entry) string {
	word := map[model.Primitive]string{
		model.PrimRun: "let run", model.PrimHold: "held", model.PrimThrottle: "throttled", model.PrimPause: "paused", model.PrimResume: "resumed",
		model.PrimSwap: "swapped out", model.PrimRestore: "swapped in", model.PrimNotify: "notified",
		model.PrimEvict: "evicted", model.PrimWarn: "warning",
	}[e.Do]
	if word == "" {
		return ""
	}
	return because(word, e.Why)
}

// outcome adds to an action's line how it ended.
func outcome(act told, e model.Entry) string {
	text := act.text
	switch e.Event {
	case model.EvFailed:
		if act.do == model.PrimNotify {
			return text + " - nobody heard it: " + e.Text
		}
		return text + " - this failed and was undone: " + e.Text
	case model.EvDone:
		if e.Took >= 10*time.Millisecond {
			return text + fmt.Sprintf(" (took %s)", e.Took.Round(time.Millisecond))
		}
	}
	return text
}

func taskExitText(e model.Entry) string {
	if e.Status == 0 {
		return "" // the step's end tells it
	}
	if sig := e.Status & 0x7f; sig != 0 {
		return fmt.Sprintf("a task of step %s was killed by signal %d", report.StepName(e.Step), sig)
	}
	return fmt.Sprintf("a task of step %s exited with %d", report.StepName(e.Step), e.Status>>8&0xff)
}

func orderText(e model.Entry) string {
	if e.Do == "" || e.Do == release {
		return e.Who + " ended the order"
	}
	text := fmt.Sprintf("%s ordered: %s", e.Who, e.Do)
	if e.For > 0 {
		text += " for " + config.FormatDuration(e.For.Round(time.Second))
	}
	return because(text, model.Reason{Text: e.Text})
}

// now tells how the tenant stands and what would let it run.
func (x *explanation) now() []string {
	v := x.v
	lines := []string{}
	if v.Terms.Placed != "" {
		lines = append(lines, "Gimbal chose "+v.Terms.Placed+".")
	}
	if v.State == model.Gone {
		return append(lines, fmt.Sprintf("Ended after %s as %s; computed %s, held %s, paused %s (%s).", ago(v.Elapsed), v.Word(),
			report.Duration(v.Tally.Running), report.Duration(v.Tally.Held), report.Duration(v.Tally.Paused), plural(v.Tally.Pauses, "pause")))
	}
	since := v.Start.Add(v.Elapsed).Sub(v.SinceWall)
	lines = append(lines, because(fmt.Sprintf("Now %s, for %s", v.Word(), ago(since)), v.Reason))
	lines = append(lines, x.ordered()...)
	if v.State.Stopped() || v.State == model.Holding {
		lines = append(lines, x.wouldRun()...)
	}
	lines = append(lines, x.paused()...)
	for _, n := range v.Terms.Notes {
		lines = append(lines, "Of what it asked for: "+n)
	}
	return lines
}
