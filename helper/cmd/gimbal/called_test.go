package main

import (
	"strings"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/journal"
	"github.com/gimbal-hpc/gimbal/helper/model"
)

// writeNamesakes writes the journal of jobs of which several have one name.
func writeNamesakes(t *testing.T) (dir string) {
	dir = t.TempDir()
	j, err := journal.Open(dir, journal.Options{Now: func() time.Time { return noon.Add(-time.Hour) }})
	if err != nil {
		t.Fatal(err)
	}
	add := func(job uint32, name string, sec int, more func(*model.Registration)) {
		one := tenant(job, name, 1001, sec)
		if more != nil {
			more(&one.Reg)
		}
		wall, mono := at(sec)
		one.State, one.Since = model.Running, mono
		if err := j.Append(model.Record{Wall: wall, At: mono, Tenant: one, Event: &model.Event{Kind: model.EvRegistered, Tenant: one.ID, Reg: &one.Reg}}); err != nil {
			t.Fatal(err)
		}
	}
	array := func(task uint32) func(*model.Registration) {
		return func(r *model.Registration) { r.ArrayJob, r.ArrayTask = 300, task }
	}
	het := func(offset uint32) func(*model.Registration) {
		return func(r *model.Registration) { r.HetJob, r.HetOffset = 400, offset }
	}
	add(101, "train", 0, nil)
	add(205, "train", 20, nil) // the newest, though not the last one
	add(150, "train", 10, nil)
	for task := range uint32(6) {
		add(301+task, "sweep", 30+int(task), array(task))
	}
	add(300, "sweep", 36, array(6)) // the last task has the array's number
	add(400, "pair", 40, het(0))
	add(401, "pair", 40, het(1))
	add(500, "501", 50, nil)
	add(501, "502", 51, nil)
	add(502, "", 52, nil)
	add(model.RunJob(3), "resnet", 53, nil)
	add(503, "2024_b", 54, nil)
	add(504, "last", 60, nil)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestJobByName: which job the commands take that look at one, and what they say.
func TestJobByName(t *testing.T) {
	dir := writeNamesakes(t)
	for _, c := range []struct {
		job  string
		code int
		told string // jobs that are told of, as explain has them
		said string // on standard error, behind the command
	}{
		{"205", exitOK, "205", ""},
		{"train", exitOK, "205", `3 jobs are called "train": 205, 150, 101; this is of the newest, 205`},
		{"train,101", exitOK, "101 205", "this is of the newest, 205"},
		{"sweep", exitOK, "300_6", `7 jobs are called "sweep": 300_6, 300_5, 300_4, 300_3, 300_2, 2 more; this is of the newest, 300_6`},
		{"pair", exitOK, "400+0 400+1", ""},
		{"501", exitOK, "501", ""}, // a number goes before a name
		{"resnet", exitOK, "r3", ""},
		{"r3", exitOK, "r3", ""},
		{"2024_b", exitOK, "503", ""},
		{"trian", exitFailed, "", `no packed job of this node is called "trian", did you mean "train"?`},
		{"banana", exitFailed, "", `no packed job of this node is called "banana"; 'gimbal status' lists`},
		{"timeslice", exitFailed, "", `no packed job of this node is called "timeslice"; of the policy timeslice tells 'gimbal policies explain timeslice'`},
		{"tmeslice", exitFailed, "", `of the policy timeslice tells 'gimbal policies explain timeslice'`},
		{"timeslice.toml", exitFailed, "", `of the policy timeslice tells 'gimbal policies explain timeslice'`},
		{"called_test.toml", exitFailed, "", `no packed job of this node is called "called_test.toml"; 'gimbal status' lists`},
		{"999", exitFailed, "", `no packed job 999 is known on this node; 'gimbal status' lists`},
		{"train,999", exitOK, "205", "this is of the newest, 205"},
		{"12_x", exitUsage, "", `"x" is no list of array tasks`},
		{"0", exitUsage, "", `is no job number`},
		{",", exitUsage, "", `which job?`},
	} {
		code, out, errs := try("explain", "--offline", "--state-dir", dir, c.job)
		var told []string
		for _, l := range strings.Split(out, "\n") {
			if name, _, ok := strings.Cut(l, " "); ok && name != "" && name != "Now" {
				told = append(told, name)
			}
		}
		if got := strings.Join(told, " "); code != c.code || got != c.told || !strings.Contains(errs, c.said) || c.said == "" && strings.Contains(errs, "called") {
			t.Errorf("explain %s: exit %d, told of %q\n%s", c.job, code, got, errs)
		}
		for _, args := range [][]string{{"timeline", c.job}, {"report", "--text", "-j", c.job}} {
			code, out, errs := try(append(args, "--offline", "--state-dir", dir)...)
			first, _, _ := strings.Cut(c.told, " ")
			if code != c.code || !strings.Contains(out, first) || !strings.Contains(errs, c.said) {
				t.Errorf("%v: exit %d\n%s%s", args, code, out, errs)
			}
		}
	}
	if _, out, _ := try("report", "--text", "-j", "train", "--offline", "--state-dir", dir); !strings.HasPrefix(out, "Job 205 (train) and who shared its GPUs") {
		t.Error(out)
	}
}

// TestJobByNameOfOthers: a job that the caller may not see is not found by its name,
// and does not stand for one that he may see.
func TestJobByNameOfOthers(t *testing.T) {
	mine, hidden := model.View{}, model.View{Hidden: true}
	mine.Reg = model.Registration{JobID: 7, ArrayTask: model.NoVal, HetOffset: model.NoVal, JobName: "train"}
	if got := newestFirst([]model.View{hidden, mine, hidden}); len(got) != 1 || refName(got[0]) != "7" {
		t.Errorf("%+v", got)
	}
	dir := t.TempDir()
	socket := dir + "/g.sock"
	serve(t, socket, dir+"/state", true) // 102, called beta|x, is another's
	code, out, errs := try("explain", "--socket", socket, "beta|x")
	if code != exitFailed || out != "" || !strings.Contains(errs, "no packed job of this node is called") || strings.Contains(errs, "did you mean") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}

// TestOrdersTakeNoNames: what acts on a job takes its number alone, and says how to
// find that.
func TestOrdersTakeNoNames(t *testing.T) {
	for _, args := range [][]string{{"pause", "train"}, {"resume", "train"}, {"evict", "train"}, {"notify", "train"}, {"release", "train"}, {"status", "-j", "train"}} {
		code, _, errs := try(args...)
		if code != exitUsage || !strings.Contains(errs, `"train" is no job number`) || !strings.Contains(errs, "'gimbal status --name=train' tells the numbers") {
			t.Errorf("%v: exit %d: %s", args, code, errs)
		}
		if code, _, errs = try(append(args[:len(args)-1], "12_x")...); code != exitUsage || strings.Contains(errs, "--name") {
			t.Errorf("%v: exit %d: %s", args, code, errs)
		}
	}
}
