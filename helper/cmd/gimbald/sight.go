package main

import (
	"context"
	"os/user"
	"strconv"

	"github.com/gimbal-hpc/gimbal/helper/config"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/wire"
)

// sight is what one peer may see: root and the operators everything, others
// what access.private says.
type sight struct {
	uid uint32
	all bool
}

func (d *daemon) sight(ctx context.Context, p wire.Peer) sight {
	cfg := d.settings()
	all := cfg.Access.Private == config.PrivateOff || p.Root() ||
		cfg.Access.Private == config.PrivateSlurm && !d.slurm.hidesJobs(ctx)
	return sight{uid: p.UID, all: all || d.operates(ctx, p)}
}

// allowed tells whether the peer may see a tenant by name.
func (s sight) allowed(v *model.View) bool { return s.all || v.Reg.UID == s.uid }

// filter is allowed, or nil where everybody may be seen.
func (s sight) filter() func(*model.View) bool {
	if s.all {
		return nil
	}
	return s.allowed
}

// view is what the peer sees of a live tenant that the query selects: its own
// in full, another's only as what it takes of a GPU.
func (s sight) view(v *model.View, q *model.StatusQuery) (model.View, bool) {
	if s.allowed(v) {
		return *v, q.Match(v)
	}
	if len(q.Jobs)+len(q.Users)+len(q.Names)+len(q.Accounts)+len(q.Partitions)+len(q.Groups) > 0 {
		return model.View{}, false // it would tell whose it is
	}
	return anonymous(v), q.Match(v)
}

// anonymous keeps of a tenant what a neighbour has to know: where it is, its
// state, its memory.
func anonymous(v *model.View) model.View {
	out := model.View{Hidden: true, PolicyNow: v.PolicyNow, SinceWall: v.SinceWall}
	out.State, out.GPUs, out.Use, out.Since = v.State, v.GPUs, v.Use, v.Since
	out.Reg.ArrayTask, out.Reg.HetOffset = model.NoVal, model.NoVal
	return out
}

func (s sight) strays(list []model.Stray) []model.Stray {
	if s.all {
		return list
	}
	out := make([]model.Stray, 0, len(list))
	for _, st := range list {
		if st.UID != s.uid || st.Kind == model.StrayGhost {
			st.PID, st.UID = 0, 0
		}
		out = append(out, st)
	}
	return out
}

func login(uid uint32) string {
	u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return ""
	}
	return u.Username
}

// groups lists the names of the groups that a user is in. It is asked of the
// system once per registration; a user that is not known is in none.
func groups(uid uint32) []string {
	u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return nil
	}
	ids, err := u.GroupIds()
	if err != nil {
		return nil
	}
	var names []string
	for _, id := range ids {
		if g, err := user.LookupGroupId(id); err == nil {
			names = append(names, g.Name)
		}
	}
	return names
}

// grant is what a registration gets under the configuration in force, with what
// was found when its step was prepared.
func (d *daemon) grant(r model.Registration) model.Terms {
	terms := d.terms(r)
	d.caps.say(r.JobID, &terms)
	d.places.say(r, &terms)
	return terms
}

// terms are what the configuration grants a job. Groups are looked up only where a
// rule asks for them.
func (d *daemon) terms(r model.Registration) model.Terms {
	cfg := d.settings()
	var in []string
	for _, b := range cfg.Bounds {
		if len(b.Group) > 0 {
			in = groups(r.UID)
			break
		}
	}
	terms, err := cfg.Grant(r, in)
	if err != nil {
		d.log.warn("grant", "job "+r.JobLabel()+": "+err.Error())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	askExisting(&terms, d.policies.ByName)
	return terms
}
