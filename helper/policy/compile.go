package policy

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
)

// Bounds of an expression. As nothing in it can loop, its number of parts is
// also the most that one evaluation costs: a few microseconds.
const (
	maxSource = 2000 // bytes
	maxParts  = 256
)

// fault is an error at a place of an expression, in characters from its start.
type fault struct {
	at  int
	msg string
}

func (f *fault) Error() string { return f.msg }

func faultAt(n ast.Node, format string, args ...any) *fault {
	return &fault{at: n.Location().From, msg: fmt.Sprintf(format, args...)}
}

// compiler turns the syntax tree of an expression into functions. The tree is
// expr-lang's; its virtual machine is not used, for it boxes every number:
// compiled this way an evaluation allocates nothing, and unknown readings and
// divisions by zero have the meaning that the package comment gives them.
type compiler struct {
	scope scope
}

// compileNumber compiles an expression that gives a number.
func compileNumber(source string, s scope) (*Number, *fault) {
	v, err := compile(source, s, kindNumber)
	if err != nil {
		return nil, err
	}
	return &Number{source: source, eval: v.num}, nil
}

// compileRule compiles an expression that holds or does not.
func compileRule(source string, s scope) (*Rule, *fault) {
	v, err := compile(source, s, kindTruth)
	if err != nil {
		return nil, err
	}
	return &Rule{source: source, eval: v.truth}, nil
}

func compile(source string, s scope, want kind) (value, *fault) {
	root, err := parse(source)
	if err != nil {
		return value{}, err
	}
	v, err := (&compiler{scope: s}).node(root)
	if err != nil {
		return value{}, err
	}
	if v.kind != want {
		return value{}, &fault{msg: fmt.Sprintf("this gives a %s, a %s is wanted", v.kind, want)}
	}
	return v, nil
}

func parse(source string) (ast.Node, *fault) {
	if len(source) > maxSource {
		return nil, &fault{msg: fmt.Sprintf("the expression has %d bytes, at most %d are allowed", len(source), maxSource)}
	}
	if strings.TrimSpace(source) == "" {
		return nil, &fault{msg: "the expression is empty"}
	}
	tree, err := parser.ParseWithConfig(source, syntax)
	if err == nil {
		return tree.Node, nil
	}
	f := &fault{msg: err.Error()}
	var fe *file.Error
	if errors.As(err, &fe) {
		f.at, f.msg = fe.From, strings.Replace(fe.Message, "unexpected token EOF", "the expression ends too early", 1)
	}
	return nil, f
}

// syntax has every builtin function of the library switched off, by name.
var syntax = withoutBuiltins()

func withoutBuiltins() *conf.Config {
	c := conf.CreateNew()
	c.MaxNodes = maxParts
	for name := range builtin.Index {
		c.Disabled[name] = true
	}
	return c
}

func (c *compiler) node(n ast.Node) (value, *fault) {
	switch n := n.(type) {
	case *ast.IntegerNode:
		return constant(float64(n.Value)), nil
	case *ast.FloatNode:
		return constant(n.Value), nil
	case *ast.BoolNode:
		t := truthOf(n.Value)
		return value{kind: kindTruth, truth: func(*env) truth { return t }}, nil
	case *ast.StringNode:
		s := n.Value
		return value{kind: kindText, fixed: &s, text: func(*env) string { return s }}, nil
	case *ast.IdentifierNode:
		return c.name(n, n.Value)
	case *ast.MemberNode:
		return c.member(n)
	case *ast.UnaryNode:
		return c.unary(n)
	case *ast.BinaryNode:
		return c.binary(n)
	case *ast.ConditionalNode:
		return c.choice(n)
	case *ast.CallNode:
		return c.call(n)
	}
	return value{}, c.refuse(n)
}

// refuse says why a part of the syntax is not in the language.
func (c *compiler) refuse(n ast.Node) *fault {
	if n == nil {
		return &fault{msg: "the expression is not complete"}
	}
	switch n := n.(type) {
	case *ast.BuiltinNode:
		return faultAt(n, "%s is not part of the language: it can loop", n.Name)
	case *ast.PredicateNode, *ast.PointerNode:
		return faultAt(n, "closures are not part of the language")
	case *ast.VariableDeclaratorNode:
		return faultAt(n, "let is not part of the language")
	case *ast.SequenceNode:
		return faultAt(n, "one expression is wanted, without a semicolon")
	case *ast.ArrayNode:
		return faultAt(n, "a list can only stand after in")
	case *ast.NilNode:
		return faultAt(n, "nil is not part of the language: known(x) tells whether a reading is there")
	}
	return faultAt(n, "maps, slices and optional chains are not part of the language")
}

func constant(x float64) value {
	x = finite(x)
	return value{kind: kindNumber, num: func(*env) float64 { return x }}
}

// member compiles group.name.
func (c *compiler) member(n *ast.MemberNode) (value, *fault) {
	group, ok := n.Node.(*ast.IdentifierNode)
	name, plain := n.Property.(*ast.StringNode)
	if !ok || !plain || n.Method || n.Optional {
		return value{}, faultAt(n, "a variable is written group.name, such as tenant.service")
	}
	return c.name(n, group.Value+"."+name.Value)
}

func (c *compiler) name(n ast.Node, name string) (value, *fault) {
	if x, ok := constants[name]; ok {
		return constant(x), nil
	}
	a, ok := accessors[name]
	if !ok {
		return value{}, faultAt(n, "there is no variable %s%s", name, didYouMean(name, c.scope.names()))
	}
	if !c.scope.sees(name) {
		return value{}, faultAt(n, "%s is not known here; what is known in %s: %s", name, c.scope, c.scope.groups())
	}
	return a.bind(isMate(name)), nil
}

func (c *compiler) nodes(kinds kind, ns ...ast.Node) ([]value, *fault) {
	vs := make([]value, len(ns))
	for i, n := range ns {
		v, err := c.node(n)
		if err != nil {
			return nil, err
		}
		if v.kind != kinds {
			return nil, faultAt(n, "this is a %s, a %s is wanted", v.kind, kinds)
		}
		vs[i] = v
	}
	return vs, nil
}

func (c *compiler) unary(n *ast.UnaryNode) (value, *fault) {
	switch n.Operator {
	case "!", "not":
		vs, err := c.nodes(kindTruth, n.Node)
		if err != nil {
			return value{}, err
		}
		x := vs[0].truth
		return value{kind: kindTruth, truth: func(e *env) truth { return x(e).not() }}, nil
	case "-", "+":
		vs, err := c.nodes(kindNumber, n.Node)
		if err != nil {
			return value{}, err
		}
		x := vs[0].num
		if n.Operator == "+" {
			return vs[0], nil
		}
		return value{kind: kindNumber, num: func(e *env) float64 { return -x(e) }}, nil
	}
	return value{}, faultAt(n, "the operator %s is not part of the language", n.Operator)
}

// choice compiles cond ? a : b, which is unknown where cond is.
func (c *compiler) choice(n *ast.ConditionalNode) (value, *fault) {
	conds, err := c.nodes(kindTruth, n.Cond)
	if err != nil {
		return value{}, err
	}
	a, err := c.node(n.Exp1)
	if err != nil {
		return value{}, err
	}
	b, err := c.nodes(a.kind, n.Exp2)
	if err != nil {
		return value{}, err
	}
	return choose(conds[0].truth, a, b[0]), nil
}

func choose(cond func(*env) truth, a, b value) value {
	v := value{kind: a.kind}
	switch a.kind {
	case kindNumber:
		v.num = func(e *env) float64 {
			switch cond(e) {
			case yes:
				return a.num(e)
			case no:
				return b.num(e)
			}
			return math.NaN()
		}
	case kindTruth:
		v.truth = func(e *env) truth {
			switch cond(e) {
			case yes:
				return a.truth(e)
			case no:
				return b.truth(e)
			}
			return unknown
		}
	case kindText:
		v.text = func(e *env) string {
			switch cond(e) {
			case yes:
				return a.text(e)
			case no:
				return b.text(e)
			}
			return ""
		}
	}
	return v
}
