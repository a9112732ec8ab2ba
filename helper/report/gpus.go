package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// WriteGPUs writes a table with a row for each GPU: what is in use of it, by
// whom, under which policy. shards, where it is not nil, tells of each GPU by
// Slurm's number which of its shards are handed out: one is a token for the
// GPU, and no part of it.
func WriteGPUs(w io.Writer, s *model.Snapshot, shards func(minor int) string) error {
	head := []string{"GPU", "UUID", "Name", "Policy", "Used", "Total", "Foreign", "Util", "Tenants", "Fault"}
	if shards != nil {
		head = slices.Insert(head, shardColumn, "Shards")
	}
	rows := [][]string{head}
	for _, g := range s.GPUs {
		row := gpuRow(s, g)
		if shards != nil {
			row = slices.Insert(row, shardColumn, shards(g.Minor))
		}
		rows = append(rows, row)
	}
	var b strings.Builder
	writeColumns(&b, rows, " ")
	_, err := io.WriteString(w, b.String())
	return err
}

// shardColumn is where the shards stand: behind the policy.
const shardColumn = 4

func gpuRow(s *model.Snapshot, g model.GPU) []string {
	var names []string
	for i := range s.Tenants {
		t := &s.Tenants[i]
		switch {
		case t.State == model.Gone || !t.Uses(g.UUID):
		case t.Hidden:
			names = append(names, "-")
		default:
			names = append(names, t.Name())
		}
	}
	util := "Unknown"
	if u, ok := g.Util.Get(); ok {
		util = fmt.Sprintf("%.0f%%", 100*u)
	}
	foreign := model.Known(model.Bytes(0))
	if f, ok := s.Foreign[g.UUID]; ok {
		foreign = f
	}
	row := []string{itoa(g.Index), g.UUID, g.Name, s.Policies[g.UUID], size(g.Used), size(g.Total), size(foreign),
		util, strings.Join(names, ","), g.Fault}
	for i := range row {
		row[i] = Printable(row[i])
	}
	return row
}

func size(m model.Reading[model.Bytes]) string {
	b, ok := m.Get()
	if !ok {
		return "Unknown"
	}
	return Memory(b, 0)
}
