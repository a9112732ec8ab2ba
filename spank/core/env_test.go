package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestCheckEnv(t *testing.T) {
	env, err := checkEnv(map[string]string{
		"A": "1", "_b9": "", "CUDA_X": "a=b\nc",
		"": "x", "9A": "x", "A-B": "x", "A=B": "x", "LD_PRELOAD": "x", "LD_LIBRARY_PATH": "x", "Ä": "x", "N": "a\x00b",
	})
	if want := []string{"A=1", "CUDA_X=a=b\nc", "_b9="}; !slices.Equal(env, want) {
		t.Errorf("%q, want %q", env, want)
	}
	if err == nil || strings.Count(err.Error(), "\n")+1 != 8 {
		t.Errorf("errors: %v", err)
	}
	if env, err := checkEnv(nil); env != nil || err != nil {
		t.Errorf("nothing: %q, %v", env, err)
	}
}

func TestPackEnv(t *testing.T) {
	for _, tc := range []struct {
		room int
		env  []string
		want string
	}{
		{1, nil, "\x00"},
		{10, []string{"A=1", "B=2"}, "A=1\x00B=2\x00\x00"},
		{9, []string{"A=1", "B=2"}, "A=1\x00B=2\x00\x00"},
		{8, []string{"A=1", "B=2"}, "A=1\x00\x00"},
		{5, []string{"A=1234", "B=2"}, "B=2\x00\x00"},
	} {
		room := bytes.Repeat([]byte{0xff}, tc.room)
		packEnv(room, tc.env)
		if got := string(room[:len(tc.want)]); got != tc.want {
			t.Errorf("%d %q: %q, want %q", tc.room, tc.env, got, tc.want)
		}
	}
}

func TestCopyInto(t *testing.T) {
	for text, want := range map[string]string{"": "\x00", "abc": "abc\x00", "abcdefgh": "abcdefg\x00", "a\nb": "a; b\x00"} {
		room := bytes.Repeat([]byte{0xff}, 8)
		copyInto(room, text)
		if got := string(room[:len(want)]); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}
