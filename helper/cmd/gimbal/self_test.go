package main

import (
	"testing"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

func TestSelfWithoutGPU(t *testing.T) {
	v := model.View{Tenant: model.Tenant{State: model.Running, Whole: true, Exempt: "no GPU", Reg: model.Registration{JobID: model.RunJob(1)}}}
	if got, want := selfText(&v, &model.Snapshot{}), "active: r1 on no GPU with 0 others, RUNNING; never stopped: no GPU"; got != want {
		t.Errorf("%q", got)
	}
}
