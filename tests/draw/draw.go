// Package draw has tests that draw at random draw the same in each run, so that
// what one run shows everybody's shows. With GIMBAL_LONG set, as in make test-long,
// each run draws anew, and much more often.
package draw

import (
	"flag"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// usual is what a run draws from that is not a long one; many is how often a long one
// draws for a property, where it is not said.
const (
	usual = 1
	many  = 2000
)

// Check is rapid.Check. A seed that is asked for by -rapid.seed or RAPID_SEED is
// taken, whatever kind of run it is.
func Check(t *testing.T, property func(*rapid.T)) {
	t.Helper()
	settle()
	rapid.Check(t, property)
}

// Seed is what a test draws from that has a source of its own; it is logged.
func Seed(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(usual)
	if long() {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", seed)
	return seed
}

func long() bool { return os.Getenv("GIMBAL_LONG") != "" }

// settle chooses rapid's seed, or how often it draws, once, before the first draws.
var settle = sync.OnceFunc(func() {
	name, value := "rapid.seed", usual
	if long() {
		name, value = "rapid.checks", many
	}
	if f := flag.Lookup(name); f.Value.String() == f.DefValue {
		if err := f.Value.Set(strconv.Itoa(value)); err != nil {
			panic(err) // it is a number
		}
	}
})
