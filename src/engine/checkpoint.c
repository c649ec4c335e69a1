/* Checkpoint: see checkpoint.h. The place is a row of the store's own, which is in its files only together with
 * all that was put into it before. */
#include "engine/checkpoint.h"

#include "base/fault.h"
#include "engine/layout.h"

enum {
	LAG_DUE = 4,               /* segments */
	STORE_BYTES_DUE = 8 << 20, /* that the store took since the last one, or is to take */
};

#define META_JOURNAL "journal"

enum err_code checkpoint_place(struct rocks *r, struct journal_place *out, struct err *err)
{
	struct buf    key, value;
	enum err_code rc;
	bool          found;

	*out = (struct journal_place){0};
	buf_init(&key, NULL);
	buf_init(&value, NULL);
	layout_meta(&key, META_JOURNAL);
	rc = rocks_get(r, NULL, buf_bytes(&key), &value, &found, err);
	if (rc == ERR_NONE && found && value.len == sizeof(*out))
		memcpy(out, value.data, sizeof(*out));
	else if (rc == ERR_NONE && found)
		rc = err_set(err, ERR_STORAGE,
		             "the store's own record \"" META_JOURNAL "\" is damaged; run `gatehouse check`");
	buf_release(&key);
	buf_release(&value);
	return rc;
}

static enum err_code note_place(struct rocks *r, const struct journal_place *place, struct err *err)
{
	struct rocks_batch *batch = rocks_batch_open();
	struct buf          key;
	enum err_code       rc;

	buf_init(&key, NULL);
	layout_meta(&key, META_JOURNAL);
	rocks_batch_put(batch, buf_bytes(&key), (struct bytes){(const char *)place, sizeof(*place)});
	rc = rocks_apply(r, batch, err);
	rocks_batch_close(batch);
	buf_release(&key);
	return rc;
}

static enum err_code step_done(struct err *err)
{
	return fault_fires(FAULT_CHECKPOINT) ? err_set(err, ERR_STORAGE, "a fault was injected") : ERR_NONE;
}

/* Only what is in the files is taken off what makes one due: one that failed is due again at the next tick. */
static enum err_code advance(struct engine *e, const struct journal_place *to, struct err *err)
{
	size_t taken;

	if (settle_all(&e->settle, err) != ERR_NONE || step_done(err) != ERR_NONE)
		return err->code;
	taken = settle_taken_bytes(&e->settle);
	if (note_place(e->rocks, to, err) != ERR_NONE || step_done(err) != ERR_NONE ||
	    rocks_flush(e->rocks, err) != ERR_NONE || step_done(err) != ERR_NONE)
		return err->code;
	settle_taken_filed(&e->settle, taken);
	journal_drop_before(e->journal, to->segment);
	return ERR_NONE;
}

enum err_code checkpoint_run(struct engine *e, struct err *err)
{
	struct journal_place newest;
	enum err_code        rc = ERR_NONE;

	if (rocks_is_frozen(e->rocks)) /* it would not get far */
		return err_set(err, ERR_DISK_FULL, "the disk is full");
	pthread_mutex_lock(&e->checkpoint_lock);
	newest = journal_newest(e->journal);
	if (newest.segment != atomic_load(&e->checkpoint_segment))
		rc = advance(e, &newest, err);
	if (rc == ERR_NONE)
		atomic_store(&e->checkpoint_segment, newest.segment);
	pthread_mutex_unlock(&e->checkpoint_lock);
	return rc;
}

bool checkpoint_is_due(struct engine *e)
{
	uint64_t lag = checkpoint_lag(e);

	return lag >= LAG_DUE ||
	       (lag > 0 &&
	        settle_taken_bytes(&e->settle) + cache_unsettled_bytes(e->cache) >= STORE_BYTES_DUE);
}

uint64_t checkpoint_lag(struct engine *e)
{
	return journal_newest(e->journal).segment - atomic_load(&e->checkpoint_segment);
}
