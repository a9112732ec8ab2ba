package trace

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// gresCount adds up the GPUs and shards of a TRES or GRES list. Slurm counts
// typed ones (gres/gpu:a100=2) in the untyped number (gres/gpu=2) too.
type gresCount struct{ untyped, typed map[string]int }

// add reads one item of the list. It returns false where the item is a GPU or
// shard and its number cannot be read; other items are passed over.
func (c *gresCount) add(item string) bool {
	item = strings.TrimSpace(item)
	item, _, _ = strings.Cut(item, "(") // an index list: gpu:2(IDX:0-1)
	item = strings.TrimPrefix(strings.TrimPrefix(item, "gres/"), "gres:")
	name, number, isTRES := strings.Cut(item, "=")
	if !isTRES { // GRES: name[:type][:number]
		name, number = item, "1"
		if i := strings.LastIndexByte(item, ':'); i >= 0 && startsWithDigit(item[i+1:]) {
			name, number = item[:i], item[i+1:]
		}
	}
	kind, _, typed := strings.Cut(name, ":")
	if kind != "gpu" && kind != "shard" {
		return true
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || n > maxGPUs {
		return false
	}
	if c.untyped == nil {
		c.untyped, c.typed = make(map[string]int), make(map[string]int)
	}
	if typed {
		c.typed[kind] += n
	} else {
		c.untyped[kind] += n
	}
	return true
}

// total is the number of a kind.
func (c *gresCount) total(kind string) int { return max(c.untyped[kind], c.typed[kind]) }

func startsWithDigit(s string) bool { return s != "" && s[0] >= '0' && s[0] <= '9' }

// time is a field of this row with a time as Slurm writes it, in seconds
// since 1970. Local times are taken as they stand, without summer time.
func (s *sacct) time(name string) (float64, error) {
	text := s.t.Text(name)
	if v, err := strconv.ParseInt(text, 10, 64); err == nil && v >= 0 && float64(v) <= maxSeconds {
		return float64(v), nil
	}
	at, err := time.Parse("2006-01-02T15:04:05", text)
	if err != nil || at.Unix() < 0 {
		return 0, s.t.Errorf(name, "%q is no time such as 2025-10-01T12:00:00", text)
	}
	return float64(at.Unix()), nil
}

// duration is a field of this row with a span of time as Slurm writes it:
// seconds in a Raw column, else [days-]hours:minutes:seconds or
// minutes:seconds. No limit is 0.
func (s *sacct) duration(name string) (float64, error) {
	text := s.t.Text(name)
	switch strings.ToUpper(text) {
	case "", "UNLIMITED", "PARTITION_LIMIT", "INVALID":
		return 0, nil
	}
	if strings.HasSuffix(name, "Raw") {
		return s.t.Number(name, 0, maxSeconds)
	}
	if v, ok := parseSpan(text); ok && v <= maxSeconds {
		return v, nil
	}
	return 0, s.t.Errorf(name, "%q is no span of time such as 1-02:03:04", text)
}

func parseSpan(text string) (float64, bool) {
	total := 0.0
	if days, rest, ok := strings.Cut(text, "-"); ok {
		d, err := strconv.ParseUint(days, 10, 32)
		if err != nil {
			return 0, false
		}
		total, text = float64(d)*86400, rest
	}
	parts := strings.Split(text, ":")
	if len(parts) > 3 {
		return 0, false
	}
	seconds := 0.0
	for i, p := range parts {
		v, err := strconv.ParseFloat(p, 64) // seconds may have a fraction
		if err != nil || !(v >= 0 && v <= maxSeconds) || (i < len(parts)-1 && v != math.Trunc(v)) {
			return 0, false
		}
		seconds = seconds*60 + v
	}
	if len(parts) < 2 {
		return 0, false
	}
	return total + seconds, true
}
