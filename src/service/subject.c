/* Subject: one query, page by page, and what kind each row is of. */
#include "service/subject.h"

#include "service/assess.h"
#include "service/lock.h"
#include "service/row.h"

static bool ends_with(struct bytes text, const char *end)
{
	size_t len = strlen(end);

	return text.len >= len && memcmp(text.data + text.len - len, end, len) == 0;
}

/* By the classifier type: ERROR_COUNT, REQUEST_COUNT and whatever else policies call a count end alike. */
static enum subject_row_kind kind_of(const struct key_parts *k)
{
	if (ends_with(k->type, "COUNT"))
		return ROW_COUNT;
	if (ends_with(k->type, "LOCK"))
		return ROW_LOCK;
	if (bytes_is(k->type, KEY_STATE))
		return ROW_STATE;
	if (bytes_is(k->journey, "DEVICE") && bytes_is(k->type, KEY_COOKIE))
		return ROW_DEVICE;
	return ROW_OTHER; /* DEVICE#KNOWN of the scheme before device tokens, too */
}

static void rows_add(struct subject *s, struct bytes prefix, const struct table_query_result *page,
                     int64_t now_us)
{
	for (uint32_t i = 0; i < page->count; i++) {
		struct subject_row *row = &s->rows[s->count];

		if (row_expired(&page->items[i], "ttl", now_us) ||
		    (prefix.len > 0 && !key_is_under(row_text(&page->items[i], "SK"), prefix)))
			continue;
		if (s->count == SUBJECT_ROWS_MAX) {
			s->more = true;
			return;
		}
		row->item = page->items[i];
		row->sk = row_text(&row->item, "SK");
		row->key = key_split(row->sk);
		row->kind = kind_of(&row->key);
		if (row->kind == ROW_LOCK && !lock_holds(&row->item, now_us))
			row->kind = ROW_OTHER;
		if (row->kind == ROW_OTHER)
			continue;
		s->count++;
	}
}

enum err_code subject_read(struct context *ctx, struct bytes id, struct bytes prefix, struct subject *out,
                           struct err *err)
{
	struct expr_key_condition key;
	struct table_query        q = {.key = &key, .consistent = true};
	struct table_query_result page;

	while (prefix.len > 0 && prefix.data[prefix.len - 1] == '#')
		prefix.len--;
	key = row_prefix(id, prefix);
	*out = (struct subject){.id = id};
	out->rows = arena_array(ctx->arena, SUBJECT_ROWS_MAX, sizeof(*out->rows));
	do {
		if (ctx_query(ctx, &q, &page, err) != ERR_NONE)
			return err->code;
		rows_add(out, prefix, &page, ctx->now_us);
		q.start = &page.last_key;
	} while (page.more && out->count < SUBJECT_ROWS_MAX);
	return ERR_NONE;
}

int64_t subject_counts_sum(const struct subject *s)
{
	int64_t sum = 0;

	for (uint32_t i = 0; i < s->count; i++)
		if (s->rows[i].kind == ROW_COUNT)
			sum += count_of_row(&s->rows[i].item);
	return sum;
}
