package journal

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// The file of a stop set begins with a header of fixed width, in which the
// generation is overwritten in place:
//
//	gimbal-stopped 1 00000000000000000007 BOOT
//	+ "123@1" 4711:99321 4712:99325 "/sys/fs/cgroup/..." ~1a2b3c4d
//	h "124@1" 4801:99388 ~9c0d1e2f
//	- "123@1" ~5e6f7a8b
//
// where h marks a tenant that is held before its first run.
//
// Each line ends in its own checksum: what a crash tore is not taken for a
// shorter set of processes. A line is whole before the stop that it tells of
// begins, so that a torn one tells of none.
const stopMagic = "gimbal-stopped 1 "

const genDigits = 20

func headerLen(boot string) int64 { return int64(len(stopMagic) + genDigits + 1 + len(boot) + 1) }

func appendHeader(b []byte, gen uint64, boot string) []byte {
	return fmt.Appendf(b, "%s%0*d %s\n", stopMagic, genDigits, gen, boot)
}

func appendAdd(b []byte, t model.TenantID, e Stopped) []byte {
	from := len(b)
	op := "+ "
	if e.Held {
		op = "h "
	}
	b = append(b, op...)
	b = strconv.AppendQuote(b, string(t))
	for _, id := range e.Procs {
		b = append(b, ' ')
		b = strconv.AppendInt(b, int64(id.PID), 10)
		b = append(b, ':')
		b = strconv.AppendUint(b, id.Start, 10)
	}
	for _, c := range e.Cgroups {
		b = append(b, ' ')
		b = strconv.AppendQuote(b, c)
	}
	return appendSum(b, from)
}

func appendRemove(b []byte, t model.TenantID) []byte {
	from := len(b)
	b = append(b, "- "...)
	return appendSum(strconv.AppendQuote(b, string(t)), from)
}

func appendSum(b []byte, from int) []byte {
	return fmt.Appendf(b, " ~%08x\n", crc32.ChecksumIEEE(b[from:]))
}

var errTorn = errors.New("torn or damaged")

// parseStopSet reads a whole file. Lines that are not whole are counted.
func parseStopSet(b []byte) StopState {
	st := StopState{Tenants: map[model.TenantID]Stopped{}}
	first, rest, _ := bytes.Cut(b, []byte("\n"))
	var err error
	if st.Generation, st.Boot, err = parseHeader(string(first)); err != nil {
		if len(b) > 0 {
			st.Skipped++
		}
		rest = b
	}
	for len(rest) > 0 {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte("\n"))
		if st.take(string(line)) != nil {
			st.Skipped++
		}
	}
	return st
}

func parseHeader(s string) (gen uint64, boot string, err error) {
	s, ok := strings.CutPrefix(s, stopMagic)
	if !ok || len(s) < genDigits+1 || s[genDigits] != ' ' {
		return 0, "", errTorn
	}
	gen, err = strconv.ParseUint(s[:genDigits], 10, 64)
	return gen, s[genDigits+1:], err
}

// take enters one line.
func (st *StopState) take(s string) error {
	s, err := checkSum(s)
	if err != nil || len(s) < 2 {
		return errTorn
	}
	op, s := s[:2], s[2:]
	name, s, err := unquote(s)
	if err != nil {
		return err
	}
	t := model.TenantID(name)
	switch op {
	case "- ":
		delete(st.Tenants, t)
		return nil
	case "+ ", "h ":
		more, err := parseStopped(s)
		st.Tenants[t] = st.Tenants[t].and(more, op == "h ")
		return err
	}
	return errTorn
}

func checkSum(s string) (string, error) {
	i := strings.LastIndex(s, " ~")
	if i < 0 {
		return "", errTorn
	}
	sum, err := strconv.ParseUint(s[i+2:], 16, 32)
	if err != nil || uint32(sum) != crc32.ChecksumIEEE([]byte(s[:i])) {
		return "", errTorn
	}
	return s[:i], nil
}

func unquote(s string) (text, rest string, err error) {
	q, err := strconv.QuotedPrefix(s)
	if err != nil {
		return "", "", err
	}
	text, err = strconv.Unquote(q)
	return text, strings.TrimPrefix(s[len(q):], " "), err
}

// parseStopped reads the rest of a line.
func parseStopped(s string) (Stopped, error) {
	var e Stopped
	for s != "" {
		if s[0] == '"' {
			c, rest, err := unquote(s)
			if err != nil {
				return e, err
			}
			e.Cgroups, s = append(e.Cgroups, c), rest
			continue
		}
		var one string
		one, s, _ = strings.Cut(s, " ")
		id, err := parseProc(one)
		if err != nil {
			return e, err
		}
		e.Procs = append(e.Procs, id)
	}
	return e, nil
}

func parseProc(s string) (model.ProcID, error) {
	pid, start, ok := strings.Cut(s, ":")
	if !ok {
		return model.ProcID{}, errTorn
	}
	p, err := strconv.Atoi(pid)
	if err != nil || p <= 0 {
		return model.ProcID{}, errTorn
	}
	t, err := strconv.ParseUint(start, 10, 64)
	return model.ProcID{PID: p, Start: t}, err
}

func readGeneration(f *os.File) (uint64, error) {
	var b [genDigits]byte
	if _, err := f.ReadAt(b[:], int64(len(stopMagic))); err != nil {
		return 0, err
	}
	return strconv.ParseUint(string(b[:]), 10, 64)
}

// writeGeneration overwrites the generation in place.
func writeGeneration(path string, gen uint64) error {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if _, err := f.ReadAt(make([]byte, len(stopMagic)+genDigits), 0); err != nil {
		return nil // no header to overwrite: nobody has it open as a stop set
	}
	_, err = f.WriteAt(fmt.Appendf(nil, "%0*d", genDigits, gen), int64(len(stopMagic)))
	return err
}
