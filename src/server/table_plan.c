/* Table plan: see table_plan.h. */
#include "server/table_plan.h"

#include <assert.h>

#include "server/services.h"

/* ---- texts ---- */

static const char *type_text(enum value_type type)
{
	return type == VALUE_S ? "text" : type == VALUE_N ? "number" : "binary";
}

const char *plan_keys_text(struct arena *a, const struct key_schema *keys)
{
	if (keys->range.name.len == 0)
		return arena_printf(a, "%.*s (%s)", BYTES_ARG(keys->hash.name), type_text(keys->hash.type))
		        .data;
	return arena_printf(a, "%.*s (%s) and %.*s (%s)", BYTES_ARG(keys->hash.name),
	                    type_text(keys->hash.type), BYTES_ARG(keys->range.name),
	                    type_text(keys->range.type))
	        .data;
}

const char *plan_billing_text(struct arena *a, const struct table_schema *s)
{
	if (s->on_demand)
		return "on demand";
	return arena_printf(a, "provisioned, %lld read and %lld write units per second",
	                    (long long)s->read_units, (long long)s->write_units)
	        .data;
}

static const char *projection_text(struct arena *a, const struct index_schema *index)
{
	struct buf out;

	if (index->projection != PROJECT_INCLUDE)
		return index->projection == PROJECT_ALL ? "whole rows" : "keys only";
	buf_init(&out, a);
	buf_add_bytes(&out, BYTES("keys and "));
	for (uint32_t i = 0; i < index->include_count; i++)
		buf_add_bytes(&out,
		              arena_printf(a, "%s%.*s", i > 0 ? ", " : "", BYTES_ARG(index->include[i])));
	buf_add_byte(&out, '\0');
	return out.data;
}

static const char *index_text(struct arena *a, const struct index_schema *index)
{
	return arena_printf(a, "by %s, %s", plan_keys_text(a, &index->keys), projection_text(a, index)).data;
}

static const char *tags_text(struct arena *a, const struct tag *tags, uint32_t count)
{
	struct buf out;

	if (count == 0)
		return "none";
	buf_init(&out, a);
	for (uint32_t i = 0; i < count; i++)
		buf_add_bytes(&out, arena_printf(a, "%s%.*s=%.*s", i > 0 ? "," : "", BYTES_ARG(tags[i].key),
		                                 BYTES_ARG(tags[i].value)));
	buf_add_byte(&out, '\0');
	return out.data;
}

/* ---- differences ---- */

static struct plan_difference *differ(struct plan_table *t, const char *what, const char *there,
                                      const char *wanted)
{
	struct plan_difference *d;

	assert(t->count < PLAN_DIFFERENCES_MAX);
	d = &t->differences[t->count++];
	*d = (struct plan_difference){.what = what, .there = there, .wanted = wanted};
	d->step.schema = &t->wanted;
	return d;
}

/* A change that `tables create` makes. */
static struct table_change *change_of(struct plan_difference *d, struct arena *a, uint32_t count)
{
	struct table_change *changes = arena_zalloc(a, count * sizeof(*changes));

	d->step.kind = PROVISION_CHANGE;
	d->step.changes = changes;
	d->step.change_count = count;
	return changes;
}

static void note(const char **notes, uint32_t *count, const char *text)
{
	for (uint32_t i = 0; i < *count; i++)
		if (strcmp(notes[i], text) == 0)
			return;
	if (*count < PLAN_NOTES_MAX)
		notes[(*count)++] = text;
}

static bool key_equal(const struct key_attribute *a, const struct key_attribute *b)
{
	return bytes_equal(a->name, b->name) && (a->name.len == 0 || a->type == b->type);
}

static bool keys_equal(const struct key_schema *a, const struct key_schema *b)
{
	return key_equal(&a->hash, &b->hash) && key_equal(&a->range, &b->range);
}

static void keys_compare(struct table_plan *p, struct plan_table *t)
{
	const struct key_schema *there = &t->state.there.schema.keys;

	if (keys_equal(there, &t->wanted.keys))
		return;
	differ(t, "keys", plan_keys_text(p->arena, there), plan_keys_text(p->arena, &t->wanted.keys))
	        ->by_hand = "keys cannot be changed, and this table may be somebody else's: choose another "
	                    "name for it here "
	                    "(--table-…) or another --table-prefix, or delete it if nobody needs it";
}

static const char *ttl_text(struct arena *a, struct bytes attribute)
{
	return attribute.len == 0 ? "off"
	                          : arena_printf(a, "on, by the attribute %.*s", BYTES_ARG(attribute)).data;
}

static void ttl_compare(struct table_plan *p, struct plan_table *t)
{
	struct bytes            there = t->state.there.schema.ttl_attribute, wanted = t->wanted.ttl_attribute;
	struct plan_difference *d;
	struct table_change    *change;

	if (bytes_equal(there, wanted))
		return;
	d = differ(t, "time to live", ttl_text(p->arena, there), ttl_text(p->arena, wanted));
	if (there.len > 0 && wanted.len > 0)
		d->by_hand = "turn it off (aws dynamodb update-time-to-live), wait an hour, as DynamoDB "
		             "demands, and "
		             "run `gatehouse tables create`";
	else if (there.len > 0)
		d->by_hand =
		        "rows of this table never expire: turn it off (aws dynamodb update-time-to-live)";
	if (d->by_hand != NULL)
		return;
	change = change_of(d, p->arena, 1);
	change->kind = CHANGE_TTL;
	change->ttl_attribute = wanted;
}

static bool projection_equal(const struct index_schema *a, const struct index_schema *b)
{
	uint32_t found = 0;

	for (uint32_t i = 0; i < a->include_count; i++)
		for (uint32_t k = 0; k < b->include_count; k++)
			found += bytes_equal(a->include[i], b->include[k]);
	return a->projection == b->projection && a->include_count == b->include_count &&
	       found == a->include_count;
}

static void index_compare(struct table_plan *p, struct plan_table *t, const struct index_schema *wanted)
{
	const struct index_schema *there = schema_index(&t->state.there.schema, wanted->name);
	const char                *what = arena_printf(p->arena, "index %.*s", BYTES_ARG(wanted->name)).data;
	struct plan_difference    *d;
	struct table_change       *change;

	if (there != NULL && keys_equal(&there->keys, &wanted->keys) && projection_equal(there, wanted))
		return;
	d = differ(t, what, there == NULL ? "missing" : index_text(p->arena, there),
	           index_text(p->arena, wanted));
	if (there != NULL) {
		d->by_hand =
		        "an index cannot be changed: delete it (aws dynamodb update-table), which loses no "
		        "rows, and run `gatehouse tables create`";
		return;
	}
	change = change_of(d, p->arena, 1);
	change->kind = CHANGE_CREATE_INDEX;
	change->index = *wanted;
	if (p->settings.billing_said) /* which is changed first */
		return;
	if (!t->state.there.schema.on_demand)
		change->index.read_units = change->index.write_units = TABLE_UNITS_DEFAULT;
}

static void indexes_compare(struct table_plan *p, struct plan_table *t)
{
	const struct table_schema *there = &t->state.there.schema;

	for (uint32_t i = 0; i < t->wanted.index_count; i++)
		index_compare(p, t, &t->wanted.indexes[i]);
	for (uint32_t i = 0; i < there->index_count; i++)
		if (schema_index(&t->wanted, there->indexes[i].name) == NULL)
			note(t->notes, &t->note_count,
			     arena_printf(p->arena,
			                  "has the index %.*s, which Gatehouse does not use as it is set up",
			                  BYTES_ARG(there->indexes[i].name))
			             .data);
}

static bool units_equal(int64_t read_a, int64_t write_a, int64_t read_b, int64_t write_b)
{
	return read_a == read_b && write_a == write_b;
}

/* Indexes that are there and have other units; with `changes`, as changes. */
static uint32_t index_units(const struct plan_table *t, struct table_change *changes)
{
	const struct table_schema *there = &t->state.there.schema;
	uint32_t                   count = 0;

	for (uint32_t i = 0; i < t->wanted.index_count && !t->wanted.on_demand; i++) {
		const struct index_schema *w = &t->wanted.indexes[i], *is = schema_index(there, w->name);

		if (is == NULL || units_equal(w->read_units, w->write_units, is->read_units, is->write_units))
			continue;
		if (changes != NULL)
			changes[count] = (struct table_change){.kind = CHANGE_INDEX_UNITS,
			                                       .index = *w,
			                                       .read_units = w->read_units,
			                                       .write_units = w->write_units};
		count++;
	}
	return count;
}

/* A table and its indexes change together; DynamoDB refuses a change that changes nothing. */
static void billing_compare(struct table_plan *p, struct plan_table *t)
{
	const struct table_schema *there = &t->state.there.schema, *w = &t->wanted;
	bool                       table = there->on_demand != w->on_demand ||
	             (!w->on_demand &&
	              !units_equal(there->read_units, there->write_units, w->read_units, w->write_units));
	uint32_t             indexes = index_units(t, NULL), at = 0;
	struct table_change *changes;

	if (!p->settings.billing_said || (!table && indexes == 0))
		return;
	changes = change_of(differ(t, "billing",
	                           table ? plan_billing_text(p->arena, there) : "an index with other units",
	                           plan_billing_text(p->arena, w)),
	                    p->arena, indexes + 1);
	if (table)
		changes[at++] = (struct table_change){.kind = CHANGE_BILLING,
		                                      .on_demand = w->on_demand,
		                                      .read_units = w->read_units,
		                                      .write_units = w->write_units};
	index_units(t, changes + at);
	t->differences[t->count - 1].step.change_count = at + indexes;
}

#define NO_RECOVERY "this endpoint has no point-in-time recovery"
#define NO_TAGS     "this endpoint has no tags"

static void recovery_compare(struct table_plan *p, struct plan_table *t)
{
	struct plan_difference *d;

	if (t->state.recovery_told != TOLD && !p->settings.recovery)
		note(p->notes, &p->note_count,
		     t->state.recovery_told == TOLD_UNKNOWN
		             ? NO_RECOVERY ": not checked"
		             : "these credentials may not call DescribeContinuousBackups: point-in-time "
		               "recovery not "
		               "checked");
	if (!p->settings.recovery || (t->state.recovery_told == TOLD && t->state.recovery))
		return;
	d = differ(t, "point-in-time recovery",
	           t->state.recovery_told == TOLD           ? "off"
	           : t->state.recovery_told == TOLD_UNKNOWN ? NO_RECOVERY
	                                                    : "not told: these credentials may not ask",
	           "on");
	d->step.kind = PROVISION_RECOVERY;
	if (t->state.recovery_told == TOLD_UNKNOWN)
		d->by_hand = "leave out --table-recovery for this endpoint";
}

static void encryption_compare(struct table_plan *p, struct plan_table *t)
{
	struct bytes            there = t->state.kms_key, wanted = p->settings.kms_key;
	struct plan_difference *d;

	if (wanted.len == 0 || bytes_equal(there, wanted))
		return;
	d = differ(t, "encryption",
	           there.len == 0 ? "with a key that the endpoint owns"
	                          : arena_printf(p->arena, "with %.*s", BYTES_ARG(there)).data,
	           arena_printf(p->arena, "with %.*s", BYTES_ARG(wanted)).data);
	d->step.kind = PROVISION_ENCRYPTION;
	d->step.kms_key = wanted;
}

static void protection_compare(struct table_plan *p, struct plan_table *t)
{
	struct table_change *change;

	if (!p->settings.protection || t->state.there.schema.deletion_protected)
		return;
	change = change_of(differ(t, "deletion protection", "off", "on"), p->arena, 1);
	change->kind = CHANGE_PROTECTION;
	change->deletion_protected = true;
}

static bool has_tag(const struct table_schema *s, const struct tag *tag)
{
	for (uint32_t i = 0; i < s->tag_count; i++)
		if (bytes_equal(s->tags[i].key, tag->key))
			return bytes_equal(s->tags[i].value, tag->value);
	return false;
}

/* Tags beside those that are wanted are nobody's business. */
static void tags_compare(struct table_plan *p, struct plan_table *t)
{
	const struct table_schema *there = &t->state.there.schema;
	struct tag                *missing = arena_array(p->arena, t->wanted.tag_count + 1, sizeof(*missing));
	uint32_t                   count = 0;
	struct plan_difference    *d;
	struct table_change       *change;

	for (uint32_t i = 0; i < t->wanted.tag_count; i++)
		if (!has_tag(there, &t->wanted.tags[i]))
			missing[count++] = t->wanted.tags[i];
	if (count == 0)
		return;
	d = differ(t, "tags",
	           t->state.tags_told == TOLD           ? tags_text(p->arena, there->tags, there->tag_count)
	           : t->state.tags_told == TOLD_UNKNOWN ? NO_TAGS
	                                                : "not told: these credentials may not ask",
	           tags_text(p->arena, missing, count));
	if (t->state.tags_told == TOLD_UNKNOWN)
		d->by_hand = "leave out --table-tags for this endpoint";
	change = change_of(d, p->arena, 1);
	*change = (struct table_change){.kind = CHANGE_TAGS_ADD, .tags = missing, .tag_count = count};
}

static void compare(struct table_plan *p, struct plan_table *t)
{
	static void (*const all[])(struct table_plan *, struct plan_table *) = {
	        keys_compare,     ttl_compare,        billing_compare,    indexes_compare,
	        recovery_compare, encryption_compare, protection_compare, tags_compare};

	t->count = t->note_count = 0;
	if (!bytes_is(t->state.status, "ACTIVE"))
		note(t->notes, &t->note_count,
		     arena_printf(p->arena, "is %.*s now: look again later", BYTES_ARG(t->state.status))
		             .data);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		all[i](p, t);
}

/* ---- looking ---- */

void table_plan_init(struct table_plan *p, const struct serve_options *options,
                     const struct table_settings *settings, struct arena *a)
{
	struct service_tables tables = services_tables(options);
	const char           *prefix = options->table_prefix == NULL ? "" : options->table_prefix;

	*p = (struct table_plan){.arena = a, .settings = *settings};
	for (int i = 0; i < SERVICE_TABLE_COUNT; i++) {
		struct plan_table *t = &p->tables[i];

		t->which = (enum service_table)i;
		t->name = arena_printf(a, "%s%.*s", prefix, BYTES_ARG(tables.names[i]));
		t->wanted = table_settings_schema(settings, &tables, t->which, a);
	}
}

enum err_code table_plan_look(struct table_plan *p, struct endpoint *e, struct err *err)
{
	p->note_count = 0;
	for (int i = 0; i < SERVICE_TABLE_COUNT; i++) {
		struct plan_table *t = &p->tables[i];
		enum err_code      rc =
		        remote_inspect(endpoint_remote(e), p->arena, t->wanted.name, &t->state, err);

		if (rc != ERR_NONE && rc != ERR_NO_RESOURCE)
			return rc;
		t->present = rc == ERR_NONE;
		if (t->present)
			compare(p, t);
	}
	return ERR_NONE;
}

/* ---- making it so ---- */

/* One run of `apply`. */
struct applying {
	struct table_plan       *p;
	struct endpoint         *e;
	const struct plan_watch *watch;
};

/* optional: an endpoint that does not have it can do without. */
static enum err_code step_take(const struct applying *w, const struct plan_table *t, const char *what,
                               const struct provision_step *step, bool optional, struct err *err)
{
	enum err_code rc;

	w->watch->begins(w->watch->ctx, t, what);
	rc = remote_provision(endpoint_remote(w->e), w->p->arena, step, &w->watch->wait, err);
	if (rc != ERR_NONE && !(optional && rc == ERR_UNKNOWN_OPERATION))
		return rc;
	w->watch->ended(w->watch->ctx, t, rc == ERR_NONE ? PLAN_DONE : PLAN_SKIPPED);
	return ERR_NONE;
}

static enum err_code creation_begin(const struct applying *w, struct plan_table *t, struct err *err)
{
	struct provision_step begin = {
	        .kind = PROVISION_BEGIN, .schema = &t->wanted, .kms_key = w->p->settings.kms_key};

	return t->present ? ERR_NONE : step_take(w, t, "asking for it", &begin, false, err);
}

/* What CreateTable cannot set is a difference of what was just made, and so is what an endpoint overlooked. */
static enum err_code creation_end(const struct applying *w, struct plan_table *t, struct err *err)
{
	struct provision_step wait = {.kind = PROVISION_WAIT, .schema = &t->wanted};

	if (t->present)
		return ERR_NONE;
	if (step_take(w, t, "waiting for it", &wait, false, err) != ERR_NONE ||
	    remote_inspect(endpoint_remote(w->e), w->p->arena, t->wanted.name, &t->state, err) != ERR_NONE)
		return err->code;
	t->present = true;
	compare(w->p, t);
	return ERR_NONE;
}

static enum err_code differences_settle(const struct applying *w, struct plan_table *t, struct err *err)
{
	for (uint32_t i = 0; i < t->count; i++) {
		const struct plan_difference *d = &t->differences[i];

		if (d->by_hand == NULL &&
		    step_take(w, t, d->what, &d->step, strcmp(d->what, "time to live") == 0, err) != ERR_NONE)
			return err->code;
	}
	return ERR_NONE;
}

static enum err_code foreign_refuse(const struct table_plan *p, struct err *err)
{
	for (int i = 0; i < SERVICE_TABLE_COUNT; i++) {
		const struct plan_table *t = &p->tables[i];

		if (t->present && t->count > 0 && strcmp(t->differences[0].what, "keys") == 0)
			return err_set(err, ERR_FOREIGN_TABLE,
			               "the table \"%.*s\" is there with other keys (%s; wanted: %s): %s. "
			               "Nothing was "
			               "done",
			               BYTES_ARG(t->name), t->differences[0].there, t->differences[0].wanted,
			               t->differences[0].by_hand);
	}
	return ERR_NONE;
}

static enum err_code each(const struct applying *w,
                          enum err_code (*take)(const struct applying *, struct plan_table *, struct err *),
                          struct err *err)
{
	for (int i = 0; i < SERVICE_TABLE_COUNT; i++) {
		struct plan_table *t = &w->p->tables[i];
		struct err         why;

		if (take(w, t, &why) != ERR_NONE)
			return err_set(err, why.code, "%.*s: %s", BYTES_ARG(t->name), why.text);
	}
	return ERR_NONE;
}

enum err_code table_plan_apply(struct table_plan *p, struct endpoint *e, const struct plan_watch *watch,
                               struct err *err)
{
	struct applying w = {p, e, watch};

	if (foreign_refuse(p, err) != ERR_NONE || each(&w, creation_begin, err) != ERR_NONE ||
	    each(&w, creation_end, err) != ERR_NONE)
		return err->code;
	return each(&w, differences_settle, err);
}
