package main

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/metrics"
	"github.com/gimbal-hpc/gimbal/helper/model"
)

// testExporter tells of a node with one job.
func testExporter(t *testing.T) (x *exporter, said func() string) {
	t.Helper()
	log, out, _ := testLog(t)
	x = &exporter{log: log, look: func() (model.Snapshot, metrics.Options, error) {
		v := model.View{}
		v.State, v.Reg.JobID, v.Reg.ArrayTask, v.Reg.HetOffset = model.Running, 7, model.NoVal, model.NoVal
		return model.Snapshot{Node: "n0", At: time.Now(), Tenants: []model.View{v}}, metrics.Options{Jobs: true}, nil
	}}
	t.Cleanup(func() { x.close(); http.DefaultClient.CloseIdleConnections() })
	return x, func() string { defer out.Reset(); return out.String() }
}

func readPage(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const seriesOfJob = `jobid="7"`

func TestTextfile(t *testing.T) {
	x, said := testExporter(t)
	dir := filepath.Join(t.TempDir(), "collector")
	path, other := filepath.Join(dir, "a.prom"), filepath.Join(dir, "b.prom")
	for range 100 {
		x.write(path)
	}
	if text := said(); strings.Count(text, "\n") != 1 || !strings.Contains(text, dir+" is not there") {
		t.Errorf("without a folder it says %q", text)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	x.write(path)
	if text := readPage(t, path); !strings.Contains(text, seriesOfJob) {
		t.Errorf("the page has no job:\n%s", text)
	}
	x.write(other)
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old page is left: %v", err)
	}
	x.close()
	if text := readPage(t, other); strings.Contains(text, seriesOfJob) || !strings.Contains(text, "gimbal_snapshot_timestamp_seconds") {
		t.Errorf("the last page is\n%s", text)
	}
	x.write("")
	if left, err := os.ReadDir(dir); len(left) != 0 || err != nil {
		t.Errorf("switched off, and %v is left, %v", left, err)
	}
	if text := said(); text != "" {
		t.Errorf("where all is well it says %q", text)
	}
}

// While the loop does not answer the old page stays: its age tells.
func TestTextfileOfALoopThatHangs(t *testing.T) {
	x, said := testExporter(t)
	path := filepath.Join(t.TempDir(), "a.prom")
	x.write(path)
	before := readPage(t, path)
	x.look = func() (model.Snapshot, metrics.Options, error) {
		return model.Snapshot{}, metrics.Options{}, errors.New("it hangs")
	}
	x.write(path)
	x.write(path)
	if after := readPage(t, path); after != before {
		t.Errorf("the page is now\n%s", after)
	}
	if text := said(); strings.Count(text, "it hangs") != 1 {
		t.Errorf("says %q", text)
	}
}

// get is what is answered at an address; an error where nobody is.
func get(address string) (string, error) {
	resp, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(resp.Body)
	return string(text), errors.Join(err, resp.Body.Close())
}

func TestListener(t *testing.T) {
	x, said := testExporter(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()

	x.serve(taken.Addr().String())
	if text := said(); !strings.Contains(text, "address already in use") {
		t.Errorf("where another listens it says %q", text)
	}
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	x.serve(address)
	x.serve(address) // as at each turn
	if page, err := get(address); err != nil || !strings.Contains(page, seriesOfJob) {
		t.Errorf("%v, %s", err, page)
	}
	if text := said(); strings.Count(text, "answering on http://"+address+"/metrics") != 1 {
		t.Errorf("says %q", text)
	}
	x.serve("")
	if _, err := get(address); err == nil {
		t.Error("switched off, and it answers")
	}
}
