package metrics

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

func TestWriteFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gimbal.prom")
	for range 2 {
		if err := WriteFile(path, Gather(snapshot(view(7, "GPU-aa")), everything)); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := parsePage(f); err != nil {
		t.Error(err)
	}
	info, err := f.Stat()
	if err != nil || info.Mode() != 0o644 {
		t.Errorf("mode %v, %v: node_exporter is not root", info.Mode(), err)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("left in the folder: %v, %v", left, err)
	}
}

func TestWriteFileSaysWhyItFailed(t *testing.T) {
	dir := t.TempDir()
	if err := WriteFile(filepath.Join(dir, "none", "x.prom"), Gather(snapshot(), everything)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such folder: %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "x.prom"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(filepath.Join(dir, "x.prom"), Gather(snapshot(), everything)); err == nil {
		t.Error("a folder was replaced")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left in the folder: %v, %v", left, err)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestWriteTellsErrors(t *testing.T) {
	if err := Write(broken{}, Gather(snapshot(), everything)); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("Write: %v", err)
	}
}

func TestPromtool(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("SKIPPED: promtool is missing: install prometheus")
	}
	mig := gpu("MIG-1", 2)
	mig.Parent = "GPU-bb"
	odd := view(9, "MIG-1")
	odd.Reg.JobName = "a \"b\" \\c\nd 训练"
	s := snapshot(view(7, "GPU-aa", "GPU-bb"), step(7, 1, "GPU-aa"), view(0), odd)
	s.GPUs = append(s.GPUs, mig)
	var page bytes.Buffer
	if err := Write(&page, Gather(s, everything)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(promtool, "check", "metrics")
	cmd.Stdin = &page
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

// node64 is a node with eight GPUs and 64 tenants.
func node64() model.Snapshot {
	s := snapshot()
	s.GPUs = nil
	for i := range 8 {
		s.GPUs = append(s.GPUs, gpu(fmt.Sprintf("GPU-%d", i), i))
	}
	for id := range uint32(64) {
		s.Tenants = append(s.Tenants, view(id+1, fmt.Sprintf("GPU-%d", id%8), fmt.Sprintf("GPU-%d", (id+1)%8)))
	}
	return s
}

func BenchmarkPage64(b *testing.B) {
	s := node64()
	var page bytes.Buffer
	for b.Loop() {
		page.Reset()
		if err := Write(&page, Gather(s, everything)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(page.Len()), "page-B")
}
