package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

func pendingDir(t *testing.T) string {
	t.Helper()
	return filepath.Join(filepath.Dir(socketPath(t)), "pending")
}

func TestPendingRoundTrip(t *testing.T) {
	dir := pendingDir(t)
	if got, bad := ReadPending(dir); got != nil || bad != nil {
		t.Fatalf("a folder that is not there: %v, %v", got, bad)
	}
	base := time.Unix(1_700_000_000, 0)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			reg := model.Registration{JobID: uint32(i), JobName: "a\nb"}
			// Two of each time: the names must not collide.
			if err := WritePending(dir, OpRegister, reg, base.Add(time.Duration(i/2)*time.Second)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	exit := model.TaskExit{StepKey: model.StepKey{JobID: 3, StepID: model.StepBatch}, Status: 256}
	if err := WritePending(dir, OpTaskExit, exit, base.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	got, bad := ReadPending(dir)
	if len(got) != 21 || bad != nil {
		t.Fatalf("%d read, bad: %v", len(got), bad)
	}
	for i, p := range got[:20] {
		var reg model.Registration
		if err := p.Request().Decode(&reg); err != nil || int(reg.JobID)/2 != i/2 {
			t.Errorf("place %d: job %d, %v", i, reg.JobID, err)
		}
	}
	var back model.TaskExit
	if err := got[20].Request().Decode(&back); err != nil || cmp.Diff(exit, back) != "" {
		t.Errorf("exit: %v %s", err, cmp.Diff(exit, back))
	}
	for _, p := range got {
		if err := p.Remove(); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestPendingFolderMustBePrivate(t *testing.T) {
	for _, mode := range []uint32{0o755, 0o777, 0o1777} {
		dir := pendingDir(t)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := unix.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		if got, bad := ReadPending(dir); got != nil || len(bad) != 1 {
			t.Errorf("mode %o: read %v, %v", mode, got, bad)
		}
		if err := WritePending(dir, OpRegister, model.Registration{}, time.Now()); err == nil {
			t.Errorf("mode %o: written", mode)
		}
	}
	dir := pendingDir(t)
	if err := os.Symlink("/tmp", dir); err != nil {
		t.Fatal(err)
	}
	if _, bad := ReadPending(dir); len(bad) != 1 {
		t.Errorf("symlink: %v", bad)
	}
}

func TestPendingBadFiles(t *testing.T) {
	dir := pendingDir(t)
	if err := WritePending(dir, OpRegister, model.Registration{JobID: 7}, time.Now()); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(at(name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(at(name), mode); err != nil {
			t.Fatal(err)
		}
	}
	good := `{"at":"2026-01-02T03:04:05Z","op":"register","params":{}}`
	write("writable.json", good, 0o622)
	write("empty.json", "", 0o600)
	write("junk.json", "{", 0o600)
	write("op.json", strings.Replace(good, "register", "control", 1), 0o600)
	write("huge.json", good+strings.Repeat(" ", MaxRequest), 0o600)
	write(".new-123", good, 0o600)
	write("other.txt", good, 0o600)
	if err := os.Symlink(at("other.txt"), at("link.json")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(at("fifo.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(at("folder.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	want := 8
	if os.Geteuid() == 0 {
		write("stranger.json", good, 0o600)
		if err := os.Chown(at("stranger.json"), 1, 1); err != nil {
			t.Fatal(err)
		}
		want++
	}
	got, bad := ReadPending(dir)
	if len(got) != 1 || len(bad) != want {
		t.Errorf("%d good, %d bad (want %d): %v", len(got), len(bad), want, bad)
	}
}

func FuzzDecodeRequest(f *testing.F) {
	for _, s := range []string{`{"v":1,"op":"ping"}`, `{"v":1,"op":"register","params":{"job":1}}`, `{}`, `[]`, "", `{"v":1e9,"op":1}`, "\x00", `{"v":1,"op":"a","params":null}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		req, err := decodeRequest(line)
		if err != nil {
			if reply := errorReply(err); reply.Error.Code != CodeBadRequest && reply.Error.Code != CodeVersion {
				t.Fatalf("code %s", reply.Error.Code)
			}
			return
		}
		if req.V != Version || req.Op == "" {
			t.Fatalf("accepted %+v", req)
		}
		again, err := json.Marshal(req)
		if err != nil {
			t.Fatalf("%+v cannot be written: %v", req, err)
		}
		if back, err := decodeRequest(again); err != nil || back.Op != req.Op {
			t.Fatalf("%s became %+v, %v", again, back, err)
		}
		var reg model.Registration
		_ = req.Decode(&reg)
	})
}

func FuzzDecodePending(f *testing.F) {
	f.Add([]byte(`{"at":"2026-01-02T03:04:05Z","op":"register","params":{}}`))
	f.Add([]byte(`{"op":"step_end"}`))
	f.Add([]byte(``))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := decodePending(data, "x")
		if err == nil && p.Path != "x" {
			t.Fatalf("path %q", p.Path)
		}
	})
}

func FuzzReadLine(f *testing.F) {
	f.Add([]byte("a\nb\n"), 10)
	f.Add([]byte("no end"), 3)
	f.Fuzz(func(t *testing.T, data []byte, limit int) {
		if limit < 1 || limit > 1<<16 {
			return
		}
		r := bufio.NewReaderSize(bytes.NewReader(data), 16)
		var back []byte
		for {
			line, err := readLine(r, limit)
			if err != nil {
				break
			}
			if len(line) >= limit || bytes.IndexByte(line, '\n') >= 0 {
				t.Fatalf("line %q with limit %d", line, limit)
			}
			back = append(append(back, line...), '\n')
		}
		if !bytes.HasPrefix(data, back) {
			t.Fatalf("read %q from %q", back, data)
		}
	})
}
