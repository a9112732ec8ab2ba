package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// maxFile is the largest file that is read.
const maxFile = 1 << 20

// Load reads a gimbald.toml. A file that is not there gives the defaults. The
// error is the first mistake in the file, with its line; warnings are what is
// allowed but likely to hurt. Nothing of a file with a mistake is used.
func Load(path string) (c *Config, warnings []string, err error) {
	text, err := readTrusted(path)
	if errors.Is(err, fs.ErrNotExist) {
		text = ""
	} else if err != nil {
		return nil, nil, err
	}
	return Parse(path, text)
}

// Parse reads the text of a gimbald.toml; file is its name, for errors.
func Parse(file, text string) (*Config, []string, error) {
	d, err := parse(file, text)
	if err != nil {
		return nil, nil, err
	}
	if err := d.checkSchema(); err != nil {
		return nil, nil, err
	}
	c := Default()
	if err := d.decode(c); err != nil {
		return nil, nil, err
	}
	if err := c.validate(&decoder{doc: d}); err != nil {
		return nil, nil, err
	}
	c.src = d
	return c, c.warnings(d), nil
}

// checkSchema gives one clear error for a file of another version, where every
// new key would be one.
func (d *document) checkSchema() error {
	v, ok := d.tree["schema"]
	if !ok || v == int64(Schema) {
		return nil
	}
	return &Error{File: d.file, Line: d.line("schema"),
		Msg: fmt.Sprintf("schema = %v: this program reads schema = %d", v, Schema)}
}

// readTrusted reads a file that only its owner, root or the caller, can have
// written: what stands in it is done as root.
func readTrusted(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", fmt.Errorf("read the configuration: %w", err)
	}
	defer func() { _ = f.Close() }()
	st, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("read the configuration: %w", err)
	}
	if err := trusted(st); err != nil {
		return "", &Error{File: path, Msg: err.Error()}
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return "", fmt.Errorf("read the configuration %s: %w", path, err)
	}
	if len(b) > maxFile {
		return "", &Error{File: path, Msg: "is larger than 1 MiB"}
	}
	return string(b), nil
}

// Trusted returns an error where a file is not one that gimbald would read: not
// a regular one, or one that others than its owner, root or the caller, can write.
func Trusted(path string) error {
	st, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("look at the policy: %w", err)
	}
	if err := trusted(st); err != nil {
		return &Error{File: path, Msg: err.Error()}
	}
	return nil
}

func trusted(st fs.FileInfo) error {
	sys, ok := st.Sys().(*syscall.Stat_t)
	switch {
	case !st.Mode().IsRegular():
		return errors.New("is not a regular file")
	case st.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("may be written by others than its owner (mode %04o); chmod go-w it", st.Mode().Perm())
	case ok && sys.Uid != 0 && int(sys.Uid) != os.Geteuid():
		return fmt.Errorf("belongs to uid %d, neither root nor the user who reads it", sys.Uid)
	}
	return nil
}
