/* Fault: places where a test can make the outside world fail. Nothing fires unless a test armed it: by
 * calling fault_arm, or by starting the server with the hidden option --fault NAME:N,NAME:N:TIMES. */
#ifndef BASE_FAULT_H
#define BASE_FAULT_H

#include <stdbool.h>

/* X(id, name): one a place. */
#define FAULT_POINTS(X)                                                                                      \
	X(FAULT_COMMIT, "commit")         /* the commit of a batch fails: outcome unknown */                 \
	X(FAULT_NO_ROOM, "no-room")       /* the journal has no room for a commit, which is put off */       \
	X(FAULT_DISK_FULL, "disk-full")   /* free space reads as zero */                                     \
	X(FAULT_CHECKPOINT, "checkpoint") /* a checkpoint ends after one of its four steps */                \
	X(FAULT_SALVAGE, "salvage")       /* a salvage ends before it mends the store */                     \
	X(FAULT_STORE_FULL, "store-full") /* a write of the store's files finds no room */                   \
	X(FAULT_THREAD, "thread")         /* a worker gets no thread */                                      \
	X(FAULT_STOP, "stop")             /* a worker is told to end its round */                            \
	X(FAULT_AIO_FAILS, "aio-fails")   /* a write to the journal fails; large commits only (aio.h) */     \
	X(FAULT_SYNC, "sync")             /* a record of an identity provider is throttled */                \
	X(FAULT_CHECK, "check")           /* … the engine checks all that it says is absent (engine.h) */  \
	X(FAULT_APPLY, "apply")           /* the store does not take rows or entries */                      \
	X(FAULT_SPOOL, "spool")           /* a flush of the spool fails halfway */                           \
	X(FAULT_AIO_SHORT, "aio-short")   /* … writes half of what it should */

enum fault_point {
#define X(id, name) id,
	FAULT_POINTS(X)
#undef X
	        FAULT_COUNT
};

/* Lets the point pass `after` times, then fires at every visit until disarmed. */
void fault_arm(enum fault_point point, long after);
void fault_disarm(enum fault_point point);

/* "commit:5,check,sync:0:2": after how many visits, and how often it then fires; 0 and always unless said. False if there is no
 * such point. */
bool fault_parse(const char *list);

bool fault_fires(enum fault_point point);

#endif
