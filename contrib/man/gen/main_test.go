package main

import (
	"os"
	"strings"
	"testing"

	"github.com/gimbal-hpc/gimbal/helper/policy"
)

func TestPageIsWhatTheLanguageSays(t *testing.T) {
	got, err := os.ReadFile("../gimbal-policy.5.md")
	if err != nil {
		t.Fatal(err)
	}
	want, err := fill(string(got))
	if err != nil {
		t.Fatal(err)
	}
	if want != string(got) {
		t.Error("gimbal-policy.5.md is not what helper/policy says: go run ./contrib/man/gen")
	}
	for _, k := range policy.Keys() {
		if !strings.Contains(want, "**"+k.Path+"** (") {
			t.Errorf("key %s is missing", k.Path)
		}
	}
	for _, v := range policy.Variables() {
		if !strings.Contains(want, "**"+v.Name+"** (") {
			t.Errorf("variable %s is missing", v.Name)
		}
	}
}

func TestFillNeedsItsMarks(t *testing.T) {
	for _, text := range []string{"", "<!-- generated: keys -->\n"} {
		if _, err := fill(text); err == nil {
			t.Errorf("fill(%q) found no fault", text)
		}
	}
}
