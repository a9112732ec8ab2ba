package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// DefaultPending is where requests are left while no daemon answers.
const DefaultPending = "/run/gimbal/pending"

// maxPending bounds how many files ReadPending takes up in one call; the rest
// is there for the next.
const maxPending = 4096

const pendingExt = ".json"

// Pending is a request that the plugin left because no daemon answered in
// time. The daemon may have seen it all the same, if only its reply was late:
// registrations and exits are to be taken up any number of times.
type Pending struct {
	At     time.Time       `json:"at"` // when it was left
	Op     Op              `json:"op"` // OpRegister, OpTaskExit or OpStepEnd
	Params json.RawMessage `json:"params"`
	Path   string          `json:"-"` // its file
}

// Request returns it as the request that it would have been.
func (p Pending) Request() Request { return Request{V: Version, Op: p.Op, Params: p.Params} }

// Remove deletes its file, once it has been taken up.
func (p Pending) Remove() error {
	if err := os.Remove(p.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// WritePending leaves a request in dir, which is created if missing: root's
// own, mode 0700. The file appears whole or not at all.
func WritePending(dir string, op Op, params any, now time.Time) error {
	if err := makePendingFolder(dir); err != nil {
		return fmt.Errorf("pending folder: %w", err)
	}
	raw, err := json.Marshal(params)
	if err != nil {
		return fmt.Errorf("pending %s: %w", op, err)
	}
	line, err := encodeLine(Pending{At: now, Op: op, Params: raw}, MaxRequest)
	if err != nil {
		return fmt.Errorf("pending %s: %w", op, err)
	}
	f, err := os.CreateTemp(dir, ".new-")
	if err != nil {
		return fmt.Errorf("pending %s: %w", op, err)
	}
	_, err = f.Write(line)
	if err = errors.Join(err, f.Close()); err == nil {
		// The names sort by time; the random part keeps them apart.
		random := strings.TrimPrefix(filepath.Base(f.Name()), ".new-")
		name := fmt.Sprintf("%020d-%s-%s%s", now.UnixNano(), op, random, pendingExt)
		err = os.Rename(f.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("pending %s: %w", op, err)
	}
	return nil
}

// ReadPending returns what was left in dir, the oldest first, at most some
// thousands at once. A folder that is not there holds nothing. A file that
// cannot be trusted or parsed is left out, with an error in the second result,
// and left where it is. A folder that is not to be trusted is one such error.
func ReadPending(dir string) ([]Pending, []error) {
	err := checkPendingFolder(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	if err == nil {
		names, err = pendingNames(dir)
	}
	if err != nil {
		return nil, []error{fmt.Errorf("pending folder: %w", err)}
	}
	var pending []Pending
	var bad []error
	for _, name := range names {
		p, err := readPendingFile(filepath.Join(dir, name))
		switch {
		case err == nil:
			pending = append(pending, p)
		case !errors.Is(err, fs.ErrNotExist):
			bad = append(bad, fmt.Errorf("pending file %s: %w", name, err))
		}
	}
	return pending, bad
}

func pendingNames(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	all, err := f.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	names := slices.DeleteFunc(all, func(name string) bool {
		return strings.HasPrefix(name, ".") || !strings.HasSuffix(name, pendingExt)
	})
	slices.Sort(names)
	return names[:min(len(names), maxPending)], nil
}

// readPendingFile reads a regular file of ours, that nobody else may write to.
func readPendingFile(path string) (Pending, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return Pending{}, err
	}
	defer func() { _ = f.Close() }()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return Pending{}, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return Pending{}, fmt.Errorf("it is %s, not a regular file", kind(st.Mode))
	}
	if st.Uid != uint32(os.Geteuid()) || st.Mode&0o022 != 0 {
		return Pending{}, fmt.Errorf("owner %d and mode %04o are not to be trusted", st.Uid, st.Mode&0o7777)
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxRequest+1))
	if err != nil {
		return Pending{}, err
	}
	return decodePending(data, path)
}

func decodePending(data []byte, path string) (Pending, error) {
	if len(data) > MaxRequest {
		return Pending{}, errLineTooLong
	}
	p := Pending{Path: path}
	if err := strictJSON(data, &p); err != nil {
		return Pending{}, err
	}
	switch p.Op {
	case OpRegister, OpTaskExit, OpStepEnd:
		return p, nil
	}
	return Pending{}, fmt.Errorf("op %q is none that is left for later", p.Op)
}

func makePendingFolder(dir string) error {
	err := checkPendingFolder(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := makeFolder(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return checkPendingFolder(dir)
}

func checkPendingFolder(dir string) error {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return &fs.PathError{Op: "lstat", Path: dir, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return fmt.Errorf("%s is %s, not a folder", dir, kind(st.Mode))
	}
	if perm := st.Mode & 0o7777; perm != 0o700 || st.Uid != uint32(os.Geteuid()) {
		return fmt.Errorf("folder %s has mode %04o and owner %d, must have 0700 and %d", dir, perm, st.Uid, os.Geteuid())
	}
	return nil
}
