package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/gimbal-hpc/gimbal/helper/metrics"
	"github.com/gimbal-hpc/gimbal/helper/model"
)

// Bounds of what metrics cost: how often a page is made at most for those who
// ask over HTTP, and how long the loop has to answer.
const (
	pageKeep  = time.Second
	pageLimit = 3 * time.Second
)

// exporter tells Prometheus what the node does, as [metrics] says.
type exporter struct {
	log  *logger
	look func() (model.Snapshot, metrics.Options, error)

	file string // what was written last
	last model.Snapshot
	opts metrics.Options
	said string // the last trouble with the file

	listen string // where the server answers
	server *http.Server
	served chan error
}

// watchMetrics writes the page and answers for it until the context ends. What
// is left then is that the daemon told nothing more: no job has a series.
func (d *daemon) watchMetrics(ctx context.Context) {
	x := &exporter{log: d.log, look: func() (model.Snapshot, metrics.Options, error) { return d.page(ctx) }}
	for {
		c := d.settings().Metrics
		x.serve(c.Listen)
		x.write(c.Textfile)
		select {
		case <-ctx.Done():
			x.close()
			return
		case <-d.reloaded:
		case <-time.After(c.Interval):
		}
	}
}

// page is what a page is made of.
func (d *daemon) page(ctx context.Context) (model.Snapshot, metrics.Options, error) {
	ctx, cancel := context.WithTimeout(ctx, pageLimit)
	defer cancel()
	s, err := d.snapshot(ctx)
	counters := d.counters()
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.cfg.Metrics
	return s, metrics.Options{Jobs: c.Jobs, Users: c.Users, Names: c.Names, Version: version,
		Stale: d.reload.failed != "", Counters: counters}, err
}

// write writes the page to a file, and takes away the one that a reload put
// out of use. Trouble is said once, until it is another.
func (x *exporter) write(path string) {
	if x.file != "" && x.file != path {
		x.forget()
	}
	if path == "" {
		return
	}
	s, o, err := x.look()
	if err == nil {
		err = metrics.WriteFile(path, metrics.Gather(s, o))
	}
	said := ""
	switch {
	case err == nil:
		x.file, x.last, x.opts = path, s, o
	case errors.Is(err, context.Canceled):
		return // the end
	case errors.Is(err, fs.ErrNotExist):
		said = fmt.Sprintf("%s is not there: metrics are not written", filepath.Dir(path))
	default:
		said = err.Error()
	}
	if said != "" && said != x.said {
		x.log.info("metrics", said)
	}
	x.said = said
}

// forget removes the file that was written.
func (x *exporter) forget() {
	if err := os.Remove(x.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		x.log.error("metrics", "an old page stays", err)
	}
	x.file = ""
}

// serve answers on an address, and no longer on another one.
func (x *exporter) serve(address string) {
	if address == x.listen {
		return
	}
	x.hangUp()
	if address == "" {
		return
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		x.log.error("metrics", "nothing is answered", err) // and tried again
		return
	}
	x.listen, x.served = address, make(chan error, 1)
	x.server = metrics.NewServer(&metrics.Recent{Keep: pageKeep, Make: x.make})
	go func(s *http.Server, served chan error) { served <- metrics.Serve(s, l) }(x.server, x.served)
	x.log.info("metrics", fmt.Sprintf("answering on http://%s/metrics", l.Addr()))
}

func (x *exporter) make() ([]*dto.MetricFamily, error) {
	s, o, err := x.look()
	if err != nil {
		return nil, err
	}
	return metrics.Gather(s, o), nil
}

func (x *exporter) hangUp() {
	if x.server == nil {
		return
	}
	_ = x.server.Close()
	if err := <-x.served; !errors.Is(err, http.ErrServerClosed) {
		x.log.error("metrics", "the listener ended", err)
	}
	x.server, x.listen = nil, ""
}

// close leaves a page without jobs, by whose age one sees that nobody writes it.
func (x *exporter) close() {
	x.hangUp()
	if x.file == "" {
		return
	}
	x.last.Tenants, x.last.Strays = nil, nil
	if err := metrics.WriteFile(x.file, metrics.Gather(x.last, x.opts)); err != nil {
		x.log.error("metrics", "the last page", err)
	}
}
