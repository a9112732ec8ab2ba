package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gimbal-hpc/gimbal/helper/wire"
)

// What the files of an image name lies in the image.
func TestDoctorStaysBelowTheRoot(t *testing.T) {
	h := healthyHost(t)
	h.daemon(good())
	h.write("etc/slurm/plugstack.conf", "include /etc/slurm/plugstack.conf.d/*.conf\n")
	h.write("etc/slurm/gres.conf", "include /etc/slurm/gres.inc\n")
	h.write("etc/slurm/gres.inc", "AutoDetect=off\nName=gpu File=/dev/nvidia[0-1]\nName=shard Count=8\n")
	h.expect()
	_, out, _ := try("doctor", "--root", h.dir, "--node", "n1")
	if !strings.Contains(out, h.dir+"/etc/gimbal/gimbald.toml is valid") || strings.Contains(out, "no line of") {
		t.Error(out)
	}
}

func TestDoctorMendsAsTheGuideSays(t *testing.T) {
	h := healthyHost(t)
	h.daemon(good())
	h.write("etc/slurm/plugstack.conf", "# nothing\n")
	h.expect(`problem plugstack: no line of .*'include /etc/slurm/plugstack.conf.d/\*.conf', with 'optional gimbal.so' in /etc/slurm/plugstack.conf.d/gimbal.conf alone`)
	h.remove("etc/slurm/plugstack.conf")
	h.doc.findings, h.doc.conf = nil, slurmConf{}
	h.expect(`problem plugstack: no line of`)
	for _, f := range h.doc.findings {
		if f.Check == "slurmd" {
			t.Errorf("there is no plugstack.conf, and %q", f.Text)
		}
	}
}

// A workstation has no Slurm to be mended, and no need of root's gimbald.
func TestDoctorWithoutSlurm(t *testing.T) {
	h := healthyHost(t)
	h.remove("etc/slurm")
	h.remove("proc/77")
	h.doc.ask = func(name string, args ...string) (string, error) {
		if name == "scontrol" {
			return "", fmt.Errorf("%s: %w", name, exec.ErrNotFound)
		}
		return h.answer(name, args...)
	}
	h.doc.socket = filepath.Join(h.dir, "none")
	h.expect(`warning socket: no gimbald listens: gimbal run starts one`)
	for _, f := range h.doc.findings {
		if f.Check == "slurmd" || f.Check == "plugstack" {
			t.Errorf("%+v", f)
		}
	}
}

// Where scontrol is there and fails, nobody says that there is no Slurm.
func TestDoctorWhereSlurmDoesNotAnswer(t *testing.T) {
	h := healthyHost(t)
	h.remove("etc/slurm")
	h.remove("proc/77")
	h.doc.ask = func(name string, args ...string) (string, error) {
		if name == "scontrol" {
			return "", fmt.Errorf("%s: exit status 1", name)
		}
		return h.answer(name, args...)
	}
	h.daemon(good())
	h.expect(`warning slurm.conf: no slurm.conf was found, and scontrol`)
	for _, f := range h.doc.findings {
		if f.Check == "slurm" {
			t.Errorf("%+v", f)
		}
	}
}

func TestDoctorFindsTheUsersOwnDaemon(t *testing.T) {
	dir := t.TempDir()
	own := filepath.Join(dir, "gimbal", "gimbald.sock")
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := wire.Listen(own, wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	file := filepath.Join(dir, "gimbal", "gimbald.toml")
	if err := os.WriteFile(file, []byte("[sample]\nnvml = \"mine.so\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	site := filepath.Join(dir, "site.toml")
	if err := os.WriteFile(site, fmt.Appendf(nil, "[socket]\npath = %q\n", filepath.Join(dir, "none")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, named := range []bool{false, true} {
		d := doctor{root: "/", file: site, named: named, w: world{uid: os.Getuid(), env: func(string) string { return dir }}}
		d.checkConfig()
		if d.socket != own || !d.own || !d.checkSocket() || d.count(levelOK) != 2 {
			t.Errorf("%q %v %+v", d.socket, d.own, d.findings)
		}
		if read := d.cfg.Sample.NVML == "mine.so"; read == named || (d.file == file) == named {
			t.Errorf("named %t: it read %s", named, d.file)
		}
	}
}
