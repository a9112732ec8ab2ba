# Gimbal: build, test and install. `make help` lists the targets.
SHELL    := /bin/bash
GO       ?= go
CC       ?= gcc
BUILD    := build
DESTDIR  ?=
PREFIX   ?= /usr
SBINDIR  ?= $(PREFIX)/sbin
BINDIR   ?= $(PREFIX)/bin
# Slurm's PluginDir, wherever the rest goes: it loads gimbal.so from there.
PLUGDIR  ?= /usr/lib/x86_64-linux-gnu/slurm-wlm
UNITDIR  ?= /lib/systemd/system
CONFDIR  ?= /etc
DOCDIR   ?= $(PREFIX)/share/doc/gimbal
VERSION  := $(shell sed -n 's/^## \[\([0-9][^]]*\)\].*/\1/p' CHANGELOG.md 2>/dev/null | head -n 1)

# go-nvml binds the driver's library lazily: a missing symbol must not stop the
# daemon, so hardening flags that bind everything at start are overridden.
LAZY     := -ldflags '-X main.version=$(VERSION) -extldflags=-Wl,-z,lazy'

.DEFAULT_GOAL := all
-include spank/spank.mk tests/simgpu/simgpu.mk contrib/man/man.mk

.PHONY: all help deps daemon command simgpu plugin test check test-long soak test-slurm lint bench demo evaluate clean install uninstall release

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
	$(GO) build $(LAZY) -o $(BUILD)/gimbal ./helper/cmd/gimbal

check: lint test ## lint, then test

test: deps-test all ## run every test
	scripts/test

.PHONY: deps-test
deps-test:
	@scripts/install-deps build slurm lint browser metrics accounting packages

test-long: deps-test all ## what does not fit into the test run
	scripts/test long

test-slurm: ## what depends on Slurm, against that of SUITE=bookworm, trixie or sid
	scripts/slurm-suite $(SUITE)

MINUTES ?= 60
soak: deps-test all ## random jobs and random faults on a real Slurm for MINUTES=N (60)
	GIMBAL_SOAK=$(MINUTES)m $(GO) test -v -count=1 -timeout $$(($(MINUTES) + 15))m -run 'TestSoak$$' ./tests/e2e

lint: ## gofmt, go vet, gcc, shellcheck, golangci-lint where it is
	scripts/lint

bench: deps-test all ## measure what the README claims
	scripts/bench

demo: ## two packed jobs on a Slurm of one node with a simulated GPU
	scripts/demo

evaluate: deps all ## every policy and baseline on the public traces
	scripts/evaluate

release: ## test, pack and tag the version that CHANGELOG.md names
	scripts/release

install: all man ## install under DESTDIR
	install -D -m 755 $(BUILD)/gimbal $(DESTDIR)$(BINDIR)/gimbal
	install -D -m 755 $(BUILD)/gimbald $(DESTDIR)$(SBINDIR)/gimbald
	install -D -m 644 $(BUILD)/gimbal.so $(DESTDIR)$(PLUGDIR)/gimbal.so
	install -D -m 644 $(BUILD)/gimbal_core.so $(DESTDIR)$(PLUGDIR)/gimbal_core.so
	install -d -m 755 $(DESTDIR)$(UNITDIR)
	sed 's|/usr/sbin/gimbald|$(SBINDIR)/gimbald|g' etc/gimbald.service >$(DESTDIR)$(UNITDIR)/gimbald.service
	chmod 644 $(DESTDIR)$(UNITDIR)/gimbald.service
	install -d -m 755 $(DESTDIR)$(CONFDIR)/gimbal/policies.d
	for page in $(BUILD)/man/*; do \
		install -D -m 644 $$page $(DESTDIR)$(PREFIX)/share/man/man$${page##*.}/$${page##*/} || exit 1; done
	for name in gimbal gimbald; do \
		install -D -m 644 contrib/completion/gimbal.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/$$name || exit 1; done
	test -e $(DESTDIR)$(CONFDIR)/gimbal/gimbald.toml || \
		install -D -m 644 etc/gimbald.toml $(DESTDIR)$(CONFDIR)/gimbal/gimbald.toml
	scripts/install-docs $(DESTDIR)$(DOCDIR)
	install -m 644 LICENSE $(DESTDIR)$(DOCDIR)
	install -D -m 644 etc/plugstack.conf.d/gimbal.conf $(DESTDIR)$(CONFDIR)/slurm/plugstack.conf.d/gimbal.conf

uninstall: ## remove what install put there but the configuration; the plugstack line goes first
	rm -f $(DESTDIR)$(CONFDIR)/slurm/plugstack.conf.d/gimbal.conf
	rm -f $(DESTDIR)$(PLUGDIR)/gimbal.so $(DESTDIR)$(PLUGDIR)/gimbal_core.so
	rm -f $(DESTDIR)$(UNITDIR)/gimbald.service $(DESTDIR)$(SBINDIR)/gimbald $(DESTDIR)$(BINDIR)/gimbal
	rm -f $(patsubst contrib/man/%.md,$(DESTDIR)$(PREFIX)/share/man/man*/%,$(wildcard contrib/man/*.md))
	rm -f $(DESTDIR)$(PREFIX)/share/bash-completion/completions/gimbal $(DESTDIR)$(PREFIX)/share/bash-completion/completions/gimbald
	rm -rf $(DESTDIR)$(DOCDIR)

clean: ## remove what was built
	rm -rf $(BUILD)
