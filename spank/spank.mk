# The plugin: a front in plain C that Slurm loads, and the core in Go that the
# front loads for packed steps only. Paths are relative to the top folder.
GIMBAL_SO_SRC := $(addprefix spank/,gimbal.c options.c check.c deadline.c submit.c step.c request.c daemon.c tell.c core.c plugstack.c)
GIMBAL_SO_CFLAGS := -std=c11 -D_GNU_SOURCE -O2 -g -fPIC -fvisibility=hidden -Wall -Wextra -Werror \
	-Wshadow -Wformat=2 -fstack-protector-strong -D_FORTIFY_SOURCE=2
# Undefined symbols are Slurm's own, there once it has loaded us: not -z defs.
GIMBAL_SO_LDFLAGS := -shared -pthread -Wl,-z,relro -Wl,-z,now -Wl,--as-needed

# Where it goes; the tests build one with sanitizers elsewhere.
GIMBAL_SO ?= build/gimbal.so

$(GIMBAL_SO): $(GIMBAL_SO_SRC) spank/gimbal.h spank/gimbal_core.h
	@mkdir -p $(@D)
	$(CC) $(GIMBAL_SO_CFLAGS) $(CFLAGS) -o $@ $(GIMBAL_SO_SRC) $(GIMBAL_SO_LDFLAGS) $(LDFLAGS)

build/gimbal_core.so: $(wildcard spank/core/*.go helper/wire/*.go helper/model/*.go) spank/gimbal_core.h
	@mkdir -p $(@D)
	CGO_ENABLED=1 go build -trimpath -buildmode=c-shared -o $@ ./spank/core
	@rm -f build/gimbal_core.h
