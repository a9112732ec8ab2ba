package main

import (
	"errors"
	"fmt"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/gimbal-hpc/gimbal/helper/cmd/help"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/report"
	"github.com/gimbal-hpc/gimbal/helper/wire"
)

// statusFlags is the command line of gimbal status.
type statusFlags struct {
	source
	jobs, users, states, start, end           string
	names, accounts, partitions, groups       []string
	format, delimiter, units                  string
	noHeader, parsable, parsable2, brief      bool
	long, allocations, allUsers, truncate     bool
	noConvert, version                        bool
	duplicates, helpFormat, json, self, about bool
	verbose, usage, gpus, allNodes, machine   bool
}

const statusUsage = `Usage: gimbal status [OPTION]...

List the packed jobs of this node, live and ended, with the steps inside them.
Without options: those that were there since midnight; for root everybody's,
for others their own. The options are sacct's.

`

const statusNotes = `
Times: HH:MM[:SS] [AM|PM], midnight, noon, fika, teatime; MMDD[YY], MM/DD[/YY],
MM.DD[.YY], YYYY-MM-DD, today; one of both with a blank, - or T between them;
now[{+|-}COUNT[seconds|minutes|hours|days|weeks]]; utsSECONDS since the epoch.
With -j the time window begins at the epoch; with -s it is now unless -S says
otherwise.

In the table a + marks a value that was cut; ids, times and numbers are never
cut, and -p, -P and --json cut nothing. In -p and -P a backslash is written as
\\, and the delimiter and what is not printable as \n, \t, \xNN, \uNNNN.
GIMBAL_FORMAT holds the columns where -o does not.
`

func (s *statusFlags) set() *pflag.FlagSet {
	f := newFlags("status")
	f.StringVarP(&s.jobs, "jobs", "j", "", "only these `jobs`: 12, 12_3, 12_[1-5], 12+1, each with .STEP")
	f.StringVarP(&s.users, "user", "u", "", "only jobs of these `users`, by name or number")
	f.StringVar(&s.users, "uid", "", "the same, by `users`")
	f.BoolVarP(&s.allUsers, "allusers", "a", false, "jobs of all users")
	f.StringVarP(&s.states, "state", "s", "", "only jobs in one of these `states`")
	f.StringVarP(&s.start, "starttime", "S", "", "only jobs that were there after this `time`")
	f.StringVarP(&s.end, "endtime", "E", "", "only jobs that were there before this `time`")
	f.StringSliceVar(&s.names, "name", nil, "only jobs with one of these `names`")
	f.StringSliceVarP(&s.accounts, "accounts", "A", nil, "only jobs of these `accounts`")
	f.StringSliceVarP(&s.partitions, "partition", "r", nil, "only jobs of these `partitions`")
	f.StringSliceVarP(&s.groups, "group", "g", nil, "only jobs of these `groups`, by name or number")
	f.StringSliceVar(&s.groups, "gid", nil, "the same, by `groups`")
	f.BoolVarP(&s.allocations, "allocations", "X", false, "whole tenants only, not the steps inside them")
	f.BoolVarP(&s.duplicates, "duplicates", "D", false, "every run of a requeued job (it is always so here)")
	f.BoolVarP(&s.truncate, "truncate", "T", false, "cut Start and End to the time window")
	f.StringVarP(&s.format, "format", "o", "", "`columns`, each with %WIDTH or %-WIDTH; see -e")
	f.BoolVarP(&s.brief, "brief", "b", false, "JobID, State and ExitCode")
	f.BoolVarP(&s.long, "long", "l", false, "all columns")
	f.BoolVarP(&s.helpFormat, "helpformat", "e", false, "list the columns")
	f.BoolVarP(&s.noHeader, "noheader", "n", false, "no header")
	f.BoolVarP(&s.parsable, "parsable", "p", false, "fields separated by | with one at the end")
	f.BoolVarP(&s.parsable2, "parsable2", "P", false, "fields separated by | with none at the end")
	f.StringVar(&s.delimiter, "delimiter", "|", "`text` that separates the fields with -p and -P")
	f.StringVar(&s.units, "units", "", "`unit` of sizes: K, M, G, T or P")
	f.BoolVar(&s.noConvert, "noconvert", false, "sizes in K, whatever they are")
	f.BoolVar(&s.json, "json", false, "everything as JSON, schema "+report.Schema)
	f.BoolVar(&s.self, "self", false, "inside a job or gimbal run: is it packed, on which GPU, with how many")
	f.BoolVar(&s.gpus, "gpus", false, "a row for each GPU: what is in use, by whom, under which policy")
	f.BoolVar(&s.about, "daemon", false, "how gimbald itself is")
	f.BoolVar(&s.allNodes, "all-nodes", false, "ask every node of the jobs that -j names, by a step of a job on each")
	f.BoolVar(&s.machine, "snapshot", false, "answer another node's --all-nodes")
	_ = f.MarkHidden("snapshot") // fails for an option that is not there
	s.flags(f)
	f.BoolVarP(&s.verbose, "verbose", "v", false, "say on stderr which time window is meant")
	f.BoolVarP(&s.version, "version", "V", false, "the version of gimbal")
	f.BoolVar(&s.usage, "usage", false, "the same as --help")
	return f
}

func runStatus(args []string, w world) int {
	var s statusFlags
	f := s.set()
	check := func() error {
		if err := oneOf(f, "self", "gpus", "daemon"); err != nil {
			return err
		}
		return noArguments(f, "; a job is given with -j")
	}
	if code, over := parse(f, args, w, statusUsage, check, func() string { return statusNotes }); over {
		return code
	}
	switch {
	case s.usage:
		return run([]string{"status", "--help"}, w)
	case s.version:
		return run([]string{"version"}, w)
	case s.helpFormat:
		return done(w, "status", report.WriteFields(w.stdout))
	case s.allNodes:
		return s.everywhere(args, w)
	case s.machine:
		return s.writeSnapshot(w)
	case s.self:
		return statusSelf(s.source, w)
	case s.about:
		return statusDaemon(s.source, w)
	case s.gpus:
		return statusGPUs(s.source, w)
	}
	return s.list(w)
}

// list shows the selected jobs.
func (s *statusFlags) list(w world) int {
	q, err := s.query(w)
	if err != nil {
		return wrongUsage(w, "status", err)
	}
	cols, layout, err := s.layout(w)
	if err != nil {
		return wrongUsage(w, "status", err)
	}
	if s.verbose {
		fmt.Fprintf(w.stderr, "gimbal status: from %s to %s\n", report.Clock(q.Start, w.now().Location()), report.Clock(q.End, w.now().Location()))
	}
	if none := foreignStates(q.States); len(none) > 0 {
		fmt.Fprintf(w.stderr, "gimbal status: no tenant is ever %s: a node sees FAILED, EVICTED or ENDED\n", strings.Join(none, ", "))
	}
	own := s.ownOnly(w)
	if own {
		q.Users = []string{strconv.Itoa(w.uid)}
	}
	snap, note, err := s.snapshot(q, w.now())
	if err != nil && note == "" {
		return failure(w, "status", err)
	}
	if own && note == "" {
		snap.Tenants = append(snap.Tenants, s.neighbours(w.now())...)
	}
	if len(snap.Tenants) == 0 {
		if none := s.unknownUser(); none != nil {
			return wrongUsage(w, "status", none)
		}
	}
	err = s.sayWhere(w, "status", note, err)
	if s.truncate {
		truncate(&snap, q)
	}
	if werr := s.write(w, &snap, q, cols, layout, note != ""); werr != nil {
		return failure(w, "status", werr)
	}
	return exitFor(err)
}

// unknownUser names a user of -u that this host does not know. It is for where
// nothing of him was found: his jobs may have outlived him.
func (s *statusFlags) unknownUser() error {
	for _, name := range splitOutside(s.users) {
		if _, err := strconv.ParseUint(name, 10, 32); err == nil {
			continue
		}
		if _, err := user.Lookup(name); err != nil {
			return fmt.Errorf("no user is called %q on this host", name)
		}
	}
	return nil
}

// sayWhere tells where an answer comes from where it is not the daemon. It returns
// the error that is left: none where the daemon has ended as it should.
func (s *source) sayWhere(w world, name, note string, err error) error {
	if err != nil && s.ended() {
		note, err = ownEnded+"; "+note, nil
	}
	switch {
	case err != nil:
		fmt.Fprintf(w.stderr, "gimbal %s: %v\ngimbal %s: %s\n", name, err, name, note)
	case note != "":
		fmt.Fprintf(w.stderr, "gimbal %s: %s\n", name, note)
	}
	return err
}

// exitFor is the exit code of a command that answered, from disk where the
// daemon could not be reached.
func exitFor(err error) int {
	if err != nil {
		return exitUnreachable
	}
	return exitOK
}

func (s *statusFlags) write(w world, snap *model.Snapshot, q model.StatusQuery, cols []report.Column, l report.Layout, offline bool) error {
	sel := report.Selection{Jobs: q.Jobs, Allocations: s.allocations, Strays: len(q.Jobs)+len(q.States) == 0}
	if s.json {
		d := report.NewDocument(snap, sel)
		d.Offline = offline
		return report.WriteJSON(w.stdout, d)
	}
	if snap.Degraded != "" {
		fmt.Fprintf(w.stderr, "gimbal status: degraded: %s\n", snap.Degraded)
	}
	return report.Write(w.stdout, cols, report.Rows(snap, sel, s.style(w)), l)
}

// style is how values are written.
func (s *statusFlags) style(w world) report.Style {
	style := report.Style{Location: w.now().Location()}
	switch {
	case s.units != "":
		style.Unit = s.units[0]
	case s.noConvert:
		style.Unit = 'K'
	}
	return style
}

// ownOnly tells whether somebody gets his own jobs only, as from sacct: who is
// not root and asks neither for users nor for jobs.
func (s *statusFlags) ownOnly(w world) bool {
	return w.uid != 0 && !s.allUsers && s.users == "" && s.jobs == ""
}

// query makes the selection, with sacct's default time window.
func (s *statusFlags) query(w world) (q model.StatusQuery, err error) {
	q.Names, q.Accounts, q.Partitions = s.names, s.accounts, s.partitions
	if s.users != "" && !s.allUsers {
		q.Users = splitOutside(s.users)
	}
	if s.jobs != "" {
		if q.Jobs, err = parseJobs(s.jobs); err != nil {
			return q, numbersOnly(err, s.jobs)
		}
	}
	if s.states != "" {
		if q.States, err = parseStates(s.states); err != nil {
			return q, err
		}
	}
	if q.Groups, err = groupIDs(s.groups); err != nil {
		return q, err
	}
	q.Start, q.End, err = s.window(w.now())
	return q, err
}

func (s *statusFlags) window(now time.Time) (start, end time.Time, err error) {
	end = now
	switch {
	case s.start != "":
		if start, err = parseWhen(s.start, now); err != nil {
			return start, end, err
		}
		if s.states != "" {
			end = start
		}
	case s.jobs != "":
	case s.states != "":
		start = now
	default:
		start = time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
	}
	if s.end != "" {
		if end, err = parseWhen(s.end, now); err != nil {
			return start, end, err
		}
	}
	if s.states != "" && s.start == "" && s.jobs == "" && start.After(end) {
		start = end
	}
	if end.Before(start) {
		return start, end, fmt.Errorf("the end %s is before the start %s", report.Clock(end, now.Location()), report.Clock(start, now.Location()))
	}
	return start, end, nil
}

// layout reads how the table is to look.
func (s *statusFlags) layout(w world) ([]report.Column, report.Layout, error) {
	format, node := s.format, ""
	if s.allNodes {
		node = "NodeList,"
	}
	switch {
	case format != "":
	case s.brief:
		format = node + report.BriefFormat
	case s.long:
		format = "ALL"
	case w.env("GIMBAL_FORMAT") != "":
		format = w.env("GIMBAL_FORMAT")
	default:
		format = node + report.DefaultFormat
	}
	cols, err := report.ParseFormat(format)
	l := report.Layout{NoHeader: s.noHeader, Parsable: s.parsable || s.parsable2, Trailing: s.parsable && !s.parsable2, Delimiter: s.delimiter}
	if err == nil && l.Parsable {
		err = report.CheckDelimiter(s.delimiter)
	}
	if err == nil && s.units != "" && (len(s.units) != 1 || !validUnit(s.units[0])) {
		err = fmt.Errorf("unit %q is none of K, M, G, T, P", s.units)
	}
	return cols, l, err
}

func validUnit(b byte) bool {
	switch b {
	case 'K', 'M', 'G', 'T', 'P':
		return true
	}
	return false
}

// truncate cuts the times of all tenants to the window, as sacct's -T does.
func truncate(s *model.Snapshot, q model.StatusQuery) {
	for i := range s.Tenants {
		v := &s.Tenants[i]
		end := v.Start.Add(v.Elapsed)
		if v.Start.Before(q.Start) && !v.Hidden {
			v.Start = q.Start
		}
		if q.End.Before(end) {
			end = q.End
			v.End = q.End
		}
		v.Elapsed = max(end.Sub(v.Start), 0)
	}
}

// wrongUsage says what is wrong with a command line.
func wrongUsage(w world, name string, err error) int {
	fmt.Fprintf(w.stderr, "gimbal %s: %v\nTry 'gimbal %s --help'.\n", name, help.NoFile(err), name)
	return exitUsage
}

// failure says why a command failed: 3 where the daemon does not answer.
func failure(w world, name string, err error) int {
	fmt.Fprintf(w.stderr, "gimbal %s: %v\n", name, help.NoFile(err))
	if errors.Is(err, wire.ErrUnreachable) {
		fmt.Fprintf(w.stderr, "'gimbal doctor' tells what is wrong on this node. If the job is on another:\n"+
			"srun --jobid=JOB --overlap --gimbal-pack=off gimbal %s ...\n", name)
		return exitUnreachable
	}
	return exitFailed
}

func done(w world, name string, err error) int {
	if err != nil {
		return failure(w, name, err)
	}
	return exitOK
}
