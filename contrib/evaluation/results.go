package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gimbal-hpc/gimbal/helper/sim"
)

// results is what results.json holds: the figures of all scenarios, and with
// which options they were made.
type results struct {
	Jobs      int       `json:"first_jobs"` // of the long traces, 0: all
	Turns     int       `json:"turns"`
	Shards    int       `json:"shards"`
	Scenarios []finding `json:"scenarios"`
}

// finding is the figures of one scenario under all policies.
type finding struct {
	scenario
	Jobs     int     `json:"jobs"`
	Bounds   limits  `json:"bounds"`
	Policies []entry `json:"policies"`
}

// entry is the figures under one policy.
type entry struct {
	Policy string `json:"policy"`
	Kind   string `json:"kind"` // ours; ours, choosing; packing; same placement; cluster
	sim.Summary
}

// before is the results that stay: those in results.json if not all scenarios, or
// policies, are replayed, which must have been made with the same options.
func (o *options) before() (*results, error) {
	r := &results{Jobs: o.jobs, Turns: o.turns, Shards: o.shards}
	if o.only == "" && len(o.policies) == 0 {
		return r, nil
	}
	path := filepath.Join(o.out, "results.json")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the results of other scenarios: %w", err)
	}
	old := &results{}
	if err := json.Unmarshal(text, old); err != nil {
		return nil, fmt.Errorf("reading the results of other scenarios in %s: %w", path, err)
	}
	if old.Jobs != r.Jobs || old.Turns != r.Turns || old.Shards != r.Shards {
		return nil, fmt.Errorf("%s was made with --jobs %d --turns %d --shards %d: give the same, or another folder with --out", path, old.Jobs, old.Turns, old.Shards)
	}
	return old, nil
}

// keep takes over from earlier results of the scenario the policies that were not
// replayed.
func (f *finding) keep(before *results) {
	for i := range before.Scenarios {
		if before.Scenarios[i].Name != f.Name {
			continue
		}
		for _, e := range before.Scenarios[i].Policies {
			if f.named(e.Policy) == nil {
				f.Policies = append(f.Policies, e)
			}
		}
	}
	slices.SortStableFunc(f.Policies, func(a, b entry) int { return strings.Compare(a.Kind+a.Policy, b.Kind+b.Policy) })
}

// put takes a scenario in, at its place, instead of what was there of it.
func (r *results) put(f finding) {
	r.Scenarios = slices.DeleteFunc(r.Scenarios, func(o finding) bool { return o.Name == f.Name })
	r.Scenarios = append(r.Scenarios, f)
	place := make(map[string]int)
	for i, s := range scenarios() {
		place[s.Name] = i
	}
	slices.SortStableFunc(r.Scenarios, func(a, b finding) int { return place[a.Name] - place[b.Name] })
}

// command is how the results are made again.
func (r *results) command() string {
	return fmt.Sprintf("scripts/evaluate --jobs %d --turns %d --shards %d", r.Jobs, r.Turns, r.Shards)
}

// write writes the results, to read, to look at, and for programs.
func (r *results) write(folder string) error {
	var text, page, data bytes.Buffer
	r.markdown(&text)
	if err := r.page(&page); err != nil {
		return fmt.Errorf("drawing the results: %w", err)
	}
	e := json.NewEncoder(&data)
	e.SetIndent("", " ")
	if err := e.Encode(r); err != nil {
		return fmt.Errorf("encoding the results: %w", err)
	}
	return errors.Join(
		os.WriteFile(filepath.Join(folder, "RESULTS.md"), text.Bytes(), 0o644),
		os.WriteFile(filepath.Join(folder, "RESULTS.html"), page.Bytes(), 0o644),
		os.WriteFile(filepath.Join(folder, "results.json"), data.Bytes(), 0o644))
}
