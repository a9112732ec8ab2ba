package main

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gimbal-hpc/gimbal/helper/cmd/help"
)

// plugLine is a line of plugstack.conf.
type plugLine struct {
	file     string
	line     int
	required bool
	include  bool // path is a pattern of files that stand here
	path     string
	args     []string
}

func (l plugLine) place() string { return fmt.Sprintf("%s:%d", l.file, l.line) }

// readPlugstack finds the lines of a plugstack.conf, and of what it includes,
// that load our plugin; files are all that were read.
func (d *doctor) readPlugstack(path string, depth int) (lines []plugLine, files []string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	files = []string{path}
	for _, l := range parsePlugstack(path, string(text)) {
		base := filepath.Base(l.path)
		switch {
		case l.include && depth >= maxConfDepth:
			return nil, nil, fmt.Errorf("%s: includes go deeper than %d", l.place(), maxConfDepth)
		case l.include:
			more, mf, err := d.includePlugstack(path, l.path, depth)
			if err != nil {
				return nil, nil, err
			}
			lines, files = append(lines, more...), append(files, mf...)
		case strings.HasPrefix(base, "gimbal") && strings.HasSuffix(base, ".so"):
			lines = append(lines, l)
		}
	}
	return lines, files, nil
}

// parsePlugstack reads the lines of a plugstack.conf: required, optional or
// include, a path, and the plugin's arguments. Others are passed over, as
// Slurm passes them over with an error line.
func parsePlugstack(file, text string) []plugLine {
	var out []plugLine
	for i, raw := range strings.Split(text, "\n") {
		w := strings.Fields(uncomment(raw))
		if len(w) < 2 {
			continue
		}
		word := strings.ToLower(w[0])
		if word == "required" || word == "optional" || word == "include" {
			out = append(out, plugLine{file: file, line: i + 1, required: word == "required", include: word == "include", path: w[1], args: w[2:]})
		}
	}
	return out
}

// includePlugstack reads what a pattern finds. One that finds nothing is
// passed over, as Slurm does.
func (d *doctor) includePlugstack(from, pattern string, depth int) (lines []plugLine, files []string, err error) {
	pattern = d.besides(from, pattern)
	found, err := filepath.Glob(pattern)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: include %s: %w", from, pattern, err)
	}
	for _, f := range found {
		l, fs, err := d.readPlugstack(f, depth+1)
		if err != nil {
			return nil, nil, err
		}
		lines, files = append(lines, l...), append(files, fs...)
	}
	return lines, files, nil
}

// checkPlugstack looks at the line that loads the plugin, and at the plugin.
func (d *doctor) checkPlugstack() {
	file := d.conf.values["plugstackconfig"]
	switch {
	case file != "":
		file = d.path(file)
	case d.conf.dir != "":
		file = filepath.Join(d.conf.dir, "plugstack.conf")
	default:
		file = d.path("/etc/slurm/plugstack.conf")
	}
	lines, files, err := d.readPlugstack(file, 0)
	d.conf.files = append(d.conf.files, files...)
	switch {
	case err != nil && !errors.Is(err, os.ErrNotExist):
		d.problem("plugstack", "", "%v", err)
		return
	case len(lines) == 0:
		folder := filepath.Join(filepath.Dir(d.onHost(file)), "plugstack.conf.d")
		d.problem("plugstack", fmt.Sprintf("Have it 'include %s/*.conf', with 'optional gimbal.so' in %s/gimbal.conf alone, and restart slurmd", folder, folder), "no line of %s loads gimbal.so", file)
		return
	}
	d.plugFindings(lines)
	for _, so := range d.pluginFiles(lines) {
		d.checkPlugin(so)
	}
}

// plugFindings looks at the lines themselves.
func (d *doctor) plugFindings(lines []plugLine) {
	n := len(d.findings)
	if len(lines) > 1 {
		var places []string
		for _, l := range lines {
			places = append(places, l.place())
		}
		d.problem("plugstack", "Keep one of them: Slurm complains at each command", "gimbal.so is loaded %d times: %s", len(lines), strings.Join(places, ", "))
	}
	for _, l := range lines {
		if l.required {
			d.problem("plugstack", "Write optional: a job never fails because of Gimbal", "%s: gimbal.so is required", l.place())
		}
		d.plugArguments(l)
	}
	if len(d.findings) == n {
		d.ok("plugstack", "%s: optional %s", lines[0].place(), lines[0].path)
	}
}

func (d *doctor) plugArguments(l plugLine) {
	for name, want := range map[string]string{"socket": d.cfg.Socket.Path, "pending": d.cfg.Node.PendingDir} {
		said := argument(name, l.args)
		if said == "" {
			said = plugDefaults()[name]
		}
		if d.atNode(said) != d.atNode(want) && !d.login {
			d.problem("plugstack", fmt.Sprintf("Make both the same, such as %s=%s", name, want),
				"%s: the plugin uses %s=%s, gimbald %s", l.place(), name, said, want)
		}
	}
	for _, a := range l.args {
		name, _, _ := strings.Cut(a, "=")
		if known := []string{"socket", "pending", "timeout", "core"}; !slices.Contains(known, name) {
			d.warn("plugstack", "Known are "+strings.Join(known, ", "), "%s: the plugin does not know the argument %q%s", l.place(), a, help.Meant(name, known))
		}
	}
}

func plugDefaults() map[string]string {
	return map[string]string{"socket": "/run/gimbal/gimbald.sock", "pending": "/run/gimbal/pending"}
}

// argument is the value of NAME=VALUE among a line's arguments.
func argument(name string, args []string) string {
	for _, a := range args {
		if v, ok := strings.CutPrefix(a, name+"="); ok {
			return v
		}
	}
	return ""
}

// pluginFiles finds the file of each line, each once.
func (d *doctor) pluginFiles(lines []plugLine) []string {
	var out []string
	for _, l := range lines {
		so := d.pluginFile(l.path)
		if so == "" {
			d.problem("plugin", "Install the package for this Slurm, or remove the line: scripts with --gimbal-pack are refused, and each command complains",
				"%s names %s, which is not there", l.place(), l.path)
			continue
		}
		if core := argument("core", l.args); core != "" {
			d.checkCore(d.path(core))
		} else {
			d.checkCore(filepath.Join(filepath.Dir(so), "gimbal_core.so"))
		}
		if !slices.Contains(out, so) {
			out = append(out, so)
		}
	}
	return out
}

func (d *doctor) checkCore(path string) {
	if _, err := os.Stat(path); err != nil {
		d.problem("plugin", "Install it beside gimbal.so", "steps cannot be registered: %v", err)
	}
}

// pluginFile is where a plugin lies, "" if nowhere: Slurm looks for a name
// without a slash in its PluginDir.
func (d *doctor) pluginFile(name string) string {
	if strings.Contains(name, "/") {
		return existing(d.path(name))
	}
	dirs := filepath.SplitList(d.conf.values["plugindir"])
	if len(dirs) == 0 {
		dirs = []string{"/usr/lib/x86_64-linux-gnu/slurm-wlm", "/usr/lib/x86_64-linux-gnu/slurm", "/usr/lib64/slurm", "/usr/lib/slurm", "/usr/local/lib/slurm"}
	}
	for _, dir := range dirs {
		if p := existing(filepath.Join(d.path(dir), name)); p != "" {
			return p
		}
	}
	return ""
}

func existing(path string) string {
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// slurmVersion is a release of Slurm: a year, a month, and a number that does
// not matter to plugins.
type slurmVersion struct{ major, minor, micro int }

func (v slurmVersion) String() string { return fmt.Sprintf("%02d.%02d.%d", v.major, v.minor, v.micro) }
func (v slurmVersion) release() string {
	return fmt.Sprintf("%02d.%02d", v.major, v.minor)
}

// builtFor reads for which Slurm a plugin was built: the version that
// SPANK_PLUGIN leaves in it, and that Slurm compares with its own.
func builtFor(path string) (v slurmVersion, err error) {
	f, err := elf.Open(path)
	if err != nil {
		return v, fmt.Errorf("read %s: %w", path, err)
	}
	defer func() { _ = f.Close() }()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return v, fmt.Errorf("read %s: %w", path, err)
	}
	for _, s := range symbols {
		if s.Name != "plugin_version" || int(s.Section) >= len(f.Sections) || s.Size < 4 {
			continue
		}
		sec := f.Sections[s.Section]
		var b [4]byte
		if _, err := sec.ReadAt(b[:], int64(s.Value-sec.Addr)); err != nil {
			return v, fmt.Errorf("read plugin_version of %s: %w", path, err)
		}
		n := f.ByteOrder.Uint32(b[:])
		return slurmVersion{int(n >> 16), int(n >> 8 & 0xff), int(n & 0xff)}, nil
	}
	return v, fmt.Errorf("%s is no SPANK plugin: it has no plugin_version", path)
}

var versionPattern = regexp.MustCompile(`\b(\d\d)\.(\d\d)\.(\d+)`)

// runningSlurm asks Slurm's own commands which release this host runs.
func (d *doctor) runningSlurm() (v slurmVersion, from string, err error) {
	for _, name := range []string{"slurmd", "sinfo", "srun", "/usr/sbin/slurmd"} {
		if d.cfg.Slurm.Bin != "" && !strings.Contains(name, "/") {
			name = filepath.Join(d.cfg.Slurm.Bin, name)
		}
		out, cmdErr := d.ask(name, "-V")
		if m := versionPattern.FindStringSubmatch(out); cmdErr == nil && m != nil {
			v.major, _ = strconv.Atoi(m[1])
			v.minor, _ = strconv.Atoi(m[2])
			v.micro, _ = strconv.Atoi(m[3])
			return v, name + " -V", nil
		}
		if err == nil {
			err = cmdErr
		}
	}
	return v, "", err
}

// checkPlugin compares the Slurm that the plugin was built for with the one
// that is here.
func (d *doctor) checkPlugin(so string) {
	built, err := builtFor(so)
	if err != nil {
		d.problem("plugin", "Install the package for this Slurm", "%v", err)
		return
	}
	runs, from, err := d.runningSlurm()
	switch {
	case err != nil:
		d.unknown("plugin", "built for Slurm %s; which one this host runs cannot be told: %v", built, err)
	case built.release() != runs.release():
		d.problem("plugin", "Rebuild gimbal.so for Slurm "+runs.release()+", or install the package for it",
			"%s was built for Slurm %s, this host runs %s (%s), which refuses it", so, built, runs, from)
	default:
		d.ok("plugin", "%s was built for Slurm %s, this host runs %s", so, built, runs)
	}
}
