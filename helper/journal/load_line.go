package journal

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// A line of the series is
//
//	g0=UUID INDEX MIB NAME      a GPU gets a short name
//	t3=12@1                     a tenant gets one
//	FROM LENGTH g0:USED,MAX,UTIL,MAX t3:MEMORY,MAX,SM,MAX t4 g1 ...
//
// with times in milliseconds, memory in MiB and shares in percent. A reading
// that is not known is empty; a highest value that is empty is the mean. What
// is the same as in the line before has its name alone.

// loadWriter writes lines; it knows what the lines before have told.
type loadWriter struct {
	names map[string]string // short ones, by what they stand for
	last  map[string]string // values, by short name
	gpus  int
	buf   []byte
}

func newLoadWriter() *loadWriter {
	return &loadWriter{names: map[string]string{}, last: map[string]string{}}
}

// line writes a load, with the names that are new in it. The bytes are valid
// until the next call.
func (w *loadWriter) line(l *model.Load) []byte {
	w.buf = w.buf[:0]
	var data []byte
	data = strconv.AppendInt(data, l.From.UnixMilli(), 10)
	data = strconv.AppendInt(append(data, ' '), l.Length.Milliseconds(), 10)
	for i := range l.GPUs {
		g := &l.GPUs[i]
		name := w.gpu(g)
		data = w.values(data, name, "", g.Used, g.Util)
		for k := range g.Tenants {
			t := &g.Tenants[k]
			data = w.values(data, w.tenant(t.Tenant), name, t.Memory, t.SM)
		}
	}
	w.buf = append(append(w.buf, data...), '\n')
	return w.buf
}

func (w *loadWriter) gpu(g *model.GPULoad) string {
	name := w.names[g.UUID]
	if name == "" {
		name = "g" + strconv.Itoa(w.gpus)
		w.gpus++
		w.names[g.UUID] = name
		w.define(name, g.UUID)
		w.buf = strconv.AppendInt(append(w.buf, ' '), int64(g.Index), 10)
		w.buf = append(w.buf, ' ')
		if total, ok := g.Total.Get(); ok {
			w.buf = strconv.AppendInt(w.buf, int64(total/model.MiB), 10)
		}
		w.buf = append(appendText(append(w.buf, ' '), g.Name), '\n')
	}
	return name
}

func (w *loadWriter) tenant(id model.TenantID) string {
	name := w.names["t"+string(id)]
	if name == "" {
		name = "t" + strconv.Itoa(len(w.names)-w.gpus)
		w.names["t"+string(id)] = name
		w.define(name, string(id))
		w.buf = append(w.buf, '\n')
	}
	return name
}

func (w *loadWriter) define(name, as string) {
	w.buf = appendText(append(append(w.buf, name...), '='), as)
}

// values writes the readings of a GPU, or of a tenant on one.
func (w *loadWriter) values(b []byte, name, on string, memory, share model.Reading[model.Level]) []byte {
	b = append(append(b, ' '), name...)
	v := strings.TrimRight(levelText(memory, float64(model.MiB))+","+levelText(share, 0.01), ",")
	if last, ok := w.last[on+name]; ok && last == v {
		return b
	}
	w.last[on+name] = v
	return append(append(b, ':'), v...)
}

func levelText(r model.Reading[model.Level], unit float64) string {
	l, ok := r.Get()
	if !ok {
		return ","
	}
	mean, most := math.Round(l.Mean/unit), math.Round(l.Max/unit)
	text := strconv.FormatFloat(mean, 'f', 0, 64) + ","
	if most != mean {
		text += strconv.FormatFloat(most, 'f', 0, 64)
	}
	return text
}

// loadReader reads lines in the order in which they were written.
type loadReader struct {
	gpus    map[string]model.GPULoad
	tenants map[string]model.TenantID
	last    map[string][2]model.Reading[model.Level]
}

func newLoadReader() *loadReader {
	return &loadReader{gpus: map[string]model.GPULoad{}, tenants: map[string]model.TenantID{}, last: map[string][2]model.Reading[model.Level]{}}
}

var errLoadLine = errors.New("no line of a series of loads")

// line reads one line; the load is empty where the line only gives a name.
func (r *loadReader) line(s string) (model.Load, error) {
	if s == "" {
		return model.Load{}, errLoadLine
	}
	if s[0] == 'g' || s[0] == 't' {
		return model.Load{}, r.define(s)
	}
	from, rest, _ := strings.Cut(s, " ")
	length, rest, _ := strings.Cut(rest, " ")
	ms, err1 := strconv.ParseInt(from, 10, 64)
	n, err2 := strconv.ParseInt(length, 10, 64)
	if err := errors.Join(err1, err2); err != nil || n <= 0 || n > math.MaxInt64/int64(time.Millisecond) {
		return model.Load{}, fmt.Errorf("%w: %q", errLoadLine, s)
	}
	l := model.Load{From: time.UnixMilli(ms), Length: time.Duration(n) * time.Millisecond}
	on := ""
	for rest != "" {
		var word string
		word, rest, _ = strings.Cut(rest, " ")
		var err error
		if on, err = r.word(&l, on, word); err != nil {
			return model.Load{}, err
		}
	}
	return l, nil
}

// word reads a GPU's or a tenant's readings; on is the GPU that they are of.
func (r *loadReader) word(l *model.Load, on, word string) (string, error) {
	name, text, fresh := strings.Cut(word, ":")
	if g, ok := r.gpus[name]; ok {
		v, err := r.values(name, text, fresh)
		g.Used, g.Util, g.Tenants = v[0], v[1], nil
		l.GPUs = append(l.GPUs, g)
		return name, err
	}
	id, ok := r.tenants[name]
	if !ok || on == "" {
		return on, fmt.Errorf("%w: %q is nobody's name", errLoadLine, name)
	}
	v, err := r.values(on+name, text, fresh)
	g := &l.GPUs[len(l.GPUs)-1]
	g.Tenants = append(g.Tenants, model.TenantLoad{Tenant: id, Memory: v[0], SM: v[1]})
	return on, err
}

func (r *loadReader) values(key, text string, fresh bool) ([2]model.Reading[model.Level], error) {
	if !fresh {
		return r.last[key], nil
	}
	parts := append(strings.SplitN(text, ",", 4), "", "", "")
	memory, err1 := readLevel(parts[0], parts[1], float64(model.MiB))
	share, err2 := readLevel(parts[2], parts[3], 0.01)
	v := [2]model.Reading[model.Level]{memory, share}
	r.last[key] = v
	return v, errors.Join(err1, err2)
}

func readLevel(mean, most string, unit float64) (model.Reading[model.Level], error) {
	if mean == "" {
		return model.Unknown[model.Level](), nil
	}
	a, err1 := strconv.ParseUint(mean, 10, 53)
	b := a
	var err2 error
	if most != "" {
		b, err2 = strconv.ParseUint(most, 10, 53)
	}
	return model.Known(model.Level{Mean: float64(a) * unit, Max: float64(b) * unit}), errors.Join(err1, err2)
}

func (r *loadReader) define(s string) error {
	name, rest, ok := strings.Cut(s, "=")
	if !ok {
		return fmt.Errorf("%w: %q", errLoadLine, s)
	}
	word, rest, _ := strings.Cut(rest, " ")
	as, err := readText(word)
	if err != nil {
		return err
	}
	if name[0] == 't' {
		r.tenants[name] = model.TenantID(as)
		return nil
	}
	return r.defineGPU(name, as, strings.SplitN(rest, " ", 3))
}

func (r *loadReader) defineGPU(name, uuid string, rest []string) error {
	if len(rest) != 3 {
		return fmt.Errorf("%w: GPU %s is not described", errLoadLine, uuid)
	}
	g := model.GPULoad{UUID: uuid}
	var err1, err2, err3 error
	g.Index, err1 = strconv.Atoi(rest[0])
	g.Name, err2 = readText(rest[2])
	if rest[1] != "" {
		var mib uint64
		mib, err3 = strconv.ParseUint(rest[1], 10, 40)
		g.Total = model.Known(model.Bytes(mib) * model.MiB)
	}
	r.gpus[name] = g
	return errors.Join(err1, err2, err3)
}
