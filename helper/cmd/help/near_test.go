package help

import (
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
