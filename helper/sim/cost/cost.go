// Package cost reads what restarts and pauses cost.
package cost

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/gimbal-hpc/gimbal/helper/sim"
	"github.com/gimbal-hpc/gimbal/helper/sim/trace"
)

// bounds of a row.
const (
	maxGPUs    = 1_000_000
	maxSeconds = 86_400
)

// anyModel is the model of the row for what has no row of its own.
const anyModel = "*"

// Open is a cost model by name: none, muri, or a file that [Read] reads.
func Open(name string) (*sim.Cost, error) {
	switch name {
	case "none":
		return sim.NoCost(), nil
	case "muri":
		return sim.MuriCost(), nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("the cost model is none, muri or a file: %w", err)
	}
	defer f.Close()
	return Read(f, name)
}

// Read reads a table of costs: CSV with the columns
//
//	model       as the trace has it; * for all that have no row
//	num_gpu     on how many GPUs; blank with *
//	overhead_s  what a start costs, in seconds
//	pause_s     what one turn of taking turns costs, in seconds; may be missing
//
// A job pays when it starts and when it starts again. What has no row costs
// nothing.
func Read(r io.Reader, name string) (*sim.Cost, error) {
	t, err := trace.OpenTable(r, name)
	if err != nil {
		return nil, err
	}
	if err := t.Need("model", "num_gpu", "overhead_s"); err != nil {
		return nil, err
	}
	c := sim.NoCost()
	c.Name = name
	c.Restart.By, c.Pause.By = make(map[sim.TimesKey]float64), make(map[sim.TimesKey]float64)
	for {
		err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = row(t, c)
		}
		if err != nil {
			return nil, err
		}
	}
	if t.Rows() == 0 {
		return nil, fmt.Errorf("%s: the table of costs has no rows", name)
	}
	return c, nil
}

func row(t *trace.Table, c *sim.Cost) error {
	restart, err1 := t.Number("overhead_s", 0, maxSeconds)
	pause, err2 := t.Optional("pause_s", 0, maxSeconds, 0)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	model := t.Text("model")
	if model == anyModel {
		c.Restart.Other, c.Pause.Other = restart, pause
		return nil
	}
	gpus, err := t.Whole("num_gpu", 1, maxGPUs)
	if err != nil {
		return err
	}
	key := sim.TimesKey{Model: model, GPUs: gpus}
	if _, twice := c.Restart.By[key]; twice {
		return t.Errorf("model", "%s on %d GPUs is there twice", model, gpus)
	}
	c.Restart.By[key], c.Pause.By[key] = restart, pause
	return nil
}
