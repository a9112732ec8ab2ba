package node

import (
	"strings"
	"testing"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

func TestAClaimLargerThanTheGPUIsSaid(t *testing.T) {
	gpus := []model.GPU{{UUID: "a", Index: 0, Total: model.Known(80 * model.GiB)},
		{UUID: "b", Index: 1, Total: model.Known(16 * model.GiB), Reserved: model.Known(model.GiB)}, {UUID: "c", Index: 2}}
	for name, c := range map[string]struct {
		claim model.Reading[model.Bytes]
		on    string
		said  bool
	}{
		"larger":           {model.Known(200 * model.GiB), "b", true},
		"what is reserved": {model.Known(16 * model.GiB), "b", true},
		"just fits":        {model.Known(15 * model.GiB), "b", false},
		"another's GPU":    {model.Known(20 * model.GiB), "a", false},
		"all of it":        {model.Unknown[model.Bytes](), "b", false},
		"size unknown":     {model.Known(200 * model.GiB), "c", false},
	} {
		notes := tooLarge(&model.Grant{Terms: model.Terms{Memory: c.claim}, GPUs: []string{c.on}}, gpus)
		if (len(notes) == 1 && strings.Contains(notes[0], "can never fit: GPU 1 has 15GiB")) != c.said {
			t.Errorf("%s: %q", name, notes)
		}
	}
}
