package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestSplitGPUs(t *testing.T) {
	for list, want := range map[string][]string{
		"":                     {},
		"0":                    {"0"},
		"1,0,7":                {"1", "0", "7"},
		"2-4,9":                {"2", "3", "4", "9"},
		" 1 , 2,":              {"1", "2"},
		"4-2":                  {"4-2"},
		"0-999":                {"0-999"},
		"0-65536":              {"0-65536"},
		"GPU-1a2b-3c,MIG-4-5":  {"GPU-1a2b-3c", "MIG-4-5"},
		"-1":                   {"-1"},
		"1-":                   {"1-"},
		"18446744073709551616": {"18446744073709551616"},
	} {
		if got := splitGPUs(list); !slices.Equal(got, want) || got == nil {
			t.Errorf("%q: %q, want %q", list, got, want)
		}
	}
}

func FuzzSplitGPUs(f *testing.F) {
	f.Add("0,1-3")
	f.Add("GPU-1-2,-,")
	f.Fuzz(func(t *testing.T, list string) {
		got := splitGPUs(list)
		if slices.Contains(got, "") || len(got) > 256*(1+strings.Count(list, ",")) {
			t.Fatalf("%q: %q", list, got)
		}
	})
}

const stat = "17 (a) b (c) S 1 17 17 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 314106 9 8"

func TestParseStart(t *testing.T) {
	for text, want := range map[string]uint64{stat: 314106, "": 0, "17 (x) S 1 2": 0, strings.Replace(stat, "314106", "-1", 1): 0, ")": 0} {
		got, err := parseStart([]byte(text))
		if got != want || (err == nil) != (want != 0) {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}

func FuzzParseStart(f *testing.F) {
	f.Add([]byte(stat))
	f.Add([]byte("))))"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := parseStart(data); err == nil && len(bytes.Fields(data)) < 20 {
			t.Fatalf("%q has a start time", data)
		}
	})
}

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
