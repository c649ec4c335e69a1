/* Tables: what `gatehouse tables` prints, for programs. */
#ifndef CLI_TABLES_H
#define CLI_TABLES_H

#include "json/write.h"
#include "server/services.h"
#include "server/table_plan.h"

struct tables_sum {
	unsigned missing, different, good; /* tables */
	unsigned by_hand;                  /* differences that no command settles */
};

struct tables_sum tables_sum(const struct table_plan *p);

/* One object: all tables as they are to be, what is there, and the differences. endpoint NULL: none was asked. */
void tables_json(struct json_writer *w, const struct table_plan *p, struct endpoint *endpoint,
                 const struct tables_sum *sum);

#endif
