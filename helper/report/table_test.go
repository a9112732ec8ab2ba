package report

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/tests/draw"
)

func render(t testing.TB, format string, rows []Row, l Layout) string {
	t.Helper()
	var b strings.Builder
	if err := Write(&b, columns(t, format), rows, l); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTables(t *testing.T) {
	tests := []struct {
		file, format string
		sel          Selection
		layout       Layout
	}{
		{"default.txt", DefaultFormat, everything(), Layout{}},
		{"allocations.txt", "jobid,jobidraw,state%20,exitcode,start,end,elapsed", Selection{Allocations: true}, Layout{}},
		{"steps.txt", "jobid,jobname,state,ntasks", Selection{Jobs: []model.JobRef{{Job: 21, Task: model.NoVal, Offset: model.NoVal, Step: 0}}}, Layout{}},
		{"widths.txt", "jobid%3,jobname%-20,state%4,user%40", everything(), Layout{NoHeader: true}},
		{"parsable.txt", "jobid,jobname,user,reason", everything(), Layout{Parsable: true, Trailing: true}},
		{"parsable2.txt", "ALL", everything(), Layout{Parsable: true}},
		{"delimiter.txt", "jobid,jobname", everything(), Layout{Parsable: true, Delimiter: ", "}},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			golden(t, tt.file, render(t, tt.format, Rows(fixture(), tt.sel, utc()), tt.layout))
		})
	}
}

func TestGPUs(t *testing.T) {
	s := fixture()
	s.Foreign = map[string]model.Reading[model.Bytes]{"GPU-bb": model.Unknown[model.Bytes]()}
	s.GPUs[1].Fault = "lost"
	var b strings.Builder
	if err := WriteGPUs(&b, s, nil); err != nil {
		t.Fatal(err)
	}
	s.GPUs[1].Minor = 7
	if err := WriteGPUs(&b, s, func(minor int) string { return fmt.Sprintf("%d/8", minor) }); err != nil {
		t.Fatal(err)
	}
	golden(t, "gpus.txt", b.String())
}

// anyName draws names as users and enemies make them.
func anyName() *rapid.Generator[string] {
	return rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "|", "a|b", "\\", "\\|", "\n", "\t", "\x1b[2J", "宽字符",
		"e\u0301", "\u202eabc", "\xff\xfe", "\ufffd", "👩‍👩‍👧", "ab", "  ", "\r\n", "＋＋＋＋＋＋＋＋＋＋＋＋"}),
		rapid.StringN(40, 60, -1))
}

func namedRows(names ...string) []Row {
	s := fixture()
	s.Tenants = nil
	for i, n := range names {
		v := view(uint32(123456789+i), n, model.Running, time.Minute)
		v.Reg.User, v.Reason.Text = n, n
		v.Reg.ArrayJob, v.Reg.ArrayTask = 123456789, 1000
		s.Tenants = append(s.Tenants, v)
	}
	return Rows(s, Selection{Allocations: true}, utc())
}

// Whatever names there are, each row of the table is one line, all lines are
// equally wide on a terminal, and ids are whole.
func TestTableStaysAligned(t *testing.T) {
	cols := columns(t, "JobID%3,JobName,User,Reason%-7,Elapsed%2")
	draw.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfN(anyName(), 1, 5).Draw(t, "names")
		var b strings.Builder
		if err := Write(&b, cols, namedRows(names...), Layout{}); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
		if len(lines) != len(names)+2 {
			t.Fatalf("%d lines for %d rows:\n%s", len(lines), len(names), b.String())
		}
		for _, l := range lines {
			if Width(l) != Width(lines[1]) {
				t.Fatalf("a line is %d wide, the rule %d:\n%s", Width(l), Width(lines[1]), b.String())
			}
			if strings.ContainsAny(l, "\x1b\r\t\u202e") {
				t.Fatalf("something reaches the terminal: %q", l)
			}
		}
		for _, l := range lines[2:] {
			if !strings.Contains(l, "123456789_1000") {
				t.Fatalf("the id is cut: %q", l)
			}
		}
	})
}

// Each row of -P has the header's number of fields for whoever just splits at
// the delimiter, and every value can be had back.
func TestParsableKeepsEveryValue(t *testing.T) {
	cols := columns(t, "JobID,JobName,User,Reason")
	delims := rapid.SampledFrom([]string{"|", ",", ";", "||", " ", "\t", "a,", "::", "\x01", "é", "z"})
	draw.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfN(anyName(), 1, 4).Draw(t, "names")
		d := delims.Draw(t, "delimiter")
		trailing := rapid.Bool().Draw(t, "trailing")
		var b strings.Builder
		if err := Write(&b, cols, namedRows(names...), Layout{Parsable: true, Delimiter: d, Trailing: trailing, NoHeader: true}); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
		if len(lines) != len(names) {
			t.Fatalf("%d lines for %d rows: %q", len(lines), len(names), b.String())
		}
		for i, l := range lines {
			fields := strings.Split(l, d)
			want := len(cols)
			if trailing {
				want++
			}
			if len(fields) != want {
				t.Fatalf("%d fields in %q", len(fields), l)
			}
			if got := undelimit(t, fields[1]); got != names[i] {
				t.Fatalf("name %q came back as %q from %q", names[i], got, fields[1])
			}
		}
	})
}

// undelimit undoes Delimited, as its documentation says.
func undelimit(t *rapid.T, s string) string {
	var b []byte
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b = append(b, s[i])
			continue
		}
		i++
		digits := 0
		switch s[i] {
		case '\\':
			b = append(b, '\\')
		case 'n':
			b = append(b, '\n')
		case 't':
			b = append(b, '\t')
		case 'x':
			digits = 2
		case 'u':
			digits = 4
		case 'U':
			digits = 8
		default:
			t.Fatalf("unknown escape in %q", s)
		}
		if digits == 0 {
			continue
		}
		n, err := strconv.ParseUint(s[i+1:i+1+digits], 16, 32)
		if err != nil {
			t.Fatal(err)
		}
		if digits == 2 {
			b = append(b, byte(n))
		} else {
			b = append(b, string(rune(n))...)
		}
		i += digits
	}
	return string(b)
}

func TestDelimiters(t *testing.T) {
	for d, ok := range map[string]bool{"": true, "|": true, ", ": true, "x|": true, "\\": false, "x": false, "n": false, "12": false} {
		if err := CheckDelimiter(d); (err == nil) != ok {
			t.Errorf("delimiter %q: %v", d, err)
		}
	}
	if err := Write(&strings.Builder{}, columns(t, "jobid"), nil, Layout{Parsable: true, Delimiter: "x"}); err == nil {
		t.Error("a table with an ambiguous delimiter was written")
	}
}

func TestParseFormat(t *testing.T) {
	tests := []struct{ in, want, err string }{
		{in: "jobid,STATE", want: "JobID 12 true, State 10 false"},
		{in: "JobName%20", want: "JobName 20 false"},
		{in: "jobname%-20, user", want: "JobName 20 true, User 9 false"},
		{in: "maxg", want: "MaxGPUMem 10 false"},
		{in: "jobidr", want: "JobIDRaw 12 true"},
		{in: "banana", err: "valid ones"},
		{in: "", err: "names no field"},
		{in: ", ,", err: "names no field"},
		{in: "jobid,,user,", want: "JobID 12 true, User 9 false"},
		{in: "re", want: "Reason 20 true"}, // the first, as sacct has it
		{in: "jobi", want: "JobID 12 true"},
		{in: "user%", err: "not a number"},
		{in: "user%0", err: "not a number"},
		{in: "user%x", err: "not a number"},
		{in: "user%99999999", err: "not a number"},
	}
	for _, tt := range tests {
		cols, err := ParseFormat(tt.in)
		var got []string
		for _, c := range cols {
			got = append(got, c.Name+" "+strconv.Itoa(c.Width)+" "+strconv.FormatBool(c.Left))
		}
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%q: %v, want an error with %q", tt.in, err, tt.err)
			}
			continue
		}
		if err != nil || strings.Join(got, ", ") != tt.want {
			t.Errorf("%q: %v, %v; want %s", tt.in, got, err, tt.want)
		}
	}
}

func FuzzParseFormat(f *testing.F) {
	f.Add("jobid%-3,ALL")
	f.Add("%,%%")
	f.Fuzz(func(t *testing.T, s string) {
		cols, err := ParseFormat(s)
		if err != nil || len(cols) > 500 {
			return
		}
		if err := Write(&strings.Builder{}, cols, namedRows("x"), Layout{}); err != nil {
			t.Error(err)
		}
	})
}

func TestFieldsAreSound(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range Fields() {
		if seen[strings.ToLower(f.Name)] || f.Width < 1 || f.Help == "" || f.Value == nil {
			t.Errorf("field %+v", f)
		}
		seen[strings.ToLower(f.Name)] = true
	}
	golden(t, "fields.txt", func() string {
		var b strings.Builder
		if err := WriteFields(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}())
}

func TestValues(t *testing.T) {
	durations := map[time.Duration]string{0: "00:00:00", 59*time.Second + 999*time.Millisecond: "00:00:59", 90 * time.Second: "00:01:30",
		25 * time.Hour: "1-01:00:00", 100 * 24 * time.Hour: "100-00:00:00", -time.Hour: "00:00:00"}
	for d, want := range durations {
		if got := Duration(d); got != want {
			t.Errorf("Duration(%v) = %s, want %s", d, got, want)
		}
	}
	sizes := []struct {
		b    model.Bytes
		unit byte
		want string
	}{{0, 0, "0K"}, {512 * model.MiB, 0, "512M"}, {9*model.GiB + 512*model.MiB, 0, "9.50G"}, {model.GiB, 'M', "1024M"},
		{model.GiB, 'T', "0.00T"}, {2 * model.TiB, 0, "2T"}, {1500, 0, "1.46K"}}
	for _, tt := range sizes {
		if got := Memory(tt.b, tt.unit); got != tt.want {
			t.Errorf("Memory(%d, %q) = %s, want %s", tt.b, tt.unit, got, tt.want)
		}
	}
	if got := Clock(time.Time{}, time.UTC); got != "Unknown" {
		t.Errorf("the zero time is %s", got)
	}
	if got := ExitCode(3<<8) + " " + ExitCode(9); got != "3:0 0:9" {
		t.Errorf("exit codes %s", got)
	}
}

func BenchmarkTable10000(b *testing.B) {
	s := fixture()
	s.Tenants = nil
	for i := range 10_000 {
		s.Tenants = append(s.Tenants, view(uint32(i+1), "train.sh", model.Gone, time.Hour))
	}
	cols := columns(b, DefaultFormat)
	for b.Loop() {
		var out strings.Builder
		if err := Write(&out, cols, Rows(s, Selection{Allocations: true}, utc()), Layout{}); err != nil {
			b.Fatal(err)
		}
	}
}
