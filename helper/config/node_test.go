package config

import (
	"strings"
	"testing"
)

func TestNodePath(t *testing.T) {
	for _, tc := range []struct{ path, node, want string }{
		{"/run/gimbal/%n/gimbald.sock", "n17", "/run/gimbal/n17/gimbald.sock"},
		{"/run/%n-%n", "a.b-c_1", "/run/a.b-c_1-a.b-c_1"},
		{"/run/gimbald.sock", "n17", "/run/gimbald.sock"},
		{"/run/%n", "", "/run/%n"},
		{"/run/%n", "..", "/run/%n"},
		{"/run/%n", "../tmp", "/run/%n"},
		{"/run/%n", "a/b", "/run/%n"},
	} {
		if got := NodePath(tc.path, tc.node); got != tc.want {
			t.Errorf("NodePath(%q, %q) = %q, want %q", tc.path, tc.node, got, tc.want)
		}
	}
}

func TestAtNode(t *testing.T) {
	c := Default()
	if c.PerNode() {
		t.Error("the default configuration depends on the node")
	}
	c.Socket.Path, c.Node.StateDir, c.Node.PendingDir = "/run/%n/sock", "/var/%n", "/run/%n/pending"
	c.Metrics.Textfile = "/var/%n.prom"
	if !c.PerNode() {
		t.Error("PerNode() is false")
	}
	if err := c.AtNode("n1"); err != nil {
		t.Fatal(err)
	}
	if got := c.Socket.Path + " " + c.Node.StateDir + " " + c.Node.PendingDir + " " + c.Metrics.Textfile; got != "/run/n1/sock /var/n1 /run/n1/pending /var/n1.prom" || c.PerNode() {
		t.Errorf("paths %s", got)
	}
	for name, want := range map[string]string{"a/b": "is not a node's name", strings.Repeat("x", 100): "longer than"} {
		c.Socket.Path = "/run/gimbal/%n/sock"
		if err := c.AtNode(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20s: %v, want %q", name, err, want)
		}
	}
}
