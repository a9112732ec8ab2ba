package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/cmd/help"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/report"
)

const timelineUsage = `Usage: gimbal timeline [OPTION]... [JOB]...

Draw who computed when, a line for each job on each GPU: of the whole life of the
JOBs, or of the last hour, from when the first of its jobs came to when the last
one went. -S and -E say otherwise. JOB is 12, 12_3 or 12+1, each with .STEP; or a
job's name, for the newest one of that name.

`

type timelineFlags struct {
	source
	start, end, record, title string
	jobs                      string // that were asked for
	width                     int
	ascii, svg, html          bool
	color                     string
}

func (t *timelineFlags) set() *pflag.FlagSet {
	f := newFlags("timeline")
	f.StringVarP(&t.start, "starttime", "S", "", "from this `time` on, in sacct's forms")
	f.StringVarP(&t.end, "endtime", "E", "", "up to this `time`")
	f.StringVar(&t.record, "record", "", "draw what a GPU device recorded in this `file`: lines GPU PID LABEL START END BUSY")
	f.StringVar(&t.title, "title", "", "`text` above the drawing")
	f.IntVar(&t.width, "width", 0, "`columns`; 0: those of the terminal")
	f.BoolVar(&t.ascii, "ascii", false, "plain ASCII signs")
	f.StringVar(&t.color, "color", "auto", "`when` there are colours: always, never, or auto: on a terminal")
	f.BoolVar(&t.svg, "svg", false, "as a picture")
	f.BoolVar(&t.html, "html", false, "as an offline page")
	t.flags(f)
	return f
}

func runTimeline(args []string, w world) int {
	var t timelineFlags
	f := t.set()
	var q model.StatusQuery
	check := func() (err error) {
		if err = t.check(f.Args()); err == nil {
			q, err = t.query(f.NArg() > 0, w)
		}
		return err
	}
	if code, over := parse(f, args, w, timelineUsage, check); over {
		return code
	}
	if f.NArg() > 0 {
		var err error
		if q.Jobs, t.jobs, err = t.called(strings.Join(f.Args(), ","), "timeline", w); err != nil {
			return badJobs(w, "timeline", err)
		}
	}
	line, note, err := t.build(q, w)
	if err != nil && note == "" {
		return failure(w, "timeline", err)
	}
	err = t.sayWhere(w, "timeline", note, err)
	if len(q.Jobs) == 0 && t.record == "" {
		line.Crop(t.start == "", t.start == "" && t.end == "")
	}
	if line.Title = line.Heading(); t.title != "" {
		line.Title = t.title
	}
	if derr := t.draw(w.stdout, line, w); derr != nil {
		return failure(w, "timeline", derr)
	}
	return exitFor(err)
}

func (t *timelineFlags) check(args []string) error {
	switch {
	case t.color != "auto" && t.color != "always" && t.color != "never":
		return fmt.Errorf("color %q is none of always, never, auto", t.color)
	case t.record != "" && len(args) > 0:
		return fmt.Errorf("--record shows everything that the file holds: %q is too much", args[0])
	case t.svg && t.html:
		return fmt.Errorf("--svg or --html, not both")
	}
	return checkWidth(t.width)
}

// query reads the times, of some jobs or of the node.
func (t *timelineFlags) query(jobs bool, w world) (q model.StatusQuery, err error) {
	now := w.now()
	if t.start != "" {
		if q.Start, err = parseWhen(t.start, now); err != nil {
			return q, err
		}
	}
	if t.end != "" {
		if q.End, err = parseWhen(t.end, now); err != nil {
			return q, err
		}
	}
	t.fill(&q, jobs, now)
	if q.End.Before(q.Start) {
		return q, fmt.Errorf("the end is before the start")
	}
	return q, nil
}

// fill fills in the times that were not said: the last hour, which on disk is
// that before it was written last, or the whole life of the jobs.
func (t *timelineFlags) fill(q *model.StatusQuery, jobs bool, now time.Time) {
	lastHour := q.Start.IsZero() && !jobs
	switch {
	case !q.End.IsZero():
	case lastHour:
		q.End = t.known(now)
	default:
		q.End = now
	}
	if lastHour {
		q.Start = q.End.Add(-time.Hour)
	}
}

// build gets what is to be drawn. An error with a note comes with what is on
// disk.
func (t *timelineFlags) build(q model.StatusQuery, w world) (line report.Timeline, note string, err error) {
	if t.record != "" {
		line, err = t.recorded()
		return line, "", err
	}
	c, note, err := t.course(q, 0, w.now())
	if err != nil && note == "" {
		return line, "", err
	}
	if t.jobs != "" && t.start == "" && t.end == "" && len(c.Tenants) == 0 {
		return line, "", t.notKnown(t.jobs, err)
	}
	if c.Start.IsZero() {
		c.Start, c.End = lifeOf(c.Tenants, c.End)
	}
	c.Start = c.Start.In(w.now().Location())
	return report.FromCourse(&c), note, err
}

func (t *timelineFlags) recorded() (report.Timeline, error) {
	f, err := os.Open(t.record)
	if err != nil {
		return report.Timeline{}, err
	}
	defer func() { _ = f.Close() }()
	line, err := report.FromDevice(f)
	if err != nil {
		return line, fmt.Errorf("%s: %w", t.record, err)
	}
	return line, nil
}

// lifeOf is the time from the first start to the last end.
func lifeOf(all []model.View, now time.Time) (start, end time.Time) {
	start, end = now, time.Time{}
	for i := range all {
		v := &all[i]
		if v.Start.Before(start) {
			start = v.Start
		}
		last := v.End
		if last.IsZero() {
			last = now
		}
		if last.After(end) {
			end = last
		}
	}
	if end.IsZero() {
		end = now
	}
	return start, end
}

func (t *timelineFlags) draw(out io.Writer, line report.Timeline, w world) error {
	switch {
	case t.svg:
		return report.WriteSVG(out, line)
	case t.html:
		return report.WriteHTML(out, line)
	}
	return report.WriteText(out, line, t.terminal(out, w))
}

func isTerminal(out io.Writer) bool {
	f := help.File(out)
	return f != nil && isatty.IsTerminal(f.Fd())
}

// terminal finds out what the output can show. What is no terminal gets 80
// columns without colours, so that a file always looks the same.
func (t *timelineFlags) terminal(out io.Writer, w world) report.Terminal {
	term := report.Terminal{Width: 80, Color: t.color == "always", ASCII: t.ascii}
	if f := help.File(out); f != nil && isTerminal(out) {
		if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 {
			term.Width = int(size.Col)
		}
		if t.color == "auto" && w.env("NO_COLOR") == "" && w.env("TERM") != "dumb" {
			term.Color = true
		}
		term.ASCII = term.ASCII || !utf8Locale(w.env)
	}
	if n, err := strconv.Atoi(w.env("COLUMNS")); err == nil && n > 0 {
		term.Width = min(n, mostWidth)
	}
	if t.width > 0 {
		term.Width = t.width
	}
	return term
}

// utf8Locale tells whether the terminal is said to show UTF-8.
func utf8Locale(env func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToLower(env(name)); v != "" {
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}
