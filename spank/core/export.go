// Command core is gimbal_core.so, the part of the plugin that talks to
// gimbald. It is built with -buildmode=c-shared and loaded by gimbal.so, which
// is plain C, inside the slurmstepd of a packed step and nowhere else.
//
// What the Go runtime does to that process, and what becomes of it: it starts
// threads (they stay, idle, with every signal blocked), installs signal
// handlers and raises the soft limit on open files (the front puts both back;
// the handlers are in place only while one of these exports runs). It cannot
// be unloaded. Nothing here is ever called in a forked child.
package main

/*
#include <string.h>
#include "../gimbal_core.h"
*/
import "C"

import (
	"fmt"
	"time"
	"unsafe"

	"github.com/gimbal-hpc/gimbal/helper/wire"
)

func main() {} // c-shared wants one; it is never called

// core is this process's one step. slurmstepd serves exactly one.
var core = newSession(time.Now, callDaemon, wire.WritePending)

//export gimbal_core_abi
func gimbal_core_abi() C.int { return C.GIMBAL_CORE_ABI }

//export gimbal_core_prepare
func gimbal_core_prepare(req *C.struct_gimbal_core_request, reply *C.struct_gimbal_core_reply) C.int {
	return guarded(req, reply, core.prepare)
}

//export gimbal_core_register
func gimbal_core_register(req *C.struct_gimbal_core_request, reply *C.struct_gimbal_core_reply) C.int {
	return guarded(req, reply, core.register)
}

//export gimbal_core_task_exit
func gimbal_core_task_exit(req *C.struct_gimbal_core_request, reply *C.struct_gimbal_core_reply) C.int {
	return guarded(req, reply, core.taskExit)
}

//export gimbal_core_step_end
func gimbal_core_step_end(req *C.struct_gimbal_core_request, reply *C.struct_gimbal_core_reply) C.int {
	return guarded(req, reply, core.stepEnd)
}

// guarded runs one call. A panic in it costs the call, not the slurmstepd.
func guarded(req *C.struct_gimbal_core_request, reply *C.struct_gimbal_core_reply, call func(request) outcome) (rc C.int) {
	defer func() {
		if p := recover(); p != nil {
			setMessage(reply, fmt.Sprintf("defect in the core: %v", p))
			rc = -1
		}
	}()
	out := call(fromC(req))
	setMessage(reply, out.message)
	setEnv(reply, out.env)
	if out.active {
		reply.active = 1
	}
	switch {
	case out.left:
		reply.left = 1
		return 1
	case out.failed:
		return -1
	}
	return 0
}

func fromC(r *C.struct_gimbal_core_request) request {
	return request{
		socket: C.GoString(r.socket), pending: C.GoString(r.pending),
		timeout: time.Duration(r.timeout_ms) * time.Millisecond,
		job:     uint32(r.job), step: uint32(r.step),
		arrayJob: uint32(r.array_job), arrayTask: uint32(r.array_task),
		hetJob: uint32(r.het_job), hetOffset: uint32(r.het_offset),
		tasks: uint32(r.tasks), nnodes: uint32(r.nnodes), node: uint32(r.node), restart: uint32(r.restart),
		uid: uint32(r.uid), gid: uint32(r.gid), endTime: int64(r.end_time),
		gpus: C.GoString(r.gpus), gpusFrom: C.GoString(r.gpus_from), visible: C.GoString(r.visible),
		user: C.GoString(r.user), account: C.GoString(r.account),
		partition: C.GoString(r.partition), jobName: C.GoString(r.job_name),
		pack: C.GoString(r.pack), memory: C.GoString(r.memory), class: C.GoString(r.class_),
		weight: C.GoString(r.weight), deadline: C.GoString(r.deadline), signal: C.GoString(r.signal),
		own: r.own != 0, pty: r.pty != 0,
		task: uint32(r.task), localTask: uint32(r.local_task), pid: int(r.pid), status: int(r.status),
	}
}

// setMessage copies text into the reply, whole or cut at its end with a NUL.
func setMessage(reply *C.struct_gimbal_core_reply, text string) {
	copyInto(unsafe.Slice((*byte)(unsafe.Pointer(&reply.message[0])), C.GIMBAL_MESSAGE_SIZE), text)
}

func setEnv(reply *C.struct_gimbal_core_reply, env []string) {
	room := unsafe.Slice((*byte)(unsafe.Pointer(&reply.env[0])), C.GIMBAL_ENV_SIZE)
	packEnv(room, env)
}
