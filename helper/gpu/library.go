package gpu

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/NVIDIA/go-nvml/pkg/dl"
)

// probe tells whether a library is there and is NVML. The bindings would end
// the process at the first call of one that is not.
func probe(path string) error {
	lib := dl.New(path, dl.RTLD_LAZY|dl.RTLD_LOCAL)
	if err := lib.Open(); err != nil {
		return fmt.Errorf("driver library not found: %w", err)
	}
	defer func() { _ = lib.Close() }()
	for _, symbol := range []string{"nvmlInit_v2", "nvmlShutdown"} {
		if err := lib.Lookup(symbol); err != nil {
			return fmt.Errorf("%s is not NVML, or too old: it lacks %s", path, symbol)
		}
	}
	return nil
}

// replaced tells whether the file of a library that is loaded has been
// replaced since. A process cannot change to the new one: its calls are bound
// to the old.
func replaced(path string) bool {
	base, _, _ := strings.Cut(filepath.Base(path), ".so")
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		w := strings.Fields(lines.Text())
		if len(w) < 6 || !strings.HasPrefix(filepath.Base(w[5]), base+".so") {
			continue
		}
		if w[len(w)-1] == "(deleted)" {
			return true
		}
		return changed(filepath.Join(filepath.Dir(w[5]), filepath.Base(path)), w[4])
	}
	return false
}

// changed tells whether a path leads to a file other than the one of the inode.
func changed(path, inode string) bool {
	st, err := os.Stat(path)
	if err != nil {
		return false
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && fmt.Sprint(sys.Ino) != inode
}
