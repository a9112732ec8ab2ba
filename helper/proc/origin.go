package proc

// Origin is where a process that is in nobody's tree comes from.
type Origin uint8

// Origins.
const (
	OriginOther  Origin = iota // anything else: a service, a login, a container
	OriginJob                  // a job of Slurm
	OriginOrphan               // its parent has ended, and it is in no job's cgroup
)

// maxAncestors bounds how far a process's parents are followed.
const maxAncestors = 32

// Origin tells where a process comes from: of a job of Slurm by its cgroup, else by
// a slurmstepd among its ancestors. A process of root whose parent is init is a
// service. ErrGone if it has ended.
func (h Host) Origin(id ID) (Origin, error) {
	st, err := h.Status(id)
	if err != nil {
		return OriginOther, err
	}
	if c, err := h.cgroups(id.PID); err == nil && (ofStep(c.Freezer) || ofStep(c.Unified)) {
		return OriginJob, nil
	}
	var buf [statSize]byte
	s, err := h.statOf(buf[:], id)
	if err != nil {
		return OriginOther, err
	}
	if s.PPID == 1 && st.UID != 0 {
		return OriginOrphan, nil
	}
	for range maxAncestors {
		if s.PPID <= 1 {
			break
		}
		if s, err = h.stat(buf[:], s.PPID); err != nil {
			break // it has just ended
		}
		if h.runsStepd(s.PID, s.Comm) {
			return OriginJob, nil
		}
	}
	return OriginOther, nil
}

// ofStep says whether a cgroup is one of a step of Slurm's, or inside one.
func ofStep(path string) bool {
	parts, _, _ := findStep(path)
	return parts != nil
}
