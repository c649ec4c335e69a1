/* Engine clock: one row, eight bytes. */
#include "engine/clock.h"

#include "engine/layout.h"

enum { SAVE_EVERY_US = 1000000 };

#define META_CLOCK "clock"

void engine_clock_save(struct engine_clock *c, struct rocks_batch *batch, int64_t now_us)
{
	struct buf key;

	if (now_us - c->saved_us < SAVE_EVERY_US)
		return;
	buf_init(&key, NULL);
	layout_meta(&key, META_CLOCK);
	rocks_batch_put(batch, buf_bytes(&key), (struct bytes){(const char *)&now_us, sizeof(now_us)});
	buf_release(&key);
	c->saved_us = now_us;
}

enum err_code engine_clock_load(struct rocks *r, int64_t *now_us, struct err *err)
{
	struct buf key, value;
	bool       found;

	*now_us = 0;
	buf_init(&key, NULL);
	buf_init(&value, NULL);
	layout_meta(&key, META_CLOCK);
	err->code = ERR_NONE;
	if (rocks_get(r, NULL, buf_bytes(&key), &value, &found, err) == ERR_NONE && found) {
		if (value.len == sizeof(*now_us))
			memcpy(now_us, value.data, sizeof(*now_us));
		else
			err_set(err, ERR_STORAGE, "the stored clock is damaged");
	}
	buf_release(&key);
	buf_release(&value);
	return err->code;
}
