//go:build failpoints

// Package failpoint names the points between two steps at which a crash must do
// no harm. A build with the tag failpoints stops there on request, so that a
// test can kill the process at each; in every other build a point is nothing. It
// lets a test set the wall clock, too.
package failpoint

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The folder that a test shares with the process, and the process's role.
const (
	folder = "GIMBAL_FAILPOINTS"
	role   = "GIMBAL_FAILPOINTS_ROLE"
)

var (
	mu     sync.Mutex
	passed int    // of the point that is armed, since it is
	armed  string // as last read
)

// At writes down that a point is passed. At the one that the file "armed" names,
// as "POINT N", its N-th passing renames that file to "hit", writes the process's
// pid there and stops the process before the next step.
func At(point string) {
	dir := os.Getenv(folder)
	if dir == "" {
		return
	}
	if r := os.Getenv(role); r != "" {
		point = r + ":" + point
	}
	mu.Lock()
	defer mu.Unlock()
	record(dir, point)
	if !reached(dir, point) || os.Rename(filepath.Join(dir, "armed"), filepath.Join(dir, "hit")) != nil {
		return
	}
	_ = os.WriteFile(filepath.Join(dir, "hit"), strconv.AppendInt(nil, int64(os.Getpid()), 10), 0o600)
	runtime.LockOSThread() // the stop has to meet this very thread
	_ = unix.Tgkill(unix.Getpid(), unix.Gettid(), unix.SIGSTOP)
	runtime.UnlockOSThread()
}

func record(dir, point string) {
	f, err := os.OpenFile(filepath.Join(dir, "passed"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return
	}
	_, _ = f.WriteString(point + "\n")
	_ = f.Close()
}

// reached counts the passings of the point that is armed.
func reached(dir, point string) bool {
	text, err := os.ReadFile(filepath.Join(dir, "armed"))
	if err != nil {
		return false
	}
	if string(text) != armed {
		armed, passed = string(text), 0
	}
	name, count, _ := strings.Cut(armed, " ")
	if name != point {
		return false
	}
	passed++
	return fmt.Sprint(passed) == count
}

// Now is the wall clock, set forth or back by what the file "clock" says.
func Now() time.Time {
	now := time.Now()
	text, err := os.ReadFile(filepath.Join(os.Getenv(folder), "clock"))
	if by, bad := time.ParseDuration(string(text)); err == nil && bad == nil {
		now = now.Add(by)
	}
	return now
}

// Env is what a child that plays a role of its own needs in its environment.
func Env(as string) []string {
	dir := os.Getenv(folder)
	if dir == "" {
		return nil
	}
	return []string{folder + "=" + dir, role + "=" + as}
}
