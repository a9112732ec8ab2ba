package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/config"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/wire"
)

// How long gimbal run waits for a daemon: for one that is there to answer, for
// one of the user's own to be up, and for a reply to news.
const (
	runAnswer = 5 * time.Second
	runStart  = 10 * time.Second
	runAgain  = 20 * time.Millisecond
	runNews   = time.Second
)

// link is the way of a gimbal run to the daemon that packs its command.
type link struct {
	sockets []string // to be tried in this order
	own     string   // socket of the user's own daemon, "" where there is to be none
	world   world
	used    string     // the one that answered
	failed  chan error // why a daemon that was started ended at once
}

// reason says why no daemon answered: what one that was started said when it
// failed, else only where its log is. One that failed as another was faster is
// no reason to give up before the time.
func (l *link) reason(err error) error {
	if l.own == "" {
		return err
	}
	select {
	case err = <-l.failed:
	default:
	}
	return fmt.Errorf("%w (see %s)", err, ownLog(l.own))
}

// newLink finds out where a daemon may be.
func newLink(o *runOptions, w world) *link {
	if o.socket != "" {
		return &link{sockets: []string{o.socket}, world: w}
	}
	own := config.PrivateSocket(w.env, w.uid)
	return &link{sockets: []string{wire.DefaultSocket, own}, own: own, world: w}
}

// register tells a daemon of the command and returns what it is called. Where
// there is none, the user's own is started.
func (l *link) register(q model.RunRequest) (model.RunReply, error) {
	var failed error
	started := false
	for end := time.Now().Add(runStart); ; time.Sleep(runAgain) {
		for _, socket := range l.sockets {
			r, err := l.ask(socket, q)
			if err == nil {
				l.used = socket
				return r, nil
			}
			if !passes(err) {
				return r, err
			}
			failed = err
		}
		if l.own == "" || time.Now().After(end) {
			return model.RunReply{}, l.reason(failed)
		}
		if !started {
			if err := l.start(); err != nil {
				return model.RunReply{}, err
			}
			started = true
		}
	}
}

// passes tells whether another daemon, or the same a moment later, may answer
// otherwise.
func passes(err error) bool {
	var refused *wire.Error
	if errors.As(err, &refused) {
		return refused.Code == wire.CodeBusy
	}
	return errors.Is(err, wire.ErrUnreachable)
}

func (l *link) ask(socket string, q model.RunRequest) (r model.RunReply, err error) {
	c, err := wire.Dial(socket, runAnswer)
	if err != nil {
		return r, err
	}
	defer func() { _ = c.Close() }()
	return r, c.Call(context.Background(), model.OpRun, q, &r)
}

// tell passes news on. A daemon that does not answer finds out by itself.
func (l *link) tell(op wire.Op, n model.RunNews) {
	if l.used == "" {
		return
	}
	c, err := wire.Dial(l.used, runNews)
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	_ = c.Call(context.Background(), op, n, nil)
}

// keep starts the user's own daemon again where it has died: the new one takes
// over what lives.
func (l *link) keep() {
	if l.used == "" || l.used != l.own {
		return
	}
	c, err := wire.Dial(l.used, runNews)
	if err == nil {
		_ = c.Close()
		return
	}
	_ = l.start() // it is tried again
}

// start starts the user's own daemon. Of several, one stays.
func (l *link) start() error {
	if err := config.MakePrivate(l.own, l.world.uid); err != nil {
		return err
	}
	program, err := findDaemon()
	if err != nil {
		return err
	}
	log, err := openLog(ownLog(l.own))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(program, "--private")
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, "/"
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start a daemon of your own: %w", err)
	}
	// It outlives this process, or another one was faster, or it fails.
	l.failed = make(chan error, 1)
	go func(failed chan<- error) {
		if cmd.Wait() != nil {
			failed <- errors.New(lastLine(ownLog(l.own)))
		}
	}(l.failed)
	return nil
}

// lastLine is the last line of a daemon's log, without the daemon's name.
func lastLine(path string) string {
	const most = 4096
	f, err := os.Open(path)
	if err != nil {
		return "a daemon of your own does not start"
	}
	defer func() { _ = f.Close() }()
	if end, err := f.Seek(0, io.SeekEnd); err == nil {
		_, _ = f.Seek(max(0, end-most), io.SeekStart)
	}
	text, _ := io.ReadAll(io.LimitReader(f, most))
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	last := strings.TrimPrefix(lines[len(lines)-1], "gimbald: ")
	return "a daemon of your own does not start: " + clean(last)
}

// ownLog is where the log of a user's own daemon is.
func ownLog(socket string) string { return filepath.Join(filepath.Dir(socket), "gimbald.log") }

// maxRunLog is the size from which the log of a user's own daemon begins anew.
const maxRunLog = 4 << 20

func openLog(path string) (*os.File, error) {
	flags := os.O_WRONLY | os.O_CREATE | os.O_APPEND | unix.O_NOFOLLOW
	if st, err := os.Lstat(path); err == nil && st.Size() > maxRunLog {
		flags |= os.O_TRUNC
	}
	f, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log of a daemon of your own: %w", err)
	}
	return f, nil
}

// findDaemon finds the gimbald that belongs to this gimbal.
func findDaemon() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find gimbald: %w", err)
	}
	dir := filepath.Dir(self)
	for _, path := range []string{filepath.Join(dir, "gimbald"), filepath.Join(dir, "../sbin/gimbald"), "/usr/sbin/gimbald"} {
		if _, err := canExec(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no gimbald is beside %s or in /usr/sbin", self)
}
