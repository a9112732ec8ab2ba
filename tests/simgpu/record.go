package simgpu

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sort"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Interval is a stretch in which a process kept a GPU busy: from the first
// slice of a kernel to the end of the last one queued behind it. Times are
// CLOCK_MONOTONIC. Busy is the GPU time that it got within, so that two
// processes that compete have intervals that overlap and Busy below the length.
type Interval struct {
	GPU        int
	PID        int
	Label      string
	Start, End time.Duration
	Busy       time.Duration
}

// Record is a list of intervals in the order of their starts. As the device
// writes it, a stretch that lasts is in parts of at most a sample period that
// meet exactly; Stretches joins them.
type Record []Interval

// Now returns CLOCK_MONOTONIC, the clock of the record.
func Now() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // the clock is always there
	}
	return time.Duration(t.Nano())
}

// ReadRecord reads a device's record file.
func ReadRecord(path string) (Record, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the simulated GPU's record: %w", err)
	}
	r, err := ParseRecord(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return r, nil
}

// ParseRecord reads a record: lines "GPU PID LABEL START END BUSY", with
// comments after #. A last line without its newline is still being written and
// is left out.
func ParseRecord(in io.Reader) (Record, error) {
	text, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	var r Record
	whole := string(text[:strings.LastIndexByte(string(text), '\n')+1])
	lines := bufio.NewScanner(strings.NewReader(whole))
	for n := 1; lines.Scan(); n++ {
		if strings.HasPrefix(lines.Text(), "#") || lines.Text() == "" {
			continue
		}
		i, err := parseInterval(lines.Text())
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		r = append(r, i)
	}
	sort.SliceStable(r, func(a, b int) bool { return r[a].Start < r[b].Start })
	return r, lines.Err()
}

func parseInterval(line string) (Interval, error) {
	var i Interval
	var start, end, busy int64
	n, err := fmt.Sscanf(line, "%d %d %s %d %d %d", &i.GPU, &i.PID, &i.Label, &start, &end, &busy)
	if err != nil || n != 6 {
		return i, fmt.Errorf("not an interval: %q", line)
	}
	i.Start, i.End, i.Busy = time.Duration(start), time.Duration(end), time.Duration(busy)
	if start < 0 || end < start || busy < 0 {
		return i, fmt.Errorf("impossible interval: %q", line)
	}
	return i, nil
}

// Stretches returns the record with the parts of each stretch joined.
func (r Record) Stretches() Record {
	type key struct {
		gpu, pid int
		label    string
	}
	last := map[key]int{}
	var out Record
	for _, i := range r {
		k := key{i.GPU, i.PID, i.Label}
		if n, ok := last[k]; ok && out[n].End == i.Start {
			out[n].End = i.End
			out[n].Busy += i.Busy
			continue
		}
		last[k] = len(out)
		out = append(out, i)
	}
	return out
}

// Of returns the intervals of one label.
func (r Record) Of(label string) Record {
	return r.filter(func(i Interval) bool { return i.Label == label })
}

// On returns the intervals on one GPU.
func (r Record) On(gpu int) Record {
	return r.filter(func(i Interval) bool { return i.GPU == gpu })
}

func (r Record) filter(keep func(Interval) bool) Record {
	var out Record
	for _, i := range r {
		if keep(i) {
			out = append(out, i)
		}
	}
	return out
}

// Between returns what lies between two times. An interval that reaches over
// an edge is cut, its busy time in proportion.
func (r Record) Between(from, to time.Duration) Record {
	var out Record
	for _, i := range r {
		start, end := max(i.Start, from), min(i.End, to)
		if start >= end {
			continue
		}
		i.Busy = time.Duration(float64(i.Busy) * float64(end-start) / float64(i.End-i.Start))
		i.Start, i.End = start, end
		out = append(out, i)
	}
	return out
}

// Labels returns the labels in the order in which they first appear.
func (r Record) Labels() []string {
	var labels []string
	seen := map[string]bool{}
	for _, i := range r {
		if !seen[i.Label] {
			seen[i.Label] = true
			labels = append(labels, i.Label)
		}
	}
	return labels
}

// Busy returns the GPU time that a label got, on all GPUs together.
func (r Record) Busy(label string) time.Duration {
	var sum time.Duration
	for _, i := range r.Of(label) {
		sum += i.Busy
	}
	return sum
}

// Shares returns each label's part of the GPU time that all labels got.
func (r Record) Shares() map[string]float64 {
	shares := map[string]float64{}
	var total time.Duration
	for _, label := range r.Labels() {
		total += r.Busy(label)
	}
	for _, label := range r.Labels() {
		shares[label] = float64(r.Busy(label)) / float64(max(total, 1))
	}
	return shares
}

// Span returns the first start and the last end; zeros if there are none.
func (r Record) Span() (start, end time.Duration) {
	for n, i := range r {
		if n == 0 || i.Start < start {
			start = i.Start
		}
		end = max(end, i.End)
	}
	return start, end
}

// Utilisation returns the GPU time given on one GPU over the record's span
// between the first start and the last end on it.
func (r Record) Utilisation(gpu int) float64 {
	on := r.On(gpu)
	start, end := on.Span()
	var sum time.Duration
	for _, i := range on {
		sum += i.Busy
	}
	return float64(sum) / float64(max(end-start, 1))
}

// busyOn returns the times in which at least one process of the label kept the
// GPU busy, in order and apart from each other.
func (r Record) busyOn(gpu int, label string) []Interval {
	var out []Interval
	for _, i := range r.On(gpu).Of(label) {
		if n := len(out) - 1; n >= 0 && i.Start <= out[n].End {
			out[n].End = max(out[n].End, i.End)
			continue
		}
		out = append(out, i)
	}
	return out
}

func (r Record) gpus() []int {
	seen := map[int]bool{}
	for _, i := range r {
		seen[i.GPU] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

// Overlaps returns the stretches in which both labels kept the same GPU busy,
// whichever of their processes did.
func (r Record) Overlaps(a, b string) []Interval {
	var out []Interval
	for _, gpu := range r.gpus() {
		x, y := r.busyOn(gpu, a), r.busyOn(gpu, b)
		for len(x) > 0 && len(y) > 0 {
			start, end := max(x[0].Start, y[0].Start), min(x[0].End, y[0].End)
			if start < end {
				out = append(out, Interval{GPU: gpu, Label: a + "+" + b, Start: start, End: end})
			}
			if x[0].End < y[0].End {
				x = x[1:]
			} else {
				y = y[1:]
			}
		}
	}
	return out
}

// Overlap returns the time in which both labels kept the same GPU busy, and
// the longest single stretch of it.
func (r Record) Overlap(a, b string) (total, longest time.Duration) {
	for _, i := range r.Overlaps(a, b) {
		total += i.End - i.Start
		longest = max(longest, i.End-i.Start)
	}
	return total, longest
}
