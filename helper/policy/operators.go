package policy

import (
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
)

// arithmetic holds the operators on two numbers.
var arithmetic = map[string]func(a, b func(*env) float64) func(*env) float64{
	"+": func(a, b func(*env) float64) func(*env) float64 {
		return func(e *env) float64 { return finite(a(e) + b(e)) }
	},
	"-": func(a, b func(*env) float64) func(*env) float64 {
		return func(e *env) float64 { return finite(a(e) - b(e)) }
	},
	"*": func(a, b func(*env) float64) func(*env) float64 {
		return func(e *env) float64 { return finite(a(e) * b(e)) }
	},
	"/": func(a, b func(*env) float64) func(*env) float64 {
		return func(e *env) float64 { return finite(a(e) / b(e)) }
	},
	"**": power,
	"^":  power,
}

func power(a, b func(*env) float64) func(*env) float64 {
	return func(e *env) float64 {
		x, y := a(e), b(e)
		if math.IsNaN(x) || math.IsNaN(y) {
			return math.NaN() // math.Pow knows 1**unknown
		}
		return finite(math.Pow(x, y))
	}
}

// comparisons holds the operators that compare two known numbers.
var comparisons = map[string]func(a, b float64) bool{
	"==": func(a, b float64) bool { return a == b },
	"!=": func(a, b float64) bool { return a != b },
	"<":  func(a, b float64) bool { return a < b },
	"<=": func(a, b float64) bool { return a <= b },
	">":  func(a, b float64) bool { return a > b },
	">=": func(a, b float64) bool { return a >= b },
}

// texts holds the operators on two texts.
var texts = map[string]func(a, b string) bool{
	"==":         func(a, b string) bool { return a == b },
	"!=":         func(a, b string) bool { return a != b },
	"contains":   strings.Contains,
	"startsWith": strings.HasPrefix,
	"endsWith":   strings.HasSuffix,
}

// binary compiles an operator on two operands.
func (c *compiler) binary(n *ast.BinaryNode) (value, *fault) {
	switch n.Operator {
	case "in":
		return c.in(n)
	case "matches":
		return c.matches(n)
	case "..":
		return value{}, faultAt(n, "ranges are not part of the language")
	}
	a, err := c.node(n.Left)
	if err != nil {
		return value{}, err
	}
	b, err := c.nodes(a.kind, n.Right)
	if err != nil {
		return value{}, err
	}
	if n.Operator == "??" {
		return c.coalesce(n, a, b[0])
	}
	switch a.kind {
	case kindNumber:
		return numeric(n, a.num, b[0].num)
	case kindTruth:
		return logical(n, a.truth, b[0].truth)
	}
	return textual(n, a, b[0])
}

func numeric(n *ast.BinaryNode, a, b func(*env) float64) (value, *fault) {
	if make, ok := arithmetic[n.Operator]; ok {
		return value{kind: kindNumber, num: make(a, b)}, nil
	}
	cmp, ok := comparisons[n.Operator]
	if !ok {
		return value{}, faultAt(n, "the operator %s is not known on numbers", n.Operator)
	}
	return value{kind: kindTruth, truth: func(e *env) truth {
		x, y := a(e), b(e)
		if math.IsNaN(x) || math.IsNaN(y) {
			return unknown
		}
		return truthOf(cmp(x, y))
	}}, nil
}

func logical(n *ast.BinaryNode, a, b func(*env) truth) (value, *fault) {
	var f func(e *env) truth
	switch n.Operator {
	case "and", "&&":
		f = func(e *env) truth {
			x := a(e)
			if x == no {
				return no
			}
			return x.and(b(e))
		}
	case "or", "||":
		f = func(e *env) truth {
			x := a(e)
			if x == yes {
				return yes
			}
			return x.or(b(e))
		}
	case "==", "!=":
		f = equalTruth(n.Operator == "==", a, b)
	default:
		return value{}, faultAt(n, "the operator %s is not known on truth values", n.Operator)
	}
	return value{kind: kindTruth, truth: f}, nil
}

func equalTruth(equal bool, a, b func(*env) truth) func(*env) truth {
	return func(e *env) truth {
		x, y := a(e), b(e)
		if x == unknown || y == unknown {
			return unknown
		}
		return truthOf((x == y) == equal)
	}
}

func textual(n *ast.BinaryNode, a, b value) (value, *fault) {
	op, ok := texts[n.Operator]
	if !ok {
		return value{}, faultAt(n, "the operator %s is not known on texts", n.Operator)
	}
	if err := oneOf(n.Right, b, a.enum); err != nil {
		return value{}, err
	}
	if err := oneOf(n.Left, a, b.enum); err != nil {
		return value{}, err
	}
	x, y := a.text, b.text
	return value{kind: kindTruth, truth: func(e *env) truth { return truthOf(op(x(e), y(e))) }}, nil
}

// oneOf refuses a literal that a variable with listed values never has.
func oneOf(at ast.Node, v value, enum []string) *fault {
	if enum == nil || v.fixed == nil || slices.Contains(enum, *v.fixed) {
		return nil
	}
	return faultAt(at, "%q is never a value here%s", *v.fixed, didYouMean(*v.fixed, enum))
}

// coalesce compiles a ?? b: a where it is known, else b.
func (c *compiler) coalesce(n *ast.BinaryNode, a, b value) (value, *fault) {
	switch a.kind {
	case kindNumber:
		return value{kind: kindNumber, num: func(e *env) float64 {
			if x := a.num(e); !math.IsNaN(x) {
				return x
			}
			return b.num(e)
		}}, nil
	case kindTruth:
		return value{kind: kindTruth, truth: func(e *env) truth {
			if x := a.truth(e); x != unknown {
				return x
			}
			return b.truth(e)
		}}, nil
	}
	return value{}, faultAt(n, "texts are never unknown")
}

// in compiles x in [list]; x is looked at once, however long the list is.
func (c *compiler) in(n *ast.BinaryNode) (value, *fault) {
	list, ok := n.Right.(*ast.ArrayNode)
	if !ok {
		return value{}, faultAt(n, "after in stands a list in brackets")
	}
	x, err := c.node(n.Left)
	if err != nil {
		return value{}, err
	}
	items, err := c.nodes(x.kind, list.Nodes...)
	if err != nil {
		return value{}, err
	}
	switch x.kind {
	case kindNumber:
		return value{kind: kindTruth, truth: numberIn(x, items)}, nil
	case kindText:
		for i, item := range items {
			if err := oneOf(list.Nodes[i], item, x.enum); err != nil {
				return value{}, err
			}
		}
		return value{kind: kindTruth, truth: textIn(x, items)}, nil
	}
	return value{}, faultAt(n, "the operator in is not known on truth values")
}

func numberIn(x value, items []value) func(*env) truth {
	return func(e *env) truth {
		v, found := x.num(e), no
		for _, item := range items {
			w := item.num(e)
			if math.IsNaN(v) || math.IsNaN(w) {
				found = found.or(unknown)
				continue
			}
			found = found.or(truthOf(v == w))
		}
		return found
	}
}

func textIn(x value, items []value) func(*env) truth {
	return func(e *env) truth {
		v := x.text(e)
		for _, item := range items {
			if item.text(e) == v {
				return yes
			}
		}
		return no
	}
}

// matches compiles x matches "regular expression"; Go's need time linear in
// the text, whatever the expression.
func (c *compiler) matches(n *ast.BinaryNode) (value, *fault) {
	vs, err := c.nodes(kindText, n.Left, n.Right)
	if err != nil {
		return value{}, err
	}
	if vs[1].fixed == nil {
		return value{}, faultAt(n.Right, "the expression after matches is a literal")
	}
	re, bad := regexp.Compile(*vs[1].fixed)
	if bad != nil {
		return value{}, faultAt(n.Right, "%v", bad)
	}
	x := vs[0].text
	return value{kind: kindTruth, truth: func(e *env) truth { return truthOf(re.MatchString(x(e))) }}, nil
}
