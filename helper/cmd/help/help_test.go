package help

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

func TestOptions(t *testing.T) {
	f := pflag.NewFlagSet("x", pflag.ContinueOnError)
	f.SortFlags = false
	f.String("pack", "", "be packed by `policy`")
	f.Lookup("pack").NoOptDefVal = "1"
	f.Int("nodes", 4, "how many: a `number`")
	f.BoolP("help", "h", false, "this text")
	f.Bool("secret", false, "")
	if err := f.MarkHidden("secret"); err != nil {
		t.Fatal(err)
	}
	want := `      --pack[=POLICY]  be packed by policy
      --nodes NUMBER   how many: a number (default 4)
  -h, --help           this text
`
	if d := cmp.Diff(want, Options(f)); d != "" {
		t.Error(d)
	}
}
