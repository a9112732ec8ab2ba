package metrics

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start serves a page until the test ends, and returns its address.
func start(t *testing.T, page prometheus.Gatherer) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, ended := NewServer(page), make(chan error, 1)
	go func() { ended <- Serve(s, l) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := errors.Join(s.Close()); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("ended: %v", err)
		}
	})
	return l.Addr().String()
}

// ask returns the answer to one request.
func ask(t *testing.T, method, url string) (code int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// made is a page that was made already.
func made(page []*dto.MetricFamily) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return page, nil })
}

// What is answered over HTTP is what is written to the file.
func TestServe(t *testing.T) {
	page := Gather(snapshot(view(7, "GPU-aa")), everything)
	address := start(t, made(page))
	var want bytes.Buffer
	if err := Write(&want, page); err != nil {
		t.Fatal(err)
	}
	if code, got := ask(t, http.MethodGet, "http://"+address+"/metrics"); code != http.StatusOK || got != want.String() {
		t.Errorf("%d, want\n%s\ngot\n%s", code, want.String(), got)
	}
	for _, no := range []struct {
		method, path string
		code         int
	}{{http.MethodPost, "/metrics", http.StatusMethodNotAllowed}, {http.MethodGet, "/", http.StatusNotFound}, {http.MethodGet, "/debug/pprof/", http.StatusNotFound}} {
		if code, _ := ask(t, no.method, "http://"+address+no.path); code != no.code {
			t.Errorf("%s %s: %d, want %d", no.method, no.path, code, no.code)
		}
	}
}

// However many ask at once, few pages are in the making; whoever comes too
// much is told so.
func TestServeIsBounded(t *testing.T) {
	let := make(chan struct{})
	entered := make(chan struct{}, 100)
	address := start(t, prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		entered <- struct{}{}
		<-let
		return nil, nil
	}))
	codes := make(chan int, maxInFlight)
	for range maxInFlight {
		go func() {
			resp, err := http.Get("http://" + address + "/metrics")
			if err != nil {
				codes <- 0
				return
			}
			_ = resp.Body.Close()
			codes <- resp.StatusCode
		}()
	}
	for range maxInFlight {
		<-entered
	}
	code, body := ask(t, http.MethodGet, "http://"+address+"/metrics")
	if code != http.StatusServiceUnavailable || !strings.Contains(body, "try again later") {
		t.Errorf("one more: %d %s", code, body)
	}
	close(let)
	for range maxInFlight {
		if code := <-codes; code != http.StatusOK {
			t.Errorf("one of the first: %d", code)
		}
	}
}

func TestServeTellsErrors(t *testing.T) {
	address := start(t, prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return nil, errors.New("the loop hangs") }))
	if code, body := ask(t, http.MethodGet, "http://"+address+"/metrics"); code != http.StatusInternalServerError || !strings.Contains(body, "the loop hangs") {
		t.Errorf("%d %s", code, body)
	}
}

// A page is made once, however often it is asked for, and again when it is
// old; an error is not kept.
func TestRecent(t *testing.T) {
	made, fail := 0, error(nil)
	r := Recent{Keep: time.Hour, Make: func() ([]*dto.MetricFamily, error) {
		made++
		return Gather(snapshot(), everything), fail
	}}
	for range 1000 {
		if page, err := r.Gather(); err != nil || len(page) == 0 {
			t.Fatalf("%d metrics, %v", len(page), err)
		}
	}
	if made != 1 {
		t.Errorf("made %d times", made)
	}
	page, _ := r.Gather()
	page[0] = nil // as a filter by name does
	if again, _ := r.Gather(); again[0] == nil {
		t.Error("who asks changes the page of others")
	}
	r.Keep, fail = 0, errors.New("no")
	if _, err := r.Gather(); err == nil || made != 2 {
		t.Errorf("an old page: made %d times, %v", made, err)
	}
	fail = nil
	if _, err := r.Gather(); err != nil || made != 3 {
		t.Errorf("after an error: made %d times, %v", made, err)
	}
}

// Names, units and help are by Prometheus's conventions.
func TestConventions(t *testing.T) {
	problems, err := testutil.GatherAndLint(made(Gather(snapshot(view(7, "GPU-aa")), everything)))
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}
