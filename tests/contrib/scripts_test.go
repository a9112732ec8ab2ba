package contrib

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// controlScripts are what dpkg and rpm run, and what they may call them with.
var controlScripts = map[string][][]string{
	"gimbal.postinst": {{"configure", ""}, {"configure", "0.1.0"}, {"abort-upgrade", "0.1.0"}, {"1"}, {"2"}},
	"gimbal.prerm":    {{"remove"}, {"upgrade", "0.2.0"}, {"0"}, {"1"}},
	"gimbal.postrm":   {{"remove"}, {"purge"}, {"upgrade", "0.2.0"}, {"0"}, {"1"}},
	"plugin.postinst": {{"configure", ""}, {"configure", "0.1.0"}, {"abort-remove"}, {"1"}, {"2"}},
	"plugin.prerm":    {{"remove"}, {"upgrade", "0.2.0"}, {"deconfigure", "in-favour", "x", "1"}, {"0"}, {"1"}},
	"plugin.postrm":   {{"remove"}, {"purge"}, {"0"}, {"1"}},
}

// root is where control scripts find a system's folders in place of the real
// ones.
type root struct {
	t   *testing.T
	dir string
}

func newRoot(t *testing.T) root {
	t.Helper()
	r := root{t, t.TempDir()}
	r.put("usr/share/gimbal/plugstack.conf.d/gimbal.conf", "optional gimbal.so\n")
	r.put("etc/slurm/plugstack.conf", "include /etc/slurm/plugstack.conf.d/*.conf\n")
	r.put("etc/slurm/plugstack.conf.d/other.conf", "optional other.so\n")
	return r
}

func (r root) put(name, text string) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// get returns a file's text, "" where there is none.
func (r root) get(name string) string {
	text, _ := os.ReadFile(filepath.Join(r.dir, name))
	return string(text)
}

// run runs a control script and returns what it printed.
func (r root) run(name string, args ...string) string {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(top, "contrib", "packages", name))
	if err != nil {
		r.t.Fatal(err)
	}
	script := string(text)
	for _, folder := range []string{"/etc/slurm", "/usr/share/gimbal", "/run/", "/var/lib/"} {
		script = strings.ReplaceAll(script, folder, r.dir+folder)
	}
	// What users are told, and what plugstack.conf holds, is no path to open.
	script = strings.ReplaceAll(script, `include[[:space:]]+$folder/`, `include[[:space:]]+/etc/slurm/plugstack.conf.d/`)
	out, err := exec.Command("sh", append([]string{"-c", script, name}, args...)...).CombinedOutput()
	if err != nil {
		r.t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

const (
	lineFile = "etc/slurm/plugstack.conf.d/gimbal.conf"
	keptFile = lineFile + ".removed"
)

func (r root) wantLine(when, want string) {
	r.t.Helper()
	if got := r.get(lineFile); got != want {
		r.t.Errorf("%s: the line is %q, want %q", when, got, want)
	}
}

// Whatever they are called with, on a system that has nothing yet, they end
// well.
func TestControlScriptsAlwaysSucceed(t *testing.T) {
	for name, calls := range controlScripts {
		for _, args := range calls {
			newRoot(t).run(name, args...)
		}
	}
}

func TestControlScriptsAreSound(t *testing.T) {
	var files []string
	for name := range controlScripts {
		files = append(files, filepath.Join(top, "contrib", "packages", name))
	}
	for _, file := range files {
		if out, err := exec.Command("sh", "-n", file).CombinedOutput(); err != nil {
			t.Errorf("sh -n %s: %v\n%s", file, err, out)
		}
	}
	all, err := filepath.Glob(filepath.Join(top, "contrib", "packages", "*.p*"))
	if err != nil || len(all) != len(files) {
		t.Errorf("%q, %v: want %d scripts", all, err, len(files))
	}
	if _, err := exec.LookPath("shellcheck"); err != nil {
		t.Skip("SKIPPED: shellcheck is missing")
	}
	files = append(files, filepath.Join(top, "scripts", "package"), filepath.Join(top, "scripts", "release"))
	if out, err := exec.Command("shellcheck", files...).CombinedOutput(); err != nil {
		t.Errorf("shellcheck: %v\n%s", err, out)
	}
}

// SP-02: the line is there only while the library is, and comes back as the
// site had it. dpkg and rpm say what they do in words of their own.
func TestPluginLine(t *testing.T) {
	const shipped, edited = "optional gimbal.so\n", "optional gimbal.so timeout=2s\n"
	for _, kind := range []struct {
		name                               string
		install, remove, upgrade, upgraded []string
		reinstall                          []string
	}{
		{"dpkg", []string{"configure", ""}, []string{"remove"}, []string{"upgrade", "2"}, []string{"configure", "1"}, []string{"configure", "1"}},
		{"rpm", []string{"1"}, []string{"0"}, []string{"1"}, []string{"2"}, []string{"1"}},
	} {
		t.Run(kind.name, func(t *testing.T) {
			r := newRoot(t)
			if said := r.run("plugin.postinst", kind.install...); said != "" {
				t.Errorf("an installation that needs nothing more says %q", said)
			}
			r.wantLine("installed", shipped)

			r.put(lineFile, edited)
			r.run("plugin.prerm", kind.upgrade...)
			r.wantLine("while upgraded", edited)
			r.run("plugin.postinst", kind.upgraded...)
			r.wantLine("upgraded", edited)

			if said := r.run("plugin.prerm", kind.remove...); said != "" {
				t.Errorf("a removal that leaves nothing says %q", said)
			}
			r.run("plugin.postrm", kind.remove...)
			r.wantLine("removed", "")
			if r.get("etc/slurm/plugstack.conf.d/other.conf") == "" {
				t.Error("another plugin's line is gone")
			}
			r.run("plugin.postinst", kind.reinstall...)
			r.wantLine("installed again", edited)

			if err := os.Remove(filepath.Join(r.dir, lineFile)); err != nil {
				t.Fatal(err)
			}
			r.run("plugin.prerm", kind.upgrade...)
			r.run("plugin.postinst", kind.upgraded...)
			r.wantLine("upgraded after the site removed it", "")
		})
	}
}

// dpkg takes the plugin out of use before Slurm of another major release comes,
// and gives up a removal that cannot be done.
func TestPluginLineWhenThingsGoOtherwise(t *testing.T) {
	r := newRoot(t)
	r.run("plugin.postinst", "configure", "")
	for _, back := range [][]string{{"abort-remove"}, {"abort-deconfigure", "in-favour"}, {"configure", "1"}} {
		r.run("plugin.prerm", "deconfigure", "in-favour", "slurmd", "24.11")
		r.wantLine("deconfigured", "")
		r.run("plugin.postinst", back...)
		r.wantLine(back[0], "optional gimbal.so\n")
	}
	r.run("plugin.prerm", "remove")
	r.run("plugin.postrm", "purge")
	if got := r.get(keptFile); got != "" {
		t.Errorf("purged, yet %q is kept", got)
	}
}

func TestPluginSaysWhatIsLeftToDo(t *testing.T) {
	r := newRoot(t)
	for _, conf := range []string{"", "# include /etc/slurm/plugstack.conf.d/*.conf\n", "include /etc/slurm/other.d/*\n"} {
		r.put("etc/slurm/plugstack.conf", conf)
		if said := r.run("plugin.postinst", "configure", ""); !strings.Contains(said, "include "+r.dir+"/etc/slurm/plugstack.conf.d/*.conf") {
			t.Errorf("with %q: %q", conf, said)
		}
	}
	r.put("etc/slurm/plugstack.conf", "optional  gimbal.so socket=/run/x\n")
	if said := r.run("plugin.prerm", "remove"); !strings.Contains(said, "remove it") {
		t.Errorf("a line of the site's own stays: %q", said)
	}
}

func TestDaemonScripts(t *testing.T) {
	r := newRoot(t)
	if said := r.run("gimbal.postinst", "configure", ""); !strings.Contains(said, "systemctl enable --now gimbald") {
		t.Errorf("a first installation says %q", said)
	}
	if said := r.run("gimbal.postinst", "configure", "0.1.0"); said != "" {
		t.Errorf("an upgrade says %q", said)
	}
	const page = "var/lib/prometheus/node-exporter/gimbal.prom"
	r.put("var/lib/gimbal/journal/1", "x")
	r.put(page, "x")
	r.run("gimbal.postrm", "upgrade", "0.2.0")
	if r.get(page) == "" {
		t.Error("an upgrade took the metrics")
	}
	r.run("gimbal.postrm", "remove")
	if r.get("var/lib/gimbal/journal/1") == "" {
		t.Error("a removal took the state")
	}
	if r.get(page) != "" {
		t.Error("a removal left the metrics: they would stay as they are for ever")
	}
	r.run("gimbal.postrm", "purge")
	if r.get("var/lib/gimbal/journal/1") != "" {
		t.Error("a purge left the state")
	}
}
