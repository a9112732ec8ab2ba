package proc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Constants of linux/connector.h and linux/cn_proc.h.
const (
	cnIdxProc   = 1
	cnValProc   = 1
	mcastListen = 1
	mcastIgnore = 2

	eventNone = 0x00000000
	eventFork = 0x00000001
	eventExec = 0x00000002
	eventExit = 0x80000000

	netlinkHeader   = 16
	connectorHeader = 20
	eventHeader     = 16 // what, cpu, timestamp
	offsetWhat      = netlinkHeader + connectorHeader
	offsetData      = offsetWhat + eventHeader

	// receiveBuffer holds a burst of some 40,000 events. The kernel's default
	// holds a few hundred.
	receiveBuffer = 32 << 20
	// drainLimit bounds one drain, so that a storm of forks cannot keep it going; drainFew
	// bounds one that others wait for: it takes milliseconds.
	drainLimit = 8192
	drainFew   = 512
	// ackNumber marks our own request, so that its answer is told from the
	// answers to other listeners.
	ackNumber = 0x67696d62
)

var (
	// errLost says that events were dropped because they came faster than they
	// were read.
	errLost = errors.New("process events were lost")
	// errMore says that a drain gave up before the queue was empty.
	errMore = errors.New("more process events are queued")
	// errSilent is the process connector of another pid namespace: it accepts
	// the request and never says anything.
	errSilent = errors.New("process connector is silent in this pid namespace")
)

// event is one message of the process connector, thread ids left out.
type event struct {
	what  uint32
	pid   int // the process: the new one for a fork
	ppid  int // the parent, of a fork
	ack   uint32
	error uint32
}

// connector is a subscription to the kernel's process events.
type connector struct {
	file *os.File // blocking, so that the runtime's poller has nothing to do with it
	raw  syscall.RawConn
	in   inbox
	lost uint64
}

// openConnector subscribes. What happens after it returns is reported.
func openConnector() (*connector, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_CONNECTOR)
	if err != nil {
		return nil, fmt.Errorf("process connector: socket: %w", err)
	}
	c := &connector{file: os.NewFile(uintptr(fd), "process connector")}
	if c.raw, err = c.file.SyscallConn(); err == nil {
		err = c.setUp(fd)
	}
	if err != nil {
		c.close()
		return nil, fmt.Errorf("process connector: %w", err)
	}
	return c, nil
}

func (c *connector) setUp(fd int) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer); err != nil {
		return fmt.Errorf("receive buffer: %w", err)
	}
	filter := eventFilter()
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &prog); err != nil {
		return fmt.Errorf("filter: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: cnIdxProc}); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	return c.subscribe()
}

// eventFilter lets through forks and exits of processes (not of threads), and
// execs: the rest never wakes this program.
func eventFilter() []unix.SockFilter {
	const (
		load   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		equalX = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_X
		ret    = unix.BPF_RET | unix.BPF_K
		tax    = unix.BPF_MISC | unix.BPF_TAX
		all    = 0xffffffff
	)
	const accept, drop = 14, 15
	return []unix.SockFilter{
		0:      {Code: load, K: offsetWhat},
		1:      {Code: equal, K: asLoaded(eventNone), Jt: accept - 2},
		2:      {Code: equal, K: asLoaded(eventExec), Jt: accept - 3},
		3:      {Code: equal, K: asLoaded(eventFork), Jt: 6 - 4},
		4:      {Code: equal, K: asLoaded(eventExit), Jt: 10 - 5},
		5:      {Code: ret, K: 0},
		6:      {Code: load, K: offsetData + 8}, // fork: the child's pid and tgid
		7:      {Code: tax},
		8:      {Code: load, K: offsetData + 12},
		9:      {Code: equalX, Jt: accept - 10, Jf: drop - 10},
		10:     {Code: load, K: offsetData}, // exit: pid and tgid
		11:     {Code: tax},
		12:     {Code: load, K: offsetData + 4},
		13:     {Code: equalX, Jt: accept - 14, Jf: drop - 14},
		accept: {Code: ret, K: all},
		drop:   {Code: ret, K: 0},
	}
}

// asLoaded turns a number of this machine's byte order into what the filter
// sees, which loads in network order.
func asLoaded(v uint32) uint32 {
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], v)
	return binary.BigEndian.Uint32(b[:])
}

// subscribe asks for events and reads the kernel's answer, which comes before
// the request returns.
func (c *connector) subscribe() error {
	if err := c.control(mcastListen); err != nil {
		return err
	}
	answer := errSilent
	err := c.drain(drainLimit, func(e event) {
		if e.what == eventNone && e.ack == ackNumber+1 {
			answer = nil
			if e.error != 0 {
				answer = unix.Errno(e.error)
			}
		}
	})
	if err != nil && !errors.Is(err, errLost) && !errors.Is(err, errMore) {
		return err
	}
	return answer
}

// control sends LISTEN or IGNORE.
func (c *connector) control(op uint32) error {
	var msg [netlinkHeader + connectorHeader + 4]byte
	order := binary.NativeEndian
	order.PutUint32(msg[0:], uint32(len(msg)))
	order.PutUint16(msg[4:], unix.NLMSG_DONE)
	order.PutUint32(msg[netlinkHeader:], cnIdxProc)
	order.PutUint32(msg[netlinkHeader+4:], cnValProc)
	order.PutUint32(msg[netlinkHeader+12:], ackNumber)
	order.PutUint16(msg[netlinkHeader+16:], 4)
	order.PutUint32(msg[netlinkHeader+connectorHeader:], op)
	return c.withFD(func(fd int) error {
		return unix.Sendto(fd, msg[:], 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	})
}

func (c *connector) withFD(do func(fd int) error) error {
	var inner error
	if err := c.raw.Control(func(fd uintptr) { inner = do(int(fd)) }); err != nil {
		return err
	}
	return inner
}

// drain hands over what is queued, so many events at most. It returns nil when the
// queue is empty, errMore when it gave up before, errLost when events were dropped.
func (c *connector) drain(most int, handle func(event)) error {
	return c.withFD(func(fd int) error {
		var lost error
		for range most / batch {
			n, err := c.in.receive(fd)
			switch {
			case errors.Is(err, unix.EINTR):
			case errors.Is(err, unix.EAGAIN):
				return lost
			case errors.Is(err, unix.ENOBUFS):
				lost = errLost
				c.lost = max(c.lost+1, drops(fd))
			case err != nil:
				return err
			}
			for i := range n {
				if e, ok := c.in.event(i); ok {
					handle(e)
				}
			}
		}
		return errors.Join(errMore, lost)
	})
}

// drops is the kernel's count of messages that did not fit the queue, 0 where
// it does not tell.
func drops(fd int) uint64 {
	var info [unix.SK_MEMINFO_VARS]uint32
	size := uint32(unsafe.Sizeof(info))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return 0
	}
	return uint64(info[unix.SK_MEMINFO_DROPS])
}

// parseEvent reads one netlink message of the process connector. It says false
// for anything else and for events of kinds that are not followed.
func parseEvent(b []byte) (event, bool) {
	order := binary.NativeEndian
	if len(b) < offsetData+8 || order.Uint32(b[netlinkHeader:]) != cnIdxProc || order.Uint32(b[netlinkHeader+4:]) != cnValProc {
		return event{}, false
	}
	word := func(i int) int { return int(order.Uint32(b[offsetData+4*i:])) }
	e := event{what: order.Uint32(b[offsetWhat:]), ack: order.Uint32(b[netlinkHeader+12:])}
	switch e.what {
	case eventNone:
		e.error = order.Uint32(b[offsetData:])
		return e, true
	case eventExec, eventExit:
		e.pid = word(1)
		return e, e.what == eventExec || word(0) == word(1)
	case eventFork:
		if len(b) < offsetData+16 {
			return event{}, false
		}
		e.ppid, e.pid = word(1), word(3)
		return e, word(2) == word(3)
	}
	return event{}, false
}

// close ends the subscription. Kernels before 6.6 go on producing events for a
// listener that left without a word.
func (c *connector) close() {
	_ = c.control(mcastIgnore)
	_ = c.file.Close()
}
