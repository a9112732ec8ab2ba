package slurm

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Job is what Slurm says of a job.
type Job struct {
	ID        uint32
	State     string        // RUNNING, COMPLETING, SUSPENDED, ...
	Reason    string        // why it waits or ended, "" none
	Nodes     string        // node list, as Slurm writes it
	End       time.Time     // expected or actual end, zero if unknown
	TimeLimit time.Duration // zero: unlimited or unknown
}

// Completing tells whether the job is ending: its processes are being killed.
func (j Job) Completing() bool { return j.State == "COMPLETING" }

// Ended tells whether the job is over.
func (j Job) Ended() bool {
	return slices.Contains([]string{"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL",
		"OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT", "REVOKED", "SPECIAL_EXIT"}, j.State)
}

// fields are what squeue is asked for. None of them is text that a user wrote:
// `scontrol show job` has the job's name between its fields, where a name may
// look like any of them.
const fields = "%A|%T|%e|%l|%N|%r"

// Job asks for one job by its own id (of an array's task: not the array's).
func (c *Client) Job(ctx context.Context, id uint32) (Job, error) {
	all, err := c.Jobs(ctx, number(id))
	if err != nil {
		return Job{}, err
	}
	for _, j := range all {
		if j.ID == id { // an array's first task has the array's id: the others are listed too
			return j, nil
		}
	}
	return Job{}, fmt.Errorf("job %d: %w", id, ErrNoJob)
}

// Jobs asks for all that names mean to squeue: jobs by their own ids, arrays and
// het jobs with all their parts (12), or one task of an array (12_3).
func (c *Client) Jobs(ctx context.Context, names ...string) ([]Job, error) {
	out, err := c.call(ctx, "squeue", "--noheader", "--states=all", "--jobs="+strings.Join(names, ","), "--format="+fields)
	if err != nil {
		return nil, err
	}
	var all []Job
	for row := range strings.Lines(out) {
		j, err := parseJob(strings.TrimRight(row, "\n"))
		if err != nil {
			return nil, fmt.Errorf("read squeue's answer about %.40s: %w", strings.Join(names, ","), err)
		}
		all = append(all, j)
	}
	return all, nil
}

// Completing tells whether a job is ending or over. One that Slurm no longer
// knows is over.
func (c *Client) Completing(ctx context.Context, id uint32) (bool, error) {
	j, err := c.Job(ctx, id)
	if isNoJob(err) {
		return true, nil
	}
	return j.Completing() || j.Ended(), err
}

// parseJob reads one row of squeue's.
func parseJob(row string) (Job, error) {
	f := strings.SplitN(row, "|", 6)
	if len(f) != 6 {
		return Job{}, fmt.Errorf("%.200q has %d fields, not 6", row, len(f))
	}
	id, err := strconv.ParseUint(f[0], 10, 32)
	if err != nil {
		return Job{}, fmt.Errorf("%.40q is not a job id", f[0])
	}
	if !isWord(f[1]) {
		return Job{}, fmt.Errorf("%.40q is not a job's state", f[1])
	}
	j := Job{ID: uint32(id), State: f[1], Nodes: f[4], Reason: f[5]}
	if j.Reason == "None" {
		j.Reason = ""
	}
	if j.End, err = parseTime(f[2]); err != nil {
		return Job{}, err
	}
	j.TimeLimit, err = parseLimit(f[3])
	return j, err
}

func isWord(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool { return r != '_' && (r < 'A' || r > 'Z') }) < 0
}

// parseTime reads Slurm's standard time format.
func parseTime(s string) (time.Time, error) {
	switch s {
	case "N/A", "Unknown", "NONE", "":
		return time.Time{}, nil
	}
	t, err := time.Parse("2006-01-02T15:04:05", s)
	if err != nil {
		return time.Time{}, fmt.Errorf("%.40q is not a time", s)
	}
	return t, nil
}

// parseLimit reads [DAYS-]HOURS:MINUTES:SECONDS or MINUTES:SECONDS.
func parseLimit(s string) (time.Duration, error) {
	switch s {
	case "UNLIMITED", "NOT_SET", "INVALID", "N/A", "Partition_Limit", "":
		return 0, nil
	}
	days, rest, hasDays := strings.Cut(s, "-")
	if !hasDays {
		days, rest = "0", s
	}
	parts := strings.Split(days+":"+rest, ":")
	if len(parts) == 3 { // no hours
		parts = slices.Insert(parts, 1, "0")
	}
	units := []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second}
	if len(parts) != len(units) {
		return 0, fmt.Errorf("%.40q is not a time limit", s)
	}
	var sum time.Duration
	for i, p := range parts {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil {
			return 0, fmt.Errorf("%.40q is not a time limit", s)
		}
		sum += time.Duration(n) * units[i]
	}
	return sum, nil
}

// Requeue ends a job and puts it back into the queue.
func (c *Client) Requeue(ctx context.Context, id uint32) error {
	_, err := c.call(ctx, "scontrol", "requeue", number(id))
	return err
}

// Cancel ends a job, and first puts the reason into its AdminComment, where
// sacct shows it. That the comment fails does not keep it from being ended.
func (c *Client) Cancel(ctx context.Context, id uint32, reason string) error {
	noted := c.SetAdminComment(ctx, id, reason)
	if _, err := c.call(ctx, "scancel", number(id)); err != nil {
		return err
	}
	if noted != nil {
		return fmt.Errorf("job %d was cancelled, but not told why: %w", id, noted)
	}
	return nil
}

// SetComment replaces the comment that the job's user sees in squeue.
func (c *Client) SetComment(ctx context.Context, id uint32, text string) error {
	return c.update(ctx, id, "Comment="+clean(text))
}

// SetAdminComment replaces the comment that only an administrator may set.
func (c *Client) SetAdminComment(ctx context.Context, id uint32, text string) error {
	return c.update(ctx, id, "AdminComment="+clean(text))
}

// Credit adds time to a job's limit, in whole minutes, as Slurm counts; it
// returns what was added. The rest is the caller's to keep for the next time.
func (c *Client) Credit(ctx context.Context, id uint32, d time.Duration) (time.Duration, error) {
	minutes := int(d / time.Minute)
	if minutes <= 0 {
		return 0, nil
	}
	if err := c.update(ctx, id, "TimeLimit+="+strconv.Itoa(minutes)); err != nil {
		return 0, err
	}
	return time.Duration(minutes) * time.Minute, nil
}

func (c *Client) update(ctx context.Context, id uint32, what string) error {
	_, err := c.call(ctx, "scontrol", "update", "JobId="+number(id), what)
	return err
}

// maxComment bounds a comment, in bytes.
const maxComment = 1024

// clean makes a comment one line of printable text without the separators of
// Slurm's parsable outputs.
func clean(text string) string {
	s := strings.Map(func(r rune) rune {
		if r == '|' || r == '"' || r == '\'' || r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
	if len(s) > maxComment {
		s = strings.ToValidUTF8(s[:maxComment], "")
	}
	return strings.TrimSpace(s)
}

func number(id uint32) string { return strconv.FormatUint(uint64(id), 10) }
