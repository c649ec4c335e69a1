/* Lock ending: how many locks that hold would end if other policies came into force. Only those whose type, journey or name
 * goes do (heed.h, 2), so most changes end none and read nothing.
 *
 * A table has no list of its locks: they are counted page by page. Work is bounded: a step reads one page, and all steps together
 * LOCKS_ENDING_EXAMINED_MAX rows. The count is exact up to LOCKS_ENDING_MAX. Beyond either bound it is what was found, and there
 * may be more. It changes nothing and is no ground for the commit: a lock that is set meanwhile ends with the others. */
#ifndef SERVICE_LOCK_ENDING_H
#define SERVICE_LOCK_ENDING_H

#include "service/context.h"
#include "service/document.h"

enum {
	LOCKS_ENDING_MAX = 1000,
	LOCKS_ENDING_EXAMINED_MAX = 1000000, /* rows, locks or not */
	LOCKS_ENDING_PAGE = 2000,            /* rows of a step */
	LOCKS_ENDING_KEY_MAX = 2048,         /* of one part of a key, as DynamoDB bounds it */
	LOCKS_ENDING_NAME_MAX = 160,
};

struct rules;

struct locks_ending {
	const struct rules *now, *next;
	bool                whole; /* it is counted: no further step */
	uint32_t            count;
	bool                more;                         /* than `count` */
	char                first[LOCKS_ENDING_NAME_MAX]; /* JOURNEY/NAME of the first that was found */
	bool                lost; /* that one only ends because it does not fit (heed.h, 3) */

	uint32_t examined, pk_bytes, sk_bytes; /* where the last step ended; pk_bytes 0: at the beginning */
	char     pk[LOCKS_ENDING_KEY_MAX], sk[LOCKS_ENDING_KEY_MAX];
};

/* Both must outlive it, and be rules. Whole at once if no lock can end. */
void locks_ending_init(struct locks_ending *e, const struct document *now, const struct document *next,
                       int64_t now_s);

/* Until it is whole. */
enum err_code locks_ending_step(struct context *ctx, struct locks_ending *e, struct err *err);

/* Would any end? Of a table that was not read to its end that is not known: then they do. */
bool locks_ending_any(const struct locks_ending *e);

/* ERR_LOCKS_END, with how many and what to do about it: "send …". */
enum err_code locks_ending_refuse(const struct locks_ending *e, const char *remedy, struct err *err);

#endif
