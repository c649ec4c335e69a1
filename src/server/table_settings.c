/* Table settings: see table_settings.h. */
#include "server/table_settings.h"

#include <stdlib.h>

/* Takes the text up to the mark off `rest`; all of it if there is none. */
static struct bytes part_take(struct bytes *rest, char mark)
{
	const char  *end = rest->len == 0 ? NULL : memchr(rest->data, mark, rest->len);
	struct bytes part = {rest->data, end == NULL ? rest->len : (size_t)(end - rest->data)};
	size_t       used = end == NULL ? part.len : part.len + 1;

	*rest = (struct bytes){rest->data + used, rest->len - used};
	return part;
}

/* Whoever ends a list with a comma left something out. */
static enum err_code list_check(const char *name, const char *text, struct err *err)
{
	size_t len = text == NULL ? 0 : strlen(text);

	return len == 0 || text[len - 1] != ','
	               ? ERR_NONE
	               : err_set(err, ERR_INVALID, "%s: nothing follows the last comma", name);
}

/* ---- billing ---- */

static enum err_code billing_read(const struct table_settings_text *text, struct table_settings *out,
                                  struct err *err)
{
	out->billing_said = text->billing != NULL;
	out->on_demand = text->billing == NULL || strcmp(text->billing, "on-demand") == 0;
	if (!out->on_demand && strcmp(text->billing, "provisioned") != 0)
		return err_set(err, ERR_INVALID, "table-billing: must be on-demand or provisioned");
	if (out->on_demand && text->units != NULL)
		return err_set(err, ERR_INVALID,
		               "table-units: only tables with table-billing provisioned have units");
	return ERR_NONE;
}

static bool units_parse(struct bytes text, int64_t *read_units, int64_t *write_units)
{
	struct bytes read = part_take(&text, '/');
	uint64_t     r, w;

	if (!bytes_to_u64(read, TABLE_UNITS_MAX, &r) || !bytes_to_u64(text, TABLE_UNITS_MAX, &w) || r == 0 ||
	    w == 0)
		return false;
	*read_units = (int64_t)r;
	*write_units = (int64_t)w;
	return true;
}

/* By the name that it has unless set. */
static int which_of(struct bytes name)
{
	for (int i = 0; i < SERVICE_TABLE_COUNT; i++)
		if (bytes_is(name, service_table_shape((enum service_table)i)->name))
			return i;
	return -1;
}

static enum err_code units_of_one(struct bytes name, struct bytes units, struct table_settings *out,
                                  struct err *err)
{
	int which = which_of(name);

	if (which < 0)
		return err_set(err, ERR_INVALID,
		               "table-units: there is no table \"%.*s\" (`gatehouse tables plan` lists them)",
		               BYTES_ARG(name));
	if (!units_parse(units, &out->read_units[which], &out->write_units[which]))
		return err_set(err, ERR_INVALID,
		               "table-units: \"%.*s\" of %.*s must be READ/WRITE, each 1 to %d",
		               BYTES_ARG(units), BYTES_ARG(name), TABLE_UNITS_MAX);
	return ERR_NONE;
}

/* Those of all first, so that one that is named can differ whatever the order. */
static enum err_code units_read(struct bytes text, struct table_settings *out, struct err *err)
{
	int64_t      read_units = TABLE_UNITS_DEFAULT, write_units = TABLE_UNITS_DEFAULT;
	struct bytes rest = text;

	while (rest.len > 0) {
		struct bytes part = part_take(&rest, ',');

		if (memchr(part.data, '=', part.len) == NULL && !units_parse(part, &read_units, &write_units))
			return err_set(err, ERR_INVALID,
			               "table-units: \"%.*s\" must be READ/WRITE or TABLE=READ/WRITE, each 1 "
			               "to %d",
			               BYTES_ARG(part), TABLE_UNITS_MAX);
	}
	for (int i = 0; i < SERVICE_TABLE_COUNT; i++) {
		out->read_units[i] = read_units;
		out->write_units[i] = write_units;
	}
	while (text.len > 0) {
		struct bytes units = part_take(&text, ','), name;

		if (memchr(units.data, '=', units.len) == NULL)
			continue;
		name = part_take(&units, '=');
		if (units_of_one(name, units, out, err) != ERR_NONE)
			return err->code;
	}
	return ERR_NONE;
}

/* ---- tags ---- */

static int tag_order(const void *a, const void *b)
{
	return bytes_compare(((const struct tag *)a)->key, ((const struct tag *)b)->key);
}

static enum err_code tag_check(const struct tag *tag, struct err *err)
{
	if (tag->key.len == 0 || tag->key.len > TABLE_TAG_KEY_MAX || tag->value.len > TABLE_TAG_VALUE_MAX)
		return err_set(
		        err, ERR_INVALID,
		        "table-tags: \"%.*s\" must be KEY=VALUE, with 1 to %d and at most %d characters",
		        BYTES_ARG(tag->key), TABLE_TAG_KEY_MAX, TABLE_TAG_VALUE_MAX);
	if (bytes_starts_with(tag->key, BYTES("aws:")))
		return err_set(err, ERR_INVALID,
		               "table-tags: \"%.*s\": keys that begin with aws: are AWS's own",
		               BYTES_ARG(tag->key));
	return ERR_NONE;
}

static enum err_code tags_read(struct bytes text, struct arena *a, struct table_settings *out,
                               struct err *err)
{
	out->tags = arena_array(a, TABLE_TAG_MAX, sizeof(*out->tags));
	while (text.len > 0) {
		struct tag tag = {.value = part_take(&text, ',')};

		tag.key = part_take(&tag.value, '=');
		if (out->tag_count == TABLE_TAG_MAX)
			return err_set(err, ERR_INVALID, "table-tags: at most %d tags", TABLE_TAG_MAX);
		if (tag_check(&tag, err) != ERR_NONE)
			return err->code;
		out->tags[out->tag_count++] = tag;
	}
	qsort(out->tags, out->tag_count, sizeof(*out->tags), tag_order);
	for (uint32_t i = 1; i < out->tag_count; i++)
		if (bytes_equal(out->tags[i - 1].key, out->tags[i].key))
			return err_set(err, ERR_INVALID, "table-tags: the key \"%.*s\" is there twice",
			               BYTES_ARG(out->tags[i].key));
	return ERR_NONE;
}

/* ---- all ---- */

static enum err_code kms_key_check(struct bytes key, struct err *err)
{
	if (key.len == 0 || (bytes_starts_with(key, BYTES("arn:")) && bytes_contains(key, BYTES(":kms:")) &&
	                     bytes_contains(key, BYTES(":key/"))))
		return ERR_NONE;
	return err_set(
	        err, ERR_INVALID,
	        "table-kms-key: must be the ARN of a key, arn:aws:kms:REGION:ACCOUNT:key/ID, not an id or "
	        "an alias");
}

enum err_code table_settings_read(const struct table_settings_text *text, struct arena *a,
                                  struct table_settings *out, struct err *err)
{
	*out = (struct table_settings){.recovery = text->recovery, .protection = text->protection};
	out->kms_key = bytes_of(text->kms_key == NULL ? "" : text->kms_key);
	if (list_check("table-units", text->units, err) != ERR_NONE ||
	    list_check("table-tags", text->tags, err) != ERR_NONE ||
	    billing_read(text, out, err) != ERR_NONE ||
	    units_read(bytes_of(text->units == NULL ? "" : text->units), out, err) != ERR_NONE ||
	    kms_key_check(out->kms_key, err) != ERR_NONE)
		return err->code;
	return tags_read(bytes_of(text->tags == NULL ? "" : text->tags), a, out, err);
}

struct table_schema table_settings_schema(const struct table_settings *s, const struct service_tables *tables,
                                          enum service_table which, struct arena *a)
{
	struct table_schema schema = service_table_schema(tables, which, a);

	schema.on_demand = s->on_demand;
	schema.deletion_protected = s->protection;
	schema.tags = s->tags;
	schema.tag_count = s->tag_count;
	if (s->on_demand)
		return schema;
	schema.read_units = s->read_units[which];
	schema.write_units = s->write_units[which];
	for (uint32_t i = 0; i < schema.index_count; i++) {
		schema.indexes[i].read_units = schema.read_units;
		schema.indexes[i].write_units = schema.write_units;
	}
	return schema;
}
