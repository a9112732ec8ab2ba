package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLearntHere: what this node learnt lies where gimbald.toml says, and until
// there is something that is said.
func TestLearntHere(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "gimbald.toml")
	if err := os.WriteFile(file, []byte("[node]\nstate_dir = \""+dir+"/%n\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SLURMD_NODENAME", "n7")
	code, out, errs := try("learnt", "-c", file)
	if code != exitFailed || out != "" || !strings.Contains(errs, "learnt of no job here yet: stat "+dir+"/n7/learnt") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	if err := os.Mkdir(filepath.Join(dir, "n7"), 0o700); err != nil {
		t.Fatal(err)
	}
	text := `{"schema":1,"jobs":[{"uid":1000,"name":"a2c","seen":100,"sm":0.1}]}`
	if err := os.WriteFile(filepath.Join(dir, "n7", "learnt"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, errs = try("learnt", "--config", file, "--classes"); code != exitOK || out != "1000 light a2c\n" {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}
