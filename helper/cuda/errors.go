package cuda

import (
	"errors"
	"fmt"
)

// What the errors of this package wrap.
var (
	// ErrUnsupported: it cannot be done with this process, driver or node.
	ErrUnsupported = errors.New("cannot be swapped")
	// ErrNoRoom: there is not enough free memory, on the GPU or the host.
	ErrNoRoom = errors.New("no room")
	// ErrGone: the process has ended.
	ErrGone = errors.New("the process has ended")
	// ErrTimeout: the driver did not answer in time. The call may still take
	// effect.
	ErrTimeout = errors.New("the driver did not answer in time")
	// ErrHelper: the process that makes the calls died or cannot be started.
	// A call that was under way may still take effect.
	ErrHelper = errors.New("the checkpoint helper is not there")
)

// Result is a CUresult other than CUDA_SUCCESS.
type Result int

// The results that matter here.
const (
	resultInvalid        Result = 1
	resultNoMemory       Result = 2
	resultNotInitialized Result = 3
	resultDeinitialized  Result = 4
	resultNoDevice       Result = 100
	resultIllegalState   Result = 401
	resultNotReady       Result = 600
	resultNotSupported   Result = 801
	resultMismatch       Result = 803
	resultUnknown        Result = 999
)

var resultNames = map[Result]string{
	resultInvalid:        "invalid argument",
	resultNoMemory:       "out of memory",
	resultNotInitialized: "initialization error",
	resultDeinitialized:  "driver shutting down",
	resultNoDevice:       "no CUDA-capable device is detected",
	resultIllegalState:   "the operation cannot be performed in the present state",
	resultNotReady:       "device not ready",
	resultNotSupported:   "operation not supported",
	resultMismatch:       "system has unsupported display driver / cuda driver combination",
	resultUnknown:        "unknown error",
}

func (r Result) Error() string {
	if name := resultNames[r]; name != "" {
		return fmt.Sprintf("CUDA error %d (%s)", int(r), name)
	}
	return fmt.Sprintf("CUDA error %d", int(r))
}

// Is makes errors.Is find ErrNoRoom and ErrUnsupported in the results that
// mean that.
func (r Result) Is(target error) bool {
	switch target {
	case ErrNoRoom:
		return r == resultNoMemory
	case ErrUnsupported:
		return r == resultNotSupported
	}
	return false
}

// stale tells whether a process that got this result has to load the driver's
// library anew: the driver went or was replaced under it.
func (r Result) stale() bool {
	switch r {
	case resultNotInitialized, resultDeinitialized, resultNoDevice, resultMismatch:
		return true
	}
	return false
}

// answered tells whether the driver itself ended a call. After any other error
// the call may still be under way.
func answered(err error) bool {
	var r Result
	return err == nil || errors.As(err, &r) || errors.Is(err, ErrGone) || errors.Is(err, ErrUnsupported)
}
