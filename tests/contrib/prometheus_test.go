package contrib

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/gimbal-hpc/gimbal/helper/metrics"
	"github.com/gimbal-hpc/gimbal/helper/model"
)

const (
	dashboardFile = "grafana/gimbal.json"
	rulesFile     = "prometheus/gimbal.rules.yml"
	rulesTestFile = "prometheus/gimbal.rules.test.yml"
)

func readContrib(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, "contrib", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// dashboard is what of Grafana's format matters here.
type dashboard struct {
	Panels []struct {
		ID      int
		Title   string
		Type    string
		GridPos struct{ X, Y, W, H int }
		Targets []struct{ RefID, Expr string }
	}
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	var d dashboard
	if err := json.Unmarshal([]byte(readContrib(t, dashboardFile)), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

var expr = regexp.MustCompile(`(?m)^\s+expr: (.*)$`)

// alertQueries lists the expressions of the rules, each on one line.
func alertQueries(t *testing.T) []string {
	t.Helper()
	text := readContrib(t, rulesFile)
	var all []string
	for _, m := range expr.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	if n := strings.Count(text, "- alert: "); n == 0 || len(all) != n {
		t.Fatalf("%d alerts, %d expressions", n, len(all))
	}
	return all
}

var metricName = regexp.MustCompile(`\bgimbal_[a-z0-9_]+`)

// Nothing asks for a metric that there is not.
func TestMetricsAreThere(t *testing.T) {
	for _, file := range []string{dashboardFile, rulesFile, rulesTestFile} {
		names := metricName.FindAllString(readContrib(t, file), -1)
		if len(names) == 0 {
			t.Errorf("%s names no metric", file)
		}
		for _, name := range names {
			if !slices.Contains(metrics.Names(), name) {
				t.Errorf("%s asks for %s", file, name)
			}
		}
	}
}

// Each alert has a test that sees it fire.
func TestAlertsAreTested(t *testing.T) {
	tests := readContrib(t, rulesTestFile)
	for _, m := range regexp.MustCompile(`(?m)- alert: (\w+)$`).FindAllStringSubmatch(readContrib(t, rulesFile), -1) {
		if !regexp.MustCompile(`alertname: ` + m[1] + `\n\s+exp_alerts:`).MatchString(tests) {
			t.Errorf("no test sees %s fire", m[1])
		}
	}
	promtool := need(t, "promtool")
	cmd := exec.Command(promtool, "test", "rules", filepath.Base(rulesTestFile))
	cmd.Dir = filepath.Join(top, "contrib", "prometheus")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool test rules: %v\n%s", err, out)
	}
}

// need is the path of a program of Prometheus; without it the test is skipped.
func need(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("SKIPPED: %s is missing: install prometheus", program)
	}
	return path
}

func TestDashboardPanels(t *testing.T) {
	ids := map[int]bool{}
	panels := readDashboard(t).Panels
	for i, p := range panels {
		if ids[p.ID] || p.Title == "" || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %d %q: number or place", p.ID, p.Title)
		}
		ids[p.ID] = true
		if (len(p.Targets) == 0) != (p.Type == "row") {
			t.Errorf("panel %q has %d queries", p.Title, len(p.Targets))
		}
		for _, q := range panels[:i] {
			a, b := p.GridPos, q.GridPos
			if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("%q lies over %q", p.Title, q.Title)
			}
		}
	}
}

// node is one with everything that a page can show.
func node() model.Snapshot {
	s := model.Snapshot{Node: "n0", At: time.Now(), Policies: map[string]string{"GPU-a": "timeslice"},
		Foreign: map[string]model.Reading[model.Bytes]{"GPU-a": model.Known(model.GiB)},
		Strays:  []model.Stray{{GPU: "GPU-a", Kind: "foreign"}},
		GPUs: []model.GPU{{UUID: "GPU-a", Name: "Model H", Total: model.Known(80 * model.GiB),
			Reserved: model.Known(model.GiB), Used: model.Known(20 * model.GiB), Util: model.Known(0.5)}}}
	for id, state := range []model.State{model.Running, model.Paused, model.Held} {
		v := model.View{Elapsed: time.Hour}
		v.ID, v.State, v.Whole, v.GPUs = model.TenantID(fmt.Sprint(id+1, "@1")), state, true, []string{"GPU-a"}
		v.Reg = model.Registration{JobID: uint32(id + 1), ArrayTask: model.NoVal, HetOffset: model.NoVal, User: "u", JobName: "j"}
		v.Terms.Memory, v.Peak = model.Known(8*model.GiB), map[string]model.Bytes{"GPU-a": model.GiB}
		v.Use = map[string]model.Usage{"GPU-a": {Procs: 1, Memory: model.Known(model.GiB), SM: model.Known(0.5)}}
		s.Tenants = append(s.Tenants, v)
	}
	return s
}

// Prometheus scrapes a page and answers every query of the dashboard with
// something, and every alert's without an error.
func TestQueries(t *testing.T) {
	address := startPrometheus(t)
	get := func(query string) (int, error) {
		resp, err := http.Get("http://" + address + "/api/v1/query?query=" + url.QueryEscape(query))
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		var answer struct {
			Status, Error string
			Data          struct{ Result []any }
		}
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
			return 0, err
		}
		if answer.Status != "success" {
			return 0, fmt.Errorf("%s", answer.Error)
		}
		return len(answer.Data.Result), nil
	}
	// Two scrapes: rates need them.
	waitFor(t, "two scrapes", func() bool {
		n, err := get(`count_over_time(gimbal_node_info[1m]) >= 2`)
		return err == nil && n == 1
	})
	for _, p := range readDashboard(t).Panels {
		for _, q := range p.Targets {
			query := strings.NewReplacer("$instance", ".*").Replace(q.Expr)
			if n, err := get(query); err != nil || n == 0 {
				t.Errorf("%s: %s: %d results, %v", p.Title, query, n, err)
			}
		}
	}
	for _, query := range alertQueries(t) {
		if _, err := get(query); err != nil {
			t.Errorf("%s: %v", query, err)
		}
	}
	if n, err := get(`{__name__=~"gimbal_.*",exported_job!=""} or {__name__=~"gimbal_.*",exported_instance!=""}`); n != 0 || err != nil {
		t.Errorf("%d series have a label that Prometheus renames, %v", n, err)
	}
}

// startPrometheus runs one that scrapes a page each second until the test
// ends, and returns where it answers.
func startPrometheus(t *testing.T) string {
	t.Helper()
	program := need(t, "prometheus")
	page := httptest.NewServer(metrics.NewServer(prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		return metrics.Gather(node(), metrics.Options{Jobs: true, Users: true, Names: true}), nil
	})).Handler)
	t.Cleanup(page.Close)
	dir := t.TempDir()
	config := fmt.Sprintf("global: {scrape_interval: 1s}\nscrape_configs:\n  - job_name: gimbal\n    static_configs: [{targets: [%q]}]\n",
		page.Listener.Addr())
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "--config.file=prometheus.yml", "--storage.tsdb.path=data", "--web.listen-address=127.0.0.1:0")
	cmd.Dir = dir
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	said := func() string { text, _ := os.ReadFile(log.Name()); return string(text) }
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = log, log, time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(said())
		}
	})
	var address string
	waitFor(t, "Prometheus says where it listens", func() bool {
		m := listens.FindStringSubmatch(said())
		if m != nil {
			address = m[1]
		}
		return m != nil
	})
	waitFor(t, "Prometheus is ready", func() bool {
		resp, err := http.Get("http://" + address + "/-/ready")
		if err != nil {
			return false
		}
		return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	})
	return address
}

// listens is the line by which Prometheus says where: on a port that nobody else
// can have taken.
var listens = regexp.MustCompile(`"Listening on" address=(127\.0\.0\.1:\d+)`)

func waitFor(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !reached(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for: %s", patience, what)
		}
	}
}
