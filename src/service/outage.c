/* Outage: see outage.h. */
#include "service/outage.h"

#include <stdio.h>

#include "item/codec.h"
#include "service/account.h"
#include "service/erased.h"
#include "service/rules.h"

bool outage_holds(struct outage *o, const struct attempt *who)
{
	for (uint32_t i = 0; i < who->subject_count; i++)
		if (known_pins(o->known, who->subjects[i]) > 0)
			return true;
	return false;
}

bool outage_share_is_full(struct outage *o, const struct attempt *who)
{
	for (uint32_t i = 0; i < who->subject_count; i++)
		if (known_pins(o->known, who->subjects[i]) >= OUTAGE_SUBJECT_RECORDS)
			return true;
	return false;
}

/* What is known to stand against it counts for more. */
static bool refuse(const struct context *ctx, bool lacks, struct verdict *v)
{
	struct verdict refused = {
	        .kind = VERDICT_BLOCKED, .reason = OUTAGE_REASON, .until_s = ctx->now_s + OUTAGE_RETRY_S};

	if (!lacks || v->kind > VERDICT_CHALLENGE)
		return false;
	verdict_add(v, &refused);
	return true;
}

void outage_judge(const struct context *ctx, bool closed, struct verdict *v)
{
	refuse(ctx, closed && known_lacked(ctx->table), v);
}

bool outage_judge_token(const struct context *ctx, bool closed, struct verdict *v)
{
	return refuse(ctx, closed && known_is_old(ctx->table), v);
}

/* ---- records: an item, as tables have them ---- */

struct text_field {
	const char *name;
	size_t      at; /* of a struct bytes */
};

#define FIELD(name, member)                                                                                  \
	{                                                                                                    \
		name, offsetof(struct spooled, member)                                                       \
	}

static const struct text_field text_fields[] = {
        FIELD("journey", journey),
        FIELD("type", type),
        FIELD("method_id", q.method_id),
        FIELD("method_type", q.method_type),
        FIELD("notification_type", q.notification_type),
        FIELD("source", q.source),
        FIELD("network", q.network),
        FIELD("device", q.device),
        FIELD("device_of", q.device_of),
        FIELD("device_id", q.device_id),
        FIELD("key", once.key),
        FIELD("caller", once.caller),
        FIELD("body", body),
        FIELD("trace", trace),
};

struct flag_field {
	const char *name;
	size_t      at; /* of a bool */
};

static const struct flag_field flag_fields[] = {
        FIELD("source_allowed", q.source_allowed),     FIELD("source_spared", q.source_spared),
        FIELD("network_spared", q.network_spared),     FIELD("source_denied", q.source_denied),
        FIELD("challenge_passed", q.challenge_passed), FIELD("token_sent", q.token_sent),
};

enum {
	TEXTS = sizeof(text_fields) / sizeof(text_fields[0]),
	FLAGS = sizeof(flag_fields) / sizeof(flag_fields[0])
};

static void subject_name(char out[16], const char *what, uint32_t i)
{
	snprintf(out, 16, "%s%u", what, i);
}

static uint32_t named_of(const struct spooled *s)
{
	return s->named > 0 ? s->named : s->q.subject_count;
}

/* Addresses stay out: the user that one belongs to was looked up, or is not known. */
static void subjects_put(struct row *row, const struct spooled *s, struct arena *a)
{
	for (uint32_t i = 0; i < s->q.subject_count; i++) {
		char *name = arena_alloc(a, 16);

		subject_name(name, "subject", i);
		row_set_text(row, name, s->q.subjects[i]);
		if (i >= named_of(s) || s->q.users == NULL || s->q.users[i].len == 0)
			continue;
		name = arena_alloc(a, 16);
		subject_name(name, "user", i);
		row_set_text(row, name, s->q.users[i]);
	}
}

void spooled_encode(struct buf *out, const struct spooled *s)
{
	struct arena a;
	struct row   row;
	struct item  item;
	char         digest[SHA256_HEX_CHARS];

	arena_init(&a);
	row_init(&row, &a);
	for (size_t i = 0; i < TEXTS; i++) {
		const struct bytes *text = (const void *)((const char *)s + text_fields[i].at);

		if (text->len > 0)
			row_set_text(&row, text_fields[i].name, *text);
	}
	for (size_t i = 0; i < FLAGS; i++)
		if (*((const bool *)((const char *)s + flag_fields[i].at)))
			row_set_i64(&row, flag_fields[i].name, 1);
	subjects_put(&row, s, &a);
	hex_write((struct bytes){(const char *)s->once.digest, SHA256_BYTES}, digest);
	row_set_text(&row, "digest", (struct bytes){digest, sizeof(digest)});
	row_set_i64(&row, "outcome", s->outcome);
	row_set_i64(&row, "at", s->at_us);
	row_set_i64(&row, "status", s->status);
	row_set_i64(&row, "named", named_of(s));
	item = row_item(&row);
	item_encode(out, &item);
	arena_release(&a);
}

static bool subjects_read(struct arena *a, const struct item *item, struct spooled *out)
{
	char    name[16];
	int64_t named;

	out->q.users = arena_zalloc(a, SUBJECTS_MAX * sizeof(*out->q.users));
	for (uint32_t i = 0; i < PERSON_IDS_MAX; i++) {
		subject_name(name, "subject", i);
		out->q.subjects[i] = row_text(item, name);
		if (out->q.subjects[i].len == 0)
			break;
		out->q.subject_count++;
		subject_name(name, "user", i);
		if (i < SUBJECTS_MAX)
			out->q.users[i] = row_text(item, name);
	}
	named = row_i64(item, "named", out->q.subject_count); /* older records have no others */
	out->named = (uint32_t)named;
	return out->q.subject_count > 0 && named > 0 && named <= SUBJECTS_MAX &&
	       named <= out->q.subject_count;
}

static bool digest_read(struct bytes hex, uint8_t out[SHA256_BYTES])
{
	bool good = hex.len == SHA256_HEX_CHARS;

	for (size_t i = 0; good && i < SHA256_BYTES; i++) {
		int high = hex_digit(hex.data[2 * i]), low = hex_digit(hex.data[2 * i + 1]);

		good = high >= 0 && low >= 0;
		if (good)
			out[i] = (uint8_t)(high << 4 | low);
	}
	return good;
}

static enum err_code no_record(struct spooled *out, struct err *err)
{
	*out = (struct spooled){0}; /* nobody who is named in it was pinned */
	return err_set(err, ERR_STORAGE, "a record of the spool is not an attempt");
}

enum err_code spooled_decode(struct arena *a, struct bytes in, struct spooled *out, struct err *err)
{
	struct item  item;
	struct bytes digest;
	int64_t      outcome;

	*out = (struct spooled){0};
	if (item_decode(a, in, &item, err) != ERR_NONE)
		return err->code;
	for (size_t i = 0; i < TEXTS; i++)
		*(struct bytes *)(void *)((char *)out + text_fields[i].at) =
		        row_text(&item, text_fields[i].name);
	for (size_t i = 0; i < FLAGS; i++)
		*(bool *)((char *)out + flag_fields[i].at) = row_i64(&item, flag_fields[i].name, 0) == 1;
	digest = row_text(&item, "digest");
	outcome = row_i64(&item, "outcome", -1);
	out->at_us = row_i64(&item, "at", 0);
	out->status = (int)row_i64(&item, "status", 0);
	if (!subjects_read(a, &item, out) || outcome < OUTCOME_FAILURE || outcome > OUTCOME_SENT ||
	    out->at_us <= 0 || out->once.key.len == 0 || out->once.caller.len == 0 ||
	    !digest_read(digest, out->once.digest))
		return no_record(out, err);
	out->outcome = (enum outcome)outcome;
	out->once.about = out->q.subjects[0];
	return ERR_NONE;
}

/* ---- recording ---- */

/* A key that the caller chose, and not one of ours for the merge. */
static bool is_keyed(const struct spooled *s)
{
	return !bytes_is(s->once.caller, OUTAGE_CALLER);
}

/* Its subjects, and what it was answered: a repetition is told the same, however many others come meanwhile. */
static void pins(struct outage *o, const struct spooled *s, struct arena *a,
                 void (*pin)(struct known *k, enum service_table which, struct bytes pk))
{
	for (uint32_t i = 0; i < s->q.subject_count; i++)
		pin(o->known, TABLE_AUTH_STATE, s->q.subjects[i]);
	if (s->q.subject_count > 0 && is_keyed(s))
		pin(o->known, TABLE_IDEMPOTENCY, idempotency_key(&s->once, a));
}

/* (3) */
static uint32_t lines_of(const struct spooled *s)
{
	uint32_t lines = 0;

	for (uint32_t i = 0; i < s->q.subject_count; i++)
		lines |= (uint32_t)1 << hash_fnv(HASH_FNV, s->q.subjects[i]) % SPOOL_LINES;
	return lines;
}

enum err_code outage_record(struct outage *o, struct arena *a, const struct spooled *s, uint64_t *number,
                            struct err *err)
{
	struct spool_record record = {.lines = lines_of(s)};
	struct buf          bytes;

	buf_init(&bytes, a);
	spooled_encode(&bytes, s);
	record.bytes = buf_bytes(&bytes);
	pins(o, s, a, known_pin); /* first: once it is appended, others may flush, merge and unpin it */
	if (spool_append(o->spool, &record, number, err) != ERR_NONE) {
		pins(o, s, a, known_unpin);
		metric_add(&o->refused, 1);
		return err->code;
	}
	metric_add(&o->spooled, 1);
	return ERR_NONE;
}

/* ---- after a start ---- */

struct recalling {
	struct outage   *o;
	struct services *services;
};

/* As the call itself kept it, at its time. */
static void recall_answer(const struct recalling *r, struct arena *a, const struct spooled *s)
{
	struct context       ctx = {.services = r->services, .arena = a};
	struct known_session session;
	struct err           err;

	known_begin(&session, r->o->known, &r->services->tables, s->at_us);
	ctx_begin(&ctx, &session.base);
	idempotency_keep(&ctx, &s->once, s->status, s->body);
	changes_commit(&ctx.changes, &session.base, &err); /* into memory: it cannot fail */
}

static void recall_one(void *ctx, struct bytes record)
{
	struct recalling *r = ctx;
	struct arena      a;
	struct spooled    s;
	struct err        err;

	arena_init(&a);
	if (spooled_decode(&a, record, &s, &err) == ERR_NONE) {
		pins(r->o, &s, &a, known_pin);
		if (is_keyed(&s))
			recall_answer(r, &a, &s);
	}
	arena_release(&a);
}

void outage_recall(struct outage *o, struct services *services)
{
	spool_each(o->spool, recall_one, &(struct recalling){o, services});
}

int64_t outage_oldest_us(struct outage *o)
{
	struct arena   a;
	struct bytes   record;
	struct spooled s;
	struct err     err;
	int64_t        at_us = 0;

	arena_init(&a);
	if (spool_first(o->spool, &a, &record) && spooled_decode(&a, record, &s, &err) == ERR_NONE)
		at_us = s.at_us;
	arena_release(&a);
	return at_us;
}

/* ---- merging ---- */

/* (4) The session's time is the attempt's from here on, for what is read, decided and written. Passes of one decision stay one (foresight.h). */
static void time_set(struct context *ctx, int64_t at_us)
{
	int64_t now_s = ctx->now_s;

	if (at_us < ctx->table->now_us)
		ctx->table->now_us = at_us;
	ctx->late = true;
	ctx->now_us = ctx->table->now_us;
	ctx->now_s = ctx->now_us / 1000000;
	ctx_drop(ctx);
	ctx->late_s = now_s - ctx->now_s > ctx->late_s ? now_s - ctx->now_s : ctx->late_s;
	ctx->changes.late_s = ctx->late_s;
}

/* (4) Is it about somebody who was erased since, or is being erased? Of whoever was erased before it happened, what is known is too old. */
static enum err_code find_erased(struct context *ctx, struct bytes subject, bool *erased, bool *outdated,
                                 struct err *err)
{
	enum err_code  rc = identifier_is_hashed(subject) ? ERR_NONE : account_writable(ctx, subject, err);
	struct erasure erasure;

	*erased |= rc == ERR_NOT_NOW;
	if (rc != ERR_NONE && rc != ERR_NOT_NOW)
		return rc;
	rc = erased_find(ctx, subject, &erasure, err);
	if (rc != ERR_NONE)
		return rc;
	*erased |= erasure.since;
	*outdated = erasure.found;
	return ERR_NONE;
}

static enum err_code all_find_erased(struct context *ctx, struct attempt *q, bool *erased, struct err *err)
{
	bool outdated;

	*erased = false;
	for (uint32_t i = 0; i < q->subject_count; i++) {
		if (find_erased(ctx, q->subjects[i], erased, &outdated, err) != ERR_NONE)
			return err->code;
		if (q->users == NULL || q->users[i].len == 0)
			continue;
		if (find_erased(ctx, q->users[i], erased, &outdated, err) != ERR_NONE)
			return err->code;
		if (outdated)
			q->users[i] = (struct bytes){NULL, 0};
	}
	return ERR_NONE;
}

/* (1) */
static bool is_too_late(const struct context *ctx, const struct spooled *s)
{
	return ctx->late_s > (is_keyed(s) ? OUTAGE_KEYED_S : OUTAGE_MARK_S);
}

static enum err_code record_late(struct context *ctx, const struct spooled *s, struct attempt *q,
                                 enum spooled_end *end, struct err *err)
{
	struct idempotency    once = s->once;
	struct attempt_result result;

	if (attempt_record(ctx, q, s->outcome, &result, err) != ERR_NONE)
		return err->code;
	*end = result.verdict.kind == VERDICT_ALLOW || result.counted ? SPOOLED_MERGED : SPOOLED_VOID;
	once.mark_s = ctx->late_s + OUTAGE_MARK_S + 86400;
	idempotency_keep(ctx, &once, s->status, s->body);
	return ERR_NONE;
}

enum err_code outage_merge(struct context *ctx, const struct spooled *s, const struct rules *rules,
                           enum spooled_end *end, struct err *err)
{
	struct bytes       users[SUBJECTS_MAX];
	struct attempt     q = s->q;
	struct kept_answer kept;
	bool               erased;
	enum err_code      rc;

	time_set(ctx, s->at_us);
	*end = SPOOLED_VOID;
	q.subject_count = named_of(s); /* the rest is found again, as it is now */
	q.rules = rules;
	q.rule = rules_find(rules, s->journey, s->type, q.method_type);
	if (is_too_late(ctx, s))
		*end = SPOOLED_TOO_OLD;
	if (q.rule == NULL || *end == SPOOLED_TOO_OLD)
		return ERR_NONE;
	rc = idempotency_find(ctx, &s->once, &kept, err);
	if (rc ==
	    ERR_TOKEN_MISMATCH) /* the caller used the key for something else, elsewhere, which was done */
		return ERR_NONE;
	if (rc != ERR_NONE)
		return rc;
	if (q.users != NULL) { /* those that are outdated are left out */
		memcpy(users, q.users, q.subject_count * sizeof(*users));
		q.users = users;
	}
	if (all_find_erased(ctx, &q, &erased, err) != ERR_NONE)
		return err->code;
	*end = kept.found ? SPOOLED_FOUND : SPOOLED_VOID;
	if (kept.found || erased)
		return ERR_NONE;
	return record_late(ctx, s, &q, end, err);
}

void outage_merged(struct outage *o, uint64_t number, const struct spooled *s, enum spooled_end end)
{
	struct arena a;

	arena_init(&a);
	spool_done(o->spool, number);
	pins(o, s, &a, known_unpin);
	metric_add(end == SPOOLED_MERGED ? &o->merged : end == SPOOLED_FOUND ? &o->found : &o->void_, 1);
	arena_release(&a);
}
