package wire

import (
	"errors"

	"golang.org/x/sys/unix"
)

// passing reports whether an error of accept may be gone a moment later.
func passing(err error) bool {
	for _, e := range []error{unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM, unix.ECONNABORTED, unix.EINTR, unix.EAGAIN} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
