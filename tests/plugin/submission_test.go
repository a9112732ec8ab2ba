package plugin

import (
	"regexp"
	"strings"
	"testing"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// TestBadValuesFailAtSubmission: nothing is submitted, and one line of ours
// names the option and what is allowed.
func TestBadValuesFailAtSubmission(t *testing.T) {
	s := newSite(t)
	for _, tc := range []struct{ option, allowed string }{
		{"--gimbal-pack=Not-A-Name", "a policy's name"},
		{"--gimbal-pack=a,b", "a policy's name"},
		{"--gimbal-memory=16", "a size with its unit"},
		{"--gimbal-memory=", "a size with its unit"},
		{"--gimbal-class=best", "guaranteed or opportunistic"},
		{"--gimbal-weight=0", "from 1 to"},
		{"--gimbal-deadline=yesterday", "a time to come"},
		{"--gimbal-deadline=2001-01-01", "a time to come"},
		{"--gimbal-signal=KILL", "but KILL, STOP and CONT"},
		{"--gimbal-signal=USR1@soon", "SECONDS"},
	} {
		t.Run(tc.option, func(t *testing.T) {
			s.t = t
			for _, cmd := range [][]string{
				{"sbatch", tc.option, "--wrap", "true"},
				{"srun", tc.option, "true"},
				{"salloc", "-Q", tc.option, "true"},
			} {
				r := s.Run(cmd[0], cmd[1:]...)
				if r.Exit == 0 || strings.Contains(r.Stdout, "Submitted") {
					t.Errorf("%s: %v", cmd[0], r)
				}
				var ours []string
				for line := range strings.Lines(r.Stderr) {
					if strings.Contains(line, "allowed is") {
						ours = append(ours, line)
					}
				}
				if len(ours) != 1 || !strings.Contains(ours[0], tc.option) || !strings.Contains(ours[0], tc.allowed) {
					t.Errorf("%s: stderr %q", cmd[0], r.Stderr)
				}
			}
		})
	}
	if jobs := strings.TrimSpace(s.run("squeue", "-h", "-t", "PENDING,RUNNING").Stdout); jobs != "" {
		t.Errorf("jobs are left: %s", jobs)
	}
}

// TestBadDirectiveFailsAtSubmission is the same for a line in the script.
func TestBadDirectiveFailsAtSubmission(t *testing.T) {
	s := newSite(t)
	r := s.Run("bash", "-c", "printf '#!/bin/bash\\n#SBATCH --gimbal-weight=-1\\n' | sbatch")
	if r.Exit == 0 || !strings.Contains(r.Stderr, "--gimbal-weight=-1") {
		t.Errorf("%v", r)
	}
}

// TestBadVariableWarnsAndIsIgnored: once, even where sruns in the job inherit
// the environment. (GIMBAL_PACK=banana names a policy that only the node may
// know: it is packed, and the node says so if it knows no such policy.)
func TestBadVariableWarnsAndIsIgnored(t *testing.T) {
	s := newSite(t)
	d := s.startDaemon()
	for _, tc := range []struct {
		variable string
		steps    int
	}{
		{"GIMBAL_PACK=Ban ana", 0},
		{"GIMBAL_MEMORY=lots", 0},
		{"GIMBAL_WEIGHT=1.5", 0},
		{"GIMBAL_DEADLINE=never", 0},
		{"GIMBAL_MAX_PAUSE=30", 0},
	} {
		t.Run(tc.variable, func(t *testing.T) {
			d.t, s.t = t, t
			d.forget()
			r := s.runWith([]string{tc.variable}, "salloc", "-Q", "bash", "-c", "srun /bin/true; srun /bin/true")
			if n := strings.Count(r.Stderr, "ignoring"); n != 1 || !strings.Contains(r.Stderr, tc.variable) {
				t.Errorf("stderr %q: %d warnings", r.Stderr, n)
			}
			if len(d.calls()) != 0 {
				t.Errorf("calls: %s", d)
			}
			d.forget()
			r = s.runWith([]string{tc.variable}, "srun", "--gimbal-pack=alpha", "/bin/true")
			regs := d.registrations(1)
			if len(regs) != 1 || regs[0].Options.Pack != "alpha" || regs[0].Options != (model.Options{Pack: "alpha"}) {
				t.Errorf("stderr %q, registrations %s", r.Stderr, as(regs))
			}
		})
	}
}

func TestSistersWithoutPackWarn(t *testing.T) {
	s := newSite(t)
	d := s.startDaemon()
	r := s.run("srun", "--gimbal-weight=2", "/bin/true")
	if !strings.Contains(r.Stderr, "--gimbal-weight has no effect without --gimbal-pack") || len(d.calls()) != 0 {
		t.Errorf("stderr %q, calls %s", r.Stderr, d)
	}
}

func TestHelpNamesEachOption(t *testing.T) {
	s := newSite(t)
	help := s.run("sbatch", "--help").Stdout
	for _, want := range []string{
		`--gimbal-pack=\[POLICY\|off\]`, `--gimbal-memory=SIZE`, `--gimbal-class=CLASS`,
		`--gimbal-weight=N`, `--gimbal-deadline=TIME`, `--gimbal-signal=SIG`,
	} {
		if !regexp.MustCompile(want).MatchString(help) {
			t.Errorf("no %s in\n%s", want, help[max(0, len(help)-1500):])
		}
	}
}
