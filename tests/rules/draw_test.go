package rules

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// anew are ways in which a test draws something else in each run.
var anew = regexp.MustCompile(`rapid\.(Check|MakeCheck)\(|\.Seed\(time|NewPCG\(uint64\(time|rand\.(Int|Intn|IntN|Float64|Perm|Shuffle)\(`)

// TestDrawsAlike: a test that draws at random does so by tests/draw, so that a run
// fails for everybody or for nobody.
func TestDrawsAlike(t *testing.T) {
	seen := 0
	err := filepath.WalkDir(moduleRoot(t), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, "rules/draw_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		seen++
		if found := anew.Find(text); found != nil {
			t.Errorf("%s: %s draws anew in each run; see tests/draw", path, found)
		}
		return nil
	})
	if err != nil || seen < 100 {
		t.Fatalf("%d files of tests: %v", seen, err)
	}
}
