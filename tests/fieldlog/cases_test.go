package fieldlog

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// cases are those that have to be covered.
const cases = `SP-01 SP-02 SP-04 SP-06 SP-08 SP-10 SP-12 SP-13 SP-14 SG-01 SG-03 SG-05 SG-07 SG-08 SG-09 SG-11
NV-01 NV-03 NV-05 NV-07 NV-09 NV-11 NV-12 ME-01 ME-03 ME-05 ME-07 SH-01 SH-02 SH-03 SH-05 SH-07 SH-09
SH-11 CF-01 CF-03 CF-04 CF-05 ST-01 ST-03 ST-05 ST-06 MT-01 MT-03 MT-05 DL-01 DL-03 DL-04 DL-05
DL-07 DL-09 DL-11 SE-01 SE-03 SE-04 SE-06 MN-01 MN-03 MN-05`

var (
	row      = regexp.MustCompile(`(?m)^\| ([A-Z]{2}-\d{2}) \|[^|\n]*\|([^|\n]*)\|$`)
	testName = regexp.MustCompile("`([a-z0-9/]+)` ((?:Test|Fuzz)\\w+)")
)

// casesOfMPS are those of the multi-process service.
const casesOfMPS = "MP-01 MP-03 MP-05 MP-06"

// TestEveryCaseHasATest: each case is in the table of README.md, and each test
// that the table names is in the folder that it names.
func TestEveryCaseHasATest(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	covered := map[string]bool{}
	folders := map[string]map[string]bool{}
	for _, r := range row.FindAllStringSubmatch(string(text), -1) {
		names := testName.FindAllStringSubmatch(r[2], -1)
		if covered[r[1]] || len(names) != strings.Count(r[2], ",")+1 {
			t.Errorf("case %s: twice, or tests that are not written as `folder` Name: %s", r[1], r[2])
		}
		covered[r[1]] = true
		for _, n := range names {
			if folders[n[1]] == nil {
				folders[n[1]] = functions(t, filepath.Join("..", "..", n[1]))
			}
			if !folders[n[1]][n[2]] {
				t.Errorf("case %s: %s has no %s", r[1], n[1], n[2])
			}
		}
	}
	for _, id := range strings.Fields(cases + " " + casesOfMPS) {
		if !covered[id] {
			t.Errorf("case %s is not in the table", id)
		}
	}
}

// functions lists the test functions of a folder.
func functions(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Errorf("%s has no tests: %v", dir, err)
	}
	found := map[string]bool{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Errorf("read %s: %v", file, err)
			continue
		}
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				found[f.Name.Name] = true
			}
		}
	}
	return found
}
