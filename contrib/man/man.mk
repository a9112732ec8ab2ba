# The manual, from Markdown. go-md2man is pinned, and run outside our module.
MD2MAN  := github.com/cpuguy83/go-md2man/v2@v2.0.7
MAN_DIR ?= build/man
MAN     := $(patsubst contrib/man/%.md,$(MAN_DIR)/%,$(wildcard contrib/man/*.md))

.PHONY: man
man: $(MAN) ## build the manual under build/man

$(MAN_DIR)/%: contrib/man/%.md
	@mkdir -p $(@D)
	GOFLAGS=-mod=mod $(or $(GO),go) run $(MD2MAN) -in $< -out $@
