package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

var sizeUnits = map[string]model.Bytes{
	"b": 1, "k": model.KiB, "m": model.MiB, "g": model.GiB, "t": model.TiB,
}

// ParseSize reads a size with its unit: "16GiB", "9.5G", "512MB", "0B". As in
// Slurm, K, KB and KiB all are 1024 bytes. It is an error to leave the unit
// out.
func ParseSize(s string) (model.Bytes, error) {
	num, unit := splitUnit(s)
	u := strings.ToLower(unit)
	if len(u) > 1 {
		u = strings.TrimSuffix(strings.TrimSuffix(u, "b"), "i")
	}
	mult, ok := sizeUnits[u]
	if num == "" || !ok || (len(unit) > 2 && !strings.EqualFold(unit, u+"ib")) {
		return 0, fmt.Errorf(`%q is not a size with a unit such as "16GiB" or "512MiB"`, s)
	}
	v, err := strconv.ParseFloat(num, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a size: %q is not a number", s, num)
	}
	v = math.Round(v * float64(mult))
	if v >= math.MaxInt64 {
		return 0, fmt.Errorf("%q is too large a size", s)
	}
	return model.Bytes(v), nil
}

// splitUnit splits "9.5GiB" into its number and its unit.
func splitUnit(s string) (num, unit string) {
	i := strings.IndexFunc(s, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if i < 0 {
		return s, ""
	}
	return s[:i], s[i:]
}

// FormatSize writes a size so that ParseSize reads the same one.
func FormatSize(b model.Bytes) string {
	for _, u := range []struct {
		size model.Bytes
		name string
	}{{model.TiB, "TiB"}, {model.GiB, "GiB"}, {model.MiB, "MiB"}, {model.KiB, "KiB"}} {
		if b >= u.size && b%u.size == 0 {
			return strconv.FormatInt(int64(b/u.size), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10) + "B"
}

// ParseDuration reads a time with its unit: "100ms", "30s", "1m30s", "2d". It
// is an error to leave the unit out or to write a sign.
func ParseDuration(s string) (time.Duration, error) {
	bad := fmt.Errorf(`%q is not a time with a unit such as "30s" or "100ms"`, s)
	if s == "" || s[0] == '-' || s[0] == '+' || s == "0" {
		return 0, bad
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil {
			return 0, bad
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, bad
	}
	return d, nil
}

// FormatDuration writes a time in its shortest form: "1m", not "1m0s".
func FormatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// MaxWeight is the highest weight there is.
const MaxWeight = 1e4

// ParseWeight reads a job's weight: a whole number from 1 to ten thousand, as the plugin takes it.
func ParseWeight(s string) (float64, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil || n < 1 || n > MaxWeight {
		return 0, fmt.Errorf("%q is not a weight: a whole number from 1 to 10000", s)
	}
	return float64(n), nil
}

// ParseClass reads a job's class.
func ParseClass(s string) (model.Class, error) {
	switch c := model.Class(s); c {
	case model.Guaranteed, model.Opportunistic:
		return c, nil
	}
	return "", fmt.Errorf("%q is not a class: guaranteed or opportunistic", s)
}

// ParseDeadline reads a deadline in unix seconds, as the plugin resolved it
// when the job was submitted.
func ParseDeadline(s string) (time.Time, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n <= 0 || n > math.MaxInt32*4 {
		return time.Time{}, fmt.Errorf("%q is not a deadline in unix seconds", s)
	}
	return time.Unix(n, 0), nil
}

// maxAhead is the longest notice that a job may ask for: ten hours, and
// seconds beyond that are a mistake for something else.
const maxAhead = 36000

// ParseSignal reads SIG[@SECONDS]: a name with or without SIG, or a number,
// and how long before an eviction it is wanted. Those that no process can
// catch are refused.
func ParseSignal(s string) (sig int, ahead time.Duration, err error) {
	name, secs, timed := strings.Cut(s, "@")
	if sig = signalNumber(name); sig == 0 {
		return 0, 0, fmt.Errorf("%q is not a signal that a job can catch", name)
	}
	if !timed {
		return sig, 0, nil
	}
	n, err := strconv.ParseUint(secs, 10, 32)
	if err != nil || n > maxAhead {
		return 0, 0, fmt.Errorf("%q: %q is not a number of seconds up to %d", s, secs, maxAhead)
	}
	return sig, time.Duration(n) * time.Second, nil
}

// Bounds of the longest pause of one job.
const (
	leastPause = time.Second
	mostPause  = 24 * time.Hour
)

// ParsePause reads the longest pause that a job asks for, as the plugin takes it:
// whole seconds, from one to a day.
func ParsePause(s string) (time.Duration, error) {
	d, err := ParseDuration(s)
	if err != nil || d < leastPause || d > mostPause || d%time.Second != 0 {
		return 0, fmt.Errorf("%q is not a time from 1s to 24h, such as 30s or 1m30s", s)
	}
	return d, nil
}

// signalNumber finds a catchable signal by name or number, 0 if there is none.
func signalNumber(name string) int {
	n, err := strconv.Atoi(name)
	if err != nil {
		up := strings.ToUpper(name)
		n = int(unix.SignalNum("SIG" + strings.TrimPrefix(up, "SIG")))
	}
	if n < 1 || n > 64 || n == int(unix.SIGKILL) || n == int(unix.SIGSTOP) {
		return 0
	}
	return n
}
