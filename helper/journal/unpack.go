package journal

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// Unpack reads one line that Pack wrote, without its newline.
func Unpack(line string) (model.View, error) {
	var v model.View
	if err := unpackInto(&v, line); err != nil {
		return model.View{}, err
	}
	return v, nil
}

// unpackInto reads a line into a view that holds nothing. Views are large: where
// there are many, none is copied.
func unpackInto(v *model.View, line string) error {
	u := unpacker{v: v}
	v.Reg.ArrayTask, v.Reg.HetOffset = model.NoVal, model.NoVal
	v.Terms.Weight = 1
	for len(line) > 0 {
		var pair string
		pair, line, _ = strings.Cut(line, " ")
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return fmt.Errorf("%q is no key=value", pair)
		}
		if u.field(key, value); u.err != nil {
			return fmt.Errorf("%s: %w", key, u.err)
		}
	}
	if v.ID == "" {
		return errors.New("a view without an id")
	}
	u.finish()
	return nil
}

// UnpackAll reads lines that Pack wrote. A line that cannot be read is left
// out and counted. Long texts are read by several processors at once.
func UnpackAll(text string) (views []model.View, skipped int) {
	const worth = 256 << 10
	parts := max(min(runtime.GOMAXPROCS(0), len(text)/worth, 8), 1)
	all := make([]model.View, countLines(text))
	rooms, read := make([][]model.View, parts), make([]int, parts)
	var wg sync.WaitGroup
	rest := all
	for i := range parts {
		var own string
		own, text = cutLines(text, len(text)/(parts-i))
		n := countLines(own)
		rooms[i], rest = rest[:n], rest[n:]
		wg.Go(func() { read[i] = unpackLines(rooms[i], own) })
	}
	wg.Wait()
	views = all[:0]
	for i, room := range rooms {
		views = append(views, room[:read[i]]...) // in place, unless some before could not be read
		skipped += len(room) - read[i]
	}
	return views, skipped
}

// countLines counts the last one too where its newline is missing.
func countLines(text string) int {
	n := strings.Count(text, "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		n++
	}
	return n
}

// unpackLines reads lines into views, one for each, and returns how many could
// be read: those stand first.
func unpackLines(views []model.View, text string) (read int) {
	for len(text) > 0 {
		var line string
		line, text, _ = strings.Cut(text, "\n")
		if unpackInto(&views[read], line) != nil {
			views[read] = model.View{}
			continue
		}
		read++
	}
	return read
}

// cutLines cuts a text behind the line in which its byte n lies.
func cutLines(text string, n int) (head, rest string) {
	if n >= len(text) {
		return text, ""
	}
	end := strings.IndexByte(text[n:], '\n')
	if end < 0 {
		return text, ""
	}
	return text[:n+end+1], text[n+end+1:]
}

type unpacker struct {
	v     *model.View
	steps string
	err   error
}

func (u *unpacker) fail(err error) {
	if u.err == nil && err != nil {
		u.err = err
	}
}

func (u *unpacker) num(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	u.fail(err)
	return n
}

func (u *unpacker) id(s string) uint32 {
	n, err := strconv.ParseUint(s, 10, 32)
	u.fail(err)
	return uint32(n)
}

func (u *unpacker) float(s string) float64 {
	f, err := strconv.ParseFloat(s, 64)
	u.fail(err)
	return f
}

func (u *unpacker) text(s string) string {
	t, err := readText(s)
	u.fail(err)
	return t
}

func (u *unpacker) texts(s string) []string {
	list := strings.Split(s, ",")
	for i := range list {
		list[i] = u.text(list[i])
	}
	return list
}

func (u *unpacker) time(s string) time.Time      { return time.UnixMicro(u.num(s)) }
func (u *unpacker) micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// field takes one pair in.
func (u *unpacker) field(key, s string) {
	if u.regField(key, s) || u.termsField(key, s) {
		return
	}
	v := u.v
	switch key {
	case "id":
		v.ID = model.TenantID(u.text(s))
	case "whole":
		v.Whole = s == "1"
	case "parent":
		v.Parent = model.TenantID(u.text(s))
	case "gpus":
		v.GPUs = u.texts(s)
	case "exempt":
		v.Exempt = u.text(s)
	case "policy_now":
		v.PolicyNow = u.text(s)
	case "start":
		v.Start = u.time(s)
	case "ran":
		v.Ran, v.HasRun = u.time(s), true
	case "end":
		v.End = u.time(s)
	case "code":
		v.Reason.Code = u.text(s)
	case "why":
		v.Reason.Text = u.text(s)
	case "passed_over":
		v.PassedOver = int(u.num(s))
	case "service":
		v.Service = u.float(s)
	case "tally":
		u.tally(s)
	case "speed":
		n := u.list(s, ",")
		v.Speed = model.Known(model.Speed{Mean: float64(n[0]) / 1000, Error: float64(n[1]) / 1000})
	case "steps":
		u.steps = s
	case "peak":
		u.peak(s)
	}
}

func (u *unpacker) regField(key, s string) bool {
	r := &u.v.Reg
	switch key {
	case "job":
		r.JobID = u.id(s)
	case "step":
		r.StepID = u.id(s)
	case "array":
		r.ArrayJob = u.id(s)
	case "array_task":
		r.ArrayTask = u.id(s)
	case "het":
		r.HetJob = u.id(s)
	case "het_offset":
		r.HetOffset = u.id(s)
	case "restart":
		r.Restart = u.id(s)
	case "nnodes":
		r.NNodes = u.id(s)
	case "uid":
		r.UID = u.id(s)
	case "gid":
		r.GID = u.id(s)
	case "user":
		r.User = u.text(s)
	case "account":
		r.Account = u.text(s)
	case "partition":
		r.Partition = u.text(s)
	case "name":
		r.JobName = u.text(s)
	case "node":
		r.Node = u.text(s)
	case "own":
		r.Own = s == "1"
	default:
		return false
	}
	return true
}

func (u *unpacker) termsField(key, s string) bool {
	t := &u.v.Terms
	switch key {
	case "policy":
		t.Policy = u.text(s)
	case "class":
		t.Class = model.Class(u.text(s))
	case "weight":
		t.Weight = u.float(s)
	case "memory":
		t.Memory = model.Known(model.Bytes(u.num(s)))
	case "stated":
		t.Declared = model.Known(model.Bytes(u.num(s)))
	case "deadline":
		t.Deadline = u.time(s)
	case "max_pause":
		t.MaxPause = u.micros(u.num(s))
	case "placed":
		t.Placed = u.text(s)
	case "notes":
		t.Notes = u.texts(s)
	default:
		return false
	}
	return true
}

// most numbers that a list holds.
const listed = 16

// list reads up to listed numbers; those that a writer did not know are 0.
func (u *unpacker) list(s, sep string) (out [listed]int64) {
	for i := 0; i < listed && s != ""; i++ {
		var one string
		one, s, _ = strings.Cut(s, sep)
		out[i] = u.num(one)
	}
	return out
}

func (u *unpacker) tally(s string) {
	n := u.list(s, ",")
	u.v.Tally = model.Tally{Held: u.micros(n[0]), Running: u.micros(n[1]), Paused: u.micros(n[2]),
		Swapped: u.micros(n[3]), Attained: u.micros(n[4]), Holds: int(n[5]), Pauses: int(n[6]), Swaps: int(n[7]),
		SM: u.micros(n[8]), Seen: u.micros(n[9]),
		Throttled: u.micros(n[10]), Withheld: u.micros(n[11]), Throttles: int(n[12]), Credited: u.micros(n[13])}
}

func (u *unpacker) peak(s string) {
	u.v.Peak = map[string]model.Bytes{}
	for s != "" {
		var one string
		one, s, _ = strings.Cut(s, ",")
		gpu, n, _ := strings.Cut(one, ":")
		u.v.Peak[u.text(gpu)] = model.Bytes(u.num(n))
	}
}

// finish fills in what follows from the rest. The monotonic times of a tenant
// that ended count from its registration.
func (u *unpacker) finish() {
	v := u.v
	v.State, v.SinceWall = model.Gone, v.End
	v.Elapsed = max(v.End.Sub(v.Start), 0)
	v.Since, v.EndedAt = v.Elapsed, v.Elapsed
	if v.HasRun {
		v.FirstRan = v.Ran.Sub(v.Start)
	}
	for s := u.steps; s != ""; {
		var one string
		one, s, _ = strings.Cut(s, ",")
		u.step(one)
	}
}

func (u *unpacker) step(s string) {
	n := u.list(s, ":")
	ended := strings.Count(s, ":") >= 4
	st := model.Step{ID: uint32(n[0]), Tasks: int(n[1]), Status: int(n[2]), Start: u.micros(n[3]), Ended: ended}
	w := model.StepWall{Start: u.v.Start.Add(st.Start)}
	if ended {
		st.End = u.micros(n[4])
		w.End = u.v.Start.Add(st.End)
	}
	u.v.Steps, u.v.StepWall = append(u.v.Steps, st), append(u.v.StepWall, w)
}
