package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/tests/draw"
)

func level(mean, most float64) model.Reading[model.Level] {
	return model.Known(model.Level{Mean: mean, Max: most})
}

// anyLevel draws a level in whole units, or one that is not known.
func anyLevel(t *rapid.T, unit float64, most int) model.Reading[model.Level] {
	if rapid.IntRange(0, 4).Draw(t, "unknown") == 0 {
		return model.Unknown[model.Level]()
	}
	mean := rapid.IntRange(0, most).Draw(t, "mean")
	return level(float64(mean)*unit, float64(rapid.IntRange(mean, most).Draw(t, "max"))*unit)
}

func anyLoads(t *rapid.T) []model.Load {
	const mib = float64(model.MiB)
	from := epoch
	var all []model.Load
	for range rapid.IntRange(1, 6).Draw(t, "loads") {
		l := model.Load{From: from, Length: time.Duration(rapid.IntRange(1, 90_000).Draw(t, "ms")) * time.Millisecond}
		for g := range rapid.IntRange(0, 3).Draw(t, "gpus") {
			gpu := model.GPULoad{UUID: fmt.Sprintf("GPU %d", g), Index: g, Name: "Model = H", Used: anyLevel(t, mib, 81920), Util: anyLevel(t, .01, 100)}
			if g > 0 {
				gpu.Total = model.Known(80 * model.GiB)
			}
			for n := range rapid.IntRange(0, 4).Draw(t, "tenants") {
				gpu.Tenants = append(gpu.Tenants, model.TenantLoad{Tenant: model.TenantID(fmt.Sprintf("%d@1", n)), Memory: anyLevel(t, mib, 81920), SM: anyLevel(t, .01, 100)})
			}
			l.GPUs = append(l.GPUs, gpu)
		}
		all = append(all, l)
		from = from.Add(l.Length)
	}
	return all
}

func sameLoads() cmp.Options {
	return cmp.Options{cmpopts.EquateEmpty(), cmp.AllowUnexported(model.Reading[model.Level]{}, model.Reading[model.Bytes]{}),
		cmp.Comparer(func(a, b float64) bool { return a-b < 1e-6 && b-a < 1e-6 })}
}

// TestLoadsComeBack: what is kept is read again, from the series and packed.
func TestLoadsComeBack(t *testing.T) {
	dir := t.TempDir()
	draw.Check(t, func(rt *rapid.T) {
		all := anyLoads(rt)
		if d := cmp.Diff(all, UnpackLoads(PackLoads(all)), sameLoads()); d != "" {
			rt.Fatalf("packed (-want +got):\n%s", d)
		}
		state, err := os.MkdirTemp(dir, "")
		if err != nil {
			rt.Fatal(err)
		}
		j, err := Open(state, testOptions())
		if err != nil {
			rt.Fatal(err)
		}
		for _, l := range all {
			if _, err := j.Load(l); err != nil {
				rt.Fatal(err)
			}
		}
		if err := j.Close(); err != nil {
			rt.Fatal(err)
		}
		var got []model.Load
		if err := Loads(state, epoch, epoch.Add(time.Hour), func(l model.Load) bool { got = append(got, l); return true }); err != nil {
			rt.Fatal(err)
		}
		if d := cmp.Diff(all, got, sameLoads()); d != "" {
			rt.Fatalf("kept (-want +got):\n%s", d)
		}
	})
}

// TestLoadsAreReadByTime looks for a time in the middle of several files, one
// of which was torn.
func TestLoadsAreReadByTime(t *testing.T) {
	dir := t.TempDir()
	o := testOptions()
	o.SegmentAge = 10 * time.Minute
	j := mustOpen(t, dir, o)
	for i := range 60 {
		if _, err := j.Load(model.Load{From: epoch.Add(time.Duration(i) * time.Minute), Length: time.Minute, GPUs: []model.GPULoad{{UUID: "GPU-0", Used: level(float64(i)*float64(model.MiB), 0)}}}); err != nil {
			t.Fatal(err)
		}
	}
	paths, err := loadSeries(dir).list()
	if err != nil || len(paths) != 6 {
		t.Fatalf("files %v %v, want 6", paths, err)
	}
	f, err := os.OpenFile(paths[3], os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("rubbish\n99 g7:1\n17"); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	var got []string
	err = Loads(dir, epoch.Add(25*time.Minute+time.Second), epoch.Add(42*time.Minute), func(l model.Load) bool {
		got = append(got, l.From.Sub(epoch).String())
		return true
	})
	if err != nil || len(got) != 18 || got[0] != "25m0s" || got[17] != "42m0s" {
		t.Errorf("got %v %v, want the minutes from 25 to 42", got, err)
	}
}

// TestLoadsStaySmall: however many tenants there are, a day of eight GPUs takes
// a megabyte.
func TestLoadsStaySmall(t *testing.T) {
	for _, tenants := range []int{1, 3, 12} {
		dir := t.TempDir()
		j := mustOpen(t, dir, testOptions())
		count := 0
		for at := time.Duration(0); at < 24*time.Hour; count++ {
			next, err := j.Load(busyLoad(epoch.Add(at), count, tenants))
			if err != nil {
				t.Fatal(err)
			}
			at += max(next, time.Minute)
		}
		size := int64(0)
		paths, _ := filepath.Glob(dir + "/load-*")
		for _, p := range paths {
			if st, err := os.Stat(p); err == nil {
				size += st.Size()
			}
		}
		if size > 1_050_000 || count < 24*6 {
			t.Errorf("%d tenants on each GPU: %d lines in %d bytes a day", tenants, count, size)
		}
		t.Logf("%d tenants on each of 8 GPUs: a line every %s, %d bytes a day", tenants, (24 * time.Hour / time.Duration(count)).Round(time.Second), size)
	}
}

// busyLoad is a load of eight GPUs on which everything changes all the time.
func busyLoad(from time.Time, n, tenants int) model.Load {
	l := model.Load{From: from, Length: time.Minute}
	for g := range 8 {
		gpu := model.GPULoad{UUID: fmt.Sprintf("GPU-%036d", g), Index: g, Name: "Model H", Total: model.Known(80 * model.GiB),
			Used: level(float64((70_000+n)*int(model.MiB)), float64((71_000+n)*int(model.MiB))), Util: level(.87+float64(n%7)/100, 1)}
		for i := range tenants {
			gpu.Tenants = append(gpu.Tenants, model.TenantLoad{Tenant: model.TenantID(fmt.Sprintf("%d@1", 1_234_000+100*g+i)),
				Memory: level(float64((20_000+n)*int(model.MiB)), float64(21_000*int(model.MiB))), SM: level(.31+float64(n%9)/100, .5+float64(n%3)/100)})
		}
		l.GPUs = append(l.GPUs, gpu)
	}
	return l
}

// TestMerger: joined loads hold the weighted mean and the highest value; who
// was there for a part only took nothing in the other; a gap stays one.
func TestMerger(t *testing.T) {
	load := func(at, length int, used model.Reading[model.Level], tenants ...model.TenantLoad) model.Load {
		return model.Load{From: epoch.Add(time.Duration(at) * time.Second), Length: time.Duration(length) * time.Second,
			GPUs: []model.GPULoad{{UUID: "GPU-0", Used: used, Tenants: tenants}}}
	}
	m := NewMerger(4 * time.Minute)
	m.Take(load(0, 60, level(10, 20), model.TenantLoad{Tenant: "1@1", Memory: level(10, 20), SM: level(.5, .5)}))
	m.Take(load(60, 180, level(30, 30), model.TenantLoad{Tenant: "2@1", Memory: level(30, 30)}))
	m.Take(load(240, 60, model.Unknown[model.Level]()))
	m.Take(load(300, 60, level(7, 8)))
	m.Take(load(900, 60, level(1, 1)))
	want := []model.Load{
		load(0, 240, level(25, 30), model.TenantLoad{Tenant: "1@1", Memory: level(2.5, 20), SM: level(.125, .5)},
			model.TenantLoad{Tenant: "2@1", Memory: level(22.5, 30)}),
		load(240, 120, level(7, 8)),
		load(900, 60, level(1, 1)),
	}
	if d := cmp.Diff(want, m.Loads(), sameLoads()); d != "" {
		t.Errorf("merged (-want +got):\n%s", d)
	}
}

func FuzzUnpackLoads(f *testing.F) {
	f.Add(PackLoads([]model.Load{busyLoad(epoch, 1, 2), busyLoad(epoch.Add(time.Minute), 2, 2)}))
	f.Add("g0=a 0 1 b\nt0=1@1\n1 1 g0:1,2,3,4 t0\n")
	f.Add("1 1 t0\ng=\n1 9223372036854775807\n")
	f.Fuzz(func(t *testing.T, text string) {
		all := UnpackLoads(text)
		if d := cmp.Diff(all, UnpackLoads(PackLoads(all)), sameLoads()); d != "" && !repeats(all) {
			t.Errorf("%q comes back changed:\n%s", text, d)
		}
	})
}

// repeats tells whether a load names a GPU twice, or a tenant on one: nobody
// writes that.
func repeats(all []model.Load) bool {
	for _, l := range all {
		seen := map[string]bool{}
		for _, g := range l.GPUs {
			if seen[g.UUID] {
				return true
			}
			seen[g.UUID] = true
			for _, t := range g.Tenants {
				if seen[g.UUID+"\x00"+string(t.Tenant)] {
					return true
				}
				seen[g.UUID+"\x00"+string(t.Tenant)] = true
			}
		}
	}
	return false
}
