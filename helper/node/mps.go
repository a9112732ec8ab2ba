package node

import (
	"context"
	"errors"
	"time"
)

// mpsLimit bounds how long the control daemon of MPS is asked before an eviction.
const mpsLimit = 10 * time.Second

// leaveMPS ends the work that a tenant has outstanding in a server of MPS. One that
// is killed with work outstanding may take the server's other clients with it.
func (n *Node) leaveMPS(e *entry) error {
	if n.MPS == nil {
		return errors.New("it is a client of MPS, and mps.pipe_directory names no control daemon")
	}
	roots, _ := n.book.snapshot(e)
	var pids []int
	for _, id := range n.Tracker.Members(rootIDs(roots)...) {
		pids = append(pids, id.PID)
	}
	ctx, cancel := context.WithTimeout(n.life, mpsLimit)
	defer cancel()
	return n.MPS.Release(ctx, pids)
}
