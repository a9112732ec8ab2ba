package faults

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/wire"
)

// Users with no more rights than anybody has.
const (
	nobody   = 65534
	flooding = 64999
)

// floodVar names the socket for a test binary that was started again to flood it.
const floodVar = "FAULTS_FLOOD"

// asUser starts this program again as a user who need not be able to reach it.
func (r *rig) asUser(uid int, env string) *exec.Cmd {
	r.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		r.t.Fatal(err)
	}
	self, err := os.Open(exe)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = self.Close() }()
	cmd := exec.Command("/proc/self/fd/3")
	cmd.ExtraFiles, cmd.Dir, cmd.Env = []*os.File{self}, "/", []string{env}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

// flood does to a socket what a hostile user can: it hangs on connections, closes
// them at once, sends junk, too much, half a request, requests without end, and
// tells of processes that are not its own.
func flood(socket string) int {
	lines := []string{"junk\n", strings.Repeat("x", 4*wire.MaxRequest), `{"v":1,"op":"sta`,
		`{"v":1,"op":"status","params":{}}` + "\n", `{"v":1,"op":"records","params":{}}` + "\n",
		`{"v":1,"op":"register","params":{"job":1,"proc":{"pid":1,"start":1}}}` + "\n",
		`{"v":1,"op":"run","params":{"proc":{"pid":1,"start":1},"name":"x"}}` + "\n",
		`{"v":1,"op":"control","params":{"job":{"job":101},"do":"evict"}}` + "\n", ""}
	var all sync.WaitGroup
	for i := range 2 * len(lines) {
		all.Go(func() {
			for {
				conn, err := net.Dial("unix", socket)
				if err != nil {
					time.Sleep(time.Millisecond)
					continue
				}
				_ = conn.SetDeadline(time.Now().Add(time.Second))
				in := bufio.NewReader(conn)
				for range 100 {
					if _, err = conn.Write([]byte(lines[i%len(lines)])); err == nil {
						_, err = in.ReadString('\n')
					}
					if err != nil {
						break
					}
				}
				_ = conn.Close()
			}
		})
	}
	all.Wait()
	return 0
}

// TestSocketUnderFlood: a user who floods the socket keeps neither root's requests
// nor another user's from being answered, nor jobs from being paused and resumed;
// and leaves nothing behind.
func TestSocketUnderFlood(t *testing.T) {
	injects(t, 1)
	// Its guard is as patient as a node's.
	r := newRig(t, setting{})
	if err := os.Chmod(r.dir, 0o755); err != nil { // for the socket in it
		t.Fatal(err)
	}
	r.start()
	k := r.living(nil)
	files := func() int {
		fds, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", r.cmd.Process.Pid))
		return len(fds)
	}
	before, lines := files(), strings.Count(r.log(), "\n")
	cmd := r.asUser(flooding, floodVar+"="+r.socket())
	eventually(t, patience, "the flood to be refused", func() bool { return strings.Contains(r.log(), fmt.Sprintf("uid %d", flooding)) })
	for range 5 {
		r.order(k, model.PrimPause)
		r.await(k, model.Paused)
		r.order(k, "release")
		r.await(k, model.Running)
		k.trains()
	}
	if n := len(childrenOf(r.cmd.Process.Pid)); n > 2 {
		t.Errorf("the daemon has %d children", n)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, patience, "the connections are closed", func() bool { return files() <= before+2 })
	if n := strings.Count(r.log(), "\n") - lines; n > 100 {
		t.Errorf("the flood is worth %d lines of the log:\n%s", n, tail(r.log(), 40))
	}
	if strings.Contains(r.log(), "has not turned") {
		t.Errorf("the guard took over:\n%s", tail(r.log(), 40))
	}
	r.finishAll()
}

// sleepOf registers a process of another user, which sleeps.
func (r *rig) sleepOf(uid uint32) *task {
	r.t.Helper()
	k := r.newTask()
	k.job = uint32(k.serial)
	k.of = k.job
	c := &child{k: k, cmd: exec.Command("/bin/sleep", "1000")}
	k.handle = c
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	if err := c.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	go func() { _ = c.cmd.Wait(); close(k.done) }()
	r.t.Cleanup(func() { _ = unix.Kill(c.root(), unix.SIGKILL) })
	reg := model.Registration{JobID: k.job, StepID: model.StepBatch, ArrayTask: model.NoVal, HetOffset: model.NoVal, UID: uid,
		Tasks: 1, NNodes: 1, Proc: identity(r.t, c.root()), GPUs: []string{"0"}, Visible: "0", Options: model.Options{Pack: "1", Memory: "1GiB"}}
	if err := r.call(wire.OpRegister, reg, nil); err != nil {
		r.t.Fatal(err)
	}
	r.await(k, model.Running)
	return k
}

// TestPauseInALaunch: a pause that is ordered in a job's launch says what it waits
// for, whether the job has reached its GPU or not, and comes at the launch's end.
func TestPauseInALaunch(t *testing.T) {
	t.Parallel()
	r := newRig(t, setting{policy: strings.Replace(turnless, `min_run = "0s"`, `min_run = "15s"`, 1)})
	r.start()
	for _, args := range []string{trainer, trainer + " --startup 60"} {
		k := r.launch("2GiB", args)
		r.await(k, model.Running)
		q := model.ControlQuery{Job: model.JobRef{Job: k.job, Task: model.NoVal, Offset: model.NoVal, Step: model.NoVal}, Do: model.PrimPause}
		var reply model.ControlReply
		if err := r.call(model.OpControl, q, &reply); err != nil {
			t.Fatal(err)
		}
		if said := strings.Join(reply.Notes, "; "); !strings.Contains(said, "goes on for now: not stopped in the first 15s after a launch, for ") {
			t.Errorf("%s: it says %q", args, said)
		}
		if v := r.view(k); v == nil || v.State != model.Running {
			t.Errorf("%s: it is %+v at once", args, v)
		}
		r.await(k, model.Paused)
		k.destroy()
	}
}
