package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/wire"
)

// request is what the C front passes down, as Go values.
type request struct {
	op      wire.Op
	params  string // JSON
	answer  string // of the daemon, to be read
	pending string // the folder to leave the request in
}

// outcome is what goes back up.
type outcome struct {
	active  bool     // the daemon calibrates the step
	failed  bool     // it refused, or the request is lost
	message string   // for the log
	env     []string // NAME=VALUE for the tasks
}

func failed(format string, args ...any) outcome {
	return outcome{failed: true, message: fmt.Sprintf(format, args...)}
}

// read makes an outcome of the line that the daemon answered to op. Fields that
// it does not know are those of a later daemon, and passed over.
func read(op wire.Op, answer string) outcome {
	var reply wire.Reply
	if err := json.Unmarshal([]byte(answer), &reply); err != nil {
		return failed("%s: gimbald's answer is malformed: %v", op, err)
	}
	if reply.Error != nil {
		return failed("%s: gimbald refuses: %v", op, reply.Error)
	}
	if reply.V != wire.Version {
		return failed("%s: gimbald speaks version %d, the plugin %d", op, reply.V, wire.Version)
	}
	// What answers a registration is a part of what answers the announcement.
	var got wire.Prepared
	if len(reply.Result) > 0 {
		if err := json.Unmarshal(reply.Result, &got); err != nil {
			return failed("%s: gimbald's answer is malformed: %v", op, err)
		}
	}
	env, bad := checkEnv(got.Env)
	if bad != nil {
		got.Message = bad.Error()
	}
	return outcome{active: got.Active, env: env, message: got.Message}
}

// leave keeps the request in the pending folder for a daemon to come.
func leave(r request, now time.Time) outcome {
	if err := wire.WritePending(r.pending, r.op, json.RawMessage(r.params), now); err != nil {
		return failed("%v", err)
	}
	return outcome{}
}
