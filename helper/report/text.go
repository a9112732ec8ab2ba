package report

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// Clock writes a moment as sacct does, in the given place's time; the zero
// time is Unknown.
func Clock(t time.Time, loc *time.Location) string {
	if t.IsZero() {
		return "Unknown"
	}
	return t.In(loc).Format("2006-01-02T15:04:05")
}

// Duration writes a length of time as sacct does: [DD-]HH:MM:SS, cut to whole
// seconds.
func Duration(d time.Duration) string {
	s := int64(max(d, 0) / time.Second)
	var room [32]byte
	b := room[:0]
	if days := s / 86400; days > 0 {
		b = append(strconv.AppendInt(b, days, 10), '-')
	}
	b = append(twoDigits(b, s/3600%24), ':')
	b = append(twoDigits(b, s/60%60), ':')
	return string(twoDigits(b, s%60))
}

func twoDigits(b []byte, n int64) []byte { return append(b, byte('0'+n/10), byte('0'+n%10)) }

// Memory writes a size as sacct does: 512M, 9.50G; unit, one of KMGTP, fixes
// the unit, 0 leaves it to the size.
func Memory(b model.Bytes, unit byte) string {
	const units = "KMGTP"
	v, i := float64(b)/1024, 0
	for i < len(units)-1 && (unit == 0 && (v >= 1024 || v <= -1024) || unit != 0 && units[i] != unit) {
		v, i = v/1024, i+1
	}
	if v == float64(int64(v)) {
		return fmt.Sprintf("%d%c", int64(v), units[i])
	}
	return fmt.Sprintf("%.2f%c", v, units[i])
}

// ExitCode writes a wait status as sacct does: the exit code, a colon, the
// signal.
func ExitCode(status int) string { return fmt.Sprintf("%d:%d", status>>8&0xff, status&0x7f) }

// Printable makes a text one line that does nothing to a terminal: what is
// not printable is written as an escape. Backslashes stay as they are.
func Printable(s string) string {
	if plain(s) || strings.IndexFunc(s, unprintable) < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if unprintable(r) {
			b.WriteString(escape(r, s[i:i+n]))
		} else {
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// unprintable takes the replacement rune for one: it stands for a broken byte.
func unprintable(r rune) bool { return r == utf8.RuneError || r != ' ' && !unicode.IsPrint(r) }

func escape(r rune, raw string) string {
	switch {
	case r == '\n':
		return `\n`
	case r == '\t':
		return `\t`
	case len(raw) == 1:
		return fmt.Sprintf(`\x%02x`, raw[0])
	case r < 0x10000:
		return fmt.Sprintf(`\u%04x`, r)
	}
	return fmt.Sprintf(`\U%08x`, r)
}

// screen measures text as terminals show it; ambiguous characters are narrow,
// whatever the locale says, so that the same table is the same everywhere.
func screen() *runewidth.Condition {
	return &runewidth.Condition{EastAsianWidth: false, StrictEmojiNeutral: true}
}

// Width is how many columns of a terminal a text takes.
func Width(s string) int {
	if plain(s) {
		return len(s)
	}
	return screen().StringWidth(s)
}

// plain tells whether a text is printable ASCII alone, as most are.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// fit pads a text to width columns, to the left or the right; what is too
// long is cut and marked with a plus sign.
func fit(s string, width int, left bool) string {
	var b strings.Builder
	writeFit(&b, s, width, left)
	return b.String()
}

func writeFit(b *strings.Builder, s string, width int, left bool) {
	w := Width(s)
	if w > width {
		s = screen().Truncate(s, width, "+")
		w = Width(s)
	}
	if left {
		b.WriteString(s)
	}
	const blanks = "                                "
	for n := width - w; n > 0; n -= len(blanks) {
		b.WriteString(blanks[:min(n, len(blanks))])
	}
	if !left {
		b.WriteString(s)
	}
}
