package gpu

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// ErrNoneKnown is what Resolve returns while the driver shows no GPU at all.
var ErrNoneKnown = errors.New("the driver shows no GPU")

// NameError is what Resolve returns for a name that is not that of one GPU.
type NameError struct{ text string }

func (e *NameError) Error() string { return e.text }

// Resolve finds the UUIDs of a task's GPUs, in the driver's order. gpus is what
// Slurm says, in minor numbers, UUIDs or the beginnings of UUIDs; visible is
// the task's CUDA_VISIBLE_DEVICES, which some versions of Slurm number anew
// inside the job, so that its numbers only count where Slurm says nothing.
//
// What does not fit together is an error, and the job must be left alone: it
// is not known which GPUs it is on. Neither given is no GPU, and no error.
func Resolve(gpus []string, visible string, known []model.GPU) ([]string, error) {
	told, seen := split(gpus...), split(visible)
	if slices.Contains([]string{"NoDevFiles", "-1", "none", "void"}, visible) {
		seen = nil
	}
	if len(told)+len(seen) == 0 {
		return nil, nil
	}
	if len(known) == 0 {
		return nil, ErrNoneKnown
	}
	if len(told) == 0 {
		return alone(seen, known)
	}
	set, err := lookUp(told, known)
	if err != nil && partitioned(known) && numbers(told) && len(seen) > 0 && !numbers(seen) {
		return lookUp(seen, known) // Slurm counts instances, the driver does not
	}
	if err != nil {
		return nil, err
	}
	return set, agree(set, seen, known)
}

// agree checks CUDA_VISIBLE_DEVICES against what Slurm gave: it may be less,
// never more.
func agree(set, seen []string, known []model.GPU) error {
	if numbers(seen) {
		if len(seen) > len(set) {
			return fmt.Errorf("CUDA_VISIBLE_DEVICES names %d GPUs, Slurm gave %d", len(seen), len(set))
		}
		return nil
	}
	cuda, err := lookUp(seen, known)
	if err != nil {
		return fmt.Errorf("CUDA_VISIBLE_DEVICES: %w", err)
	}
	for _, uuid := range cuda {
		if !slices.Contains(set, uuid) {
			return fmt.Errorf("CUDA_VISIBLE_DEVICES names %s, which Slurm did not give", uuid)
		}
	}
	return nil
}

// alone resolves CUDA_VISIBLE_DEVICES by itself. Its numbers follow CUDA's own
// order: they mean something only where every order is the same.
func alone(seen []string, known []model.GPU) ([]string, error) {
	if numbers(seen) && slices.ContainsFunc(known, func(g model.GPU) bool { return g.Minor != g.Index }) {
		return nil, fmt.Errorf("CUDA_VISIBLE_DEVICES=%s alone does not tell which GPUs: their numbers differ by who counts",
			strings.Join(seen, ","))
	}
	return lookUp(seen, known)
}

// lookUp finds each name among the GPUs.
func lookUp(names []string, known []model.GPU) ([]string, error) {
	found := map[string]bool{}
	for _, n := range names {
		uuid, err := find(n, known)
		if err != nil {
			return nil, err
		}
		found[uuid] = true
	}
	var out []string
	for _, g := range known {
		if found[g.UUID] {
			out = append(out, g.UUID)
		}
	}
	return out, nil
}

// find finds one GPU by minor number, by UUID or by its beginning.
func find(name string, known []model.GPU) (string, error) {
	match := func(g model.GPU) bool { return hasPrefix(g.UUID, name) }
	if n, err := strconv.Atoi(name); err == nil {
		match = func(g model.GPU) bool { return n >= 0 && g.Minor == n }
	}
	var hits []string
	for _, g := range known {
		if strings.EqualFold(g.UUID, name) {
			return g.UUID, nil
		}
		if match(g) {
			hits = append(hits, g.UUID)
		}
	}
	switch len(hits) {
	case 0:
		return "", &NameError{fmt.Sprintf("no GPU is called %.80q", name)}
	case 1:
		return hits[0], nil
	}
	return "", &NameError{fmt.Sprintf("%.80q may be any of %d GPUs", name, len(hits))}
}

// hasPrefix tells whether a name is the beginning of a UUID, and more of it
// than the GPU- that all have.
func hasPrefix(uuid, name string) bool {
	return len(name) > len("GPU-") && len(name) <= len(uuid) && strings.EqualFold(uuid[:len(name)], name)
}

// split takes lists apart at commas and drops what is empty.
func split(lists ...string) []string {
	var out []string
	for _, l := range lists {
		for _, s := range strings.Split(l, ",") {
			if s = strings.TrimSpace(s); s != "" {
				out = append(out, s)
			}
		}
	}
	return out
}

func numbers(names []string) bool {
	return !slices.ContainsFunc(names, func(s string) bool {
		_, err := strconv.Atoi(s)
		return err != nil
	})
}

func partitioned(known []model.GPU) bool {
	return slices.ContainsFunc(known, func(g model.GPU) bool { return g.MIG })
}
