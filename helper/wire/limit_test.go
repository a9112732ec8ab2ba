package wire

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gimbal-hpc/gimbal/tests/draw"
)

func TestLimitsOfConnections(t *testing.T) {
	l := newLimits(Options{Conns: 3, ConnsPerUser: 2}.withDefaults())
	now := time.Now()
	for i, step := range []struct {
		uid  uint32
		want bool
	}{{7, true}, {7, true}, {7, false}, {8, true}, {8, false}, {9, false}, {0, true}, {0, true}} {
		if got := l.connect(step.uid, now); got != step.want {
			t.Errorf("step %d: uid %d: %v", i, step.uid, got)
		}
	}
	l.disconnect(7)
	if !l.connect(9, now) {
		t.Error("no room after a disconnect")
	}
}

// TestLimitsAtOnce: a user's requests wait for each other, and for nobody else's.
func TestLimitsAtOnce(t *testing.T) {
	l := newLimits(Options{AtOnce: 2}.withDefaults())
	ctx, cancel := context.WithCancel(t.Context())
	var ends []func()
	for i, uid := range []uint32{7, 7, 8, 0, 0, 0} {
		end, ok := l.begin(ctx, uid)
		if !ok {
			t.Fatalf("request %d waits", i)
		}
		ends = append(ends, end)
	}
	third := make(chan bool)
	go func() { _, ok := l.begin(ctx, 7); third <- ok }()
	select {
	case <-third:
		t.Error("a third request of a user does not wait")
	case <-time.After(20 * time.Millisecond):
	}
	ends[0]()
	if !<-third {
		t.Error("a third request is not answered after the first")
	}
	go func() { _, ok := l.begin(ctx, 7); third <- ok }()
	cancel()
	if <-third {
		t.Error("one more is answered although nobody waits for it")
	}
}

func TestLimitsOfRate(t *testing.T) {
	l := newLimits(Options{Rate: 10, Burst: 3}.withDefaults())
	now := time.Now()
	count := func(uid uint32) (n int) {
		for l.request(uid, now) && n < 1000 {
			n++
		}
		return n
	}
	if n := count(7); n != 3 {
		t.Errorf("burst of %d", n)
	}
	if n := count(8); n != 3 {
		t.Errorf("another user: burst of %d", n)
	}
	if n := count(0); n != 1000 {
		t.Errorf("root is limited to %d", n)
	}
	now = now.Add(200 * time.Millisecond)
	if n := count(7); n != 2 {
		t.Errorf("after 0.2 s at 10 a second: %d", n)
	}
	now = now.Add(time.Hour)
	if n := count(7); n != 3 {
		t.Errorf("after an hour: %d", n)
	}
}

// TestLimitsForget: however many users come by, those who left are forgotten,
// and forgetting never gives anybody more than the rate.
func TestLimitsForget(t *testing.T) {
	draw.Check(t, func(t *rapid.T) {
		l := newLimits(Options{Rate: 10, Burst: 5}.withDefaults())
		now := time.Unix(1_000_000, 0)
		start := now
		granted := 0
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 120_000).Draw(t, "ms")) * time.Millisecond)
			if !l.connect(7, now) {
				t.Fatal("refused")
			}
			for l.request(7, now) {
				granted++
			}
			l.disconnect(7)
		}
		if most := 5 + 10*now.Sub(start).Seconds(); float64(granted) > most+1e-6 {
			t.Fatalf("%d granted, %v allowed", granted, most)
		}
		now = now.Add(time.Hour)
		l.connect(8, now)
		if len(l.users) != 1 {
			t.Fatalf("%d users remembered", len(l.users))
		}
	})
}

// TestPeerIsAnotherUser runs this test's own binary as uid 1002. What it
// claims in the message changes nothing.
func TestPeerIsAnotherUser(t *testing.T) {
	if path := os.Getenv("WIRE_TEST_SOCKET"); path != "" {
		if os.Geteuid() == 0 {
			askAsRootOfOwn(t, path)
		} else {
			askAsOther(t, path)
		}
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: needs root")
	}
	other := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 1002, Size: 1}}
	for name, attr := range map[string]*syscall.SysProcAttr{
		"himself": {Credential: &syscall.Credential{Uid: 1002, Gid: 1002}},
		"root of a namespace of his": {Credential: &syscall.Credential{NoSetGroups: true},
			Cloneflags: syscall.CLONE_NEWUSER, UidMappings: other, GidMappings: other},
	} {
		t.Run(name, func(t *testing.T) { testAnotherUser(t, attr) })
	}
}

func testAnotherUser(t *testing.T, attr *syscall.SysProcAttr) {
	refusals := make(chan string, 1000)
	path := serve(t, Options{ConnsPerUser: 2, Rate: 1, Burst: 5, Refused: func(p Peer, why string) {
		if p.UID == 1002 {
			refusals <- why
		}
	}}, func(_ context.Context, peer Peer, req Request) (any, error) {
		if req.Op == OpRegister && !peer.Root() {
			return nil, Errorf(CodeDenied, "uid %d may not register", peer.UID)
		}
		return peer, nil
	})
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// Opened here, as the other user need not be able to reach the binary.
	self, err := os.Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = self.Close() }()
	cmd := exec.Command("/proc/self/fd/3", "-test.run=^TestPeerIsAnotherUser$", "-test.v")
	cmd.ExtraFiles = []*os.File{self}
	cmd.Dir = "/"
	cmd.Env = []string{"WIRE_TEST_SOCKET=" + path, "WIRE_TEST_PARENT=" + strconv.Itoa(os.Getpid())}
	cmd.SysProcAttr = attr
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) {
		t.Skipf("SKIPPED: no user namespace can be made here: %v", err)
	}
	if err != nil {
		t.Fatalf("as uid 1002: %v\n%s", err, out)
	}
	if least := map[bool]int{true: 1, false: 2}[attr.Cloneflags != 0]; len(refusals) < least {
		t.Errorf("%d refusals were reported", len(refusals))
	}
}

// askAsRootOfOwn asks as who is root in a namespace of his own. There our client finds
// the daemon to be nobody's, and says nothing to it.
func askAsRootOfOwn(t *testing.T, path string) {
	if c, err := Dial(path, 10*time.Second); err == nil {
		_ = c.Close()
		t.Error("the client believes a daemon whose user it cannot tell")
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte(`{"v":1,"op":"register","params":{"job":1,"uid":0}}` + "\n")); err != nil {
		t.Fatal(err)
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || !strings.Contains(answer, "uid 1002 may not register") {
		t.Errorf("register: %s (%v)", answer, err)
	}
}

func askAsOther(t *testing.T, path string) {
	c := dial(t, path)
	var e *Error
	claim := map[string]any{"job": 1, "uid": 0, "proc": map[string]int{"pid": 1}}
	if err := c.Call(context.Background(), OpRegister, claim, nil); !errors.As(err, &e) || e.Code != CodeDenied {
		t.Errorf("register: %v", err)
	}
	var peer Peer
	if err := c.Call(context.Background(), OpStatus, json.RawMessage(`{"uid":0}`), &peer); err != nil || peer.UID != 1002 || peer.GID != 1002 {
		t.Errorf("status: %+v, %v", peer, err)
	}
	second := dial(t, path)
	if err := second.Call(context.Background(), OpStatus, nil, nil); err != nil {
		t.Errorf("second connection: %v", err)
	}
	third, err := Dial(path, 10*time.Second)
	if err == nil {
		err = third.Call(context.Background(), OpStatus, nil, nil)
		_ = third.Close()
	}
	if !errors.As(err, &e) || e.Code != CodeBusy {
		t.Errorf("third connection: %v", err)
	}
	busy := false
	for range 20 {
		if err := c.Call(context.Background(), OpStatus, nil, nil); errors.As(err, &e) && e.Code == CodeBusy {
			busy = true
		}
	}
	if !busy {
		t.Error("20 requests at once were all served")
	}
}

func TestManyRootConnections(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: needs root")
	}
	path := serve(t, Options{ConnsPerUser: 1, Conns: 1, Rate: 1, Burst: 1}, echo)
	for i := range 100 {
		c := dial(t, path)
		var got Request
		if err := c.Call(context.Background(), OpPing, fmt.Sprint(i), &got); err != nil {
			t.Fatal(err)
		}
	}
}
