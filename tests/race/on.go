//go:build race

package race

// Enabled says that the race detector watches.
const Enabled = true
