package config

import (
	"net/netip"
	"strings"
)

// check checks where metrics go. The page tells of every user's jobs and has no
// password, so that it is offered to this node alone.
func (m *Metrics) check(dec *decoder) {
	if m.Textfile != "" && !strings.HasSuffix(m.Textfile, ".prom") {
		dec.fail("metrics.textfile", "metrics.textfile: node_exporter reads *.prom alone, not %q", m.Textfile)
	}
	if m.Listen == "" {
		return
	}
	at, err := netip.ParseAddrPort(m.Listen)
	switch {
	case err != nil || at.Port() == 0:
		dec.fail("metrics.listen", `metrics.listen: %q is not an address and a port such as "127.0.0.1:9911"`, m.Listen)
	case !at.Addr().IsLoopback():
		dec.fail("metrics.listen", `metrics.listen: %s is not on loopback; write "127.0.0.1:%d", and let node_exporter or a proxy with TLS and passwords offer it to other hosts`,
			at.Addr(), at.Port())
	}
}
