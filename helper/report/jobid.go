// Package report turns what is known of a node into what people and scripts
// read: tables as sacct prints them, JSON with a stable schema, timelines.
package report

import (
	"strings"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// StepName writes a step's number as sacct does: 0, batch, extern, interactive.
func StepName(step uint32) string {
	return strings.TrimPrefix(model.Registration{}.StepLabel(step), "0.")
}
