package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/gimbal-hpc/gimbal/helper/cmd/help"
	"github.com/gimbal-hpc/gimbal/helper/config"
	"github.com/gimbal-hpc/gimbal/helper/model"
)

const topUsage = `Usage: gimbal top [OPTION]...

Show the GPUs of this node, who is on them, and what happened last, on one
screen that is drawn anew. TIME is what is left of a tenant's turn, or for how
long it has been in its state. Where the output is no terminal it is printed
once, as plain text.

Keys: q quit, s sort, f only one user's tenants, arrows and enter for the
history of a tenant, ^Z suspend.

`

type topFlags struct {
	source
	delay, sort, user string
}

func (t *topFlags) set() *pflag.FlagSet {
	f := newFlags("top")
	f.StringVarP(&t.delay, "delay", "d", "1s", "`time` between two looks")
	f.StringVarP(&t.sort, "sort", "s", "job", "`order` of tenants: "+strings.Join(topSorts, ", "))
	f.StringVarP(&t.user, "user", "u", "", "only tenants of this `user`")
	t.socketFlag(f)
	return f
}

func runTop(args []string, w world) int {
	var t topFlags
	f := t.set()
	var delay time.Duration
	check := func() (err error) {
		delay, err = t.check(f.Args())
		return err
	}
	if code, over := parse(f, args, w, topUsage, check); over {
		return code
	}
	s := newScreen(t.sort, t.user)
	snap, err := t.look(w.now())
	if err != nil {
		return failure(w, "top", err)
	}
	s.take(snap, nil, w.now())
	if !isTerminal(w.stdout) || w.env("TERM") == "dumb" {
		return done(w, "top", printOnce(w, s))
	}
	return done(w, "top", t.interact(s, help.File(w.stdout), delay, w))
}

func (t *topFlags) check(args []string) (time.Duration, error) {
	if len(args) > 0 {
		return 0, fmt.Errorf("%q is no option; a user is given with -u", args[0])
	}
	if !slices.Contains(topSorts, t.sort) {
		return 0, fmt.Errorf("--sort: %q is none of %s", t.sort, strings.Join(topSorts, ", "))
	}
	d, err := config.ParseDuration(t.delay)
	if err == nil && (d < 100*time.Millisecond || d > time.Hour) {
		err = fmt.Errorf("%q is not between 100ms and 1h", t.delay)
	}
	if err != nil {
		return 0, fmt.Errorf("--delay: %w", err)
	}
	return d, nil
}

// look gets the live tenants.
func (t *topFlags) look(now time.Time) (model.Snapshot, error) {
	return t.fromDaemon(model.StatusQuery{Start: now})
}

// printOnce writes the screen as plain text, 80 columns wide unless COLUMNS
// says otherwise.
func printOnce(w world, s *screen) error {
	width := 80
	if n, err := strconv.Atoi(w.env("COLUMNS")); err == nil && n >= 20 && n <= 1000 {
		width = n
	}
	for _, l := range s.lines(width, 0) {
		if _, err := fmt.Fprintln(w.stdout, strings.TrimRight(l.text, " ")); err != nil {
			return err
		}
	}
	return nil
}

// topLoop redraws until somebody ends it. All that happens comes as a function
// that changes the screen, and runs in one goroutine.
type topLoop struct {
	*topFlags
	s     *screen
	term  *terminal
	w     world
	inbox chan func() deed
	done  <-chan struct{}
}

// interact takes over the terminal until a key or a signal ends it. It is
// given back however that comes about.
func (t *topFlags) interact(s *screen, out *os.File, delay time.Duration, w world) (err error) {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer cancel()
	term, err := openTerminal(out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, term.close()) }()
	l := topLoop{topFlags: t, s: s, term: term, w: w, inbox: make(chan func() deed), done: ctx.Done()}
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	go l.readKeys()
	go l.watch(delay)
	return l.run(resized)
}

func (l *topLoop) run(resized <-chan os.Signal) error {
	colour := l.w.env("NO_COLOR") == ""
	for {
		width, height := l.term.size()
		if err := l.term.draw(l.s.lines(width, height), colour); err != nil {
			return err
		}
		var d deed
		select {
		case <-l.done:
			return nil
		case <-resized:
			l.term.frame = ""
		case f := <-l.inbox:
			d = f()
		}
		switch d {
		case deedQuit:
			return nil
		case deedSuspend:
			if err := l.term.suspend(); err != nil {
				return err
			}
		case deedHistory:
			go l.tellHistory(*l.s.selected())
		}
	}
}

// happen hands something that happened to the loop; false once that has ended.
func (l *topLoop) happen(f func() deed) bool {
	select {
	case l.inbox <- f:
		return true
	case <-l.done:
		return false
	}
}

// readKeys reads keys until the terminal is closed.
func (l *topLoop) readKeys() {
	var kept []byte
	buf := make([]byte, 256)
	for {
		n, err := l.term.tty.Read(buf)
		if n == 0 || err != nil {
			l.happen(func() deed { return deedQuit })
			return
		}
		pressed, rest := keys(append(kept, buf[:n]...))
		kept = bytes.Clone(rest)
		for _, k := range pressed {
			if !l.happen(func() deed { return l.s.press(k) }) {
				return
			}
		}
	}
}

// watch looks at the node again and again. A daemon that hangs keeps nobody
// from pressing keys.
func (l *topLoop) watch(delay time.Duration) {
	tick := time.NewTicker(delay)
	defer tick.Stop()
	for {
		select {
		case <-l.done:
			return
		case <-tick.C:
		}
		snap, err := l.look(l.w.now())
		if !l.happen(func() deed { l.s.take(snap, err, l.w.now()); return deedNone }) {
			return
		}
	}
}

// tellHistory gets a tenant's story and shows it.
func (l *topLoop) tellHistory(v model.View) {
	lines, err := l.story(v)
	l.happen(func() deed {
		if err != nil {
			l.s.message = err.Error()
			return deedNone
		}
		l.s.history, l.s.offset = lines, max(len(lines)-1, 0)
		return deedNone
	})
}

// story tells a tenant's life as gimbal explain does.
func (l *topLoop) story(v model.View) ([]string, error) {
	ref := model.JobRef{Job: v.Reg.JobID, Task: model.NoVal, Offset: model.NoVal, Step: model.NoVal}
	r, err := l.records(model.RecordsQuery{StatusQuery: model.StatusQuery{Jobs: []model.JobRef{ref}}})
	if err != nil {
		return nil, err
	}
	node, err := l.look(l.w.now())
	if err != nil {
		return nil, err
	}
	var out strings.Builder
	for i := range r.Tenants {
		if r.Tenants[i].ID == v.ID {
			x := explanation{v: &r.Tenants[i], reply: &r, node: &node, loc: l.w.now().Location()}
			x.write(&out)
		}
	}
	if out.Len() == 0 {
		return []string{"nothing is known of " + v.Name()}, nil
	}
	return strings.Split(strings.TrimRight(out.String(), "\n"), "\n"), nil
}
