package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"
	"time"
)

// How long it takes until Slurm is asked again whether it knows this node's name,
// at first and at most.
const (
	nameAgain  = time.Minute
	nameAtMost = time.Hour
)

// checkName warns where Slurm has no node of this one's name: then nothing that is
// asked of Slurm by that name is known. It asks until Slurm answers, which slurmctld
// may do later than a node begins.
func (d *daemon) checkName(ctx context.Context) {
	for wait := nameAgain; ; wait = min(2*wait, nameAtMost) {
		known, err := d.slurm.client.KnowsNode(ctx, d.name)
		switch {
		case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist): // a host without Slurm
			return
		case err == nil && !known:
			d.log.warn("slurm", fmt.Sprintf("Slurm has no node called %s%s: give gimbald Slurm's name of this node, by --node or node.name",
				d.name, d.namesHere(ctx)))
			return
		case err == nil:
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// namesHere says which nodes Slurm has on this host, "" where it does not tell.
func (d *daemon) namesHere(ctx context.Context) string {
	const most = 8
	names, err := d.slurm.client.NodesHere(ctx)
	if err != nil {
		return ""
	}
	return ", on this host " + cmp.Or(strings.Join(names[:min(len(names), most)], ", "), "none")
}
