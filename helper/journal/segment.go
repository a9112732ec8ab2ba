package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/failpoint"
)

// series is a row of files whose names hold the number of their first line.
type series struct {
	dir, prefix, suffix string
	keepBytes           int64
	keepFor             time.Duration
}

// name is the path of the file that starts at number n.
func (s series) name(n uint64) string {
	return filepath.Join(s.dir, fmt.Sprintf("%s%020d%s", s.prefix, n, s.suffix))
}

// list returns the paths of the files, oldest first.
func (s series) list() ([]string, error) {
	all, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, e := range all {
		if _, ok := s.number(e.Name()); ok && e.Type().IsRegular() {
			paths = append(paths, filepath.Join(s.dir, e.Name()))
		}
	}
	sort.Strings(paths) // the numbers have a fixed width
	return paths, nil
}

// since lists the files without those whose lines all have a number below n.
func (s series) since(n uint64) ([]string, error) {
	paths, err := s.list()
	for len(paths) > 1 && s.startsBy(paths[1], n) {
		paths = paths[1:]
	}
	return paths, err
}

// startsBy tells whether a file's first line has at most the number n.
func (s series) startsBy(path string, n uint64) bool {
	first, ok := s.number(path[len(s.dir)+1:])
	return ok && first <= n
}

func (s series) number(name string) (uint64, bool) {
	digits, ok := strings.CutPrefix(name, s.prefix)
	if !ok {
		return 0, false
	}
	if digits, ok = strings.CutSuffix(digits, s.suffix); !ok || len(digits) != 20 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil
}

// prune removes the oldest files until the rest is small and young enough. The
// newest always stays. A file that cannot be removed is left to the next time.
func (s series) prune(now time.Time) {
	paths, err := s.list()
	if err != nil {
		return
	}
	total := int64(0)
	for i := len(paths) - 1; i >= 0; i-- {
		st, err := os.Stat(paths[i])
		if err != nil {
			continue
		}
		total += st.Size()
		if i < len(paths)-1 && (total > s.keepBytes || now.Sub(st.ModTime()) > s.keepFor) {
			_ = os.Remove(paths[i])
		}
	}
}

// tail is the end of a file that lines are written to.
type tail struct {
	f    *os.File
	size int64
	torn bool // bytes of a failed write lie beyond size
}

// openTail opens a file for appending and heals its last line: a whole one
// that lacks its newline gets it, a torn one is cut off.
func openTail(path string) (tail, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o640)
	if err != nil {
		return tail{}, err
	}
	size, err := lastNewline(f)
	if err == nil {
		err = f.Truncate(size)
	}
	if err != nil {
		_ = f.Close()
		return tail{}, fmt.Errorf("heal %s: %w", path, err)
	}
	return tail{f: f, size: size}, nil
}

// lastNewline finds the offset behind the last newline of a file.
func lastNewline(f *os.File) (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	buf := make([]byte, 64<<10)
	for end := st.Size(); end > 0; {
		from := max(end-int64(len(buf)), 0)
		n, err := f.ReadAt(buf[:end-from], from)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			return from + int64(i) + 1, nil
		}
		end = from
	}
	return 0, nil
}

// write adds whole lines by one write, or nothing.
func (t *tail) write(p []byte) error {
	if t.f == nil {
		return fs.ErrClosed
	}
	if t.torn {
		if err := t.f.Truncate(t.size); err != nil {
			return err
		}
		t.torn = false
	}
	if _, err := t.f.WriteAt(p, t.size); err != nil {
		t.torn = t.f.Truncate(t.size) != nil
		return err
	}
	t.size += int64(len(p))
	return nil
}

func (t *tail) close() error {
	if t.f == nil {
		return nil
	}
	f := t.f
	t.f = nil
	return f.Close()
}

// sameFile tells whether a path leads to an open file. Where that cannot be
// told it does not.
func sameFile(f *os.File, path string) bool {
	var open, there unix.Stat_t
	if unix.Fstat(int(f.Fd()), &open) != nil || unix.Lstat(path, &there) != nil {
		return false
	}
	return open.Ino == there.Ino && open.Dev == there.Dev
}

// writeWhole makes a file appear with its content, or not at all.
func writeWhole(path string, content []byte) error {
	temp := path + ".new"
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o640)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Close())
	failpoint.At("file.written")
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		_ = os.Remove(temp)
	}
	return err
}
