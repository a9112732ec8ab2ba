package cuda

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

func TestReplyKeepsTheError(t *testing.T) {
	q := request{Op: opRestore, ProcID: model.ProcID{PID: 7}}
	for _, err := range []error{nil, resultNoMemory, resultNotSupported, Result(12345), fmt.Errorf("x: %w", ErrGone)} {
		got := outcome(1, err).err(q)
		if (got == nil) != (err == nil) || (err != nil && !errors.Is(got, ErrGone) && !errors.Is(got, err)) {
			t.Errorf("%v became %v", err, got)
		}
	}
	for _, c := range []struct{ result, means error }{{resultNoMemory, ErrNoRoom}, {resultNotSupported, ErrUnsupported}} {
		if !errors.Is(c.result, c.means) || errors.Is(resultUnknown, c.means) {
			t.Errorf("%v means %v", c.result, c.means)
		}
	}
}

func TestServeEndsAtABrokenLine(t *testing.T) {
	for _, line := range []string{"garbage", `{"id":1,"op":"lock","pid":1}`, strings.Repeat("x", maxLine+1)} {
		var out bytes.Buffer
		if err := Serve(strings.NewReader(line+"\n"), &out, "libgimbal-is-not-there.so", 0); err == nil {
			t.Errorf("%.40q was taken", line)
		}
	}
}

func TestServeRefusesWhatItDoesNotKnow(t *testing.T) {
	s := &server{locked: processes{}}
	if err := s.change(nil, request{Op: "reboot"}); !errors.Is(err, resultInvalid) {
		t.Error(err)
	}
}

func TestMilliseconds(t *testing.T) {
	for d, want := range map[time.Duration]uint32{1: 1, time.Millisecond: 1, time.Second + 1: 1001, 0: 0, -1: 0, 1 << 62: 0} {
		if got, err := milliseconds(d); got != want || (err != nil) != (want == 0) {
			t.Errorf("%v: %d, %v", d, got, err)
		}
	}
}

func FuzzParseRequest(f *testing.F) {
	f.Add([]byte(`{"id":1,"op":"lock","pid":5,"start":9,"timeout_ms":100}`))
	f.Add([]byte(`{"op":"support"}`))
	f.Add([]byte(`{"pid":-1}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		if q, err := parseRequest(line); err == nil && q.Op != opSupport && q.PID <= 1 {
			t.Errorf("%q: a request on process %d", line, q.PID)
		}
	})
}

func FuzzParseStat(f *testing.F) {
	own, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(own)
	f.Add([]byte("1 (a) b) ) R 1"))
	f.Add([]byte(")"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if letter, start := parseStat(text); letter == 0 && start != 0 {
			t.Errorf("%q: no state, but a start at %d", text, start)
		}
	})
}
