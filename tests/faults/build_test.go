package faults

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/gimbal-hpc/gimbal/tests/simgpu"
)

// TestReleaseHasNoFailpoints: what make builds cannot be stopped at a point,
// whatever its environment says; the build of these tests can.
func TestReleaseHasNoFailpoints(t *testing.T) {
	need(t)
	released := filepath.Join(simgpu.Root(), "build", "gimbald")
	for _, c := range []struct {
		file string
		has  bool
	}{{released, false}, {gimbald(), true}} {
		text, err := os.ReadFile(c.file)
		if err != nil {
			t.Fatalf("run make: %v", err)
		}
		if has := bytes.Contains(text, []byte("GIMBAL_FAILPOINTS")); has != c.has {
			t.Errorf("%s knows of failpoints: %t, want %t", c.file, has, c.has)
		}
	}
}
