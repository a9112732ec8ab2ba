package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// named is a file and the option that names it.
type named struct{ option, path string }

// apart finds an output that would overwrite an input, or another output. A path of
// "-" is standard input or output, and an empty one nothing.
func apart(inputs, outputs []named) error {
	for i, out := range outputs {
		for _, in := range inputs {
			if sameFile(standard(in.path, "/dev/stdin"), standard(out.path, "/dev/stdout")) {
				return fmt.Errorf("%s %s would overwrite what %s reads: name another file", out.option, out.path, in.option)
			}
		}
		for _, other := range outputs[:i] {
			switch {
			case out.path == "-" && other.path == "-":
				return fmt.Errorf("%s and %s would both be on standard output: name a file for one of them", other.option, out.option)
			case sameFile(standard(other.path, "/dev/stdout"), standard(out.path, "/dev/stdout")):
				return fmt.Errorf("%s and %s would both be written to %s: name two files", other.option, out.option, out.path)
			}
		}
	}
	return nil
}

// standard is where "-" leads.
func standard(path, stream string) string {
	if path == "-" {
		return stream
	}
	return path
}

// sameFile tells whether two paths lead to one file or folder, which need not be there
// yet. What is written to a device or a pipe overwrites nothing.
func sameFile(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	switch {
	case errX == nil && errY == nil:
		return os.SameFile(x, y) && x.Mode()&(fs.ModeDevice|fs.ModeNamedPipe|fs.ModeSocket) == 0
	case errX == nil || errY == nil:
		return false
	}
	return resolved(a) == resolved(b)
}

// resolved is the path of a file that is not there yet, without links in its folder.
func resolved(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(dir, filepath.Base(path))
	}
	return path
}

// writeTo writes a file, or to standard output where the path is "-". An error begins
// with what was done, such as "writing the page".
func writeTo(path string, stdout io.Writer, doing string, write func(io.Writer) error) error {
	if path == "-" {
		return write(stdout)
	}
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	b := bufio.NewWriter(f)
	if err := errors.Join(write(b), b.Flush(), f.Close()); err != nil {
		return fmt.Errorf("%s to %s: %w", doing, path, err)
	}
	return nil
}
