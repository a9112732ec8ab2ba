package proc

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkPause measures a pause by signals, from the decision to the last
// process seen stopped, beside its floor in the same run: a bare loop of pidfd
// signals and reads of /proc/PID/stat over the same processes. It reports both
// in microseconds and their ratio.
func BenchmarkPause(b *testing.B) {
	for _, n := range []int{1, 34, 512} {
		b.Run(strconv.Itoa(n), func(b *testing.B) { benchmarkPause(b, n) })
	}
}

// BenchmarkManyPause is BenchmarkPause for a tree that takes long.
func BenchmarkManyPause(b *testing.B) {
	b.Run("5000", func(b *testing.B) { benchmarkPause(b, 5000) })
}

func benchmarkPause(b *testing.B, n int) {
	root, pids := sleepers(b, n)
	tr := NewTracker(Host{}, nil)
	defer tr.Close()
	if err := tr.Watch(root, true); err != nil {
		b.Fatal(err)
	}
	var bare, ours, back []time.Duration
	for b.Loop() {
		bare = append(bare, floor(b, pids))
		p, err := tr.Pause(context.Background(), Target{Roots: []ID{root}})
		if err != nil || len(p.Stopped) != n {
			b.Fatalf("%d of %d stopped: %v", len(p.Stopped), n, err)
		}
		ours = append(ours, p.Latency)
		r, err := tr.host.Resume(p.Stopped)
		if err != nil {
			b.Fatal(err)
		}
		back = append(back, r.Latency)
	}
	report(b, bare, ours, back)
}

// floor stops the processes by a bare loop, continues them again, and returns
// how long the stop took.
func floor(b *testing.B, pids []int) time.Duration {
	begin := time.Now()
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			b.Fatal(err)
		}
		if err := unix.PidfdSendSignal(fd, unix.SIGSTOP, nil, 0); err != nil {
			b.Fatal(err)
		}
		_ = unix.Close(fd)
	}
	var buf [statSize]byte
	for _, pid := range pids {
		for {
			s, err := Host{}.stat(buf[:], pid)
			if err != nil {
				b.Fatal(err)
			}
			if s.State == 'T' {
				break
			}
		}
	}
	took := time.Since(begin)
	for _, pid := range pids {
		_ = unix.Kill(pid, unix.SIGCONT)
	}
	return took
}

// sleepers starts a tree of n processes, root included.
func sleepers(b *testing.B, n int) (root ID, pids []int) {
	script := fmt.Sprintf("i=1; while [ $i -lt %d ]; do sleep 1000 & i=$((i+1)); done; echo; exec sleep 1000", n)
	cmd := exec.Command("sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	if _, err := out.Read(make([]byte, 1)); err != nil {
		b.Fatal(err)
	}
	root, err = Host{}.Identify(cmd.Process.Pid)
	if err != nil {
		b.Fatal(err)
	}
	return root, settled(b, root.PID, n)
}

// settled waits until all processes of the group are there and sleep.
func settled(b *testing.B, group, n int) []int {
	for end := time.Now().Add(6 * patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		var pids []int
		procs, err := Host{}.Scan(nil)
		if err != nil {
			b.Fatal(err)
		}
		for _, p := range procs {
			if p.PGrp == group && strings.HasPrefix(p.Comm, "sleep") {
				pids = append(pids, p.PID)
			}
		}
		if len(pids) == n {
			return pids
		}
	}
	b.Fatalf("%d processes did not come up", n)
	return nil
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// BenchmarkFreeze measures a freeze, with its proofs before and after, beside its
// floor in the same run: the bare write and reads until the kernel confirms it.
func BenchmarkFreeze(b *testing.B) {
	for _, version := range []int{1, 2} {
		for _, n := range []int{1, 34, 512} {
			b.Run(fmt.Sprintf("v%d/%d", version, n), func(b *testing.B) { benchmarkFreeze(b, version, n) })
		}
	}
}

// BenchmarkManyFreeze is BenchmarkFreeze for a tree that takes long.
func BenchmarkManyFreeze(b *testing.B) {
	for _, version := range []int{1, 2} {
		b.Run(fmt.Sprintf("v%d/5000", version), func(b *testing.B) { benchmarkFreeze(b, version, 5000) })
	}
}

func benchmarkFreeze(b *testing.B, version, n int) {
	root, pids := sleepers(b, n)
	ids := []ID{root}
	for _, pid := range pids {
		if pid != root.PID {
			ids = append(ids, ID{PID: pid})
		}
	}
	dir := step(b, version, ids...)
	tr := NewTracker(Host{}, nil)
	defer tr.Close()
	if err := tr.Watch(root, true); err != nil {
		b.Fatal(err)
	}
	target := Target{Roots: []ID{root}}
	var bare, ours, back []time.Duration
	for b.Loop() {
		bare = append(bare, freezeFloor(b, dir))
		f, err := tr.Freeze(context.Background(), target, []Freezer{dir}, nil)
		if err != nil || f.Processes != n {
			b.Fatalf("%d of %d frozen: %v", f.Processes, n, err)
		}
		ours = append(ours, f.Latency)
		r, err := tr.host.Thaw(f.Dirs)
		if err != nil {
			b.Fatal(err)
		}
		back = append(back, r.Latency)
	}
	report(b, bare, ours, back)
}

func freezeFloor(b *testing.B, f Freezer) time.Duration {
	d, err := f.openDir()
	if err != nil {
		b.Fatal(err)
	}
	defer d.close()
	begin := time.Now()
	if err := d.write(true); err != nil {
		b.Fatal(err)
	}
	for s := (FreezerState{}); !s.Frozen; {
		if s, err = d.state(); err != nil {
			b.Fatal(err)
		}
	}
	took := time.Since(begin)
	if err := d.thaw(); err != nil {
		b.Fatal(err)
	}
	return took
}

// report gives the medians in microseconds and their ratio, and how long it
// took to let the processes go on again.
func report(b *testing.B, bare, ours, back []time.Duration) {
	low, mine := median(bare), median(ours)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(low.Microseconds()), "floor-us")
	b.ReportMetric(float64(mine.Microseconds()), "ours-us")
	b.ReportMetric(float64(mine)/float64(low), "ratio")
	b.ReportMetric(float64(median(back).Microseconds()), "resume-us")
}

// BenchmarkScan measures one look at every process of the host.
func BenchmarkScan(b *testing.B) {
	var procs []Process
	var err error
	for b.Loop() {
		if procs, err = (Host{}).Scan(procs); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(procs)), "processes")
}

// BenchmarkLook measures the look at one process that is paused.
func BenchmarkLook(b *testing.B) {
	root, _ := sleepers(b, 1)
	for b.Loop() {
		if (Host{}).Look(root) != ConditionRunning {
			b.Fatal("not running")
		}
	}
}

// BenchmarkFollow measures what a fork and exit of a member costs the tracker.
func BenchmarkFollow(b *testing.B) {
	root, _ := sleepers(b, 1)
	tr := NewTracker(Host{}, nil)
	defer tr.Close()
	if err := tr.Watch(root, true); err != nil {
		b.Fatal(err)
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for b.Loop() {
		tr.take(event{what: eventFork, ppid: root.PID, pid: 1})
		tr.take(event{what: eventExit, pid: 1})
		delete(tr.nodes, 1)
	}
}
