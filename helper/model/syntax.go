package model

import (
	"strings"
	"unicode/utf8"
)

// SyntaxFault says where a TOML text has a fault of syntax, and which, in words. The
// library tells the bytes at which it stood when it gave up, from start on so many:
// these may reach into the line before, or begin on the blank that follows a value.
// Line and column, in characters, begin at 1; what is missing at the end of a line or
// of the text is missing on that line.
func SyntaxFault(text string, start, length int, message string) (line, col int, words string) {
	at := faultAt(text, start, length, message)
	before := text[:at]
	begin := strings.LastIndexByte(before, '\n') + 1
	return 1 + strings.Count(before, "\n"), 1 + utf8.RuneCountInString(before[begin:]), faultWords(message) + severalMeant(text, message)
}

// severalMeant says how each of several tables is headed, where one of them is headed
// as if it were the only one.
func severalMeant(text, message string) string {
	rest, ok := strings.CutPrefix(message, "Key '")
	key, said, _ := strings.Cut(rest, "'")
	if head := "[[" + key + "]]"; ok && strings.Contains(said, "already") && strings.Contains(text, head) {
		return " Each of several is headed " + head + "."
	}
	return ""
}

// faultAt is the byte of the fault.
func faultAt(text string, start, length int, message string) int {
	at := min(max(start, 0), len(text))
	last := min(max(start+length-1, at), len(text)) // of those that the library names
	for _, quotes := range []string{`"""`, `'''`} {
		if strings.HasPrefix(message, "unexpected EOF") && strings.Contains(message, quotes) {
			return max(strings.LastIndex(text, quotes), 0) // what is open there has no end
		}
	}
	if strings.Contains(message, "control characters") {
		return at + max(strings.IndexFunc(text[at:], isControl), 0)
	}
	at += strings.LastIndexByte(text[at:last], '\n') + 1
	for at < last && (text[at] == ' ' || text[at] == '\t') {
		at++
	}
	return min(at, len(strings.TrimRight(text, "\r\n")))
}

func isControl(r rune) bool { return r < ' ' && r != '\t' && r != '\n' || r == '\x7f' }

// faultWords is what a TOML library says of a fault, as a person does.
func faultWords(message string) string {
	const quoted = `; a text or a time stands in quotes, such as "20s"`
	message = strings.NewReplacer(
		`'\n'`, "the end of the line", `'\r'`, "the end of the line", `'\x00'`, "the end of the file",
		"unexpected EOF", "the file ends too early",
	).Replace(message)
	if rest, ok := strings.CutPrefix(message, "expected a top-level item to end with a newline, comment, or EOF, but got "); ok {
		rest = strings.TrimSuffix(rest, " instead")
		message = "the line should end before " + rest
		if letter := strings.Trim(rest, "'"); len(letter) == 1 && strings.ContainsAny(strings.ToLower(letter), "abcdefghijklmnopqrstuvwxyz") {
			message += quoted
		}
	}
	if strings.HasPrefix(message, `expected value but found "`) {
		message += quoted
	}
	return message
}
