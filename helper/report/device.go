package report

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"sort"
	"strconv"
	"strings"
	"time"
)

// FromDevice draws what a GPU itself recorded: lines of
//
//	GPU PID LABEL START END BUSY
//
// with times in nanoseconds of one clock; each is a stretch in which a process
// kept the GPU busy, and BUSY is the time that it got in it. Lines that begin
// with # are comments. A last line without newline is still being written and
// is left out.
func FromDevice(r io.Reader) (Timeline, error) {
	in := bufio.NewReader(r)
	tracks := map[int]map[string]*Track{}
	var first, last time.Duration
	some := false
	for n := 1; ; n++ {
		text, err := in.ReadString('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Timeline{}, fmt.Errorf("line %d: %w", n, err)
		}
		if text = strings.TrimSpace(text); text == "" || text[0] == '#' {
			continue
		}
		gpu, label, s, err := parseDevice(text)
		if err != nil {
			return Timeline{}, fmt.Errorf("line %d: %w", n, err)
		}
		if !some || s.From < first {
			first = s.From
		}
		some, last = true, max(last, s.To)
		if tracks[gpu] == nil {
			tracks[gpu] = map[string]*Track{}
		}
		t := tracks[gpu][label]
		if t == nil {
			t = &Track{Name: label}
			tracks[gpu][label] = t
		}
		t.Stretches = append(t.Stretches, s)
	}
	return deviceTimeline(tracks, first, last), nil
}

func parseDevice(text string) (gpu int, label string, s Stretch, err error) {
	f := strings.Fields(text)
	if len(f) != 6 {
		return 0, "", s, fmt.Errorf("%d fields, want GPU PID LABEL START END BUSY", len(f))
	}
	if gpu, err = strconv.Atoi(f[0]); err != nil {
		return 0, "", s, fmt.Errorf("GPU %q is no number", f[0])
	}
	var t [3]int64
	for i := range t {
		if t[i], err = strconv.ParseInt(f[3+i], 10, 64); err != nil || t[i] < 0 {
			return 0, "", s, fmt.Errorf("%q is no time in nanoseconds", f[3+i])
		}
	}
	if t[1] < t[0] {
		return 0, "", s, fmt.Errorf("the end %d is before the start %d", t[1], t[0])
	}
	s = Stretch{From: time.Duration(t[0]), To: time.Duration(t[1]), What: Computing}
	if t[1] > t[0] {
		s.Share = min(float64(t[2])/float64(t[1]-t[0]), 1)
	}
	return gpu, f[2], s, nil
}

func deviceTimeline(tracks map[int]map[string]*Track, first, last time.Duration) Timeline {
	out := Timeline{Length: last - first}
	gpus := make([]int, 0, len(tracks))
	for g := range tracks {
		gpus = append(gpus, g)
	}
	sort.Ints(gpus)
	for _, g := range gpus {
		lane := Lane{Name: "GPU " + itoa(g)}
		for _, t := range tracks[g] {
			for i := range t.Stretches {
				t.Stretches[i].From -= first
				t.Stretches[i].To -= first
			}
			lane.Tracks = append(lane.Tracks, *t)
		}
		sort.Slice(lane.Tracks, func(i, k int) bool { return lane.Tracks[i].Name < lane.Tracks[k].Name })
		sortTracks(lane.Tracks)
		for i := range lane.Tracks {
			lane.Tracks[i].Kind = i
		}
		out.Lanes = append(out.Lanes, lane)
	}
	return out
}
