// Package race tells tests whether they run under the race detector, which makes
// programs several times slower and has more of what they read escape to the heap.
package race
