/* Disk: the data directory: made, locked, its format checked, its free space watched.
 *
 *   DIR/FORMAT     the layout's format, an id, and what must be there (base/directory.h)
 *   DIR/LOCK       held by the process that has it open
 *   DIR/ballast    bytes to give up when the disk is full, so that the store can still open
 *   DIR/journal/   every commit that the store's files may lack (journal.h)
 *   DIR/store/     the store's own files */
#ifndef ENGINE_DISK_H
#define ENGINE_DISK_H

#include "base/err.h"

struct engine;

/* Makes the directory if need be, locks it (*lock_fd stays open until close), checks its format and brings that up to date.
 * ERR_STORAGE if it has held data that is gone. On a full disk the ballast is given up for it: see disk_make_room. */
enum err_code disk_claim(const char *path, size_t reserve_bytes, int *lock_fd, struct err *err);

/* Locks a directory that is there, and checks its format; changes nothing. */
enum err_code disk_claim_existing(const char *path, int *lock_fd, struct err *err);

/* Has the file read from the disk the next time, not from memory, as far as the system goes along. */
void disk_forget(const char *path);

/* Before the journal is read: what is read back from its segments must be on the disk, not only in memory. */
enum err_code disk_sync_journal(const char *journal_path, struct err *err);

/* Before the store is opened: on a full disk, gives up the ballast. Is there little even so? */
bool disk_make_room(const char *path, size_t reserve_bytes);

/* Sets the engine's disk_full by the free space, and renews the ballast when there is room again. An engine that was opened
 * with no room at all is to start again then: it calls on_failure. */
void disk_watch(struct engine *e);

/* Something found no room: from now on nothing is written until disk_watch finds some. Any thread. */
void disk_is_full(void *engine);

#endif
