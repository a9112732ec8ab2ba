package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/wire"
)

func TestRead(t *testing.T) {
	for answer, want := range map[string]outcome{
		`{"v":1,"result":{"active":true}}`:                                            {active: true},
		`{"v":1,"result":{"active":false,"message":"no GPU"}}`:                        {message: "no GPU"},
		`{"v":1,"result":{"active":true,"message":"less","env":{"B":"2","A":"1"}}}`:   {active: true, message: "less", env: []string{"A=1", "B=2"}},
		`{"v":1,"result":{"active":true,"env":{"LD_PRELOAD":"/x"},"colour":"blue"}}`:  {active: true, message: `gimbald may not set the variable "LD_PRELOAD"`},
		`{"v":1,"result":null}`:                                                       {},
		`{"v":1}`:                                                                     {},
		`{"v":1,"error":{"code":"denied","message":"no"}}`:                            {failed: true, message: "register: gimbald refuses: no"},
		`{"v":0,"error":{"code":"version","message":"protocol version 1 asked for"}}`: {failed: true, message: "register: gimbald refuses: protocol version 1 asked for"},
		`{"v":2,"result":{"active":true}}`:                                            {failed: true, message: "register: gimbald speaks version 2, the plugin 1"},
		`{"v":1,"result":[]}`:                                                         {failed: true, message: "register: gimbald's answer is malformed: json: cannot unmarshal array into Go value of type wire.Prepared"},
		``:                                                                            {failed: true, message: "register: gimbald's answer is malformed: unexpected end of JSON input"},
	} {
		if diff := cmp.Diff(want, read(wire.OpRegister, answer), cmp.AllowUnexported(outcome{})); diff != "" {
			t.Errorf("%s: %s", answer, diff)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(`{"v":1,"result":{"active":true,"env":{"A":"1"}}}`)
	f.Add(`{"v":1,"error":{}}`)
	f.Fuzz(func(t *testing.T, answer string) {
		out := read(wire.OpPrepare, answer)
		if out.failed && (out.active || out.env != nil || out.message == "") {
			t.Fatalf("%q: %+v", answer, out)
		}
	})
}

// TestLeave: a daemon to come finds what was left, byte for byte.
func TestLeave(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pending")
	now := time.Unix(1000, 5)
	params := `{"job":7,"step":3,"proc":{"pid":9,"start":11},"task":5,"status":256}`
	if out := leave(request{op: wire.OpTaskExit, params: params, pending: dir}, now); out.failed {
		t.Fatal(out.message)
	}
	left, bad := wire.ReadPending(dir)
	if len(left) != 1 || bad != nil || string(left[0].Params) != params || !left[0].At.Equal(now) {
		t.Fatalf("%+v, %v", left, bad)
	}
	var exit model.TaskExit
	if err := left[0].Request().Decode(&exit); err != nil || exit.Proc.Start != 11 {
		t.Errorf("%+v, %v", exit, err)
	}
}

func TestLeaveFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]request{
		"folder that is a file": {op: wire.OpStepEnd, params: "{}", pending: file},
		"malformed":             {op: wire.OpStepEnd, params: "{", pending: filepath.Join(t.TempDir(), "p")},
	} {
		if out := leave(r, time.Now()); !out.failed || !strings.Contains(out.message, "pending") {
			t.Errorf("%s: %+v", name, out)
		}
	}
}
