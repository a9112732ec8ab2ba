package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// checkEnv turns the daemon's variables into sorted NAME=VALUE strings, and
// leaves out, with an error, what may not be set so.
func checkEnv(vars map[string]string) ([]string, error) {
	var env []string
	var bad []error
	for name, value := range vars {
		switch {
		case !envName(name) || strings.HasPrefix(name, "LD_"):
			bad = append(bad, fmt.Errorf("gimbald may not set the variable %q", name))
		case strings.IndexByte(value, 0) >= 0:
			bad = append(bad, fmt.Errorf("value of %s holds a NUL", name))
		default:
			env = append(env, name+"="+value)
		}
	}
	slices.Sort(env)
	return env, errors.Join(bad...)
}

func envName(name string) bool {
	for i, c := range []byte(name) {
		letter := c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// packEnv writes the strings one after the other, each with a NUL, and an
// empty one at the end. What does not fit is left out whole.
func packEnv(room []byte, env []string) {
	n := 0
	for _, kv := range env {
		if n+len(kv)+2 <= len(room) {
			n += copy(room[n:], kv)
			room[n] = 0
			n++
		}
	}
	room[n] = 0
}

// copyInto writes text with a NUL after it, on one line, cut if it must be.
func copyInto(room []byte, text string) {
	text = strings.ReplaceAll(text, "\n", "; ")
	n := copy(room[:len(room)-1], text)
	room[n] = 0
}
