package config

import (
	"strconv"
	"strings"
)

// keyLines finds the line of every key of a TOML text that has already been
// parsed without an error. A path is dotted, with the number of the element
// where there is a list: "limits.max_pause", "bound.0.user". Of a text that is
// not TOML it finds some of the keys.
func keyLines(text string) map[string]int {
	s := &scanner{text: text, line: 1, lines: map[string]int{}, count: map[string]int{}}
	for s.statement() {
	}
	return s.lines
}

type scanner struct {
	text  string
	pos   int
	line  int
	table string         // path of the table in force
	lines map[string]int // found so far
	count map[string]int // elements of each [[list]] so far
}

// statement reads a header or a key with its value; it returns false at the
// end of the text.
func (s *scanner) statement() bool {
	s.blank()
	switch {
	case s.pos >= len(s.text):
		return false
	case strings.HasPrefix(s.text[s.pos:], "[["):
		s.pos += 2
		s.header(true)
	case s.text[s.pos] == '[':
		s.pos++
		s.header(false)
	default:
		s.pair(s.table)
	}
	return true
}

// header reads the rest of [table] or [[list]].
func (s *scanner) header(list bool) {
	line := s.line
	parts := s.key()
	path := ""
	for i, p := range parts {
		path = join(path, p)
		if n := s.count[path]; n > 0 && (!list || i < len(parts)-1) {
			path = join(path, strconv.Itoa(n-1))
		}
	}
	if list {
		s.note(path, line)
		s.count[path]++
		path = join(path, strconv.Itoa(s.count[path]-1))
	}
	s.note(path, line)
	s.table = path
	s.skipTo("\n")
}

// pair reads key = value.
func (s *scanner) pair(table string) {
	line, start := s.line, s.pos
	path := table
	for _, p := range s.key() {
		path = join(path, p)
		s.note(path, line)
	}
	s.space()
	if s.peek() == '=' {
		s.pos++
	} else if s.pos == start {
		s.next() // not TOML: go on, whatever it is
		return
	}
	s.space()
	s.value(path)
}

// note keeps the first line on which a path stands.
func (s *scanner) note(path string, line int) {
	if _, ok := s.lines[path]; !ok {
		s.lines[path] = line
	}
}

// key reads a dotted key.
func (s *scanner) key() []string {
	var parts []string
	for {
		s.space()
		switch c := s.peek(); {
		case c == '"' || c == '\'':
			parts = append(parts, s.quoted())
		case bare(c):
			start := s.pos
			for bare(s.peek()) {
				s.pos++
			}
			parts = append(parts, s.text[start:s.pos])
		default:
			return parts
		}
		s.space()
		if s.peek() != '.' {
			return parts
		}
		s.pos++
	}
}

// value passes over a value, and notes the keys inside it.
func (s *scanner) value(path string) {
	switch s.peek() {
	case '"', '\'':
		s.quoted()
	case '[':
		s.pos++
		s.list(path)
	case '{':
		s.pos++
		s.inline(path)
	default:
		for s.pos < len(s.text) && !strings.ContainsRune(",]}#\n", rune(s.text[s.pos])) {
			s.pos++
		}
	}
}

func (s *scanner) list(path string) {
	for n := 0; ; {
		s.blank()
		switch s.peek() {
		case 0, ']':
			s.next()
			return
		case ',':
			s.pos++
			n++
		default:
			at := s.pos
			item := join(path, strconv.Itoa(n))
			s.note(item, s.line)
			s.value(item)
			if s.pos == at {
				s.next()
			}
		}
	}
}

func (s *scanner) inline(path string) {
	for {
		s.blank()
		switch s.peek() {
		case 0, '}':
			s.next()
			return
		case ',':
			s.pos++
		default:
			at := s.pos
			s.pair(path)
			if s.pos == at {
				s.next()
			}
		}
	}
}

// quoted passes over a string of any of the four kinds and returns what is
// between its quotes, escapes resolved where they are simple.
func (s *scanner) quoted() string {
	q := s.text[s.pos : s.pos+1]
	if strings.HasPrefix(s.text[s.pos:], q+q+q) {
		q = q + q + q
	}
	s.pos += len(q)
	start := s.pos
	for s.pos < len(s.text) && !strings.HasPrefix(s.text[s.pos:], q) {
		if s.text[s.pos] == '\\' && q[0] == '"' {
			s.next()
		}
		s.next()
	}
	end := min(s.pos, len(s.text))
	s.pos = min(s.pos+len(q), len(s.text))
	for len(q) == 3 && s.peek() == q[0] { // a quote may stand just before the closing three
		s.pos++
	}
	body := s.text[start:end]
	if q == `"` {
		if u, err := strconv.Unquote(`"` + body + `"`); err == nil {
			return u
		}
	}
	return body
}

// blank passes over white space, newlines and comments.
func (s *scanner) blank() {
	for s.pos < len(s.text) {
		switch s.text[s.pos] {
		case ' ', '\t', '\r', '\n':
			s.next()
		case '#':
			s.skipTo("\n")
		default:
			return
		}
	}
}

func (s *scanner) space() {
	for s.peek() == ' ' || s.peek() == '\t' {
		s.pos++
	}
}

func (s *scanner) skipTo(stop string) {
	i := strings.Index(s.text[s.pos:], stop)
	if i < 0 {
		s.pos = len(s.text)
		return
	}
	s.pos += i
}

// next passes over one byte and counts lines.
func (s *scanner) next() {
	if s.pos < len(s.text) {
		if s.text[s.pos] == '\n' {
			s.line++
		}
		s.pos++
	}
}

func (s *scanner) peek() byte {
	if s.pos < len(s.text) {
		return s.text[s.pos]
	}
	return 0
}

func bare(c byte) bool {
	return c == '_' || c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// maxPath is how long a path may get; no key of ours is near it, and a file of
// nothing but dots must not take for ever.
const maxPath = 1024

func join(path, key string) string {
	switch {
	case path == "":
		return key
	case len(path) > maxPath:
		return path
	}
	return path + "." + key
}
