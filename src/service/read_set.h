/* Read set: what a decision rests on, and the transaction that is done only if all of it is still so. For change.c, which
 * says when; services and context.h know only change.h. */
#ifndef SERVICE_READ_SET_H
#define SERVICE_READ_SET_H

#include "service/change.h"

static inline const struct item *write_target(const struct table_write *w)
{
	return w->kind == TABLE_PUT ? &w->item : &w->key;
}

struct row_place place_of(const struct changes *c, const struct table_write *w);

/* Does whoever writes this row give its partition a new version? A reservation is alone in its partition, and always read by its key. */
bool moves_version(const struct row_place *p);

/* How many actions it adds to those of the list, at most: what will be written to is not known yet. */
uint32_t read_set_actions(const struct changes *c);

/* Was something read of that table? */
bool read_set_has(const struct changes *c, enum service_table which);

/* The transaction: the list with its conditions, checks of what was only read, and versions. */
struct transaction {
	struct changes     *c;
	struct table_write *actions;
	uint32_t            count;
	size_t              checked_bytes; /* a transaction is measured with what it looks at */
	char                token[TABLE_TOKEN_MAX];
};

void transaction_make(struct transaction *x, struct changes *c, int64_t now_us);

#endif
