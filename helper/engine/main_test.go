package engine

import (
	"flag"
	"os"
	"testing"
)

// TestMain makes the default run walk the same random lives each time, so that
// what it shows it shows to everybody. GIMBAL_LONG=1, as in make test-long,
// draws new ones.
func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv("GIMBAL_LONG") == "" && flag.Lookup("rapid.seed").Value.String() == "0" {
		if err := flag.Set("rapid.seed", "20250101"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
