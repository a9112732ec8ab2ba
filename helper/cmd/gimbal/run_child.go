package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/proc"
)

// The command's process begins as this program. It waits until a daemon has let it
// run or holds it, and then becomes the command: its pid, its terminal and its
// process group stay. One that is held is stopped while it is this program yet.

// runChild is the first word of the command line of such a process; behind it
// stand the descriptor that it waits on, gimbal run's pid, the program's path, and
// its arguments.
const runChild = "run-child"

// child is a command's process.
type child struct {
	id  proc.ID
	own *os.File // this end of what joins the two
}

// spawn makes the process of a command, from a thread that stays.
func spawn(path string, argv []string) (*child, error) {
	runtime.LockOSThread()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("pair of sockets: %w", err)
	}
	defer func() { _ = unix.Close(fds[0]) }()
	own := os.NewFile(uintptr(fds[1]), "to the command's process")
	// It keeps its number in the process: whatever descriptors the caller has
	// open stay the command's.
	if _, err := unix.FcntlInt(uintptr(fds[0]), unix.F_SETFD, 0); err != nil {
		return nil, errors.Join(fmt.Errorf("pair of sockets: %w", err), own.Close())
	}
	args := append([]string{"gimbal", runChild, strconv.Itoa(fds[0]), strconv.Itoa(os.Getpid()), path}, argv...)
	pid, err := syscall.ForkExec("/proc/self/exe", args, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2},
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start a process: %w", err), own.Close())
	}
	keepFromOthers()
	id, err := proc.Host{}.Identify(pid)
	return &child{id: id, own: own}, err
}

// ready tells once, true when the process may be stopped: it waits for become.
// False comes when it has ended.
func (c *child) ready() <-chan bool {
	told := make(chan bool, 1)
	go func() {
		n, _ := c.own.Read(make([]byte, 1))
		told <- n == 1
	}()
	return told
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
	err := json.NewEncoder(c.own).Encode(set)
	return errors.Join(err, c.own.Close())
}

// beChild is the command's process before it is the command. It returns only
// where it cannot become that.
func beChild(args []string, stderr io.Writer) int {
	_ = os.WriteFile("/proc/self/comm", []byte("gimbal"), 0) // ps would show exe
	actPlainly()
	const least = 4 // descriptor, parent, path, argv[0]
	if len(args) < least {
		fmt.Fprintln(stderr, "gimbal: run-child is for gimbal run itself")
		return exitUsage
	}
	fd, err := strconv.Atoi(args[0])
	parent, err2 := strconv.Atoi(args[1])
	if err := errors.Join(err, err2); err != nil || fd <= unix.Stderr {
		fmt.Fprintf(stderr, "gimbal: run-child: %q is no descriptor and a parent\n", args[:2])
		return exitUsage
	}
	unix.CloseOnExec(fd)
	if !dieWith(parent) {
		return exitCannotRun
	}
	run := os.NewFile(uintptr(fd), "from gimbal run")
	var set []string
	if _, err := run.Write([]byte{0}); err != nil {
		return exitCannotRun
	}
	if err := json.NewDecoder(run).Decode(&set); err != nil {
		return exitCannotRun // gimbal run wants it no more
	}
	for _, v := range set {
		if name, value, ok := strings.Cut(v, "="); ok {
			_ = os.Setenv(name, value) // it fails only for names that are none
		}
	}
	err = execute(args[2], args[3:])
	fmt.Fprintf(stderr, "gimbal run: %s: %v\n", args[3], err)
	if errors.Is(err, unix.ENOENT) {
		return exitNotFound
	}
	return exitNotExec
}

// actPlainly has signals that come before the command is there do to its process
// what they do to a program that catches none; Go's handlers swallow some of them,
// and print stacks at others.
func actPlainly() {
	for _, s := range passed() {
		if !signal.Ignored(s) {
			_ = proc.Plain(s.(unix.Signal)) // it fails for no signal of these
		}
	}
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
