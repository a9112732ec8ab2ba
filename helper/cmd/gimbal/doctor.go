package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/gimbal-hpc/gimbal/helper/config"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/report"
	"github.com/gimbal-hpc/gimbal/helper/wire"
)

const doctorUsage = `Usage: gimbal doctor [OPTION]...

Look over this host and say what keeps Gimbal from working well, a line each:
ok, warning or problem, and how to mend it. A host without slurmd, GPU and
gimbald.toml counts as a login host, where only the plugin matters.

`

// doctorSchema names the form of --json. Keys are only ever added under it.
const doctorSchema = "gimbal.doctor/1"

// The levels of a finding.
const (
	levelOK      = "ok"
	levelWarning = "warning" // works, but not well
	levelProblem = "problem" // does not work
	levelUnknown = "unknown" // cannot be told from here
)

// finding is what one look gave.
type finding struct {
	Check string `json:"check"`
	Level string `json:"level"`
	Text  string `json:"text"`
	Mend  string `json:"mend,omitempty"`
}

// doctor looks over a host.
type doctor struct {
	source
	file, root, slurm, node string
	json, login             bool
	own                     bool // the socket is that of the user's own daemon
	named                   bool // the configuration was named by the user

	w        world
	cfg      *config.Config
	conf     slurmConf
	gpus     *model.GPUReport // nil: not looked at
	synced   func() (bool, error)
	ask      func(name string, args ...string) (string, error) // runs a command
	findings []finding
}

func (d *doctor) set() *pflag.FlagSet {
	f := newFlags("doctor")
	f.StringVar(&d.slurm, "slurm-conf", "", "`folder` of slurm.conf, gres.conf, cgroup.conf and plugstack.conf")
	f.StringVar(&d.node, "node", "", "Slurm's `name` of this node, where it cannot be told from the host's")
	f.StringVarP(&d.file, "config", "c", config.Path, "gimbald's configuration `file`")
	f.Var(nodePath{&d.socket}, "socket", "gimbald's `path`, instead of socket.path of the configuration")
	f.StringVar(&d.root, "root", "/", "`folder` to take for / when files are read: an image, say")
	f.BoolVar(&d.login, "login", false, "check a login host: the plugin only")
	f.BoolVar(&d.json, "json", false, "as JSON, schema "+doctorSchema)
	return f
}

func runDoctor(args []string, w world) int {
	d := doctor{w: w, synced: clockSynced}
	d.ask = d.runCommand
	f := d.set()
	if code, over := parse(f, args, w, doctorUsage, func() error { return noArguments(f, "") }); over {
		return code
	}
	if d.named = f.Changed("config"); !d.named {
		d.file = d.path(d.file)
	}
	d.look()
	if err := d.print(); err != nil {
		return failure(w, "doctor", err)
	}
	if d.count(levelProblem) > 0 {
		return exitFailed
	}
	return exitOK
}

// look makes every check that fits the host.
func (d *doctor) look() {
	d.checkConfig()
	d.conf = d.readSlurm()
	d.login = d.login || !d.isNode()
	d.checkSlurm()
	if d.login {
		return
	}
	d.checkCgroups()
	d.checkDriver()
	d.checkGres()
	d.checkPolicies()
	d.checkPauses()
	d.checkDaemon()
	d.checkClock()
}

// isNode tells a node with GPUs from a login host.
func (d *doctor) isNode() bool {
	for _, p := range []string{d.file, d.path("/proc/driver/nvidia/version"), d.path(d.atNode(d.cfg.Socket.Path))} {
		if _, err := os.Stat(p); err == nil {
			return true
		}
	}
	return d.conf.nodeFound || len(d.processes("slurmd")) > 0
}

// atNode puts this node's name for %n.
func (d *doctor) atNode(path string) string {
	if !config.PerNode(path) {
		return path
	}
	names := d.nodeNames()
	if d.toldName() == "" { // else slurm.conf need not be read
		if name := d.nameInConf(); name != "" {
			names = []string{name}
		}
	}
	if len(names) == 0 {
		return path
	}
	return config.NodePath(path, names[0])
}

// path is where a file of the host lies.
func (d *doctor) path(p string) string { return filepath.Join(d.root, p) }

func (d *doctor) add(level, check, mend, format string, args ...any) {
	d.findings = append(d.findings, finding{Check: check, Level: level, Mend: mend, Text: fmt.Sprintf(format, args...)})
}

func (d *doctor) ok(check, format string, args ...any) { d.add(levelOK, check, "", format, args...) }

func (d *doctor) unknown(check, format string, args ...any) {
	d.add(levelUnknown, check, "", format, args...)
}

func (d *doctor) warn(check, mend, format string, args ...any) {
	d.add(levelWarning, check, mend, format, args...)
}

func (d *doctor) problem(check, mend, format string, args ...any) {
	d.add(levelProblem, check, mend, format, args...)
}

func (d *doctor) count(level string) int {
	n := 0
	for _, f := range d.findings {
		if f.Level == level {
			n++
		}
	}
	return n
}

func (d *doctor) print() error {
	if d.json {
		return d.printJSON()
	}
	for _, f := range d.findings {
		text := f.Text
		if f.Mend != "" {
			text += ". " + f.Mend
		}
		if _, err := fmt.Fprintf(d.w.stdout, "%-8s %-12s %s\n", f.Level, f.Check, clean(text)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(d.w.stdout, "%s, %s\n", plural(d.count(levelProblem), "problem"), plural(d.count(levelWarning), "warning"))
	return err
}

func (d *doctor) printJSON() error {
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("ask for the host's name: %w", err)
	}
	e := json.NewEncoder(d.w.stdout)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(struct {
		Schema   string    `json:"schema"`
		Host     string    `json:"host"`
		Time     time.Time `json:"time"`
		Login    bool      `json:"login"`
		Problems int       `json:"problems"`
		Warnings int       `json:"warnings"`
		Findings []finding `json:"findings"`
	}{doctorSchema, host, d.w.now(), d.login, d.count(levelProblem), d.count(levelWarning), d.findings})
}

// askLimit is how long a command of Slurm or the driver may take.
const askLimit = 5 * time.Second

// runCommand runs a command and returns what it printed on standard output.
func (d *doctor) runCommand(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = time.Second
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	if d.slurm != "" {
		cmd.Env = append(cmd.Env, "SLURM_CONF="+filepath.Join(d.slurm, "slurm.conf"))
	}
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		first, _, _ := strings.Cut(strings.TrimSpace(string(exit.Stderr)), "\n")
		err = fmt.Errorf("%w: %s", err, first)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return string(out), nil
}

// checkConfig reads gimbald.toml; with a mistake in it the defaults are taken
// for the checks that follow.
func (d *doctor) checkConfig() {
	c, warnings, err := config.Load(d.file)
	if d.socket == "" {
		site := config.Default()
		if err == nil {
			site = c
		}
		d.cfg = site // nodeNames looks into it
		d.socket = d.path(d.atNode(site.Socket.Path))
		if d.findOwn() {
			c, warnings, err = config.Load(d.file)
		}
	}
	_, missing := os.Stat(d.file)
	switch {
	case err != nil:
		d.problem("config", "Correct it; 'gimbald --check' tells the next mistake", "%v", err)
		c = config.Default()
	case missing != nil:
		d.ok("config", "%s is not there: the defaults hold", d.file)
	default:
		d.ok("config", "%s is valid", d.file)
	}
	for _, w := range warnings {
		if !strings.Contains(w, "max_pause") { // has a check of its own
			d.warn("config", "", "%s", w)
		}
	}
	if d.own {
		c.MakePrivate(d.socket, c.Node.Name)
	}
	if c.Policy.Dir != "" {
		c.Policy.Dir = d.path(c.Policy.Dir)
	}
	d.cfg = c
}

// checkDaemon asks gimbald how it is.
func (d *doctor) checkDaemon() {
	if !d.checkSocket() {
		return
	}
	c, err := d.dial()
	if err != nil {
		d.problem("gimbald", "See 'systemctl status gimbald' and 'journalctl -u gimbald'", "%v", err)
		return
	}
	defer func() { _ = c.Close() }()
	var r model.DaemonReply
	if err := c.Call(context.Background(), wire.OpDaemon, nil, &r); err != nil {
		d.problem("gimbald", "See 'journalctl -u gimbald'", "%v", err)
		return
	}
	d.daemonFindings(&r)
}

func (d *doctor) checkSocket() bool {
	st, err := os.Stat(d.socket)
	switch {
	case d.own && err == nil:
		d.ok("socket", "%s, of a daemon of your own: it packs your commands alone", d.socket)
	case err != nil && !d.hasSlurm():
		d.warn("socket", "For all users together: systemctl enable --now gimbald", "no gimbald listens: gimbal run starts one for its user alone")
		return false
	case err != nil:
		d.problem("socket", "Start the daemon: systemctl enable --now gimbald", "no gimbald listens: %v", err)
		return false
	case st.Mode()&os.ModeSocket == 0:
		d.problem("socket", "Move it away and restart gimbald", "%s is no socket", d.socket)
		return false
	case st.Mode().Perm()&0o006 != 0o006:
		d.warn("socket", `Set socket.mode = "0666"; who may do what is told by credentials`,
			"%s has mode %04o: users cannot ask for the state of their jobs", d.socket, st.Mode().Perm())
	default:
		d.ok("socket", "%s", d.socket)
	}
	return true
}

func (d *doctor) daemonFindings(r *model.DaemonReply) {
	n := len(d.findings)
	if r.Degraded != "" {
		d.problem("gimbald", "", "it manages nothing now: %s", r.Degraded)
	}
	if r.Journal != "" {
		d.problem("gimbald", "Make room in "+d.cfg.Node.StateDir, "its journal cannot be written: %s", r.Journal)
	}
	if r.ReloadError != "" {
		d.problem("gimbald", "Correct the file, then systemctl reload gimbald", "the last reload was refused: %s", r.ReloadError)
	}
	for _, key := range r.NotApplied {
		d.warn("gimbald", "systemctl restart gimbald", "%s was changed and is not applied until a restart", key)
	}
	if r.Config != "" && !d.own && filepath.Clean(r.Config) != filepath.Clean(d.file) {
		d.warn("gimbald", "", "it reads %s, this check read %s", r.Config, d.file)
	}
	if r.Version != version {
		d.warn("gimbald", "systemctl restart gimbald after an upgrade", "gimbald is %s, this command %s", r.Version, version)
	}
	if len(d.findings) == n {
		d.ok("gimbald", "%s answers, up for %s, %s", r.Version, ago(d.w.now().Sub(r.Started)), plural(r.Tenants, "tenant"))
	}
}

// clockFloor is a moment that has passed for whoever runs this program.
var clockFloor = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

// checkClock looks for a clock that was set wrong: deadlines, MUNGE and the
// times in the journal hang on it.
func (d *doctor) checkClock() {
	now := d.w.now()
	mend := "Set the clock and run chronyd or another time service"
	if now.Before(clockFloor) {
		d.problem("clock", mend, "the clock says %s", report.Clock(now, now.Location()))
		return
	}
	for _, f := range append([]string{d.file}, d.conf.files...) {
		if st, err := os.Stat(f); err == nil && st.ModTime().After(now.Add(time.Minute)) {
			d.warn("clock", mend, "%s was changed at %s, which is in the future: was the clock set back?",
				f, report.Clock(st.ModTime(), now.Location()))
			return
		}
	}
	switch synced, err := d.synced(); {
	case err != nil:
		d.unknown("clock", "whether it is kept in step cannot be told: %v", err)
	case !synced:
		d.warn("clock", "Run chronyd or another time service: MUNGE refuses clocks that differ", "the kernel says that nothing keeps the clock in step")
	default:
		d.ok("clock", "kept in step")
	}
}
