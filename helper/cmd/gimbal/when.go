package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// errNoTime says that a text has none of the forms of a time.
var errNoTime = errors.New("is no time")

// parseWhen reads a moment in every form that sacct takes for -S and -E:
//
//	HH:MM[:SS][AM|PM]
//	MMDD[YY], MM.DD[.YY], MM/DD[/YY], YYYY-MM-DD, each with [-T]HH:MM[:SS]
//	today, tomorrow, midnight, noon, elevenses, fika, teatime
//	now[{+|-}COUNT[seconds|minutes|hours|days|weeks]]
//	utsSECONDS (since the epoch)
//
// A time without a date is today's; a date without a year is the last such
// month, this one included.
func parseWhen(s string, now time.Time) (time.Time, error) {
	text := strings.ToLower(strings.TrimSpace(s))
	if rest, ok := strings.CutPrefix(text, "now"); ok {
		d, err := parseOffset(rest)
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
	if hour, day, ok := namedTime(text); ok {
		return time.Date(now.Year(), now.Month(), now.Day()+day, hour, 0, 0, 0, now.Location()), nil
	}
	date, clock := splitWhen(text)
	y, m, d := now.Date()
	var hms [3]int
	ok := date != "" || clock != ""
	if date != "" {
		y, m, d, ok = parseDate(date, now)
	}
	if ok && clock != "" {
		hms, ok = parseClock(clock)
	}
	t := time.Date(y, m, d, hms[0], hms[1], hms[2], 0, now.Location())
	if !ok || t.Month() != m || t.Day() != d {
		return time.Time{}, fmt.Errorf("%q %w; valid forms: HH:MM[:SS], MMDD[YY], MM/DD[/YY], YYYY-MM-DD[THH:MM[:SS]], today, noon, now-2hours", s, errNoTime)
	}
	return t, nil
}

func namedTime(s string) (hour, day int, ok bool) {
	switch s {
	case "today", "midnight":
		return 0, 0, true
	case "tomorrow":
		return 0, 1, true
	case "elevenses":
		return 11, 0, true
	case "noon":
		return 12, 0, true
	case "fika":
		return 15, 0, true
	case "teatime":
		return 16, 0, true
	}
	return 0, 0, false
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

// splitWhen cuts the date from the time of day.
func splitWhen(s string) (date, clock string) {
	colon := strings.IndexByte(s, ':')
	if colon < 0 {
		return s, ""
	}
	cut := strings.LastIndexAny(s[:colon], "-t ")
	switch cut {
	case -1:
		return "", s
	case 0:
		return s, "" // no date
	}
	return s[:cut], s[cut+1:]
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
	case half != "" && (hms[0] < 1 || hms[0] > 12):
		return hms, false
	case half == "pm" && hms[0] != 12:
		hms[0] += 12
	case half == "am" && hms[0] == 12:
		hms[0] = 0
	}
	return hms, true
}
