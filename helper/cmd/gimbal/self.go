package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/report"
	"github.com/gimbal-hpc/gimbal/helper/slurm"
	"github.com/gimbal-hpc/gimbal/helper/wire"
)

// statusSelf tells a job about itself: 0 where it is packed.
func statusSelf(s source, w world) int {
	name, step := runVariable, ""
	if w.env(name) == "" {
		name, step = "SLURM_JOB_ID", w.env("SLURM_STEP_ID")
	}
	if w.env(name) == "" {
		return wrongUsage(w, "status", errors.New("--self is for use inside a job or gimbal run: neither SLURM_JOB_ID nor GIMBAL_RUN is set"))
	}
	refs, err := parseJobs(w.env(name))
	if err != nil {
		return wrongUsage(w, "status", fmt.Errorf("%s: %w", name, err))
	}
	snap, err := s.fromDaemon(model.StatusQuery{Start: w.now()})
	if err != nil {
		if w.env("GIMBAL_REQUESTED") != "" {
			fmt.Fprintln(w.stdout, "requested, not active on this node")
		}
		return failure(w, "status", err)
	}
	v := findSelf(snap.Tenants, refs[0], step)
	switch {
	case v != nil:
		fmt.Fprintln(w.stdout, selfText(v, &snap))
		return exitOK
	case w.env("GIMBAL_REQUESTED") != "":
		fmt.Fprintln(w.stdout, "requested, not active on this node")
	default:
		fmt.Fprintln(w.stdout, "not requested: this job is not packed")
	}
	return exitFailed
}

// findSelf finds the tenant that a process of the job belongs to: the step's
// own, where the step is one, else the job's.
func findSelf(all []model.View, job model.JobRef, step string) *model.View {
	var found *model.View
	n, err := parseStep(step)
	for i := range all {
		v := &all[i]
		if v.Hidden || v.State == model.Gone || v.Reg.JobID != job.Job {
			continue
		}
		if !v.Whole && err == nil && v.Reg.StepID == n {
			return v
		}
		if v.Whole {
			found = v
		}
	}
	return found
}

func selfText(v *model.View, snap *model.Snapshot) string {
	rows := report.Rows(&model.Snapshot{GPUs: snap.GPUs, Tenants: []model.View{*v}}, report.Selection{Allocations: true}, report.Style{})
	cols, err := report.ParseFormat("GPUs")
	gpus := ""
	if err == nil && len(rows) > 0 {
		gpus = cols[0].Value(&rows[0])
	}
	where := "GPU " + gpus
	if gpus == "" {
		where = "no GPU"
	}
	text := fmt.Sprintf("active: %s on %s with %s, %s", v.Name(), where, plural(matesOf(v, snap.Tenants), "other"), v.Word())
	if v.PolicyNow != "" {
		text += ", policy " + v.PolicyNow
	}
	if v.Exempt != "" {
		text += "; never stopped: " + report.Printable(v.Exempt)
	}
	return text
}

func matesOf(v *model.View, all []model.View) int {
	n := 0
	for i := range all {
		o := &all[i]
		if (o.Hidden || o.ID != v.ID) && o.State != model.Gone && overlap(o, v) {
			n++
		}
	}
	return n
}

func overlap(a, b *model.View) bool {
	for _, g := range a.GPUs {
		if b.Uses(g) {
			return true
		}
	}
	return false
}

func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// statusGPUs shows the node's GPUs.
func statusGPUs(s source, w world) int {
	snap, note, err := s.snapshot(model.StatusQuery{Start: w.now()}, w.now())
	if err != nil {
		return failure(w, "status", err)
	}
	if note != "" {
		return failure(w, "status", fmt.Errorf("the GPUs are not written to disk: ask without --offline"))
	}
	return done(w, "status", report.WriteGPUs(w.stdout, &snap, shardsOf(snap.Node, w)))
}

// shardsOf tells how many shards of a GPU Slurm has handed out, nil where there
// is no Slurm to ask. What cannot be told is Unknown.
func shardsOf(node string, w world) func(minor int) string {
	if !onPath("scontrol", w.env("PATH")) {
		return nil
	}
	s, err := slurm.New(slurm.Options{Timeout: 3 * time.Second}).Shards(context.Background(), node)
	return func(minor int) string {
		switch {
		case err != nil || minor < 0:
			return "Unknown"
		case s.Whole[minor]:
			return "whole"
		}
		return fmt.Sprintf("%d/%d", s.Used[minor], s.Each)
	}
}

func onPath(name, path string) bool {
	for _, dir := range filepath.SplitList(path) {
		if st, err := os.Stat(filepath.Join(dir, name)); err == nil && st.Mode()&0o111 != 0 {
			return true
		}
	}
	return false
}

// statusDaemon shows how the daemon is.
func statusDaemon(s source, w world) int {
	c, err := s.dial()
	if err != nil {
		return failure(w, "status", err)
	}
	defer func() { _ = c.Close() }()
	var d model.DaemonReply
	if err := c.Call(context.Background(), wire.OpDaemon, nil, &d); err != nil {
		return failure(w, "status", err)
	}
	for _, line := range daemonLines(&d, w.now()) {
		fmt.Fprintln(w.stdout, line)
	}
	return exitOK
}

func daemonLines(d *model.DaemonReply, now time.Time) []string {
	var out []string
	add := func(name, value string) {
		for line := range strings.Lines(value) {
			out = append(out, fmt.Sprintf("%-15s %s", name+":", report.Printable(strings.TrimSuffix(line, "\n"))))
		}
	}
	add("node", d.Node)
	add("gimbald", d.Version)
	add("pid", fmt.Sprint(d.PID))
	add("started", fmt.Sprintf("%s, %s ago", report.Clock(d.Started, now.Location()), ago(now.Sub(d.Started))))
	add("config", d.Config)
	add("config read", report.Clock(d.Loaded, now.Location()))
	add("reload failed", d.ReloadError)
	for _, key := range d.NotApplied {
		add("not applied", key+" (changed in the file, not applied until restart)")
	}
	add("degraded", d.Degraded)
	add("journal", d.Journal)
	add("tenants", fmt.Sprint(d.Tenants))
	add("policies", joinMap(d.Policies))
	counts := map[string]string{}
	for k, n := range d.Counters {
		counts[k] = fmt.Sprint(n)
	}
	add("counters", joinMap(counts))
	return out
}

func joinMap(m map[string]string) string {
	var parts []string
	for k, v := range m {
		parts = append(parts, k+"="+v)
	}
	sort.Strings(parts)
	return strings.Join(parts, " ")
}
