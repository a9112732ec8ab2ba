package slurm

import (
	"context"
	"fmt"
	"strings"
	"unicode"
)

// RecordedComment is the AdminComment that accounting keeps of a job, "" for
// none. A job that accounting does not know is ErrNoJob.
func (c *Client) RecordedComment(ctx context.Context, id uint32) (string, error) {
	out, err := c.call(ctx, "sacct", "--noheader", "--parsable2", "--allocations", "--jobs="+number(id), "--format=JobIDRaw,State,AdminComment")
	if err != nil {
		return "", err
	}
	comment, ok := recordedComment(out, number(id))
	if !ok {
		return "", fmt.Errorf("job %d: %w", id, ErrNoJob)
	}
	return comment, nil
}

// recordedComment finds a job's row. A comment may hold separators and new
// lines: it goes on until the next row.
func recordedComment(out, id string) (comment string, ok bool) {
	var rest []string
	for line := range strings.Lines(out) {
		line = strings.TrimRight(line, "\n")
		f := strings.SplitN(line, "|", 3)
		switch {
		case len(f) == 3 && isNumber(f[0]):
			if ok {
				return strings.Join(rest, "\n"), true
			}
			if f[0] == id {
				ok, rest = true, []string{f[2]}
			}
		case ok:
			rest = append(rest, line)
		}
	}
	return strings.Join(rest, "\n"), ok
}

func isNumber(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' }) < 0
}

// RecordComment replaces the AdminComment that accounting keeps of a job that
// is over: what scontrol changes then never gets there. The caller needs to be
// an operator of accounting, as root is. sacctmgr writes small letters only.
func (c *Client) RecordComment(ctx context.Context, id uint32, text string) error {
	_, err := c.call(ctx, "sacctmgr", "--immediate", "--quiet", "modify", "job", "where", "jobid="+number(id), "set", "AdminComment="+clean(text))
	return err
}

// IsOperator tells whether accounting has a user as an operator or administrator of
// Slurm. A name that can be none of a user's is one of nobody.
func (c *Client) IsOperator(ctx context.Context, user string) (bool, error) {
	if user == "" || strings.ContainsAny(user, ",=\"' \t\n") {
		return false, nil
	}
	out, err := c.call(ctx, "sacctmgr", "--noheader", "--parsable2", "--readonly", "show", "user", "where", "name="+user, "format=User,AdminLevel")
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(out) {
		switch strings.TrimRight(line, "\n") {
		case user + "|Operator", user + "|Administrator":
			return true, nil
		}
	}
	return false, nil
}

// FirstNode is the first node of a list as Slurm writes it; a job's batch
// script runs there.
func (c *Client) FirstNode(ctx context.Context, list string) (string, error) {
	out, err := c.call(ctx, "scontrol", "show", "hostnames", list)
	if err != nil {
		return "", err
	}
	first, _, _ := strings.Cut(strings.TrimLeftFunc(out, unicode.IsSpace), "\n")
	return strings.TrimSpace(first), nil
}
