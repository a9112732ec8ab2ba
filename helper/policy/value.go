package policy

import "math"

// kind is the type of an expression.
type kind uint8

const (
	kindNumber kind = iota
	kindTruth
	kindText
)

func (k kind) String() string {
	return [...]string{"number", "truth value", "text"}[k]
}

// truth is a truth value that may be unknown (Kleene's logic).
type truth uint8

const (
	no truth = iota
	yes
	unknown
)

func truthOf(b bool) truth {
	if b {
		return yes
	}
	return no
}

func (a truth) not() truth {
	switch a {
	case yes:
		return no
	case no:
		return yes
	}
	return unknown
}

func (a truth) and(b truth) truth {
	switch {
	case a == no || b == no:
		return no
	case a == yes && b == yes:
		return yes
	}
	return unknown
}

func (a truth) or(b truth) truth { return a.not().and(b.not()).not() }

// finite keeps what is a finite number; the rest is unknown.
func finite(x float64) float64 {
	if math.IsInf(x, 0) {
		return math.NaN()
	}
	return x
}

// value is a compiled expression: one of the three functions, by kind.
type value struct {
	kind  kind
	num   func(*env) float64 // NaN: unknown
	truth func(*env) truth
	text  func(*env) string
	enum  []string // the values that a text can have, nil: any
	fixed *string  // the text, where it is a literal
}

// Number is a compiled expression that gives a number.
type Number struct {
	source string
	eval   func(*env) float64
}

// Source is the expression as it was written.
func (n *Number) Source() string { return n.source }

// Rule is a compiled expression that holds or does not.
type Rule struct {
	source string
	eval   func(*env) truth
}

// Source is the expression as it was written.
func (r *Rule) Source() string { return r.source }

// holds tells whether the rule is there and known to be true.
func (r *Rule) holds(e *env) bool { return r.eval(e) == yes }
