# Gatehouse. `make run` serves, `make test` tests; both install what is missing first.
#
#   make               builds build/gatehouse
#   make run           installs, builds, serves on loopback
#   make test          installs, builds, runs every suite
#   make test-asan     the C suites and the model under AddressSanitizer and UndefinedBehaviorSanitizer
#   make test-tsan     the C suites with threads under ThreadSanitizer
#   make test-engines  the contract, the services and 100,000 random operations on every engine: embedded, our own server, dynoxide, dynalite
#   make test-deb      the package in a clean root, under a systemd of its own (as root; downloads a small Debian once)
#   make test-alarms   the shipped alarms under a real Prometheus: each fires, and none in an hour of normal traffic (five minutes)
#   make test-go       the AWS SDK for Go against the server (installs 690 MB)
#   make lint          layout, layers, parameters, files named in READMEs, clang-tidy on files that are not known to be clean
#   make tidy          clang-tidy on every file (ten minutes), and a new list of those that are clean
#   make bench         measures against other servers, both sides in one run
#   make fuzz TIME=60  fuzzes each parser for TIME seconds
#   make client        libgatehouse, the client library, into build/client
#   make install       PREFIX=/usr/local DESTDIR=; make deb: a Debian package; make man: man page and completion
#   make crash CYCLES=1000 / make model OPERATIONS=1000000
#   make campaign CUTS=5000   failing disks and power cuts, at length, one campaign after the other
SHELL      := /bin/bash
BUILD      ?= build
CC         := gcc
CXX        := g++
PYTHON     := /usr/bin/python3
WARN       := -Wall -Wextra -Wconversion -Wshadow -Werror
OPT        ?= -O2 -g -fno-omit-frame-pointer -D_FORTIFY_SOURCE=2 -fstack-protector-strong
SAN        ?=
COVER      ?=
BASE       := -std=gnu17 $(WARN) $(SAN) -Isrc -pthread -MMD -MP
CFLAGS     := $(BASE) $(OPT) $(COVER)
# RocksDB calls what is in C++ from threads whose hand-overs ThreadSanitizer cannot see (tests/tsan.supp).
CXXFLAGS   := -std=c++17 -Wall -Wextra -Werror $(OPT) $(filter-out -fsanitize=thread,$(SAN)) $(COVER) -Isrc -pthread -MMD -MP
# What is tested is optimised, the tests are not: that makes them compile five times as fast. gold, of the same package as ld, links them twice as fast.
TEST_OPT   ?= $(if $(SAN),$(OPT),-O0 -g)
TEST_FLAGS  = $(BASE) $(TEST_OPT) -Itests
LINKER     ?= gold
TEST_LINK  := $(CC) $(SAN) -fuse-ld=$(LINKER)
LDLIBS     := -lcurl -lrocksdb -lsimdjson -lyaml -lidn2 -lunistring -lssl -lcrypto -lz -lstdc++ -lm -pthread
TIME       ?= 10
CYCLES     ?= 1000
OPERATIONS ?= 1000000
CUTS       ?= 5000
LISTEN     ?= 127.0.0.1:8420

SOURCES    := $(wildcard src/*/*.c)
CXXSOURCES := $(wildcard src/*/*.cc)
OBJECTS    := $(SOURCES:%.c=$(BUILD)/%.o) $(CXXSOURCES:%.cc=$(BUILD)/%.o)
CORE       := $(BUILD)/libgatehouse-core.a
TESTS      := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/*/*_test.c))
PROGRAMS   := $(BUILD)/tests/crash/crash $(BUILD)/tests/e2e/rough_gatehouse $(patsubst %.c,$(BUILD)/%,$(wildcard tests/model/model.c tests/access/decide.c tests/dynamo/*_tool.c tests/token/*_tool.c tests/remote/*_tool.c tests/outbound/*_tool.c tests/client/*_tool.c bench/*.c))
FUZZERS    := $(patsubst fuzz/%.c,$(BUILD)/fuzz/%,$(wildcard fuzz/*_fuzz.c))
FORMATTED  := $(wildcard src/*.c src/*/*.[ch] tests/*.h tests/*/*.[ch] fuzz/*.[ch] bench/*.[ch] client/*.[ch])

.PHONY: all deps run test suites test-asan test-tsan lint tidy format bench fuzz crash model clean
.SECONDARY:

all: $(BUILD)/gatehouse

# ---- the two commands ----

run:
	@tools/install build
	@$(MAKE) --no-print-directory -s -j$$(nproc) all
	@exec $(BUILD)/gatehouse serve --listen $(LISTEN) --data data --no-auth

test:
	@tools/install test
	@echo building; $(MAKE) --no-print-directory -s -j$$(nproc) suites
	@$(WATCHED_ASAN) c-tests fuzzers
	@$(WATCHED_TSAN) thread-tests
	@$(PYTHON) tests/run

# ---- building ----

$(BUILD)/gatehouse: $(BUILD)/src/main.o $(CORE)
	$(CC) $(SAN) -Wl,-z,relro,-z,now -o $@ $^ $(LDLIBS)

$(CORE): $(OBJECTS)
	@rm -f $@
	ar rcs $@ $^

$(BUILD)/src/%.o: src/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -c -o $@ $<

$(BUILD)/src/%.o: src/%.cc
	@mkdir -p $(@D)
	$(CXX) $(CXXFLAGS) -c -o $@ $<

# In two steps: a change of the core links the tests anew, and compiles none.
$(BUILD)/tests/%.o: tests/%.c
	@mkdir -p $(@D)
	$(CC) $(TEST_FLAGS) -Ibench -c -o $@ $<

$(BUILD)/tests/%: $(BUILD)/tests/%.o $(CORE)
	$(TEST_LINK) -o $@ $< $(CORE) -lcmocka $(LDLIBS)

$(BUILD)/tests/engine/filter_build_test: TEST_LINK += -Wl,--wrap=pthread_mutex_unlock
$(BUILD)/tests/model/model.o: TEST_OPT = $(OPT) # a campaign: its speed counts

$(BUILD)/tests/e2e/rough_gatehouse: tests/e2e/rough_gatehouse.c $(BUILD)/src/main.o $(CORE)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -Itests -Wl,--wrap=engine_store -o $@ $(filter %.c %.o %.a,$^) $(LDLIBS)

$(BUILD)/tests/crash/crash: $(wildcard tests/crash/*.[ch]) $(CORE)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -Itests -o $@ $(filter %.c,$^) $(CORE) $(LDLIBS)

$(BUILD)/bench/%: bench/%.c $(CORE)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -I. -o $@ $< $(CORE) $(LDLIBS)

$(BUILD)/src/plan/data.o: src/plan/units.yaml src/plan/prices.yaml
$(BUILD)/src/service/defaults.o: src/service/defaults.yaml
$(BUILD)/src/api/description.o: openapi.yaml

# Suites that assert on time or CPU are built as the program is; all others under sanitizers (tests/run knows the same list).
PLAIN_TESTS := $(addprefix $(BUILD)/tests/,$(shell sed -n 's/^PLAIN = \[\(.*\)\]/\1/p' tests/run | tr -d '",'))

suites: all $(PLAIN_TESTS) $(PROGRAMS) replays

# ---- the same tests, watched ----

# A variable that was never set holds a pattern: an error code that is read unset is not zero by luck.
WATCHED      = $(MAKE) --no-print-directory -s -j$$(nproc) OPT="-O1 -g1 -fno-omit-frame-pointer -ftrivial-auto-var-init=pattern"
# One core for the suites and the fuzzers: built by clang, with the coverage that fuzzers steer by.
WATCHED_ASAN = $(WATCHED) BUILD=build/asan CC=clang CXX=clang++ SAN="-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-sanitize=vptr,function -Wno-string-concatenation" \
	LINKER=lld COVER=-fsanitize=fuzzer-no-link TEST_OPT="-O0 -g1 -ftrivial-auto-var-init=pattern"
WATCHED_TSAN = $(WATCHED) BUILD=build/tsan SAN="-fsanitize=thread -Wno-format-truncation"
# where threads meet: these run under ThreadSanitizer in `make test` too
THREAD_TESTS := $(addprefix $(BUILD)/tests/,engine/concurrency_test engine/batch_test engine/write_back_test engine/filter_test engine/ends_test engine/tail_test engine/log_test engine/lapse_test engine/partition_test engine/waiting_test api/late_test api/dispatch_test api/dispatch_late_test api/dispatch_protocols_test api/dynamodb_http_test api/v1_test api/event_hub_test access/credential_test access/key_use_test base/audit_test base/worker_test server/jobs_test server/delivery_test server/code_sender_test \
	http/thread_test http/hold_test http/hold_race_test http/stream_test http/stream_many_test \
	service/limits_test service/limits_together_test service/spool_test outbound/outbound_test outbound/nats_test remote/remote_test remote/pool_test token/issuer_test token/verifier_test)

.PHONY: c-tests thread-tests fuzzers replays
c-tests: $(TESTS) $(BUILD)/tests/model/model
fuzzers: $(FUZZERS)
replays: $(FUZZERS:%_fuzz=%_replay)
thread-tests: $(THREAD_TESTS)

test-asan:
	@tools/install test
	@$(WATCHED_ASAN) c-tests
	@$(PYTHON) tests/run --build build/asan --only unit,model

test-tsan:
	@tools/install test
	@$(WATCHED_TSAN) c-tests
	@TSAN_OPTIONS="suppressions=$(CURDIR)/tests/tsan.supp" $(PYTHON) tests/run --build build/tsan --only unit

# ---- too large for `make test` ----

.PHONY: test-engines
test-engines:
	@tools/install test
	@$(MAKE) --no-print-directory -s -j$$(nproc) all
	@$(WATCHED_ASAN) c-tests
	@$(PYTHON) tests/run --only engines --engines all

.PHONY: test-deb test-go test-alarms
test-deb:
	@tools/install test-deb
	@tests/deb/run $$($(MAKE) --no-print-directory -s deb | tail -n 1)

test-alarms:
	@tools/install test
	@$(MAKE) --no-print-directory -s -j$$(nproc) all
	@tests/alarms/run

test-go:
	@tools/install go
	@$(MAKE) --no-print-directory -s -j$$(nproc) all
	@GATEHOUSE_TEST_GO=1 $(PYTHON) -m pytest -q -p no:cacheprovider tests/e2e/test_go_sdk.py

# ---- fuzzing: clang's libFuzzer, on the watched core ----

$(BUILD)/fuzz/%_fuzz: fuzz/%_fuzz.c $(CORE)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -fsanitize=fuzzer -fuse-ld=$(LINKER) $(FUZZ_LINK) -o $@ $< $(CORE) $(LDLIBS)

# The same targets without sanitizers, for valgrind: it sees what is read before it is written.
$(BUILD)/fuzz/%_replay: fuzz/%_fuzz.c fuzz/replay.c $(CORE)
	@mkdir -p $(@D)
	$(TEST_LINK) $(TEST_FLAGS) $(FUZZ_LINK) -o $@ fuzz/replay.c $< $(CORE) $(LDLIBS)

$(foreach kind,fuzz replay,$(BUILD)/fuzz/decode_$(kind) $(BUILD)/fuzz/endpoint_$(kind)): build/fuzz/documented.json
build/fuzz/documented.json: tools/documented openapi.yaml
	@mkdir -p $(@D)
	tools/documented >$@
# the endpoint is in this process, and time passes at once
$(BUILD)/fuzz/endpoint_fuzz $(BUILD)/fuzz/endpoint_replay: FUZZ_LINK := -Wl,--wrap=aws_call -Wl,--wrap=remote_sleep

fuzz:
	@$(MAKE) --no-print-directory -s -j$$(nproc) replays
	@$(WATCHED_ASAN) fuzzers
	@$(PYTHON) tests/run --only fuzz --fuzz-time $(TIME)

# ---- longer campaigns ----

bench: all $(filter $(BUILD)/bench/%,$(PROGRAMS))
	@tools/install test
	@$(BUILD)/bench/token
	@bench/run
	@bench/identity
	@bench/events
	@bench/followers
	@bench/followers --consumers 100 --targets 10 --paced --rounds 2
	@bench/remote

crash: all $(BUILD)/tests/crash/crash
	@$(BUILD)/tests/crash/crash --cycles $(CYCLES)

model: $(BUILD)/tests/model/model
	@$(BUILD)/tests/model/model --operations $(OPERATIONS)

# What `make test` runs a short version of, one after the other. Each prints its seed.
.PHONY: campaign
campaign: $(addprefix $(BUILD)/tests/engine/,power_cut_test damaged_file_test disk_error_test)
	@POWER_CUTS=$(CUTS) $(BUILD)/tests/engine/power_cut_test
	@CAMPAIGN=20 $(BUILD)/tests/engine/damaged_file_test
	@CAMPAIGN=8 $(BUILD)/tests/engine/disk_error_test

# ---- lint ----

lint:
	@clang-format --dry-run -Werror $(FORMATTED)
	@tools/layers
	@tools/parameters
	@tools/listed
	@tools/tidy --check

# every file; tools/tidy --update runs only those that are not on the list of clean files
tidy:
	@tools/tidy --all

format:
	@clang-format -i $(FORMATTED)

# ---- libgatehouse: the client library, which shares nothing with the server ----

CLIENT         := $(BUILD)/client
CLIENT_SOURCES := $(filter-out client/example.c,$(wildcard client/*.c))
CLIENT_OBJECTS := $(CLIENT_SOURCES:%.c=$(BUILD)/%.o)
CLIENT_FLAGS    = -std=gnu17 $(WARN) $(OPT) $(SAN) $(COVER) -DGATEHOUSE_VERSION='"$(VERSION)"' -fPIC -fvisibility=hidden -pthread
CLIENT_LIBS    := -lssl -lcrypto -pthread

.PHONY: client
client: $(addprefix $(CLIENT)/,libgatehouse.a libgatehouse.so example gatehouse.3)

$(CLIENT)/%.o: client/%.c
	@mkdir -p $(@D)
	$(CC) $(CLIENT_FLAGS) -MMD -MP -c -o $@ $<

# One object, so that of all names only gatehouse_* is left for a program to meet.
$(CLIENT)/libgatehouse.a: $(CLIENT_OBJECTS)
	@rm -f $@
	$(CC) -r -nostdlib -o $(@:.a=.o) $^
	objcopy --localize-hidden $(@:.a=.o)
	ar rcsD $@ $(@:.a=.o)

$(CLIENT)/libgatehouse.so.0: $(CLIENT_OBJECTS) client/gatehouse.map
	$(CC) $(SAN) -shared -Wl,-soname,$(@F),--version-script=client/gatehouse.map -Wl,-z,relro,-z,now,-z,defs \
		-o $@ $(CLIENT_OBJECTS) $(CLIENT_LIBS)

$(CLIENT)/libgatehouse.so: $(CLIENT)/libgatehouse.so.0
	ln -sf $(<F) $@

$(CLIENT)/example: client/example.c client/gatehouse.h $(CLIENT)/libgatehouse.a
	$(CC) -std=c11 -pedantic $(WARN) $(OPT) $(SAN) -Iclient -o $@ $< $(CLIENT)/libgatehouse.a $(CLIENT_LIBS)

$(CLIENT)/error.o $(CLIENT)/request.o: src/base/version.h # VERSION comes from it

$(CLIENT)/gatehouse.3: client/gatehouse.3.in src/base/version.h
	@mkdir -p $(@D)
	sed -e 's/@VERSION@/$(VERSION)/' -e "s/@DATE@/$$(date -u -d @$(COMMITTED) +%Y-%m-%d)/" $< >$@

$(BUILD)/tests/client/%: tests/client/%.c $(wildcard tests/client/*.h) tests/scripted.h $(CLIENT_OBJECTS)
	@mkdir -p $(@D)
	$(CC) $(TEST_FLAGS) -Iclient -fuse-ld=$(LINKER) -o $@ $< $(CLIENT_OBJECTS) -lcmocka $(CLIENT_LIBS)

$(BUILD)/fuzz/client_replay: fuzz/client_fuzz.c fuzz/replay.c $(CLIENT_OBJECTS)
	@mkdir -p $(@D)
	$(TEST_LINK) $(TEST_FLAGS) -Iclient -o $@ $(filter %.c %.o,$^) $(CLIENT_LIBS)

$(BUILD)/fuzz/client_fuzz: fuzz/client_fuzz.c $(CLIENT_OBJECTS)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -fsanitize=fuzzer -fuse-ld=$(LINKER) -Iclient -o $@ $(filter %.c %.o,$^) $(CLIENT_LIBS)

suites: client
thread-tests: $(BUILD)/tests/client/thread_test

# ---- installing and packaging: man page and completion come from the program's own tables ----

PREFIX     ?= /usr/local
DESTDIR    ?=
LIBDIR     ?= $(PREFIX)/lib
UNITDIR    ?= $(PREFIX)/lib/systemd/system
SYSCONFDIR ?= $(PREFIX)/etc
VERSION    := $(shell sed -n 's/^.define GATEHOUSE_VERSION "\(.*\)"/\1/p' src/base/version.h)
DEB        := $(BUILD)/gatehouse_$(VERSION)_$(shell dpkg --print-architecture).deb
COMMITTED  := $(shell git log -1 --format=%ct 2>/dev/null || date +%s)

# What is installed to be read, at the paths that it has here: links from one to another work.
DOCUMENTS   = README.md CHANGELOG.md openapi.yaml src/service/defaults.yaml $(wildcard docs/*.md docs/*/*.json docs/*/*.svg docs/*/*.md client/README.md) \
	$(shell find packaging/examples packaging/prometheus packaging/terraform -type f -not -path '*/node_modules/*' -not -name package-lock.json)

.PHONY: man install deb
.DELETE_ON_ERROR:

man: $(BUILD)/gatehouse.1 $(BUILD)/gatehouse.bash

$(BUILD)/gatehouse.1: packaging/gatehouse.1.in tools/from-tables $(BUILD)/gatehouse
	SOURCE_DATE_EPOCH=$(COMMITTED) tools/from-tables $(BUILD)/gatehouse --man $(VERSION) <$< >$@

$(BUILD)/gatehouse.bash: packaging/gatehouse.bash.in tools/from-tables $(BUILD)/gatehouse
	tools/from-tables $(BUILD)/gatehouse --completion $(VERSION) <$< >$@

install: all man client
	install -D -m 755 $(BUILD)/gatehouse $(DESTDIR)$(PREFIX)/bin/gatehouse
	install -D -m 644 $(BUILD)/gatehouse.1 $(DESTDIR)$(PREFIX)/share/man/man1/gatehouse.1
	install -D -m 644 $(BUILD)/gatehouse.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/gatehouse
	install -D -m 644 client/gatehouse.h $(DESTDIR)$(PREFIX)/include/gatehouse.h
	install -D -m 644 $(CLIENT)/libgatehouse.a $(DESTDIR)$(LIBDIR)/libgatehouse.a
	install -D -m 644 $(CLIENT)/libgatehouse.so.0 $(DESTDIR)$(LIBDIR)/libgatehouse.so.0
	ln -sf libgatehouse.so.0 $(DESTDIR)$(LIBDIR)/libgatehouse.so
	install -d $(DESTDIR)$(LIBDIR)/pkgconfig
	sed -e 's#@PREFIX@#$(PREFIX)#' -e 's#@LIBDIR@#$(LIBDIR)#' -e 's#@VERSION@#$(VERSION)#' client/gatehouse.pc.in \
		>$(DESTDIR)$(LIBDIR)/pkgconfig/gatehouse.pc
	chmod 644 $(DESTDIR)$(LIBDIR)/pkgconfig/gatehouse.pc
	install -D -m 644 $(CLIENT)/gatehouse.3 $(DESTDIR)$(PREFIX)/share/man/man3/gatehouse.3
	install -D -m 644 src/plan/prices.yaml $(DESTDIR)$(PREFIX)/share/gatehouse/prices.yaml
	for file in $(DOCUMENTS); do install -D -m 644 $$file $(DESTDIR)$(PREFIX)/share/doc/gatehouse/$$file; done
	install -D -m 644 packaging/gatehouse.sysusers $(DESTDIR)$(PREFIX)/lib/sysusers.d/gatehouse.conf
	install -D -m 644 packaging/gatehouse.socket $(DESTDIR)$(UNITDIR)/gatehouse.socket
	install -D -m 644 packaging/gatehouse.yaml $(DESTDIR)$(SYSCONFDIR)/gatehouse/gatehouse.yaml
	sed 's#@PREFIX@#$(PREFIX)#; s#@SYSCONFDIR@#$(SYSCONFDIR)#' packaging/gatehouse.service.in >$(DESTDIR)$(UNITDIR)/gatehouse.service
	chmod 644 $(DESTDIR)$(UNITDIR)/gatehouse.service

deb:
	@tools/install deb
	@$(MAKE) --no-print-directory -s -j$$(nproc) all man client
	@rm -rf $(BUILD)/deb
	@$(MAKE) --no-print-directory -s install DESTDIR=$(BUILD)/deb PREFIX=/usr UNITDIR=/lib/systemd/system SYSCONFDIR=/etc \
		LIBDIR=/usr/lib/$$(dpkg-architecture -qDEB_HOST_MULTIARCH)
	@SOURCE_DATE_EPOCH=$(COMMITTED) tools/deb $(BUILD)/deb $(VERSION) $(DEB)

clean:
	rm -rf build

-include $(OBJECTS:.o=.d) $(CLIENT_OBJECTS:.o=.d) $(TESTS:=.d) $(PROGRAMS:=.d) $(FUZZERS:=.d)
