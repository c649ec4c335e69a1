/* Scraper: who renders the text of /metrics. Rendering takes milliseconds, and /metrics needs no credentials: so a thread of its own does it, at most every
 * metrics_ms, and a loop only sends what is there.
 *
 *   a loop                                      the scraper's thread
 *   GET /metrics: parks, in line -------------> waits until the pace allows, takes all that stand in line,
 *   sends the text <---------------- wakes ---- renders once for all of them
 *
 * (1) What is sent was rendered after the request had come in, so it counts all that was answered before: nobody needs to know of the pace. Whoever scrapes
 *     more often than that waits for it.
 * (2) If there is no room to park, or it takes longer than SCRAPE_WAIT_MS, the last text is sent, and an error only if there is none. */
#ifndef API_SCRAPER_H
#define API_SCRAPER_H

#include "api/api.h"

enum { SCRAPE_MS = 1000, SCRAPE_MS_MAX = 5000, SCRAPE_WAIT_MS = 8000 };

struct scraper;

/* After api_init; its parts name it from then on. */
enum err_code scraper_open(struct scraper **out, struct api *api, struct err *err);

/* Before the HTTP server ends, whose numbers it reads: who stands in line is answered when that ends. NULL: nothing. */
void scraper_stop(struct scraper *s);

/* After the HTTP server: nobody stands in line. NULL: nothing. */
void scraper_close(struct scraper *s);

/* The route. */
void metrics_handle(struct api_loop *l, struct http_request *r);

/* How often it has rendered. Any thread. */
uint64_t scraper_renders(struct scraper *s);

#endif
