package policy

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
)

// function is one of the functions of the language: numbers in, a number out,
// unknown where one of them is.
type function struct {
	args    int // 0: one or more
	apply   func(float64) float64
	fold    func(a, b float64) float64
	meaning string
}

// functions are all that can be called; known is beside them.
var functions = map[string]function{
	"abs":   {args: 1, apply: math.Abs, meaning: "without its sign"},
	"ceil":  {args: 1, apply: math.Ceil, meaning: "the next whole number up"},
	"floor": {args: 1, apply: math.Floor, meaning: "the next whole number down"},
	"round": {args: 1, apply: math.Round, meaning: "the nearest whole number"},
	"sqrt":  {args: 1, apply: math.Sqrt, meaning: "the square root; unknown below 0"},
	"log":   {args: 1, apply: math.Log, meaning: "the natural logarithm; unknown at 0 and below"},
	"exp":   {args: 1, apply: math.Exp, meaning: "e to that power"},
	"min":   {fold: math.Min, meaning: "the least of its arguments"},
	"max":   {fold: math.Max, meaning: "the greatest of its arguments"},
}

// Function is one function that an expression can call.
type Function struct {
	Form    string // "abs(x)"
	Meaning string
}

// Functions lists what expressions can call, by name.
func Functions() []Function {
	all := []Function{{"known(x)", "whether x is known"}}
	for name, f := range functions {
		form := name + "(x, ...)"
		if f.args == 1 {
			form = name + "(x)"
		}
		all = append(all, Function{form, f.meaning})
	}
	slices.SortFunc(all, func(a, b Function) int { return strings.Compare(a.Form, b.Form) })
	return all
}

func functionNames() []string {
	return append(slices.Collect(maps.Keys(functions)), "known")
}

func (c *compiler) call(n *ast.CallNode) (value, *fault) {
	id, ok := n.Callee.(*ast.IdentifierNode)
	if !ok {
		return value{}, faultAt(n, "only functions can be called")
	}
	if id.Value == "known" {
		return c.known(n)
	}
	f, ok := functions[id.Value]
	if !ok {
		return value{}, faultAt(n, "there is no function %s%s", id.Value, didYouMean(id.Value, functionNames()))
	}
	if len(n.Arguments) == 0 || f.args > 0 && len(n.Arguments) != f.args {
		return value{}, faultAt(n, "%s is called with %d arguments", id.Value, len(n.Arguments))
	}
	vs, err := c.nodes(kindNumber, n.Arguments...)
	if err != nil {
		return value{}, err
	}
	return value{kind: kindNumber, num: f.compiled(vs)}, nil
}

func (f function) compiled(vs []value) func(*env) float64 {
	x := vs[0].num
	if f.apply != nil {
		return func(e *env) float64 { return finite(f.apply(x(e))) }
	}
	for _, v := range vs[1:] {
		x = f.folded(x, v.num)
	}
	return x
}

func (f function) folded(a, b func(*env) float64) func(*env) float64 {
	return func(e *env) float64 { return f.fold(a(e), b(e)) }
}

// known compiles known(x), which is never unknown itself.
func (c *compiler) known(n *ast.CallNode) (value, *fault) {
	if len(n.Arguments) != 1 {
		return value{}, faultAt(n, "known is called with %d arguments", len(n.Arguments))
	}
	v, err := c.node(n.Arguments[0])
	if err != nil {
		return value{}, err
	}
	f := func(*env) truth { return yes }
	switch v.kind {
	case kindNumber:
		f = func(e *env) truth { return truthOf(!math.IsNaN(v.num(e))) }
	case kindTruth:
		f = func(e *env) truth { return truthOf(v.truth(e) != unknown) }
	}
	return value{kind: kindTruth, truth: f}, nil
}
