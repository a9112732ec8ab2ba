package harness

import (
	"debug/elf"
	"slices"
	"strings"
	"testing"
)

// exported is all that a plugin of Slurm's kind may show.
var exported = []string{
	"plugin_name", "plugin_type", "plugin_version", "spank_plugin_version",
	"slurm_spank_init", "slurm_spank_init_post_opt", "slurm_spank_task_post_fork",
	"slurm_spank_task_exit", "slurm_spank_exit",
}

// imported are the symbols of Slurm's that the plugin uses. Each is in 22.05,
// 24.11 and 26.05.
var imported = []string{
	"slurm_debug", "slurm_error", "slurm_info",
	"spank_context", "spank_get_item", "spank_getenv", "spank_job_control_setenv",
	"spank_option_register", "spank_setenv", "spank_unsetenv",
}

func TestSymbols(t *testing.T) {
	file, err := elf.Open(plain.plugin)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	libraries, err := file.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	for _, library := range libraries {
		if !strings.HasPrefix(library, "libc.so") && !strings.HasPrefix(library, "libpthread.so") && !strings.HasPrefix(library, "libdl.so") {
			t.Errorf("needs %s", library)
		}
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, symbol := range symbols {
		switch {
		case symbol.Section != elf.SHN_UNDEF:
			got = append(got, symbol.Name)
		case strings.HasPrefix(symbol.Name, "slurm_") || strings.HasPrefix(symbol.Name, "spank_"):
			want = append(want, symbol.Name)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if all := slices.Sorted(slices.Values(exported)); !slices.Equal(got, all) {
		t.Errorf("exports %q, want %q", got, all)
	}
	if !slices.Equal(want, imported) {
		t.Errorf("uses %q of Slurm's, want %q", want, imported)
	}
}

// TestNoHookRunsInTheChild: what is not there cannot enter Go after the fork.
func TestNoHookRunsInTheChild(t *testing.T) {
	for _, hook := range []string{"slurm_spank_task_init", "slurm_spank_task_init_privileged", "slurm_spank_user_init"} {
		if slices.Contains(exported, hook) {
			t.Errorf("%s is exported", hook)
		}
	}
}
