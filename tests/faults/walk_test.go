package faults

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/tests/simgpu"
	"github.com/gimbal-hpc/gimbal/tests/slurmtest"
)

// fault is what happens to the daemon at a point.
type fault struct {
	name  string
	crash func(r *rig, s scene)
}

var (
	killed = fault{"killed", func(r *rig, s scene) {
		r.killed()
		if s.starts {
			r.release() // as the service does; there may be no guard yet
		}
	}}
	killedWithGuard = fault{"killed with its guard", func(r *rig, _ scene) {
		if g := r.guard(); g != 0 {
			kill(r.t, g, unix.SIGKILL)
		}
		r.killed()
		r.release()
	}}
	guardKilled = fault{"the guard is killed", func(r *rig, _ scene) {
		kill(r.t, r.hitBy(), unix.SIGKILL)
		r.release()
	}}
	hung = fault{"hung", func(*rig, scene) {}}
)

// faults are what happens to a scene: at each point one of a row in turn, and
// in a long run each of them at each point.
func faults(s scene) map[string][]fault {
	switch {
	case s.guards:
		return map[string][]fault{guardKilled.name: {guardKilled}}
	case os.Getenv("GIMBAL_LONG") == "":
		return map[string][]fault{"killed": {killed, killedWithGuard}}
	}
	each := map[string][]fault{killed.name: {killed}, killedWithGuard.name: {killedWithGuard}}
	if !s.starts {
		each[hung.name] = []fault{hung}
	}
	return each
}

// TestEveryPoint breaks off every sequence of steps at each of its points: it
// learns them from a run that is let be, then kills the daemon at each, alone or
// with its guard; a long run does both, and also has it hang there until the
// guard takes over. Afterwards nothing is stopped that should run, nothing
// was signalled that is not ours, no job has ended, and the journal tells the
// next daemon of exactly what lives.
func TestEveryPoint(t *testing.T) {
	walked := walkAll(t, scenes())
	if len(walked) < len(scenes()) {
		return // some alone were asked for
	}
	passed := strings.Join(slices.Concat(slices.Collect(maps.Values(walked))...), " ")
	for _, name := range failpoints(t) {
		if !regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b`).MatchString(passed) {
			t.Errorf("no scene passes the point %s", name)
		}
	}
}

// failpoints are the names of the points of all sequences, but for those that are made
// while it runs.
func failpoints(t *testing.T) (names []string) {
	t.Helper()
	call := regexp.MustCompile(`failpoint\.At\("([^"]+)"\)`)
	err := filepath.WalkDir(filepath.Join(simgpu.Root(), "helper"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range call.FindAllSubmatch(text, -1) {
			names = append(names, string(m[1]))
		}
		return err
	})
	if err != nil || len(names) == 0 {
		t.Fatalf("%d points: %v", len(names), err)
	}
	return names
}

// TestEveryPointUnderSlurm is the same with jobs of a real Slurm, in a Slurm of
// its own for each scene: no job ends otherwise than without Gimbal by Slurm's own
// word, and no node is drained. The scenes that need long are left to a long run.
func TestEveryPointUnderSlurm(t *testing.T) {
	slurmtest.Need(t)
	var all []scene
	for _, s := range scenes() {
		if s.setting.slurm = true; !s.alone && (s.brief || os.Getenv("GIMBAL_LONG") != "") {
			all = append(all, s)
		}
	}
	walkAll(t, all)
}

// walkAll walks scenes side by side and says how many faults there were. It returns
// the points at which each scene was broken off.
func walkAll(t *testing.T, all []scene) (walked map[string][]string) {
	t.Helper()
	need(t)
	walked = map[string][]string{}
	var mu sync.Mutex // of walked
	var injected, held atomic.Int64
	t.Cleanup(func() { t.Logf("%s: %d faults injected, %d held", t.Name(), injected.Load(), held.Load()) })
	t.Run("at", func(t *testing.T) {
		for _, s := range all {
			for name, f := range faults(s) {
				t.Run(s.name+"/"+name, func(t *testing.T) {
					t.Parallel()
					broken, ok := walk(t, s, f)
					injected.Add(int64(len(broken)))
					held.Add(int64(ok))
					mu.Lock()
					defer mu.Unlock()
					walked[s.name] = append(walked[s.name], broken...)
				})
			}
		}
	})
	return walked
}

// walk breaks a scene off at each of its points and returns at which that was done, and
// how many of these faults did no harm. A point that is passed less often than before
// may be missed, no step of the sequence.
func walk(t *testing.T, s scene, faults []fault) (broken []string, held int) {
	r := newRig(t, s.setting)
	r.start()
	p := s.play(r)
	p.prepare()
	points := r.learn(s, p)
	for i, at := range points {
		f := faults[i%len(faults)]
		name, count, _ := strings.Cut(at, " ")
		if !r.breakOffAgain(s, p, f, at) {
			if t.Logf("not passed this time: %s", at); count == "1" {
				t.Errorf("the step %s was not passed again", name)
			}
			continue
		}
		broken = append(broken, name)
		r.wantWhole()
		if t.Failed() {
			t.Fatalf("after it was %s at %s", f.name, at)
		}
		held++
	}
	t.Logf("%d points, %d faults: %s", len(points), len(broken), strings.Join(points, ", "))
	if len(broken)*10 < len(points)*8 {
		t.Errorf("of %d points only %d were passed again", len(points), len(broken))
	}
	r.finishAll()
	return broken, held
}

// learn runs a scene undisturbed and returns its points in the order in which
// they were first passed.
func (r *rig) learn(s scene, p play) []string {
	r.forget()
	p.begin()
	eventually(r.t, patience, "the sequence ends", p.over)
	time.Sleep(100 * time.Millisecond) // what follows the end
	passed := r.passed()
	if r.gone() {
		r.start()
	}
	count := map[string]int{}
	var points []string
	for _, name := range passed {
		if strings.HasPrefix(name, "guard:") != s.guards {
			continue
		}
		count[name]++
		points = append(points, fmt.Sprintf("%s %d", name, count[name]))
	}
	if len(points) == 0 {
		r.t.Fatal("no point is passed")
	}
	return points
}

func (r *rig) forget() { r.write("points/passed", "") }

func (r *rig) passed() []string {
	text, err := os.ReadFile(r.path("points/passed"))
	if err != nil {
		r.t.Fatal(err)
	}
	return strings.Fields(string(text))
}

// breakOffAgain prepares a scene and breaks it off, and tries that again where the
// point is not passed: where turns go on by themselves one may be half over.
func (r *rig) breakOffAgain(s scene, p play, f fault, at string) bool {
	r.t.Helper()
	for range 3 {
		p.prepare()
		if r.breakOff(s, p, f, at) {
			return true
		}
	}
	return false
}

// breakOff begins a scene, lets the fault happen at the point and brings up the
// next daemon. It returns false where the point was not passed.
func (r *rig) breakOff(s scene, p play, f fault, at string) bool {
	r.t.Helper()
	_ = os.Remove(r.path("points/hit"))
	r.write("points/armed", at)
	begun := make(chan struct{})
	go func() { defer close(begun); p.begin() }() // it may wait for a daemon that does not answer any more
	hit := r.reached(p)
	if !hit && os.Remove(r.path("points/armed")) != nil { // it was passed at the last moment
		eventually(r.t, patience, "the daemon stands at the point", r.stands)
		hit = true
	}
	if hit {
		r.wantIntent()
		f.crash(r, s)
		r.wantRunning()
		if f.name == hung.name {
			kill(r.t, r.hitBy(), unix.SIGCONT)
		}
	}
	<-begun
	r.reap(s)
	if r.gone() {
		r.start()
	}
	return hit
}

// hitBy is the process that stands at the point.
func (r *rig) hitBy() int {
	text, err := os.ReadFile(r.path("points/hit"))
	if err != nil {
		r.t.Fatal(err)
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil {
		r.t.Fatal(err)
	}
	return pid
}

// reap waits for what the sequence itself ends.
func (r *rig) reap(s scene) {
	if s.name == "leave" && r.cmd.ProcessState == nil {
		eventually(r.t, patience, "the daemon leaves", r.gone)
	}
}

// reached waits until the point is passed, or the scene is over without.
func (r *rig) reached(p play) bool {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if r.stands() {
			return true
		}
		if r.armed() && p.over() {
			time.Sleep(50 * time.Millisecond)
			if r.armed() {
				return false
			}
		}
	}
	r.t.Fatal("neither the point nor the end of the sequence is reached")
	return false
}

// armed tells whether the point has not been passed yet.
func (r *rig) armed() bool {
	_, err := os.Stat(r.path("points/armed"))
	return err == nil
}

// stands tells whether a process stands at the point.
func (r *rig) stands() bool {
	text, err := os.ReadFile(r.path("points/hit"))
	if err != nil {
		return false
	}
	pid, err := strconv.Atoi(string(text))
	st, ok := statOf(pid)
	return err == nil && ok && st.state == 'T'
}

// release does what the service does once the daemon is gone.
func (r *rig) release() {
	cmd := exec.Command(r.program, "--config", r.path("gimbald.toml"), "--release")
	cmd.Env = append(append(os.Environ(), r.gpu.Env()...), "SERVICE_RESULT=signal")
	if out, err := cmd.CombinedOutput(); err != nil {
		r.t.Errorf("gimbald --release: %v: %s", err, out)
	}
}
