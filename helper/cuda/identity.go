package cuda

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// verify returns an error that wraps ErrGone unless the pid is still that very
// process and alive. The driver takes bare pids, so this stands right before
// each of its calls.
func verify(p model.ProcID) error {
	_, err := look(p)
	return err
}

// look returns a process's state letter. The error wraps ErrGone unless the pid
// is still that very process and alive.
func look(p model.ProcID) (state byte, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID))
	if err != nil {
		return 0, fmt.Errorf("process %d: %w", p.PID, ErrGone)
	}
	state, start := parseStat(text)
	if state == 0 || state == 'Z' || state == 'X' || start != p.Start {
		return 0, fmt.Errorf("process %d, started at tick %d: %w", p.PID, p.Start, ErrGone)
	}
	return state, nil
}

// parseStat returns the state letter and the start time, in clock ticks since
// boot, from the text of /proc/PID/stat; 0 where it is none.
func parseStat(text []byte) (state byte, start uint64) {
	const startField = 19 // counted after the comm, which may hold anything
	end := bytes.LastIndexByte(text, ')')
	if end < 0 {
		return 0, 0
	}
	w := bytes.Fields(text[end+1:])
	if len(w) <= startField {
		return 0, 0
	}
	start, err := strconv.ParseUint(string(w[startField]), 10, 64)
	if err != nil {
		return 0, 0
	}
	return w[0][0], start
}

// processes is a set of processes.
type processes map[model.ProcID]bool

// set adds or removes a process. Those that have ended are dropped on the way.
func (s processes) set(p model.ProcID, in bool) {
	delete(s, p)
	if !in {
		return
	}
	for old := range s {
		if verify(old) != nil {
			delete(s, old)
		}
	}
	s[p] = true
}
