package main

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/config"
	"github.com/gimbal-hpc/gimbal/helper/policy"
)

// A user's own daemon is this program without root: gimbal run starts it where
// there is no gimbald, for the commands of that user. It ends after the last.

// How long a private daemon stays when it has nothing to do, and how often it
// looks.
const (
	lingerFor  = 5 * time.Second
	lingerLook = 250 * time.Millisecond
)

// servePrivate runs a private daemon.
func servePrivate(path string, stderr io.Writer) error {
	if path == config.Path {
		path = config.PrivateFile(os.Getenv)
	}
	socket := config.PrivateSocket(os.Getenv, os.Getuid())
	if err := config.MakePrivate(socket, os.Getuid()); err != nil {
		return err
	}
	return serve(path, "", socket, stderr)
}

// loadConfig reads the configuration, and puts a private daemon's files where
// they are its user's alone.
func (d *daemon) loadConfig() (*config.Config, *policy.Set, []string, error) {
	if d.private == "" {
		return load(d.path, d.name)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	cfg, set, warnings, err := load(d.path, host)
	if err == nil {
		cfg.MakePrivate(d.private, host)
	}
	return cfg, set, warnings, err
}

// leaveWhenIdle ends a private daemon that has had no tenant for a while.
func (d *daemon) leaveWhenIdle(ctx context.Context, leave context.CancelFunc) {
	since := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(lingerLook):
		}
		d.runs.mu.Lock()
		switch n := d.node.Count(); {
		case n > 0:
			since = time.Now()
		case time.Since(since) > lingerFor:
			d.runs.leaving = true
			leave()
		}
		d.runs.mu.Unlock()
	}
}
