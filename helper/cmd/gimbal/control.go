package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/gimbal-hpc/gimbal/helper/config"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/report"
	"github.com/gimbal-hpc/gimbal/helper/wire"
)

// Bounds of an order that are worth a better word than the daemon's refusal.
const (
	maxFor = 24 * time.Hour
	maxWhy = 500 // bytes
)

// release ends an order; it is no primitive of the lifecycle.
const release model.Primitive = "release"

// order is the command line of the commands that calibrate a job by hand.
type order struct {
	source
	do              model.Primitive
	lapse, why, sig string
	query           model.ControlQuery
	meant           []string // who was meant, by name
	notes           []string // what else the daemon said
}

// orderIntros say what each of the commands does.
func orderIntros() map[model.Primitive]string {
	return map[model.Primitive]string{
		model.PrimPause:  "Pause jobs of this node, until 'gimbal release' or --for: their GPU memory stays.\nOne in its launch is paused at its end (min_run of its policy).\nA paused job's time limit runs on, and NCCL gives up after about two minutes.",
		model.PrimResume: "Let jobs run before all others, until 'gimbal release' or --for; an owner's order ends his pause.",
		model.PrimEvict:  "End jobs kindly: their own signal, a grace, SIGTERM, then requeue through Slurm.",
		model.PrimNotify: "Send jobs a signal; only processes that catch it get it.",
		release:          "End what pause or resume ordered: the policy decides again.",
	}
}

// runOrder makes the command for one primitive.
func runOrder(do model.Primitive) func([]string, world) int {
	return func(args []string, w world) int {
		o := order{do: do}
		return o.run(args, w)
	}
}

func (o *order) set() *pflag.FlagSet {
	f := newFlags(string(o.do))
	if o.do == model.PrimPause || o.do == model.PrimResume {
		f.StringVar(&o.lapse, "for", "", "`time` after which the order lapses, such as 10m; at most 24h")
	}
	if o.do == model.PrimNotify {
		f.StringVar(&o.sig, "signal", "USR1", "`name` or number of the signal")
	}
	if o.do != release {
		f.StringVar(&o.why, "why", "", "`text` that the journal keeps and the job's owner reads")
	}
	o.socketFlag(f)
	return f
}

func (o *order) run(args []string, w world) int {
	f := o.set()
	usage := fmt.Sprintf("Usage: gimbal %s [OPTION]... JOB...\n\n%s\nJOB is 12, 12_3 or 12+1, each with .STEP. For root, operators and a job's owner.\n\n",
		o.do, orderIntros()[o.do])
	var refs []model.JobRef
	check := func() (err error) {
		refs, err = o.read(f.Args())
		return err
	}
	if code, over := parse(f, args, w, usage, check); over {
		return code
	}
	return o.send(refs, w)
}

// read makes the query of the command line.
func (o *order) read(jobs []string) ([]model.JobRef, error) {
	o.query = model.ControlQuery{Do: o.do, Why: o.why}
	if len(jobs) == 0 {
		return nil, errNoJob
	}
	if len(o.why) > maxWhy {
		return nil, fmt.Errorf("--why: at most %d bytes", maxWhy)
	}
	if o.lapse != "" {
		d, err := config.ParseDuration(o.lapse)
		if err == nil && (d == 0 || d > maxFor) {
			err = fmt.Errorf("%q is not a time such as 10m, up to 24h", o.lapse)
		}
		if err != nil {
			return nil, fmt.Errorf("--for: %w", err)
		}
		o.query.For = d
	}
	if o.sig != "" {
		sig, _, err := config.ParseSignal(o.sig)
		if err != nil || strings.Contains(o.sig, "@") {
			return nil, fmt.Errorf("--signal: %q is no signal that a process can catch, such as USR1", o.sig)
		}
		o.query.Signal = sig
	}
	list := strings.Join(jobs, ",")
	refs, err := parseJobs(list)
	return refs, numbersOnly(err, list)
}

// send gives the order for each job and says who was meant.
func (o *order) send(refs []model.JobRef, w world) int {
	c, err := o.dial()
	if err != nil {
		return failure(w, string(o.do), err)
	}
	defer func() { _ = c.Close() }()
	code := exitOK
	for _, ref := range refs {
		o.query.Job = ref
		var r model.ControlReply
		err := c.Call(context.Background(), wire.OpControl, o.query, &r)
		if errors.Is(err, wire.ErrUnreachable) {
			return failure(w, string(o.do), err)
		}
		if err != nil {
			fmt.Fprintf(w.stderr, "gimbal %s: %s: %s\n", o.do, refName(ref), o.refusal(err))
			code = exitFailed
			continue
		}
		if r.Denied > 0 {
			fmt.Fprintf(w.stderr, "gimbal %s: %s of other users left alone\n", o.do, plural(r.Denied, "job"))
		}
		o.meant = append(o.meant, r.Tenants...)
		o.notes = append(o.notes, r.Notes...)
	}
	if len(o.meant) > 0 {
		fmt.Fprintln(w.stdout, report.Printable(o.told()))
	}
	for _, note := range o.notes {
		fmt.Fprintln(w.stdout, report.Printable(note))
	}
	return code
}

// refusal words what the daemon refused so that it helps.
func (o *order) refusal(err error) string {
	var e *wire.Error
	if !errors.As(err, &e) {
		return err.Error()
	}
	switch e.Code {
	case wire.CodeDenied:
		return "denied: " + e.Message
	case wire.CodeNotFound:
		return "not found: " + e.Message + "; 'gimbal status' lists those that do"
	}
	return e.Message
}

// told says what was ordered for whom. The daemon carries it out with its next
// decision.
func (o *order) told() string {
	text := fmt.Sprintf("%s ordered for %s", o.do, strings.Join(o.meant, ", "))
	switch {
	case o.do == release:
		return "released " + strings.Join(o.meant, ", ")
	case o.query.For > 0:
		text += ", lapses in " + config.FormatDuration(o.query.For)
	case o.do == model.PrimPause, o.do == model.PrimResume:
		text += ", until 'gimbal release'"
	}
	return text
}

// refName writes a reference as it would be typed.
func refName(r model.JobRef) string {
	text := model.Registration{JobID: r.Job}.JobLabel()
	switch {
	case r.Task != model.NoVal:
		text += fmt.Sprintf("_%d", r.Task)
	case r.Offset != model.NoVal:
		text += fmt.Sprintf("+%d", r.Offset)
	}
	if r.Step != model.NoVal {
		text += "." + report.StepName(r.Step)
	}
	return text
}
