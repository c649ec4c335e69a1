/* Provision: see provision.h. */
#include "remote/provision.h"

#include "remote/inspect.h"
#include "remote/schemas.h"
#include "remote/tables.h"

enum { PAUSE_FIRST_US = 20 * 1000, PAUSE_MOST_US = 1000 * 1000 };

/* One step under way. */
struct work {
	struct remote_session        s;
	struct arena                *a;
	const struct provision_step *step;
	const struct provision_wait *wait;
	int64_t                      began_us, pause_us;
};

static int64_t waited_us(const struct work *w)
{
	return clock_steady_us(w->s.remote->wire_clock) - w->began_us;
}

/* false: the time is up. */
static bool pause(struct work *w, struct bytes status)
{
	if (waited_us(w) + w->pause_us > w->wait->most_s * 1000000)
		return false;
	remote_sleep(w->pause_us);
	w->pause_us = w->pause_us * 2 < PAUSE_MOST_US ? w->pause_us * 2 : PAUSE_MOST_US;
	if (w->pause_us == PAUSE_MOST_US && w->wait->progress != NULL)
		w->wait->progress(w->wait->ctx, w->step->schema->name, status, waited_us(w) / 1000000);
	return true;
}

static bool is_settled(const struct client_table *t)
{
	const struct table_schema *schema = &t->description.schema;

	for (uint32_t i = 0; i < schema->index_count; i++)
		if (schema->indexes[i].status == INDEX_CREATING)
			return false;
	return bytes_is(t->status, "ACTIVE");
}

static enum err_code wait_until_settled(struct work *w, struct err *err)
{
	struct client_table t;

	for (;;) {
		if (remote_table_once(&w->s, w->a, w->step->schema->name, &t, err) != ERR_NONE)
			return remote_advise(&w->s, err);
		if (is_settled(&t))
			return ERR_NONE;
		if (!pause(w, t.status))
			return err_set(err, ERR_OVERLOADED,
			               "the table \"%.*s\" is still %.*s after %lld s, or fills an index: it "
			               "goes on by itself; run this again later",
			               BYTES_ARG(w->step->schema->name), BYTES_ARG(t.status),
			               (long long)w->wait->most_s);
	}
}

static enum err_code create_send(struct work *w, struct err *err)
{
	struct table_schema named = *w->step->schema;
	const struct json  *answer;
	struct ask          q;
	enum err_code       rc;

	named.name = remote_name(&w->s, w->a, named.name);
	client_create_table(ask_init(&q, "CreateTable", w->a, false), &named, w->step->kms_key);
	rc = ask_send(&w->s, &q, &answer, err);
	return rc == ERR_RESOURCE_IN_USE ? ERR_NONE : rc;
}

static enum err_code encryption_send(struct work *w, struct err *err)
{
	const struct json *answer;
	struct ask         q;

	client_update_encryption(ask_init(&q, "UpdateTable", w->a, false),
	                         remote_name(&w->s, w->a, w->step->schema->name), w->step->kms_key);
	return ask_send(&w->s, &q, &answer, err);
}

/* A table that was made a moment ago may not be ready for it. */
static enum err_code recovery_send(struct work *w, struct err *err)
{
	const struct json *answer;
	struct ask         q;
	enum err_code      rc;

	do {
		client_update_recovery(ask_init(&q, "UpdateContinuousBackups", w->a, true),
		                       remote_name(&w->s, w->a, w->step->schema->name));
		rc = ask_send(&w->s, &q, &answer, err);
	} while (rc != ERR_NONE && strcmp(w->s.told.type, "ContinuousBackupsUnavailableException") == 0 &&
	         pause(w, BYTES("not ready for recovery")));
	return rc;
}

static enum err_code step_send(struct work *w, struct err *err)
{
	switch (w->step->kind) {
	case PROVISION_BEGIN:
		return create_send(w, err);
	case PROVISION_WAIT:
		return ERR_NONE;
	case PROVISION_CHANGE:
		return remote_table_change(
		        &w->s, w->a,
		        &(struct table_alter){w->step->schema->name, w->step->changes, w->step->change_count},
		        err);
	case PROVISION_ENCRYPTION:
		return encryption_send(w, err);
	case PROVISION_RECOVERY:
		return recovery_send(w, err);
	}
	return ERR_NONE;
}

enum err_code remote_provision(struct remote *r, struct arena *a, const struct provision_step *step,
                               const struct provision_wait *wait, struct err *err)
{
	struct work   w = {.a = a,
	                   .step = step,
	                   .wait = wait,
	                   .began_us = clock_steady_us(r->wire_clock),
	                   .pause_us = PAUSE_FIRST_US};
	enum err_code rc;

	remote_session_init(&w.s, r, NULL, false);
	rc = step_send(&w, err);
	if (rc != ERR_NONE)
		remote_advise(&w.s, err);
	else if (step->kind != PROVISION_BEGIN)
		rc = wait_until_settled(&w, err);
	schemas_drop(r, step->schema->name);
	remote_session_release(&w.s);
	return rc;
}
