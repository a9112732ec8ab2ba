package plugin

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPluginThatDoesNotLoad: built for another Slurm, or gone while the line
// stayed. Jobs that do not ask for it run, and the variable asks in vain.
func TestPluginThatDoesNotLoad(t *testing.T) {
	for _, tc := range []struct {
		name string
		make func(t *testing.T, path string)
		says string
		may  bool // newer Slurms say nothing
	}{
		{"another major", func(t *testing.T, path string) { forOtherSlurm(t, path) }, "Incompatible", false},
		{"gone", func(*testing.T, string) {}, "No such file", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSite(t)
			d := s.startDaemon()
			path := filepath.Join(filepath.Dir(s.socket), "gimbal.so")
			tc.make(t, path)
			s.plugstack("optional " + path + " socket=" + s.socket)
			for _, cmd := range [][]string{
				{"srun", "/bin/true"},
				{"salloc", "-Q", "srun", "/bin/true"},
				{"sbatch", "-o", "/dev/null", "--wrap", "srun /bin/true"},
				{"env", "GIMBAL_PACK=1", "srun", "/bin/true"},
			} {
				// What is printed is Slurm's own and needs a plugstack without the
				// line, which is why packages take that away first.
				r := s.run(cmd[0], cmd[1:]...)
				said := strings.Contains(r.Stderr, tc.says) || tc.may && r.Stderr == ""
				if !said || strings.Contains(r.Stderr, "gimbal:") {
					t.Errorf("%q: stderr %q", cmd, r.Stderr)
				}
			}
			if len(d.calls()) != 0 {
				t.Errorf("calls: %s", d)
			}
		})
	}
}

// forOtherSlurm copies the plugin to path and gives it another major release.
func forOtherSlurm(t *testing.T, path string) {
	t.Helper()
	source := filepath.Join(built, "gimbal.so")
	file, err := elf.Open(source)
	must(t, err)
	defer func() { _ = file.Close() }()
	symbols, err := file.DynamicSymbols()
	must(t, err)
	data, err := os.ReadFile(source)
	must(t, err)
	for _, symbol := range symbols {
		if symbol.Name != "plugin_version" {
			continue
		}
		section := file.Sections[symbol.Section]
		at := section.Offset + symbol.Value - section.Addr
		version := binary.LittleEndian.Uint32(data[at:])
		binary.LittleEndian.PutUint32(data[at:], version-1<<16)
		must(t, os.WriteFile(path, data, 0o755))
		return
	}
	t.Fatal("the plugin has no plugin_version")
}
