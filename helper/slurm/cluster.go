package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
)

func isNoJob(err error) bool { return errors.Is(err, ErrNoJob) }

// PrivateData is what slurm.conf's PrivateData hides from other users: "jobs",
// "usage", ...; empty if nothing.
func (c *Client) PrivateData(ctx context.Context) ([]string, error) {
	out, err := c.call(ctx, "scontrol", "show", "config")
	if err != nil {
		return nil, err
	}
	for row := range strings.Lines(out) {
		key, value, ok := strings.Cut(row, "=")
		if !ok || strings.TrimSpace(key) != "PrivateData" {
			continue
		}
		return words(value), nil
	}
	return nil, errors.New("scontrol show config does not tell PrivateData")
}

func words(list string) []string {
	var out []string
	for _, w := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\t' }) {
		if w = strings.ToLower(w); w != "none" && w != "(null)" {
			out = append(out, w)
		}
	}
	return out
}

// NodeName is Slurm's name of this node: what slurmd was told, else the only
// node that slurm.conf has on this host, else the host's short name. Where
// Slurm could not be asked, the short name comes with the error.
func (c *Client) NodeName(ctx context.Context) (string, error) {
	if n := os.Getenv("SLURMD_NODENAME"); n != "" {
		return n, nil
	}
	short, err := shortName()
	if err != nil {
		return "", err
	}
	names, err := c.nodesOf(ctx, short)
	if err == nil && len(names) == 1 {
		return names[0], nil
	}
	return short, err
}

// NodesHere are the nodes that slurm.conf has on this host.
func (c *Client) NodesHere(ctx context.Context) ([]string, error) {
	short, err := shortName()
	if err != nil {
		return nil, err
	}
	return c.nodesOf(ctx, short)
}

func (c *Client) nodesOf(ctx context.Context, host string) ([]string, error) {
	out, err := c.call(ctx, "scontrol", "show", "aliases", host)
	return strings.Fields(out), err
}

// KnowsNode tells whether Slurm has a node of that name.
func (c *Client) KnowsNode(ctx context.Context, node string) (bool, error) {
	_, err := c.call(ctx, "scontrol", "show", "node", "-o", node)
	if errors.Is(err, ErrNoNode) {
		return false, nil
	}
	return err == nil, err
}

// shortName is the host's name up to its first dot.
func shortName() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("ask for the host's name: %w", err)
	}
	short, _, _ := strings.Cut(host, ".")
	return short, nil
}
