// Package journal keeps what happened on a node and what was decided: an
// append-only log of model.Record, the final views of the tenants that ended,
// and the set of what Gimbal keeps stopped (StopSet).
//
// # Files
//
// journal-N.jsonl holds the records from number N on, one JSON object in a
// line. Its first line is a checkpoint: the boot, and every live tenant as it
// stood. So a replay reads the newest file alone, however long the history is.
// ended-N.log holds the final view of one tenant in a line (see Pack).
// load-N.log holds what GPUs and tenants took from second N on, at most a
// megabyte a day. All are rotated by size and age and kept for a
// time and up to a size.
//
// A line is written by one write(2) and not fsynced: it survives the death of
// the daemon, and a reboot leaves no process that it could speak of. What a
// crash tore is healed when the journal is opened.
package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/failpoint"
	"github.com/gimbal-hpc/gimbal/helper/lockfile"
	"github.com/gimbal-hpc/gimbal/helper/model"
)

// ErrLocked says that another process writes the journal.
var ErrLocked = errors.New("another process writes it")

// Options say how long the journal keeps what.
type Options struct {
	SegmentBytes int64            // a file is closed at this size; 0: 8 MiB
	SegmentAge   time.Duration    // and at this age; 0: 24 h
	KeepBytes    int64            // records are kept up to this size in all; 0: 256 MiB
	EndedBytes   int64            // and ended tenants up to this; 0: 64 MiB
	LoadBytes    int64            // and what GPUs and tenants took up to this; 0: 32 MiB
	KeepFor      time.Duration    // all up to this age; 0: 30 days
	Boot         string           // names this boot of the machine; "": the kernel's boot id
	Now          func() time.Time // the wall clock; nil: time.Now
}

func (o Options) withDefaults() (Options, error) {
	setDefault(&o.SegmentBytes, 8<<20)
	setDefault(&o.SegmentAge, 24*time.Hour)
	setDefault(&o.KeepBytes, 256<<20)
	setDefault(&o.EndedBytes, 64<<20)
	setDefault(&o.LoadBytes, 32<<20)
	setDefault(&o.KeepFor, 30*24*time.Hour)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Boot != "" {
		return o, nil
	}
	var err error
	o.Boot, err = BootID()
	return o, err
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// Fault is the error of an Append whose record did not reach the disk. The
// journal goes on trying; what it could not write shows as a gap in Seq.
type Fault struct {
	Cause    error
	Repeated bool // the Append before failed for the same cause: it has been said
}

func (f *Fault) Error() string { return "journal: " + f.Cause.Error() }
func (f *Fault) Unwrap() error { return f.Cause }

// Journal is the writer. It is safe for concurrent use.
type Journal struct {
	mu      sync.Mutex
	opts    Options
	records series
	ended   series
	tail    tail // of the newest file of records
	past    tail // of the newest file of ended tenants
	loads   loads
	book    book
	lock    *os.File
	fault   string // cause of the last Append's failure, "" if it succeeded
	retry   int64  // size of the tail at which a rotation that failed is tried again
	opened  time.Time
	buf     []byte
}

// Open opens or creates the journal in dir, for writing. What a crash left is
// healed. Tenants of an earlier boot are closed as ended with an outcome that
// is not known. It returns ErrLocked where another process has it open.
func Open(dir string, o Options) (*Journal, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	lock, err := takeLock(filepath.Join(dir, "journal.lock"))
	if err != nil {
		return nil, fmt.Errorf("open journal in %s: %w", dir, err)
	}
	j := &Journal{
		opts: o, lock: lock, book: newBook(),
		records: series{dir, "journal-", ".jsonl", o.KeepBytes, o.KeepFor},
		ended:   series{dir, "ended-", ".log", o.EndedBytes, o.KeepFor},
		loads:   loads{series: series{dir, "load-", ".log", o.LoadBytes, o.KeepFor}},
	}
	if err := j.start(); err != nil {
		_ = j.Close()
		return nil, fmt.Errorf("open journal in %s: %w", dir, err)
	}
	return j, nil
}

// takeLock locks the journal for writing. A writer that has just died may have left
// the lock to a child for a moment.
func takeLock(path string) (*os.File, error) {
	f, err := lockfile.Take(path, lockfile.Wait)
	if errors.Is(err, lockfile.ErrHeld) {
		return nil, ErrLocked
	}
	return f, err
}

// start reads what is there and opens both tails.
func (j *Journal) start() error {
	r, seg, err := replaySeries(j.records)
	if err != nil {
		return err
	}
	j.book = r.book
	if err := j.openPast(); err != nil {
		return err
	}
	if last := r.lastGone; last != nil && !j.isPast(last.ID) {
		_ = j.past.write(Pack(nil, last)) // the daemon died between the two lines
	}
	if seg == "" || r.boot != j.opts.Boot {
		j.closeBoot()
		return j.newSegment()
	}
	j.opened = r.opened
	j.tail, err = openTail(seg)
	return err
}

// closeBoot ends what an earlier boot left: no process of it is there.
func (j *Journal) closeBoot() {
	for _, v := range j.book.views() {
		v.State, v.End = model.Gone, v.SinceWall.Add(0)
		v.End = v.Start.Add(v.Elapsed)
		v.Reason = model.Reason{Code: model.CodeLost, Text: "the node was booted"}
		_ = j.past.write(Pack(nil, &v))
	}
	j.book.clear()
}

// Close releases the files and the lock. Nothing is lost without it.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return errors.Join(j.tail.close(), j.past.close(), j.loads.tail.close(), j.lock.Close())
}

// Append writes one record and gives it its number. An error is always a
// *Fault and means that the record is not on disk; whether to go on without is
// the caller's decision. A record that carries a tenant in state gone also
// enters the tenant's final view into the history.
//
// A record with a tenant alone, without event or action, refreshes what a
// restart would find.
func (j *Journal) Append(r model.Record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	r.Seq = j.book.seq + 1
	if r.Wall.IsZero() {
		r.Wall = j.opts.Now()
	}
	raw, err := rawTenant(r.Tenant)
	if err != nil {
		return j.failed(err)
	}
	j.buf, err = appendLine(j.buf[:0], r, raw)
	if err != nil {
		return j.failed(err)
	}
	if j.due(r.Wall) {
		err = j.rotate() // where it fails, the old file goes on
	}
	failpoint.At("journal.begun")
	if werr := j.tail.write(j.buf); werr != nil {
		err = werr
	}
	failpoint.At("journal.written")
	before := j.book.state(r.Tenant)
	j.book.take(lineOf(r, raw))
	if r.Tenant != nil && r.Tenant.State == model.Gone {
		err = errors.Join(err, j.enterPast(r, before))
	}
	if err != nil {
		return j.failed(err)
	}
	j.fault = ""
	failpoint.At("journal.done")
	return nil
}

func (j *Journal) failed(err error) *Fault {
	cause := rootCause(err)
	f := &Fault{Cause: err, Repeated: cause == j.fault}
	j.fault = cause
	return f
}

// rootCause names an error by its errno, so that the same cause at another
// offset or file is the same.
func rootCause(err error) string {
	var no unix.Errno
	if errors.As(err, &no) {
		return no.Error()
	}
	return err.Error()
}

// Fault tells why the last Append failed, "" if it did not.
func (j *Journal) Fault() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.fault
}

// Seq is the number of the newest record.
func (j *Journal) Seq() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.book.seq
}

func (j *Journal) due(now time.Time) bool {
	if j.tail.size < j.retry {
		return false
	}
	return j.tail.size >= j.opts.SegmentBytes || now.Sub(j.opened) >= j.opts.SegmentAge || j.displaced()
}

// lookEvery is how many records apart the journal looks whether its files are
// still where it put them.
const lookEvery = 64

// displaced tells whether somebody removed or replaced the newest file: what
// is written to it would be lost with the daemon.
func (j *Journal) displaced() bool {
	return j.book.seq%lookEvery == 0 && j.tail.f != nil && !sameFile(j.tail.f, j.tail.f.Name())
}

// rotateAgain is by how much a file grows before a failed rotation is tried
// again.
const rotateAgain = 256 << 10

func (j *Journal) rotate() error {
	if err := j.newSegment(); err != nil {
		j.retry = j.tail.size + rotateAgain
		return err
	}
	if j.past.f != nil && !sameFile(j.past.f, j.past.f.Name()) {
		_ = j.past.close()
		return j.openPast()
	}
	return nil
}

// newSegment starts a file with a checkpoint of the book, then forgets what is
// too old. The file appears whole or not at all.
func (j *Journal) newSegment() error {
	now := j.opts.Now()
	if err := os.MkdirAll(j.records.dir, 0o755); err != nil {
		return err
	}
	path := j.records.name(j.book.seq + 1)
	if err := writeWhole(path, j.book.head(j.opts.Boot, now)); err != nil {
		return err
	}
	t, err := openTail(path)
	if err != nil {
		return err
	}
	_ = j.tail.close()
	j.tail, j.retry, j.opened = t, 0, now
	j.records.prune(now)
	return nil
}
