package slurmtest

import "os"

// Long is n in a run with GIMBAL_LONG=1, as make test-long makes it, else few: how
// often the same test does the same.
func Long(n, few int) int {
	if os.Getenv("GIMBAL_LONG") != "" {
		return n
	}
	return few
}
