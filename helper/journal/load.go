package journal

import (
	"errors"
	"os"
	"strings"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// loadRate bounds the series of what GPUs and tenants took: so many bytes in a
// second are a megabyte a day. Where a line is longer than its time is worth, the
// next one stands for a longer time.
const loadRate = 1e6 / 86400.0

func loadSeries(dir string) series { return series{dir: dir, prefix: "load-", suffix: ".log"} }

// loads writes the series. Each file names its GPUs and tenants itself, and is
// named by the second in which it began, so that a reader finds a time without
// an index.
type loads struct {
	series series
	tail   tail
	words  *loadWriter
	opened time.Time
}

const loadSegment = 256 << 10

// Load keeps one stretch. It implements engine.Meter.
func (j *Journal) Load(l model.Load) (next time.Duration, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.loads.due(l.From, j.opts.SegmentAge) {
		if err := j.loads.rotate(l.From, j.opts.Now()); err != nil {
			return 0, err
		}
	}
	line := j.loads.words.line(&l)
	next = time.Duration(float64(len(line)) / loadRate * float64(time.Second)).Round(time.Second)
	if err := j.loads.tail.write(line); err != nil {
		j.loads.words = nil // a reader may lack its names: begin anew
		return next, err
	}
	return next, nil
}

func (s *loads) due(now time.Time, age time.Duration) bool {
	return s.tail.f == nil || s.words == nil || s.tail.size >= loadSegment || now.Sub(s.opened) >= age ||
		!sameFile(s.tail.f, s.tail.f.Name())
}

func (s *loads) rotate(from, now time.Time) error {
	if err := os.MkdirAll(s.series.dir, 0o755); err != nil {
		return err
	}
	path := s.series.name(uint64(max(from.Unix(), 0)))
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err // two files of one second: the older is a second long
	}
	t, err := openTail(path)
	if err != nil {
		return err
	}
	_ = s.tail.close()
	s.tail, s.words, s.opened = t, newLoadWriter(), from
	s.series.prune(now)
	return nil
}

// Loads calls visit for what was kept in dir of the time from one moment to
// another, oldest first, until visit returns false. Lines that cannot be read
// are left out. It needs no lock.
func Loads(dir string, from, to time.Time, visit func(model.Load) bool) error {
	paths, err := loadSeries(dir).since(uint64(max(from.Unix(), 0)))
	if err != nil {
		return err
	}
	var words *loadReader
	begun := ""
	return eachLineOf(paths, func(path string, b []byte) bool {
		if path != begun {
			begun, words = path, newLoadReader()
		}
		l, err := words.line(string(b))
		if err != nil || l.Length == 0 || !l.From.Add(l.Length).After(from) {
			return true
		}
		return !l.From.After(to) && visit(l)
	})
}

// PackLoads writes loads in the form of the series.
func PackLoads(all []model.Load) string {
	w := newLoadWriter()
	var b strings.Builder
	for i := range all {
		b.Write(w.line(&all[i]))
	}
	return b.String()
}

// UnpackLoads reads what PackLoads wrote. A line that cannot be read is left
// out.
func UnpackLoads(text string) []model.Load {
	r := newLoadReader()
	var all []model.Load
	for line := range strings.Lines(text) {
		if l, err := r.line(strings.TrimSuffix(line, "\n")); err == nil && l.Length > 0 {
			all = append(all, l)
		}
	}
	return all
}
