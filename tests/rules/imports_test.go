// Package rules holds the tests that keep the house in order: who may import
// whom, and how long a file may get.
package rules

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/gimbal-hpc/gimbal/"

// mayImport says which rooms of ours a room may import. Rooms that are not
// named (the commands, the tests) may import every one.
var mayImport = map[string][]string{
	"helper/model":     {},
	"helper/progress":  {"helper/model"},
	"helper/policy":    {"helper/model"},
	"helper/engine":    {"helper/model", "helper/policy"},
	"helper/config":    {"helper/model", "helper/policy", "policies"},
	"helper/failpoint": {},
	"helper/gpu":       {"helper/model"},
	"helper/learn":     {"helper/model"},
	"helper/cuda":      {"helper/failpoint", "helper/model"},
	"helper/proc":      {"helper/failpoint", "helper/model"},
	"helper/slurm":     {"helper/model"},
	"helper/lockfile":  {},
	"helper/wire":      {"helper/lockfile", "helper/model"},
	"helper/journal":   {"helper/failpoint", "helper/lockfile", "helper/model"},
	"helper/metrics":   {"helper/model"},
	"helper/mps":       {},
	"helper/report":    {"helper/model"},
	"helper/sim":       {"helper/model", "helper/policy", "helper/engine", "helper/sim", "policies"},
	"helper/node":      {"helper/model", "helper/engine", "helper/gpu", "helper/cuda", "helper/proc", "helper/slurm", "helper/failpoint"},
	"spank/core":       {"helper/wire", "helper/model"},
	"policies":         {},
}

// pure rooms never touch the clock, the system, the network, random numbers or
// logs.
var pure = map[string]bool{"helper/model": true, "helper/policy": true, "helper/learn": true}

var impure = map[string]bool{"os": true, "os/exec": true, "os/signal": true, "net": true, "net/http": true,
	"math/rand": true, "math/rand/v2": true, "crypto/rand": true, "log": true, "log/slog": true,
	"syscall": true, "golang.org/x/sys/unix": true, "github.com/rs/zerolog": true}

// onlyIn says which outside package may be imported in one room alone.
var onlyIn = map[string]string{
	"github.com/NVIDIA/go-nvml/pkg/nvml":             "helper/gpu",
	"github.com/expr-lang/expr":                      "helper/policy",
	"github.com/prometheus/client_golang/prometheus": "helper/metrics",
}

func TestImports(t *testing.T) {
	seen := 0
	eachGo(t, func(room, path string, src []byte) {
		f, err := parser.ParseFile(token.NewFileSet(), path, src, parser.ImportsOnly)
		if err != nil {
			t.Fatalf("parse %s: %v", path, err)
		}
		for _, spec := range f.Imports {
			imp, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			seen++
			checkImport(t, room, path, imp)
		}
	})
	if seen < 100 {
		t.Fatalf("only %d imports were seen: the walk does not find the sources", seen)
	}
}

func checkImport(t *testing.T, room, path, imp string) {
	t.Helper()
	if pure[room] && impure[imp] {
		t.Errorf("%s imports %s, but %s is pure", path, imp, room)
	}
	if home, ok := onlyIn[imp]; ok && room != home && !strings.HasPrefix(room, "tests/") {
		t.Errorf("%s imports %s, which belongs to %s alone", path, imp, home)
	}
	ours, ok := strings.CutPrefix(imp, module)
	if !ok {
		return
	}
	allowed, named := mayImport[room]
	if !named {
		return
	}
	for _, a := range allowed {
		if ours == a || strings.HasPrefix(ours, a+"/") {
			return
		}
	}
	t.Errorf("%s imports %s; %s may import %v", path, ours, room, allowed)
}

// TestNoClockInPureRooms looks for calls that read the clock or start
// goroutines, which an import alone does not show.
func TestNoClockInPureRooms(t *testing.T) {
	eachGo(t, func(room, path string, src []byte) {
		if !pure[room] {
			return
		}
		for _, bad := range []string{"time.Now(", "time.Since(", "time.After(", "time.Sleep(", "\tgo func", "time.NewTimer("} {
			if strings.Contains(string(src), bad) {
				t.Errorf("%s uses %s; %s never touches the clock or goroutines", path, strings.TrimSpace(bad), room)
			}
		}
	})
}

// eachGo calls f for each non-test Go file, with its room.
func eachGo(t *testing.T, f func(room, path string, src []byte)) {
	t.Helper()
	root := moduleRoot(t)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "build" || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f(roomOf(filepath.Dir(rel)), rel, src)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// roomOf maps a folder to the room that it is part of.
func roomOf(dir string) string {
	for room := range mayImport {
		if dir == room || strings.HasPrefix(dir, room+"/") {
			return room
		}
	}
	return dir
}

func moduleRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = up
	}
}
