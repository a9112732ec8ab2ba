package proc

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Cgroups are the places of one process in the two hierarchies that can freeze
// it, as paths below their mount points; "" where it has none.
type Cgroups struct {
	Freezer string // v1 freezer controller
	Unified string // v2
}

// ParseCgroup reads the text of /proc/PID/cgroup: lines of
// hierarchy:controllers:path, the path possibly with colons in it.
func ParseCgroup(b []byte) (Cgroups, error) {
	var c Cgroups
	for len(b) > 0 {
		line, rest, _ := bytes.Cut(b, []byte{'\n'})
		b = rest
		if len(line) == 0 {
			continue
		}
		hierarchy, tail, ok := bytes.Cut(line, []byte{':'})
		controllers, path, ok2 := bytes.Cut(tail, []byte{':'})
		if !ok || !ok2 || len(path) == 0 || path[0] != '/' {
			return Cgroups{}, fmt.Errorf("cgroup: line %q: %w", line, errMalformed)
		}
		if string(hierarchy) == "0" && len(controllers) == 0 {
			c.Unified = string(path)
		}
		for name := range bytes.SplitSeq(controllers, []byte{','}) {
			if string(name) == "freezer" {
				c.Freezer = string(path)
			}
		}
	}
	return c, nil
}

// cgroups reads the places of whoever has this pid.
func (h Host) cgroups(pid int) (Cgroups, error) {
	data, err := h.readAll(pid, "cgroup")
	if err != nil {
		return Cgroups{}, err
	}
	c, err := ParseCgroup(data)
	if err != nil {
		return Cgroups{}, fmt.Errorf("process %d: %w", pid, err)
	}
	return c, nil
}

// mounts are where this host has the hierarchies; "" where it has not.
type mounts struct {
	freezer string // v1 freezer
	unified string // v2: all there is, or beside v1 controllers on a hybrid host
}

func (h Host) mounts() mounts {
	root := h.cgroupRoot()
	var m mounts
	switch {
	case isFile(filepath.Join(root, "cgroup.controllers")):
		m.unified = root
	case isFile(filepath.Join(root, "unified", "cgroup.controllers")):
		m.unified = filepath.Join(root, "unified")
	}
	if m.unified != root && isFile(filepath.Join(root, "freezer", "cgroup.procs")) {
		m.freezer = filepath.Join(root, "freezer")
	}
	return m
}

func isFile(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular()
}

// frozenCgroup says whether a process is in a cgroup that is frozen, by its own
// directory or one above, and in which directory.
func (h Host) frozenCgroup(pid int) (bool, string) {
	c, err := h.cgroups(pid)
	if err != nil {
		return false, ""
	}
	m := h.mounts()
	if m.unified != "" && c.Unified != "" {
		dir := filepath.Join(m.unified, c.Unified)
		if events, err := os.ReadFile(filepath.Join(dir, "cgroup.events")); err == nil && frozenEvent(events) {
			return true, dir
		}
	}
	if m.freezer != "" && c.Freezer != "" {
		dir := filepath.Join(m.freezer, c.Freezer)
		state, err := os.ReadFile(filepath.Join(dir, "freezer.state"))
		if err == nil && strings.TrimSpace(string(state)) != "THAWED" {
			return true, dir
		}
	}
	return false, ""
}

// frozenEvent reads cgroup.events.
func frozenEvent(b []byte) bool {
	for len(b) > 0 {
		var line []byte
		if line, b, _ = bytes.Cut(b, []byte{'\n'}); string(bytes.TrimSpace(line)) == "frozen 1" {
			return true
		}
	}
	return false
}

// fromCgroups adds the processes of the target's cgroups that run as the user
// of one of its roots.
func (p *pausing) fromCgroups(fresh []ID) []ID {
	for _, dir := range p.target.Cgroups {
		pids, err := procsBelow(nil, dir)
		if err != nil {
			continue // the directory goes away with the step
		}
		for _, pid := range pids {
			if p.holds(pid) {
				continue
			}
			id, err := p.host.Identify(pid)
			if err == nil && p.known[id] == nil && p.rootsUser(pid) {
				fresh = p.addNew(fresh, []ID{id})
			}
		}
	}
	return fresh
}

// rootsUser says whether a process runs as the user of one of the roots.
func (p *pausing) rootsUser(pid int) bool {
	if p.users == nil {
		p.users = p.host.usersOf(p.target.Roots)
	}
	st, err := p.host.status(pid)
	return err == nil && p.users[st.UID]
}
