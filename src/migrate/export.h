/* Export and import: tables with all their rows, from a place (place.h) into a directory of plain files (rows.h, manifest.h), and back.
 *
 * What always holds
 * (1) One page of a table, or one batch of rows, is in memory at a time.
 * (2) An export is finished when it has its manifest. Nothing is imported from one that is not finished, damaged or cut off: every line is
 *     compared with its checksum before anything is written.
 * (3) A table that holds rows is not imported into, unless asked for. Importing puts rows, and so can be repeated.
 * (4) After an import every row was read back and compared. A row that has expired meanwhile counts as imported.
 *
 * (5) A log of events keeps its shards. One from a machine of its own has one, and no row that says so (service/event_shards.h). If a server has begun a log in the
 *     table and published nothing, what its row says is replaced, unless rows are imported into existing ones.
 *
 * A scan of a table that others write to is not its state at one moment: stop writing first. `check` compares an export with a place and
 * so tells whether something changed meanwhile. */
#ifndef MIGRATE_EXPORT_H
#define MIGRATE_EXPORT_H

#include "migrate/place.h"

/* Who is told how far it is: after each page or batch, and at the end of a table. */
struct migrate_watch {
	void (*progress)(void *ctx, const char *what, struct bytes table, uint64_t rows, bool over);
	void *ctx;
};

struct export_order {
	const char *dir;  /* made if it is not there; has no manifest yet */
	const char *data; /* NULL, or the data directory whose key files are exported too (secrets.h) */
	const struct bytes *tables;
	uint32_t            count;
	bool                lenient; /* a table that is not there is left out */
	bool                gzip;
};

struct migrate_total {
	uint64_t tables, rows, expired; /* expired: left out of an import */
	bool     one_shard;             /* (5): the log of events that was imported has one */
};

enum err_code export_run(struct place *p, const struct export_order *o, const struct migrate_watch *watch,
                         struct migrate_total *total, struct err *err);

struct import_order {
	const char *dir;
	bool        into_existing; /* (3) */
	bool        check;         /* compares only: nothing is written */
};

/* ERR_INVALID: the export or the place is not as it should be, and nothing was written. ERR_CONDITION: a row is another one than in the
 * export. Anything else: it stopped on the way, and can be repeated with into_existing. */
enum err_code import_run(struct place *p, const struct import_order *o, const struct migrate_watch *watch,
                         struct migrate_total *total, struct err *err);

#endif
