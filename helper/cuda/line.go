package cuda

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// Operations that are asked of the helper process.
const (
	opSupport    = "support"
	opState      = "state"
	opLock       = "lock"
	opCheckpoint = "checkpoint"
	opRestore    = "restore"
	opUnlock     = "unlock"
	opMind       = "mind" // watch over a process that an earlier helper locked
)

// maxLine bounds a request or a reply, in bytes.
const maxLine = 4096

// request is one line to the helper process.
type request struct {
	ID uint64 `json:"id"`
	Op string `json:"op"`
	model.ProcID
	TimeoutMS uint32 `json:"timeout_ms,omitempty"`
}

// reply is one line from it. Result 0 and no refusal: done.
type reply struct {
	ID      uint64 `json:"id"`
	Result  Result `json:"result,omitempty"`
	State   State  `json:"state,omitempty"`
	Version int    `json:"version,omitempty"`
	Gone    bool   `json:"gone,omitempty"`    // the process has ended
	Refused string `json:"refused,omitempty"` // why nothing can be done at all
}

func parseRequest(line []byte) (request, error) {
	var r request
	if err := json.Unmarshal(line, &r); err != nil {
		return request{}, fmt.Errorf("read a request: %w", err)
	}
	if r.Op != opSupport && r.PID <= 1 {
		return request{}, fmt.Errorf("read a request: %q of process %d", r.Op, r.PID)
	}
	return r, nil
}

// outcome puts what a call returned into a reply.
func outcome(id uint64, err error) reply {
	r := reply{ID: id, Gone: errors.Is(err, ErrGone)}
	errors.As(err, &r.Result)
	return r
}

// err returns what a reply says went wrong with a request.
func (r reply) err(q request) error {
	switch {
	case r.Gone:
		return fmt.Errorf("%s process %d: %w", q.Op, q.PID, ErrGone)
	case r.Refused != "":
		return fmt.Errorf("%s process %d: %w: %s", q.Op, q.PID, ErrUnsupported, r.Refused)
	case r.Result != 0:
		return fmt.Errorf("%s process %d: %w", q.Op, q.PID, r.Result)
	}
	return nil
}
