package journal

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSince: a file counts while the next one begins behind the number.
func TestSince(t *testing.T) {
	s := recordSeries(t.TempDir())
	for _, n := range []uint64{1, 10, 20} {
		if err := os.WriteFile(s.name(n), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		n    uint64
		want []string
	}{
		{0, []string{s.name(1), s.name(10), s.name(20)}},
		{9, []string{s.name(1), s.name(10), s.name(20)}},
		{10, []string{s.name(10), s.name(20)}},
		{19, []string{s.name(10), s.name(20)}},
		{20, []string{s.name(20)}},
		{1000, []string{s.name(20)}},
	} {
		got, err := s.since(c.n)
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("since %d: %v (-want +got)\n%s", c.n, err, diff)
		}
	}
	if got, err := recordSeries(s.dir + "/none").since(1); got != nil || err != nil {
		t.Errorf("without a folder: %q, %v", got, err)
	}
}

// TestEachLineOf: in order, without a torn line and a file that is pruned
// meanwhile, until it is enough.
func TestEachLineOf(t *testing.T) {
	s := recordSeries(t.TempDir())
	paths := []string{s.name(1), s.name(2), s.name(3), s.name(4)}
	for i, text := range []string{"a\nb\n", "pruned\n", "c\ntorn", "d\ne\n"} {
		if err := os.WriteFile(paths[i], []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for last, want := range map[string]string{"a": "a", "d": "a b c d", "": "a b c d e"} {
		var got []string
		err := eachLineOf(paths, func(path string, b []byte) bool {
			_ = os.Remove(paths[1])
			got = append(got, string(b))
			if string(b) == "c" && path != paths[2] {
				t.Errorf("%s is said to be of %s", b, path)
			}
			return string(b) != last
		})
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("until %q: %q, %v, want %s", last, got, err, want)
		}
	}
	if err := eachLineOf([]string{s.dir}, func(string, []byte) bool { return true }); err == nil {
		t.Error("a folder was read as a file")
	}
}
