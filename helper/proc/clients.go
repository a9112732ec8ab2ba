package proc

import (
	"errors"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// lastSystemUID is the highest uid of accounts that may own Slurm's programs:
// a user cannot own a file under one of them.
const lastSystemUID = 999

// nobody owns what a network file system shows to a root that it does not trust.
const nobody = 65534

// slurmProgram says whether a name is that of a program of Slurm or munge.
func slurmProgram[T string | []byte](name T) bool {
	switch string(name) {
	case "slurmstepd", "slurmd", "slurmctld", "slurmdbd", "slurmrestd", "sackd", "munged",
		"srun", "salloc", "sbatch", "sattach", "sbcast", "scancel", "scontrol", "scrontab",
		"squeue", "sinfo", "sacct", "sacctmgr", "sstat", "sprio", "sshare", "sreport",
		"sdiag", "strigger", "sview":
		return true
	}
	return false
}

// isSlurm says whether a process is a program of Slurm: by its name, and by
// the file that it runs, so that a job cannot keep from being paused by calling
// itself srun. A process whose file cannot be read is believed.
func (h Host) isSlurm(pid int, comm []byte) bool {
	if !slurmProgram(comm) {
		return false
	}
	base, trusted, err := h.exe(pid)
	if err != nil {
		return true
	}
	return trusted && slurmProgram(base)
}

// runsStepd says whether a process still runs slurmstepd's program: it was
// forked for a task and has not exec'ed yet, or it is slurmstepd itself.
func (h Host) runsStepd(pid int, comm []byte) bool {
	base, trusted, err := h.exe(pid)
	if err != nil {
		return string(comm) == "slurmstepd"
	}
	return trusted && base == "slurmstepd"
}

// exe returns the base name of the file that a process runs, and whether that
// file belongs to the system rather than to a user. One whose first thread has
// ended shows it in the others.
func (h Host) exe(pid int) (base string, trusted bool, err error) {
	base, trusted, err = h.exeAt(pid, "exe")
	if !errors.Is(err, ErrGone) {
		return base, trusted, err
	}
	tids, _ := h.threads(pid)
	for _, tid := range tids {
		b, ok, err := h.exeAt(pid, "task/"+strconv.Itoa(tid)+"/exe")
		if !errors.Is(err, ErrGone) {
			return b, ok, err
		}
	}
	return base, trusted, err
}

func (h Host) exeAt(pid int, name string) (base string, trusted bool, err error) {
	link := h.path(pid, name)
	target, err := os.Readlink(link)
	if err != nil {
		return "", false, goneOr(err, pid, name)
	}
	base = strings.TrimSuffix(path.Base(target), " (deleted)")
	base = strings.TrimSuffix(base, "-wlm") // as Debian calls the files behind its alternatives
	var st unix.Stat_t
	if err := unix.Stat(link, &st); errors.Is(err, unix.EACCES) {
		return base, false, nil // a file system that its user keeps even root out of
	} else if err != nil {
		return "", false, goneOr(err, pid, name)
	}
	system := st.Uid <= lastSystemUID || st.Uid == nobody
	return base, system && st.Mode&(unix.S_IWGRP|unix.S_IWOTH) == 0, nil
}

// Executed says whether a task has left slurmstepd behind: it runs a program of
// its own. A task must not be stopped before that. ErrGone if it has ended.
func (h Host) Executed(id ID) (bool, error) {
	var buf [statSize]byte
	s, err := h.statOf(buf[:], id)
	if err != nil {
		return false, err
	}
	if s.dead() {
		return false, ErrGone
	}
	return !h.runsStepd(id.PID, s.Comm), nil
}
