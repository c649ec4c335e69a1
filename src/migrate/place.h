/* Place: tables at an endpoint that speaks DynamoDB's protocol: AWS, another server, or Gatehouse on its own disk (POST /). Opened by
 * export and import, as AWS's settings say where it is and who we are there (outbound/credentials.h), unless told otherwise.
 *
 * One thread. Results live in the arena that is passed in. An item that has expired is absent. */
#ifndef MIGRATE_PLACE_H
#define MIGRATE_PLACE_H

#include "table/table.h"

enum {
	PLACE_CALL_MS = 120000,
	PLACE_ATTEMPT_MS = 60000
}; /* somebody waits for the whole, not for one call */

struct place_options {
	const char *endpoint;     /* NULL: AWS's settings, else AWS */
	const char *region;       /* NULL: AWS's settings */
	const char *table_prefix; /* of every table's name there; NULL: none */
};

struct place;

/* Asks the place whether it takes our requests. An error says what to do about it. */
enum err_code place_open(struct place **out, const struct place_options *options, struct err *err);
void          place_close(struct place *p); /* NULL is none */

/* ERR_NO_RESOURCE: there is no such table. */
enum err_code place_describe(struct place *p, struct arena *a, struct bytes table,
                             struct table_description *out, struct err *err);

/* A page of a scan, without the row that belongs to this place alone: of which key its processes have (service/identifier_check.h). Elsewhere
 * they may have another. If rows are only counted, neither is that of how many shards the log of events has (service/event_shards.h): a server
 * writes it when it starts, before there is anything. It goes with the log. */
enum err_code place_scan(struct place *p, struct arena *a, const struct table_query *q,
                         struct table_query_result *out, struct err *err);

enum err_code place_batch_get(struct place *p, struct arena *a, const struct table_batch_get *q,
                              struct table_batch_get_result *out, struct err *err);

/* All are done, or it fails; some may be done then. */
enum err_code place_batch_write(struct place *p, struct arena *a, const struct table_batch_write *q,
                                struct err *err);

/* Makes a table, with its indexes, tags and time to live, and waits until it can be used. */
enum err_code place_create(struct place *p, struct arena *a, const struct table_schema *schema,
                           struct err *err);

/* Turns the time to live of a table on, in the attribute that the schema names. */
enum err_code place_set_ttl(struct place *p, struct arena *a, const struct table_schema *schema,
                            struct err *err);

#endif
