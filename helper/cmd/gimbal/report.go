package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/report"
)

const reportUsage = `Usage: gimbal report [OPTION]... [-j JOB]

Tell what the GPUs of this node did in the last 24 hours, or in the life of a
JOB: who computed when, whose the memory was, how busy they were, each job's
share of the time, and what packing gained.

Without --html, --svg or --text it is text where the output is a terminal, else
a page.

`

type reportFlags struct {
	source
	jobs, start, end string
	html, svg        string
	text, ascii      bool
	width            int
}

func (r *reportFlags) set() *pflag.FlagSet {
	f := newFlags("report")
	f.StringVarP(&r.jobs, "jobs", "j", "", "the life of these `jobs`, by number or name, and of all that shared a GPU with them then")
	f.StringVarP(&r.start, "starttime", "S", "", "from this `time` on, in sacct's forms")
	f.StringVarP(&r.end, "endtime", "E", "", "up to this `time`")
	f.StringVar(&r.html, "html", "", "write an offline page to `FILE`; - for standard output")
	f.StringVar(&r.svg, "svg", "", "write the pictures alone to `FILE`; - for standard output")
	f.BoolVar(&r.text, "text", false, "as text")
	f.IntVar(&r.width, "width", 0, "`columns` of the text; 0: those of the terminal")
	f.BoolVar(&r.ascii, "ascii", false, "plain ASCII signs in the text")
	r.flags(f)
	return f
}

func runReport(args []string, w world) int {
	var r reportFlags
	f := r.set()
	var q model.StatusQuery
	check := func() (err error) {
		if q, err = r.query(f.Args(), w.now()); err != nil {
			return err
		}
		return r.apart()
	}
	if code, over := parse(f, args, w, reportUsage, check); over {
		return code
	}
	if f.Changed("jobs") {
		var err error
		if q.Jobs, r.jobs, err = r.called(r.jobs, "report", w); err != nil {
			return badJobs(w, "report", err)
		}
	}
	rep, note, err := r.build(q, w.now())
	switch {
	case errors.Is(err, errNoWindow):
		return wrongUsage(w, "report", err)
	case err != nil && note == "":
		return failure(w, "report", err)
	}
	err = r.sayWhere(w, "report", note, err)
	if werr := r.write(rep, w); werr != nil {
		return failure(w, "report", werr)
	}
	return exitFor(err)
}

// apart refuses what would overwrite gimbald's journal, or be mixed.
func (r *reportFlags) apart() error {
	r.place()
	kept, _ := filepath.Glob(filepath.Join(r.state, "*")) // of a folder that is not there: none
	var inputs []named
	for _, path := range kept {
		inputs = append(inputs, named{"--state-dir", path})
	}
	outputs := []named{{"--html", r.html}, {"--svg", r.svg}}
	if r.text {
		outputs = append(outputs, named{"--text", "-"})
	}
	return apart(inputs, outputs)
}

// reportSpan is how far back a report looks where nothing is said.
const reportSpan = 24 * time.Hour

// query reads the command line. A time that is not said is zero.
func (r *reportFlags) query(args []string, now time.Time) (q model.StatusQuery, err error) {
	if len(args) > 0 {
		return q, fmt.Errorf("%q is no option; a job is given with -j", args[0])
	}
	if err := checkWidth(r.width); err != nil {
		return q, err
	}
	if r.start != "" {
		if q.Start, err = parseWhen(r.start, now); err != nil {
			return q, err
		}
	}
	if r.end != "" {
		if q.End, err = parseWhen(r.end, now); err != nil {
			return q, err
		}
	}
	end := q.End
	if end.IsZero() {
		end = now
	}
	return q, checkWindow(q.Start, end)
}

// errNoWindow is said of a time in which nothing can have been.
var errNoWindow = errors.New("there is no time to report")

// checkWindow refuses a time that ends before it begins, or as it does. A start of
// zero is not known yet.
func checkWindow(start, end time.Time) error {
	if start.IsZero() || start.Before(end) {
		return nil
	}
	text := fmt.Sprintf("the end is before the start, %s", report.Clock(start, start.Location()))
	if start.Equal(end) {
		text = fmt.Sprintf("it begins and ends at %s", report.Clock(start, start.Location()))
	}
	return fmt.Errorf("%w: %s", errNoWindow, text)
}

// build gets what there is to tell. An error with a note comes with what is on
// disk.
func (r *reportFlags) build(q model.StatusQuery, now time.Time) (*report.Report, string, error) {
	jobs, q, err := r.life(q, now)
	if err == nil && (r.start != "" || r.end != "") { // the life of a job may just begin
		err = checkWindow(q.Start, q.End)
	}
	if err != nil {
		return nil, "", err
	}
	c, note, err := r.course(q, q.End.Sub(q.Start)/reportStretches, now)
	if err != nil && note == "" {
		return nil, "", err
	}
	c.Start = c.Start.In(now.Location())
	if len(jobs) > 0 {
		c.Only(jobs)
	}
	rep := report.NewReport(&c)
	if len(jobs) > 0 {
		rep.Title = "Job " + r.jobs + " and who shared its GPUs"
		if strings.ContainsAny(r.jobs, ",[") {
			rep.Title = "Jobs " + r.jobs + " and who shared their GPUs"
		}
		if c.Node != "" {
			rep.Title += " on node " + c.Node
		}
	}
	if note != "" {
		rep.Notes = append(rep.Notes, "This was "+note+".")
	}
	return rep, note, err
}

// reportStretches is into how many stretches a report cuts its time.
const reportStretches = 288

// life fills in the time: that of the jobs, which it returns, or the last day
// that is known of.
func (r *reportFlags) life(q model.StatusQuery, now time.Time) ([]model.View, model.StatusQuery, error) {
	if len(q.Jobs) == 0 {
		end := r.known(now)
		if q.End.IsZero() {
			q.End = end
		}
		if q.Start.IsZero() {
			q.Start = q.End.Add(-reportSpan)
		}
		return nil, q, nil
	}
	c, note, err := r.course(model.StatusQuery{Jobs: q.Jobs, End: now}, 0, now)
	if err != nil && note == "" {
		return nil, q, err
	}
	if len(c.Tenants) == 0 {
		return nil, q, r.notKnown(r.jobs, err)
	}
	start, end := lifeOf(c.Tenants, c.End)
	if q.Start.IsZero() {
		q.Start = start
	}
	if q.End.IsZero() {
		q.End = end
	}
	q.Jobs = nil
	return c.Tenants, q, nil
}

func (r *reportFlags) write(rep *report.Report, w world) error {
	page := func(out io.Writer) error { return report.WritePage(out, rep.Page()) }
	said := false
	for _, to := range []struct {
		path  string
		write func(io.Writer) error
	}{{r.html, page}, {r.svg, func(out io.Writer) error { return report.WritePictures(out, rep.Page()) }}} {
		if to.path == "" {
			continue
		}
		said = true
		if err := writeTo(to.path, w.stdout, "write the report", to.write); err != nil {
			return err
		}
	}
	switch {
	case r.text || !said && isTerminal(w.stdout):
		t := timelineFlags{width: r.width, ascii: r.ascii, color: "auto"}
		return rep.WriteText(w.stdout, t.terminal(w.stdout, w))
	case !said:
		return page(w.stdout)
	}
	return nil
}
