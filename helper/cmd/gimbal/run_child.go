package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/proc"
)

// The command's process begins as this program. It waits until a daemon knows
// of it, and then becomes the command: its pid, its terminal and its process
// group stay.

// runChild is the first word of the command line of such a process; behind it
// stand the descriptor that it waits on, the program's path, and its arguments.
const runChild = "run-child"

// child is a command's process.
type child struct {
	id  proc.ID
	say *os.File // to what waits in the process
}

// spawn makes the process of a command, from a thread that stays.
func spawn(path string, argv []string) (*child, error) {
	runtime.LockOSThread()
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("pipe: %w", err)
	}
	defer func() { _ = unix.Close(fds[0]) }()
	say := os.NewFile(uintptr(fds[1]), "to the command's process")
	// It keeps its number in the process: whatever descriptors the caller has
	// open stay the command's.
	if _, err := unix.FcntlInt(uintptr(fds[0]), unix.F_SETFD, 0); err != nil {
		return nil, errors.Join(fmt.Errorf("pipe: %w", err), say.Close())
	}
	args := append([]string{"gimbal", runChild, strconv.Itoa(fds[0]), path}, argv...)
	pid, err := syscall.ForkExec("/proc/self/exe", args, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2},
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start a process: %w", err), say.Close())
	}
	keepFromOthers()
	id, err := proc.Host{}.Identify(pid)
	return &child{id: id, say: say}, err
}

// keepFromOthers keeps descriptors that are the command's alone from a daemon
// that this process may start.
func keepFromOthers() {
	const first = 3
	_ = unix.CloseRange(first, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC) // before Linux 5.11 they stay open there
}

// become lets the process become the command, with variables set in its
// environment.
func (c *child) become(set []string) error {
	err := json.NewEncoder(c.say).Encode(set)
	return errors.Join(err, c.say.Close())
}

// beChild is the command's process before it is the command. It returns only
// where it cannot become that.
func beChild(args []string, stderr io.Writer) int {
	_ = proc.Plain(unix.SIGQUIT) // a terminal's ^\ may come before the command is there
	const least = 3              // descriptor, path, argv[0]
	if len(args) < least {
		fmt.Fprintln(stderr, "gimbal: run-child is for gimbal run itself")
		return exitUsage
	}
	fd, err := strconv.Atoi(args[0])
	if err != nil || fd < least {
		fmt.Fprintf(stderr, "gimbal: run-child: %q is no descriptor\n", args[0])
		return exitUsage
	}
	unix.CloseOnExec(fd)
	parent := os.Getppid()
	var set []string
	if err := json.NewDecoder(os.NewFile(uintptr(fd), "from gimbal run")).Decode(&set); err != nil {
		return exitCannotRun // gimbal run is gone
	}
	for _, v := range set {
		if name, value, ok := strings.Cut(v, "="); ok {
			_ = os.Setenv(name, value) // it fails only for names that are none
		}
	}
	if !dieWith(parent) {
		return exitCannotRun
	}
	err = execute(args[1], args[2:])
	fmt.Fprintf(stderr, "gimbal run: %s: %v\n", args[2], err)
	if errors.Is(err, unix.ENOENT) {
		return exitNotFound
	}
	return exitNotExec
}

// dieWith has this process killed when its parent ends, as nothing of a command
// stays behind a kill -9 under env(1). It tells whether the parent lives. What is
// asked for holds for the calling thread, which is the one that execs.
func dieWith(parent int) bool {
	runtime.LockOSThread()
	_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0) // it cannot fail
	return os.Getppid() == parent
}

// execute becomes a program. One that is no binary and names no interpreter is
// a script for sh, as execvp(3) takes it.
func execute(path string, argv []string) error {
	err := unix.Exec(path, argv, os.Environ())
	if errors.Is(err, unix.ENOEXEC) {
		err = unix.Exec("/bin/sh", append([]string{"sh", path}, argv[1:]...), os.Environ())
	}
	return err
}
