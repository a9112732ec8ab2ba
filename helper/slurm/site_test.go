package slurm

import (
	"os"
	"path/filepath"
	"testing"
)

// scontrol stands in for the command: it prints a text.
func scontrol(t *testing.T, text string) *Client {
	t.Helper()
	bin := t.TempDir()
	for file, body := range map[string]string{"text": text, "scontrol": "#!/bin/sh\nexec cat \"$(dirname \"$0\")/text\"\n"} {
		if err := os.WriteFile(filepath.Join(bin, file), []byte(body), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return New(Options{Bin: bin, Gap: 1})
}

func TestSite(t *testing.T) {
	for name, tt := range map[string]struct {
		text  string
		want  Site
		fails bool
	}{
		"shards are used":     {"NodeName=n0 Gres=gpu:2,shard:8 GresDrain=N/A GresUsed=gpu:0,shard:(null):2(IDX:0-1) \n", Site{2, 4, 0}, false},
		"a whole GPU":         {"NodeName=n0 Gres=gpu:2,shard:8 GresDrain=N/A GresUsed=gpu:1,shard:(null):1(IDX:1) \n", Site{2, 4, 1}, false},
		"of a type":           {"NodeName=n0 Gres=gpu:h:1(S:0),gpu:k:1,shard:8 GresUsed=gpu:h:1(IDX:0),gpu:k:1(IDX:1),shard:0 \n", Site{2, 4, 2}, false},
		"without a type":      {"NodeName=n0 Gres=gpu:2,shard:8 GresUsed=gpu:(null):1(IDX:0),shard:(null):0(IDX:N/A) \n", Site{2, 4, 1}, false},
		"no shards":           {"NodeName=n0 Gres=gpu:2 GresUsed=gpu:1 \n", Site{}, true},
		"nothing of the used": {"NodeName=n0 Gres=gpu:2,shard:8 \n", Site{}, true},
		"no such node":        {"Node n7 not found\n", Site{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := scontrol(t, tt.text).Site(t.Context(), "n0")
			if (err != nil) != tt.fails || err == nil && got != tt.want {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

func TestConfines(t *testing.T) {
	for text, want := range map[string]bool{
		"TaskPlugin              = task/affinity,task/cgroup\n\nCgroup Support Configuration:\nConstrainDevices        = yes\n": true,
		"TaskPlugin              = task/none\nConstrainDevices        = yes\n":                                                  false,
		"TaskPlugin              = task/cgroup\nConstrainDevices        = no\n":                                                 false,
		"TaskPlugin              = task/cgroup\n":                                                                               false,
	} {
		if got, err := scontrol(t, text).Confines(t.Context()); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	if _, err := scontrol(t, "slurm_load_ctl_conf error\n").Confines(t.Context()); err == nil {
		t.Error("an answer that tells nothing is taken")
	}
}
