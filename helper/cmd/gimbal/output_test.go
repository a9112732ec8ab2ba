package main

import (
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// errFull is what a full disk says.
var errFull = errors.New("no space left")

// full takes so many bytes and no more.
type full struct{ room int }

func (f *full) Write(b []byte) (int, error) {
	n := min(len(b), f.room)
	f.room -= n
	if n < len(b) {
		return n, errFull
	}
	return n, nil
}

// onto runs a command with an output.
func onto(out io.Writer, args ...string) (code int, errs string) {
	var e strings.Builder
	w := world{stdout: out, stderr: &e, env: func(string) string { return "" }, now: func() time.Time { return noon }}
	code = run(args, w)
	return code, e.String()
}

// TestFullOutput: whatever a command prints, it fails with 1 and says so where that
// cannot be written, be it at the beginning or at the end.
func TestFullOutput(t *testing.T) {
	f := files(t, map[string]string{"trace.csv": simulateTrace, "quick.toml": "name = \"quick\"\n",
		"learnt": `{"schema":1,"jobs":[{"uid":1000,"name":"a2c","seen":100,"sm":0.1}]}`})
	dir := t.TempDir()
	socket := filepath.Join(dir, "run", "g.sock")
	serve(t, socket, filepath.Join(dir, "state"), false)
	node := []string{"--socket", socket}
	var o overseer
	orders := []string{"12", "--socket", listen(t, o.handle)}
	trace := []string{"--trace", f["trace.csv"], "--nodes", "1", "--gpus-per-node", "2"}
	all := [][]string{{"--help"}, {"help"}, {"--version"}, {"version"}, {"policies", "list"}, {"policies", "list", "-P"}, {"policies", "show", "swap"},
		{"policies", "check", f["quick.toml"]}, {"policies", "explain", "swap"}, {"policies", "variables"}, {"policies", "keys"},
		{"policies", "keys", "-P"}, append([]string{"policies", "try", "swap", "--against", "timeslice"}, trace...), {"learnt", f["learnt"]}, {"learnt", "--classes", f["learnt"]},
		append([]string{"simulate", "--policy", "naive"}, trace...), append([]string{"simulate", "--policy", "naive", "--csv", "-"}, trace...),
		{"status", "-e"}, {"status", "--version"}, {"status", "--usage"}}
	for _, c := range [][]string{{"status"}, {"status", "--json"}, {"status", "--gpus"}, {"status", "--daemon"}, {"explain", "101"}, {"timeline"}, {"report"}, {"report", "--svg", "-"}, {"top"}} {
		all = append(all, append(c, node...))
	}
	for _, c := range []string{"pause", "resume", "evict", "notify", "release"} {
		all = append(all, append([]string{c}, orders...))
	}
	for _, c := range commands() {
		all = append(all, []string{c.name, "--help"})
		if c.name != "run" && c.name != "doctor" && !slices.ContainsFunc(all, func(args []string) bool { return args[0] == c.name && args[1] != "--help" }) {
			t.Errorf("of gimbal %s only the help is checked", c.name)
		}
	}
	for _, args := range all {
		var whole strings.Builder
		if code, errs := onto(&whole, args...); code != exitOK || whole.Len() == 0 {
			t.Errorf("%v: exit %d, %d bytes: %s", args, code, whole.Len(), errs)
			continue
		}
		for _, room := range []int{0, whole.Len() / 2} {
			if code, errs := onto(&full{room}, args...); code != exitFailed || strings.Count(errs, errFull.Error()) != 1 {
				t.Errorf("%v onto what takes %d of %d bytes: exit %d, %q", args, room, whole.Len(), code, errs)
			}
		}
	}
}

// TestDaemonLines: what has several lines is told one by one, each under its name.
func TestDaemonLines(t *testing.T) {
	for value, want := range map[string][]string{
		"":                       nil,
		"one":                    {"one"},
		"a.toml:1: x\nb.toml: y": {"a.toml:1: x", "b.toml: y"},
		"a.toml:1: x\n":          {"a.toml:1: x"},
		"a\x1b[1m":               {`a\x1b[1m`},
	} {
		var got []string
		for _, line := range daemonLines(&model.DaemonReply{ReloadError: value}, noon) {
			if text, ok := strings.CutPrefix(line, "reload failed:"); ok {
				got = append(got, strings.TrimSpace(text))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q is told as %q, want %q", value, got, want)
		}
	}
}
