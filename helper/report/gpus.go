package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// WriteGPUs writes a table with a row for each GPU: what is in use of it, by
// whom, under which policy.
func WriteGPUs(w io.Writer, s *model.Snapshot) error {
	head := []string{"GPU", "UUID", "Name", "Policy", "Used", "Total", "Foreign", "Util", "Tenants", "Fault"}
	rows := [][]string{head}
	for _, g := range s.GPUs {
		rows = append(rows, gpuRow(s, g))
	}
	var b strings.Builder
	writeColumns(&b, rows, " ")
	_, err := io.WriteString(w, b.String())
	return err
}

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
