package learn_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gimbal-hpc/gimbal/helper/learn"
)

// FuzzDecode: whatever stands in the file, what a learner makes of it is kept and
// read again as it is.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"schema":1,"jobs":[{"uid":7,"name":"a","seen":9,"rate":4,"pairs":[{"mate":{"uid":7,"name":"b"},"speed":0.5,"error":0.01,"seen":9}]}]}`))
	f.Add([]byte(`{"schema":1,"jobs":[{"uid":7,"name":"","rate":-4,"pairs":[{"speed":1e999}]}]}`))
	f.Add([]byte(`{"schema":1,"jobs":[{"uid":7,"name":"a","pairs":[{"mate":{"name":"b"},"speed":-1},{"mate":{"name":"c"},"speed":5,"error":-1}]}]}`))
	f.Add([]byte(`{"schema":2}`))
	f.Add([]byte(`[`))
	f.Fuzz(func(t *testing.T, text []byte) {
		read, err := learn.Decode(text)
		if err != nil {
			return
		}
		o := learn.Options{Window: time.Second, Keep: 1 << 62}
		kept := learn.New(o, read).Kept(time.Unix(0, 0))
		for _, k := range kept {
			for _, p := range k.Pairs {
				if x := p.Speed.Speed; !(x > 0 && x <= 1) || !(p.Error >= 0 && p.Error <= learn.MaxError) {
					t.Fatalf("%+v", p)
				}
			}
			if !(k.Rate >= 0) {
				t.Fatalf("%+v", k)
			}
		}
		again, err := learn.Encode(kept)
		if err != nil {
			t.Fatal(err)
		}
		read, err = learn.Decode(again)
		if diff := cmp.Diff(kept, learn.New(o, read).Kept(time.Unix(0, 0))); diff != "" || err != nil {
			t.Fatal(err, diff)
		}
	})
}
