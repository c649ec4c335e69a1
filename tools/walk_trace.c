/* Walk trace: records which functions a program enters, for tools/walk. It is preloaded into a server whose functions call
 * the two hooks below (gcc -finstrument-functions). SIGUSR2 starts a recording, or ends it and writes it to WALK_OUT:
 * one line per entry: the thread and the function, as an offset into the program. */
#define _GNU_SOURCE
#include <link.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

enum { ENTRIES_MAX = 1 << 20 };

struct entry {
	pid_t     thread;
	uintptr_t function;
};

static struct entry        entries[ENTRIES_MAX];
static atomic_uint         count;
static atomic_bool         recording;
static uintptr_t           base;
static _Thread_local pid_t self;

#define HOOK __attribute__((no_instrument_function, visibility("default")))

HOOK void __cyg_profile_func_enter(void *function, void *call_site);
HOOK void __cyg_profile_func_exit(void *function, void *call_site);

HOOK void __cyg_profile_func_enter(void *function, void *call_site)
{
	unsigned at;

	(void)call_site;
	if (!atomic_load_explicit(&recording, memory_order_relaxed))
		return;
	if (self == 0)
		self = gettid();
	at = atomic_fetch_add(&count, 1);
	if (at < ENTRIES_MAX)
		entries[at] = (struct entry){self, (uintptr_t)function - base};
}

HOOK void __cyg_profile_func_exit(void *function, void *call_site)
{
	(void)function;
	(void)call_site;
}

/* In a signal handler, though stdio is not made for it: the process is a measurement, and its main thread only waits. */
static void toggle(int signal_number)
{
	unsigned total;
	FILE    *out;

	(void)signal_number;
	if (!atomic_exchange(&recording, true)) {
		atomic_store(&count, 0);
		return;
	}
	atomic_store(&recording, false);
	total = atomic_load(&count) < ENTRIES_MAX ? atomic_load(&count) : ENTRIES_MAX;
	out = fopen(getenv("WALK_OUT"), "w");
	if (out == NULL)
		return;
	for (unsigned i = 0; i < total; i++)
		fprintf(out, "%d %lx\n", entries[i].thread, entries[i].function);
	fputs("end\n", out);
	fclose(out);
}

/* The first object is the program itself. */
static int note_base(struct dl_phdr_info *info, size_t size, void *ctx)
{
	(void)size;
	(void)ctx;
	base = info->dlpi_addr;
	return 1;
}

__attribute__((constructor)) static void prepare(void)
{
	dl_iterate_phdr(note_base, NULL);
	signal(SIGUSR2, toggle);
}
