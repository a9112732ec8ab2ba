package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gimbal-hpc/gimbal/helper/config"
	"github.com/gimbal-hpc/gimbal/helper/learn"
)

const learntUsage = `Usage: gimbal learnt [OPTION]... [FILE]...

List how well jobs share a GPU, as nodes have learnt it, by user and name. FILE is
what gimbald of another node keeps; without one it is this node's own. Where
several know a job, the node that saw it last counts.

`

type learntFlags struct {
	config  string
	classes bool
}

func (l *learntFlags) set() *pflag.FlagSet {
	f := newFlags("learnt")
	f.StringVarP(&l.config, "config", "c", config.Path, "`FILE` of gimbald, for the folder where it keeps what it learnt")
	f.BoolVar(&l.classes, "classes", false, "as job_submit.lua reads it: UID CLASS NAME")
	return f
}

func runLearnt(args []string, w world) int {
	var l learntFlags
	f := l.set()
	if code, over := parse(f, args, w, learntUsage, func() error { return nil }); over {
		return code
	}
	jobs, err := l.read(f.Args())
	if err != nil {
		return failure(w, "learnt", err)
	}
	l.write(w.stdout, jobs)
	return exitOK
}

func (l *learntFlags) read(files []string) ([]learn.Classed, error) {
	if len(files) == 0 {
		own, err := l.own()
		if err != nil {
			return nil, err
		}
		files = []string{own}
	}
	var nodes [][]learn.Kept
	for _, file := range files {
		text, err := readMost(file, learn.MaxFile)
		if err != nil {
			return nil, err
		}
		kept, err := learn.Decode(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		nodes = append(nodes, kept)
	}
	return learn.Classes(nodes...), nil
}

// own is the file of this node's gimbald, or of the user's own daemon where there
// is no gimbald.
func (l *learntFlags) own() (string, error) {
	c, _, err := config.Load(l.config)
	if err != nil {
		return "", err
	}
	var from source
	from.at(c)
	from.place()
	file := filepath.Join(from.state, "learnt")
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("gimbald has learnt of no job here yet: %w", err)
	}
	return file, nil
}

// readMost reads a file of at most so many bytes, and one more to tell.
func readMost(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, most+1))
}

func (l *learntFlags) write(out io.Writer, jobs []learn.Classed) {
	if !l.classes {
		fmt.Fprintf(out, "%-8s %-7s %6s %6s  %s\n", "UID", "Class", "Pair", "SM", "JobName")
	}
	for _, j := range jobs {
		if l.classes {
			fmt.Fprintf(out, "%d %s %s\n", j.UID, j.Class, plainName(j.Name))
			continue
		}
		fmt.Fprintf(out, "%-8d %-7s %6s %6s  %s\n", j.UID, j.Class, orBlank(j.Gain), orBlank(j.SM), clean(j.Name))
	}
}

func orBlank(x float64) string {
	if x == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", x)
}

// plainName writes every byte of a name that is no ASCII letter, digit, dot, dash
// or underscore as %XX, so that it is one word.
func plainName(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if c < 0x80 && (c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("._-", c) >= 0) {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, "%%%02X", c)
	}
	return b.String()
}
