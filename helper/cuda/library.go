package cuda

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct {
	int (*init)(unsigned);
	int (*version)(int *);
	int (*lock)(int, void *);
	int (*checkpoint)(int, void *);
	int (*restore)(int, void *);
	int (*unlock)(int, void *);
	int (*state)(int, int *);
} gimbal_cuda;

// CUcheckpointLockArgs: 64 bytes, what is reserved is zero.
typedef struct {
	uint32_t timeout_ms;
	uint32_t reserved;
	uint64_t more[7];
} gimbal_lock_args;

_Static_assert(sizeof(gimbal_lock_args) == 64, "CUcheckpointLockArgs");

// Fills in one function; returns 0 if the library lacks it.
static int gimbal_symbol(void *library, const char *name, void *function)
{
	void *p = dlsym(library, name);
	*(void **)function = p;
	return p != NULL;
}

static int gimbal_init(gimbal_cuda *c) { return c->init(0); }
static int gimbal_version(gimbal_cuda *c, int *v) { return c->version(v); }
static int gimbal_checkpoint(gimbal_cuda *c, int pid) { return c->checkpoint(pid, NULL); }
static int gimbal_restore(gimbal_cuda *c, int pid) { return c->restore(pid, NULL); }
static int gimbal_unlock(gimbal_cuda *c, int pid) { return c->unlock(pid, NULL); }
static int gimbal_state(gimbal_cuda *c, int pid, int *s) { return c->state(pid, s); }

static int gimbal_lock(gimbal_cuda *c, int pid, unsigned ms)
{
	gimbal_lock_args args = { .timeout_ms = ms };
	return c->lock(pid, &args);
}
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"
)

// leastVersion is CUDA 12.8, that of driver R570: the first with these calls.
const leastVersion = 12080

// library is a loaded libcuda. It is never unloaded: the driver does not
// support that.
type library struct {
	c       *C.gimbal_cuda
	version int
}

// load opens the driver's library and initialises CUDA. It may block for as
// long as the driver does. An error says why this driver cannot do it.
func load(path string) (*library, error) {
	if runtime.GOARCH != "amd64" {
		return nil, errors.New("the driver has checkpoints on x86-64 only")
	}
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	handle := C.dlopen(name, C.RTLD_NOW|C.RTLD_LOCAL)
	if handle == nil {
		return nil, fmt.Errorf("load the CUDA driver: %s", C.GoString(C.dlerror()))
	}
	l := &library{c: (*C.gimbal_cuda)(C.calloc(1, C.sizeof_gimbal_cuda))}
	if err := l.bind(handle, path); err != nil {
		return nil, err
	}
	return l, l.start()
}

// bind looks up every function that is needed.
func (l *library) bind(handle unsafe.Pointer, path string) error {
	for _, f := range []struct {
		name string
		at   unsafe.Pointer
	}{
		{"cuInit", unsafe.Pointer(&l.c.init)},
		{"cuDriverGetVersion", unsafe.Pointer(&l.c.version)},
		{"cuCheckpointProcessLock", unsafe.Pointer(&l.c.lock)},
		{"cuCheckpointProcessCheckpoint", unsafe.Pointer(&l.c.checkpoint)},
		{"cuCheckpointProcessRestore", unsafe.Pointer(&l.c.restore)},
		{"cuCheckpointProcessUnlock", unsafe.Pointer(&l.c.unlock)},
		{"cuCheckpointProcessGetState", unsafe.Pointer(&l.c.state)},
	} {
		name := C.CString(f.name)
		found := C.gimbal_symbol(handle, name, f.at)
		C.free(unsafe.Pointer(name))
		if found == 0 {
			return fmt.Errorf("driver older than R570: %s lacks %s", path, f.name)
		}
	}
	return nil
}

func (l *library) start() error {
	if err := result(C.gimbal_init(l.c)); err != nil {
		return fmt.Errorf("initialise CUDA: %w", err)
	}
	var v C.int
	if err := result(C.gimbal_version(l.c, &v)); err != nil {
		return fmt.Errorf("ask for CUDA's version: %w", err)
	}
	l.version = int(v)
	if l.version < leastVersion {
		return fmt.Errorf("driver older than R570: its CUDA is %s", versionText(l.version))
	}
	return nil
}

// versionText writes CUDA's version, such as 12080, as "12.8"; 0 is unknown.
func versionText(v int) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf("%d.%d", v/1000, v%1000/10)
}

func result(r C.int) error {
	if r == 0 {
		return nil
	}
	return Result(r)
}

func (l *library) state(pid int) (State, error) {
	var s C.int
	if err := result(C.gimbal_state(l.c, C.int(pid), &s)); err != nil {
		return Unknown, err
	}
	return State(s), nil
}

func (l *library) lock(pid int, ms uint32) error {
	return result(C.gimbal_lock(l.c, C.int(pid), C.uint(ms)))
}

func (l *library) checkpoint(pid int) error { return result(C.gimbal_checkpoint(l.c, C.int(pid))) }
func (l *library) restore(pid int) error    { return result(C.gimbal_restore(l.c, C.int(pid))) }
func (l *library) unlock(pid int) error     { return result(C.gimbal_unlock(l.c, C.int(pid))) }
