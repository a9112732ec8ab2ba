package main

import (
	"io"
	"path/filepath"
	"strings"
	"testing"
)

// closed is an output that takes nothing.
type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

// TestFullOutput: what gimbald prints and cannot be written is a failure, said once.
func TestFullOutput(t *testing.T) {
	for _, option := range []string{"--help", "--version", "--check"} {
		var errs strings.Builder
		code := run([]string{option, "--config", filepath.Join(t.TempDir(), "none.toml")}, closed{}, &errs)
		if code != exitFailed || strings.Count(errs.String(), io.ErrShortWrite.Error()) != 1 {
			t.Errorf("%s: exit %d, %q", option, code, &errs)
		}
	}
}
