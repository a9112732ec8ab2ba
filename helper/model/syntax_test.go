package model

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gimbal-hpc/gimbal/tests/draw"
)

func TestSyntaxFaultNamesTheLine(t *testing.T) {
	const head = "name = \"x\"\n[share]\n"
	for _, c := range []struct {
		what, text, at string // at: the rest of the text from the fault on
		length         int
		message        string
		line, col      int
		words          string
	}{
		{"a head that is not closed", head + "[limits\nmin_run = \"1s\"\n", "\nmin_run", 1,
			`expected '.' or ']' to end table name, but got '\n' instead`, 3, 8,
			"expected '.' or ']' to end table name, but got the end of the line instead"},
		{"one of a list", head + "[[guard]\nwhen = \"x\"\n", "]\nwhen", 2,
			`expected end of table array name delimiter ']', but got '\n' instead`, 3, 8,
			"expected end of table array name delimiter ']', but got the end of the line instead"},
		{"a head at the end", head + "[limits", "s", 1,
			`expected '.' or ']' to end table name, but got '\x00' instead`, 3, 7,
			"expected '.' or ']' to end table name, but got the end of the file instead"},
		{"quotes that are not closed", head + "rank = \"x\ntier = \"y\"\n", "\ntier", 1,
			"strings cannot contain newlines", 3, 10, "strings cannot contain newlines"},
		{"no value", head + "rank = \ntier = \"y\"\n", "\ntier", 1,
			`expected value but found '\n' instead`, 3, 8, "expected value but found the end of the line instead"},
		{"a sign without a number", head + "together = +\nplan = true\n", "+\nplan", 2,
			`expected a digit but got '\n'`, 3, 12, "expected a digit but got the end of the line"},
		{"a text without quotes", head + "quantum = long\n", "long", 4,
			`expected value but found "long" instead`, 3, 11,
			`expected value but found "long" instead; a text or a time stands in quotes, such as "20s"`},
		{"a time without quotes", head + "quantum = 20s\n", "s\n", 1,
			"expected a top-level item to end with a newline, comment, or EOF, but got 's' instead", 3, 13,
			`the line should end before 's'; a text or a time stands in quotes, such as "20s"`},
		{"two keys on a line", head + "together = 2 plan = true\n", " plan", 2,
			"expected a top-level item to end with a newline, comment, or EOF, but got 'p' instead", 3, 14,
			`the line should end before 'p'; a text or a time stands in quotes, such as "20s"`},
		{"a bracket too many", head + "[limits]]\n", "]\n", 1,
			"expected a top-level item to end with a newline, comment, or EOF, but got ']' instead", 3, 9,
			"the line should end before ']'"},
		{"a list that goes on", head + "do = [\"a\"\n[limits]\n", "[limits]", 1,
			"expected a comma (',') or array terminator (']'), but got '['", 4, 1,
			"expected a comma (',') or array terminator (']'), but got '['"},
		{"a key twice", head + "plan = true\nplan = false\n", "plan = false", 1,
			"Key 'share.plan' has already been defined.", 4, 1, "Key 'share.plan' has already been defined."},
		{"one head of several", "[[guard]]\nfor = \"1s\"\n[guard]\n", "guard]\n", 5,
			"Key 'guard' has already been defined.", 3, 2, "Key 'guard' has already been defined. Each of several is headed [[guard]]."},
		{"a text of lines without its end", head + "rank = \"\"\"\n-tenant.age\n\n[limits]\n", "", 1,
			`unexpected EOF; expected '"""'`, 3, 8, `the file ends too early; expected '"""'`},
		{"a wrong escape in one", head + "rank = \"\"\"x\n\\q\ny\"\"\"\n", "x\n\\q", 4,
			`invalid escape in string '\q'`, 4, 1, `invalid escape in string '\q'`},
		{"a control character in one", head + "rank = \"\"\"x\n\x01\n\"\"\"\n", "\n\x01", 1,
			"TOML files cannot contain control characters: '0x01'", 4, 1, "TOML files cannot contain control characters: '0x01'"},
		{"behind what has two bytes", head + "say = \"é\" x\n", " x", 2,
			"expected a top-level item to end with a newline, comment, or EOF, but got 'x' instead", 3, 11,
			`the line should end before 'x'; a text or a time stands in quotes, such as "20s"`},
		{"no end of a table in a line", "cap = {\n", "", 1, "unexpected '=': key name appears blank", 1, 8,
			"unexpected '=': key name appears blank"},
		{"nothing", "", "", 1, "unexpected EOF", 1, 1, "the file ends too early"},
	} {
		start := strings.LastIndex(c.text, c.at)
		line, col, words := SyntaxFault(c.text, start, c.length, c.message)
		if line != c.line || col != c.col || words != c.words {
			t.Errorf("%s: %d:%d %s, want %d:%d %s", c.what, line, col, words, c.line, c.col, c.words)
		}
	}
}

// TestSyntaxFaultStaysInside: whatever bytes a library names, the place is one of
// the text.
func TestSyntaxFaultStaysInside(t *testing.T) {
	draw.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune("a=[]\"' \t\r\né\x01")), 0, 40, -1).Draw(t, "text")
		message := rapid.SampledFrom([]string{"", `unexpected EOF; expected '"""'`, "control characters"}).Draw(t, "message")
		line, col, _ := SyntaxFault(text, rapid.IntRange(-3, 50).Draw(t, "start"), rapid.IntRange(-2, 20).Draw(t, "length"), message)
		lines := strings.Split(text, "\n")
		if line < 1 || line > len(lines) || col < 1 || col > 1+len([]rune(lines[line-1])) {
			t.Fatalf("%d:%d of %q", line, col, text)
		}
	})
}
