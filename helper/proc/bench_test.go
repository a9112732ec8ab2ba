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

func benchmarkPause(b *testing.B, n int) {
	root, pids := sleepers(b, n)
	tr := NewTracker(Host{}, nil)
	defer tr.Close()
	if err := tr.Watch(root, true); err != nil {
		b.Fatal(err)
	}
	var bare, ours []time.Duration
	for b.Loop() {
		bare = append(bare, floor(b, pids))
		p, err := tr.Pause(context.Background(), Target{Roots: []ID{root}})
		if err != nil || len(p.Stopped) != n {
			b.Fatalf("%d of %d stopped: %v", len(p.Stopped), n, err)
		}
		ours = append(ours, p.Latency)
		if _, err := tr.host.Resume(p.Stopped); err != nil {
			b.Fatal(err)
		}
	}
	low, mine := median(bare), median(ours)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(low.Microseconds()), "floor-us")
	b.ReportMetric(float64(mine.Microseconds()), "pause-us")
	b.ReportMetric(float64(mine)/float64(low), "ratio")
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
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
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
