package main

import (
	"testing"
	"time"
)

func TestAgo(t *testing.T) {
	const day = 24 * time.Hour
	for d, want := range map[time.Duration]string{
		-time.Second:                            "less than a second",
		999 * time.Millisecond:                  "less than a second",
		time.Second:                             "1 second",
		59 * time.Second:                        "59 seconds",
		time.Minute:                             "1 minute",
		time.Minute + time.Second:               "1 minute 1 second",
		time.Hour - time.Second:                 "59 minutes 59 seconds",
		time.Hour:                               "1 hour",
		time.Hour + 59*time.Second:              "1 hour",
		2*time.Hour - time.Second:               "1 hour 59 minutes",
		day - time.Second:                       "23 hours 59 minutes",
		day + time.Minute:                       "1 day",
		2*day + time.Hour + time.Minute:         "2 days 1 hour",
		100*day + 23*time.Hour + 59*time.Minute: "100 days 23 hours",
	} {
		if got := ago(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}
