package config

import (
	"strings"
	"testing"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

func TestParseSize(t *testing.T) {
	for in, want := range map[string]model.Bytes{
		"16GiB": 16 * model.GiB, "16G": 16 * model.GiB, "16GB": 16 * model.GiB, "16g": 16 * model.GiB, "16gib": 16 * model.GiB,
		"9.5GiB": 9728 * model.MiB, "512M": 512 * model.MiB, "1T": model.TiB, "3K": 3 * model.KiB, "7B": 7, "0B": 0, ".5K": 512,
	} {
		if got, err := ParseSize(in); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "16", "GiB", "-1G", "1.2.3G", "16Gi B", "16Gx", "16iB", "16 G", "9999999999G", "1e3G", "NaNG", "16GiBB", "16Gib2", "."} {
		if got, err := ParseSize(in); err == nil {
			t.Errorf("%q was read as %d", in, got)
		}
	}
}

func TestParseDuration(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"1s": time.Second, "100ms": 100 * time.Millisecond, "1m30s": 90 * time.Second, "2d": 48 * time.Hour, "0s": 0, "1.5h": 90 * time.Minute,
	} {
		if got, err := ParseDuration(in); err != nil || got != want {
			t.Errorf("%q: %s, %v; want %s", in, got, err, want)
		}
	}
	for _, in := range []string{"", "1", "0", "-1s", "+1s", "s", "1 s", "1.5d", "d", "-1d", "99999999d", "1y"} {
		if got, err := ParseDuration(in); err == nil {
			t.Errorf("%q was read as %s", in, got)
		}
	}
}

func TestParseSignal(t *testing.T) {
	for in, want := range map[string]struct {
		sig   int
		ahead time.Duration
	}{
		"USR1": {10, 0}, "SIGUSR1": {10, 0}, "usr2@90": {12, 90 * time.Second}, "15@0": {15, 0}, "64": {64, 0}, "sigterm": {15, 0},
	} {
		if sig, ahead, err := ParseSignal(in); err != nil || sig != want.sig || ahead != want.ahead {
			t.Errorf("%q: %d, %s, %v", in, sig, ahead, err)
		}
	}
	for _, in := range []string{"", "@", "KILL", "9", "SIGSTOP", "19", "0", "65", "-1", "USR1@", "USR1@-1", "USR1@1s", "USR1@36001", "NOPE", "USR1@1@2"} {
		if sig, _, err := ParseSignal(in); err == nil {
			t.Errorf("%q was read as %d", in, sig)
		}
	}
}

func TestParseWeightAndDeadline(t *testing.T) {
	for in, want := range map[string]float64{"1": 1, "42": 42, "10000": 1e4, "0": 0, "-1": 0, "1.5": 0, "": 0, "10001": 0} {
		if got, err := ParseWeight(in); got != want || (err == nil) != (want > 0) {
			t.Errorf("weight %q: %v, %v", in, got, err)
		}
	}
	for in, ok := range map[string]bool{"1800000000": true, "0": false, "-5": false, "tomorrow": false, "99999999999999": false} {
		if got, err := ParseDeadline(in); (err == nil) != ok {
			t.Errorf("deadline %q: %v, %v", in, got, err)
		}
	}
}

func TestParsePause(t *testing.T) {
	for in, want := range map[string]time.Duration{"1s": time.Second, "30s": 30 * time.Second, "1m30s": 90 * time.Second, "24h": 24 * time.Hour,
		"30": 0, "0s": 0, "": 0, "-5s": 0, "999ms": 0, "1.5s": 0, "24h1s": 0, "a while": 0} {
		if got, err := ParsePause(in); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %s, %v", in, got, err)
		}
	}
}

func FuzzUnits(f *testing.F) {
	for _, s := range []string{"16GiB", "1m30s", "USR1@60", "7", "1800000000", "9.5T", "300d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if b, err := ParseSize(s); err == nil {
			if again, err := ParseSize(FormatSize(b)); err != nil || again != b {
				t.Errorf("size %q → %d → %q → %d, %v", s, b, FormatSize(b), again, err)
			}
		}
		if d, err := ParseDuration(s); err == nil {
			if again, err := ParseDuration(FormatDuration(d)); err != nil || again != d {
				t.Errorf("time %q → %d → %q → %d, %v", s, d, FormatDuration(d), again, err)
			}
		}
		if w, err := ParseWeight(s); err == nil && (w < 1 || w > MaxWeight) {
			t.Errorf("weight %q → %v", s, w)
		}
		if sig, ahead, err := ParseSignal(s); err == nil && (sig < 1 || sig > 64 || ahead < 0) {
			t.Errorf("signal %q → %d, %s", s, sig, ahead)
		}
	})
}

func TestKeyLines(t *testing.T) {
	text := strings.Join([]string{
		`# a = 1`,               // 1
		`top = "a # b"`,         // 2
		`[t] # note`,            // 3
		`s = '''`,               // 4
		`x = 1`,                 // 5
		`'''`,                   // 6
		`m = """ \""" `,         // 7
		`y = 2"""`,              // 8
		`l = [`,                 // 9
		`  "]", # [`,            // 10
		`  {a = 1, b = "}"},`,   // 11
		`]`,                     // 12
		`"q.r" . u = 3`,         // 13
		`[[list]]`,              // 14
		`a = 1`,                 // 15
		`[list.sub]`,            // 16
		`c = 1`,                 // 17
		`[[list]]`,              // 18
		`a = 2`,                 // 19
		`[[list.deep]]`,         // 20
		`z = 1979-05-27T07:32Z`, // 21
	}, "\n")
	lines := keyLines(text)
	for path, want := range map[string]int{
		"top": 2, "t": 3, "t.s": 4, "t.m": 7, "t.l": 9, "t.l.1.a": 11, "t.l.1.b": 11, "t.q.r.u": 13, "list": 14,
		"list.0.a": 15, "list.0.sub.c": 17, "list.1": 18, "list.1.a": 19, "list.1.deep.0.z": 21,
	} {
		if lines[path] != want {
			t.Errorf("%s: line %d, want %d", path, lines[path], want)
		}
	}
	for _, path := range []string{"a", "x", "t.x", "t.y", "y"} {
		if n, ok := lines[path]; ok {
			t.Errorf("%s: found on line %d, where no such key is", path, n)
		}
	}
}

// A file is read in a time that its size bounds, whatever stands in it.
func TestKeyLinesOfHostileText(t *testing.T) {
	for _, part := range []string{"a.", "a=[", "[", "{", "[[", "[a]\n", "[[a]]\n", "\"", "'''", "a={a="} {
		start := time.Now()
		keyLines(strings.Repeat(part, maxFile/len(part)))
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%q over and over took %s", part, took)
		}
	}
}

// Every key that the parser finds has a line.
func FuzzKeyLines(f *testing.F) {
	f.Add("a = 1\n[b]\nc.d = [1, [2], {e = '}'}]\n[[f]]\n[f.g]\nh = \"\"\"\"x\"\"\"\"\"\n")
	f.Add("a = { b = 1, c = { d = \"\\\"}\" } } # }\n'k' = 2")
	f.Add("x = [\n# ]\n1,\n]\ny = 3")
	f.Fuzz(func(t *testing.T, text string) {
		lines := keyLines(text)
		var tree map[string]any
		if _, err := toml.Decode(text, &tree); err != nil {
			return
		}
		for key := range tree {
			if n := lines[key]; n < 1 || n > strings.Count(text, "\n")+1 {
				t.Errorf("key %q is on line %d\n%s", key, n, text)
			}
		}
	})
}
