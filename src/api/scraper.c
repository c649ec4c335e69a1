/* Scraper: see scraper.h. */
#include "api/scraper.h"

#include <assert.h>
#include <stdlib.h>
#include <time.h>

#include "api/exposition.h"
#include "api/metrics.h"
#include "base/list.h"
#include "base/worker.h"

enum { NAP_MS = 20 }; /* a stop is noticed in between */

struct scraper {
	/* set once */
	struct api   *api;
	struct worker worker;

	/* its thread */
	struct buf rendering;
	int64_t    begun_us; /* the last time; 0: never */

	/* under lock */
	pthread_mutex_t lock;
	struct list     line;
	struct buf      text; /* the last one */
	uint64_t        renders;
};

/* A request in line; in its arena. */
struct scrape {
	struct list          link;
	struct http_request *request;
};

static int64_t steady_us(void)
{
	return clock_steady_us(clock_system());
}

/* ---- its thread ---- */

/* False: it is time to end. */
static bool pace_await(struct scraper *s, struct worker *w)
{
	const struct timespec nap = {0, NAP_MS * 1000000};

	while (s->begun_us > 0 && steady_us() - s->begun_us < s->api->parts.metrics_ms * INT64_C(1000)) {
		if (!worker_goes_on(w))
			return false;
		nanosleep(&nap, NULL);
	}
	return true;
}

static void line_take(struct scraper *s, struct list *served)
{
	struct list *node;

	list_init(served);
	pthread_mutex_lock(&s->lock);
	while ((node = list_pop_front(&s->line)) != NULL)
		list_push_back(served, node);
	pthread_mutex_unlock(&s->lock);
}

/* Whoever has gone meanwhile has taken itself off the list. */
static void text_put(struct scraper *s, struct list *served)
{
	struct buf swap;

	pthread_mutex_lock(&s->lock);
	swap = s->text;
	s->text = s->rendering;
	s->rendering = swap;
	s->renders++;
	for (struct list *l = served->next; l != served; l = l->next)
		http_wake(LIST_ENTRY(l, struct scrape, link)->request);
	while (list_pop_front(served) != NULL) /* the head is on this stack */
		;
	pthread_mutex_unlock(&s->lock);
}

static void scrape_round(struct worker *w, void *ctx)
{
	struct scraper *s = ctx;
	struct list     served;
	bool            any;

	pthread_mutex_lock(&s->lock);
	any = !list_empty(&s->line);
	pthread_mutex_unlock(&s->lock);
	if (!any || !pace_await(s, w))
		return;
	line_take(s, &served); /* (1) before it is rendered */
	s->begun_us = steady_us();
	buf_reset(&s->rendering);
	metrics_write(s->api, &s->rendering);
	text_put(s, &served);
}

/* ---- loops ---- */

static void text_send(struct api_loop *l, struct http_request *r)
{
	struct scraper      *s = l->api->parts.scraper;
	struct http_response response = {.status = 200, .content_type = EXPOSITION_CONTENT_TYPE};
	struct buf          *out = api_loop_answer(l);

	pthread_mutex_lock(&s->lock);
	buf_add_bytes(out, buf_bytes(&s->text));
	pthread_mutex_unlock(&s->lock);
	if (out->len == 0) {
		problem_answer(l, r, ERR_OVERLOADED, "the metrics are not rendered yet; try again");
		return;
	}
	response.body = buf_bytes(out);
	http_respond(r, &response);
}

static void scraped(struct http_request *r, enum http_end why)
{
	struct api_loop *l = r->loop_data;
	struct scraper  *s = l->api->parts.scraper;

	(void)why;
	pthread_mutex_lock(&s->lock);
	list_remove(&((struct scrape *)r->user)->link);
	pthread_mutex_unlock(&s->lock);
	text_send(l, r);
}

void metrics_handle(struct api_loop *l, struct http_request *r)
{
	struct scraper *s = l->api->parts.scraper;
	struct scrape  *x = arena_alloc(&r->arena, sizeof(*x));

	if (!l->api->parts.metrics_open) {
		problem_answer(l, r, ERR_ACCESS,
		               "metrics are served on loopback only, unless started with --open-metrics");
		return;
	}
	*x = (struct scrape){.request = r};
	r->user = x;
	if (!http_park(r, r->received_us + SCRAPE_WAIT_MS * INT64_C(1000), scraped)) {
		text_send(l, r);
		return;
	}
	pthread_mutex_lock(&s->lock);
	list_push_back(&s->line, &x->link);
	pthread_mutex_unlock(&s->lock);
	worker_wake(&s->worker);
}

/* ---- life ---- */

enum err_code scraper_open(struct scraper **out, struct api *api, struct err *err)
{
	struct scraper *s = mem_zalloc(sizeof(*s));

	s->api = api;
	if (api->parts.metrics_ms == 0)
		api->parts.metrics_ms = SCRAPE_MS;
	pthread_mutex_init(&s->lock, NULL);
	list_init(&s->line);
	buf_init(&s->text, NULL);
	buf_init(&s->rendering, NULL);
	worker_init(&s->worker, &(struct worker_options){.name = "metrics", .round = scrape_round, .ctx = s});
	api->parts.scraper = *out = s;
	return worker_start(&s->worker, err);
}

void scraper_stop(struct scraper *s)
{
	if (s != NULL)
		worker_join(&s->worker);
}

void scraper_close(struct scraper *s)
{
	if (s == NULL)
		return;
	worker_release(&s->worker);
	assert(list_empty(&s->line));
	buf_release(&s->text);
	buf_release(&s->rendering);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

uint64_t scraper_renders(struct scraper *s)
{
	uint64_t renders;

	pthread_mutex_lock(&s->lock);
	renders = s->renders;
	pthread_mutex_unlock(&s->lock);
	return renders;
}
