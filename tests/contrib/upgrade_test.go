package contrib

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gimbal-hpc/gimbal/tests/slurmtest"
)

// system is this machine's, with a layer above it that takes all changes: what
// dpkg does there is gone with the test.
type system struct {
	t   *testing.T
	dir string // its root
}

// newSystem mounts it.
func newSystem(t *testing.T) system {
	t.Helper()
	base, err := os.MkdirTemp("", "gimbal-root")
	if err != nil {
		t.Fatal(err)
	}
	s := system{t, filepath.Join(base, "root")}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	for _, name := range []string{"root", "changes", "work"} {
		if err := os.Mkdir(filepath.Join(base, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	layers := fmt.Sprintf("lowerdir=/,upperdir=%s/changes,workdir=%s/work", base, base)
	if out, err := exec.Command("mount", "-t", "overlay", "overlay", "-o", layers, s.dir).CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: no overlay can be mounted: %s", out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", s.dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %s", out)
		}
	})
	return s
}

// dpkg runs dpkg in the system; the control scripts run below its root.
func (s system) dpkg(args ...string) string {
	s.t.Helper()
	cmd := exec.Command("dpkg", append([]string{"--root=" + s.dir, "--force-not-root"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "PATH=/usr/sbin:/usr/bin:/sbin:/bin")
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("dpkg %q: %v\n%s", args, err, out)
	}
	return string(out)
}

func (s system) has(path string) bool {
	_, err := os.Stat(filepath.Join(s.dir, path))
	return err == nil
}

// stream runs srun and sbatch again and again, and keeps what failed.
type stream struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
	mu     sync.Mutex
	ran    map[string]int // by command
	failed []string
}

// newStream starts two loops of srun and one of sbatch that use none of our
// options.
func newStream(c *slurmtest.Cluster) *stream {
	ctx, cancel := context.WithCancel(context.Background())
	s := &stream{cancel: cancel, ran: map[string]int{}}
	for _, command := range [][]string{{"srun", "true"}, {"srun", "true"}, {"sbatch", "--wait", "--wrap", "true"}} {
		s.done.Go(func() {
			for ctx.Err() == nil {
				s.note(command[0], c.Run(command[0], command[1:]...))
			}
		})
	}
	return s
}

func (s *stream) note(command string, r slurmtest.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ran[command]++
	if r.Exit != 0 {
		s.failed = append(s.failed, command+": "+r.String())
	}
}

func (s *stream) count(command string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ran[command]
}

// during is how many srun end around each step that dpkg takes: before it has
// begun, while it works, and after it.
const during = 50

// SP-02: while the plugin is installed, upgraded and removed, again and again,
// no srun and no sbatch fails, and afterwards Slurm has the option or knows
// nothing of us. It runs with the dpkg and the Slurm of where it is started:
// this machine's in make test-long, those of a debootstrap root in
// scripts/slurm-suite --long SUITE.
func TestUpgradeUnderLoad(t *testing.T) {
	if os.Getenv("GIMBAL_LONG") == "" {
		t.Skip("SKIPPED: takes minutes: set GIMBAL_LONG=1")
	}
	slurmtest.Need(t)
	needPackaging(t)
	source := copySource(t)
	first, second := buildPackages(t, source, "1.2.3"), buildPackages(t, source, "1.2.4")
	t.Run("daemon", func(t *testing.T) {
		testDaemonUpgrade(t, first.pick(t, "gimbal_1.2.3-1_*.deb"), second.pick(t, "gimbal_1.2.4-1_*.deb"))
	})
	old, next := first.pick(t, "gimbal-slurm-plugin-*_1.2.3-1_*.deb"), second.pick(t, "gimbal-slurm-plugin-*_1.2.4-1_*.deb")
	name := strings.TrimSpace(output(t, "dpkg-deb", "-f", old, "Package"))
	sys := newSystem(t)
	multiarch := strings.TrimSpace(output(t, "gcc", "-print-multiarch"))
	plugins := "/usr/lib/" + multiarch + "/slurm-wlm"
	const line = "/etc/slurm/plugstack.conf.d/gimbal.conf"

	// Slurm runs outside and loads its plugins from the system.
	c := slurmtest.Start(t, slurmtest.Options{
		GPUs: -1, Plugstack: "include " + sys.dir + "/etc/slurm/plugstack.conf.d/*.conf",
		ConfExtra: []string{"PluginDir=" + sys.dir + plugins},
	})
	load := newStream(c)
	t.Cleanup(func() { load.cancel(); load.done.Wait() })
	step := func(what string, installed bool, args ...string) {
		t.Helper()
		sruns, sbatches := load.count("srun"), load.count("sbatch")
		sys.dpkg(args...)
		waitFor(t, "srun and sbatch around "+what, func() bool {
			return load.count("srun") >= sruns+during && load.count("sbatch") >= sbatches+2
		})
		if sys.has(line) != installed || sys.has(plugins+"/gimbal.so") != installed {
			t.Errorf("after %s: line %v, library %v", what, sys.has(line), sys.has(plugins+"/gimbal.so"))
		}
		r := c.Run("srun", "--gimbal-pack=off", "true")
		if (r.Exit == 0) != installed {
			t.Errorf("after %s: srun with the option: %s", what, r)
		}
		// Quiet: it may have to wait for the others, and says so.
		if plain := c.Run("srun", "-Q", "true"); plain.Exit != 0 || plain.Stderr != "" {
			t.Errorf("after %s: %s", what, plain)
		}
	}
	for round := range 2 {
		step("the installation", true, "-i", old)
		site := filepath.Join(sys.dir, line)
		if err := os.WriteFile(site, []byte("optional gimbal.so timeout=2s\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		step("the upgrade", true, "-i", next)
		if text, err := os.ReadFile(site); err != nil || !strings.Contains(string(text), "timeout=2s") {
			t.Errorf("the site's line is %q, %v", text, err)
		}
		step("the removal", false, []string{"-r", "-P"}[round], name)
	}
	load.cancel()
	load.done.Wait()
	t.Logf("%v, of which %d failed", load.ran, len(load.failed))
	if len(load.failed) > 0 {
		t.Errorf("%q", load.failed)
	}
}

// testDaemonUpgrade: what the site has configured is kept until it is purged.
func testDaemonUpgrade(t *testing.T, old, next string) {
	const config, policy = "/etc/gimbal/gimbald.toml", "/etc/gimbal/policies.d/site.toml"
	sys := newSystem(t)
	want := func(when, version string, kept bool) {
		t.Helper()
		said := ""
		if sys.has("/usr/sbin/gimbald") {
			said = output(t, sys.dir+"/usr/sbin/gimbald", "--version")
		}
		if (said == "") != (version == "") || !strings.Contains(said, version) {
			t.Errorf("%s: gimbald is %q, want %q", when, said, version)
		}
		text, _ := os.ReadFile(sys.dir + config)
		if strings.Contains(string(text), "# the site's") != kept || sys.has(policy) != kept {
			t.Errorf("%s: the site's configuration is %q, want it kept: %v", when, text, kept)
		}
	}
	sys.dpkg("-i", old)
	for _, file := range []string{config, policy} {
		if err := os.WriteFile(sys.dir+file, []byte("# the site's\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want("installed", "1.2.3", true)
	sys.dpkg("-i", next)
	want("upgraded", "1.2.4", true)
	sys.dpkg("-i", old)
	want("taken back", "1.2.3", true)
	sys.dpkg("-r", "gimbal")
	want("removed", "", true)
	sys.dpkg("-i", next)
	want("installed again", "1.2.4", true)
	if err := os.Remove(sys.dir + policy); err != nil { // the site's own file, which dpkg never had
		t.Fatal(err)
	}
	sys.dpkg("-P", "gimbal")
	want("purged", "", false)
}
