package metrics

import (
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"golang.org/x/net/netutil"
)

// Bounds of what others may ask over HTTP: any user of the node may.
const (
	maxConns    = 16
	maxInFlight = 2
	maxHeader   = 8 << 10
	askLimit    = 5 * time.Second // to send a request
	answerLimit = 5 * time.Second // to make the page
	idleLimit   = 90 * time.Second
)

// Serve answers GET /metrics on a listener until the server is closed, and
// returns http.ErrServerClosed then.
func Serve(s *http.Server, l net.Listener) error {
	return s.Serve(netutil.LimitListener(l, maxConns))
}

// NewServer makes a server that answers GET /metrics with a page, a bounded
// number of requests at a time, each within a few seconds.
func NewServer(page prometheus.Gatherer) *http.Server {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(page, promhttp.HandlerOpts{
		MaxRequestsInFlight: maxInFlight, Timeout: answerLimit, DisableCompression: true,
	}))
	return &http.Server{Handler: mux, MaxHeaderBytes: maxHeader, ReadTimeout: askLimit,
		WriteTimeout: 2 * answerLimit, IdleTimeout: idleLimit}
}

// Recent is a page that is made at most once in a while, however often it is
// asked for. It is a prometheus.Gatherer.
type Recent struct {
	Make func() ([]*dto.MetricFamily, error)
	Keep time.Duration // how long a page is good

	mu   sync.Mutex
	page []*dto.MetricFamily
	at   time.Time
}

// Gather returns the page, made anew where it has grown old. Its families are
// shared: nobody may change them.
func (r *Recent) Gather() ([]*dto.MetricFamily, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.page != nil && time.Since(r.at) < r.Keep {
		return slices.Clone(r.page), nil
	}
	page, err := r.Make()
	if err != nil {
		return nil, err
	}
	r.page, r.at = page, time.Now()
	return slices.Clone(page), nil
}
