//go:build !failpoints

// Package failpoint names the points between two steps at which a crash must do
// no harm. A build with the tag failpoints stops there on request, so that a
// test can kill the process at each; in every other build a point is nothing. It
// lets a test set the wall clock, too.
package failpoint

import "time"

// At is passed between two steps. Here it does nothing.
func At(string) {}

// Now is the wall clock.
func Now() time.Time { return time.Now() }

// Env is what a child that plays a role of its own needs in its environment.
func Env(string) []string { return nil }
