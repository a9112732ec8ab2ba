package cuda

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// DefaultMargin is the host RAM that has to be left beside what a swap brings.
const DefaultMargin = model.GiB

// Host is where host RAM is looked up. The zero value is this machine.
type Host struct {
	Proc   string      // in place of /proc
	Cgroup string      // in place of /sys/fs/cgroup
	Margin model.Bytes // to be left free; 0: DefaultMargin
}

// Room returns nil if the host and every cgroup around a process have memory
// for need more bytes and the margin. The error wraps ErrNoRoom if one of them
// has not. What cannot be read does not count as room: that is an error too.
func (h Host) Room(pid int, need model.Bytes) error {
	margin := h.Margin
	if margin == 0 {
		margin = DefaultMargin
	}
	free, where, err := h.Headroom(pid)
	if err != nil {
		return fmt.Errorf("host memory for process %d: %w", pid, err)
	}
	if need < 0 || need > math.MaxInt64-margin || need+margin > free {
		return fmt.Errorf("%w in host RAM: %v and a margin of %v, but %s has %v free", ErrNoRoom, need, margin, where, free)
	}
	return nil
}

// Headroom returns how much more memory a process may fill, in bytes: the least
// of what the host has available and what is left in each cgroup around the
// process, caches that can be dropped counted as free. where names which one.
func (h Host) Headroom(pid int) (free model.Bytes, where string, err error) {
	free, err = h.available()
	if err != nil {
		return 0, "", err
	}
	m, err := h.memoryCgroup(pid)
	if err != nil {
		return 0, "", err
	}
	where = "the host"
	for path := m.path; ; path = filepath.Dir(path) {
		left, limited, err := m.left(path)
		if err != nil {
			return 0, "", err
		}
		if limited && left < free {
			free, where = left, "cgroup "+path
		}
		if path == "/" {
			return max(free, 0), where, nil
		}
	}
}

func (h Host) available() (model.Bytes, error) {
	path := filepath.Join(or(h.Proc, "/proc"), "meminfo")
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	kib, ok := field(text, "MemAvailable:")
	if !ok || kib > math.MaxInt64>>10 {
		return 0, fmt.Errorf("read %s: no MemAvailable", path)
	}
	return model.Bytes(kib) << 10, nil
}

// memory is a process's place in the hierarchy that accounts for memory.
type memory struct {
	root     string   // of the hierarchy
	path     string   // in it, from "/"
	limits   []string // files
	usage    string   // file
	cache    string   // field of memory.stat
	optional bool     // version 2 has no files in its root and where the controller is off
}

func (h Host) memoryCgroup(pid int) (memory, error) {
	name := filepath.Join(or(h.Proc, "/proc"), strconv.Itoa(pid), "cgroup")
	text, err := os.ReadFile(name)
	if err != nil {
		return memory{}, err
	}
	root := or(h.Cgroup, "/sys/fs/cgroup")
	path, v1, err := parseCgroup(string(text))
	if err != nil {
		return memory{}, fmt.Errorf("read %s: %w", name, err)
	}
	if v1 {
		return memory{root: filepath.Join(root, "memory"), path: path, limits: []string{"memory.limit_in_bytes"},
			usage: "memory.usage_in_bytes", cache: "total_inactive_file"}, nil
	}
	if _, err := os.Stat(filepath.Join(root, "unified")); err == nil {
		root = filepath.Join(root, "unified")
	}
	return memory{root: root, path: path, limits: []string{"memory.max", "memory.high"},
		usage: "memory.current", cache: "inactive_file", optional: true}, nil
}

var errCgroup = errors.New("no cgroup that accounts for memory")

// parseCgroup finds in the text of /proc/PID/cgroup where a process's memory is
// accounted for: in the memory controller's hierarchy of version 1, or else in
// that of version 2.
func parseCgroup(text string) (path string, v1 bool, err error) {
	for line := range strings.Lines(text) {
		w := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(w) != 3 {
			continue
		}
		isV1 := false
		for controller := range strings.SplitSeq(w[1], ",") {
			isV1 = isV1 || controller == "memory"
		}
		if isV1 || (w[0] == "0" && w[1] == "" && !v1) {
			path, v1 = w[2], isV1
		}
	}
	// A path with ".." lies outside of what this process can see.
	if !strings.HasPrefix(path, "/") || path != filepath.Clean(path) || strings.HasPrefix(path, "/..") {
		return "", false, errCgroup
	}
	return path, v1, nil
}

// left returns how much may still be filled in one cgroup, and whether it has a
// limit.
func (m memory) left(path string) (left model.Bytes, limited bool, err error) {
	dir := filepath.Join(m.root, path)
	limit := int64(math.MaxInt64)
	for _, name := range m.limits {
		v, err := readLimit(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) && m.optional {
			if _, err = os.Stat(dir); err == nil {
				continue
			}
		}
		if err != nil {
			return 0, false, err
		}
		limit = min(limit, v)
	}
	if limit >= unlimited {
		return 0, false, nil
	}
	used, err := readLimit(filepath.Join(dir, m.usage))
	if err != nil {
		return 0, false, err
	}
	used -= min(used, m.droppable(dir))
	return model.Bytes(limit - used), true, nil
}

// unlimited is the least value that counts as no limit: version 1 gives the
// largest multiple of its page size.
const unlimited = 1 << 62

// readLimit reads a file that holds a number of bytes or "max".
func readLimit(path string) (int64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	v, ok := parseLimit(string(text))
	if !ok {
		return 0, fmt.Errorf("read %s: not a size: %.40q", path, text)
	}
	return v, nil
}

func parseLimit(text string) (int64, bool) {
	text = strings.TrimSpace(text)
	if text == "max" {
		return math.MaxInt64, true
	}
	v, err := strconv.ParseInt(text, 10, 64)
	return v, err == nil && v >= 0
}

// droppable is the cache that the kernel gives up first when a cgroup fills up.
// Where it cannot be read it is none.
func (m memory) droppable(dir string) int64 {
	text, err := os.ReadFile(filepath.Join(dir, "memory.stat"))
	if err != nil {
		return 0
	}
	v, ok := field(text, m.cache)
	if !ok || v > math.MaxInt64 {
		return 0
	}
	return int64(v)
}

// field returns the number that follows a word at the start of a line.
func field(text []byte, word string) (uint64, bool) {
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		w := strings.Fields(lines.Text())
		if len(w) >= 2 && w[0] == word {
			v, err := strconv.ParseUint(w[1], 10, 64)
			return v, err == nil
		}
	}
	return 0, false
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
