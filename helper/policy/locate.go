package policy

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// locations finds where the keys of a TOML text stand. The TOML library
// checks the text, but does not tell where a key is; this reads only as much
// of the syntax as that takes, and of text that is known to be valid.
type locations struct {
	text   string
	keys   map[string]int // where a key or a table's head begins, in bytes, by path
	values map[string]int // where its value begins
	at     int
	prefix string
	counts map[string]int // heads of [[lists]] so far
}

// locate reads the whole text. Paths are written with dots: guard.0.when.
func locate(text string) *locations {
	l := &locations{text: text, keys: map[string]int{}, values: map[string]int{}, counts: map[string]int{}}
	for l.at < len(text) {
		l.line()
	}
	return l
}

// place is the line and column of a path, or of the nearest table around it.
func (l *locations) place(path string) (line, col int) {
	for {
		if at, ok := l.keys[path]; ok {
			return l.lineCol(at)
		}
		i := strings.LastIndexByte(path, '.')
		if i < 0 {
			return 1, 1
		}
		path = path[:i]
	}
}

// inside is the line and column of a character of the text at a path.
func (l *locations) inside(path string, char int) (line, col int) {
	at, ok := l.values[path]
	if !ok {
		return l.place(path)
	}
	return l.lineCol(l.character(at, char))
}

func (l *locations) lineCol(at int) (line, col int) {
	at = min(at, len(l.text))
	before := l.text[:at]
	start := strings.LastIndexByte(before, '\n') + 1
	return 1 + strings.Count(before, "\n"), 1 + utf8.RuneCountInString(before[start:])
}

// line reads one line, or a key with a value of several.
func (l *locations) line() {
	l.skip(" \t\r\n")
	switch {
	case l.at >= len(l.text):
	case l.text[l.at] == '#':
		l.toLineEnd()
	case l.text[l.at] == '[':
		l.head()
		l.toLineEnd()
	default:
		l.pair()
	}
}

func (l *locations) head() {
	start := l.at
	list := strings.HasPrefix(l.text[l.at:], "[[")
	l.skip("[")
	path := l.key()
	if list {
		n := l.counts[path]
		l.counts[path] = n + 1
		l.note(path, start)
		path += "." + strconv.Itoa(n)
	}
	l.note(path, start)
	l.prefix = path + "."
}

// note keeps the first place of a path, and of the tables around it.
func (l *locations) note(path string, at int) {
	if _, ok := l.keys[path]; !ok {
		l.keys[path] = at
	}
}

func (l *locations) pair() {
	start := l.at
	path := l.prefix + l.key()
	l.skip(" \t=")
	l.note(path, start)
	l.values[path] = l.at
	l.value()
	l.toLineEnd()
}

// key reads a dotted key up to what ends it.
func (l *locations) key() string {
	var parts []string
	for l.at < len(l.text) {
		l.skip(" \t.")
		if l.at >= len(l.text) || strings.IndexByte("=]\r\n#", l.text[l.at]) >= 0 {
			break
		}
		start := l.at
		if c := l.text[l.at]; c == '"' || c == '\'' {
			l.quoted()
			parts = append(parts, strings.Trim(l.text[start:l.at], `"'`))
			continue
		}
		for l.at < len(l.text) && strings.IndexByte(" \t.=]\r\n", l.text[l.at]) < 0 {
			l.at++
		}
		parts = append(parts, l.text[start:l.at])
	}
	return strings.Join(parts, ".")
}

// value skips a value, of several lines too.
func (l *locations) value() {
	depth := 0
	for l.at < len(l.text) {
		switch c := l.text[l.at]; {
		case c == '"' || c == '\'':
			l.quoted()
			continue
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		case c == '#':
			l.toLineEnd()
			continue
		case c == '\n' && depth <= 0:
			return
		}
		l.at++
	}
}

// quoted skips a string of any of the four kinds.
func (l *locations) quoted() {
	mark := quoteAt(l.text[l.at:])
	l.at += len(mark)
	for l.at < len(l.text) && !strings.HasPrefix(l.text[l.at:], mark) {
		if mark[0] == '"' && l.text[l.at] == '\\' {
			l.at++
		}
		l.at++
	}
	l.at = min(l.at+len(mark), len(l.text))
	if len(mark) == 3 { // up to two quotes may stand before the mark
		l.skip(mark[:1])
	}
}

func quoteAt(s string) string {
	if strings.HasPrefix(s, `"""`) || strings.HasPrefix(s, `'''`) {
		return s[:3]
	}
	return s[:1]
}

func (l *locations) skip(chars string) {
	for l.at < len(l.text) && strings.IndexByte(chars, l.text[l.at]) >= 0 {
		l.at++
	}
}

func (l *locations) toLineEnd() {
	for l.at < len(l.text) && l.text[l.at] != '\n' {
		l.at++
	}
}

// character finds the byte at which a character of the string literal that
// begins at a byte is written.
func (l *locations) character(at, char int) int {
	mark := quoteAt(l.text[at:])
	if mark[0] != '"' && mark[0] != '\'' {
		return at
	}
	at += len(mark)
	if len(mark) == 3 {
		at += len(l.text[at:]) - len(strings.TrimPrefix(strings.TrimPrefix(l.text[at:], "\r"), "\n"))
	}
	for ; char > 0 && at < len(l.text) && !strings.HasPrefix(l.text[at:], mark); char-- {
		if mark[0] == '"' {
			at = pastFold(l.text, at)
		}
		at += written(l.text[at:], mark[0] == '"')
	}
	if mark[0] == '"' {
		at = pastFold(l.text, at)
	}
	return at
}

// pastFold steps over backslashes that end a line, with the space after them.
func pastFold(text string, at int) int {
	for at < len(text) && text[at] == '\\' {
		rest := strings.TrimLeft(text[at+1:], " \t\r")
		if !strings.HasPrefix(rest, "\n") {
			return at
		}
		at = len(text) - len(strings.TrimLeft(rest, " \t\r\n"))
	}
	return at
}

// written is the number of bytes in which the next character is written.
func written(s string, escapes bool) int {
	if escapes && len(s) > 1 && s[0] == '\\' {
		return min(len(s), escapeLength(s[1]))
	}
	_, n := utf8.DecodeRuneInString(s)
	return max(n, 1)
}

func escapeLength(c byte) int {
	switch c {
	case 'x':
		return 4
	case 'u':
		return 6
	case 'U':
		return 10
	}
	return 2
}
