/* See v1_write.h. */
#include "api/v1_write.h"

#include <time.h>

#include "service/row.h"

void v1_write_time(struct json_writer *w, struct bytes name, int64_t seconds)
{
	time_t    then = (time_t)seconds;
	struct tm utc;
	char      text[32];

	if (seconds <= 0 || gmtime_r(&then, &utc) == NULL)
		return;
	json_key(w, name);
	json_string(w, (struct bytes){text, strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc)});
}

static void write_lock(struct json_writer *w, const struct verdict_lock *v, int64_t now_us)
{
	struct key_parts p = key_split(v->sk);

	json_key(w, BYTES("lock"));
	json_begin_object(w);
	json_member_text(w, BYTES("journey"), p.journey);
	json_member_text(w, BYTES("name"), p.classifier);
	json_member_text(w, BYTES("qualifier"), p.qualifier);
	json_member_text(w, BYTES("kind"), v->block_type);
	v1_write_time(w, BYTES("until"), v->until_s);
	if (v->until_s > 0)
		json_member_i64(w, BYTES("retry_after"), clock_seconds_left(v->until_s, now_us));
	json_end_object(w);
}

void v1_write_verdict_wait(struct json_writer *w, const struct verdict *v, const struct verdict_wait *wait,
                           int64_t now_us)
{
	struct verdict_lock lock;

	json_member_text(w, BYTES("verdict"), bytes_of(verdict_words[v->kind].name));
	if (v->kind == VERDICT_ALLOW)
		return;
	lock = verdict_lock(v);
	json_member_text(w, BYTES("reason"), bytes_of(v->reason));
	v1_write_time(w, BYTES("until"), wait->until_s);
	if (wait->until_s > 0)
		json_member_i64(w, BYTES("retry_after"), wait->whole_seconds);
	if (lock.stands)
		write_lock(w, &lock, now_us);
}

void v1_write_verdict(struct json_writer *w, const struct verdict *v, int64_t now_us)
{
	struct verdict_wait wait = {0};

	if (v->kind != VERDICT_ALLOW)
		wait = verdict_wait(v, now_us);
	v1_write_verdict_wait(w, v, &wait, now_us);
}

void v1_write_degraded(const struct v1_call *c, struct json_writer *w)
{
	if (!c->ctx.degraded)
		return;
	json_member_bool(w, BYTES("degraded"), true);
	json_member_text(w, BYTES("warning"),
	                 BYTES("the tables do not answer: this was decided on what this server knew last"));
}

void v1_write_required(struct json_writer *w, const struct states_required *r)
{
	if (r->count > 0) {
		json_key(w, BYTES("required"));
		json_begin_array(w);
		for (uint32_t i = 0; i < r->count; i++)
			json_string(w, bytes_of(r->list[i]));
		json_end_array(w);
	}
	if (r->email_fraud_pending)
		json_member_bool(w, BYTES("email_fraud_pending"), true);
}

void v1_write_count(struct json_writer *w, const struct count_shown *shown, int64_t now_us)
{
	json_member_i64(w, BYTES("count"), shown->count);
	json_member_i64(w, BYTES("max"), shown->max);
	json_member_i64(w, BYTES("remaining"), shown->remaining);
	if (shown->ends_s > 0)
		json_member_i64(w, BYTES("expires_in"), clock_seconds_left(shown->ends_s, now_us));
	if (shown->of.len > 0)
		json_member_text(w, BYTES("of"), shown->of);
}

void v1_enforce_wait(struct v1_call *c, enum verdict_kind kind, const struct verdict_wait *wait)
{
	struct buf seconds;

	c->status = verdict_words[kind].status;
	if (wait->until_s == 0)
		return;
	buf_init(&seconds, c->ctx.arena);
	buf_add_i64(&seconds, wait->whole_seconds);
	v1_header(c, BYTES("Retry-After"), buf_bytes(&seconds));
}

void v1_enforce_verdict(struct v1_call *c, const struct verdict *v, int64_t now_us)
{
	struct verdict_wait wait = verdict_wait(v, now_us);

	v1_enforce_wait(c, v->kind, &wait);
}
