/* Subject: everything that is known of one, by one query: counts, locks, states, devices; and sums of counts
 * under a prefix of their keys. */
#ifndef SERVICE_SUBJECT_H
#define SERVICE_SUBJECT_H

#include "service/context.h"
#include "service/key_names.h"

enum { SUBJECT_ROWS_MAX = 1000 };

enum subject_row_kind { ROW_COUNT, ROW_LOCK, ROW_STATE, ROW_DEVICE, ROW_OTHER };

struct subject_row {
	enum subject_row_kind kind;
	struct bytes          sk;
	struct key_parts      key;
	struct item           item;
};

struct subject {
	struct bytes        id;
	struct subject_row *rows; /* in the order of their keys; expired ones are not there */
	uint32_t            count;
	bool                more; /* than SUBJECT_ROWS_MAX */
};

/* `prefix`: the first parts of the sort key, whole: "A#B" is a prefix of "A#B#c", not of "A#Bc". Empty: all. */
enum err_code subject_read(struct context *ctx, struct bytes id, struct bytes prefix, struct subject *out,
                           struct err *err);

/* "all MFA errors of this subject", "of this device": the sum of the counts that were read, with those that a lock
 * moved aside. */
int64_t subject_counts_sum(const struct subject *s);

#endif
