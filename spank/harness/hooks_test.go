package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/wire"
)

// daemon counts what it is asked.
type daemon struct {
	visible                            string // CUDA_VISIBLE_DEVICES that it chooses, "" none
	socket, pending                    string
	message                            string // in each answer to a registration
	plain                              bool   // no variables for the tasks
	prepared, registered, exits, ended atomic.Int32
	mu                                 sync.Mutex
	last                               model.Registration
}

// startDaemon serves a socket in a folder of its own until the test ends.
func startDaemon(t *testing.T) *daemon {
	t.Helper()
	dir, err := os.MkdirTemp("", "harness")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	d := &daemon{socket: filepath.Join(dir, "s"), pending: filepath.Join(dir, "pending")}
	server, err := wire.Listen(d.socket, wire.Options{Rate: 1e6, Burst: 1e6})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, d.handle) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return d
}

func (d *daemon) handle(_ context.Context, _ wire.Peer, req wire.Request) (any, error) {
	switch req.Op {
	case wire.OpPrepare:
		d.prepared.Add(1)
		if d.plain {
			return wire.Prepared{Active: true}, nil
		}
		env := map[string]string{"GIMBAL_TEST": "a=b c"}
		if d.visible != "" {
			env["CUDA_VISIBLE_DEVICES"] = d.visible
		}
		return wire.Prepared{Active: true, Env: env}, nil
	case wire.OpRegister:
		d.registered.Add(1)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.last = model.Registration{}
		return wire.Registered{Active: true, Message: d.message}, req.Decode(&d.last)
	case wire.OpTaskExit:
		d.exits.Add(1)
	case wire.OpStepEnd:
		d.ended.Add(1)
	default:
		return nil, errors.New("what?")
	}
	return nil, nil
}

// counts are prepared, registered, exits, ended.
func (d *daemon) counts() [4]int32 {
	return [4]int32{d.prepared.Load(), d.registered.Load(), d.exits.Load(), d.ended.Load()}
}

func (d *daemon) args() []string {
	return []string{"socket=" + d.socket, "pending=" + d.pending, "core=" + plain.core, "timeout=10s"}
}

// step is a whole packed step of n tasks.
func (d *daemon) step(n int) *script {
	s := plain.script(remote, d.args()...).items().do("hook init").do("ropt gimbal-pack alpha").do("hook init_post_opt")
	return s.do("tasks %d", n).do("hook exit")
}

// TestNodeName: %n in the plugin's paths is the node by slurmd's name, whatever
// the job's environment says, and never leads out of the folder.
func TestNodeName(t *testing.T) {
	d := startDaemon(t)
	dir, name := filepath.Split(d.socket)
	for _, tc := range []struct {
		socket, node string
		reached      bool
	}{
		{dir + "%n", name, true},
		{dir + "%n", "other", false},
		{dir + "%n", "", false},
		{dir + "x/%n", "../" + name, false},
		{dir + "%n", strings.Repeat("n", 200), false},
		{d.socket, "other", true},
	} {
		before := d.prepared.Load()
		args := append(d.args(), "socket="+tc.socket)
		s := plain.script(remote, args...).items().do("env SLURMD_NODENAME=%s", tc.node).do("jobenv SLURMD_NODENAME=%s", name)
		out := s.do("hook init").do("ropt gimbal-pack").do("hook init_post_opt").do("hook exit").run(t)
		if got := d.prepared.Load() > before; got != tc.reached || grep(out, "init_post_opt rc 0") == nil {
			t.Errorf("socket=%s on %.20s: reached %v, want %v: %q", tc.socket, tc.node, got, tc.reached, out)
		}
	}
}

// TestForkedChildren: 200 tasks, many times over, with a core that is up before
// they are forked and called for each of them, also with a runtime that
// collects garbage all the time. None hangs, each is registered once.
func TestForkedChildren(t *testing.T) {
	const tasks = 200
	runs := int32(2)
	if os.Getenv("GIMBAL_LONG") != "" {
		runs = 20
	}
	for _, gogc := range []string{"100", "1"} {
		t.Run("GOGC="+gogc, func(t *testing.T) {
			d := startDaemon(t)
			d.message = "less than asked"
			want := slices.Concat([]string{"init rc 0", "gimbal-pack rc 0", "init_post_opt rc 0"},
				slices.Repeat([]string{"info: gimbal: less than asked"}, tasks), []string{"exit rc 0"})
			for run := range runs {
				s := d.step(tasks)
				s.env = []string{"GOGC=" + gogc}
				if out := s.run(t); !slices.Equal(out, want) {
					t.Fatalf("%q", out)
				}
				if got, want := d.counts(), [4]int32{run + 1, (run + 1) * tasks, (run + 1) * tasks, run + 1}; got != want {
					t.Fatalf("prepared, registered, exits, ends: %v, want %v", got, want)
				}
			}
		})
	}
}

// TestProcessIsLeftAsItWas: signals and limits after each hook are those from
// before; threads are there only once the core is.
func TestProcessIsLeftAsItWas(t *testing.T) {
	d := startDaemon(t)
	show := func(s *script, at string) *script { return s.do("echo == %s", at).do("show state") }
	s := show(plain.script(remote, d.args()...).items(), "before").do("hook init").do("ropt gimbal-pack alpha")
	show(s.do("hook init_post_opt"), "loaded")
	show(s.do("tasks 3"), "tasks")
	show(s.do("hook exit"), "after")
	states := map[string][]string{}
	for _, block := range strings.Split(strings.Join(s.run(t), "\n"), "== ")[1:] {
		lines := strings.Split(block, "\n")
		states[lines[0]] = append(grep(lines, "Sig"), grep(lines, "files")...)
	}
	if len(states) != 4 || len(states["before"]) < 5 {
		t.Fatalf("%q", states)
	}
	for at, state := range states {
		if diff := cmp.Diff(states["before"], state); diff != "" {
			t.Errorf("%s: %s", at, diff)
		}
	}
	if got := d.counts(); got != [4]int32{1, 3, 3, 1} {
		t.Errorf("calls %v", got)
	}
}

// TestStepThatDoesNotAsk loads nothing and starts nothing.
func TestStepThatDoesNotAsk(t *testing.T) {
	d := startDaemon(t)
	for name, opts := range map[string]string{"no option": "echo", "off": "ropt gimbal-pack off", "sister alone": "ropt gimbal-weight 3"} {
		s := plain.script(remote, d.args()...).items().do("jobenv USER=x").do("show state").do("hook init").do(opts)
		out := s.do("hook init_post_opt").do("tasks 2").do("hook exit").do("show state").do("show jobenv").run(t)
		states := slices.DeleteFunc(slices.Clone(out), func(l string) bool {
			return !strings.HasPrefix(l, "Sig") && !strings.HasPrefix(l, "Threads") && !strings.HasPrefix(l, "files")
		})
		if half := len(states) / 2; half < 5 || !slices.Equal(states[:half], states[half:]) {
			t.Errorf("%s: state %q", name, states)
		}
		if env := grep(out, "USER=x"); len(env) != 1 || out[len(out)-1] != "USER=x" {
			t.Errorf("%s: %q", name, out)
		}
	}
	if got := d.counts(); got != [4]int32{} {
		t.Errorf("calls %v", got)
	}
}

// TestLoadedAgain: dlopen, dlclose and dlopen in one process.
func TestLoadedAgain(t *testing.T) {
	d := startDaemon(t)
	s := d.step(2).do("show state").do("unload")
	s.do("load %s", plain.plugin).do("hook init").do("ropt gimbal-pack").do("hook init_post_opt").do("tasks 2").do("hook exit")
	out := s.do("show state").run(t)
	threads := grep(out, "Threads")
	if len(threads) != 2 || threads[0] != threads[1] {
		t.Errorf("threads %q", threads)
	}
	if got := d.counts(); got != [4]int32{2, 4, 4, 2} {
		t.Errorf("calls %v", got)
	}
}

// TestSecondCopyIsInert: two paths of the same plugin in one process.
func TestSecondCopyIsInert(t *testing.T) {
	d := startDaemon(t)
	copied := filepath.Join(filepath.Dir(d.socket), "other.so")
	data, err := os.ReadFile(plain.plugin)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(copied, data, 0o755); err != nil {
		t.Fatal(err)
	}
	s := plain.script(remote, d.args()...).items().do("hook init").do("load %s", copied).do("hook init")
	s.do("ropt gimbal-pack").do("hook init_post_opt").do("tasks 2").do("hook exit")
	for _, line := range s.run(t) {
		if strings.Contains(line, "both") || strings.Contains(line, "error") {
			t.Error(line)
		}
	}
	if got := d.counts(); got != [4]int32{} {
		t.Errorf("the second copy called: %v", got)
	}
}

// TestHooksCalledTwice: two lines with the same path are one copy.
func TestHooksCalledTwice(t *testing.T) {
	d := startDaemon(t)
	s := plain.script(remote, d.args()...).items().do("hook init").do("hook init").do("ropt gimbal-pack")
	s.do("hook init_post_opt").do("hook init_post_opt").do("tasks 1")
	out := s.do("hook task_exit").do("hook exit").do("hook exit").run(t)
	if got := d.counts(); got != [4]int32{1, 1, 1, 1} || grep(out, "option") != nil {
		t.Errorf("calls %v, out %q", got, out)
	}
}

// TestWhatTheDaemonSets reaches the environment; what it may not does not.
func TestWhatTheDaemonSets(t *testing.T) {
	d := startDaemon(t)
	out := d.step(1).do("show jobenv").run(t)
	for name, want := range map[string]string{"GIMBAL_TEST": "a=b c", "GIMBAL_ACTIVE": "1", "GIMBAL_REQUESTED": "alpha", "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
		"GIMBAL_GIVEN": "CUDA_DEVICE_ORDER=PCI_BUS_ID;GIMBAL_TEST=a=b c"} {
		if got, _ := value(out, name); got != want {
			t.Errorf("%s=%q, want %q", name, got, want)
		}
	}
}

// TestGPUsThatTheDaemonChose take the place of Slurm's where Slurm gave shards of
// them, and are told when the task is registered.
func TestGPUsThatTheDaemonChose(t *testing.T) {
	d := startDaemon(t)
	for _, tc := range []struct {
		name    string
		chosen  string
		jobenv  []string
		visible string
		want    model.Registration
	}{
		{"shards", "1", []string{"SLURM_STEP_GPUS=0", "CUDA_VISIBLE_DEVICES=0", "SLURM_SHARDS_ON_NODE=4"}, "1",
			model.Registration{Visible: "0", Shards: 4, Placed: "1"}},
		{"nothing chosen", "", []string{"SLURM_STEP_GPUS=0", "CUDA_VISIBLE_DEVICES=0", "SLURM_SHARDS_ON_NODE=4"}, "0",
			model.Registration{Visible: "0", Shards: 4}},
		{"a whole GPU", "1", []string{"SLURM_STEP_GPUS=0", "CUDA_VISIBLE_DEVICES=0"}, "0", model.Registration{Visible: "0"}},
		{"no GPU, and a value of the user's", "1", []string{"CUDA_VISIBLE_DEVICES=7", "SLURM_SHARDS_ON_NODE=4"}, "7",
			model.Registration{Visible: "7", Shards: 4}},
		{"none to be seen", "1", []string{"SLURM_JOB_GPUS=0", "SLURM_SHARDS_ON_NODE=4"}, "", model.Registration{Shards: 4}},
		{"more than is a value", strings.Repeat("1", 1025), []string{"SLURM_STEP_GPUS=0", "CUDA_VISIBLE_DEVICES=0", "SLURM_SHARDS_ON_NODE=4"}, "0",
			model.Registration{Visible: "0", Shards: 4}},
	} {
		d.visible = tc.chosen
		s := plain.script(remote, d.args()...).items()
		for _, v := range tc.jobenv {
			s.do("jobenv %s", v)
		}
		out := s.do("hook init").do("ropt gimbal-pack alpha").do("hook init_post_opt").do("tasks 1").do("hook exit").do("show jobenv").run(t)
		if got, _ := value(out, "CUDA_VISIBLE_DEVICES"); got != tc.visible {
			t.Errorf("%s: CUDA_VISIBLE_DEVICES=%q, want %q", tc.name, got, tc.visible)
		}
		d.mu.Lock()
		r := d.last
		d.mu.Unlock()
		if r.Visible != tc.want.Visible || r.Shards != tc.want.Shards || r.Placed != tc.want.Placed {
			t.Errorf("%s: visible %q, %d shards, placed %q", tc.name, r.Visible, r.Shards, r.Placed)
		}
	}
}

// TestExternStepIsLeftAlone: it inherits the option and has no task of the user.
func TestExternStepIsLeftAlone(t *testing.T) {
	d := startDaemon(t)
	s := plain.script(remote, d.args()...).items().do("item %d %d", itemStep, uint32(0xfffffffc))
	s.do("hook init").do("ropt gimbal-pack").do("hook init_post_opt").do("tasks 1").do("hook exit").run(t)
	if got := d.counts(); got != [4]int32{} {
		t.Errorf("calls %v", got)
	}
}

// TestArguments of the plugstack line: slurmd complains of them, once, and
// nobody else does.
func TestArguments(t *testing.T) {
	good := []string{"socket=/s", "core=/c", "pending=/p", "timeout=10ms", "timeout=10s", "timeout=500ms"}
	bad := []string{"socket=s", "core=", "pending=p", "timeout=1", "timeout=", "timeout=9ms", "timeout=11s", "timeout=99999999999s",
		"timeout=-1s", "timeout=1m", "colour=blue", "junk", "=", "socket=/" + strings.Repeat("x", 200), "core=/" + strings.Repeat("x", 5000)}
	for _, context := range []int{slurmd, local, allocator, remote} {
		out := plain.script(context, append(slices.Clone(good), bad...)...).do("hook init").run(t)
		want := map[bool]int{true: len(bad)}[context == slurmd]
		if got := grep(out, "error: gimbal: plugstack argument"); len(got) != want || out[len(out)-1] != "init rc 0" {
			t.Errorf("context %d: %d complaints, want %d: %q", context, len(got), want, got)
		}
	}
}

// TestContextsWithoutTasks: slurmd and prologs only load it.
func TestContextsWithoutTasks(t *testing.T) {
	for _, context := range []int{0, slurmd, 5} {
		out := plain.script(context).do("hook init").do("hook init_post_opt").do("hook exit").run(t)
		if want := []string{"init rc 0", "init_post_opt rc 0", "exit rc 0"}; !slices.Equal(out, want) {
			t.Errorf("context %d: %q", context, out)
		}
	}
	out := plain.script(slurmd).do("hook init").do("opt gimbal-pack").run(t)
	if !slices.Contains(out, "gimbal-pack unknown") {
		t.Errorf("slurmd: %q", out)
	}
}

// TestHostile feeds the hooks what no Slurm should, under the sanitizers.
func TestHostile(t *testing.T) {
	huge := fmt.Sprintf("n[0-%d]", 10_000) + strings.Repeat(",node", 10_000)
	names := []string{"SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES", "SLURM_JOB_NAME", "SLURM_JOB_ACCOUNT",
		"SLURM_JOB_PARTITION", "SLURM_JOB_NUM_NODES", "SLURM_JOB_USER", "SLURM_JOB_END_TIME", "SLURM_PTY_PORT",
		"SLURM_SPANK_GIMBAL_OWN", "SLURM_SPANK_GIMBAL_HET", "SLURM_JOB_ID_HET_GROUP_0", carrier("gimbal-pack"), carrier("gimbal-deadline")}
	odd := []string{"", "(null)", "\xff\xfe\x80", strings.Repeat("x", 4096), strings.Repeat("9", 4096), "%s%n%d", "-1", "4294967295,", ",,,,", "1,2,3"}
	for _, context := range []int{local, remote, allocator} {
		s := sanitized.script(context, "core=/nowhere")
		for _, with := range []bool{false, true} {
			if with {
				s.items()
			}
			s.do("hook init")
			for _, v := range odd {
				for _, o := range []string{"pack", "memory", "class", "weight", "deadline", "signal"} {
					s.do("opt gimbal-%s %s", o, v).do("ropt gimbal-%s %s", o, v)
				}
				for _, name := range names {
					s.do("jobenv %s=%s", name, v).do("env %s=%s", name, v)
				}
			}
			s.do("ropt gimbal-pack alpha").do("hook init_post_opt").do("tasks 3").do("hook exit").again()
		}
		for _, name := range names {
			s.do("big %s %d x", name, 128<<10).do("jobenv %s=%s", names[0], huge)
			s.do("hook init").do("ropt gimbal-pack").do("hook init_post_opt").do("tasks 1").do("hook exit").again()
		}
		if out := s.run(t); len(grep(out, "exit rc 0")) != 2+len(names) {
			t.Errorf("context %d: %d ends", context, len(grep(out, "exit rc 0")))
		}
	}
}

// TestValuesUnderSanitizers sends every value of the table once more.
func TestValuesUnderSanitizers(t *testing.T) {
	s := sanitized.script(local).do("now %d", at.Unix()).do("hook init")
	for _, v := range values {
		s.do("opt %s %s", v.option, v.value)
		// Cut short at each byte, too: parsers read over ends.
		for n := range min(len(v.value), 40) {
			s.do("ropt %s %s", v.option, v.value[:n])
		}
	}
	s.do("hook init_post_opt").run(t)
}
