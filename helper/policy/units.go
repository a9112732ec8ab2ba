package policy

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// duration reads a time with its unit.
func duration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return 0, fmt.Errorf(`%q is no time: write it with its unit, such as "30s", "1m30s" or "500ms"`, s)
	case d < 0:
		return 0, fmt.Errorf("%q is less than no time", s)
	}
	return d, nil
}

// size reads a size with its unit.
func size(s string) (model.Bytes, error) {
	for _, u := range []struct {
		name string
		unit model.Bytes
	}{{"KiB", model.KiB}, {"MiB", model.MiB}, {"GiB", model.GiB}, {"TiB", model.TiB}} {
		number, ok := strings.CutSuffix(s, u.name)
		if !ok {
			continue
		}
		x, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err == nil && x >= 0 && x*float64(u.unit) < 1<<60 {
			return model.Bytes(x * float64(u.unit)), nil
		}
	}
	return 0, fmt.Errorf(`%q is no size: write it with its unit, such as "80GiB" or "512MiB"`, s)
}
