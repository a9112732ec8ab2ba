package main

import (
	"errors"
	"fmt"
	"os/user"
	"strconv"
	"strings"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// errNoJob says that a list of jobs is empty.
var errNoJob = errors.New("which job?")

// parseJobs reads a list of jobs as sacct's -j takes it: 12, 12_3, 12_[1-5,7],
// 12+1, each with a .STEP, which is a number, batch, extern or interactive.
func parseJobs(s string) ([]model.JobRef, error) {
	var refs []model.JobRef
	for _, item := range splitOutside(s) {
		more, err := parseJob(item)
		if err != nil {
			return nil, fmt.Errorf("job %q: %w", item, err)
		}
		refs = append(refs, more...)
	}
	if len(refs) == 0 {
		return nil, errNoJob
	}
	return refs, nil
}

// splitOutside splits at the commas that stand outside brackets.
func splitOutside(s string) []string {
	depth := 0
	return strings.FieldsFunc(s, func(r rune) bool {
		switch r {
		case '[':
			depth++
		case ']':
			depth--
		}
		return r == ',' && depth <= 0
	})
}

func parseJob(s string) ([]model.JobRef, error) {
	job, step, hasStep := strings.Cut(s, ".")
	ref := model.JobRef{Task: model.NoVal, Offset: model.NoVal, Step: model.NoVal}
	var err error
	if hasStep {
		if ref.Step, err = parseStep(step); err != nil {
			return nil, err
		}
	}
	tasks := ""
	if at := strings.IndexAny(job, "_+"); at >= 0 {
		if job[at] == '+' {
			ref.Offset, err = parseID(job[at+1:])
		} else {
			tasks = job[at+1:]
			if tasks == "" {
				err = fmt.Errorf("a number is to follow the underscore")
			}
		}
		job = job[:at]
	}
	if err != nil {
		return nil, err
	}
	run, isRun, err := model.ParseRun(job)
	if isRun {
		ref.Job = run
		if err == nil && (tasks != "" || ref.Offset != model.NoVal) {
			err = fmt.Errorf("%q: what gimbal run started has no parts", s)
		}
		return []model.JobRef{ref}, err
	}
	if ref.Job, err = parseID(job); err != nil || ref.Job == 0 {
		return nil, fmt.Errorf("%q is no job number", job)
	}
	if tasks == "" {
		return []model.JobRef{ref}, nil
	}
	return eachTask(ref, tasks)
}

func parseStep(s string) (uint32, error) {
	switch strings.ToLower(s) {
	case "batch":
		return model.StepBatch, nil
	case "extern":
		return model.StepExtern, nil
	case "interactive":
		return model.StepInteractive, nil
	}
	return parseID(s)
}

func parseID(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil || n >= uint64(model.StepInteractive) {
		return 0, fmt.Errorf("%q is no number of a job or a step", s)
	}
	return uint32(n), nil
}

// maxTasks bounds the array tasks that one list may name.
const maxTasks = 10_000

// eachTask names the tasks of 3 or [1-5,7].
func eachTask(ref model.JobRef, s string) ([]model.JobRef, error) {
	list := strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")
	var refs []model.JobRef
	for _, part := range strings.Split(list, ",") {
		low, high, isRange := strings.Cut(part, "-")
		from, err := parseID(low)
		to := from
		if err == nil && isRange {
			to, err = parseID(high)
		}
		if err != nil || to < from {
			return nil, fmt.Errorf("%q is no list of array tasks", s)
		}
		if int64(to-from) >= maxTasks-int64(len(refs)) {
			return nil, fmt.Errorf("more than %d array tasks", maxTasks)
		}
		for t := from; t <= to; t++ {
			ref.Task = t
			refs = append(refs, ref)
		}
	}
	return refs, nil
}

// groupIDs reads groups, by name or number.
func groupIDs(list []string) (out []uint32, err error) {
	for _, g := range list {
		n, err := strconv.ParseUint(g, 10, 32)
		if err != nil {
			known, lookErr := user.LookupGroup(g)
			if lookErr != nil {
				return nil, fmt.Errorf("no group is called %q on this host", g)
			}
			n, err = strconv.ParseUint(known.Gid, 10, 32)
		}
		if err != nil {
			return nil, fmt.Errorf("group %q: %w", g, err)
		}
		out = append(out, uint32(n))
	}
	return out, nil
}

// stateAbbreviations are sacct's short forms, and ours.
func stateAbbreviations() map[string]string {
	return map[string]string{"R": "RUNNING", "S": "SUSPENDED", "CD": "COMPLETED", "F": "FAILED",
		"H": "HELD", "P": "PAUSED", "SW": "SWAPPED", "EV": "EVICTED", "EN": "ENDED",
		"EXTERNAL": "stopped (external)", "STOPPED": "stopped (external)", "FROZEN": "frozen (foreign)"}
}

// slurmStates are the states that sacct knows and no tenant is ever in: a node
// sees that such a job waits elsewhere, or how its processes ended.
func slurmStates() map[string]string {
	return map[string]string{"BF": "BOOT_FAIL", "CA": "CANCELLED", "DL": "DEADLINE", "NF": "NODE_FAIL", "OOM": "OUT_OF_MEMORY",
		"PD": "PENDING", "PR": "PREEMPTED", "RQ": "REQUEUED", "RS": "RESIZING", "RV": "REVOKED", "TO": "TIMEOUT"}
}

// slurmState is the long form of one of them, "" for any other word.
func slurmState(s string) string {
	for short, long := range slurmStates() {
		if strings.EqualFold(s, short) || strings.EqualFold(s, long) {
			return long
		}
	}
	return ""
}

// foreignStates are those of a list that only Slurm knows.
func foreignStates(list []string) (out []string) {
	for _, s := range list {
		if slurmState(s) != "" {
			out = append(out, s)
		}
	}
	return out
}

// parseStates reads a list of states, in any case, long or short. Those of
// Slurm's that do not occur here are taken, so that a script's list for sacct
// works, and select nothing.
func parseStates(s string) ([]string, error) {
	short := stateAbbreviations()
	var out []string
	for _, item := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' }) {
		word := short[strings.ToUpper(item)]
		if word == "" {
			word = slurmState(item)
		}
		for _, w := range model.Words() {
			if strings.EqualFold(w, item) {
				word = w
			}
		}
		if word == "" {
			return nil, fmt.Errorf("no state is called %q; valid ones: %s", item, strings.Join(model.Words(), ", "))
		}
		out = append(out, word)
	}
	return out, nil
}
