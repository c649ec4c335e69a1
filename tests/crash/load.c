/* Load: a thread a worker, each with one connection and one request under way, until the server is gone. So
 * at most one request a worker is in doubt after a cycle. */
#include <stdlib.h>

#include "campaign.h"
#include "text.h"

const struct book *const books[BOOKS] = {
        &book_counters, &book_notes,   &book_batches, &book_sessions, &book_transfers,
        &book_refusals, &book_devices, &book_tags,    &book_reindex, /* after the notes: their doubts are
                                                                        settled */
};

static const struct book *book_choose(struct random *r)
{
	uint64_t sum = 0, dice;

	for (int i = 0; i < BOOKS; i++)
		sum += books[i]->weight;
	dice = random_below(r, sum);
	for (int i = 0; i < BOOKS; i++) {
		if (dice < books[i]->weight)
			return books[i];
		dice -= books[i]->weight;
	}
	return books[0];
}

/* Sends one request and notes its outcome; false if the server is going or gone. */
static bool work_once(struct worker *w)
{
	struct answer answer;

	w->book = book_choose(&w->random);
	buf_reset(&w->body);
	w->book->compose(w);
	if (!client_call(&w->client, w->operation, buf_bytes(&w->body), &answer) || answer.status == 500) {
		w->book->settle(w, NULL);
		return false;
	}
	if (answer.status == 503) { /* nothing was done */
		w->book = NULL;
		return false;
	}
	w->book->settle(w, &answer);
	w->book = NULL;
	w->acknowledged++;
	return true;
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;

	while (atomic_load(&w->campaign->differences) == 0 && work_once(w))
		;
	client_close(&w->client);
	return NULL;
}

static void cycle_begin(struct campaign *c)
{
	for (int kind = 0; kind < SERIES_KINDS; kind++)
		for (unsigned w = 0; w < WORKERS; w++)
			c->series[kind][c->cycle][w] = (struct series){.began_s = server_now_s(&c->server)};
}

/* Before any of them sends: a commit that is to fail may end the server before the last one has come. */
static void connect_all(struct campaign *c)
{
	for (unsigned i = 0; i < WORKERS; i++) {
		struct worker *w = &c->workers[i];

		w->book = NULL;
		if (!client_open(&w->client, c->server.port))
			differ(c, "worker %u: expected a connection, found none", w->id);
	}
}

void load_start(struct campaign *c)
{
	cycle_begin(c);
	connect_all(c);
	for (unsigned i = 0; i < WORKERS; i++)
		if (pthread_create(&c->workers[i].thread, NULL, worker_main, &c->workers[i]) != 0)
			abort();
}

void load_join(struct campaign *c)
{
	for (unsigned i = 0; i < WORKERS; i++) {
		pthread_join(c->workers[i].thread, NULL);
		c->tally.unanswered += c->workers[i].book != NULL;
	}
}
