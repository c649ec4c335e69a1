/* Erasers: every table that services own, and what is erased of it (erase.h, 3). */
#define _GNU_SOURCE
#include <assert.h>
#include <string.h>

#include "service/dead_letter.h"
#include "service/erase.h"
#include "service/event.h"
#include "service/idempotency.h"
#include "service/push.h"
#include "service/push_device.h"
#include "service/missing.h"
#include "service/row.h"
#include "service/user.h"

/* ---- auth-state: counts, locks, states, known devices under the id; begun attempts under names of their own ---- */

static enum err_code subject_rows(struct context *ctx, struct bytes user, struct err *err)
{
	return erase_rows(ctx, &(struct erase_partition){.table = TABLE_AUTH_STATE, .pk = user}, err);
}

static bool list_has(const struct erasing *e, const struct value *list)
{
	for (uint32_t i = 0; list != NULL && list->type == VALUE_L && i < list->list.count; i++)
		if (erase_is_handle(e, value_text(&list->list.items[i])))
			return true;
	return false;
}

/* Or what is left of a lock over several ids, if somebody else removed the user's own row of it. */
static bool owns_attempt(struct context *ctx, const struct erasing *e, const struct item *row)
{
	(void)ctx;
	return (bytes_starts_with(row_text(row, "PK"), BYTES("ATTEMPT#")) &&
	        list_has(e, item_get(row, BYTES("subjects")))) ||
	       list_has(e, item_get(row, BYTES("group")));
}

/* ---- users ---- */

static enum err_code user_rows(struct context *ctx, struct bytes user, struct err *err)
{
	return erase_rows(ctx,
	                  &(struct erase_partition){.table = TABLE_USERS,
	                                            .pk = user_key(ctx->arena, user),
	                                            .but = BYTES("PROFILE")},
	                  err);
}

/* One without its address: nobody else would free it. Or one that says whose an alias is (alias.h). */
static bool owns_marker(struct context *ctx, const struct erasing *e, const struct item *row)
{
	(void)ctx;
	return (bytes_is(row_text(row, "SK"), "MARKER") || bytes_is(row_text(row, "SK"), "OWNER")) &&
	       bytes_equal(row_text(row, "userId"), e->id);
}

/* ---- push devices, with their tokens and lanes ---- */

static enum err_code device_rows(struct context *ctx, struct bytes user, struct err *err)
{
	struct push_erased erased;

	return push_devices_erase(ctx, user, 0, &erased, err);
}

/* Markers of devices that somebody deleted without us, too. */
static bool owns_push_token(struct context *ctx, const struct erasing *e, const struct item *row)
{
	struct bytes pk = row_text(row, "PK");

	(void)ctx;
	return bytes_equal(row_text(row, "userId"), e->id) ||
	       (bytes_starts_with(pk, BYTES("USER#")) &&
	        bytes_equal((struct bytes){pk.data + 5, pk.len - 5}, e->id));
}

/* ---- rate-limits: the key of a limit ends with who is limited ---- */

static bool ends_with(struct bytes text, struct bytes end)
{
	return text.len >= end.len && memcmp(text.data + text.len - end.len, end.data, end.len) == 0;
}

static bool is_handle(const struct erasing *e, struct bytes text)
{
	for (uint32_t i = 0; i < e->handle_count; i++)
		if (bytes_equal(text, e->handles[i]))
			return true;
	return false;
}

/* An address or a number as it is, which others wrote, or a caller who sent it as a plain key: the user's if its hash is. A local part may
 * hold a '#', so that it may begin behind any. */
static bool names_person(struct context *ctx, const struct erasing *e, struct bytes pk)
{
	const struct identifier_key *k = &ctx->services->identifiers;

	for (size_t i = 0; i + 1 < pk.len && e->handle_count > 0; i++) {
		struct bytes rest = {pk.data + i + 1, pk.len - i - 1}, hash;
		const char  *looks = pk.data[i] == '#' ? identifier_looks_like(rest) : NULL;

		if (looks == NULL)
			continue;
		if ((identifier_hash(k, ctx->arena, IDENTIFIER_EMAIL, rest, &hash) && is_handle(e, hash)) ||
		    (identifier_hash(k, ctx->arena, IDENTIFIER_PHONE, rest, &hash) && is_handle(e, hash)))
			return true;
	}
	return false;
}

static bool owns_limit(struct context *ctx, const struct erasing *e, const struct item *row)
{
	struct bytes pk = row_text(row, "PK");

	if (ends_with(pk, arena_printf(ctx->arena, "#%.*s", BYTES_ARG(e->id))))
		return true;
	for (uint32_t i = 0; i < e->handle_count; i++)
		if (ends_with(pk, e->handles[i]))
			return true;
	return names_person(ctx, e, pk);
}

/* ---- kept answers ---- */

static bool owns_answer(struct context *ctx, const struct erasing *e, const struct item *row)
{
	struct bytes about = row_text(row, "about");
	struct bytes named = arena_printf(ctx->arena, "\"subject\":\"%.*s\"", BYTES_ARG(e->id));

	if (bytes_contains(row_text(row, "body"), named)) /* of several subjects */
		return true;
	if (about.len == 0)
		return false;
	if (bytes_equal(about, idempotency_about(ctx, e->id)))
		return true;
	for (uint32_t i = 0; i < e->handle_count; i++)
		if (bytes_equal(about, idempotency_about(ctx, e->handles[i])))
			return true;
	return false;
}

/* ---- jobs: lists of users, and of addresses by the ids of user and address ---- */

/* The id, or the id and what follows a slash; then *rest is that. */
static bool names_user(const struct erasing *e, struct bytes text, struct bytes *rest)
{
	*rest = (struct bytes){NULL, 0};
	if (!bytes_starts_with(text, e->id) || (text.len > e->id.len && text.data[e->id.len] != '/'))
		return false;
	*rest = (struct bytes){text.data + e->id.len, text.len - e->id.len};
	return true;
}

static bool list_names(const struct erasing *e, const struct value *list)
{
	struct bytes rest;

	for (uint32_t i = 0; list->type == VALUE_L && i < list->list.count; i++)
		if (names_user(e, value_text(&list->list.items[i]), &rest))
			return true;
	return false;
}

static const struct item *args_of(const struct item *row)
{
	static const struct item none = {NULL, 0};
	const struct value      *args = item_get(row, BYTES("args"));

	return args != NULL && args->type == VALUE_M ? &args->map : &none;
}

static bool owns_job(struct context *ctx, const struct erasing *e, const struct item *row)
{
	const struct item *args = args_of(row);

	(void)ctx;
	for (uint32_t i = 0; bytes_is(row_text(row, "PK"), "JOBS") && i < args->count; i++)
		if (list_names(e, &args->members[i].value))
			return true;
	return false;
}

/* As long as before: the job may run, and count what it has done. */
static struct value list_blank(struct context *ctx, const struct erasing *e, const struct value *list)
{
	struct value out = {.type = VALUE_L,
	                    .list = {arena_array(ctx->arena, list->list.count, sizeof(struct value)), 0}};

	for (uint32_t i = 0; i < list->list.count; i++) {
		struct bytes text = value_text(&list->list.items[i]), rest;

		if (names_user(e, text, &rest))
			text = arena_printf(ctx->arena, "%.*s%.*s", BYTES_ARG(e->hash), BYTES_ARG(rest));
		out.list.items[out.list.count++] = value_string(text);
	}
	return out;
}

static struct item job_blank(struct context *ctx, const struct erasing *e, const struct item *row)
{
	struct value args = {.type = VALUE_M, .map = *args_of(row)};
	struct row   blank;

	for (uint32_t i = 0; i < args.map.count; i++) {
		struct bytes name = args.map.members[i].name;
		struct value list = args.map.members[i].value;

		if (!list_names(e, &list))
			continue;
		list = list_blank(ctx, e, &list);
		args.map = item_with(ctx->arena, &args.map, name, &list);
	}
	row_from(&blank, ctx->arena, row);
	row_set(&blank, "args", args);
	return row_item(&blank);
}

/* ---- events (4) ---- */

/* Is it about somebody else, and names the user? A push token moved to it, or a lock was of both. */
static bool is_heir(const struct erasing *e, const struct item *row)
{
	const struct value *data = item_get(row, BYTES("data"));

	return data != NULL && data->type == VALUE_M &&
	       (bytes_equal(row_text(&data->map, "toUserId"), e->id) ||
	        list_has(e, item_get(&data->map, BYTES("otherSubjects"))));
}

/* What tells that a user was erased has no data, and is for those who have to erase theirs. */
static bool is_of(const struct erasing *e, const struct item *row)
{
	return bytes_starts_with(row_text(row, "PK"), BYTES("LOG#")) &&
	       !bytes_is(row_text(row, "type"), "user.erased") &&
	       (erase_is_handle(e, row_text(row, "subject")) || is_heir(e, row));
}

/* A dead letter of a target, or one that was redriven, has a copy of a row of the log. NULL: this has none. */
static const struct item *copy_of(const struct item *row)
{
	const struct value *copy = item_get(row, BYTES("event"));
	bool                can = bytes_starts_with(row_text(row, "PK"), BYTES("DEAD#")) ||
	           bytes_starts_with(row_text(row, "PK"), BYTES("TARGET#"));

	return can && copy != NULL && copy->type == VALUE_M ? &copy->map : NULL;
}

static bool owns_event(struct context *ctx, const struct erasing *e, const struct item *row)
{
	const struct item *copy = copy_of(row);

	(void)ctx;
	return is_of(e, row) || (copy != NULL && is_of(e, copy));
}

static struct value handles_blank(struct context *ctx, const struct erasing *e, const struct value *list)
{
	struct value out = {.type = VALUE_L,
	                    .list = {arena_array(ctx->arena, list->list.count, sizeof(struct value)), 0}};

	for (uint32_t i = 0; i < list->list.count; i++)
		out.list.items[out.list.count++] = erase_is_handle(e, value_text(&list->list.items[i]))
		                                           ? value_string(e->hash)
		                                           : list->list.items[i];
	return out;
}

/* Another's event stays as it is, but for the name. */
static struct item heir_blank(struct context *ctx, const struct erasing *e, const struct item *row)
{
	const struct value *data = item_get(row, BYTES("data"));
	struct value        hash = value_string(e->hash), left = {.type = VALUE_M, .map = data->map}, others;
	struct row          blank;

	if (bytes_equal(row_text(&data->map, "toUserId"), e->id))
		left.map = item_with(ctx->arena, &left.map, BYTES("toUserId"), &hash);
	if (list_has(e, item_get(&data->map, BYTES("otherSubjects")))) {
		others = handles_blank(ctx, e, item_get(&data->map, BYTES("otherSubjects")));
		left.map = item_with(ctx->arena, &left.map, BYTES("otherSubjects"), &others);
	}
	row_from(&blank, ctx->arena, row);
	row_set(&blank, "data", left);
	return row_item(&blank);
}

static struct item blank_of(struct context *ctx, const struct erasing *e, const struct item *row)
{
	struct row blank;

	if (!erase_is_handle(e, row_text(row, "subject")))
		return heir_blank(ctx, e, row);
	row_from(&blank, ctx->arena, row);
	row_set_text(&blank, "subject", e->hash);
	row_set(&blank, "erased", value_bool(true));
	row_remove(&blank, "data");
	row_remove(&blank, "datacontenttype");
	row_remove(&blank, "correlationid");
	return row_item(&blank);
}

static struct item event_blank(struct context *ctx, const struct erasing *e, const struct item *row)
{
	const struct item *copy = copy_of(row);
	struct value       left = {.type = VALUE_M};

	if (copy == NULL)
		return blank_of(ctx, e, row);
	left.map = blank_of(ctx, e, copy);
	return item_with(ctx->arena, row, BYTES("event"), &left);
}

/* The end of a lock is told by what keeps its subject, which goes with the lock. This is for rows that others left behind, and for locks
 * that are over and not told of yet. Under an address, what still holds may be its next owner's. */
static bool owns_due(struct context *ctx, const struct erasing *e, const struct item *row)
{
	struct bytes subject = row_text(row, "subject");

	if (!bytes_starts_with(row_text(row, "PK"), BYTES("DUE#")))
		return false;
	return list_has(e, item_get(row, BYTES("group"))) ||
	       (erase_is_handle(e, subject) &&
	        (bytes_equal(subject, e->id) || row_expired(row, "until", ctx->now_us)));
}

/* ---- outbox: what nobody has passed on yet is passed on no more, but that the user was erased. Another's event stays, without the name ---- */

static bool owns_outbox(struct context *ctx, const struct erasing *e, const struct item *row)
{
	(void)ctx;
	return !bytes_is(row_text(row, "eventType"), "user.erased") &&
	       erase_is_handle(e, row_text(row, "subject"));
}

static struct bytes heir_member(struct context *ctx, struct bytes id)
{
	return arena_printf(ctx->arena, "\"toUserId\":\"%.*s\"", BYTES_ARG(id));
}

/* The list of other subjects in a payload; empty: it has none. */
static struct bytes others_in(struct bytes payload)
{
	static const char begin[] = "\"otherSubjects\":[";
	const char       *at =
                payload.len == 0 ? NULL : memmem(payload.data, payload.len, begin, sizeof(begin) - 1);
	const char *end = at == NULL ? NULL : memchr(at, ']', payload.len - (size_t)(at - payload.data));

	return end == NULL ? (struct bytes){NULL, 0} : (struct bytes){at, (size_t)(end - at)};
}

/* One of the user's names in it, with its quotes. */
static bool other_in(struct context *ctx, const struct erasing *e, struct bytes payload, struct bytes *out)
{
	struct bytes list = others_in(payload);

	for (uint32_t i = 0; i <= e->handle_count; i++) {
		struct bytes id = i == 0 ? e->id : e->handles[i - 1];
		struct bytes quoted = arena_printf(ctx->arena, "\"%.*s\"", BYTES_ARG(id));
		const char  *at = list.len == 0 ? NULL : memmem(list.data, list.len, quoted.data, quoted.len);

		*out = (struct bytes){at, quoted.len};
		if (at != NULL)
			return true;
	}
	return false;
}

static bool owns_outbox_heir(struct context *ctx, const struct erasing *e, const struct item *row)
{
	struct bytes other;

	return bytes_contains(row_text(row, "payload"), heir_member(ctx, e->id)) ||
	       other_in(ctx, e, row_text(row, "payload"), &other);
}

static struct bytes text_with(struct context *ctx, struct bytes text, struct bytes part, struct bytes next)
{
	struct buf out;

	assert(text.data != NULL && part.data != NULL);
	buf_init(&out, ctx->arena);
	buf_add(&out, text.data, (size_t)(part.data - text.data));
	buf_add_bytes(&out, next);
	buf_add(&out, part.data + part.len, text.len - (size_t)(part.data - text.data) - part.len);
	return buf_bytes(&out);
}

/* An id has nothing that JSON escapes, so the member is there as it is. */
static struct item outbox_heir_blank(struct context *ctx, const struct erasing *e, const struct item *row)
{
	struct bytes payload = row_text(row, "payload"), member = heir_member(ctx, e->id), other;
	const char  *at = memmem(payload.data, payload.len, member.data, member.len);
	struct row   blank;

	if (at != NULL)
		payload = text_with(ctx, payload, (struct bytes){at, member.len}, heir_member(ctx, e->hash));
	while (other_in(ctx, e, payload, &other))
		payload = text_with(ctx, payload, other,
		                    arena_printf(ctx->arena, "\"%.*s\"", BYTES_ARG(e->hash)));
	row_from(&blank, ctx->arena, row);
	row_set_text(&blank, "payload", payload);
	return row_item(&blank);
}

/* ---- the lists: events come last, for erasing other rows tells of it ---- */

const struct eraser erasers[] = {
        {.table = TABLE_AUTH_STATE, .rows = subject_rows},
        {.table = TABLE_AUTH_STATE, .owns = owns_attempt},
        {.table = TABLE_USERS, .rows = user_rows},
        {.table = TABLE_USERS, .owns = owns_marker},
        {.table = TABLE_SYNC, .rows = dead_letters_erase},
        {.table = TABLE_SYNC, .rows = missing_erase},
        {.table = TABLE_DEVICES, .rows = device_rows},
        {.table = TABLE_PUSH_TOKENS, .owns = owns_push_token},
        {.table = TABLE_PUSH, .owns = push_owns, .blank = push_blank},
        {.table = TABLE_RATE_LIMITS, .owns = owns_limit},
        {.table = TABLE_IDEMPOTENCY, .owns = owns_answer},
        {.table = TABLE_JOBS, .owns = owns_job, .blank = job_blank},
        {.table = TABLE_EVENTS, .owns = owns_due},
        {.table = TABLE_OUTBOX, .owns = owns_outbox},
        {.table = TABLE_OUTBOX, .owns = owns_outbox_heir, .blank = outbox_heir_blank},
        {.table = TABLE_EVENTS, .owns = owns_event, .blank = event_blank},
};
const unsigned eraser_count = sizeof(erasers) / sizeof(erasers[0]);

const struct erase_exemption erase_exemptions[] = {
        {TABLE_SYNC, "SIGN_OUT",
         "the user is still signed in at its provider; the row goes once it is signed out there"},
        {TABLE_IDEMPOTENCY, "ERASED#…",
         "what happened before an erasure and arrives after it is dropped because of this row; it names the "
         "user by a keyed hash alone, and expires"},
        {TABLE_IDEMPOTENCY, "IDENTIFIERS_KEY",
         "it tells whether processes have one key, and is about nobody"},
        {TABLE_POLICIES, NULL, "policies are the operator's, and are about nobody"},
        {TABLE_REVOCATIONS, NULL,
         "the user's tokens stay revoked until they have expired; the rows hold the id and hashes "
         "of addresses alone, and expire with them"},
};
const unsigned erase_exemption_count = sizeof(erase_exemptions) / sizeof(erase_exemptions[0]);
