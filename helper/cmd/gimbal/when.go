package main

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// errNoTime says that a text has none of the forms of a time.
var errNoTime = errors.New("is no time")

// parseWhen reads a moment in every form that sacct takes for -S and -E:
//
//	HH:MM[:SS] [AM|PM]
//	MMDD[YY], MM.DD[.YY], MM/DD[/YY], YYYY-MM-DD
//	today, tomorrow, midnight, noon, elevenses, fika, teatime
//	now[{+|-}COUNT[seconds|minutes|hours|days|weeks]]
//	utsSECONDS (since the epoch)
//
// A day and a time of day may come together, in either order, with blanks, a
// hyphen or a T between them. A time without a date is today's; a date without a
// year is the last such month, this one included. A day that the calendar lacks is
// refused, where sacct takes one of the next month.
func parseWhen(s string, now time.Time) (time.Time, error) {
	text := strings.ToLower(strings.TrimSpace(s))
	if rest, ok := strings.CutPrefix(text, "now"); ok {
		d, err := parseOffset(strings.ReplaceAll(rest, " ", ""))
		if err != nil {
			return time.Time{}, fmt.Errorf("time %q: %w", s, err)
		}
		return now.Add(d), nil
	}
	if rest, ok := strings.CutPrefix(text, "uts"); ok {
		n, err := strconv.ParseUint(rest, 10, 40)
		if err != nil {
			return time.Time{}, fmt.Errorf("time %q: %q is no number of seconds since the epoch", s, rest)
		}
		return time.Unix(int64(n), 0).In(now.Location()), nil
	}
	m := when{now: now}
	for ok := text != ""; !ok || text != ""; {
		if ok {
			text, ok = m.take(text)
		}
		if !ok {
			return time.Time{}, fmt.Errorf("%q %w; valid forms: HH:MM[:SS], MMDD[YY], MM/DD[/YY], YYYY-MM-DD[THH:MM[:SS]], today, noon, now-2hours", s, errNoTime)
		}
	}
	return m.time(), nil
}

// when is what has been read of a moment.
type when struct {
	now        time.Time
	date, hms  [3]int
	day, clock bool // which of them are there
}

// The parts of a moment, each where it begins.
var (
	clockPart = regexp.MustCompile(`^(\d\d?:\d\d(?::\d\d)?)(?: *(am|pm))?`)
	datePart  = regexp.MustCompile(`^(?:\d{4}-\d\d-\d\d|\d\d?/\d\d?(?:/\d{4}|/\d\d)?|\d\d?\.\d\d?(?:\.\d{4}|\.\d\d)?|\d{6}|\d{4})`)
	wordPart  = regexp.MustCompile(`^(?:today|tomorrow|midnight|elevenses|noon|fika|teatime)`)
	between   = regexp.MustCompile(`^(?:[ -]+|t)`)
)

// take reads the next part of a text, with what separates it from the rest.
func (m *when) take(text string) (rest string, ok bool) {
	var part string
	if part = clockPart.FindString(text); part != "" {
		ok = m.takeClock(part)
	} else if part = datePart.FindString(text); part != "" {
		ok = m.takeDate(part)
	} else if part = wordPart.FindString(text); part != "" {
		ok = m.takeWord(part)
	}
	rest = text[len(part):]
	sep := between.FindString(rest)
	return rest[len(sep):], ok && (rest == "" || sep != "")
}

func (m *when) takeClock(part string) (ok bool) {
	if m.clock {
		return false
	}
	m.clock = true
	m.hms, ok = parseClock(strings.ReplaceAll(part, " ", ""))
	return ok
}

func (m *when) takeDate(part string) bool {
	if m.day {
		return false
	}
	m.day = true
	y, month, d, ok := parseDate(part, m.now)
	m.date = [3]int{y, int(month), d}
	t := m.time()
	return ok && t.Month() == month && t.Day() == d
}

func (m *when) takeWord(word string) bool {
	hour, ahead := map[string]int{"elevenses": 11, "noon": 12, "fika": 15, "teatime": 16}[word], 0
	if word != "today" && word != "tomorrow" {
		ok := !m.clock
		m.clock, m.hms = true, [3]int{hour, 0, 0}
		return ok
	}
	if word == "tomorrow" {
		ahead = 1
	}
	y, month, d := m.now.Date()
	ok := !m.day
	m.day, m.date = true, [3]int{y, int(month), d + ahead}
	return ok
}

// time is the moment: today where no day was named.
func (m *when) time() time.Time {
	y, month, d := m.now.Date()
	if m.day {
		y, month, d = m.date[0], time.Month(m.date[1]), m.date[2]
	}
	return time.Date(y, month, d, m.hms[0], m.hms[1], m.hms[2], 0, m.now.Location())
}

// parseOffset reads what follows "now".
func parseOffset(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	if s[0] != '+' && s[0] != '-' {
		return 0, fmt.Errorf("a + or - is to follow now")
	}
	digits := strings.TrimRight(s[1:], "abcdefghijklmnopqrstuvwxyz")
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is no number", digits)
	}
	unit, ok := timeUnit(s[1+len(digits):])
	if !ok {
		return 0, fmt.Errorf("%q is none of seconds, minutes, hours, days, weeks", s[1+len(digits):])
	}
	if s[0] == '-' {
		n = -n
	}
	return time.Duration(n) * unit, nil
}

// timeUnit takes a unit by any start of its name.
func timeUnit(s string) (time.Duration, bool) {
	for _, u := range []struct {
		name string
		unit time.Duration
	}{{"seconds", time.Second}, {"minutes", time.Minute}, {"hours", time.Hour}, {"days", 24 * time.Hour}, {"weeks", 7 * 24 * time.Hour}} {
		if strings.HasPrefix(u.name, s) {
			return u.unit, true
		}
	}
	return 0, false
}

func parseDate(s string, now time.Time) (y int, m time.Month, d int, ok bool) {
	for _, sep := range []string{"-", "/", "."} {
		if !strings.Contains(s, sep) {
			continue
		}
		parts := strings.Split(s, sep)
		if sep == "-" {
			if len(parts) != 3 || len(parts[0]) != 4 {
				return 0, 0, 0, false
			}
			parts = []string{parts[1], parts[2], parts[0]}
		}
		return dateOf(parts, now)
	}
	switch len(s) {
	case 4:
		return dateOf([]string{s[:2], s[2:]}, now)
	case 6:
		return dateOf([]string{s[:2], s[2:4], s[4:]}, now)
	}
	return 0, 0, 0, false
}

// dateOf reads month, day and, if it is there, the year.
func dateOf(parts []string, now time.Time) (y int, m time.Month, d int, ok bool) {
	if len(parts) < 2 || len(parts) > 3 {
		return 0, 0, 0, false
	}
	month, ok1 := small(parts[0], 2, 12)
	d, ok2 := small(parts[1], 2, 31)
	m, y = time.Month(month), now.Year()
	if m > now.Month() {
		y-- // sacct looks back
	}
	ok3 := true
	if len(parts) == 3 {
		if y, ok3 = small(parts[2], 4, 9999); len(parts[2]) == 2 {
			y += 2000
		}
	}
	return y, m, d, ok1 && ok2 && ok3 && month > 0 && d > 0
}

// small reads a number of one to width digits up to most.
func small(s string, width, most int) (int, bool) {
	if len(s) == 0 || len(s) > width || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil && n <= most
}

func parseClock(s string) (hms [3]int, ok bool) {
	half := ""
	if strings.HasSuffix(s, "am") || strings.HasSuffix(s, "pm") {
		s, half = s[:len(s)-2], s[len(s)-2:]
	}
	parts := strings.Split(s, ":")
	if len(parts) < 2 || len(parts) > 3 {
		return hms, false
	}
	for i, p := range parts {
		most := 59
		if i == 0 {
			most = 23
		}
		if hms[i], ok = small(p, 2, most); !ok {
			return hms, false
		}
	}
	switch {
	case half != "" && hms[0] > 12:
		return hms, false
	case half == "pm" && hms[0] != 12:
		hms[0] += 12
	case half == "am" && hms[0] == 12:
		hms[0] = 0
	}
	return hms, true
}
