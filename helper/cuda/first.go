package cuda

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// FirstOf returns a Driver that is the first of several that works. It looks
// for one at the first call and whenever Supported is called. A process that
// was locked through one can be unlocked through another.
func FirstOf(drivers ...Driver) Driver { return &firstOf{drivers: drivers} }

type firstOf struct {
	drivers []Driver
	chosen  atomic.Pointer[Driver]
}

func (f *firstOf) Supported(ctx context.Context) Support {
	var reasons []string
	for i := range f.drivers {
		s := f.drivers[i].Supported(ctx)
		if s.OK {
			f.chosen.Store(&f.drivers[i])
			return s
		}
		reasons = append(reasons, s.By+": "+s.Reason)
	}
	return Support{Reason: strings.Join(reasons, "; ")}
}

// pick returns the driver that was found to work, else the first.
func (f *firstOf) pick(ctx context.Context) Driver {
	if f.chosen.Load() == nil {
		f.Supported(ctx)
	}
	if d := f.chosen.Load(); d != nil {
		return *d
	}
	return f.drivers[0]
}

func (f *firstOf) State(ctx context.Context, p model.ProcID) (State, error) {
	return f.pick(ctx).State(ctx, p)
}

func (f *firstOf) Lock(ctx context.Context, p model.ProcID, timeout time.Duration) error {
	return f.pick(ctx).Lock(ctx, p, timeout)
}

func (f *firstOf) Checkpoint(ctx context.Context, p model.ProcID) error {
	return f.pick(ctx).Checkpoint(ctx, p)
}

func (f *firstOf) Restore(ctx context.Context, p model.ProcID) error {
	return f.pick(ctx).Restore(ctx, p)
}

func (f *firstOf) Unlock(ctx context.Context, p model.ProcID) error {
	return f.pick(ctx).Unlock(ctx, p)
}
