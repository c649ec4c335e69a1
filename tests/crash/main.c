/* Crash: cycle after cycle, load a server, end it, start it again on the same data, compare.
 *
 *    running, compared --> load --> an ending --> running again --> compared
 *          ^                                                           |
 *          '-----------------------------------------------------------'
 *
 * The seed decides the requests, the endings and the moments; how the threads interleave it cannot decide. So
 * a seed that failed is likely to fail again, not certain to: the data directory is kept. A cycle passes if
 * nothing differs; the first that does not ends the campaign. */
#define _GNU_SOURCE
#include <errno.h>
#include <ftw.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "endings.h"

enum {
	CYCLES_DEFAULT = 100,
	PROGRESS_EVERY = 10,
	LIE_CYCLE = 1, /* a lie is told in the second cycle: the first must pass */
	LEAP_EVERY =
	        3, /* cycles, hours pass at the beginning of one: sessions lapse (engine/lapse.h), and leave the store under load */
};

#define LEAP_US (INT64_C(7800) * 1000000)

struct options {
	unsigned    cycles;
	uint64_t    seed;
	const char *program;
	const char *lie; /* the name of a book, or "log"; NULL: none */
};

/* ---- the campaign's parts ---- */

static void campaign_init(struct campaign *c, const struct options *o)
{
	c->seed = o->seed;
	c->random.state = o->seed;
	c->ending = "setup";
	c->server.program = o->program;
	client_init(&c->client);
	for (unsigned i = 0; i < WORKERS; i++) {
		struct worker *w = &c->workers[i];

		w->campaign = c;
		w->id = i;
		w->random.state = random_next(&c->random);
		client_init(&w->client);
		buf_init(&w->body, NULL);
	}
}

static void campaign_release(struct campaign *c)
{
	client_release(&c->client);
	for (unsigned i = 0; i < WORKERS; i++) {
		client_release(&c->workers[i].client);
		buf_release(&c->workers[i].body);
	}
}

static bool passes(const struct campaign *c)
{
	return atomic_load(&c->differences) == 0;
}

static void connect_again(struct campaign *c)
{
	if (passes(c) && !client_open(&c->client, c->server.port))
		differ(c, "expected a connection to the server, found none");
}

static void verify(struct campaign *c, bool whole)
{
	connect_again(c);
	for (int i = 0; i < BOOKS && passes(c); i++)
		if (books[i]->verify != NULL)
			books[i]->verify(c, whole);
	client_close(&c->client);
}

/* ---- epochs: a data directory, and the books about it ---- */

static void books_clear(struct campaign *c)
{
	for (unsigned i = 0; i < WORKERS; i++) {
		c->workers[i].book = NULL;
		c->workers[i].must = (struct ledger){0};
	}
	c->has_index = false;
}

static void epoch_begin(struct campaign *c)
{
	const char *parent = getenv("TMPDIR");

	snprintf(c->server.data, sizeof(c->server.data), "%s/gatehouse-crash-XXXXXX",
	         parent == NULL ? "/tmp" : parent);
	if (mkdtemp(c->server.data) == NULL) {
		perror(c->server.data);
		exit(2);
	}
	snprintf(c->server.log, sizeof(c->server.log), "%s.log", c->server.data);
	snprintf(c->server.clock, sizeof(c->server.clock), "%s.clock", c->server.data);
	if (!server_make_clock(&c->server)) {
		perror(c->server.clock);
		exit(2);
	}
	books_clear(c);
	c->cycle = 0;
	ending_start(c);
	connect_again(c);
	for (int i = 0; i < BOOKS && passes(c); i++)
		if (books[i]->setup != NULL)
			books[i]->setup(c);
}

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *walk)
{
	(void)s;
	(void)type;
	(void)walk;
	return remove(path);
}

/* Reads everything once more and takes the data away, if all is well. */
static void epoch_end(struct campaign *c)
{
	if (passes(c))
		ending_stop(c);
	if (!passes(c)) {
		printf("kept: %s, and what the server said in %s\n", c->server.data, c->server.log);
		return;
	}
	nftw(c->server.data, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	remove(c->server.log);
	remove(c->server.clock);
}

/* ---- cycles ---- */

static void tell_lie(struct campaign *c, const char *name)
{
	for (int i = 0; i < BOOKS; i++)
		if (strcmp(books[i]->name, name) == 0 && books[i]->lie != NULL)
			books[i]->lie(&c->workers[0]);
}

static void cycle_run(struct campaign *c, const struct options *o, bool last)
{
	unsigned             number = c->cycles_before + c->cycle;
	bool                 lies = o->lie != NULL && number == LIE_CYCLE;
	const struct ending *ending = ending_of(number);

	if (o->lie != NULL)
		ending = lies && strcmp(o->lie, "log") == 0 ? &ending_lose_log : &ending_kill;
	c->ending = ending->name;
	c->graceful = false;
	if (number % LEAP_EVERY == LEAP_EVERY - 1 && !server_pass(&c->server, LEAP_US))
		differ(c, "expected to set the server's clock, could not");
	ending->run(c);
	if (lies)
		tell_lie(c, o->lie);
	verify(c, last || number % WHOLE_EVERY == WHOLE_EVERY - 1);
	if (ending->armed && passes(c)) {
		ending_stop(c);
		ending_start(c);
	}
}

static void progress(const struct campaign *c, const struct options *o, unsigned done, time_t began)
{
	uint64_t acknowledged = 0;

	if (done % PROGRESS_EVERY != 0 && done != o->cycles)
		return;
	for (unsigned i = 0; i < WORKERS; i++)
		acknowledged += c->workers[i].acknowledged;
	printf("crash: %u of %u cycles, %llu requests acknowledged, %lld s\n", done, o->cycles,
	       (unsigned long long)acknowledged, (long long)(time(NULL) - began));
	fflush(stdout);
}

/* The number of cycles that passed. */
static unsigned campaign_run(struct campaign *c, const struct options *o)
{
	time_t   began = time(NULL);
	unsigned done = 0;

	while (done < o->cycles && passes(c)) {
		if (done % EPOCH_CYCLES == 0) {
			if (done > 0)
				epoch_end(c);
			c->cycles_before = done;
			epoch_begin(c);
		}
		c->cycle = done % EPOCH_CYCLES;
		if (passes(c))
			cycle_run(c, o, done + 1 == o->cycles || c->cycle == EPOCH_CYCLES - 1);
		if (passes(c))
			progress(c, o, ++done, began);
	}
	if (o->cycles > 0)
		epoch_end(c);
	return done;
}

static void summary(const struct campaign *c)
{
	printf("crash: %llu requests got no answer or 500, of which %llu were found done; %llu indexes were\n"
	       "       found half made and were completed\n",
	       (unsigned long long)c->tally.unanswered, (unsigned long long)c->tally.unanswered_done,
	       (unsigned long long)c->tally.indexes_filling);
}

/* ---- arguments ---- */

static _Noreturn void usage(void)
{
	fprintf(stderr, "usage: [SEED=N] crash [--cycles N] [--lie BOOK]\n"
	                "Kills the server that GATEHOUSE_BIN names (default: build/gatehouse) N times under\n"
	                "load. With --lie the books are made wrong (counters, notes, batches, sessions,\n"
	                "transfers, devices, tags, reindex) or half of the server's log is lost (log): it "
	                "must fail.\n");
	exit(2);
}

static uint64_t number_of(const char *text)
{
	char    *end;
	uint64_t value = strtoull(text, &end, 10);

	if (*text == '\0' || *end != '\0')
		usage();
	return value;
}

static void parse(struct options *o, int argc, char **argv)
{
	static const struct option known[] = {
	        {"cycles", required_argument, NULL, 'c'}, {"lie", required_argument, NULL, 'l'}, {0}};
	int which;

	while ((which = getopt_long(argc, argv, "", known, NULL)) != -1) {
		if (which == 'c')
			o->cycles = (unsigned)number_of(optarg);
		else if (which == 'l')
			o->lie = optarg;
		else
			usage();
	}
}

int main(int argc, char **argv)
{
	struct options o = {
	        .cycles = CYCLES_DEFAULT, .seed = random_seed(), .program = getenv("GATEHOUSE_BIN")};
	struct campaign *c = mem_zalloc(sizeof(*c));
	unsigned         passed, failed;

	parse(&o, argc, argv);
	if (o.program == NULL)
		o.program = "build/gatehouse";
	printf("crash: seed %llu, %u cycles\n", (unsigned long long)o.seed, o.cycles);
	fflush(stdout);
	campaign_init(c, &o);
	passed = campaign_run(c, &o);
	summary(c);
	failed = passes(c) ? 0 : 1;
	campaign_release(c);
	free(c);
	printf("%u passed, %u failed\n", passed, failed);
	return failed == 0 ? 0 : 1;
}
