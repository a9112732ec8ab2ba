// Package draw has tests that draw at random draw the same in each run, so that
// what one run shows everybody's shows. With GIMBAL_LONG set, as in make test-long,
// each run draws anew.
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

// usual is what a run draws from that is not a long one.
const usual = 1

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

// settle chooses rapid's seed once, before the first draws.
var settle = sync.OnceFunc(func() {
	seed := flag.Lookup("rapid.seed")
	if long() || seed.Value.String() != "0" {
		return
	}
	if err := seed.Value.Set(strconv.Itoa(usual)); err != nil {
		panic(err) // it is a number
	}
})
