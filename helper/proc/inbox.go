package proc

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// batch is how many messages one read takes in.
const batch = 64

// inbox is where the messages of one read come to lie: one system call for each
// would be most of what they cost.
type inbox struct {
	text    [batch][128]byte // a message of the process connector has 76
	from    [batch]unix.RawSockaddrNetlink
	parts   [batch]unix.Iovec
	headers [batch]messageHeader
}

// messageHeader is the kernel's struct mmsghdr.
type messageHeader struct {
	unix.Msghdr
	length uint32
}

// receive reads what is queued, a batch at most, and returns how many messages
// there were. It never waits: EAGAIN says that the queue is empty.
func (b *inbox) receive(fd int) (n int, err error) {
	for i := range b.headers {
		b.parts[i] = unix.Iovec{Base: &b.text[i][0], Len: uint64(len(b.text[i]))}
		b.headers[i].Msghdr = unix.Msghdr{
			Name: (*byte)(unsafe.Pointer(&b.from[i])), Namelen: uint32(unsafe.Sizeof(b.from[i])),
			Iov: &b.parts[i], Iovlen: 1,
		}
	}
	r, _, errno := unix.Syscall6(unix.SYS_RECVMMSG, uintptr(fd),
		uintptr(unsafe.Pointer(&b.headers)), batch, unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(r), nil
}

// event reads one message of the last read. It says false for what is not the
// kernel's own, or nothing that is followed.
func (b *inbox) event(i int) (event, bool) {
	if h := &b.headers[i]; h.Namelen < uint32(unsafe.Sizeof(b.from[i])) || b.from[i].Pid != 0 {
		return event{}, false
	}
	return parseEvent(b.text[i][:b.headers[i].length])
}
