/* Schema and item: may it be stored? */
#include "engine/schema_item.h"

#include "item/messages.h"

/* ---- may this key, this item be stored? ---- */

static const char *empty_kind(enum value_type type)
{
	return type == VALUE_B ? "binary" : "string";
}

static bool is_empty_text(const struct value *v)
{
	return v->type != VALUE_N && v->text.len == 0;
}

static bool is_longer(const struct value *v, size_t max)
{
	return v->type != VALUE_N && v->text.len > max;
}

static enum err_code refuse_bounds(const struct key_attribute *attribute, bool is_hash, const struct value *v,
                                   struct err *err)
{
	if (is_empty_text(v))
		return err_set(err, ERR_INVALID, MSG_KEY_EMPTY, empty_kind(v->type),
		               BYTES_ARG(attribute->name));
	return err_set(err, ERR_INVALID, "%s", is_hash ? MSG_HASH_SIZE : MSG_RANGE_SIZE);
}

static inline enum err_code check_key_bounds(const struct key_attribute *attribute, bool is_hash,
                                             const struct value *v, struct err *err)
{
	if (is_empty_text(v) || is_longer(v, is_hash ? KEY_HASH_BYTES_MAX : KEY_RANGE_BYTES_MAX))
		return refuse_bounds(attribute, is_hash, v, err);
	return ERR_NONE;
}

static inline enum err_code check_key_value(const struct key_attribute *attribute, bool is_hash,
                                            const struct value *v, struct err *err)
{
	if (v == NULL || v->type != attribute->type)
		return err_set(err, ERR_INVALID, MSG_KEY_MISMATCH);
	return check_key_bounds(attribute, is_hash, v, err);
}

enum err_code schema_check_key(const struct table_schema *s, const struct item *key, struct key_values *out,
                               struct err *err)
{
	bool ranged = s->keys.range.name.len > 0;

	if (key->count != (ranged ? 2u : 1u))
		return err_set(err, ERR_INVALID, MSG_KEY_MISMATCH);
	*out = schema_key_values(s, key);
	if (check_key_value(&s->keys.hash, true, out->hash, err) != ERR_NONE)
		return err->code;
	return ranged ? check_key_value(&s->keys.range, false, out->range, err) : ERR_NONE;
}

enum err_code schema_check_key_types(const struct table_schema *s, const struct item *item, struct err *err)
{
	const struct key_attribute *attributes[2] = {&s->keys.hash, &s->keys.range};

	for (int i = 0; i < 2; i++) {
		const struct value *v = item_get(item, attributes[i]->name);

		if (attributes[i]->name.len > 0 && (v == NULL || v->type != attributes[i]->type))
			return err_set(err, ERR_INVALID, MSG_KEY_MISMATCH);
	}
	return ERR_NONE;
}

enum err_code schema_check_key_filled(const struct table_schema *s, const struct item *item, struct err *err)
{
	const struct key_attribute *attributes[2] = {&s->keys.hash, &s->keys.range};

	for (int i = 0; i < 2; i++) {
		const struct value *v = item_get(item, attributes[i]->name);

		if (v != NULL && v->type == attributes[i]->type && is_empty_text(v))
			return err_set(err, ERR_INVALID, MSG_KEY_EMPTY, empty_kind(v->type),
			               BYTES_ARG(attributes[i]->name));
	}
	return ERR_NONE;
}

static inline enum err_code check_item_key(const struct key_attribute *attribute, bool is_hash,
                                           const struct value *v, struct err *err)
{
	if (attribute->name.len == 0)
		return ERR_NONE;
	if (v == NULL)
		return err_set(err, ERR_INVALID, MSG_KEY_MISSING, BYTES_ARG(attribute->name));
	if (v->type != attribute->type)
		return err_set(err, ERR_INVALID, MSG_KEY_TYPE, BYTES_ARG(attribute->name),
		               value_type_name(attribute->type), value_type_name(v->type));
	return check_key_bounds(attribute, is_hash, v, err);
}

static enum err_code check_index_key(const struct index_schema *index, const struct key_attribute *attribute,
                                     size_t bytes_max, const struct item *item, struct err *err)
{
	const struct value *v = attribute->name.len == 0 ? NULL : item_get(item, attribute->name);

	if (v == NULL)
		return ERR_NONE; /* the item is simply not in the index */
	if (v->type != attribute->type)
		return err_set(err, ERR_INVALID, MSG_INDEX_KEY_TYPE, BYTES_ARG(attribute->name),
		               value_type_name(attribute->type), value_type_name(v->type),
		               BYTES_ARG(index->name));
	if (is_empty_text(v))
		return err_set(err, ERR_INVALID, MSG_INDEX_KEY_EMPTY, empty_kind(v->type),
		               BYTES_ARG(index->name), BYTES_ARG(attribute->name));
	if (is_longer(v, bytes_max))
		return err_set(err, ERR_INVALID, MSG_INDEX_KEY_SIZE, BYTES_ARG(attribute->name),
		               BYTES_ARG(index->name), (int)bytes_max);
	return ERR_NONE;
}

static enum err_code check_depth(const struct item *item, struct err *err)
{
	for (uint32_t i = 0; i < item->count; i++) {
		const struct value *v = &item->members[i].value;

		if ((v->type == VALUE_M || v->type == VALUE_L) && value_depth(v) > VALUE_DEPTH_MAX)
			return err_set(err, ERR_INVALID, MSG_NESTING);
	}
	return ERR_NONE;
}

enum err_code schema_check_item(const struct table_schema *s, const struct item *item, struct key_values *key,
                                size_t *bytes, struct err *err)
{
	*key = schema_key_values(s, item);
	if (check_item_key(&s->keys.hash, true, key->hash, err) != ERR_NONE ||
	    check_item_key(&s->keys.range, false, key->range, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < s->index_count; i++) {
		const struct index_schema *index = &s->indexes[i];

		if (check_index_key(index, &index->keys.hash, KEY_HASH_BYTES_MAX, item, err) != ERR_NONE ||
		    check_index_key(index, &index->keys.range, KEY_RANGE_BYTES_MAX, item, err) != ERR_NONE)
			return err->code;
	}
	*bytes = item_size(item);
	if (*bytes > ITEM_BYTES_MAX)
		return err_set(err, ERR_INVALID, MSG_ITEM_SIZE);
	return check_depth(item, err);
}
