package main

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the files that scripts compare with anew")

// TestScripts runs the scripts in testdata/script, in the form of Go's own
// script tests: files behind "-- NAME --", and above them commands:
//
//	[!] gimbal ARG...        must succeed, or fail where ! stands before it
//	exit N                   the last gimbal's exit code
//	[!] stdout|stderr REGEXP matches the last gimbal's output, or does not
//	cmp stdout FILE          the whole output
//	env NAME=VALUE
//	daemon [private], mute, journal   see node_test.go
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txtar"), func(t *testing.T) { runScript(t, f) })
	}
}

// script is one script as it runs.
type script struct {
	t           *testing.T
	dir         string
	env         map[string]string
	out, errOut bytes.Buffer
	code        int
	fresh       map[string]string // files to be written anew with -update
}

func runScript(t *testing.T, path string) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	commands, files := parseArchive(string(text))
	dir := t.TempDir()
	s := &script{t: t, dir: dir, fresh: map[string]string{}, env: map[string]string{"WORK": dir, "TEST_UID": "0",
		"SOCK": filepath.Join(dir, "run", "g.sock"), "STATE": filepath.Join(dir, "state")}}
	for name, content := range files {
		file := filepath.Join(dir, name)
		err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(content), 0o644))
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	for n, line := range strings.Split(commands, "\n") {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			s.do(n+1, line)
		}
	}
	if len(s.fresh) > 0 {
		s.rewrite(path, string(text))
	}
}

// parseArchive cuts a file at its "-- NAME --" lines.
func parseArchive(text string) (head string, files map[string]string) {
	mark := regexp.MustCompile(`(?m)^-- (\S+) --\n`)
	at := mark.FindAllStringSubmatchIndex(text, -1)
	files = map[string]string{}
	if len(at) == 0 {
		return text, files
	}
	for i, m := range at {
		end := len(text)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		files[text[m[2]:m[3]]] = text[m[1]:end]
	}
	return text[:at[0][0]], files
}

// rewrite puts the outputs of this run into the script.
func (s *script) rewrite(path, text string) {
	head, files := parseArchive(text)
	var b strings.Builder
	b.WriteString(head)
	for _, m := range regexp.MustCompile(`(?m)^-- (\S+) --\n`).FindAllStringSubmatch(text, -1) {
		content := files[m[1]]
		if fresh, ok := s.fresh[m[1]]; ok {
			content = fresh
		}
		b.WriteString(m[0] + content)
	}
	if err := os.WriteFile(filepath.Join(sourceDir, path), []byte(b.String()), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// sourceDir is where the test began: scripts run in folders of their own.
var sourceDir, _ = os.Getwd()

func (s *script) do(n int, line string) {
	words := s.words(line)
	not := words[0] == "!"
	if not {
		words = words[1:]
	}
	switch words[0] {
	case "gimbal":
		s.gimbal(words[1:])
		if (s.code != 0) != not {
			s.t.Fatalf("line %d: %s: exit %d\n%s%s", n, line, s.code, &s.out, &s.errOut)
		}
	case "exit":
		if words[1] != strconv.Itoa(s.code) {
			s.t.Fatalf("line %d: exit code %d, want %s", n, s.code, words[1])
		}
	case "stdout":
		s.match(n, s.out.String(), words[1], not)
	case "stderr":
		s.match(n, s.errOut.String(), words[1], not)
	case "cmp":
		s.compare(n, words[2])
	case "env":
		name, value, _ := strings.Cut(words[1], "=")
		s.env[name] = value
	case "daemon":
		serve(s.t, s.env["SOCK"], s.env["STATE"], len(words) > 1)
	case "mute":
		mute(s.t, s.env["SOCK"])
	case "journal":
		if err := writeJournal(s.env["STATE"]); err != nil {
			s.t.Fatal(err)
		}
	default:
		s.t.Fatalf("line %d: unknown command %q", n, words[0])
	}
}

// words splits a line at spaces outside single quotes and fills in $NAME.
func (s *script) words(line string) []string {
	var out []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			out = append(out, part)
			continue
		}
		for _, w := range strings.Fields(part) {
			if strings.Contains(w, "$") && (w[0] == '$') {
				name, rest, slash := strings.Cut(w[1:], "/")
				if v, ok := s.env[name]; ok {
					w = v
					if slash {
						w += "/" + rest
					}
				}
			}
			out = append(out, w)
		}
	}
	return out
}

// gimbal runs the command at noon.
func (s *script) gimbal(args []string) {
	s.out.Reset()
	s.errOut.Reset()
	uid, err := strconv.Atoi(s.env["TEST_UID"])
	if err != nil {
		s.t.Fatal(err)
	}
	s.code = run(args, world{stdout: &s.out, stderr: &s.errOut, uid: uid,
		env: func(name string) string { return s.env[name] }, now: func() time.Time { return noon }})
}

func (s *script) match(n int, text, pattern string, not bool) {
	found, err := regexp.MatchString("(?m)"+pattern, text)
	if err != nil {
		s.t.Fatalf("line %d: %v", n, err)
	}
	if found == not {
		s.t.Fatalf("line %d: %q matches: %v; the text:\n%s", n, pattern, found, text)
	}
}

func (s *script) compare(n int, file string) {
	if *update {
		s.fresh[file] = s.out.String()
		return
	}
	want, err := os.ReadFile(filepath.Join(s.dir, file))
	if err != nil {
		s.t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), s.out.String()); diff != "" {
		s.t.Errorf("line %d: %s (-want +got):\n%s", n, file, diff)
	}
}
