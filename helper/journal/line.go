package journal

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// line is a record whose tenant is still text.
type line struct {
	Seq    uint64          `json:"seq"`
	Wall   time.Time       `json:"wall"`
	At     time.Duration   `json:"at"`
	Event  *model.Event    `json:"event,omitempty"`
	Action *model.Action   `json:"action,omitempty"`
	Tenant json.RawMessage `json:"tenant,omitempty"`
}

func lineOf(r model.Record, tenant json.RawMessage) line {
	return line{r.Seq, r.Wall, r.At, r.Event, r.Action, tenant}
}

func rawTenant(t *model.Tenant) (json.RawMessage, error) {
	if t == nil {
		return nil, nil
	}
	return json.Marshal(t)
}

// appendLine writes a record as a line of JSON. The tenant that an adoption
// carries is the record's own and is not written twice.
func appendLine(buf []byte, r model.Record, tenant json.RawMessage) ([]byte, error) {
	if r.Event != nil && r.Event.Adopt != nil && tenant != nil {
		ev := *r.Event
		ev.Adopt = nil
		r.Event = &ev
	}
	b, err := json.Marshal(lineOf(r, nil))
	if err != nil {
		return buf, err
	}
	buf = append(buf, b...)
	if tenant != nil {
		buf = append(buf[:len(buf)-1], `,"tenant":`...)
		buf = append(buf, tenant...)
		buf = append(buf, '}')
	}
	return append(buf, '\n'), nil
}

func parseLine(b []byte) (line, error) {
	var l line
	if err := json.Unmarshal(b, &l); err != nil {
		return line{}, err
	}
	if l.Seq == 0 || l.Seq > 1<<62 {
		return line{}, errors.New("a record without a sound number")
	}
	return l, nil
}

// record completes a line.
func (l line) record() (model.Record, error) {
	r := model.Record{Seq: l.Seq, Wall: l.Wall, At: l.At, Event: l.Event, Action: l.Action}
	if l.Tenant == nil {
		return r, nil
	}
	r.Tenant = new(model.Tenant)
	return r, json.Unmarshal(l.Tenant, r.Tenant)
}

// maxLine bounds one line: a checkpoint of some thousand tenants fits.
const maxLine = 64 << 20

// eachLine calls fn for every whole line of a file, without its newline, until
// fn returns false. A last line without newline is torn and left out. The
// bytes are fn's until it returns.
func eachLine(path string, fn func(b []byte) bool) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := lines(f, fn); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// eachLineOf calls fn for every whole line of each of these files, in turn, until
// fn returns false. A file that was pruned meanwhile is left out.
func eachLineOf(paths []string, fn func(path string, b []byte) bool) error {
	for more := true; more && len(paths) > 0; paths = paths[1:] {
		path := paths[0]
		err := eachLine(path, func(b []byte) bool {
			more = fn(path, b)
			return more
		})
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

func lines(r io.Reader, fn func(b []byte) bool) error {
	in := bufio.NewReaderSize(r, 64<<10)
	var long []byte
	for {
		part, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, bufio.ErrBufferFull) && len(long)+len(part) <= maxLine:
			long = append(long, part...)
			continue
		case err != nil:
			return err
		}
		if len(long) > 0 {
			long = append(long, part...)
			part = long
		}
		if !fn(part[:len(part)-1]) {
			return nil
		}
		long = long[:0]
	}
}
