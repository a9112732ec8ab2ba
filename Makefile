# Gimbal: build, test and install. `make help` lists the targets.
SHELL    := /bin/bash
GO       ?= go
CC       ?= gcc
BUILD    := build
DESTDIR  ?=
PREFIX   ?= /usr
SBINDIR  ?= $(PREFIX)/sbin
BINDIR   ?= $(PREFIX)/bin
PLUGDIR  ?= $(PREFIX)/lib/x86_64-linux-gnu/slurm-wlm
UNITDIR  ?= /lib/systemd/system
CONFDIR  ?= /etc
VERSION  := $(shell sed -n 's/^## \[\([0-9][^]]*\)\].*/\1/p' CHANGELOG.md 2>/dev/null | head -n 1)

# go-nvml binds the driver's library lazily: a missing symbol must not stop the
# daemon, so hardening flags that bind everything at start are overridden.
LAZY     := -ldflags '-X main.version=$(VERSION) -extldflags=-Wl,-z,lazy'

.DEFAULT_GOAL := all
-include spank/spank.mk tests/simgpu/simgpu.mk

.PHONY: all help deps daemon command simgpu plugin test test-long lint check bench demo clean install uninstall

all: deps plugin daemon command simgpu ## build everything under build/

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /  \1\t/p' $(MAKEFILE_LIST) | expand -t 16

deps: ## install the packages that the build needs, where they are missing
	@scripts/install-deps build

plugin: $(BUILD)/gimbal.so $(BUILD)/gimbal_core.so ## build the Slurm plugin

daemon: ## build gimbald
	@mkdir -p $(BUILD)
	$(GO) build $(LAZY) -o $(BUILD)/gimbald ./helper/cmd/gimbald

command: ## build gimbal
	@mkdir -p $(BUILD)
	$(GO) build -ldflags '-X main.version=$(VERSION)' -o $(BUILD)/gimbal ./helper/cmd/gimbal

test: deps-test all ## run every test
	scripts/test

.PHONY: deps-test
deps-test:
	@scripts/install-deps build slurm lint

test-long: deps-test all ## what does not fit into the test run
	GIMBAL_LONG=1 $(GO) test -count=1 -timeout 120m ./tests/... 

lint: ## gofmt, go vet, gcc, shellcheck, golangci-lint where it is
	scripts/lint

bench: deps-test all ## measure what the README claims
	scripts/bench

demo: ## two packed jobs on a Slurm of one node with a simulated GPU
	scripts/demo

clean: ## remove what was built
	rm -rf $(BUILD)
