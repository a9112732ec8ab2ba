// Command core is gimbal_core.so, the part of the plugin for what is more than
// a plain yes from gimbald. It is built with -buildmode=c-shared and loaded by
// gimbal.so, which is plain C, inside the slurmstepd of a packed step and
// nowhere else, once such a case comes up.
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

//export gimbal_core_abi
func gimbal_core_abi() C.int { return C.GIMBAL_CORE_ABI }

//export gimbal_core_read
func gimbal_core_read(req *C.struct_gimbal_core_request, reply *C.struct_gimbal_core_reply) C.int {
	return guarded(req, reply, func(r request) outcome { return read(r.op, r.answer) })
}

//export gimbal_core_leave
func gimbal_core_leave(req *C.struct_gimbal_core_request, reply *C.struct_gimbal_core_reply) C.int {
	return guarded(req, reply, func(r request) outcome { return leave(r, time.Now()) })
}

// guarded runs one call. A panic in it costs the call, not the slurmstepd.
func guarded(req *C.struct_gimbal_core_request, reply *C.struct_gimbal_core_reply, call func(request) outcome) (rc C.int) {
	defer func() {
		if p := recover(); p != nil {
			setMessage(reply, fmt.Sprintf("defect in the core: %v", p))
			rc = -1
		}
	}()
	out := call(request{
		op: wire.Op(C.GoString(req.op)), params: C.GoString(req.params),
		answer: C.GoString(req.answer), pending: C.GoString(req.pending),
	})
	setMessage(reply, out.message)
	setEnv(reply, out.env)
	if out.active {
		reply.active = 1
	}
	if out.failed {
		return -1
	}
	return 0
}

// setMessage copies text into the reply, whole or cut at its end with a NUL.
func setMessage(reply *C.struct_gimbal_core_reply, text string) {
	copyInto(unsafe.Slice((*byte)(unsafe.Pointer(&reply.message[0])), C.GIMBAL_MESSAGE_SIZE), text)
}

func setEnv(reply *C.struct_gimbal_core_reply, env []string) {
	room := unsafe.Slice((*byte)(unsafe.Pointer(&reply.env[0])), C.GIMBAL_ENV_SIZE)
	packEnv(room, env)
}
