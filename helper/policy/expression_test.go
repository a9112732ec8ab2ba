package policy

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/expr-lang/expr"
	"pgregory.net/rapid"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/tests/draw"
)

// lone is an env with one tenant that weighs 3 and has used no GPU.
func lone() *env {
	d := NewDecider(&Set{Default: &Policy{}}, Options{})
	n := model.NewNode()
	d.n = n
	t := &model.Tenant{ID: "1", Reg: model.Registration{JobName: "bert-large", JobID: 1}, Terms: model.Terms{Class: model.Guaranteed, Weight: 3}}
	v := &view{t: t, m: &memo{}}
	return &env{d: d, t: v, mate: v, g: &gpuView{p: d.set.Default}, now: 10 * time.Second}
}

func TestNumbers(t *testing.T) {
	nan := math.NaN()
	for source, want := range map[string]float64{
		"1 + 2 * 3":                            7,
		"2 ** 3 ** 2":                          512,
		"-2 ^ 2":                               -4,
		"1 / 0":                                nan,
		"0 / 0":                                nan,
		"(1 / 0) ?? 5":                         5,
		"1e308 * 10":                           nan,
		"tenant.memory_declared":               nan,
		"tenant.memory_declared + 1":           nan,
		"tenant.memory_declared ?? (2 * GiB)":  2 << 30,
		"max(1, tenant.memory_declared)":       nan,
		"max(1, 3, 2) - min(4, 3)":             0,
		"log(0)":                               nan,
		"sqrt(16) + abs(-1) + floor(1.5)":      6,
		"ceil(1.2) + round(2.6) + exp(0)":      6,
		"tenant.weight > 2 ? 1 : 2":            1,
		"tenant.sm > 0 ? 1 : 2":                nan,
		"((tenant.sm > 0) ?? false) ? 1 : 2":   2,
		"known(tenant.sm) ? 1 : 0":             0,
		"known(tenant.sm > 1) ? 1 : 0":         0,
		"known(tenant.class) ? 1 : 0":          1,
		"minute + 2 * hour + second + day":     60 + 7200 + 1 + 86400,
		"now":                                  10,
		"if tenant.weight > 2 {1} else {2}":    1,
		"tenant.deadline_in ?? -1":             -1,
		"tenant.weight in [1, 3] ? 1 : 0":      1,
		"tenant.weight not in [1, 3] ? 1 : 0":  0,
		"tenant.sm ** 0":                       nan,
		"1 ** tenant.sm":                       nan,
		"tenant.weight |max(5)":                5,
		"gpu.memory_total ?? 1":                1,
		"tenant.job_name == 'bert' ? 1 : 0":    0,
		"1 < tenant.weight < 5 ? 1 : 0":        1,
		"tenant.job_name == 'bert' ? 1 / 0: 3": 3,
	} {
		n, f := compileNumber(source, inPair)
		if f != nil {
			t.Errorf("%s: %v", source, f)
			continue
		}
		if got := n.eval(lone()); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("%s = %v, want %v", source, got, want)
		}
	}
}

func TestRules(t *testing.T) {
	for source, want := range map[string]truth{
		"true and not false":                       yes,
		"tenant.sm > 0":                            unknown,
		"not (tenant.sm > 0)":                      unknown,
		"tenant.sm != 1":                           unknown,
		"tenant.sm > 0 or true":                    yes,
		"true or tenant.sm > 0":                    yes,
		"tenant.sm > 0 or false":                   unknown,
		"tenant.sm > 0 and false":                  no,
		"false and tenant.sm > 0":                  no,
		"tenant.sm > 0 and true":                   unknown,
		"(tenant.sm > 0) ?? true":                  yes,
		"(tenant.sm > 0) == true":                  unknown,
		"true != false":                            yes,
		"tenant.sm in [1, 2]":                      unknown,
		"3 in [tenant.sm, 3]":                      yes,
		`tenant.class == "guaranteed"`:             yes,
		`tenant.class in ["opportunistic"]`:        no,
		`"guaranteed" != mate.class`:               no,
		`tenant.job_name matches "^bert-(l|b).*e"`: yes,
		`tenant.job_name startsWith "bert"`:        yes,
		`tenant.job_name not endsWith "x"`:         yes,
		`tenant.job_name contains "-x"`:            no,
		`tenant.on_gpu`:                            no,
		"1 > 2 || 1 >= 1 && 2 <= 2 && 1 < 2":       yes,
	} {
		r, f := compileRule(source, inPair)
		if f != nil {
			t.Errorf("%s: %v", source, f)
			continue
		}
		if got := r.eval(lone()); got != want {
			t.Errorf("%s = %v, want %v", source, got, want)
		}
	}
}

// TestKnownNumbersAreThoseOfTheLibrary compares random expressions in which
// everything is known with expr-lang's own evaluation of them.
func TestKnownNumbersAreThoseOfTheLibrary(t *testing.T) {
	draw.Check(t, func(t *rapid.T) {
		source := numberSource(3).Draw(t, "source")
		theirs, err := expr.Eval(source, map[string]any{"tenant": map[string]any{"weight": 3.0}})
		if err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		want := math.NaN()
		switch x := theirs.(type) {
		case int:
			want = float64(x)
		case float64:
			want = x
		}
		ours, f := compileNumber(source, inOrder)
		if f != nil {
			t.Fatalf("%s: %v", source, f)
		}
		if got := ours.eval(lone()); math.Abs(got-want) > 1e-9*math.Abs(want) {
			t.Fatalf("%s = %v, want %v", source, got, want)
		}
	})
}

func numberSource(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		if depth == 0 || rapid.IntRange(0, 3).Draw(t, "leaf") == 0 {
			return rapid.SampledFrom([]string{"1.5", "2", "0.25", "7", "tenant.weight"}).Draw(t, "atom")
		}
		a, b := numberSource(depth-1).Draw(t, "a"), numberSource(depth-1).Draw(t, "b")
		switch rapid.IntRange(0, 3).Draw(t, "form") {
		case 0:
			return fmt.Sprintf("%s(%s, %s)", rapid.SampledFrom([]string{"min", "max"}).Draw(t, "f"), a, b)
		case 1:
			cmp := rapid.SampledFrom([]string{"<", "<=", ">", ">=", "==", "!="}).Draw(t, "cmp")
			join := rapid.SampledFrom([]string{"and", "or", "&&", "||"}).Draw(t, "join")
			return fmt.Sprintf("(%s %s %s %s not (tenant.weight < 3) ? %s : 0.5)", a, cmp, b, join, a)
		case 2:
			return "(-" + a + ")"
		}
		return fmt.Sprintf("(%s %s %s)", a, rapid.SampledFrom([]string{"+", "-", "*"}).Draw(t, "op"), b)
	})
}

// TestEveryVariableCanBeRead reads each where it can stand, of tenants with
// and without anything known.
func TestEveryVariableCanBeRead(t *testing.T) {
	for name := range accessors {
		for _, s := range []scope{inOrder, inAdmit, inPair, inGuard, inDevice} {
			if !s.sees(name) {
				continue
			}
			e := lone()
			if s == inOrder {
				e.g, e.mate = nil, nil
			}
			if s == inDevice {
				e.t, e.mate = nil, nil
			}
			r, f := compileRule("known("+name+") or true", s)
			if f != nil {
				t.Fatalf("%s: %v", name, f)
			}
			if r.eval(e) != yes {
				t.Errorf("%s", name)
			}
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"quantum", "together", "rank", "tier"}
	for word, want := range map[string]string{
		"quantun": "quantum", "toegther": "together", "rnak": "rank", "x": "", "elephant": "",
		strings.Repeat("q", 100): "",
	} {
		if got := nearest(word, names); got != want {
			t.Errorf("%s: %q, want %q", word, got, want)
		}
	}
}
