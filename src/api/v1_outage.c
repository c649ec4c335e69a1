/* V1 without tables: see v1_outage.h. */
#include "api/v1_outage.h"

#include "service/outage.h"

static struct outage *outage_of(const struct v1_call *c)
{
	return c->who == NULL ? NULL : c->ctx.services->outage;
}

static void session_begin(const struct v1_call *c, const struct table *t, struct known_session *s)
{
	known_begin(s, outage_of(c)->known, &c->ctx.services->tables, t->now_us);
	s->source = c->who->source;
}

/* The subject was refused a moment ago: is it again, by what was read then? Then nothing is to be written, and nobody needs to be asked. A keyed
 * request may have been answered before, which only the table knows. */
bool v1_is_denied(struct v1_call *c, const struct table *t)
{
	struct outage       *o = outage_of(c);
	struct known_session s;
	struct err           err;

	if (o == NULL || c->once.key.len > 0 || c->who->subject_count == 0 ||
	    !known_denied(o->known, c->who->subjects[0], t->now_us))
		return false;
	session_begin(c, t, &s);
	s.since_us = t->now_us - known_denied_us(o->known);
	v1_reset(c, &s.base);
	if (c->route->run(c, &err) != ERR_NONE || !c->denies || s.unknown || c->ctx.changes.count > 0 ||
	    c->ctx.changes.events != NULL)
		return false;
	metric_add(&o->denied, 1);
	return true;
}

void v1_note_denied(const struct v1_call *c, const struct table *t)
{
	struct outage *o = outage_of(c);

	if (o != NULL && c->denies && !c->replayed && !c->ctx.degraded && c->who->subject_count > 0)
		known_deny(o->known, c->who->subjects[0], t->now_us);
}

/* Did it fail because nobody answered, and is nothing of it done? (outage.h, 2) */
bool v1_may_take_over(const struct v1_call *c, enum err_code rc)
{
	if (outage_of(c) == NULL || (rc != ERR_OVERLOADED && rc != ERR_THROTTLED && rc != ERR_STORAGE))
		return false;
	return !c->ctx.changes.unsure || (c->record != NULL && c->once.key.len > 0);
}

static enum err_code record(struct v1_call *c, struct outage *o, uint64_t *number, struct err *err)
{
	struct spooled s = {.at_us = c->ctx.now_us,
	                    .once = c->once,
	                    .status = c->kept.found ? c->kept.status : 200,
	                    .body = c->kept.body,
	                    .trace = c->ctx.trace};
	uint8_t        bits[SHA256_BYTES];
	char           name[SHA256_HEX_CHARS];

	c->record(c, &s);
	if (s.once.key.len == 0) { /* outage.h (1) */
		c->ctx.services->random(bits, sizeof(bits));
		hex_write((struct bytes){(const char *)bits, sizeof(bits)}, name);
		s.once.key = arena_copy(c->ctx.arena, (struct bytes){name, sizeof(name)});
		s.once.caller = BYTES(OUTAGE_CALLER);
	}
	return outage_record(o, c->ctx.arena, &s, number, err);
}

/* Under `turn`. Before anything is decided: what is remembered of an attempt that was then not recorded would be told to its repetition. */
static enum err_code check_room(const struct v1_call *c, struct outage *o, struct err *err)
{
	struct err why;

	if (spool_check_room(o->spool, SPOOL_RECORD_BYTES_MAX, &why) != ERR_NONE)
		err_set(err, ERR_OVERLOADED, "the tables do not answer, and %s; try again later", why.text);
	else if (outage_share_is_full(o, c->who))
		err_set(err, ERR_OVERLOADED,
		        "too many attempts of this subject wait for the tables; try again later");
	else
		return ERR_NONE;
	metric_add(&o->refused, 1);
	return err->code;
}

/* Decided as always, one at a time, on what is known. What it changes is durable before it is answered, also to a repetition that comes
 * meanwhile. From then on it only waits for the spool's flush, which others of its subject may share. */
static enum err_code run_recorded(struct v1_call *c, struct table *t, struct known_session *s,
                                  struct err *err)
{
	struct outage *o = outage_of(c);
	uint64_t       number = 0;
	enum err_code  rc;

	pthread_mutex_lock(&o->turn);
	v1_reset(c, &s->base);
	rc = check_room(c, o, err);
	if (rc == ERR_NONE)
		rc = v1_run_once(c, &s->base, err);
	if (rc == ERR_NONE && !c->replayed && c->changes_something)
		rc = record(c, o, &number, err);
	pthread_mutex_unlock(&o->turn);
	if (rc == ERR_NONE && c->replayed)
		return spool_sync_all(o->spool, err);
	if (rc != ERR_NONE || number == 0)
		return rc;
	if (t->backend->make_way != NULL)
		t->backend->make_way(t);
	return spool_sync(o->spool, number, err);
}

/* One that reads; or one that writes, of which nothing can be recorded: only a refusal, which changes nothing, is an answer then. */
static enum err_code run_looking(struct v1_call *c, struct known_session *s, struct err *err)
{
	v1_reset(c, &s->base);
	if (c->route->run(c, err) != ERR_NONE)
		return err->code;
	return c->ctx.changes.count == 0
	               ? ERR_NONE
	               : err_set(err, ERR_OVERLOADED,
	                         "the tables do not answer, and this needs them; try again later");
}

enum err_code v1_run_degraded(struct v1_call *c, struct table *t, struct err *err)
{
	struct outage       *o = outage_of(c);
	struct known_session s;
	enum err_code        rc;

	session_begin(c, t, &s);
	c->ctx.degraded = true;
	c->ctx.processes = o->processes;
	rc = c->call.kind == READ || c->record == NULL ? run_looking(c, &s, err)
	                                               : run_recorded(c, t, &s, err);
	if (rc == ERR_NONE)
		metric_add(&o->answers, 1);
	return rc;
}

/* Those who would only be refused at once, and subjects whose attempts wait to be merged. */
bool v1_is_out(const struct v1_call *c, const struct table *t)
{
	struct outage *o = outage_of(c);

	return o != NULL && t->backend != NULL &&
	       ((t->backend->out != NULL && t->backend->out(t)) || outage_holds(o, c->who));
}
