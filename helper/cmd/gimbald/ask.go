package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gimbal-hpc/gimbal/helper/config"
	"github.com/gimbal-hpc/gimbal/helper/gpu"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/policy"
	"github.com/gimbal-hpc/gimbal/helper/wire"
)

// What tenants ask for and cannot have, in words for their users.

// checkNamed refuses a command whose user names GPUs that are not there, where
// the driver tells which are.
func (d *daemon) checkNamed(ctx context.Context, q *model.RunRequest) error {
	if !q.Named || q.Choose != "" {
		return nil
	}
	var known []model.GPU
	err := d.onceKnown(ctx, func(n *model.Node) { known = append(known[:0], n.GPUs...) })
	if err != nil {
		return err
	}
	var wrong *gpu.NameError
	if _, err := gpu.Resolve(nil, q.Visible, known); errors.As(err, &wrong) {
		return wire.Errorf(wire.CodeBadRequest, "%v; this host has %s", wrong, listGPUs(known))
	}
	return nil
}

// listGPUs names GPUs as a user may.
func listGPUs(gpus []model.GPU) string {
	names := make([]string, len(gpus))
	for i, g := range gpus {
		names[i] = g.UUID
		if g.Minor >= 0 {
			names[i] = fmt.Sprintf("%d (%s)", g.Minor, g.UUID)
		}
	}
	return strings.Join(names, ", ")
}

// askExisting takes a policy that nobody wrote out of a tenant's terms, and says so.
func askExisting(t *model.Terms, all map[string]*policy.Policy) {
	if t.Policy == "" || all[t.Policy] != nil {
		return
	}
	names := make([]string, 0, len(all))
	for n := range all {
		names = append(names, n)
	}
	note := fmt.Sprintf("there is no policy %.64q", t.Policy)
	if near := config.Nearest(t.Policy, names); near != "" {
		note += fmt.Sprintf(" (did you mean %q?)", near)
	}
	t.Notes = append(t.Notes, note+"; the GPU's own policy rules")
	t.Policy = ""
}

// outvoted says why a tenant is not under the policy that it asked for, "" where
// it is, or where no GPU of its has a policy.
func outvoted(v *model.View) string {
	asked := v.Terms.Policy
	if asked == "" || v.PolicyNow == "" || asked == v.PolicyNow {
		return ""
	}
	return fmt.Sprintf("asked for policy %s; not all of its mates did, so %s rules", asked, v.PolicyNow)
}
