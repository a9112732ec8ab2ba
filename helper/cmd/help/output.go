package help

import (
	"fmt"
	"io"
	"os"
)

// Output is the standard output of a command. It keeps the first error of writing to
// it, so that not every line has to be looked after: see [Output.End].
type Output struct {
	io.Writer
	err error
}

// Write writes to the output.
func (o *Output) Write(b []byte) (int, error) {
	n, err := o.Writer.Write(b)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// End says on stderr, in the name of a program, that not everything could be written,
// and tells whether that was so.
func (o *Output) End(program string, stderr io.Writer) bool {
	if o.err != nil {
		fmt.Fprintf(stderr, "%s: not everything could be written: %v\n", program, o.err)
	}
	return o.err != nil
}

// File is the file behind an output, nil where there is none.
func File(out io.Writer) *os.File {
	if o, ok := out.(*Output); ok {
		out = o.Writer
	}
	f, _ := out.(*os.File)
	return f
}
