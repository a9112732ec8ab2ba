package main

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/gimbal-hpc/gimbal/helper/cmd/help"
	"github.com/gimbal-hpc/gimbal/helper/config"
	"github.com/gimbal-hpc/gimbal/helper/model"
)

// misnamed is what was given for a job and is neither a number nor a name.
type misnamed struct{ error }

func (m misnamed) Unwrap() error { return m.error }

// called finds the jobs of a list in which names may stand for numbers: of a name
// that several have had, the newest. label is the list with their numbers.
func (s *source) called(list, command string, w world) (refs []model.JobRef, label string, err error) {
	var labels []string
	for _, item := range splitOutside(list) {
		more, text, err := s.calledOne(item, command, w)
		if err != nil {
			return nil, "", err
		}
		refs, labels = append(refs, more...), append(labels, text)
	}
	if len(refs) == 0 {
		return nil, "", misnamed{errNoJob}
	}
	return refs, strings.Join(labels, ", "), nil
}

func (s *source) calledOne(item, command string, w world) (refs []model.JobRef, label string, err error) {
	refs, wrong := parseJobs(item)
	if wrong == nil {
		return refs, item, nil
	}
	ref, err := s.newest(item, command, w)
	if err != nil && likeNumber(item) {
		err = misnamed{wrong}
	}
	return []model.JobRef{ref}, fmt.Sprintf("%s (%s)", refName(ref), item), err
}

// likeNumber tells what is meant as a job's number from a name.
func likeNumber(s string) bool { return numberLike.MatchString(s) }

var numberLike = regexp.MustCompile(`^[0-9]+([^0-9A-Za-z]|$)`)

// newest is the job that was registered last of those that have a name, and that
// the caller may see.
func (s *source) newest(name, command string, w world) (model.JobRef, error) {
	snap, note, err := s.snapshot(model.StatusQuery{Names: []string{name}}, w.now())
	if err != nil && note == "" {
		return model.JobRef{}, err
	}
	refs := newestFirst(snap.Tenants)
	if len(refs) == 0 {
		return model.JobRef{}, s.unless(err, s.nobodyIs(name, w))
	}
	if len(refs) > 1 {
		fmt.Fprintf(w.stderr, "gimbal %s: %d jobs are called %q: %s; this is of the newest, %s\n", command, len(refs), name, someOf(refs), refName(refs[0]))
	}
	return refs[0], nil
}

// newestFirst are the jobs of some tenants, each once: the parts of a het job are
// one, the tasks of an array are not.
func newestFirst(views []model.View) (refs []model.JobRef) {
	order := make([]*model.View, 0, len(views))
	for i := range views {
		if !views[i].Hidden {
			order = append(order, &views[i])
		}
	}
	slices.SortStableFunc(order, func(a, b *model.View) int {
		return cmp.Or(b.Start.Compare(a.Start), cmp.Compare(b.Reg.JobID, a.Reg.JobID))
	})
	for _, v := range order {
		if ref := refOf(&v.Reg); !slices.Contains(refs, ref) {
			refs = append(refs, ref)
		}
	}
	return refs
}

// refOf names the job of a task.
func refOf(r *model.Registration) model.JobRef {
	ref := model.JobRef{Job: r.JobID, Task: model.NoVal, Offset: model.NoVal, Step: model.NoVal}
	switch {
	case r.ArrayJob != 0 && r.ArrayTask != model.NoVal:
		ref.Job, ref.Task = r.ArrayJob, r.ArrayTask
	case r.HetJob != 0:
		ref.Job = r.HetJob
	}
	return ref
}

// someOf names jobs, a few of them where they are many.
func someOf(refs []model.JobRef) string {
	const most = 5
	var names []string
	for _, r := range refs[:min(len(refs), most)] {
		names = append(names, refName(r))
	}
	if n := len(refs) - most; n > 0 {
		names = append(names, fmt.Sprintf("%d more", n))
	}
	return strings.Join(names, ", ")
}

// nobodyIs says that no job has a name, and which has one that is near to it.
func (s *source) nobodyIs(name string, w world) error {
	near := ""
	if snap, note, err := s.snapshot(model.StatusQuery{}, w.now()); err == nil || note != "" {
		names := make([]string, 0, len(snap.Tenants))
		for i := range snap.Tenants {
			if n := snap.Tenants[i].Reg.JobName; n != "" {
				names = append(names, n)
			}
		}
		near = help.Meant(name, names)
	}
	return fmt.Errorf("no packed job of this node is called %q%s", name, cmp.Or(near, policyMeant(name, w), listed))
}

// policyMeant says what tells of a policy that may have been meant, "" where none is
// called so, or nearly.
func policyMeant(name string, w world) string {
	if strings.HasSuffix(name, ".toml") && there(name) {
		return fmt.Sprintf("; of a policy's file tells 'gimbal policies explain %s'", name)
	}
	p := policiesCommand{config: config.Path, w: w}
	_, sources, _ := p.load() // those that can be had
	names := shippedNames()
	for _, s := range sources {
		names = append(names, s.Name)
	}
	near := help.Nearest(strings.TrimSuffix(name, ".toml"), names)
	if near == "" {
		return ""
	}
	return fmt.Sprintf("; of the policy %s tells 'gimbal policies explain %s'", near, near)
}

// listed says where the jobs are that there are.
const listed = "; 'gimbal status' lists those of today"

// notKnown says that none of the jobs that were asked for was packed here. err says
// why gimbald was not asked, if it was not.
func (s *source) notKnown(label string, err error) error {
	return s.unless(err, fmt.Errorf("no packed job %s is known on this node%s", label, listed))
}

// unless says what was not found on disk, where a daemon that does not answer may know
// of it.
func (s *source) unless(err, missing error) error {
	if err == nil || s.ended() {
		return missing
	}
	return fmt.Errorf("%w; of what is on disk: %w", err, missing)
}

// badJobs is the exit code of what was given for jobs and leads to none.
func badJobs(w world, command string, err error) int {
	if bad := (misnamed{}); errors.As(err, &bad) {
		return wrongUsage(w, command, err)
	}
	return failure(w, command, err)
}

// numbersOnly says to who gave a job's name where it takes a number how to find that.
func numbersOnly(err error, list string) error {
	for _, item := range splitOutside(list) {
		if _, bad := parseJobs(item); bad != nil && !likeNumber(item) {
			return fmt.Errorf("%w; 'gimbal status --name=%s' tells the numbers of jobs of this name", err, item)
		}
	}
	return err
}
