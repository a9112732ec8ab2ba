package help

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
)

func TestNearest(t *testing.T) {
	words := []string{"run", "status", "explain", "timeline", "top"}
	for word, want := range map[string]string{"stauts": "status", "sta": "status", "explian": "explain", "timelines": "timeline", "xyz": "", "": "", "zz": "", "tp": "top"} {
		if got := Nearest(word, words); got != want {
			t.Errorf("nearest to %q is %q, want %q", word, got, want)
		}
	}
}

func TestFault(t *testing.T) {
	for option, want := range map[string]string{
		"--starttme":  "unknown flag: --starttme, did you mean --starttime?",
		"--start=now": "unknown flag: --start, did you mean --starttime?",
		"--secre":     "unknown flag: --secre",
		"--banana":    "unknown flag: --banana",
		"-x":          `unknown shorthand flag: 'x' in -x`,
		"--starttime": "flag needs an argument: --starttime",
	} {
		f := pflag.NewFlagSet("x", pflag.ContinueOnError)
		f.Usage = func() {}
		f.String("starttime", "", "")
		f.Bool("secret", false, "")
		_ = f.MarkHidden("secret")
		if err := Fault(f, f.Parse([]string{option})); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", option, err, want)
		}
	}
	if err := Fault(nil, nil); err != nil {
		t.Error(err)
	}
}

func TestNoFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "jobs.csv"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	none := "open %s: no such file or directory"
	for _, c := range []struct{ path, want string }{
		{filepath.Join(dir, "job.csv"), none + `, did you mean "` + filepath.Join(dir, "jobs.csv") + `"?`},
		{"jbos.csv", none + `, did you mean "jobs.csv"?`},
		{filepath.Join(dir, "else"), none},
		{filepath.Join(dir, "none", "jobs.csv"), none},
		{filepath.Join(dir, "jobs.csv", "x"), "open %s: not a directory"},
	} {
		_, err := os.Open(c.path)
		got := NoFile(fmt.Errorf("read: %w", err))
		if want := "read: " + fmt.Sprintf(c.want, c.path); got.Error() != want || errors.Is(got, fs.ErrNotExist) != errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v, want %s", got, want)
		}
	}
	if err := NoFile(nil); err != nil {
		t.Error(err)
	}
}
