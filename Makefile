# Builds, tries, tests, measures and installs the module; `make` alone lists
# the targets. Cargo does the work, this file knows the order and the system
# round it. APXS=/path/to/apxs chooses the httpd, CARGO=... the cargo;
# CARGO_TARGET_DIR is respected.

SHELL       := /bin/sh
.SHELLFLAGS := -euc
.ONESHELL:
.DEFAULT_GOAL := help

# A user's PATH may lack what is used below: a2enmod, the httpd, rustup's cargo.
export PATH := $(PATH):$(HOME)/.cargo/bin:/usr/sbin:/sbin

CARGO       ?= cargo
INSTALL     ?= install
# What the caller said, if anything; build.rs reads the same variable.
GIVEN_APXS  := $(APXS)
apxs         = $(or $(GIVEN_APXS),$(shell command -v apxs || command -v apxs2))
TARGET_DIR  := $(or $(CARGO_TARGET_DIR),target)
MODULE      := $(TARGET_DIR)/release/libmod_limitipconn.so
COMMAND     := $(TARGET_DIR)/release/limitipconn

# Ubuntu has the browser under another name.
BROWSER    := $(if $(shell grep -sx ID=ubuntu /etc/os-release),chromium-chromedriver,chromium chromium-driver)

# What Debian and Ubuntu call the things that build, demo, test and bench need.
# apache2-bin is the server without Debian's service: nothing starts on port 80.
# With APXS given, the httpd is the caller's own. curl and nghttp2-client speak
# HTTP/2 over TLS in the tests; Chromium looks at the status page there, and Prometheus'
# own parser reads the metrics. Tests start servers of their own from redis-tools: it has
# the same program as redis-server, without the service.
PACKAGES := gcc libc6-dev libclang-dev media-types openssl curl nghttp2-client slowhttptest valgrind mawk \
            $(BROWSER) python3-prometheus-client redis-tools \
            $(if $(GIVEN_APXS),,apache2-bin apache2-dev)

# How many test programs run at once, and which of them take longest.
JOBS       := $(shell echo $$(($$(nproc) * 2)))
SLOW_TESTS := slow_streams slow_files alarm slow_spared http2 graceful slow field slow_http2 command_check valgrind \
              slow_workers slow_pressure delay_bodies delay slow_storms heartbeat slow_reload flood max_time status_browser

help: ## list the targets
	@echo "Targets:"
	sed -n 's/^\([a-z]*\):.* ## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | \
	    while IFS="$$(printf '\t')" read -r name text; do printf '  %-10s %s\n' "$$name" "$$text"; done
	echo "Variables: APXS (which httpd), DESTDIR (where install puts its tree), CARGO, CARGO_TARGET_DIR."

deps: ## install what is missing (Debian, Ubuntu); elsewhere say what is missing
	@fail() { echo "make deps: $$*" >&2; exit 1; }
	if command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; then
	    have=$$(dpkg-query -W -f '$${db:Status-Status} $${Package}\n' $(PACKAGES) 2>/dev/null | sed -n 's/^installed //p')
	    missing=
	    for package in $(PACKAGES); do
	        echo "$$have" | grep -qx "$$package" || missing="$$missing $$package"
	    done
	    if [ -n "$$missing" ]; then
	        as_root=
	        if [ "$$(id -u)" != 0 ]; then
	            command -v sudo >/dev/null || fail "run as root: apt-get install$$missing"
	            as_root=sudo
	        fi
	        echo "make deps: installing$$missing"
	        apt="$$as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0"
	        # A stale list may still do, so a failed update alone is no reason to stop.
	        $$apt update </dev/null >/dev/null || echo "make deps: apt-get update failed, trying with the lists that are here" >&2
	        $$apt install -y --no-install-recommends $$missing </dev/null >/dev/null \
	            || fail "apt-get could not install$$missing"
	    fi
	else
	    missing=
	    [ -n "$(apxs)" ] || missing="$$missing apxs"
	    for command in cc nm openssl curl h2load chromedriver; do
	        command -v $$command >/dev/null || missing="$$missing $$command"
	    done
	    command -v redis-server >/dev/null || command -v valkey-server >/dev/null || missing="$$missing redis-server"
	    [ -z "$$missing" ] || fail "not found:$$missing; this is neither Debian nor Ubuntu: install httpd 2.4 with its" \
	        "headers (httpd-devel, apache2-devel, apache-dev), libclang (clang-devel, clang-dev), a C compiler with" \
	        "binutils, openssl, curl, nghttp2 (h2load), Chromium with its chromedriver, Python's prometheus_client," \
	        "redis or valkey, and for make bench valgrind"
	fi
	needed=$$(sed -n 's/^rust-version *= *"\(.*\)"/\1/p' Cargo.toml)
	found=$$($(CARGO) --version 2>/dev/null | cut -d' ' -f2) || true
	[ -n "$$found" ] || fail "cargo not found: install Rust $$needed or newer (for example with rustup) and run make deps again"
	[ "$$(printf '%s\n' "$$needed" "$$found" | sort -V | head -n 1)" = "$$needed" ] \
	    || fail "cargo is $$found, but Rust $$needed or newer is needed: update it (for example with rustup update)"
	$(if $(filter deps,$(MAKECMDGOALS)),echo "make deps: everything needed is here")

build: ## compile the module and the command (release)
	@$(CARGO) build --release
	echo "built $(MODULE) and $(COMMAND)"

demo: deps ## show on a private Apache what the limits do (seconds, once compiled)
	@$(CARGO) build --release --lib --example demo
	$(CARGO) run --quiet --release --example demo

test: deps ## run every test
	@seen=$$(mktemp -d); trap 'rm -rf "$$seen"' EXIT
	for what in "--no-default-features --lib" ""; do
	    { $(CARGO) test --no-run $$what 2>&1 || touch "$$seen/failed"; } | tee -a "$$seen/built"
	done
	[ ! -e "$$seen/failed" ]
	# Tests mostly wait, so several programs run at once; those that wait longest begin.
	programs=$$(sed -n 's/.*Executable .*(\(.*\))$$/\1/p' "$$seen/built")
	for first in $(SLOW_TESTS); do echo "$$programs" | grep "/$$first-" || true; done >"$$seen/order"
	echo "$$programs" | grep -vxFf "$$seen/order" >>"$$seen/order"
	$(CARGO) test --doc
	tests/run $(JOBS) <"$$seen/order"

soak: deps ## 60 000 requests over two servers that share their counts
	@LIMITIPCONN_SOAK=60000 $(CARGO) test --test fleet_soak -- --nocapture

check: deps ## formatting, lints, documentation: all without a warning
	@echo "check: formatting"
	$(CARGO) fmt --check
	echo "check: lints (some minutes the first time)"
	$(CARGO) clippy --quiet --all-targets -- -D warnings -D clippy::undocumented_unsafe_blocks
	# Of its own target dir: with and without features write files of one name.
	$(CARGO) clippy --quiet --no-default-features --lib --target-dir "$(TARGET_DIR)/pure" -- \
	    -D warnings -D clippy::undocumented_unsafe_blocks
	echo "check: documentation"
	RUSTDOCFLAGS=-Dwarnings $(CARGO) doc --quiet --no-deps
	echo "check: nothing to complain about"

bench: deps ## instructions per request, microbenchmarks, and a log of 1 GB in turns with awk
	@$(CARGO) bench --bench instructions
	$(CARGO) bench --bench advise
	$(CARGO) bench --bench counts -- --quiet --warm-up-time 1 --measurement-time 2

# --- installing ------------------------------------------------------------
# `make && sudo make install` must not build as root, so install takes what is
# built and builds only when there is nothing.
libexecdir = $(shell "$(apxs)" -q LIBEXECDIR 2>/dev/null)
sysconfdir = $(shell "$(apxs)" -q SYSCONFDIR 2>/dev/null)
bindir     = $(shell "$(apxs)" -q exp_bindir 2>/dev/null)
mandir     = $(shell "$(apxs)" -q exp_mandir 2>/dev/null)
progname   = $(shell "$(apxs)" -q progname 2>/dev/null)
available  = $(DESTDIR)$(sysconfdir)/mods-available

# Debian's layout: its httpd is called apache2 and has mods-available (which a
# package build may have to make, when only the headers are installed).
debian = $(or $(wildcard $(sysconfdir)/mods-available),$(and $(wildcard /etc/debian_version),$(filter apache2,$(progname))))

$(MODULE) $(COMMAND) &:
	@$(CARGO) build --release

ifneq ($(filter build,$(MAKECMDGOALS)),)
install: | build
endif

install: $(MODULE) $(COMMAND) ## install and, without DESTDIR, enable it on Debian; else apxs -i
	@[ -n "$(libexecdir)" ] || { echo "make install: apxs not found: say APXS=/path/to/apxs" >&2; exit 1; }
	so="$(libexecdir)/mod_limitipconn.so"
	# Written beside and renamed: a running httpd has the old file mapped.
	put() { $(INSTALL) -d "$$(dirname "$$3")"; $(INSTALL) -m "$$1" "$$2" "$$3.new"; mv -f "$$3.new" "$$3"; }
	put 755 "$(COMMAND)" "$(DESTDIR)$(bindir)/limitipconn"
	put 644 docs/limitipconn.1 "$(DESTDIR)$(mandir)/man1/limitipconn.1"
	if [ -n "$(debian)" ]; then
	    put 644 "$(MODULE)" "$(DESTDIR)$$so"
	    put 644 conf/limitipconn.load "$(available)/limitipconn.load"
	    if [ ! -e "$(available)/limitipconn.conf" ]; then
	        put 644 conf/limitipconn.conf "$(available)/limitipconn.conf"
	    elif ! cmp -s conf/limitipconn.conf "$(available)/limitipconn.conf"; then
	        echo "kept your own $(available)/limitipconn.conf"
	    fi
	    if [ -n "$(DESTDIR)" ]; then
	        echo "staged into $(DESTDIR)"
	    elif command -v a2enmod >/dev/null; then
	        a2enmod -q limitipconn
	        echo "installed and enabled; now: apachectl configtest && systemctl restart apache2 (a reload keeps an older mod_limitipconn.so)"
	    else
	        echo "installed; enable it with a2enmod limitipconn (package apache2)"
	    fi
	elif [ -n "$(DESTDIR)" ]; then
	    put 755 "$(MODULE)" "$(DESTDIR)$$so"
	    echo "staged into $(DESTDIR)"
	else
	    # apxs names what it installs after the file that it is given.
	    stage=$$(mktemp -d)
	    trap 'rm -rf "$$stage"' EXIT
	    cp "$(MODULE)" "$$stage/mod_limitipconn.so"
	    said=$$("$(apxs)" -i -n limitipconn "$$stage/mod_limitipconn.so" 2>&1) || { echo "$$said" >&2; exit 1; }
	    echo "installed $$so; load it with: LoadModule limitipconn_module $$so"
	fi

uninstall: ## take away what install put there (an edited limitipconn.conf stays)
	@[ -n "$(libexecdir)" ] || { echo "make uninstall: apxs not found: say APXS=/path/to/apxs" >&2; exit 1; }
	if [ -n "$(debian)" ]; then
	    if [ -z "$(DESTDIR)" ] && command -v a2dismod >/dev/null && [ -e "$(available)/limitipconn.load" ]; then
	        a2dismod -q -f limitipconn
	    fi
	    rm -f "$(available)/limitipconn.load"
	    if cmp -s conf/limitipconn.conf "$(available)/limitipconn.conf"; then
	        rm -f "$(available)/limitipconn.conf"
	    elif [ -e "$(available)/limitipconn.conf" ]; then
	        echo "kept your own $(available)/limitipconn.conf"
	    fi
	fi
	rm -f "$(DESTDIR)$(bindir)/limitipconn" "$(DESTDIR)$(mandir)/man1/limitipconn.1"
	so="$(DESTDIR)$(libexecdir)/mod_limitipconn.so"
	if [ -e "$$so" ]; then
	    rm -f "$$so"
	    echo "removed $$so$(if $(DESTDIR),,; a running httpd keeps the module until it is restarted)"
	else
	    echo "$$so is not there"
	fi

clean: ## remove what was built
	@$(CARGO) clean --quiet

.PHONY: help deps build demo test soak check bench install uninstall clean
