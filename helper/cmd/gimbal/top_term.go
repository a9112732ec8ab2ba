package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// terminal is the one that a full screen is drawn on. Keys come from tty, what
// is drawn goes to out.
type terminal struct {
	tty   *os.File
	out   io.Writer
	fd    int // of out
	saved *unix.Termios
	frame string // as last drawn
}

// Sequences that every terminal of today knows: the screen beside the usual
// one, and the cursor.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l"
	leaveScreen = "\x1b[0m\x1b[?25h\x1b[?1049l"
)

// openTerminal takes over the controlling terminal. close gives it back.
func openTerminal(out *os.File) (*terminal, error) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("open the terminal: %w", err)
	}
	t := &terminal{tty: tty, out: out, fd: int(out.Fd())}
	if err := t.enter(); err != nil {
		return nil, errors.Join(err, tty.Close())
	}
	return t, nil
}

// ioctl calls f with the terminal's descriptor and leaves it as it is: Fd
// would make reads of it block for good.
func (t *terminal) ioctl(f func(fd int) error) error {
	raw, err := t.tty.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	err = raw.Control(func(fd uintptr) { inner = f(int(fd)) })
	return errors.Join(err, inner)
}

// enter makes the terminal hand out each key at once, without showing it.
func (t *terminal) enter() error {
	err := t.ioctl(func(fd int) error {
		old, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err != nil {
			return err
		}
		t.saved = old
		raw := *old
		raw.Lflag &^= unix.ICANON | unix.ECHO | unix.ISIG | unix.IEXTEN
		raw.Iflag &^= unix.IXON | unix.ICRNL
		raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
		return unix.IoctlSetTermios(fd, unix.TCSETS, &raw)
	})
	if err != nil {
		return fmt.Errorf("set the terminal up: %w", err)
	}
	t.frame = ""
	_, err = io.WriteString(t.out, enterScreen)
	return err
}

// leave gives the terminal back as it was.
func (t *terminal) leave() error {
	_, werr := io.WriteString(t.out, leaveScreen)
	err := t.ioctl(func(fd int) error { return unix.IoctlSetTermios(fd, unix.TCSETS, t.saved) })
	return errors.Join(werr, err)
}

func (t *terminal) close() error { return errors.Join(t.leave(), t.tty.Close()) }

// notStopped is after how long it is clear that no shell is there that could
// continue this process: the kernel then drops the stop.
const notStopped = 200 * time.Millisecond

// suspend stops this process as ^Z would and takes the terminal over again
// once it is continued.
func (t *terminal) suspend() error {
	if err := t.leave(); err != nil {
		return err
	}
	cont := make(chan os.Signal, 1)
	signal.Notify(cont, syscall.SIGCONT)
	defer signal.Stop(cont)
	if err := unix.Kill(0, unix.SIGTSTP); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	select {
	case <-cont:
	case <-time.After(notStopped):
	}
	return t.enter()
}

// size is how many columns and lines there are; 80 by 24 where nobody says.
func (t *terminal) size() (width, height int) {
	ws, err := unix.IoctlGetWinsize(t.fd, unix.TIOCGWINSZ)
	if err != nil || ws.Col == 0 || ws.Row == 0 {
		return 80, 24
	}
	return int(ws.Col), int(ws.Row)
}

// draw shows lines in one write, each over the one that was there, so that
// nothing flickers. What has not changed is not written again.
func (t *terminal) draw(lines []topLine, colour bool) error {
	var b strings.Builder
	b.WriteString("\x1b[H")
	for i, l := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(painted(l, colour) + "\x1b[K")
	}
	b.WriteString("\x1b[J")
	if b.String() == t.frame {
		return nil
	}
	t.frame = b.String()
	_, err := io.WriteString(t.out, t.frame)
	return err
}

// painted writes a line with its attributes. The chosen line and the foot are
// told by reverse video also where there are no colours.
func painted(l topLine, colour bool) string {
	switch {
	case l.chosen:
		return "\x1b[7m" + l.text + "\x1b[0m"
	case l.paint == "" || !colour && l.paint != reverse && l.paint != bold:
		return l.text
	}
	return l.text[:l.from] + "\x1b[" + l.paint + "m" + l.text[l.from:l.to] + "\x1b[0m" + l.text[l.to:]
}

// keyNames are the sequences of the keys that have names.
var keyNames = map[string]string{
	"\x1b[A": "up", "\x1bOA": "up", "\x1b[B": "down", "\x1bOB": "down", "\x1b[D": "left", "\x1bOD": "left",
	"\x1b[C": "right", "\x1bOC": "right", "\x1b[5~": "pgup", "\x1b[6~": "pgdn",
	"\x1b[H": "home", "\x1bOH": "home", "\x1b[1~": "home", "\x1b[F": "end", "\x1bOF": "end", "\x1b[4~": "end",
	"\r": "enter", "\n": "enter", "\x7f": "backspace", "\b": "backspace", "\x03": "ctrl-c", "\x1a": "ctrl-z",
}

// keys cuts what was read into keys. rest is the beginning of a key that has
// not come whole; an escape alone is the key of that name.
func keys(b []byte) (out []string, rest []byte) {
	for len(b) > 0 {
		key, n := firstKey(b)
		if n == 0 {
			return out, b
		}
		if key != "" {
			out = append(out, key)
		}
		b = b[n:]
	}
	return out, nil
}

// maxSequence is longer than every key's sequence.
const maxSequence = 16

func firstKey(b []byte) (key string, n int) {
	if b[0] == '\x1b' && len(b) > 1 && (b[1] == '[' || b[1] == 'O') {
		for i := 2; i < len(b) && i < maxSequence; i++ {
			if b[i] >= '@' && b[i] <= '~' {
				return keyNames[string(b[:i+1])], i + 1
			}
		}
		if len(b) < maxSequence {
			return "", 0
		}
		return "", maxSequence
	}
	if b[0] == '\x1b' {
		return "esc", 1
	}
	if name := keyNames[string(b[:1])]; name != "" {
		return name, 1
	}
	if !utf8.FullRune(b) {
		return "", 0
	}
	r, n := utf8.DecodeRune(b)
	if r == utf8.RuneError || r < ' ' {
		return "", n
	}
	return string(r), n
}
