/* Tables: sheets made and dropped, sides added and removed, time to live switched. Each sheet has the same
 * menu of possible sides; chance decides which it has and what they show. */
#ifndef TESTS_MODEL_TABLES_H
#define TESTS_MODEL_TABLES_H

#include "model/requests.h"

/* ---- the sheet ---- */

static inline void side_plan(struct world *w, struct sheet *s, int at)
{
	static const struct side menu[SIDES] = {
	        {.name = "lsi-l", .local = true, .hash = HASH, .range = LOCAL},
	        {.name = "lsi-i", .local = true, .hash = HASH, .range = INDEXED},
	        {.name = "gsi-gi", .hash = GROUP, .range = INDEXED},
	        {.name = "gsi-g", .hash = GROUP, .range = -1},
	        {.name = "gsi-ih", .hash = INDEXED, .range = HASH},
	        {.name = "gsi-lr", .hash = LOCAL, .range = RANGE},
	};
	struct side *side = &s->sides[at];

	*side = menu[at];
	side->ranged = sheet_ranged(s);
	if (side->range == RANGE && !side->ranged)
		side->range = -1;
	side->share = (enum share)pick(w, 3);
	for (int i = 0; i < ATTRIBUTES; i++)
		side->shares[i] = i < GROUP && chance(w, 40);
	side->shares[COUNTER] = true; /* INCLUDE must have something */
}

/* Every second sheet begins without sides, and gets few: only there do rows lapse (engine/lapse.h). */
static inline bool sheet_is_plain(int sheet)
{
	return sheet % 2 == 1;
}

static inline void sheet_plan(struct world *w, int sheet)
{
	static const enum kind kinds[] = {K_S, K_N, K_B};
	struct sheet          *s = &w->sheets[sheet];

	*s = (struct sheet){.used = true};
	snprintf(s->name, sizeof(s->name), "table%d", sheet);
	for (int i = GROUP; i <= LOCAL; i++)
		s->kinds[i] = kinds[pick(w, 3)];
	s->kinds[RANGE] = chance(w, 80) ? kinds[pick(w, 3)] : K_ABSENT;
	for (int i = 0; i < SIDES; i++) {
		side_plan(w, s, i);
		s->sides[i].used =
		        chance(w, sheet_is_plain(sheet) ? 0 : 60) && (!s->sides[i].local || sheet_ranged(s));
	}
}

/* ---- JSON ---- */

static inline void write_definitions(struct json_writer *w, const struct sheet *s,
                                     const bool needed[ATTRIBUTES])
{
	json_name(w, BYTES("AttributeDefinitions"));
	json_begin_array(w);
	for (int i = 0; i < ATTRIBUTES; i++) {
		if (!needed[i])
			continue;
		json_begin_object(w);
		json_name(w, BYTES("AttributeName"));
		json_string(w, (struct bytes){&attribute_names[i], 1});
		write_text(w, "AttributeType", kind_name(s->kinds[i]));
		json_end_object(w);
	}
	json_end_array(w);
}

static inline void write_key_part(struct json_writer *w, int attribute, const char *type)
{
	json_begin_object(w);
	json_name(w, BYTES("AttributeName"));
	json_string(w, (struct bytes){&attribute_names[attribute], 1});
	write_text(w, "KeyType", type);
	json_end_object(w);
}

static inline void write_key_schema(struct json_writer *w, int hash, int range)
{
	json_name(w, BYTES("KeySchema"));
	json_begin_array(w);
	write_key_part(w, hash, "HASH");
	if (range >= 0)
		write_key_part(w, range, "RANGE");
	json_end_array(w);
}

static inline void write_side(struct json_writer *w, const struct side *side)
{
	static const char *types[] = {"ALL", "KEYS_ONLY", "INCLUDE"};

	json_begin_object(w);
	write_text(w, "IndexName", side->name);
	write_key_schema(w, side->hash, side->range);
	json_name(w, BYTES("Projection"));
	json_begin_object(w);
	write_text(w, "ProjectionType", types[side->share]);
	if (side->share == SHARE_SOME) {
		json_name(w, BYTES("NonKeyAttributes"));
		json_begin_array(w);
		for (int i = 0; i < ATTRIBUTES; i++)
			if (side->shares[i])
				json_string(w, (struct bytes){&attribute_names[i], 1});
		json_end_array(w);
	}
	json_end_object(w);
	json_end_object(w);
}

static inline void write_sides(struct json_writer *w, const struct sheet *s, bool local)
{
	int count = 0;

	for (int i = 0; i < SIDES; i++)
		count += s->sides[i].used && s->sides[i].local == local;
	if (count == 0)
		return;
	json_name(w, local ? BYTES("LocalSecondaryIndexes") : BYTES("GlobalSecondaryIndexes"));
	json_begin_array(w);
	for (int i = 0; i < SIDES; i++)
		if (s->sides[i].used && s->sides[i].local == local)
			write_side(w, &s->sides[i]);
	json_end_array(w);
}

static inline void need_side(const struct side *side, bool needed[ATTRIBUTES])
{
	needed[side->hash] = true;
	if (side->range >= 0)
		needed[side->range] = true;
}

static inline void sheet_write(struct json_writer *w, const struct sheet *s)
{
	bool needed[ATTRIBUTES] = {[HASH] = true, [RANGE] = sheet_ranged(s)};

	for (int i = 0; i < SIDES; i++)
		if (s->sides[i].used)
			need_side(&s->sides[i], needed);
	json_begin_object(w);
	write_text(w, "TableName", s->name);
	write_text(w, "BillingMode", "PAY_PER_REQUEST");
	write_definitions(w, s, needed);
	write_key_schema(w, HASH, sheet_ranged(s) ? RANGE : -1);
	write_sides(w, s, true);
	write_sides(w, s, false);
	json_end_object(w);
}

static inline void table_name_write(struct json_writer *w, const struct sheet *s)
{
	json_begin_object(w);
	write_text(w, "TableName", s->name);
	json_end_object(w);
}

static inline void side_create_write(struct json_writer *w, const struct sheet *s, const struct side *side)
{
	bool needed[ATTRIBUTES] = {0};

	need_side(side, needed);
	json_begin_object(w);
	write_text(w, "TableName", s->name);
	write_definitions(w, s, needed);
	json_name(w, BYTES("GlobalSecondaryIndexUpdates"));
	json_begin_array(w);
	json_begin_object(w);
	json_name(w, BYTES("Create"));
	write_side(w, side);
	json_end_object(w);
	json_end_array(w);
	json_end_object(w);
}

static inline void side_delete_write(struct json_writer *w, const struct sheet *s, const struct side *side)
{
	json_begin_object(w);
	write_text(w, "TableName", s->name);
	json_name(w, BYTES("GlobalSecondaryIndexUpdates"));
	json_begin_array(w);
	json_begin_object(w);
	json_name(w, BYTES("Delete"));
	json_begin_object(w);
	write_text(w, "IndexName", side->name);
	json_end_object(w);
	json_end_object(w);
	json_end_array(w);
	json_end_object(w);
}

static inline void ttl_write(struct json_writer *w, const struct sheet *s, bool enabled,
                             enum attribute attribute)
{
	json_begin_object(w);
	write_text(w, "TableName", s->name);
	json_name(w, BYTES("TimeToLiveSpecification"));
	json_begin_object(w);
	write_truth(w, "Enabled", enabled);
	json_name(w, BYTES("AttributeName"));
	json_string(w, (struct bytes){&attribute_names[attribute], 1});
	json_end_object(w);
	json_end_object(w);
}

#endif
