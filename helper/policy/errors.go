package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Error is one fault of a policy file.
type Error struct {
	File string
	Line int // from 1
	Col  int // from 1, in characters
	Msg  string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Col, e.Msg)
}

// Errors are the faults of a policy file, in the order of its lines.
type Errors []*Error

func (es Errors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives the faults one by one, for errors.As.
func (es Errors) Unwrap() []error {
	all := make([]error, len(es))
	for i, e := range es {
		all[i] = e
	}
	return all
}

// inOrder sorts the faults by place and keeps the first twenty.
func (es Errors) inOrder() Errors {
	slices.SortStableFunc(es, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	return es[:min(len(es), 20)]
}
