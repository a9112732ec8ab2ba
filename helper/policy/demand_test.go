package policy

import (
	"math"
	"testing"
)

func TestDemandIsWhatIsSeenAlone(t *testing.T) {
	m := &memo{demand: math.NaN()}
	m.learn(math.NaN(), true)
	if !math.IsNaN(m.demand) {
		t.Errorf("an unknown reading taught %v", m.demand)
	}
	m.learn(0.5, false)
	for range 50 {
		m.learn(0.8, true)
	}
	for range 50 {
		m.learn(0.3, false) // beside others it gets less
	}
	if math.Abs(m.demand-0.8) > 0.01 {
		t.Errorf("demand %v, want 0.8", m.demand)
	}
	for range 50 {
		m.learn(0.95, false)
	}
	if m.demand < 0.9 {
		t.Errorf("demand %v after more was seen", m.demand)
	}
}
