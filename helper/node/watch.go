package node

import (
	"github.com/gimbal-hpc/gimbal/helper/proc"
	"golang.org/x/sys/unix"
)

// watch is replaced.
func (n *Node) watch() {}

func (n *Node) tellSuspended(e *entry, who string) {}

func (n *Node) notifyAll(ids []proc.ID, sig unix.Signal) (int, error) { return 0, nil }
