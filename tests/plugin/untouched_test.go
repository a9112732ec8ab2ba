package plugin

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gimbal-hpc/gimbal/tests/slurmtest"
)

// observe prints what a task, and the slurmstepd above it, look like from
// outside: signals, limits, descriptors, threads, mapped libraries. Of threads and
// descriptors slurmstepd has more in passing, when it answers somebody: those that
// stay are counted.
const observe = `
least() { local n m; m=$(ls $1 | wc -l); for _ in {1..20}; do sleep 0.05; n=$(ls $1 | wc -l); ((n >= m)) || m=$n; done; echo $m; }
echo "task signals"; grep -E '^(Sig[PBIC]|Shd)' /proc/self/status
echo "task limits"; cat /proc/self/limits
echo "task descriptors"; for fd in /proc/$$/fd/*; do echo "${fd##*/} $(readlink $fd | sed 's/[0-9]\+/N/')"; done
echo "task nice"; cut -d' ' -f18,19 /proc/$$/stat
echo "stepd signals"; grep -E '^(Sig(Blk|Ign|Cgt))' /proc/$PPID/status
echo "stepd limits"; cat /proc/$PPID/limits
echo "stepd threads"; least /proc/$PPID/task
echo "stepd descriptors"; least /proc/$PPID/fd
echo "stepd libraries"; grep -o 'gimbal[^ ]*\.so' /proc/$PPID/maps | sort -u
echo "environment"; env | sort
`

// changing names what differs from one step to the next of its own accord.
var changing = []string{"SLURM_JOB_ID=", "SLURM_JOBID=", "SLURM_JOB_SLUID=", "SLURM_STEP_LAUNCHER_PORT=", "SLURM_SRUN_COMM_PORT=",
	"SLURM_TASK_PID=", "SLURM_LAUNCH_NODE_IPADDR=", "SLURM_JOB_START_TIME=", "SLURM_JOB_END_TIME=", "SLURM_GTIDS=",
	"TMPDIR=", "SRUN_DEBUG=", "SLURM_MPI_TYPE=", "Max pending signals", "_="}

// look runs observe in a step and returns its sections. The step before may
// still be completing on the first node, and the other has another name.
func (s *site) look(env []string, args ...string) map[string]string {
	s.t.Helper()
	sections := map[string]string{}
	section := ""
	args = append(args, "-w", s.Nodes[0], "bash", "-c", observe)
	for line := range strings.Lines(s.runWith(env, "srun", args...).Stdout) {
		name := strings.TrimSpace(line)
		switch {
		case slices.ContainsFunc(changing, func(c string) bool { return strings.HasPrefix(line, c) }):
		case strings.HasPrefix(name, "task ") || strings.HasPrefix(name, "stepd ") || name == "environment":
			section = name
		default:
			sections[section] += line
		}
	}
	if len(sections) < 8 {
		s.t.Fatalf("observed only %v", sections)
	}
	return sections
}

// TestStepWithoutTheOptionIsUntouched compares with a run without the plugin.
func TestStepWithoutTheOptionIsUntouched(t *testing.T) {
	s := newSite(t)
	d := s.startDaemon()
	s.plugstack("")
	want := s.look(nil)
	s.plugstack(s.line())
	got := s.look(nil)
	if diff := cmp.Diff(want["stepd libraries"]+"gimbal.so\n", strings.ReplaceAll(got["stepd libraries"], "gimbal/", "")); !strings.HasSuffix(got["stepd libraries"], "gimbal.so\n") || strings.Contains(got["stepd libraries"], "core") {
		t.Errorf("libraries: %s", diff)
	}
	delete(want, "stepd libraries")
	delete(got, "stepd libraries")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("without and with the plugin:\n%s", diff)
	}
	if len(d.calls()) != 0 {
		t.Errorf("calls: %s", d)
	}
}

// TestPackedStepIsHardlyTouched: where gimbald says yes, the task differs in
// its environment alone, and slurmstepd in nothing: no Go is loaded into it.
func TestPackedStepIsHardlyTouched(t *testing.T) {
	s := newSite(t)
	s.startDaemon()
	s.plugstack("")
	want := s.look(nil)
	s.plugstack(s.line())
	got := s.look(nil, "--gimbal-pack")
	for _, section := range []string{"task signals", "task limits", "task descriptors", "task nice",
		"stepd signals", "stepd limits", "stepd threads", "stepd descriptors"} {
		if diff := cmp.Diff(want[section], got[section]); diff != "" {
			t.Errorf("%s:\n%s", section, diff)
		}
	}
	added := lines(got["environment"])
	for _, line := range lines(want["environment"]) {
		i := slices.Index(added, line)
		if i < 0 {
			t.Errorf("the environment lacks %s", line)
			continue
		}
		added = slices.Delete(added, i, i+1)
	}
	allowed := []string{"CUDA_DEVICE_ORDER=PCI_BUS_ID", "GIMBAL_ACTIVE=1", "GIMBAL_GIVEN=CUDA_DEVICE_ORDER=PCI_BUS_ID", "GIMBAL_REQUESTED=1",
		"SLURM_SPANK__SLURM_SPANK_OPTION_gimbal_gimbal_pack=1"}
	if !slices.Equal(added, allowed) {
		t.Errorf("the environment has besides: %q, want %q", added, allowed)
	}
	if libraries := lines(got["stepd libraries"]); len(libraries) != 1 || !strings.HasSuffix(libraries[0], "gimbal.so") {
		t.Errorf("slurmstepd has mapped %q", libraries)
	}
}

// TestStepWithTheCoreIsHardlyTouched: the same where the daemon's answer has
// variables for the tasks, which the core reads; threads and what the runtime
// holds open stay in slurmstepd.
func TestStepWithTheCoreIsHardlyTouched(t *testing.T) {
	s := newSite(t)
	d := s.startDaemon()
	d.env = map[string]string{"GIMBAL_TEST": "1"}
	s.plugstack("")
	want := s.look(nil)
	s.plugstack(s.line())
	got := s.look(nil, "--gimbal-pack")
	for _, section := range []string{"task signals", "task limits", "task descriptors", "task nice", "stepd signals", "stepd limits"} {
		if diff := cmp.Diff(want[section], got[section]); diff != "" {
			t.Errorf("%s:\n%s", section, diff)
		}
	}
	if !strings.Contains(got["stepd libraries"], "gimbal_core.so") || got["stepd threads"] == want["stepd threads"] {
		t.Errorf("the core is not there: libraries %q, threads %q", got["stepd libraries"], got["stepd threads"])
	}
}

func lines(text string) []string { return strings.Split(strings.TrimSuffix(text, "\n"), "\n") }

// TestLowLimitOnFiles: the runtime raises the soft limit; neither slurmstepd
// nor the task may see that.
func TestLowLimitOnFiles(t *testing.T) {
	s := newSite(t)
	s.startDaemon().env = map[string]string{"GIMBAL_TEST": "1"} // so that the core is loaded
	show := `ulimit -Sn; ulimit -Hn; awk '/open files/ {print $4, $5}' /proc/$PPID/limits`
	with := func(option ...string) string {
		args := append([]string{"-c", "ulimit -Sn 256; exec srun \"$@\"", "x"}, option...)
		return s.run("bash", append(args, "bash", "-c", show)...).Stdout
	}
	s.plugstack("")
	want := with()
	s.plugstack(s.line())
	if got := with("--gimbal-pack"); got != want {
		t.Errorf("limits %q, without the plugin %q", got, want)
	}
}

// TestNoCommandIsRun puts commands that hang first in the path: the plugin
// needs none of them.
func TestNoCommandIsRun(t *testing.T) {
	s := newSite(t)
	d := s.startDaemon()
	dir := filepath.Join(filepath.Dir(s.socket), "bin")
	for _, name := range []string{"scontrol", "squeue", "sacct", "nvidia-smi", "sacctmgr"} {
		script := fmt.Sprintf("mkdir -p %s && printf '#!/bin/sh\\necho $0 >> %s.log\\nsleep 60\\n' > %s/%s && chmod 755 %s/%s",
			dir, dir, dir, name, dir, name)
		s.run("bash", "-c", script)
	}
	usual := s.run("srun", "/bin/true").Took
	r := s.run("bash", "-c", "PATH="+dir+":$PATH exec srun --gimbal-pack /bin/true")
	if r.Took > usual+3e9 {
		t.Errorf("took %v, usually %v", r.Took, usual)
	}
	if log := s.Run("cat", dir+".log"); log.Stdout != "" {
		t.Errorf("run: %s", log.Stdout)
	}
	d.registrations(1)
}

// TestManySteps is SP-10: nothing hangs, none is lost, no slurmstepd stays.
func TestManySteps(t *testing.T) {
	s := newSite(t)
	d := s.startDaemon()
	steps, tasks := slurmtest.Long(50, 3), slurmtest.Long(64, 32)
	for range steps {
		s.run("srun", "-n", fmt.Sprint(tasks), "--overcommit", "--gimbal-pack", "/bin/true")
	}
	if regs := d.registrations(steps); len(regs) != steps*tasks {
		t.Errorf("%d registrations, want %d", len(regs), steps*tasks)
	}
}
