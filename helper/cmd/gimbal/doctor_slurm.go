package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// checkSlurmConf looks at what slurm.conf and cgroup.conf say of how steps are
// kept together and apart.
func (d *doctor) checkSlurmConf() {
	if len(d.conf.values) == 0 {
		return
	}
	d.checkProctrack()
	d.checkConstrain()
	d.checkChoice()
	d.checkInactive()
}

func (d *doctor) checkProctrack() {
	at := d.conf.at("proctracktype")
	switch track := strings.ToLower(d.conf.values["proctracktype"]); track {
	case "", "proctrack/cgroup":
		d.ok("proctrack", "proctrack/cgroup")
	case "proctrack/linuxproc":
		d.warn("proctrack", "Set ProctrackType=proctrack/cgroup", "%s: %s: tenants are paused by signals, and processes that leave their tree are found late", at, track)
	default:
		d.warn("proctrack", "Set ProctrackType=proctrack/cgroup", "%s: %s: processes that call setsid are lost to Slurm", at, track)
	}
}

// cgroupConf is a value of cgroup.conf, "" where there is none.
func (d *doctor) cgroupConf(key string) string {
	if d.conf.dir == "" {
		return d.conf.values[key] // scontrol tells these too
	}
	lines, err := d.readConf(filepath.Join(d.conf.dir, "cgroup.conf"), 0)
	if err != nil {
		return ""
	}
	value := ""
	for _, l := range lines {
		if v := l.get(key); v != "" {
			value = v
		}
	}
	return value
}

func (d *doctor) checkConstrain() {
	constrain, works := d.confined()
	switch {
	case works:
		d.ok("devices", "a job reaches its own GPUs only (ConstrainDevices=yes)")
	case constrain:
		d.warn("devices", "Add task/cgroup to TaskPlugin in slurm.conf", "ConstrainDevices=yes has no effect without task/cgroup")
	case d.chooses():
		d.ok("devices", "any job can use any GPU, as node.place needs it")
	default:
		d.warn("devices", "Set ConstrainDevices=yes in cgroup.conf and TaskPlugin=task/cgroup",
			"any job can use any GPU: what it takes there is seen as foreign memory, and is never paused")
	}
}

// checkInactive: Slurm ends a job whose srun has not answered for so long.
func (d *doctor) checkInactive() {
	v := d.conf.values["inactivelimit"]
	sec, err := strconv.Atoi(v)
	switch {
	case v == "" || err == nil && sec == 0:
		d.ok("inactive", "InactiveLimit is off")
	case err != nil:
		d.unknown("inactive", "%s: InactiveLimit=%s cannot be read", d.conf.at("inactivelimit"), v)
	default:
		d.warn("inactive", fmt.Sprintf("Set InactiveLimit=0, or well above %ds", 2*int(d.cfg.Limits.MaxPause.Seconds())),
			"%s: InactiveLimit=%d: Slurm ends jobs whose srun does not answer for %d s", d.conf.at("inactivelimit"), sec, sec)
	}
}

// gresCounts are how many of each kind this node is said to have.
type gresCounts struct {
	gpus, shards int
	files        []gresFile // of gpu lines in gres.conf
	auto         bool       // the driver is asked (AutoDetect)
	perLine      int        // shards on lines of gres.conf
}

// gresFile is one device file of gres.conf.
type gresFile struct{ path, place string }

// checkGres compares what Slurm is told about the node's GPUs with the GPUs.
func (d *doctor) checkGres() {
	if len(d.conf.values) == 0 {
		return
	}
	if !d.conf.nodeFound {
		d.noNode()
		return
	}
	c, err := d.gres()
	if err != nil {
		d.problem("gres", "", "%v", err)
		return
	}
	n := len(d.findings)
	d.gresTypes(c)
	d.gresShards(c)
	d.gresDevices(c)
	if len(d.findings) == n {
		d.ok("gres", "node %s has %s with %s", d.conf.nodeName, plural(c.gpus, "GPU"), plural(c.shards, "shard"))
	}
}

// gres reads this node's Gres of slurm.conf and its lines of gres.conf.
func (d *doctor) gres() (c gresCounts, err error) {
	for _, item := range splitBrackets(d.conf.node["gres"]) {
		name, count := gresItem(item)
		switch name {
		case "gpu":
			c.gpus += count
		case "shard":
			c.shards += count
		}
	}
	lines, err := d.readConf(filepath.Join(d.conf.dir, "gres.conf"), 0)
	if d.conf.dir == "" || errors.Is(err, os.ErrNotExist) {
		return c, nil
	}
	for _, l := range lines {
		if nodes := l.get("nodename"); nodes != "" && !slices.Contains(expandNames(nodes), d.conf.nodeName) {
			continue
		}
		if a := strings.ToLower(l.get("autodetect")); a != "" {
			c.auto = a != "off"
		}
		switch strings.ToLower(l.get("name")) {
		case "gpu":
			for _, f := range expandNames(l.get("file")) {
				c.files = append(c.files, gresFile{f, l.place()})
			}
		case "shard":
			if n, err := strconv.Atoi(l.get("count")); err == nil {
				c.perLine += n
			}
		}
	}
	return c, err
}

// splitBrackets splits a list at the commas outside round brackets:
// gpu:a100:4(S:0,1),shard:8.
func splitBrackets(s string) []string {
	depth := 0
	return strings.FieldsFunc(s, func(r rune) bool {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		}
		return r == ',' && depth <= 0
	})
}

// gresItem reads NAME[:TYPE][:COUNT][(...)]; without a count it is one.
func gresItem(s string) (name string, count int) {
	s, _, _ = strings.Cut(s, "(")
	parts := strings.Split(strings.TrimSpace(s), ":")
	last := parts[len(parts)-1]
	scale := 1
	switch {
	case strings.HasSuffix(strings.ToLower(last), "k"):
		last, scale = last[:len(last)-1], 1024
	case strings.HasSuffix(strings.ToLower(last), "m"):
		last, scale = last[:len(last)-1], 1024*1024
	}
	n, err := strconv.Atoi(last)
	if len(parts) == 1 || err != nil || n < 0 {
		return strings.ToLower(parts[0]), 1
	}
	return strings.ToLower(parts[0]), n * scale
}

func (d *doctor) gresTypes(c gresCounts) {
	types := strings.Split(strings.ToLower(d.conf.values["grestypes"]), ",")
	for name, n := range map[string]int{"gpu": c.gpus, "shard": max(c.shards, c.perLine)} {
		if n > 0 && !slices.Contains(types, name) {
			d.problem("gres", "Set GresTypes=gpu,shard on all nodes and restart slurmctld", "%s: GresTypes lacks %s", d.conf.at("grestypes"), name)
		}
	}
}

// gresShards: Slurm spreads shards over the GPUs evenly. A shard is a token
// that lets a job share a whole GPU; no memory limit follows from it.
func (d *doctor) gresShards(c gresCounts) {
	switch {
	case c.shards == 0 && c.gpus > 0:
		d.warn("gres", fmt.Sprintf("Add shard:%d to the node's Gres, say one shard for a GiB", 16*c.gpus),
			"%s: node %s has no shards: jobs cannot share its GPUs, only steps of one job can", d.conf.nodePlace, d.conf.nodeName)
	case c.shards > 0 && c.gpus == 0:
		d.problem("gres", "Add the GPUs to the node's Gres", "%s: node %s has shards and no GPU", d.conf.nodePlace, d.conf.nodeName)
	case c.gpus > 0 && c.shards%c.gpus != 0:
		d.problem("gres", fmt.Sprintf("Make it %d or %d", c.shards/c.gpus*c.gpus, (c.shards/c.gpus+1)*c.gpus),
			"%s: %d shards are not a multiple of %d GPUs", d.conf.nodePlace, c.shards, c.gpus)
	}
	if c.perLine > 0 && c.perLine != c.shards {
		d.problem("gres", "Make both the same", "%s: %s, gres.conf has %d", d.conf.nodePlace, plural(c.shards, "shard"), c.perLine)
	}
}

// gresDevices compares counts and device files with what the driver shows.
func (d *doctor) gresDevices(c gresCounts) {
	if len(c.files) > 0 && len(c.files) != c.gpus {
		d.problem("gres", "Make both the same", "%s: node %s has gpu:%d, gres.conf names %s", d.conf.nodePlace, d.conf.nodeName, c.gpus, plural(len(c.files), "device file"))
	}
	minors := d.minors()
	if minors == nil {
		return
	}
	if c.gpus > len(minors) && len(c.files) == 0 || c.gpus != len(minors) && len(c.files) > 0 {
		level := d.warn
		if c.gpus > len(minors) {
			level = d.problem
		}
		level("gres", fmt.Sprintf("Set gpu:%d, or see why the driver shows another number", len(minors)),
			"%s: node %s has gpu:%d, the driver shows %s", d.conf.nodePlace, d.conf.nodeName, c.gpus, plural(len(minors), "GPU"))
	}
	for _, f := range c.files {
		n, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(f.path), "nvidia"))
		if err == nil && strings.HasPrefix(filepath.Base(f.path), "nvidia") && !slices.Contains(minors, n) {
			d.problem("gres", "Name the devices that 'nvidia-smi -q' shows as minor numbers", "%s: File=%s is no GPU of the driver", f.place, f.path)
		}
	}
}

// minors are the device numbers of the driver's GPUs, each GPU once however
// it is partitioned; nil where the driver does not tell.
func (d *doctor) minors() []int {
	if d.gpus == nil || d.gpus.Fault != "" {
		return nil
	}
	var out []int
	for _, g := range d.gpus.GPUs {
		if !slices.Contains(out, g.Minor) || g.Minor < 0 {
			out = append(out, g.Minor)
		}
	}
	return out
}

// partitioned tells whether some GPU is cut into instances.
func partitioned(r *model.GPUReport) bool {
	return r != nil && slices.ContainsFunc(r.GPUs, func(g model.GPU) bool { return g.MIG })
}
