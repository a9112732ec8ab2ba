package model

import (
	"strings"
	"testing"
)

// lifecycle is the whole table in letters, one row a state, one column a
// trigger; "." is a trigger that the state refuses. It is written out here a
// second time on purpose: a change of the table has to be made twice.
const lifecycle = `
           run     hold    throttle  pause   resume   swap     restore   evict    done    failed  continued ended
new        running holding .         .       .        .        .         evicting .       .       .         gone
holding    .       .       .         .       .        .        .         .        held    running running   gone
held       .       .       .         .       resuming .        .         evicting .       .       running   gone
running    .       .       throttled pausing .        swapping .         evicting .       .       .         gone
throttled  .       .       throttled pausing resuming swapping .         evicting .       running running   gone
pausing    .       .       .         .       .        .        .         .        paused  running .         gone
paused     .       .       .         .       resuming swapping .         evicting .       .       running   gone
resuming   .       .       .         .       .        .        .         .        running paused  running   gone
swapping   .       .       .         .       .        .        .         .        swapped running .         gone
swapped    .       .       .         .       .        .        restoring evicting .       .       running   gone
restoring  .       .       .         .       .        .        .         .        running swapped running   gone
evicting   .       .       .         .       .        .        .         .        .       running .         gone
gone       .       .       .         .       .        .        .         .        .       .       .         .
`

func TestLifecycleEveryCell(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(lifecycle), "\n")
	columns := strings.Fields(lines[0])
	if len(columns) != len(Triggers()) || len(lines)-1 != len(States()) {
		t.Fatalf("the table has %d x %d cells, the lifecycle %d x %d",
			len(lines)-1, len(columns), len(States()), len(Triggers()))
	}
	for i, s := range States() {
		cells := strings.Fields(lines[i+1])
		if cells[0] != s.String() {
			t.Fatalf("row %d is %s, want %s", i, cells[0], s)
		}
		for j, trig := range Triggers() {
			if columns[j] != trig.String() {
				t.Fatalf("column %d is %s, want %s", j, columns[j], trig)
			}
			checkCell(t, s, trig, cells[j+1])
		}
	}
}

func checkCell(t *testing.T, s State, trig Trigger, want string) {
	t.Helper()
	got := "."
	if to, ok := Next(s, trig); ok {
		got = to.String()
	}
	if got != want {
		t.Errorf("%s + %s leads to %s, want %s", s, trig, got, want)
	}
}

func TestEveryTransientStateEnds(t *testing.T) {
	for _, s := range States() {
		if !s.Transient() {
			continue
		}
		if _, ok := Next(s, OpFailed); !ok {
			t.Errorf("%s has no way out when its operation fails", s)
		}
	}
}

func TestEveryLiveStateCanEnd(t *testing.T) {
	for _, s := range States() {
		if s == Gone {
			continue
		}
		if to, ok := Next(s, Ended); !ok || to != Gone {
			t.Errorf("a tenant that is %s cannot end", s)
		}
	}
}

func TestWhatIsStoppedCanRunAgain(t *testing.T) {
	for _, s := range States() {
		if !s.Stopped() {
			continue
		}
		if to, ok := Next(s, Continued); !ok || to != Running {
			t.Errorf("%s: somebody else's SIGCONT must lead to running", s)
		}
	}
}
