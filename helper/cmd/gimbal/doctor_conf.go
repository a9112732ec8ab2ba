package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// confLine is one line of a file in slurm.conf's form.
type confLine struct {
	file  string
	line  int
	pairs []confPair
}

// confPair is KEY=VALUE; the key is in lower case, as Slurm does not tell case.
type confPair struct{ key, value string }

// get is the value of a key, "" where the line has none.
func (l confLine) get(key string) string {
	for _, p := range l.pairs {
		if p.key == key {
			return p.value
		}
	}
	return ""
}

func (l confLine) place() string { return fmt.Sprintf("%s:%d", l.file, l.line) }

// maxConfDepth bounds includes in includes.
const maxConfDepth = 8

// readConf reads a file in slurm.conf's form with what it includes.
func (d *doctor) readConf(path string, depth int) ([]confLine, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out []confLine
	for _, l := range parseConf(path, string(text)) {
		inc := l.get("include")
		if inc == "" {
			out = append(out, l)
			continue
		}
		inc = d.besides(path, inc)
		if depth >= maxConfDepth {
			return nil, fmt.Errorf("%s: includes go deeper than %d", l.place(), maxConfDepth)
		}
		more, err := d.readConf(inc, depth+1)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", l.place(), err)
		}
		out = append(out, more...)
	}
	return out, nil
}

// parseConf reads the lines of a text in slurm.conf's form: KEY=VALUE, quotes
// around values with spaces, # before a comment, \ before a line that goes on.
// "Include FILE" comes as a pair of the key include.
func parseConf(file, text string) []confLine {
	var out []confLine
	whole, start := "", 0
	for i, raw := range strings.Split(text, "\n") {
		if whole == "" {
			start = i + 1
		}
		line := strings.TrimRight(uncomment(raw), " \t\r")
		if rest, more := strings.CutSuffix(line, `\`); more {
			whole += rest + " "
			continue
		}
		whole += line
		if pairs := parsePairs(whole); len(pairs) > 0 {
			out = append(out, confLine{file, start, pairs})
		}
		whole = ""
	}
	return out
}

// uncomment cuts a line at the first # that no backslash stands before.
func uncomment(s string) string {
	for i := range len(s) {
		if s[i] == '#' && (i == 0 || s[i-1] != '\\') {
			return s[:i]
		}
	}
	return s
}

func parsePairs(line string) []confPair {
	var out []confPair
	words := splitQuoted(line)
	for i, w := range words {
		key, value, ok := strings.Cut(w, "=")
		if !ok && strings.EqualFold(w, "include") && i+1 < len(words) {
			return []confPair{{"include", words[i+1]}}
		}
		if ok && key != "" {
			out = append(out, confPair{strings.ToLower(key), value})
		}
	}
	return out
}

// splitQuoted splits at blanks outside double quotes, which it takes away.
func splitQuoted(s string) []string {
	var out []string
	var word strings.Builder
	in, any := false, false
	end := func() {
		if any {
			out = append(out, word.String())
		}
		word.Reset()
		any = false
	}
	for _, r := range s {
		switch {
		case r == '"':
			in, any = !in, true
		case !in && (r == ' ' || r == '\t'):
			end()
		default:
			word.WriteRune(r)
			any = true
		}
	}
	end()
	return out
}

// maxNames bounds what one expression may stand for.
const maxNames = 1 << 16

// expandNames lists what Slurm's short form stands for: n[0-2,07],x or
// /dev/nvidia[0-3]. What cannot be read stands for itself.
func expandNames(s string) []string {
	var out []string
	for _, item := range splitOutside(s) {
		out = append(out, expandName(item)...)
		if len(out) > maxNames {
			return out[:maxNames]
		}
	}
	return out
}

func expandName(s string) []string {
	open := strings.IndexByte(s, '[')
	length := strings.IndexByte(s[max(open, 0):], ']')
	if open < 0 || length < 0 {
		return []string{s}
	}
	var out []string
	rests := expandName(s[open+length+1:])
	for _, part := range strings.Split(s[open+1:open+length], ",") {
		numbers, ok := expandRange(part)
		if !ok {
			return []string{s}
		}
		for _, n := range numbers {
			for _, rest := range rests {
				if len(out) >= maxNames {
					return out
				}
				out = append(out, s[:open]+n+rest)
			}
		}
	}
	return out
}

// expandRange lists 0-3 or 07, with the zeros of the lower end.
func expandRange(s string) ([]string, bool) {
	low, high, isRange := strings.Cut(s, "-")
	from, err := strconv.ParseUint(low, 10, 31)
	to := from
	if err == nil && isRange {
		to, err = strconv.ParseUint(high, 10, 31)
	}
	if err != nil || to < from || to-from >= maxNames {
		return nil, false
	}
	var out []string
	for n := from; n <= to; n++ {
		out = append(out, fmt.Sprintf("%0*d", len(low), n))
	}
	return out, true
}

// slurmConf is what Slurm's files say.
type slurmConf struct {
	dir       string // "": found none
	files     []string
	lines     []confLine // of slurm.conf
	values    map[string]string
	places    map[string]string // where a value stands, FILE:LINE
	node      map[string]string // of this node's NodeName lines, defaults included
	nodeName  string
	nodeFound bool
	nodePlace string
	asked     bool // scontrol, which is on this host
}

// readSlurm finds and reads slurm.conf.
func (d *doctor) readSlurm() slurmConf {
	c := slurmConf{values: map[string]string{}, places: map[string]string{}, node: map[string]string{}}
	c.dir = d.slurmDir()
	if c.dir == "" {
		d.askSlurm(&c)
		return c
	}
	file := filepath.Join(c.dir, "slurm.conf")
	lines, err := d.readConf(file, 0)
	if err != nil {
		d.problem("slurm.conf", "", "%v", err)
		return c
	}
	c.lines = lines
	c.files = append(c.files, file)
	for _, l := range lines {
		first := l.pairs[0]
		if first.key != "nodename" && first.key != "partitionname" && first.key != "nodeset" && first.key != "downnodes" {
			c.values[first.key], c.places[first.key] = first.value, l.place()
		}
	}
	c.findNode(d.nodeNames())
	return c
}

// askSlurm gets from slurmctld what no file on this host says.
func (d *doctor) askSlurm(c *slurmConf) {
	out, err := d.ask("scontrol", "show", "config")
	if errors.Is(err, exec.ErrNotFound) && !d.hasSlurm() {
		return
	}
	c.asked = true
	if err != nil {
		d.warn("slurm.conf", "Say where it is: --slurm-conf DIR", "no slurm.conf was found, and %v", err)
		return
	}
	for line := range strings.Lines(out) {
		key, value, ok := strings.Cut(line, "=")
		if value = strings.TrimSpace(value); ok && value != "(null)" {
			c.values[strings.ToLower(strings.TrimSpace(key))] = strings.TrimSuffix(value, " sec")
		}
	}
	for _, name := range d.nodeNames() {
		out, err := d.ask("scontrol", "show", "node", "--oneliner", name)
		if pairs := parsePairs(strings.TrimSpace(out)); err == nil && len(pairs) > 0 {
			c.nodeName, c.nodeFound, c.nodePlace = name, true, "scontrol show node"
			for _, p := range pairs {
				c.node[p.key] = p.value
			}
			return
		}
	}
}

// slurmDir is the folder of slurm.conf: as told, of SLURM_CONF, where
// distributions put it, where a slurmd without files of its own keeps it.
func (d *doctor) slurmDir() string {
	dirs := []string{d.path("/etc/slurm"), d.path("/etc/slurm-llnl"), d.path("/usr/local/etc/slurm"), d.path("/run/slurm/conf"), d.path("/var/spool/slurmd/conf-cache")}
	if f := d.w.env("SLURM_CONF"); f != "" {
		dirs = []string{filepath.Dir(f)}
	}
	if d.cfg.Slurm.Conf != "" {
		dirs = []string{d.path(filepath.Dir(d.cfg.Slurm.Conf))}
	}
	if d.slurm != "" {
		return d.slurm
	}
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, "slurm.conf")); err == nil {
			return dir
		}
	}
	return ""
}

// findNode takes this node's line, with the defaults above it.
func (c *slurmConf) findNode(names []string) {
	defaults := map[string]string{}
	for _, l := range c.lines {
		name := l.get("nodename")
		if name == "" {
			continue
		}
		if strings.EqualFold(name, "DEFAULT") {
			for _, p := range l.pairs[1:] {
				defaults[p.key] = p.value
			}
			continue
		}
		which := matchNode(l, names)
		if which == "" {
			continue
		}
		for k, v := range defaults {
			c.node[k] = v
		}
		for _, p := range l.pairs[1:] {
			c.node[p.key] = p.value
		}
		c.nodeName, c.nodeFound, c.nodePlace = which, true, l.place()
		return
	}
}

// at tells where a value stands, for a finding.
func (c *slurmConf) at(key string) string {
	if p := c.places[key]; p != "" {
		return p
	}
	if c.dir == "" {
		return "scontrol show config"
	}
	return filepath.Join(c.dir, "slurm.conf")
}
