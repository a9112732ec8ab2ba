package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// A user without a gimbald of root's runs one of his own, for the commands that
// he starts with gimbal run. Its files lie in his runtime folder.

// PrivateSocket is where the daemon of a user's own listens: below
// XDG_RUNTIME_DIR where that is his alone, else below /tmp/gimbal-UID. env reads
// the user's environment.
func PrivateSocket(env func(string) string, uid int) string {
	return filepath.Join(privateBase(env, uid), "gimbal", "gimbald.sock")
}

// PrivateState is the folder of that daemon's journal.
func PrivateState(socket string) string { return filepath.Join(filepath.Dir(socket), "state") }

func privateBase(env func(string) string, uid int) string {
	if dir := env("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) && ownAlone(dir, uid) == nil {
		return dir
	}
	return "/tmp/gimbal-" + strconv.Itoa(uid)
}

// ownAlone tells whether a folder belongs to a user and is open to nobody else.
func ownAlone(dir string, uid int) error {
	st, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok || !st.IsDir() || int(sys.Uid) != uid || st.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s is not a folder of uid %d alone (mode 0700)", dir, uid)
	}
	return nil
}

// MakePrivate makes sure that the folder of a user's own daemon is there, and
// that nobody else can have put anything into it.
func MakePrivate(socket string, uid int) error {
	base := filepath.Dir(filepath.Dir(socket))
	if err := os.Mkdir(base, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make the runtime folder: %w", err)
	}
	if err := ownAlone(base, uid); err != nil {
		return fmt.Errorf("runtime folder: %w", err)
	}
	dir := filepath.Dir(socket)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make the runtime folder: %w", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // the umask may have taken bits away
		return fmt.Errorf("runtime folder: %w", err)
	}
	return nil
}

// PrivateFile is the configuration of a user's own daemon: a file of his, else
// the site's.
func PrivateFile(env func(string) string) string {
	dir := env("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(env("HOME"), ".config")
	}
	own := filepath.Join(dir, "gimbal", "gimbald.toml")
	if _, err := os.Stat(own); err == nil && filepath.IsAbs(own) {
		return own
	}
	return Path
}

// MakePrivate puts everything that a user's own daemon writes beside its socket,
// and lets him alone in.
func (c *Config) MakePrivate(socket, host string) {
	c.Socket = Socket{Path: socket, Mode: 0o600}
	c.Node = Node{Name: host, StateDir: PrivateState(socket), PendingDir: filepath.Join(filepath.Dir(socket), "pending")}
	c.Access = Access{Private: PrivateOn, Operators: []string{}}
	c.Run.Allow = RunYes
	c.Metrics.Textfile, c.Metrics.Listen, c.Slurm.AdminComment = "", "", false
}
