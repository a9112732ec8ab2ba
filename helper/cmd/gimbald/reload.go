package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/config"
	"github.com/gimbal-hpc/gimbal/helper/engine"
)

// reloadState is how the last reload went.
type reloadState struct {
	loaded  time.Time
	failed  string   // why the last one was not taken
	restart []string // keys that changed and wait for a restart
}

// settings is the configuration in force.
func (d *daemon) settings() *config.Config {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cfg
}

// reloadOnHangup reloads at each SIGHUP.
func (d *daemon) reloadOnHangup(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.hup:
			if err := d.reloadNow(ctx); err != nil {
				d.log.error("reload", "the configuration in force stays", err)
			}
			select {
			case d.reloaded <- struct{}{}:
			default: // is to be looked at already
			}
		}
	}
}

// reloadNow puts a new configuration and new policies in force, all of it or
// nothing.
func (d *daemon) reloadNow(ctx context.Context) error {
	cfg, set, warnings, err := d.loadConfig()
	if err != nil {
		d.mu.Lock()
		d.reload.failed = err.Error()
		d.mu.Unlock()
		return err
	}
	for _, w := range warnings {
		d.log.warn("config", w)
	}
	d.mu.Lock()
	changes := config.Diff(d.cfg, cfg)
	cfg.KeepFrom(d.cfg)
	d.cfg, d.policies = cfg, set
	d.reload = reloadState{loaded: time.Now(), restart: changes.Restart}
	d.mu.Unlock()
	d.log.info("reload", describeChanges(changes))
	return d.loop.Ask(ctx, func(*engine.Engine) {
		d.decider.SetPolicies(set)
		d.caps.decider.SetPolicies(set)
		d.places.decider.SetPolicies(set)
		d.learner.SetOptions(learnOptions(cfg))
	})
}

func describeChanges(c config.Changes) string {
	if len(c.Applied)+len(c.Restart) == 0 {
		return "nothing changed"
	}
	text := "now in force: " + strings.Join(c.Applied, ", ")
	if len(c.Applied) == 0 {
		text = "nothing that a reload can change"
	}
	if len(c.Restart) > 0 {
		text += fmt.Sprintf("; not applied until a restart: %s", strings.Join(c.Restart, ", "))
	}
	return text
}
