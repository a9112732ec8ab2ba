// Package etc holds what is installed under /etc and for systemd. This test
// keeps it in step with the program's defaults.
package etc

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gimbal-hpc/gimbal/helper/config"
)

// unit reads the settings of the service file; a key may be given several
// times.
func unit(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("gimbald.service")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(key, "#") {
			all[key] = append(all[key], value)
		}
	}
	return all
}

// DL-05: stopping the daemon ends neither its guard nor a job, and whatever
// happens everything runs again.
func TestServiceStopsNothingButTheDaemon(t *testing.T) {
	u := unit(t)
	for key, want := range map[string]string{
		"KillMode": "process", "Type": "notify", "RuntimeDirectoryPreserve": "yes",
		"ExecStopPost": "/usr/sbin/gimbald --release", "Restart": "on-failure",
	} {
		if got := u[key]; !slices.Equal(got, []string{want}) {
			t.Errorf("%s=%q, want %q", key, got, want)
		}
	}
	for _, key := range []string{"Delegate", "PrivateDevices", "ProtectControlGroups", "ProtectClock", "DeviceAllow", "ProtectProc", "PrivateUsers", "PrivatePIDs"} {
		if got := u[key]; got != nil {
			t.Errorf("%s=%q takes from the daemon what it needs, or gives it what it must not have", key, got)
		}
	}
	for _, cap := range []string{"CAP_SYS_ADMIN", "CAP_DAC_OVERRIDE", "CAP_SYS_MODULE", "CAP_SETUID"} {
		if strings.Contains(strings.Join(u["CapabilityBoundingSet"], " "), cap) {
			t.Errorf("the service has %s", cap)
		}
	}
}

func TestServiceFoldersAreTheDefaults(t *testing.T) {
	u, c := unit(t), config.Default()
	if got, want := "/run/"+strings.Join(u["RuntimeDirectory"], ""), filepath.Dir(c.Socket.Path); got != want {
		t.Errorf("RuntimeDirectory is %s, the socket is in %s", got, want)
	}
	if got := "/var/lib/" + strings.Join(u["StateDirectory"], ""); got != c.Node.StateDir {
		t.Errorf("StateDirectory is %s, node.state_dir is %s", got, c.Node.StateDir)
	}
	if got, want := strings.Join(u["ReadWritePaths"], ""), "-"+filepath.Dir(c.Metrics.Textfile); got != want {
		t.Errorf("ReadWritePaths is %s, metrics.textfile is in %s", got, want)
	}
}

func TestSystemdReadsTheService(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("SKIPPED: systemd-analyze is missing")
	}
	text, err := os.ReadFile("gimbald.service")
	if err != nil {
		t.Fatal(err)
	}
	// The program need not be installed, nor its manual.
	s := strings.ReplaceAll(string(text), "/usr/sbin/gimbald", "/bin/true")
	s = strings.ReplaceAll(s, "Documentation=man:gimbald(8)\n", "")
	file := filepath.Join(t.TempDir(), "gimbald.service")
	if err := os.WriteFile(file, []byte(s), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("systemd-analyze", "verify", file).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	// 3.8 of 10 by the measure of systemd 252; other versions count a little otherwise.
	out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--threshold=40", "--no-pager", file).CombinedOutput()
	if err != nil {
		t.Errorf("systemd-analyze security: %v\n%s", err, out)
	}
}

func TestPlugstackLineIsOptionalAndNamesTheDefaults(t *testing.T) {
	text, err := os.ReadFile("plugstack.conf.d/gimbal.conf")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if l := strings.TrimSpace(line); l != "" && !strings.HasPrefix(l, "#") {
			lines = append(lines, l)
		}
	}
	if !slices.Equal(lines, []string{"optional gimbal.so"}) {
		t.Errorf("lines %q", lines)
	}
	for _, want := range []string{"socket=" + config.Default().Socket.Path, "pending=" + config.Default().Node.PendingDir, "timeout=1s"} {
		if !strings.Contains(string(text), "#     "+want+" ") {
			t.Errorf("%s is not explained", want)
		}
	}
}
