// Package model holds Gimbal's plain values: GPUs, tenants, samples, events,
// actions, and the lifecycle table that binds them. It imports nothing of ours
// and never touches the clock, the system or goroutines: the same code runs
// under gimbald, gimbal run and gimbal simulate.
package model

import (
	"encoding/json"
	"fmt"
)

// Bytes is a size in bytes.
type Bytes int64

// Binary units.
const (
	KiB Bytes = 1 << 10
	MiB Bytes = 1 << 20
	GiB Bytes = 1 << 30
	TiB Bytes = 1 << 40
)

// String writes the size with the largest binary unit that keeps it readable,
// such as "9.5GiB".
func (b Bytes) String() string {
	for _, u := range []struct {
		size Bytes
		name string
	}{{TiB, "TiB"}, {GiB, "GiB"}, {MiB, "MiB"}, {KiB, "KiB"}} {
		if b >= u.size || -b >= u.size {
			return trimZero(fmt.Sprintf("%.1f", float64(b)/float64(u.size))) + u.name
		}
	}
	return fmt.Sprintf("%dB", int64(b))
}

func trimZero(s string) string {
	if n := len(s); n > 2 && s[n-2:] == ".0" {
		return s[:n-2]
	}
	return s
}

// Reading is a measured value that may be unknown. Unknown is not zero: no
// decision that harms a job may rest on an unknown reading.
type Reading[T any] struct {
	value T
	known bool
}

// Known makes a reading with a value.
func Known[T any](v T) Reading[T] { return Reading[T]{value: v, known: true} }

// Unknown makes a reading without a value.
func Unknown[T any]() Reading[T] { return Reading[T]{} }

// Get returns the value, and whether it is known.
func (r Reading[T]) Get() (T, bool) { return r.value, r.known }

// Known tells whether the reading has a value.
func (r Reading[T]) Known() bool { return r.known }

// Or returns the value, or def where it is unknown.
func (r Reading[T]) Or(def T) T {
	if r.known {
		return r.value
	}
	return def
}

// MarshalJSON writes an unknown reading as null.
func (r Reading[T]) MarshalJSON() ([]byte, error) {
	if !r.known {
		return []byte("null"), nil
	}
	return json.Marshal(r.value)
}

// UnmarshalJSON reads null as unknown.
func (r *Reading[T]) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*r = Reading[T]{}
		return nil
	}
	if err := json.Unmarshal(b, &r.value); err != nil {
		return fmt.Errorf("read a reading from %s: %w", b, err)
	}
	r.known = true
	return nil
}
