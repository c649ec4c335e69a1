/* Tables as JSON: the same as the text, for programs; see tables.h. packaging/terraform is compared with it, field by field. */
#include "cli/tables.h"

static void text(struct json_writer *w, const char *name, struct bytes value)
{
	json_name(w, bytes_of(name));
	if (value.len == 0)
		json_null(w);
	else
		json_string(w, value);
}

static void keys_write(struct json_writer *w, const struct key_schema *keys)
{
	text(w, "hashKey", keys->hash.name);
	text(w, "rangeKey", keys->range.name);
}

static void type_write(struct json_writer *w, const struct key_attribute *key)
{
	if (key->name.len == 0)
		return;
	json_name(w, key->name);
	json_string(w, key->type == VALUE_S ? BYTES("S") : key->type == VALUE_N ? BYTES("N") : BYTES("B"));
}

/* Of the table and its indexes; they have no attribute in common here. */
static void attributes_write(struct json_writer *w, const struct table_schema *s)
{
	json_name(w, BYTES("attributes"));
	json_begin_object(w);
	type_write(w, &s->keys.hash);
	type_write(w, &s->keys.range);
	for (uint32_t i = 0; i < s->index_count; i++) {
		type_write(w, &s->indexes[i].keys.hash);
		type_write(w, &s->indexes[i].keys.range);
	}
	json_end_object(w);
}

static void index_write(struct json_writer *w, const struct index_schema *index)
{
	static const char *const names[] = {
	        [PROJECT_ALL] = "ALL", [PROJECT_KEYS_ONLY] = "KEYS_ONLY", [PROJECT_INCLUDE] = "INCLUDE"};

	json_begin_object(w);
	text(w, "name", index->name);
	keys_write(w, &index->keys);
	text(w, "projection", bytes_of(names[index->projection]));
	json_name(w, BYTES("include"));
	json_begin_array(w);
	for (uint32_t i = 0; i < index->include_count; i++)
		json_string(w, index->include[i]);
	json_end_array(w);
	json_end_object(w);
}

static void schema_write(struct json_writer *w, const struct table_schema *s)
{
	keys_write(w, &s->keys);
	attributes_write(w, s);
	text(w, "timeToLive", s->ttl_attribute);
	text(w, "billing", s->on_demand ? BYTES("PAY_PER_REQUEST") : BYTES("PROVISIONED"));
	json_name(w, BYTES("readUnits"));
	json_i64(w, s->read_units);
	json_name(w, BYTES("writeUnits"));
	json_i64(w, s->write_units);
	json_name(w, BYTES("deletionProtection"));
	json_bool(w, s->deletion_protected);
	json_name(w, BYTES("indexes"));
	json_begin_array(w);
	for (uint32_t i = 0; i < s->index_count; i++)
		index_write(w, &s->indexes[i]);
	json_end_array(w);
	json_name(w, BYTES("tags"));
	json_begin_object(w);
	for (uint32_t i = 0; i < s->tag_count; i++) {
		json_name(w, s->tags[i].key);
		json_string(w, s->tags[i].value);
	}
	json_end_object(w);
}

static void wanted_write(struct json_writer *w, const struct table_plan *p, const struct plan_table *t)
{
	json_name(w, BYTES("wanted"));
	json_begin_object(w);
	schema_write(w, &t->wanted);
	json_name(w, BYTES("pointInTimeRecovery"));
	json_bool(w, p->settings.recovery);
	text(w, "kmsKey", p->settings.kms_key);
	json_end_object(w);
}

static void there_write(struct json_writer *w, const struct plan_table *t)
{
	json_name(w, BYTES("there"));
	if (!t->present) {
		json_null(w);
		return;
	}
	json_begin_object(w);
	schema_write(w, &t->state.there.schema);
	json_name(w, BYTES("pointInTimeRecovery"));
	if (t->state.recovery_told == TOLD)
		json_bool(w, t->state.recovery);
	else
		json_null(w);
	text(w, "kmsKey", t->state.kms_key);
	text(w, "status", t->state.status);
	json_end_object(w);
}

static void notes_write(struct json_writer *w, const char *const *notes, uint32_t count)
{
	json_name(w, BYTES("notes"));
	json_begin_array(w);
	for (uint32_t i = 0; i < count; i++)
		json_string(w, bytes_of(notes[i]));
	json_end_array(w);
}

static void differences_write(struct json_writer *w, const struct plan_table *t)
{
	json_name(w, BYTES("differences"));
	json_begin_array(w);
	for (uint32_t i = 0; i < t->count; i++) {
		const struct plan_difference *d = &t->differences[i];

		json_begin_object(w);
		text(w, "what", bytes_of(d->what));
		text(w, "there", bytes_of(d->there));
		text(w, "wanted", bytes_of(d->wanted));
		json_name(w, BYTES("createDoesIt"));
		json_bool(w, d->by_hand == NULL);
		text(w, "byHand", bytes_of(d->by_hand == NULL ? "" : d->by_hand));
		json_end_object(w);
	}
	json_end_array(w);
}

static void table_write(struct json_writer *w, const struct table_plan *p, const struct plan_table *t)
{
	json_begin_object(w);
	text(w, "table", bytes_of(service_table_shape(t->which)->name));
	text(w, "name", t->name);
	text(w, "holds", bytes_of(service_table_shape(t->which)->holds));
	text(w, "state", bytes_of(!t->present ? "missing" : t->count > 0 ? "different" : "good"));
	wanted_write(w, p, t);
	there_write(w, t);
	differences_write(w, t);
	notes_write(w, t->notes, t->note_count);
	json_end_object(w);
}

void tables_json(struct json_writer *w, const struct table_plan *p, struct endpoint *endpoint,
                 const struct tables_sum *sum)
{
	json_begin_object(w);
	text(w, "endpoint", bytes_of(endpoint == NULL ? "" : endpoint_url(endpoint)));
	text(w, "region", bytes_of(endpoint == NULL ? "" : endpoint_region(endpoint)));
	json_name(w, BYTES("tables"));
	json_begin_array(w);
	for (int i = 0; i < SERVICE_TABLE_COUNT; i++)
		table_write(w, p, &p->tables[i]);
	json_end_array(w);
	json_name(w, BYTES("missing"));
	json_i64(w, sum->missing);
	json_name(w, BYTES("different"));
	json_i64(w, sum->different);
	json_name(w, BYTES("good"));
	json_i64(w, sum->good);
	notes_write(w, p->notes, p->note_count);
	json_end_object(w);
}
