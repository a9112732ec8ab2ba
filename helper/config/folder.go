package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// TrustedFolder returns an error where others than root and the caller can put
// something into a folder, or another folder in its place: what lies in it is believed.
// One that is not there yet is as good as the one that it will be made in.
func TrustedFolder(dir string) error { return trustedPath(dir, false) }

// trustedPath checks a folder and those above it, to the root. In these, and with sticky in
// it too, others may write as far as they can replace nothing that is not theirs.
func trustedPath(dir string, sticky bool) error {
	real, err := filepath.EvalSymlinks(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) && filepath.Dir(dir) != dir:
		return trustedPath(filepath.Dir(dir), true)
	case err != nil:
		return fmt.Errorf("look at the folder %s: %w", dir, err)
	}
	for {
		if err := oursAlone(real, sticky); err != nil || real == filepath.Dir(real) {
			return err
		}
		real, sticky = filepath.Dir(real), true
	}
}

// oursAlone checks one folder. With sticky others may write to it as far as they can
// replace nothing that is not theirs.
func oursAlone(dir string, sticky bool) error {
	st, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("look at the folder: %w", err)
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	switch {
	case !st.IsDir():
		return fmt.Errorf("%s is not a folder", dir)
	case ok && sys.Uid != 0 && int(sys.Uid) != os.Geteuid():
		return fmt.Errorf("folder %s belongs to uid %d, neither root nor the user who runs this", dir, sys.Uid)
	case st.Mode().Perm()&0o022 != 0 && !(sticky && st.Mode()&fs.ModeSticky != 0):
		return fmt.Errorf("folder %s may be written to by others than its owner (mode %04o); chmod go-w it", dir, st.Mode().Perm())
	}
	return nil
}
