package slurm

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRecordedComment(t *testing.T) {
	for name, tc := range map[string]struct {
		script, want string
		err          error
	}{
		"none":        {"echo '7|COMPLETED|'", "", nil},
		"some":        {"echo '7|COMPLETED|by the admin'", "by the admin", nil},
		"separators":  {"echo '7|FAILED|a|b||c'", "a|b||c", nil},
		"lines":       {"echo '7|FAILED|a'; echo 'b|c|d'; echo; echo '8|COMPLETED|x'", "a\nb|c|d\n", nil},
		"of an array": {"echo '9|COMPLETED|nine'; echo '7|CANCELLED by 0|seven'", "seven", nil},
		"not known":   {"true", "", ErrNoJob},
		"another":     {"echo '70|COMPLETED|x'", "", ErrNoJob},
	} {
		t.Run(name, func(t *testing.T) {
			c, calls := fake(t, Options{}, map[string]string{"sacct": tc.script})
			got, err := c.RecordedComment(t.Context(), 7)
			if got != tc.want || !errors.Is(err, tc.err) {
				t.Errorf("%q, %v; want %q, %v", got, err, tc.want, tc.err)
			}
			want := []string{"sacct [--noheader] [--parsable2] [--allocations] [--jobs=7] [--format=JobIDRaw,State,AdminComment]"}
			if diff := cmp.Diff(want, calls()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestRecordComment(t *testing.T) {
	c, calls := fake(t, Options{}, map[string]string{"sacctmgr": ""})
	if err := c.RecordComment(t.Context(), 7, "a|b\nc; d=\"e\""); err != nil {
		t.Fatal(err)
	}
	want := []string{"sacctmgr [--immediate] [--quiet] [modify] [job] [where] [jobid=7] [set] [AdminComment=a b c; d= e]"}
	if diff := cmp.Diff(want, calls()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	c, _ = fake(t, Options{}, map[string]string{"sacctmgr": "echo ' Error with request: Access denied' >&2; exit 1"})
	if err := c.RecordComment(t.Context(), 7, "a"); err == nil || !strings.Contains(err.Error(), "Access denied") {
		t.Errorf("refused: %v", err)
	}
}

func TestIsOperator(t *testing.T) {
	for name, tc := range map[string]struct {
		user, out string
		want      bool
	}{
		"an operator":       {"ann", "ann|Operator", true},
		"an administrator":  {"ann", "ann|Administrator", true},
		"a user":            {"ann", "ann|None", false},
		"another":           {"ann", "anna|Operator", false},
		"not in accounting": {"ann", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			c, calls := fake(t, Options{}, map[string]string{"sacctmgr": "echo '" + tc.out + "'"})
			if got, err := c.IsOperator(t.Context(), tc.user); got != tc.want || err != nil {
				t.Errorf("%t, %v", got, err)
			}
			want := []string{"sacctmgr [--noheader] [--parsable2] [--readonly] [show] [user] [where] [name=ann] [format=User,AdminLevel]"}
			if diff := cmp.Diff(want, calls()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	c, calls := fake(t, Options{}, map[string]string{"sacctmgr": "echo 'a,b|Operator'"})
	for _, user := range []string{"", "a,b", "a=b"} {
		if got, err := c.IsOperator(t.Context(), user); got || err != nil {
			t.Errorf("%q: %t, %v", user, got, err)
		}
	}
	if asked := strings.Join(calls(), ""); asked != "" {
		t.Errorf("asked %s about names that are none", asked)
	}
	c, _ = fake(t, Options{}, map[string]string{"sacctmgr": "exit 1"})
	if got, err := c.IsOperator(t.Context(), "ann"); got || err == nil {
		t.Errorf("without accounting: %t, %v", got, err)
	}
}

func TestFirstNode(t *testing.T) {
	c, calls := fake(t, Options{}, map[string]string{"scontrol": "echo n3; echo n4"})
	if got, err := c.FirstNode(t.Context(), "n[3-4]"); got != "n3" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if diff := cmp.Diff([]string{"scontrol [show] [hostnames] [n[3-4]]"}, calls()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Whatever accounting prints, what is found is in it.
func FuzzRecordedComment(f *testing.F) {
	f.Add("7|COMPLETED|by the admin\n8|FAILED|\n")
	f.Add("7|x|a\nb|c\n7|y|z")
	f.Fuzz(func(t *testing.T, out string) {
		got, ok := recordedComment(out, "7")
		if !ok && got != "" || !strings.Contains(out, got) {
			t.Errorf("%q → %q, %v", out, got, ok)
		}
	})
}
