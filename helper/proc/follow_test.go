package proc

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestForkOfAPidThatCameAgain: the news of a child's fork is read when its pid has
// become a stranger's. The stranger is not taken for a member where its parent
// tells, and else no longer than until the news that follow.
func TestForkOfAPidThatCameAgain(t *testing.T) {
	const root, middle, child, other = 100, 101, 102, 200
	exit := event{what: eventExit, pid: child}
	fork := event{what: eventFork, ppid: other, pid: child}
	for _, c := range []struct {
		name    string
		parent  int // of whoever has the child's pid when the fork is read
		lives   bool
		news    []event
		then    bool // is it a member, before the news that follow and after
		finally bool
	}{
		{name: "the child", parent: middle, lives: true, then: true, finally: true},
		{name: "the child, threads exit", parent: middle, lives: true, news: []event{exit}, then: true, finally: true},
		{name: "another's child", parent: other, lives: true, news: []event{exit, fork}},
		{name: "an orphan", parent: 1, then: true, finally: true},
		{name: "another's, by the exit", parent: other, news: []event{exit}, then: true},
		{name: "another's, by its fork", parent: other, news: []event{fork}, then: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(t)
			tr := tracked(t, f.Host, nil)
			top := f.process(root, 1000, "bash", "")
			f.process(other, 1001, "bash", "")
			if err := tr.Watch(top, true); err != nil {
				t.Fatal(err)
			}
			f.parent(f.process(middle, 1000, "bash", ""), root)
			tr.take(event{what: eventFork, ppid: root, pid: middle})
			if !c.lives {
				if err := os.RemoveAll(filepath.Join(f.ProcRoot, "101")); err != nil {
					t.Fatal(err)
				}
			}
			id := f.process(child, 1001, "python", "")
			f.parent(id, c.parent)
			tr.take(event{what: eventFork, ppid: middle, pid: child})
			if got := slices.Contains(tr.Members(top), id); got != c.then {
				t.Errorf("after its fork: a member %t, want %t", got, c.then)
			}
			for _, e := range c.news {
				tr.take(e)
			}
			if got := slices.Contains(tr.Members(top), id); got != c.finally {
				t.Errorf("in the end: a member %t, want %t", got, c.finally)
			}
		})
	}
}
