package wire

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// Peer is who is at the other end, as the kernel recorded it when the
// connection was made: effective uid and gid, and pid.
type Peer struct {
	UID uint32
	GID uint32
	PID int
}

// Root reports whether the peer is root.
func (p Peer) Root() bool { return p.UID == 0 }

// peerOf asks the kernel. The pid is 0 for a process outside this pid
// namespace.
func peerOf(conn *net.UnixConn) (Peer, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return Peer{}, fmt.Errorf("peer credentials: %w", err)
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err == nil {
		err = credErr
	}
	if err != nil {
		return Peer{}, fmt.Errorf("peer credentials: %w", err)
	}
	return Peer{UID: cred.Uid, GID: cred.Gid, PID: int(cred.Pid)}, nil
}
