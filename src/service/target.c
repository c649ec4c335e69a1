/* Targets: see target.h. */
#include "service/target.h"

#include "base/cipher.h"
#include "base/crypto.h"
#include "json/base64.h"
#include "service/delivery.h"
#include "service/job.h"
#include "service/row.h"
#include "service/target_try.h"
#include "service/user.h"

/* ---- types ---- */

static const struct target_field webhook_fields[] = {
        {.name = "url", .bytes_max = 2048, .required = true, .place = true},
        {.name = TARGET_SECRET, .bytes_max = 128, .secret = true},
        {0}};

static const struct target_field eventbridge_fields[] = {
        {.name = "region", .bytes_max = 64},
        {.name = "bus", .bytes_max = 1600},
        {.name = "source", .bytes_max = 256},
        {.name = "endpoint", .bytes_max = 1024, .place = true},
        {.name = "accessKeyId", .bytes_max = 128},
        {.name = "secretAccessKey", .bytes_max = 128, .secret = true},
        {0}};

static const struct target_field sqs_fields[] = {
        {.name = "queueUrl", .bytes_max = 1024, .required = true, .place = true},
        {.name = "region", .bytes_max = 64},
        {.name = "endpoint", .bytes_max = 1024, .place = true},
        {.name = "accessKeyId", .bytes_max = 128},
        {.name = "secretAccessKey", .bytes_max = 128, .secret = true},
        {0}};

static const struct target_field nats_fields[] = {
        {.name = "url", .bytes_max = 300, .required = true, .place = true},
        {.name = "subject", .bytes_max = 200},
        {.name = "user", .bytes_max = 512},
        {.name = "password", .bytes_max = 512, .secret = true},
        {.name = "token", .bytes_max = 512, .secret = true},
        {.name = "seed", .bytes_max = 128, .secret = true},
        {.name = "credentials", .bytes_max = 8192, .secret = true},
        {0}};

const struct target_type target_types[] = {{"webhook", webhook_fields},
                                           {"eventbridge", eventbridge_fields},
                                           {"sqs", sqs_fields},
                                           {"nats", nats_fields}};
const unsigned           target_type_count = sizeof(target_types) / sizeof(target_types[0]);

const struct target_type *target_type_find(struct bytes name)
{
	for (unsigned i = 0; i < target_type_count; i++)
		if (bytes_is(name, target_types[i].name))
			return &target_types[i];
	return NULL;
}

bool target_name_is(struct bytes name)
{
	for (size_t i = 0; i < name.len; i++) {
		char c = name.data[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		      c == '-' || c == '_' || c == '.'))
			return false;
	}
	return name.len >= 1 && name.len <= TARGET_NAME_BYTES_MAX;
}

/* ---- secrets (2) ---- */

static void key_make(const struct services *s, struct cipher_key *out)
{
	cipher_key_make(&s->identifiers.hmac, BYTES("secrets of event targets"), out);
}

static struct bytes secret_about(struct arena *a, struct bytes id, struct bytes name)
{
	return arena_printf(a, "%.*s/%.*s", BYTES_ARG(id), BYTES_ARG(name));
}

static struct value secret_seal(const struct context *ctx, struct bytes id, struct bytes name,
                                struct bytes text)
{
	struct cipher_key key;
	struct buf        out;

	key_make(ctx->services, &key);
	buf_init(&out, ctx->arena);
	base64_encode(&out, cipher_seal(&key, ctx->arena, secret_about(ctx->arena, id, name), text));
	crypto_wipe(&key, sizeof(key));
	return value_string(buf_bytes(&out));
}

static bool secret_open(const struct context *ctx, const struct target *t, const char *name,
                        struct bytes *out)
{
	struct arena     *a = ctx->arena;
	struct cipher_key key;
	struct bytes      sealed;
	bool              good;

	if (base64_decode(a, row_text(&t->sealed, name), &sealed) != BASE64_OK)
		return false;
	key_make(ctx->services, &key);
	good = cipher_open(&key, a, secret_about(a, t->id, bytes_of(name)), sealed, out);
	crypto_wipe(&key, sizeof(key));
	return good;
}

enum err_code target_secret(const struct context *ctx, const struct target *t, const char *name,
                            struct bytes *out, struct err *err)
{
	*out = BYTES("");
	if (row_text(&t->sealed, name).len == 0)
		return ERR_NONE;
	if (!secret_open(ctx, t, name, out))
		return err_set(err, ERR_STORAGE,
		               "the target's secret `%s` cannot be decrypted: identifiers.key is another one "
		               "than when it was stored; set the secret again",
		               name);
	return ERR_NONE;
}

static struct bytes secret_make(const struct context *ctx)
{
	uint8_t    bits[TARGET_SECRET_BYTES];
	struct buf out;

	ctx->services->random(bits, sizeof(bits));
	buf_init(&out, ctx->arena);
	buf_add_bytes(&out, BYTES("whsec_"));
	base64_encode(&out, (struct bytes){(const char *)bits, sizeof(bits)});
	crypto_wipe(bits, sizeof(bits));
	return buf_bytes(&out);
}

/* ---- cursors as values ---- */

struct value cursor_value(struct arena *a, const struct event_cursor *c)
{
	struct value v = {.type = VALUE_L,
	                  .list = {arena_array(a, c->shards, sizeof(struct value)), c->shards}};

	for (uint32_t i = 0; i < c->shards; i++)
		v.list.items[i] = value_i64(c->after[i]);
	return v;
}

void cursor_of(const struct value *v, struct event_cursor *out)
{
	*out = (struct event_cursor){.shards = 1};
	if (v == NULL || v->type != VALUE_L)
		return;
	out->shards = v->list.count < EVENT_SHARDS_MAX ? v->list.count : EVENT_SHARDS_MAX;
	for (uint32_t i = 0; i < out->shards; i++)
		out->after[i] =
		        value_to_i64(&v->list.items[i], 0) > 0 ? value_to_i64(&v->list.items[i], 0) : 0;
}

/* ---- rows ---- */

static struct item map_of(const struct item *row, const char *name)
{
	const struct value *v = item_get(row, bytes_of(name));

	return v != NULL && v->type == VALUE_M ? v->map : (struct item){0};
}

static bool truth_of(const struct item *row, const char *name)
{
	const struct value *v = item_get(row, bytes_of(name));

	return v != NULL && v->type == VALUE_BOOL && v->truth;
}

static void patterns_of(struct arena *a, const struct item *row, struct target *out)
{
	const struct value *v = item_get(row, BYTES("types"));

	out->types = EVENTS_ALL_TYPES;
	if (v == NULL || v->type != VALUE_L || v->list.count == 0)
		return;
	out->types = 0;
	out->patterns = arena_array(a, v->list.count, sizeof(*out->patterns));
	for (uint32_t i = 0; i < v->list.count; i++) {
		out->patterns[out->pattern_count++] = value_text(&v->list.items[i]);
		out->types |= event_types_of(out->patterns[i]);
	}
}

static void errors_of(const struct item *row, struct target *out)
{
	const struct value *v = item_get(row, BYTES("errors"));

	for (uint32_t i = 0; v != NULL && v->type == VALUE_L && i < v->list.count && i < TARGET_ERRORS_MAX;
	     i++) {
		const struct item *e = &v->list.items[i].map;

		if (v->list.items[i].type == VALUE_M)
			out->errors[out->error_count++] =
			        (struct target_error){.at_s = row_i64(e, "at", 0),
			                              .status = row_i64(e, "status", 0),
			                              .error = row_text(e, "error"),
			                              .event = row_text(e, "event")};
	}
}

/* Somebody else may have written the row: what is out of its bounds is as if it were not there. */
static int64_t within(const struct item *row, const char *name, const int64_t usual_least_most[3])
{
	int64_t n = row_i64(row, name, usual_least_most[0]);

	return n >= usual_least_most[1] && n <= usual_least_most[2] ? n : usual_least_most[0];
}

struct target target_of(struct arena *a, const struct item *row)
{
	static const int64_t lanes[] = {TARGET_LANES, 1, TARGET_LANES_MAX};
	static const int64_t tries[] = {TARGET_TRIES, 1, TARGET_TRIES_MAX};
	static const int64_t disable[] = {TARGET_DISABLE_S, 1, TARGET_DISABLE_S_MAX};
	static const int64_t rate[] = {0, 1, TARGET_RATE_MAX}, call[] = {TARGET_CALL_S, 1, TARGET_CALL_S_MAX};
	static const int64_t count[] = {0, 0, INT64_C(1) << 53}, time[] = {0, 0, TARGET_TIME_S_MAX};

	struct target t = {.name = row_text(row, "SK"),
	                   .id = row_text(row, "id"),
	                   .type = target_type_find(row_text(row, "type")),
	                   .settings = map_of(row, "settings"),
	                   .sealed = map_of(row, "sealed"),
	                   .lanes = within(row, "lanes", lanes),
	                   .tries = within(row, "tries", tries),
	                   .disable_after_s = within(row, "disableAfter", disable),
	                   .rate = within(row, "rate", rate),
	                   .call_s = within(row, "timeout", call),
	                   .previous_until_s = within(row, "previousUntil", time),
	                   .enabled = truth_of(row, "enabled"),
	                   .reason = row_text(row, "disabledReason"),
	                   .created_at = row_text(row, "createdAt"),
	                   .updated_at = row_text(row, "updatedAt"),
	                   .version = row_i64(row, "version", 0),
	                   .seeks = within(row, "seeks", count),
	                   .sent = within(row, "sent", count),
	                   .waiting = within(row, "waiting", count),
	                   .dead = within(row, "dead", count),
	                   .skipped = within(row, "skipped", count),
	                   .success_s = within(row, "lastSuccess", time),
	                   .failing_s = within(row, "failingSince", time),
	                   .owner = row_text(row, "owner"),
	                   .owned_until_s = within(row, "ownedUntil", time),
	                   .row = *row};

	patterns_of(a, row, &t);
	t.headers = target_headers_of(a, row, &t.header_count);
	errors_of(row, &t);
	cursor_of(item_get(row, BYTES("after")), &t.after);
	return t;
}

enum err_code target_get(struct context *ctx, struct bytes name, struct target *out, struct err *err)
{
	struct looked row;
	enum err_code rc;

	looked_init(&row, BYTES(TARGET_PARTITION), name);
	rc = ctx_look_in(ctx, TABLE_EVENTS, &row, err);
	if (rc != ERR_NONE)
		return rc;
	if (!row.found)
		return err_field(err, ERR_NOT_FOUND, "name", "name: there is no such target");
	*out = target_of(ctx->arena, &row.item);
	return ERR_NONE;
}

enum err_code targets_all(struct context *ctx, struct targets *out, struct err *err)
{
	struct expr_key_condition key = row_prefix(BYTES(TARGET_PARTITION), BYTES(""));
	struct table_query        q = {.key = &key, .limit = TARGETS_MAX, .consistent = true};
	struct table_query_result r;

	*out = (struct targets){.list = arena_array(ctx->arena, TARGETS_MAX, sizeof(*out->list))};
	if (ctx_query_in(ctx, TABLE_EVENTS, &q, &r, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < r.count && i < TARGETS_MAX; i++)
		out->list[out->count++] = target_of(ctx->arena, &r.items[i]);
	return ERR_NONE;
}

/* ---- HEAD TARGETS ---- */

static enum err_code head_look(struct context *ctx, struct looked *out, struct err *err)
{
	looked_init(out, BYTES("HEAD"), BYTES("TARGETS"));
	return ctx_look_in(ctx, TABLE_EVENTS, out, err);
}

enum err_code targets_version(struct context *ctx, int64_t *out, struct err *err)
{
	struct looked head;

	if (head_look(ctx, &head, err) != ERR_NONE)
		return err->code;
	*out = head.found ? row_i64(&head.item, "version", 0) : 0;
	return ERR_NONE;
}

enum err_code targets_changed(struct context *ctx, int by, struct err *err)
{
	struct looked head;
	struct row    row;
	int64_t       count;

	if (head_look(ctx, &head, err) != ERR_NONE)
		return err->code;
	count = (head.found ? row_i64(&head.item, "count", 0) : 0) + by;
	if (by > 0 && count > TARGETS_MAX) /* (1) */
		return err_set(err, ERR_LIMIT,
		               "there are %d targets already, which is as many as there may be", TARGETS_MAX);
	row_init(&row, ctx->arena);
	row_set_text(&row, "PK", head.pk);
	row_set_text(&row, "SK", head.sk);
	row_set_i64(&row, "count", count);
	row_set_i64(&row, "version", (head.found ? row_i64(&head.item, "version", 0) : 0) + 1);
	ctx_put(ctx, TABLE_EVENTS, row_item(&row));
	return ERR_NONE;
}

/* (1) HEAD TARGETS moves with each that is created, so two that are created at once do not miss each other. */
static enum err_code share_check(struct context *ctx, struct err *err)
{
	uint32_t       most = ctx->services->targets_per_key, count = 0;
	struct targets all;

	if (most == 0 || bytes_is(ctx->caller, "-"))
		return ERR_NONE;
	if (targets_all(ctx, &all, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < all.count; i++)
		count += bytes_equal(row_text(&all.list[i].row, "createdBy"), ctx->caller);
	return count < most
	               ? ERR_NONE
	               : err_set(err, ERR_LIMIT,
	                         "this key has created %u targets, which is as many as one key may have; "
	                         "delete some, or raise the setting targets-per-key",
	                         count);
}

/* ---- changing ---- */

/* Everything that people change goes through here. */
static enum err_code target_write(struct context *ctx, struct row *row, int by, struct target *out,
                                  struct err *err)
{
	struct item item;

	row_set_text(row, "updatedAt", user_time(ctx->arena, ctx->now_us));
	item = row_item(row);
	row_from(row, ctx->arena, &item);
	row_set_i64(row, "version", row_i64(&item, "version", 0) + 1);
	if (targets_changed(ctx, by, err) != ERR_NONE)
		return err->code;
	item = row_item(row);
	ctx_put(ctx, TABLE_EVENTS, item);
	*out = target_of(ctx->arena, &item);
	return ERR_NONE;
}

static enum err_code begin_at(struct context *ctx, const struct target_new *q, struct event_cursor *out,
                              struct err *err)
{
	struct event_bounds bounds;
	enum err_code       rc;

	if (q->from == TARGET_FROM_TIME)
		return events_at_time(ctx, q->from_us, out, err);
	rc = events_bounds(ctx, &bounds, err);
	if (rc != ERR_NONE)
		return rc;
	if (q->from == TARGET_FROM_START)
		event_cursor_first(&bounds, out);
	else
		event_cursor_last(&bounds, out);
	return ERR_NONE;
}

static enum err_code row_begin(struct context *ctx, const struct target_new *q, struct row *row,
                               struct err *err)
{
	uint8_t             bits[TARGET_ID_CHARS / 2];
	char               *id = arena_alloc(ctx->arena, TARGET_ID_CHARS);
	struct event_cursor after;

	if (share_check(ctx, err) != ERR_NONE || begin_at(ctx, q, &after, err) != ERR_NONE)
		return err->code;
	ctx->services->random(bits, sizeof(bits));
	hex_write((struct bytes){(const char *)bits, sizeof(bits)}, id);
	row_init(row, ctx->arena);
	row_set_text(row, "PK", BYTES(TARGET_PARTITION));
	row_set_text(row, "SK", q->name);
	row_set_text(row, "id", (struct bytes){id, TARGET_ID_CHARS});
	row_set_text(row, "type", bytes_of(q->type->name));
	row_set_text(row, "createdAt", user_time(ctx->arena, ctx->now_us));
	row_set_text(row, "createdBy", ctx->caller);
	row_set(row, "after", cursor_value(ctx->arena, &after));
	row_set(row, "positions", cursor_value(ctx->arena, &after));
	return ERR_NONE;
}

static bool is_secret_of(const struct target_type *type, struct bytes name)
{
	for (const struct target_field *f = type->fields; f->name != NULL; f++)
		if (f->secret && bytes_is(name, f->name))
			return true;
	return false;
}

/* Is it listed without a value? */
static bool header_stays(const struct target_new *q, struct bytes sealed)
{
	for (uint32_t i = 0; i < q->header_count; i++) {
		const struct target_header *h = &q->headers[i];

		if (h->secret && h->value.len == 0 && target_header_seals(sealed, h->name))
			return true;
	}
	return false;
}

bool target_secret_stays(const struct target_new *q, struct bytes name)
{
	if (target_header_is_sealed(name))
		return header_stays(q, name);
	return q->secrets.count == 0 || (!is_secret_of(q->type, name) && !bytes_is(name, TARGET_PREVIOUS));
}

static bool header_is_stored(const struct item *sealed, const struct target_header *h)
{
	for (uint32_t i = 0; i < sealed->count; i++)
		if (target_header_seals(sealed->members[i].name, h->name))
			return true;
	return false;
}

/* What it is sent to changes. */
static const char *place_changed(const struct target_new *q, const struct item *before)
{
	for (const struct target_field *f = q->type->fields; f->name != NULL; f++)
		if (f->place && !bytes_equal(row_text(before, f->name), row_text(&q->settings, f->name)))
			return f->name;
	return NULL;
}

/* Secret headers that are to stay are there, and stay for their receiver. (5) */
static enum err_code headers_check(const struct target_new *q, const struct item *sealed, const char *moved,
                                   struct err *err)
{
	for (uint32_t i = 0; i < q->header_count; i++) {
		const struct target_header *h = &q->headers[i];

		if (!h->secret || h->value.len > 0)
			continue;
		if (moved != NULL)
			return err_field(
			        err, ERR_INVALID, "headers",
			        "headers: send the value of `%.*s` again, because `%s` changes: the stored "
			        "one is not used for another receiver",
			        BYTES_ARG(h->name), moved);
		if (!header_is_stored(sealed, h))
			return err_field(err, ERR_INVALID, "headers",
			                 "headers: `%.*s` needs a value: none is stored", BYTES_ARG(h->name));
	}
	return ERR_NONE;
}

/* (5) */
static enum err_code secrets_check(const struct target_new *q, const struct item *row, struct err *err)
{
	struct item before = map_of(row, "settings"), sealed = map_of(row, "sealed");
	const char *moved = place_changed(q, &before), *place = q->secrets.count > 0 ? NULL : moved;

	if (headers_check(q, &sealed, moved, err) != ERR_NONE)
		return err->code;
	for (const struct target_field *f = q->type->fields; place != NULL && f->name != NULL; f++)
		if (f->secret && row_text(&sealed, f->name).len > 0)
			return err_field(
			        err, ERR_INVALID, f->name,
			        "%s: send it again, or another one, because `%s` changes: the stored one "
			        "is not used for another receiver",
			        f->name, place);
	return ERR_NONE;
}

static struct item sealed_kept(struct context *ctx, const struct target_new *q, const struct item *row)
{
	struct item sealed = map_of(row, "sealed"), kept = sealed;

	for (uint32_t i = 0; i < sealed.count; i++)
		if (!target_secret_stays(q, sealed.members[i].name))
			kept = item_without(ctx->arena, &kept, sealed.members[i].name);
	return kept;
}

static struct item sealed_with(struct context *ctx, struct bytes id, struct item sealed,
                               const struct item *given)
{
	for (uint32_t i = 0; i < given->count; i++) {
		struct value v = secret_seal(ctx, id, given->members[i].name, given->members[i].value.text);

		sealed = item_with(ctx->arena, &sealed, given->members[i].name, &v);
	}
	return sealed;
}

static struct item sealed_with_headers(struct context *ctx, struct bytes id, struct item sealed,
                                       const struct target_new *q)
{
	for (uint32_t i = 0; i < q->header_count; i++) {
		struct bytes name = target_header_sealed(ctx->arena, q->headers[i].name);
		struct value v;

		if (!q->headers[i].secret || q->headers[i].value.len == 0)
			continue;
		v = secret_seal(ctx, id, name, q->headers[i].value);
		sealed = item_with(ctx->arena, &sealed, name, &v);
	}
	return sealed;
}

static struct value patterns_value(struct arena *a, const struct target_new *q)
{
	struct value v = {.type = VALUE_L,
	                  .list = {arena_array(a, q->pattern_count, sizeof(struct value)), q->pattern_count}};

	for (uint32_t i = 0; i < q->pattern_count; i++)
		v.list.items[i] = value_string(q->patterns[i]);
	return v;
}

static bool makes_secret(const struct target_new *q, const struct item *sealed)
{
	for (const struct target_field *f = q->type->fields; f->name != NULL; f++)
		if (strcmp(f->name, TARGET_SECRET) == 0)
			return row_text(sealed, TARGET_SECRET).len == 0;
	return false;
}

static void limits_into(const struct target_new *q, struct row *row)
{
	row_set_i64(row, "lanes", q->lanes);
	row_set_i64(row, "tries", q->tries);
	row_set_i64(row, "disableAfter", q->disable_after_s);
	row_remove(row, "rate");
	if (q->rate > 0)
		row_set_i64(row, "rate", q->rate);
	row_set_i64(row, "timeout", q->call_s > 0 ? q->call_s : TARGET_CALL_S);
}

static void row_fill(struct context *ctx, const struct target_new *q, struct row *row, struct bytes *secret)
{
	struct item so_far = row_item(row);
	struct item sealed = sealed_kept(ctx, q, &so_far);

	sealed = sealed_with(ctx, row_text(&so_far, "id"), sealed, &q->secrets);
	sealed = sealed_with_headers(ctx, row_text(&so_far, "id"), sealed, q);
	if (makes_secret(q, &sealed)) {
		struct value v;

		*secret = secret_make(ctx);
		v = secret_seal(ctx, row_text(&so_far, "id"), BYTES(TARGET_SECRET), *secret);
		sealed = item_with(ctx->arena, &sealed, BYTES(TARGET_SECRET), &v);
	}
	row_from(row, ctx->arena, &so_far);
	if (q->secrets.count > 0)
		row_remove(row, "previousUntil");
	row_set(row, "settings", (struct value){.type = VALUE_M, .map = q->settings});
	row_set(row, "sealed", (struct value){.type = VALUE_M, .map = sealed});
	row_remove(row, "types");
	if (q->pattern_count > 0)
		row_set(row, "types", patterns_value(ctx->arena, q));
	row_remove(row, "headers");
	if (q->header_count > 0)
		row_set(row, "headers", target_headers_value(ctx->arena, q->headers, q->header_count));
	limits_into(q, row);
}

static void row_switch(struct row *row, bool on, struct bytes reason)
{
	row_set(row, "enabled", value_bool(on));
	row_remove(row, "disabledReason");
	if (!on && reason.len > 0)
		row_set_text(row, "disabledReason", reason);
	if (on)
		row_remove(row, "failingSince");
}

enum err_code target_put(struct context *ctx, const struct target_new *q, struct target_put *out,
                         struct err *err)
{
	static const struct item none = {NULL, 0};
	struct looked            before;
	struct row               row;

	*out = (struct target_put){0};
	looked_init(&before, BYTES(TARGET_PARTITION), q->name);
	if (ctx_look_in(ctx, TABLE_EVENTS, &before, err) != ERR_NONE)
		return err->code;
	out->created = !before.found;
	if (before.found && !bytes_is(row_text(&before.item, "type"), q->type->name))
		return err_field(err, ERR_NOT_NOW, "type",
		                 "type: the target is of another type; delete it first, or use another name");
	if (before.found && q->from_given)
		return err_field(
		        err, ERR_NOT_NOW, "from",
		        "from: the target exists and keeps its place; leave `from` out, and move it with "
		        "POST /v1/targets/%.*s/seek",
		        BYTES_ARG(q->name));
	if ((before.found ? secrets_check(q, &before.item, err) : headers_check(q, &none, NULL, err)) !=
	    ERR_NONE)
		return err->code;
	if (before.found)
		row_from(&row, ctx->arena, &before.item);
	else if (row_begin(ctx, q, &row, err) != ERR_NONE)
		return err->code;
	row_fill(ctx, q, &row, &out->secret);
	if (out->created || truth_of(&before.item, "enabled") != q->enabled)
		row_switch(&row, q->enabled, BYTES(""));
	return target_write(ctx, &row, out->created, &out->target, err);
}

enum err_code target_delete(struct context *ctx, struct bytes name, struct err *err)
{
	struct target t;

	if (target_get(ctx, name, &t, err) != ERR_NONE || targets_changed(ctx, -1, err) != ERR_NONE)
		return err->code;
	ctx_delete(ctx, TABLE_EVENTS, row_key_two(ctx->arena, BYTES(TARGET_PARTITION), name));
	target_tries_delete(ctx, &t);
	return t.waiting > 0 || t.dead > 0 ? delivery_clean(ctx, &t, err) : ERR_NONE;
}

enum err_code target_switch(struct context *ctx, const struct target_switch *q, struct target *out,
                            struct err *err)
{
	struct row row;

	if (target_get(ctx, q->name, out, err) != ERR_NONE)
		return err->code;
	if (out->enabled == q->on)
		return ERR_NONE;
	row_from(&row, ctx->arena, &out->row);
	row_switch(&row, q->on, q->reason);
	return target_write(ctx, &row, 0, out, err);
}

enum err_code target_seek(struct context *ctx, const struct target_seek *q, struct target *out,
                          struct event_move *move, struct err *err)
{
	struct event_cursor kept = q->to, before;
	struct row          row;

	if (target_get(ctx, q->name, out, err) != ERR_NONE || events_check(ctx, &q->to, err) != ERR_NONE)
		return err->code;
	*move = event_cursor_move(&out->after, &out->after, &q->to);
	cursor_of(item_get(&out->row, BYTES("positions")), &before);
	event_cursor_hold_back(&kept, &before); /* (4): retry rows may need what is before */
	row_from(&row, ctx->arena, &out->row);
	row_set(&row, "after", cursor_value(ctx->arena, &q->to));
	row_set(&row, "positions", cursor_value(ctx->arena, &kept));
	row_set_i64(&row, "seeks", out->seeks + 1);
	return target_write(ctx, &row, 0, out, err);
}

enum err_code target_rotate(struct context *ctx, const struct target_rotate *q, struct target_put *out,
                            struct err *err)
{
	struct row   row;
	struct bytes old;
	struct value v;
	struct item  sealed;

	*out = (struct target_put){0};
	if (target_get(ctx, q->name, &out->target, err) != ERR_NONE ||
	    target_secret(ctx, &out->target, TARGET_SECRET, &old, err) != ERR_NONE)
		return err->code;
	if (old.len == 0)
		return err_field(err, ERR_NOT_NOW, "name", "name: this target has no secret that is rotated");
	if (q->secret.len == 0)
		out->secret = secret_make(ctx);
	sealed = out->target.sealed;
	v = secret_seal(ctx, out->target.id, BYTES(TARGET_PREVIOUS), old);
	sealed = item_with(ctx->arena, &sealed, BYTES(TARGET_PREVIOUS), &v);
	v = secret_seal(ctx, out->target.id, BYTES(TARGET_SECRET),
	                q->secret.len > 0 ? q->secret : out->secret);
	sealed = item_with(ctx->arena, &sealed, BYTES(TARGET_SECRET), &v);
	row_from(&row, ctx->arena, &out->target.row);
	row_set(&row, "sealed", (struct value){.type = VALUE_M, .map = sealed});
	row_set_i64(&row, "previousUntil", ctx->now_s + q->keep_s);
	return target_write(ctx, &row, 0, &out->target, err);
}
