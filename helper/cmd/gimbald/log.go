package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/rs/zerolog"

	"github.com/gimbal-hpc/gimbal/helper/config"
)

// logEvery is how often one cause is logged; what comes between is counted.
const logEvery = time.Minute

// maxCauses bounds how many causes are told apart, and so how many lines are
// written in a minute of what may repeat for ever.
const maxCauses = 128

// logger writes to standard error, one line a cause and minute for what may
// repeat for ever.
type logger struct {
	out zerolog.Logger

	mu     sync.Mutex
	causes map[string]*cause
	others int // lines of causes for which there was no room
	now    func() time.Time
}

type cause struct {
	at         time.Time
	suppressed int
}

func newLogger(w io.Writer, c config.Log) (*logger, error) {
	level, err := zerolog.ParseLevel(c.Level)
	if err != nil {
		return nil, fmt.Errorf("log.level: %w", err)
	}
	if c.Format != "json" {
		w = zerolog.ConsoleWriter{Out: w, NoColor: true, TimeFormat: time.RFC3339, FormatMessage: oneLine}
	}
	return &logger{out: zerolog.New(w).Level(level).With().Timestamp().Logger(),
		causes: map[string]*cause{}, now: time.Now}, nil
}

// oneLine is a message as one line of printable text: users word some of it.
func oneLine(message any) string {
	text, _ := message.(string)
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, strings.ReplaceAll(text, "\n", "; "))
}

// info logs what happens; it is not limited: state changes are always said.
func (l *logger) info(part, text string) { l.out.Info().Str("part", part).Msg(text) }

// warn and error log what may repeat for ever: once a minute for each text.
func (l *logger) warn(part, text string) { l.warnOf(part, text, text) }

// warnOf is warn for a text that others word: once a minute for each cause.
func (l *logger) warnOf(part, cause, text string) {
	if n, ok := l.allow(part + "\x00" + cause); ok {
		withCount(l.out.Warn().Str("part", part), n).Msg(text)
	}
}

func (l *logger) error(part, text string, err error) {
	key := part + "\x00" + text
	if err != nil {
		key += "\x00" + err.Error()
	}
	if n, ok := l.allow(key); ok {
		withCount(l.out.Error().Str("part", part).Err(err), n).Msg(text)
	}
}

func withCount(e *zerolog.Event, suppressed int) *zerolog.Event {
	if suppressed > 0 {
		e = e.Int("suppressed", suppressed)
	}
	return e
}

// allow tells whether a cause may be logged now, and how often it was not
// since it last was.
func (l *logger) allow(key string) (suppressed int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	c := l.causes[key]
	if c == nil {
		if !l.makeRoom(now) {
			l.others++
			return 0, false
		}
		l.causes[key] = &cause{at: now}
		return 0, true
	}
	if now.Sub(c.at) < logEvery {
		c.suppressed++
		return 0, false
	}
	suppressed, c.at, c.suppressed = c.suppressed, now, 0
	return suppressed, true
}

// makeRoom forgets causes that have not come for a minute where there are too
// many, and tells whether there is room for one more. What was left out before
// is said then.
func (l *logger) makeRoom(now time.Time) bool {
	if len(l.causes) < maxCauses {
		return true
	}
	for k, c := range l.causes {
		if now.Sub(c.at) >= logEvery {
			delete(l.causes, k)
		}
	}
	if len(l.causes) >= maxCauses {
		return false
	}
	if l.others > 0 {
		l.out.Warn().Str("part", "log").Int("suppressed", l.others).Msg("more kinds of message came than are logged in a minute")
		l.others = 0
	}
	return true
}
