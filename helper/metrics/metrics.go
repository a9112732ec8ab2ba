// Package metrics tells Prometheus what a node does: as a page in its text
// format for node_exporter's textfile collector, or over HTTP on loopback.
//
// A page is made of one snapshot and keeps nothing, so a job's series leave
// with the job. Every series is bounded: GPUs and states are few, jobs are the
// live ones up to a limit, and pids, commands and step numbers are no labels.
// What is not known has no series; it is not 0.
package metrics

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// maxJobs is how many jobs have series of their own unless Options say.
const maxJobs = 256

// Options say what is on a page.
type Options struct {
	Jobs     bool              // series of each live job, labelled with its id (jobid, as "job" is Prometheus's own)
	Users    bool              // with Jobs: the user, account and partition of a job, in gimbal_job_info
	Names    bool              // with Jobs: the name of a job, in gimbal_job_info
	MaxJobs  int               // jobs with series of their own, the rest counts as "other"; 0: 256
	Version  string            // of the daemon
	Stale    bool              // the configuration in force is not what the file says: the last reload failed
	Counters map[string]uint64 // of the daemon since its start, by name in snake_case
}

// Gather makes the page of a snapshot. Tenants that have ended are left out.
func Gather(s model.Snapshot, o Options) []*dto.MetricFamily {
	p := newPage()
	p.node(s, o)
	p.gpus(s)
	if o.Jobs {
		p.jobs(s, o)
	}
	return p.families()
}

// Write writes a page in the text format 0.0.4.
func Write(w io.Writer, page []*dto.MetricFamily) error {
	out := bufio.NewWriter(w)
	for _, f := range page {
		if _, err := expfmt.MetricFamilyToText(out, f); err != nil {
			return fmt.Errorf("write metrics: %w", err)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write metrics: %w", err)
	}
	return nil
}

// WriteFile writes a page for node_exporter's textfile collector, whose files
// are called *.prom. A reader sees the old page or the new one, whole. A folder
// that is not there is fs.ErrNotExist. The library's own WriteToTextfile sets
// the mode by name, which whoever owns the folder could point elsewhere.
func WriteFile(path string, page []*dto.MetricFamily) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".gimbal-*")
	if err != nil {
		return fmt.Errorf("write metrics: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	err = errors.Join(Write(f, page), f.Chmod(0o644), f.Close())
	if err != nil {
		return fmt.Errorf("write metrics to %s: %w", path, err)
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("write metrics: %w", err)
	}
	return nil
}

// Names lists the metrics that a page may hold, but for the daemon's counters.
func Names() []string {
	var all []string
	for _, d := range catalogue() {
		all = append(all, d.name)
	}
	return all
}

// node fills in what is true of the node as a whole.
func (p *page) node(s model.Snapshot, o Options) {
	p.set(nodeInfo, 1, "node", s.Node, "version", o.Version)
	p.set(nodeDegraded, truth(s.Degraded != ""))
	p.set(reloaded, truth(!o.Stale))
	if !s.At.IsZero() {
		p.set(snapshotTime, float64(s.At.UnixMilli())/1000)
	}
	for _, state := range liveStates() {
		p.add(tenants, 0, "state", state.String())
	}
	for i := range s.Tenants {
		if v := &s.Tenants[i]; v.Live() {
			p.add(tenants, 1, "state", v.State.String())
		}
	}
	p.counters(o.Counters)
}

// counters adds the daemon's own; a name that Prometheus would refuse is left
// out.
func (p *page) counters(all map[string]uint64) {
	names := make([]string, 0, len(all))
	for name := range all {
		if name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		d := desc{daemonCounters + strings.TrimSuffix(name, "_total") + "_total", counter,
			"The daemon's counter " + name + " since it started."}
		if p.metrics[d.name] != nil {
			continue
		}
		p.more = append(p.more, d)
		p.set(d.name, float64(all[name]))
	}
}

func liveStates() []model.State {
	return slices.DeleteFunc(model.States(), func(s model.State) bool { return s == model.Gone })
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
