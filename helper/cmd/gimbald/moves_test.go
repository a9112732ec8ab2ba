package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/node"
)

func TestMoves(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "swapped")
	if left, err := listMoves(dir); len(left) != 0 || err != nil {
		t.Errorf("a folder that is not there: %v, %v", left, err)
	}
	m, err := openMoves(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openMoves(dir); err == nil {
		t.Error("two own the folder")
	}
	a := node.Moved{Tenant: "12.3@1700000000000", Proc: model.ProcID{PID: 100, Start: 7}, Memory: model.GiB}
	b := node.Moved{Tenant: "../../etc/x", Proc: model.ProcID{PID: 101, Start: 8}}
	for _, v := range []node.Moved{a, b} {
		if err := m.Put(v); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Drop(b.Tenant); err != nil {
		t.Fatal(err)
	}
	if err := m.Drop("never there"); err != nil {
		t.Error(err)
	}
	// What a crash left of a record that was not whole yet.
	for name, text := range map[string]string{"9@1.new": `{"tenant":"9`, "torn": `{"tenant":"8@1","pr`, "nobody": `{"tenant":"7@1","proc":{"pid":1,"start":1}}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	left, err := m.list()
	if diff := cmp.Diff([]node.Moved{a}, left); diff != "" || err == nil {
		t.Errorf("error %v (-want +got)\n%s", err, diff)
	}
	if err := m.close(); err != nil {
		t.Fatal(err)
	}
	again, err := openMoves(dir)
	if err != nil {
		t.Fatalf("own it once its owner is gone: %v", err)
	}
	_ = again.close()
}

func FuzzParseMoved(f *testing.F) {
	for _, s := range []string{`{"tenant":"1@2","proc":{"pid":3,"start":4},"memory":5}`, `{}`, `[`, `{"tenant":"1@2","proc":{"pid":-3,"start":4}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if v, err := parseMoved(text); err == nil && (v.Proc.PID <= 1 || v.Proc.Start == 0 || v.Tenant == "" || v.Memory < 0) {
			t.Errorf("%q is taken for %+v", text, v)
		}
	})
}
