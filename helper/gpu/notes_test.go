package gpu

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

func TestNotesAreBoundedAndSaidOnce(t *testing.T) {
	n := notes{told: map[string]bool{}}
	said := func(s string) func() string { return func() string { return s } }
	for range 1000 {
		n.set("a", true, said("a"))
	}
	if got := n.take(); len(got) != 1 {
		t.Errorf("said %q", got)
	}
	n.set("a", false, nil)
	n.set("a", true, said("a again"))
	if got := n.take(); len(got) != 1 || got[0] != "a again" {
		t.Errorf("after it had been away: %q", got)
	}
	for i := range 1000 {
		n.set(strings.Repeat("x", i), true, said("x"))
	}
	if got := n.take(); len(got) > maxNotes {
		t.Errorf("%d notes", len(got))
	}
}

// TestAFailingCallIsSaidOnce is DL-07 for the reader: whichever call fails, for ten
// thousand looks, one line tells of it, and one more that a GPU answers again.
func TestAFailingCallIsSaidOnce(t *testing.T) {
	for name, c := range map[string]struct {
		fail, mend func(*fakeDevice)
		say        []string
	}{
		"lost": {func(d *fakeDevice) { d.handle = nvml.ERROR_GPU_IS_LOST }, func(d *fakeDevice) { d.handle = nvml.SUCCESS },
			[]string{"lost; nothing on it is stopped", "answers again"}},
		"lost under the look": {func(d *fakeDevice) { d.procRet = nvml.ERROR_GPU_IS_LOST }, func(d *fakeDevice) { d.procRet = nvml.SUCCESS },
			[]string{"lost; nothing on it is stopped", "answers again"}},
		"list of processes": {func(d *fakeDevice) { d.procRet = nvml.ERROR_UNKNOWN }, func(d *fakeDevice) { d.procRet = nvml.SUCCESS },
			[]string{"the list of processes cannot be read: " + describe(nvml.ERROR_UNKNOWN)}},
		"memory": {func(d *fakeDevice) { d.mem2Ret = nvml.ERROR_UNKNOWN }, func(d *fakeDevice) { d.mem2Ret = nvml.SUCCESS },
			[]string{"the memory cannot be read: " + describe(nvml.ERROR_UNKNOWN)}},
		"utilisation": {func(d *fakeDevice) { d.utilRet = nvml.ERROR_UNKNOWN }, func(d *fakeDevice) { d.utilRet = nvml.SUCCESS },
			[]string{"the utilisation cannot be read: " + describe(nvml.ERROR_UNKNOWN)}},
		"utilisation of processes": {func(d *fakeDevice) { d.sampRet = nvml.ERROR_UNKNOWN }, func(d *fakeDevice) { d.sampRet = nvml.ERROR_NOT_FOUND },
			[]string{"the utilisation of processes cannot be read: " + describe(nvml.ERROR_UNKNOWN)}},
		"absent": {func(d *fakeDevice) { d.utilRet = nvml.ERROR_NOT_SUPPORTED }, func(d *fakeDevice) { d.utilRet = nvml.SUCCESS }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d, mate := gpuOf(1, 0), gpuOf(2, 1)
			r, read := fakeReader(&fakeLib{devices: []*fakeDevice{d, mate}})
			now := time.Second
			looks := func(n int) {
				for range n {
					read(now)
					now += 50 * time.Millisecond
				}
			}
			looks(10)
			c.fail(d)
			looks(10000)
			c.mend(d)
			looks(10)
			var want []string
			for _, text := range c.say {
				want = append(want, d.uuid+": "+text)
			}
			if got := r.Notes(); !slices.Equal(got, want) {
				t.Errorf("said %q, want %q", got, want)
			}
		})
	}
}

// TestAGPUThatNeverAnsweredIsSaid: it has no name yet.
func TestAGPUThatNeverAnsweredIsSaid(t *testing.T) {
	d := gpuOf(1, 0)
	d.handle = nvml.ERROR_GPU_IS_LOST
	r, read := fakeReader(&fakeLib{devices: []*fakeDevice{d}})
	for i := range 100 {
		read(time.Duration(i+1) * time.Second)
	}
	d.handle = nvml.SUCCESS
	read(time.Hour)
	if got, want := r.Notes(), []string{"GPU 0: lost; nothing on it is stopped", "GPU 0: answers again"}; !slices.Equal(got, want) {
		t.Errorf("said %q, want %q", got, want)
	}
}

// TestGPUsThatAreGoneLeaveRoom: what was said of those that are forgotten leaves the
// list of causes, so that there is room for those that are there.
func TestGPUsThatAreGoneLeaveRoom(t *testing.T) {
	lib := &fakeLib{}
	r, read := fakeReader(lib)
	for i := range 10 * maxNotes { // a new UUID each time
		d := gpuOf(i, 0)
		d.utilRet = nvml.ERROR_UNKNOWN
		lib.devices = []*fakeDevice{d}
		read(time.Duration(i+1) * 2 * keepGone)
		got := r.Notes()
		if !slices.ContainsFunc(got, func(n string) bool { return strings.HasPrefix(n, d.uuid) }) {
			t.Fatalf("of the %d. GPU nothing is said: %q", i, got)
		}
	}
}
