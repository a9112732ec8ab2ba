// Package wire is the protocol between gimbald and those who talk to it: the
// plugin's core in slurmstepd, the gimbal command, and whatever a site builds.
//
// It is lines of JSON on a unix stream socket. A client sends a Request in one
// line and gets a Reply in one line, which a text may follow; it may send the next request on the same
// connection once it has the reply. Who asks is never taken from the message:
// the server hands the kernel's peer credentials to its Handler with each
// request.
package wire

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// Version is the protocol's version. A server answers a request of another
// version with CodeVersion.
const Version = 1

// DefaultSocket is where gimbald listens and clients look.
const DefaultSocket = "/run/gimbal/gimbald.sock"

// Limits on the size of a line in bytes, its newline included. Whatever may
// grow without bound (ended tenants, the journal) is asked for in pages.
const (
	MaxRequest = 64 << 10
	MaxReply   = 4 << 20
)

// Op names what is asked for.
type Op string

// The operations that gimbald knows, with who may ask.
const (
	OpPing     Op = "ping"      // anybody: nil in, Pong out
	OpPrepare  Op = "prepare"   // root: PrepareRequest in, Prepared out
	OpRegister Op = "register"  // root: model.Registration in, Registered out
	OpTaskExit Op = "task_exit" // root: model.TaskExit in
	OpStepEnd  Op = "step_end"  // root: model.StepKey in
	OpStatus   Op = "status"    // anybody; the handler filters by peer
	OpControl  Op = "control"   // root or the job's owner: pause, resume, evict, notify, release
	OpDaemon   Op = "daemon"    // anybody: facts about the daemon itself
)

// Request is one line from a client.
type Request struct {
	V      int             `json:"v"`
	Op     Op              `json:"op"`
	Params json.RawMessage `json:"params,omitempty"`
}

// Decode unpacks the parameters into params, strictly: a field that params
// lacks is an error with CodeBadRequest, as is the absence of parameters.
func (r Request) Decode(params any) error {
	if err := strictJSON(r.Params, params); err != nil {
		return Errorf(CodeBadRequest, "parameters of %s: %v", r.Op, err)
	}
	return nil
}

// Reply is one line from the server: a result, or an error. Text is the number
// of bytes that follow the line as they are, see [Carrier].
type Reply struct {
	V      int             `json:"v"`
	Error  *Error          `json:"error,omitempty"`
	Text   int             `json:"text,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	text   string
}

// Carrier is a result with a text that is long: it is sent behind the reply's
// line, since megabytes in a string of JSON are gone through five times on
// their way.
type Carrier interface {
	// Carry returns the text, and the result without it.
	Carry() (text string, rest any)
}

// Receiver takes the text of a reply whose result was a Carrier.
type Receiver interface{ Receive(text string) }

// Code says in a word what kind of error a Reply holds.
type Code string

// The codes that the package itself uses; a Handler may return any of them.
const (
	CodeBadRequest Code = "bad_request" // malformed, unknown op or parameter
	CodeVersion    Code = "version"     // another protocol version
	CodeDenied     Code = "denied"      // the peer may not ask for this
	CodeNotFound   Code = "not_found"   // no such step, tenant or GPU
	CodeConflict   Code = "conflict"    // the state does not allow it
	CodeBusy       Code = "busy"        // too many connections or requests of this user
	CodeTooLarge   Code = "too_large"   // the reply does not fit in MaxReply: ask for a page
	CodeFailed     Code = "failed"      // it was tried and did not work
	CodeInternal   Code = "internal"    // a defect in the server
)

// Error is an error that travels in a Reply. A Handler returns one to choose
// the code; any other error is sent with CodeFailed.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
}

// Error returns the message alone: it is meant to be read by a person.
func (e *Error) Error() string { return e.Message }

// Errorf makes an Error.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Pong answers OpPing.
type Pong struct {
	Version string    `json:"version"` // of the daemon
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
}

// PrepareRequest tells of a step that is about to be launched. Its tasks are
// not forked yet: task, pid, start time and cgroup of Step are zero.
type PrepareRequest struct {
	Step model.Registration `json:"step"`
}

// Prepared answers OpPrepare.
type Prepared struct {
	// Active says that the daemon will calibrate the step.
	Active bool `json:"active"`
	// Env is set in the environment of every task of the step, but for names
	// that are there already, other than CUDA_VISIBLE_DEVICES: that takes the
	// place of what Slurm set, where Slurm gave the step shards. A name is a letter or underscore, then letters, digits and
	// underscores; the dynamic linker's variables (LD_*) are refused.
	Env map[string]string `json:"env,omitempty"`
	// Message, if any, says what of the request was not granted.
	Message string `json:"message,omitempty"`
}

// Registered answers OpRegister.
type Registered struct {
	Active  bool   `json:"active"`
	Message string `json:"message,omitempty"`
}
