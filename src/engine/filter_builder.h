/* Filter builder: the thread that makes the filter of what exists (filter.h): after the store was opened, which does not wait for it,
 * and again when the filter has become too full, or full of what was deleted. */
#ifndef ENGINE_FILTER_BUILDER_H
#define ENGINE_FILTER_BUILDER_H

#include "base/err.h"

struct engine;
struct filter_builder;

enum err_code filter_builder_open(struct filter_builder **out, struct engine *e, struct err *err);
/* Ends what it does. */
void filter_builder_close(struct filter_builder *b);

/* The ticker's: looks whether there is something to do. */
void filter_builder_wake(struct filter_builder *b);

/* For tests: a round now, and waits for it. */
void filter_builder_round(struct filter_builder *b);

#endif
