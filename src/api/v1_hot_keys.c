/* Hot keys: GET /v1/hot-keys: which partition keys take the most write units. */
#include "api/v1.h"
#include "api/v1_routes.h"
#include "service/hot_keys.h"

enum { MAX_DEFAULT = 20, MAX_MAX = 100 };

enum err_code hot_keys_decode(struct v1_call *c, struct err *err)
{
	uint64_t    *most = v1_request(c, sizeof(*most));
	struct bytes max;

	*most = MAX_DEFAULT;
	if (v1_query(c, "max", &max, err) != ERR_NONE)
		return err->code;
	if (max.data != NULL && (!bytes_to_u64(max, MAX_MAX, most) || *most == 0))
		return err_field(err, ERR_INVALID, "max", "?max: must be from 1 to %d", MAX_MAX);
	return ERR_NONE;
}

enum err_code hot_keys_run(struct v1_call *c, struct err *err)
{
	(void)c;
	(void)err;
	return ERR_NONE;
}

static void write_key(struct json_writer *w, const struct hot_key *key)
{
	json_begin_object(w);
	json_member_text(w, BYTES("table"), key->table);
	json_member_text(w, BYTES("key"), key->pk);
	json_member_text(w, BYTES("hash"), key->hash);
	json_member_i64(w, BYTES("units_per_second"), (int64_t)key->rate);
	json_member_i64(w, BYTES("units"), (int64_t)key->units);
	json_member_i64(w, BYTES("doubt"), (int64_t)key->doubt);
	json_end_object(w);
}

void hot_keys_encode(struct v1_call *c, struct json_writer *w)
{
	const uint64_t  *most = c->request;
	struct hot_keys *hot = c->ctx.services->hot_keys;
	struct hot_key   keys[MAX_MAX];
	unsigned         count =
                hot == NULL ? 0 : hot_keys_read(hot, c->ctx.arena, (unsigned)*most, c->ctx.now_us, keys);

	json_begin_object(w);
	json_member_i64(w, BYTES("warn_at"), hot == NULL ? 0 : (int64_t)hot_keys_warn_units(hot));
	json_name(w, BYTES("keys"));
	json_begin_array(w);
	for (unsigned i = 0; i < count; i++)
		write_key(w, &keys[i]);
	json_end_array(w);
	json_end_object(w);
}
