package faults

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// TestServiceConfinement: with the capabilities and system calls that the service has,
// and no others, and files that can be written in its own folders and GPUs alone, the
// daemon does all it does: it pauses by either kind, jobs of another user too, and its guard
// continues them; it swaps and restores.
func TestServiceConfinement(t *testing.T) {
	need(t)
	confined := confinement(t)
	for _, freezer := range []bool{false, true} {
		t.Run(map[bool]string{false: "signals", true: "freezer"}[freezer], func(t *testing.T) {
			t.Parallel()
			r := newRig(t, setting{freezer: freezer})
			r.before = confined(r)
			testConfined(r)
		})
	}
	t.Run("swap", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, swapping())
		r.before = confined(r)
		r.start()
		p := playSwap(r)
		p.prepare()
		eventually(t, patience, "one is swapped and one restored", p.over)
		r.wantUnrefused()
		r.finishAll()
	})
}

func testConfined(r *rig) {
	r.start()
	k := r.living(nil)
	other := r.sleepOf(nobody)
	for range 2 {
		r.order(k, model.PrimPause)
		r.await(k, model.Paused)
		r.order(other, model.PrimPause)
		eventually(r.t, patience, "the other user's process is stopped", func() bool { s, _ := statOf(other.root()); return s.state == 'T' })
		r.killed()
		eventually(r.t, patience, "the guard continues both", func() bool {
			s, _ := statOf(other.root())
			return s.state != 'T' && len(k.stopped()) == 0
		})
		r.start()
		for _, one := range []*task{k, other} {
			r.order(one, "release")
		}
	}
	k.trains()
	r.wantUnrefused()
	other.destroy()
	r.finishAll()
}

// wantUnrefused checks that the daemon was refused nothing that it needs.
func (r *rig) wantUnrefused() {
	r.t.Helper()
	for _, refused := range []string{"not permitted", "permission denied", "read-only file system", "no process connector"} {
		if strings.Contains(r.log(), refused) {
			r.t.Errorf("something was refused:\n%s", r.log())
		}
	}
}

// confinement returns what puts before a daemon's command line that confines it as
// systemd would, by the service's own file.
func confinement(t *testing.T) func(r *rig) []string {
	t.Helper()
	for _, program := range []string{"setpriv", "unshare", "systemd-analyze"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("SKIPPED: %s is missing", program)
		}
	}
	caps := "-all"
	for _, name := range service(t, "CapabilityBoundingSet") {
		caps += ",+" + strings.ToLower(strings.TrimPrefix(name, "CAP_"))
	}
	denied := deniedCalls(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return func(r *rig) []string {
		const readOnly = `for dir in "$1" "$2"; do mount --bind "$dir" "$dir"; done; mount -o remount,bind,ro /; shift 2; exec "$@"`
		return []string{"unshare", "--mount", "sh", "-ec", readOnly, "sh", r.dir, r.gpu.Dir,
			"setpriv", "--bounding-set", caps, "--inh-caps", "-all", "--no-new-privs",
			"env", asConfined + "=" + denied, exe}
	}
}

// service are the words of a setting of the service.
func service(t *testing.T, key string) []string {
	t.Helper()
	text, err := os.ReadFile("../../etc/gimbald.service")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "\n"+key+"=")
	line, _, _ := strings.Cut(rest, "\n")
	if !ok {
		t.Fatalf("the service has no %s", key)
	}
	return strings.Fields(line)
}

// deniedCalls are the numbers of the system calls that the service may not make, by
// systemd's own sets.
func deniedCalls(t *testing.T) string {
	t.Helper()
	sets := service(t, "SystemCallFilter")
	if !strings.HasPrefix(sets[0], "~@") {
		t.Fatalf("SystemCallFilter=%v is not a list of what is denied", sets)
	}
	sets[0] = sets[0][1:]
	names := map[string]bool{}
	for i := 0; i < len(sets); i++ {
		out, err := exec.Command("systemd-analyze", "syscall-filter", "--no-pager", sets[i]).Output()
		if err != nil {
			t.Fatalf("systemd-analyze syscall-filter %s: %v", sets[i], err)
		}
		for line := range strings.Lines(string(out)) {
			switch name := strings.TrimSpace(line); {
			case !strings.HasPrefix(line, " ") || strings.HasPrefix(name, "#"):
			case !strings.HasPrefix(name, "@"):
				names[name] = true
			case !slices.Contains(sets, name):
				sets = append(sets, name)
			}
		}
	}
	return numbers(t, names)
}

// numbers are those of system calls by their names, of those that this machine has.
func numbers(t *testing.T, names map[string]bool) string {
	t.Helper()
	text, err := os.ReadFile("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
	if err != nil {
		t.Skipf("SKIPPED: the numbers of system calls are not known: %v", err)
	}
	var all []string
	for _, m := range regexp.MustCompile(`#define __NR_(\w+) (\d+)`).FindAllStringSubmatch(string(text), -1) {
		if names[m[1]] {
			all = append(all, m[2])
		}
	}
	if len(all) < 20 {
		t.Fatalf("only %v of %d system calls are known", all, len(names))
	}
	return strings.Join(all, ",")
}

// confine becomes the program of its arguments, to which system calls are denied.
func confine() int {
	filter, err := callFilter(os.Getenv(asConfined))
	if err == nil {
		err = deny(filter)
	}
	if err == nil {
		_ = os.Unsetenv(asConfined)
		err = syscall.Exec(os.Args[1], os.Args[1:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// callFilter answers EPERM to calls of these numbers.
func callFilter(list string) ([]unix.SockFilter, error) {
	const number = 0 // where struct seccomp_data has it
	filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number}}
	for word := range strings.SplitSeq(list, ",") {
		n, err := strconv.ParseUint(word, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("a system call's number: %w", err)
		}
		filter = append(filter,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(n), Jf: 1},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)})
	}
	return append(filter, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}), nil
}

// deny puts a filter on all threads of this program.
func deny(filter []unix.SockFilter) error {
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return fmt.Errorf("deny system calls: %w", errno)
	}
	return nil
}
