package contrib

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gimbal-hpc/gimbal/helper/learn"
)

// memory16 is the site of the tests: GPUs of 16 GiB in shards of 1 GiB.
func memory16(more ...string) map[string]string {
	m := map[string]string{"gpu": `"16GiB"`}
	for i := 0; i+1 < len(more); i += 2 {
		m[more[i]] = more[i+1]
	}
	return m
}

// requests are jobs and what the scripts make of them.
var requests = []struct {
	name    string
	site    map[string]string
	options string
	want    string // shards, or fields that stay as they are
}{
	{"stated", memory16(), "--gimbal-pack --gimbal-memory=12GiB", "12"},
	{"rounded up", memory16(), "--gimbal-pack=jct --gimbal-memory=12.1g", "13"},
	{"smallest", memory16(), "--gimbal-pack --gimbal-memory=1M", "1"},
	{"the whole GPU", memory16(), "--gimbal-pack --gimbal-memory=16384M", "16"},
	{"more than a GPU has", memory16(), "--gimbal-pack --gimbal-memory=1.5T", "16"},
	{"nothing stated", memory16(), "--gimbal-pack", "16"},
	{"the site's default", memory16("default", `"3GiB"`), "--gimbal-pack", "3"},
	{"a default above the GPU", memory16("default", `"99GiB"`), "--gimbal-pack", "16"},
	{"coarse shards", memory16("shard", `"1536M"`), "--gimbal-pack --gimbal-memory=4GiB", "3"},
	{"several nodes", memory16(), "--gimbal-pack --gimbal-memory=2GiB -n4", "2"},
	{"an array", memory16(), "--gimbal-pack --gimbal-memory=2GiB --array=1", "2"},
	{"CPUs for each task", memory16(), "--gimbal-pack --gimbal-memory=2GiB -c2", "2"},

	{"not packed", memory16(), "--gimbal-memory=12GiB", ""},
	{"packed off", memory16(), "--gimbal-pack=off --gimbal-memory=12GiB", ""},
	{"plain", memory16(), "-n1", ""},
	{"own shards", memory16(), "--gimbal-pack --gimbal-memory=12GiB --gres=shard:2", "TresPerNode=gres:shard:2"},
	{"own GPU", memory16(), "--gimbal-pack --gpus=1", "TresPerJob=gres:gpu:1"},
	{"own GPU of each task", memory16(), "--gimbal-pack --gpus-per-task=1 -n2", "TresPerTask=gres:gpu:1"},
	{"own GPU of the node", memory16(), "--gimbal-pack --gpus-per-node=2", "TresPerNode=gres:gpu:2"},

	{"a partition with shards", memory16("partitions", `{ "main" }`), "--gimbal-pack -p main", "16"},
	{"a partition without", memory16("partitions", `{ "main" }`), "--gimbal-pack -p plain", ""},
	{"one of two without", memory16("partitions", `{ "main" }`), "--gimbal-pack -p main,plain", ""},
	{"both with", memory16("partitions", `{ "plain", "main" }`), "--gimbal-pack -p main,plain", "16"},

	{"a mistake in shard", memory16("shard", `"1 GiB"`), "--gimbal-pack", ""},
	{"a mistake in gpu", memory16("gpu", `"sixteen"`), "--gimbal-pack --gimbal-memory=2GiB", ""},
	{"a mistake in default", memory16("default", `"much"`), "--gimbal-pack", ""},
	{"a shard above the GPU", memory16("shard", `"32GiB"`), "--gimbal-pack", ""},
	{"settings of another kind", memory16("partitions", `7`), "--gimbal-pack", ""},
}

// A newer Slurm says in the same place how many CPUs a task has.
var shardCount = regexp.MustCompile(`^TresPerNode=gres[:/]shard:(\d+)(?: TresPerTask=cpu=\d+)?$`)

// shards takes the count out of a request for shards; anything else stays.
func shards(request string) string {
	if m := shardCount.FindStringSubmatch(request); m != nil {
		return m[1]
	}
	return request
}

// wanted writes a request as this version of Slurm spells it.
func wanted(want string, slash bool) string {
	if slash {
		want = strings.ReplaceAll(want, "gres:", "gres/")
		want = strings.ReplaceAll(want, "TresPerTask=gres/gpu:", "TresPerTask=gres/gpu=")
	}
	return want
}

func TestShards(t *testing.T) {
	s := newSite(t)
	t.Run("requests", func(t *testing.T) { testRequests(t, s) })
	t.Run("default partition", func(t *testing.T) { testDefaultPartition(t, s) })
	t.Run("learnt", func(t *testing.T) { testLearnt(t, s) })
	t.Run("not understood", func(t *testing.T) { testNotUnderstood(t, s) })
	s.Run("scancel", "--state=pending", "--me")
	t.Run("srun", func(t *testing.T) { testSrun(t, s) })
	t.Run("filled exactly", func(t *testing.T) { testFilledExactly(t, s) })
	for line := range strings.Lines(s.Logs(10000)) {
		if strings.Contains(line, "attempt to") && !strings.Contains(line, "left as it is") {
			t.Errorf("an error of Lua's that reached Slurm: %s", line)
		}
	}
}

func testRequests(t *testing.T, s *site) {
	plain := s.held(t, "--gres=gpu:1")
	scripts := []string{"job_submit.lua", "cli_filter.lua"}
	ids := map[string][]int{}
	for _, script := range scripts {
		for _, tt := range requests {
			s.install(script, tt.site)
			ids[script] = append(ids[script], s.held(t, strings.Fields(tt.options)...))
		}
	}
	got := s.requests(t)
	slash := strings.Contains(got[plain], "gres/")
	for _, script := range scripts {
		for i, tt := range requests {
			request := got[ids[script][i]]
			if want := wanted(tt.want, slash); request != want && shards(request) != want {
				t.Errorf("%s: %s: sbatch %s: %q, want %q", script, tt.name, tt.options, request, want)
			}
		}
	}
}

// slurmctld knows which partition a job goes to that names none; sbatch does
// not, and leaves the job as it is.
func testDefaultPartition(t *testing.T, s *site) {
	for script, want := range map[string]string{"job_submit.lua": "16", "cli_filter.lua": ""} {
		s.install(script, memory16("partitions", `{ "main" }`))
		with := s.held(t, "--gimbal-pack")
		s.install(script, memory16("partitions", `{ "plain" }`))
		without := s.held(t, "--gimbal-pack")
		got := s.requests(t)
		if shards(got[with]) != want || got[without] != "" {
			t.Errorf("%s: %q, want %q; %q where the default partition has no shards", script, got[with], want, got[without])
		}
	}
}

// What nodes have learnt of a user's jobs of the same name, as gimbal learnt writes
// it, makes their requests larger: heavy ones are alone, light ones in fours.
func testLearnt(t *testing.T, s *site) {
	kept := func(name string, sm float64) learn.Kept {
		return learn.Kept{Job: learn.Job{UID: uint32(os.Getuid()), Name: name}, Seen: 1, SM: sm}
	}
	text, err := learn.Encode([]learn.Kept{kept("resnet", 0.95), kept("bert base_1.0-%é", 0.5), kept("tiny", 0.1),
		{Job: learn.Job{UID: 4242, Name: "other"}, Seen: 1, SM: 0.95}})
	if err != nil {
		t.Fatal(err)
	}
	s.write("learnt", string(text))
	build := exec.Command("go", "run", "./helper/cmd/gimbal", "learnt", "--classes", filepath.Join(s.Dir, "learnt"))
	build.Dir = top
	classes, err := build.Output()
	if err != nil {
		t.Fatalf("gimbal learnt: %v", err)
	}
	s.write("classes", string(classes)+"nonsense\n0\n0 heavy\n0 dreadful odd\n")
	s.install("job_submit.lua", memory16("classes", strconv.Quote(filepath.Join(s.Dir, "classes"))))
	for _, tt := range []struct{ name, memory, want string }{
		{"resnet", "2GiB", "16"}, {"bert base_1.0-%é", "2GiB", "8"}, {"tiny", "2GiB", "4"},
		{"tiny", "5GiB", "5"}, {"bert base_1.0-%é", "12GiB", "12"}, {"resnet", "99GiB", "16"},
		{"other", "2GiB", "2"}, {"net", "2GiB", "2"}, {"odd", "2GiB", "2"}, {"", "2GiB", "2"},
	} {
		id := s.held(t, "-J", tt.name, "--gimbal-pack", "--gimbal-memory="+tt.memory)
		if got := shards(s.requests(t)[id]); got != tt.want {
			t.Errorf("job %q with %s: %q, want %q", tt.name, tt.memory, got, tt.want)
		}
	}
	s.install("job_submit.lua", memory16("classes", `"/nonexistent"`))
	id := s.held(t, "-J", "resnet", "--gimbal-pack", "--gimbal-memory=2GiB")
	if got := shards(s.requests(t)[id]); got != "2" {
		t.Errorf("without the file: %q, want 2", got)
	}
}

// The values come from our plugin, or from whoever sets what it would: a job is
// accepted whatever they are.
func testNotUnderstood(t *testing.T, s *site) {
	const carrier = "SLURM_SPANK__SLURM_SPANK_OPTION_gimbal_gimbal_"
	s.install("job_submit.lua", memory16())
	other := s.takesAnything(t)
	for memory, want := range map[string]string{
		"5GiB": "5", "5g": "5",
		"": "", "12": "", "GiB": "", "-1GiB": "", "12XiB": "", "1..5G": "", "1.G": "", "0G": "", "1e9G": "",
		"12GiBs": "", "12 GiB": "", strings.Repeat("9", 400) + "T": "", "%s%d\nG": "",
	} {
		r := s.Run("env", "SLURM_CONF="+other, "sbatch", "--gimbal-pack=1", "--gimbal-memory="+memory, "--parsable", "--hold", "--wrap", "true")
		id, err := strconv.Atoi(strings.TrimSpace(r.Stdout))
		if err != nil {
			t.Errorf("memory %.20q: %s", memory, r)
			continue
		}
		if got := shards(s.requests(t)[id]); got != want {
			t.Errorf("memory %.20q: %q, want %q", memory, got, want)
		}
	}
	for _, plain := range []string{"", "--gimbal-pack=off"} { // what is carried is the enclosing job's
		r := s.Run("env", append([]string{carrier + "pack=1", carrier + "memory=5GiB", "sbatch", "--parsable", "--hold", "--wrap", "true"}, strings.Fields(plain)...)...)
		id, err := strconv.Atoi(strings.TrimSpace(r.Stdout))
		if err != nil || shards(s.requests(t)[id]) != "" {
			t.Errorf("inside another job: %s, %q", r, s.requests(t)[id])
		}
	}
	r := s.Run("env", "GIMBAL_PACK=1", "GIMBAL_MEMORY=7GiB", "sbatch", "--parsable", "--hold", "--wrap", "true")
	id, err := strconv.Atoi(strings.TrimSpace(r.Stdout))
	if err != nil || shards(s.requests(t)[id]) != "7" {
		t.Errorf("GIMBAL_MEMORY: %s, %q", r, s.requests(t)[id])
	}
}

// An srun of its own asks for shards; one inside a job changes nothing.
// takesAnything makes a configuration of a host whose plugin hands on any value.
func (s *site) takesAnything(t *testing.T) (conf string) {
	t.Helper()
	plugin, stack, conf := filepath.Join(s.Dir, "anything.so"), filepath.Join(s.Dir, "anything.conf"), filepath.Join(s.Dir, "other.conf")
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-o", plugin, "testdata/anything.c").CombinedOutput(); err != nil {
		t.Fatalf("build another plugin: %v\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(s.Dir, "slurm.conf"))
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, "PlugStackConfig="+stack+"\n"...) // the last one counts
	for file, text := range map[string][]byte{stack: []byte("required " + plugin + "\n"), conf: text} {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return conf
}

func testSrun(t *testing.T, s *site) {
	for _, script := range []string{"job_submit.lua", "cli_filter.lua"} {
		s.install(script, memory16())
		const show = `scontrol show job $SLURM_JOB_ID -o; scontrol show step $SLURM_JOB_ID.$SLURM_STEP_ID -o`
		r := s.Run("srun", "--gimbal-pack", "--gimbal-memory=4g", "bash", "-c", show)
		if r.Exit != 0 || !regexp.MustCompile(`TresPerNode=gres[:/]shard:4\b`).MatchString(r.Stdout) {
			t.Errorf("%s: srun: %s", script, r)
		}
		r = s.Run("salloc", "-Q", "--gimbal-pack", "--gimbal-memory=4g",
			"srun", "--gimbal-pack", "--gimbal-memory=2g", "bash", "-c", show)
		if r.Exit != 0 || !regexp.MustCompile(`TresPerNode=gres[:/]shard:4\b`).MatchString(r.Stdout) || strings.Contains(r.Stdout, "shard:2") {
			t.Errorf("%s: srun inside salloc: %s", script, r)
		}
	}
}

// Mixes whose memory fits the two GPUs to the last GiB all run at once, and
// nothing more does until one of them has ended.
func testFilledExactly(t *testing.T, s *site) {
	s.install("job_submit.lua", memory16("default", `"5GiB"`))
	mixes := [][]string{
		{"12GiB", "4GiB", "10GiB", "6GiB"},
		{"", "6G", "", "16g"}, // two of the default
	}
	for _, mix := range mixes {
		var ids []int
		for _, memory := range mix {
			ids = append(ids, s.packed(t, memory))
			s.WaitState(t, ids[len(ids)-1], patience, "RUNNING")
		}
		if got := s.used(t, ids); got != [2]int{16, 16} {
			t.Errorf("%q: shards of the GPUs in use: %v, want 16 and 16", mix, got)
		}
		late := s.packed(t, "1M")
		waitFor(t, "the job that does not fit waits for resources", func() bool {
			job, err := s.Job(late)
			return err == nil && job.State == "PENDING" && job.Reason == "Resources"
		})
		s.Run("scancel", fmt.Sprint(ids[0]))
		s.WaitState(t, late, patience, "RUNNING")
		for _, id := range append(ids, late) {
			s.Run("scancel", fmt.Sprint(id))
			s.WaitDone(t, id, patience)
		}
	}
}

// packed submits a job that stays; "" states no memory.
func (s *site) packed(t *testing.T, memory string) int {
	t.Helper()
	options := []string{"--gimbal-pack"}
	if memory != "" {
		options = append(options, "--gimbal-memory="+memory)
	}
	return s.Sbatch(t, "exec sleep 600", options...)
}

// granted is what a job got: "shard:4(IDX:0)" or, of a newer Slurm, how many
// of each GPU's shards.
var granted = regexp.MustCompile(`GRES=shard:(\d+)\((?:IDX:(\d)|(\d+)/16,(\d+)/16)\)`)

// used is how many shards of each GPU these jobs were given.
func (s *site) used(t *testing.T, ids []int) (sum [2]int) {
	t.Helper()
	number := func(text string) int {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, id := range ids {
		r := s.Run("scontrol", "show", "job", "-d", fmt.Sprint(id))
		m := granted.FindStringSubmatch(r.Stdout)
		switch {
		case m == nil:
			t.Fatalf("no shards in %s", r)
		case m[2] != "":
			sum[number(m[2])] += number(m[1])
		default:
			sum[0] += number(m[3])
			sum[1] += number(m[4])
		}
	}
	return sum
}

// The two scripts have one way of counting.
func TestScriptsCountAlike(t *testing.T) {
	var parts []string
	for _, name := range []string{"job_submit.lua", "cli_filter.lua"} {
		text, err := os.ReadFile(filepath.Join(top, "contrib", name))
		if err != nil {
			t.Fatal(err)
		}
		const mark = "-- The same in job_submit.lua and cli_filter.lua: "
		_, rest, _ := strings.Cut(string(text), mark+"begin\n")
		part, _, ok := strings.Cut(rest, mark+"end\n")
		if !ok {
			t.Fatalf("%s: the marks of the shared part are missing", name)
		}
		parts = append(parts, part)
	}
	if !slices.Equal(parts[:1], parts[1:]) {
		t.Error("the shared parts of the scripts differ")
	}
}
