package model

import "time"

// Progress is how far a job says that it is, by a number of its own that rises:
// iterations, samples, epochs.
type Progress struct {
	At     time.Duration `json:"at"`     // when it was written, on the node's monotonic clock
	Source uint64        `json:"source"` // which counter it is: another one's count is another
	Count  float64       `json:"count"`
	Total  float64       `json:"total,omitempty"` // what the count will be at the end, 0 if the job does not say
}
