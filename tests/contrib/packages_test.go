package contrib

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// packages are the built files of a version, by their names.
type packages map[string][]byte

// buildPackages builds them in a copy of the source, as from an archive.
func buildPackages(t *testing.T, source, version string) packages {
	t.Helper()
	cmd := exec.Command(filepath.Join(source, "scripts", "package"), version)
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1767225600", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("scripts/package %s: %v\n%s", version, err, out)
	}
	all := packages{}
	files, err := filepath.Glob(filepath.Join(source, "build", "packages", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if all[filepath.Base(file)], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// copySource copies the tree without what is built and without history.
func copySource(t *testing.T) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "source")
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(top, path)
		if err != nil {
			return err
		}
		switch {
		case rel == ".git" && !d.IsDir(): // of a work tree
			return nil
		case rel == ".git" || rel == "build":
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		case !d.Type().IsRegular():
			return nil
		}
		return copyFile(path, filepath.Join(to, rel))
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

func copyFile(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, info.Mode())
}

// needPackaging skips where packages cannot be built: nfpm is fetched and
// built when it is first used.
func needPackaging(t *testing.T) {
	t.Helper()
	for _, name := range []string{"dpkg-deb", "make", "gcc", "strip", "objdump"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("SKIPPED: %s is missing", name)
		}
	}
	script, err := os.ReadFile(filepath.Join(top, "scripts", "package"))
	if err != nil {
		t.Fatal(err)
	}
	nfpm := regexp.MustCompile(`(?m)^nfpm=(\S+)$`).FindSubmatch(script)
	if nfpm == nil {
		t.Fatal("scripts/package names no nfpm")
	}
	cmd := exec.Command("go", "run", string(nfpm[1]), "--version")
	cmd.Env = append(os.Environ(), "GOFLAGS=", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		t.Skipf("SKIPPED: nfpm cannot be had: %s", lines[len(lines)-1])
	}
}

// pick is the one package whose name matches, written to a file.
func (p packages) pick(t *testing.T, pattern string) string {
	t.Helper()
	var found []string
	for name := range p {
		if ok, _ := filepath.Match(pattern, name); ok {
			found = append(found, name)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%q match %s, want one", found, pattern)
	}
	path := filepath.Join(t.TempDir(), found[0])
	if err := os.WriteFile(path, p[found[0]], 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// Two builds, in different folders, give the same bytes, and hold what they
// should.
func TestPackages(t *testing.T) {
	needPackaging(t)
	once := buildPackages(t, copySource(t), "1.2.3")
	again := buildPackages(t, copySource(t), "1.2.3")
	if len(once) != 4 || len(again) != 4 {
		t.Fatalf("%d and %d packages, want 4 each", len(once), len(again))
	}
	for name, text := range once {
		if !bytes.Equal(text, again[name]) {
			t.Errorf("%s: two builds differ", name)
		}
	}
	t.Run("gimbal", func(t *testing.T) { testDaemonPackage(t, once.pick(t, "gimbal_1.2.3-1_*.deb")) })
	t.Run("plugin", func(t *testing.T) { testPluginPackage(t, once.pick(t, "gimbal-slurm-plugin-*_1.2.3-1_*.deb")) })
	t.Run("rpm", func(t *testing.T) { testRPM(t, once) })
	t.Run("install", func(t *testing.T) {
		testInstall(t, once.pick(t, "gimbal_1.2.3-1_*.deb"), once.pick(t, "gimbal-slurm-plugin-*_1.2.3-1_*.deb"))
	})
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// contents lists a deb's files with their modes, as "-rw-r--r-- root/root
// /path"; folders of others are left out.
func contents(t *testing.T, deb string) []string {
	t.Helper()
	var all []string
	for line := range strings.Lines(output(t, "dpkg-deb", "-c", deb)) {
		f := strings.Fields(line)
		name := strings.TrimPrefix(f[5], ".")
		if strings.HasSuffix(name, "/") && !strings.HasSuffix(name, ".d/") {
			continue
		}
		all = append(all, f[0]+" "+f[1]+" "+name)
	}
	return all
}

// wantFiles checks that all of these are there, and outside doc nothing else.
func wantFiles(t *testing.T, got []string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !slices.Contains(got, w) {
			t.Errorf("no %s", w)
		}
	}
	for _, g := range got {
		free := strings.Contains(g, " /usr/share/")
		if !free && !slices.Contains(want, g) {
			t.Errorf("what is %s?", g)
		}
		if !strings.Contains(g, " root/root ") {
			t.Errorf("not root's: %s", g)
		}
	}
}

// control returns the fields of a deb and the files beside them.
func control(t *testing.T, deb string) (fields string, file func(string) string) {
	t.Helper()
	dir := t.TempDir()
	output(t, "dpkg-deb", "-e", deb, dir)
	return output(t, "dpkg-deb", "-f", deb), func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return ""
		}
		return string(text)
	}
}

func testDaemonPackage(t *testing.T, deb string) {
	wantFiles(t, contents(t, deb),
		"-rwxr-xr-x root/root /usr/bin/gimbal",
		"-rwxr-xr-x root/root /usr/sbin/gimbald",
		"-rw-r--r-- root/root /usr/lib/systemd/system/gimbald.service",
		"-rw-r--r-- root/root /etc/gimbal/gimbald.toml",
		"drwxr-xr-x root/root /etc/gimbal/policies.d/",
		"-rw-r--r-- root/root /usr/share/doc/gimbal/copyright",
		"-rw-r--r-- root/root /usr/share/doc/gimbal/examples/job_submit.lua",
		"-rw-r--r-- root/root /usr/share/doc/gimbal/examples/timeslice.toml")
	fields, file := control(t, deb)
	for _, want := range []string{"Package: gimbal\n", "Version: 1.2.3-1\n", "libc6 (>= 2."} {
		if !strings.Contains(fields, want) {
			t.Errorf("no %q in\n%s", want, fields)
		}
	}
	if got := file("conffiles"); got != "/etc/gimbal/gimbald.toml\n" {
		t.Errorf("conffiles: %q", got)
	}
	sameScripts(t, "gimbal", file)
	dir := t.TempDir()
	output(t, "dpkg-deb", "-x", deb, dir)
	if got := output(t, filepath.Join(dir, "usr/bin/gimbal"), "--version"); !strings.Contains(got, "1.2.3") {
		t.Errorf("gimbal --version: %q", got)
	}
	if got := output(t, filepath.Join(dir, "usr/sbin/gimbald"), "--version"); !strings.Contains(got, "1.2.3") {
		t.Errorf("gimbald --version: %q", got)
	}
}

var slurmRange = regexp.MustCompile(`slurm-wlm-basic-plugins \(>= (\d\d\.\d\d)\), slurm-wlm-basic-plugins \(<< (\d\d\.\d\d)\)`)

func testPluginPackage(t *testing.T, deb string) {
	folder := "/usr/lib/" + strings.TrimSpace(output(t, "gcc", "-print-multiarch")) + "/slurm-wlm/"
	got := contents(t, deb)
	wantFiles(t, got,
		"-rw-r--r-- root/root "+folder+"gimbal.so",
		"-rw-r--r-- root/root "+folder+"gimbal_core.so",
		"-rw-r--r-- root/root /usr/share/gimbal/plugstack.conf.d/gimbal.conf",
		"drwxr-xr-x root/root /etc/slurm/plugstack.conf.d/")
	for _, line := range got {
		if strings.HasSuffix(line, " /etc/slurm/plugstack.conf.d/gimbal.conf") {
			t.Error("the line would come before the library, and stay after it")
		}
	}
	fields, file := control(t, deb)
	for _, want := range []string{"Provides: gimbal-slurm-plugin\n", "Conflicts: gimbal-slurm-plugin\n", "Replaces: gimbal-slurm-plugin\n"} {
		if !strings.Contains(fields, want) {
			t.Errorf("no %q in\n%s", want, fields)
		}
	}
	m := slurmRange.FindStringSubmatch(fields)
	if m == nil || m[2] <= m[1] || !strings.Contains(fields, "Package: gimbal-slurm-plugin-"+m[1]+"\n") {
		t.Errorf("not for one major release of Slurm:\n%s", fields)
	}
	if got := file("conffiles"); got != "" {
		t.Errorf("conffiles: %q", got)
	}
	sameScripts(t, "plugin", file)
}

// sameScripts checks that the package runs the scripts that were tested.
func sameScripts(t *testing.T, name string, file func(string) string) {
	t.Helper()
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		want, err := os.ReadFile(filepath.Join(top, "contrib", "packages", name+"."+script))
		if err != nil {
			t.Fatal(err)
		}
		if file(script) != string(want) {
			t.Errorf("%s is not contrib/packages/%s.%s", script, name, script)
		}
	}
}

func testRPM(t *testing.T, built packages) {
	if _, err := exec.LookPath("rpm"); err != nil {
		t.Skip("SKIPPED: rpm is missing")
	}
	plugin := built.pick(t, "gimbal-slurm-plugin-*.rpm")
	files := output(t, "rpm", "-qpl", plugin)
	for _, want := range []string{"/usr/lib64/slurm/gimbal.so\n", "/usr/lib64/slurm/gimbal_core.so\n", "/usr/share/gimbal/plugstack.conf.d/gimbal.conf\n"} {
		if !strings.Contains(files, want) {
			t.Errorf("no %q in\n%s", want, files)
		}
	}
	needs := output(t, "rpm", "-qpR", plugin)
	for _, want := range []string{`(?m)^slurm < \d\d\.\d\d$`, `(?m)^slurm >= \d\d\.\d\d$`} {
		if !regexp.MustCompile(want).MatchString(needs) {
			t.Errorf("not for one major release of Slurm:\n%s", needs)
		}
	}
	if got := output(t, "rpm", "-qpc", built.pick(t, "gimbal-1*.rpm")); got != "/etc/gimbal/gimbald.toml\n" {
		t.Errorf("configuration files: %q", got)
	}
}
