# Builds the simulated GPU. Paths are relative to the top of the repository;
# also usable alone: make -f tests/simgpu/simgpu.mk simgpu
SIMGPU_SRC    := tests/simgpu/src
SIMGPU_OUT    := build/simgpu
SIMGPU_CFLAGS := -std=gnu11 -D_GNU_SOURCE -O2 -g -Wall -Wextra -Werror -fvisibility=hidden
SIMGPU_DEVICE := $(addprefix $(SIMGPU_SRC)/,main.c options.c ctl.c units.c work.c record.c \
                 clients.c control.c checkpoint.c sched.c util.c)
SIMGPU_TRAINER := $(addprefix $(SIMGPU_SRC)/,trainer.c trainer_options.c gpu.c workers.c util.c)
SIMGPU_NVML   := $(addprefix $(SIMGPU_SRC)/,nvml.c nvml_use.c nvml_events.c nvml_view.c util.c)
SIMGPU_CUDA   := $(addprefix $(SIMGPU_SRC)/,cuda.c util.c)
SIMGPU_HEADERS := $(wildcard $(SIMGPU_SRC)/*.h)
# Libraries of other driver generations, told by their list of processes.
SIMGPU_VARIANTS := v1 v2 v3-32 none
SIMGPU_LIBRARY := $(CC) $(SIMGPU_CFLAGS) -fPIC -shared -Wl,-z,defs

.PHONY: simgpu
simgpu: $(SIMGPU_OUT)/simgpu-device $(SIMGPU_OUT)/simgpu-trainer \
	$(SIMGPU_OUT)/libnvidia-ml.so.1 $(SIMGPU_OUT)/libcuda.so.1 $(SIMGPU_OUT)/cuda-checkpoint $(SIMGPU_OUT)/sched-check \
	$(SIMGPU_VARIANTS:%=$(SIMGPU_OUT)/nvml-%/libnvidia-ml.so.1)

$(SIMGPU_OUT)/simgpu-device: $(SIMGPU_DEVICE) $(SIMGPU_HEADERS)
	@mkdir -p $(@D)
	$(CC) $(SIMGPU_CFLAGS) -o $@ $(SIMGPU_DEVICE) -lm

$(SIMGPU_OUT)/simgpu-trainer: $(SIMGPU_TRAINER) $(SIMGPU_HEADERS)
	@mkdir -p $(@D)
	$(CC) $(SIMGPU_CFLAGS) -o $@ $(SIMGPU_TRAINER) -lm -pthread

$(SIMGPU_OUT)/libnvidia-ml.so.1: $(SIMGPU_NVML) $(SIMGPU_HEADERS)
	@mkdir -p $(@D)
	$(SIMGPU_LIBRARY) -Wl,-soname,libnvidia-ml.so.1 -o $@ $(SIMGPU_NVML) -lm

$(SIMGPU_OUT)/nvml-%/libnvidia-ml.so.1: $(SIMGPU_NVML) $(SIMGPU_HEADERS)
	@mkdir -p $(@D)
	$(SIMGPU_LIBRARY) -DSIMGPU_PROCESSES_$(subst -,_,$*) -Wl,-soname,libnvidia-ml.so.1 -o $@ $(SIMGPU_NVML) -lm

$(SIMGPU_OUT)/libcuda.so.1: $(SIMGPU_CUDA) $(SIMGPU_HEADERS)
	@mkdir -p $(@D)
	$(SIMGPU_LIBRARY) -Wl,-soname,libcuda.so.1 -o $@ $(SIMGPU_CUDA) -lm

$(SIMGPU_OUT)/cuda-checkpoint: $(SIMGPU_SRC)/checkpoint_tool.c $(SIMGPU_SRC)/util.c $(SIMGPU_HEADERS)
	@mkdir -p $(@D)
	$(CC) $(SIMGPU_CFLAGS) -Wl,-rpath,'$$ORIGIN' -o $@ $(SIMGPU_SRC)/checkpoint_tool.c $(SIMGPU_SRC)/util.c -lm

$(SIMGPU_OUT)/sched-check: $(SIMGPU_SRC)/sched_check.c $(SIMGPU_SRC)/sched.c $(SIMGPU_HEADERS)
	@mkdir -p $(@D)
	$(CC) $(SIMGPU_CFLAGS) -o $@ $(SIMGPU_SRC)/sched_check.c $(SIMGPU_SRC)/sched.c -lm
