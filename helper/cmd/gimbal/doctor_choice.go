package main

import (
	"strings"

	"github.com/gimbal-hpc/gimbal/helper/config"
)

// chooses tells whether gimbald is to choose a job's GPUs (node.place).
func (d *doctor) chooses() bool { return d.cfg.Node.Place == config.PlaceGimbal }

// confined tells whether a job reaches its own GPUs only: what ConstrainDevices
// says, and whether that has an effect.
func (d *doctor) confined() (says, works bool) {
	says = strings.EqualFold(d.cgroupConf("constraindevices"), "yes")
	return says, says && strings.Contains(strings.ToLower(d.conf.values["taskplugin"]), "task/cgroup")
}

// checkChoice looks at what has to be for gimbald to choose a job's GPUs.
func (d *doctor) checkChoice() {
	if !d.chooses() {
		return
	}
	const stays = "node.place is \"gimbal\", but %s: Slurm's choice of GPUs stays"
	_, works := d.confined()
	c, err := d.gres()
	switch {
	case works:
		d.problem("place", "Set node.place = \"slurm\", or ConstrainDevices=no in cgroup.conf on this node", stays, "a job reaches its own GPUs only (ConstrainDevices=yes)")
	case err != nil || !d.conf.nodeFound:
		d.unknown("place", "node.place is \"gimbal\": how the node's GPUs are shared is not known")
	case c.shards == 0:
		d.problem("place", "Add shards to the node's Gres", stays, "the node has no shards")
	case partitioned(d.gpus):
		d.problem("place", "Set node.place = \"slurm\"", stays, "a GPU is partitioned")
	default:
		d.ok("place", "gimbald chooses among %s; while a job has a whole one (--gres=gpu) it leaves that to Slurm", plural(c.gpus, "GPU"))
	}
}
