# Gatehouse. `make run` serves, `make test` tests; both install what is missing first.
#
#   make               builds build/gatehouse
#   make run           installs, builds, serves on loopback
#   make test          installs, builds, runs every suite
#   make test-asan     the C suites under AddressSanitizer and UndefinedBehaviorSanitizer
#   make test-tsan     the C suites with threads under ThreadSanitizer
#   make lint          layout, layers
#   make bench         measures against other servers, both sides in one run
#   make fuzz TIME=60  fuzzes each parser for TIME seconds
#   make crash CYCLES=1000 / make model OPERATIONS=1000000
SHELL      := /bin/bash
BUILD      ?= build
CC         := gcc
CXX        := g++
PYTHON     := /usr/bin/python3
WARN       := -Wall -Wextra -Wconversion -Wshadow -Werror
OPT        ?= -O2 -g -fno-omit-frame-pointer
SAN        ?=
CFLAGS     := -std=gnu17 $(WARN) $(OPT) $(SAN) -Isrc -pthread -MMD -MP
CXXFLAGS   := -std=c++17 -Wall -Wextra -Werror $(OPT) $(SAN) -Isrc -pthread -MMD -MP
LDLIBS     := -lrocksdb -lhttp_parser -lsimdjson -lcrypto -lz -lstdc++ -lm -pthread
TIME       ?= 10
CYCLES     ?= 1000
OPERATIONS ?= 1000000
LISTEN     ?= 127.0.0.1:8420

SOURCES    := $(wildcard src/*/*.c)
CXXSOURCES := $(wildcard src/*/*.cc)
OBJECTS    := $(SOURCES:%.c=$(BUILD)/%.o) $(CXXSOURCES:%.cc=$(BUILD)/%.o)
CORE       := $(BUILD)/libgatehouse-core.a
TESTS      := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/*/*_test.c))
PROGRAMS   := $(BUILD)/tests/crash/crash $(patsubst %.c,$(BUILD)/%,$(wildcard tests/model/model.c bench/*.c))
FUZZERS    := $(patsubst fuzz/%.c,build/fuzz/%,$(wildcard fuzz/*_fuzz.c))
FORMATTED  := $(wildcard src/*.c src/*/*.[ch] tests/*.h tests/*/*.[ch] fuzz/*.[ch] bench/*.[ch])

.PHONY: all deps run test suites test-asan test-tsan lint format bench fuzz crash model clean
.SECONDARY:

all: $(BUILD)/gatehouse

# ---- the two commands ----

run:
	@tools/install build
	@$(MAKE) --no-print-directory -s -j$$(nproc) all
	@exec $(BUILD)/gatehouse serve --listen $(LISTEN) --data data --no-auth

test:
	@tools/install test
	@$(MAKE) --no-print-directory -s -j$$(nproc) suites
	@$(PYTHON) tests/run

# ---- building ----

$(BUILD)/gatehouse: $(BUILD)/src/main.o $(CORE)
	$(CC) $(SAN) -o $@ $^ $(LDLIBS)

$(CORE): $(OBJECTS)
	@rm -f $@
	ar rcs $@ $^

$(BUILD)/src/%.o: src/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -c -o $@ $<

$(BUILD)/src/%.o: src/%.cc
	@mkdir -p $(@D)
	$(CXX) $(CXXFLAGS) -c -o $@ $<

$(BUILD)/tests/%: tests/%.c $(CORE)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -Itests -Ibench -o $@ $< $(CORE) -lcmocka $(LDLIBS)

$(BUILD)/tests/crash/crash: $(wildcard tests/crash/*.[ch]) $(CORE)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -Itests -o $@ $(filter %.c,$^) $(CORE) $(LDLIBS)

$(BUILD)/bench/%: bench/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -o $@ $<

suites: all $(TESTS) $(PROGRAMS) $(FUZZERS)

# ---- the same tests, watched ----

SANITIZED = $(MAKE) --no-print-directory -s -j$$(nproc) OPT="-O1 -g -fno-omit-frame-pointer -Wno-format-truncation"

test-asan:
	@tools/install test
	@$(SANITIZED) BUILD=build/asan SAN="-fsanitize=address,undefined -fno-sanitize-recover=undefined" asan-tests
	@$(PYTHON) tests/run --build build/asan --only unit,model

test-tsan:
	@tools/install test
	@$(SANITIZED) BUILD=build/tsan SAN="-fsanitize=thread " asan-tests
	@TSAN_OPTIONS="suppressions=$(CURDIR)/tests/tsan.supp" $(PYTHON) tests/run --build build/tsan --only unit

.PHONY: asan-tests
asan-tests: $(TESTS) $(filter $(BUILD)/tests/model/%,$(PROGRAMS))

# ---- fuzzing: clang's libFuzzer ----

FUZZ_FLAGS := -std=gnu17 -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -Isrc
FUZZ_CORE  := $(SOURCES:%.c=build/fuzz/%.o)
FUZZ_CXX   := build/fuzz/src/json/read.o

build/fuzz/src/%.o: src/%.c
	@mkdir -p $(@D)
	clang $(subst fuzzer,fuzzer-no-link,$(FUZZ_FLAGS)) -pthread -MMD -MP -c -o $@ $<

build/fuzz/src/%.o: src/%.cc
	@mkdir -p $(@D)
	clang++ -std=c++17 -g -O1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize=vptr -Isrc -MMD -MP -c -o $@ $<

build/fuzz/libcore.a: $(FUZZ_CORE) $(FUZZ_CXX)
	@rm -f $@
	ar rcs $@ $^

build/fuzz/%_fuzz: fuzz/%_fuzz.c build/fuzz/libcore.a
	@mkdir -p $(@D)
	clang $(FUZZ_FLAGS) -pthread -o $@ $^ $(LDLIBS)

fuzz: $(FUZZERS)
	@$(PYTHON) tests/run --only fuzz --fuzz-time $(TIME)

# ---- longer campaigns ----

bench: all $(filter $(BUILD)/bench/%,$(PROGRAMS))
	@tools/install test
	@bench/run

crash: all $(BUILD)/tests/crash/crash
	@$(BUILD)/tests/crash/crash --cycles $(CYCLES)

model: $(BUILD)/tests/model/model
	@$(BUILD)/tests/model/model --operations $(OPERATIONS)

# ---- lint ----

lint:
	@clang-format --dry-run -Werror $(FORMATTED)
	@tools/layers

format:
	@clang-format -i $(FORMATTED)

clean:
	rm -rf build

-include $(OBJECTS:.o=.d) $(TESTS:=.d) $(PROGRAMS:=.d) $(FUZZ_CORE:.o=.d)
