package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/config"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/slurm"
)

// How long a step that is being launched waits for Slurm, after how long Slurm is
// asked again which GPUs it has given whole, for how long an answer is good all the
// same, and for how long that of how it keeps jobs apart.
const (
	siteLimit  = 200 * time.Millisecond
	siteFor    = 2 * time.Second
	siteGood   = time.Minute
	confineFor = 5 * time.Minute
)

// siteWatch tells whether the site lets gimbald choose a job's GPUs.
type siteWatch struct {
	client *slurm.Client
	life   context.Context
	end    context.CancelFunc
	asks   sync.WaitGroup

	mu       sync.Mutex
	asking   chan struct{} // closed when the question under way is answered, nil: none is
	site     slurm.Site
	err      error
	at       time.Time
	confined bool
	told     time.Time // when confined was
}

func newSiteWatch(c *config.Config) *siteWatch {
	w := &siteWatch{client: slurm.New(slurm.Options{Bin: c.Slurm.Bin, Conf: c.Slurm.Conf, Timeout: c.Slurm.Timeout, Gap: time.Millisecond})}
	w.life, w.end = context.WithCancel(context.Background())
	return w
}

// close ends a question that is under way.
func (w *siteWatch) close() {
	w.end()
	w.asks.Wait()
}

// errConfined is why nothing is chosen where jobs are kept to their GPUs.
var errConfined = errors.New("jobs reach only the GPUs that Slurm gave them (ConstrainDevices)")

// look says how the node's GPUs are shared, or why their choice is Slurm's. An
// answer that comes too late is there for the next step.
func (w *siteWatch) look(node string, known []model.GPU) (slurm.Site, error) {
	if asking := w.refresh(node); asking != nil {
		timer := time.NewTimer(siteLimit)
		defer timer.Stop()
		select {
		case <-asking:
		case <-timer.C:
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.at.IsZero() || time.Since(w.at) > siteGood:
		return w.site, fmt.Errorf("within %s Slurm did not tell how the GPUs are shared", siteLimit)
	case w.err != nil:
		return w.site, w.err
	case w.confined:
		return w.site, errConfined
	case w.site.Whole > 0:
		return w.site, errors.New("a job has a whole GPU of this node (gres/gpu)")
	case w.site.GPUs != len(known):
		return w.site, fmt.Errorf("the driver shows %d GPUs, Slurm knows %d", len(known), w.site.GPUs)
	}
	return w.site, nil
}

// refresh asks Slurm where its answer is old, and returns what is closed then.
func (w *siteWatch) refresh(node string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.asking == nil && (w.at.IsZero() || time.Since(w.at) > siteFor) {
		w.asking = make(chan struct{})
		again := w.told.IsZero() || time.Since(w.told) > confineFor
		w.asks.Go(func() { w.ask(node, again) })
	}
	return w.asking
}

// ask asks Slurm, again how jobs are kept apart where that is not known.
func (w *siteWatch) ask(node string, again bool) {
	confined, err := false, error(nil)
	if again {
		confined, err = w.client.Confines(w.life)
	}
	site := slurm.Site{}
	if err == nil {
		site, err = w.client.Site(w.life, node)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.site, w.err, w.at = site, err, time.Now()
	if again && err == nil {
		w.confined, w.told = confined, w.at
	}
	close(w.asking)
	w.asking = nil
}
