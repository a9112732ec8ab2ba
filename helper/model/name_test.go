package model_test

import (
	"testing"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

func TestNamesAreThoseOfSacct(t *testing.T) {
	plain := model.Registration{JobID: 123, ArrayTask: model.NoVal, HetOffset: model.NoVal}
	array, het, none := plain, plain, plain
	array.JobID, array.ArrayJob, array.ArrayTask = 127, 123, 4
	het.JobID, het.HetJob, het.HetOffset = 124, 123, 1
	none.JobID = 0
	for _, c := range []struct {
		reg   model.Registration
		step  uint32
		whole bool
		want  string
	}{
		{plain, 0, true, "123"},
		{plain, 0, false, "123.0"},
		{plain, model.StepBatch, false, "123.batch"},
		{plain, model.StepInteractive, false, "123.interactive"},
		{plain, model.StepExtern, false, "123.extern"},
		{array, 7, true, "123_4"},
		{array, 7, false, "123_4.7"},
		{het, 2, true, "123+1"},
		{het, 2, false, "123+1.2"},
		{none, 2, true, "train"},
	} {
		c.reg.StepID = c.step
		tenant := model.Tenant{ID: "train@3", Reg: c.reg, Whole: c.whole}
		if got := tenant.Name(); got != c.want {
			t.Errorf("job %d step %d whole %v: %q, want %q", c.reg.JobID, c.step, c.whole, got, c.want)
		}
	}
}
