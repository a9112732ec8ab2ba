package main

import (
	"path/filepath"
	"strings"

	"github.com/gimbal-hpc/gimbal/helper/config"
)

// besides is where a file lies that another one names: below the root, or in
// the folder of the one that names it.
func (d *doctor) besides(from, name string) string {
	if filepath.IsAbs(name) {
		return d.path(name)
	}
	return filepath.Join(filepath.Dir(from), name)
}

// onHost is the path by which the host itself knows a file.
func (d *doctor) onHost(path string) string {
	if in, ok := strings.CutPrefix(path, filepath.Clean(d.root)); ok && strings.HasPrefix(in, "/") {
		return in
	}
	return path
}

// hasSlurm tells whether this is a host of a Slurm, as far as can be seen.
func (d *doctor) hasSlurm() bool {
	return d.conf.dir != "" || len(d.conf.values) > 0 || len(d.processes("slurmd")) > 0 || there(d.path("/etc/slurm/plugstack.conf"))
}

// checkSlurm looks at Slurm and the plugin in it, where there is a Slurm.
func (d *doctor) checkSlurm() {
	if !d.hasSlurm() {
		if !d.conf.asked {
			d.ok("slurm", "there is none on this host: only gimbal run packs")
		}
		return
	}
	d.checkPlugstack()
	if d.login {
		return
	}
	d.checkSlurmd()
	d.checkSlurmConf()
}

// findOwn turns to the user's own daemon where there is no gimbald, and tells
// whether that reads another file, as one that gimbal run starts would.
func (d *doctor) findOwn() (anotherFile bool) {
	if filepath.Clean(d.root) != "/" || there(d.socket) {
		return false
	}
	if own := config.PrivateSocket(d.w.env, d.w.uid); there(own) {
		d.socket, d.own = own, true
	}
	file := config.PrivateFile(d.w.env)
	if d.named || file == config.Path {
		return false
	}
	d.file = file
	return true
}
