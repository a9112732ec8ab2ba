package journal

import (
	"fmt"
	"testing"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

func BenchmarkAppend(b *testing.B) {
	j := mustOpen(b, b.TempDir(), testOptions())
	r := at(1, tenant(1, model.Pausing), pause(1, 1), nil)
	b.ReportAllocs()
	for b.Loop() {
		if err := j.Append(r); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReplay replays a full file, the most that a replay ever reads,
// however many records there were before.
func BenchmarkReplay(b *testing.B) {
	dir := b.TempDir()
	o, _ := testOptions().withDefaults()
	j := mustOpen(b, dir, o)
	for i := 0; j.tail.size < o.SegmentBytes-4096; i++ {
		appendAll(b, j, at(0, tenant(i%64, model.State(3+i%3)), nil, nil))
	}
	for b.Loop() {
		if r, err := Replay(dir, "boot-a"); err != nil || len(r.Live) != 64 {
			b.Fatal(err)
		}
	}
}

// BenchmarkReplayMillion replays what a million records left behind.
func BenchmarkReplayMillion(b *testing.B) {
	dir := b.TempDir()
	j := mustOpen(b, dir, testOptions())
	for i := range 1_000_000 {
		ev := &model.Event{Kind: model.EvDone, Tenant: model.TenantID(fmt.Sprintf("%d@1", i%64)), Do: model.PrimPause, Action: uint64(i + 1)}
		appendAll(b, j, at(i/100, tenant(i%64, model.State(3+i%3)), nil, ev))
	}
	for b.Loop() {
		if r, err := Replay(dir, "boot-a"); err != nil || len(r.Live) != 64 || r.Seq != 1_000_000 {
			b.Fatalf("%d live, record %d: %v", len(r.Live), r.Seq, err)
		}
	}
}
