/* Checkpoint: see checkpoint.h. The place is a row of the store's own, which is in its files only together with
 * all that was put into it before. */
#include "engine/checkpoint.h"

#include "engine/layout.h"

#define META_JOURNAL "journal"

enum err_code checkpoint_place(struct rocks *r, struct journal_place *out, struct err *err)
{
	struct buf key, value;
	bool       found;

	*out = (struct journal_place){0};
	buf_init(&key, NULL);
	buf_init(&value, NULL);
	layout_meta(&key, META_JOURNAL);
	err->code = ERR_NONE;
	if (rocks_get(r, NULL, buf_bytes(&key), &value, &found, err) == ERR_NONE && found) {
		if (value.len == sizeof(*out))
			memcpy(out, value.data, sizeof(*out));
		else
			err_set(err, ERR_STORAGE, "the place where the journal begins is damaged");
	}
	buf_release(&key);
	buf_release(&value);
	return err->code;
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

static enum err_code advance(struct engine *e, const struct journal_place *to, struct err *err)
{
	if (settle_all(&e->settle, err) != ERR_NONE || note_place(e->rocks, to, err) != ERR_NONE ||
	    rocks_flush(e->rocks, err) != ERR_NONE)
		return err->code;
	journal_drop_before(e->journal, to->segment);
	return ERR_NONE;
}

enum err_code checkpoint_run(struct engine *e, struct err *err)
{
	struct journal_place newest;
	enum err_code        rc = ERR_NONE;

	pthread_mutex_lock(&e->checkpoint_lock);
	newest = journal_newest(e->journal);
	if (newest.segment != atomic_load(&e->checkpoint_segment))
		rc = advance(e, &newest, err);
	if (rc == ERR_NONE)
		atomic_store(&e->checkpoint_segment, newest.segment);
	pthread_mutex_unlock(&e->checkpoint_lock);
	return rc;
}

uint64_t checkpoint_lag(struct engine *e)
{
	return journal_newest(e->journal).segment - atomic_load(&e->checkpoint_segment);
}
