/* Show: widths first, then lines. */
#include "cli/show.h"

#include <string.h>

#include "base/buf.h"

enum { NAME_BYTES_MAX = 128, COLUMN_WIDTH_MAX = 48, CELL_BYTES_MAX = 512 };

/* ---- values ---- */

static bool is_control(const char *at, size_t left)
{
	uint8_t c = (uint8_t)at[0];

	return c < ' ' || c == 0x7f || (c == 0xc2 && left > 1 && (uint8_t)at[1] < 0xa0);
}

static void put_text(struct buf *out, struct bytes text)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < text.len; i++) {
		if (!is_control(text.data + i, text.len - i)) {
			buf_add_byte(out, (uint8_t)text.data[i]);
			continue;
		}
		if ((uint8_t)text.data[i] == 0xc2)
			i++;
		buf_add_bytes(out, BYTES("\\x"));
		buf_add_byte(out, (uint8_t)digits[(uint8_t)text.data[i] >> 4]);
		buf_add_byte(out, (uint8_t)digits[(uint8_t)text.data[i] & 15]);
	}
}

void show_text(FILE *to, struct bytes text)
{
	struct buf safe;

	buf_init(&safe, NULL);
	put_text(&safe, text);
	fprintf(to, "%.*s", BYTES_ARG(buf_bytes(&safe)));
	buf_release(&safe);
}

static void put_value(struct buf *out, const struct json *v)
{
	char text[32];

	switch (v->type) {
	case JSON_STRING:
		put_text(out, json_text(v));
		return;
	case JSON_INT:
		buf_add_i64(out, json_integer(v));
		return;
	case JSON_DOUBLE:
		snprintf(text, sizeof(text), "%g", json_real(v));
		break;
	case JSON_BOOL:
		snprintf(text, sizeof(text), "%s", json_truth(v) ? "true" : "false");
		break;
	case JSON_ARRAY:
		snprintf(text, sizeof(text), "%s", v->count == 0 ? "none" : "");
		for (const struct json *each = json_children(v); each != NULL; each = each->next) {
			put_value(out, each);
			if (each->next != NULL)
				buf_add_bytes(out, BYTES(", "));
		}
		break;
	default:
		snprintf(text, sizeof(text), "%s", v->type == JSON_OBJECT ? "{…}" : "-");
	}
	buf_add_bytes(out, bytes_of(text));
}

/* Characters, not bytes. */
static int width_of(struct bytes text)
{
	int width = 0;

	for (size_t i = 0; i < text.len; i++)
		width += ((uint8_t)text.data[i] & 0xc0) != 0x80;
	return width;
}

/* A text that is too wide for its column does not touch the next one. A width of 0: nothing follows. */
static void print_cell(struct bytes text, int width)
{
	int wide = width_of(text);

	if (width > 0 && wide + 2 > width)
		width = wide + 2;
	printf("%.*s%*s", BYTES_ARG(text), width > wide ? width - wide : 0, "");
}

/* ---- objects ---- */

static bool has_objects(const struct json *v)
{
	return v->type == JSON_ARRAY && json_children(v) != NULL && json_children(v)->type == JSON_OBJECT;
}

/* Calls `each` for every value that is no object, with its path. */
static void walk(const struct json *v, const char                                      *path,
                 void (*each)(void *ctx, const char *path, const struct json *v), void *ctx)
{
	char     name[NAME_BYTES_MAX];
	unsigned index = 0;

	if (v->type != JSON_OBJECT && !has_objects(v)) {
		each(ctx, path, v);
		return;
	}
	for (const struct json *m = json_children(v); m != NULL; m = m->next, index++) {
		if (v->type == JSON_ARRAY)
			snprintf(name, sizeof(name), "%s[%u]", path, index);
		else
			snprintf(name, sizeof(name), "%s%s%.*s", path, *path == '\0' ? "" : ".",
			         BYTES_ARG(m->name));
		walk(m, name, each, ctx);
	}
}

static void measure(void *ctx, const char *path, const struct json *v)
{
	int *widest = ctx, width = width_of(bytes_of(path));

	(void)v;
	*widest = width > *widest ? width : *widest;
}

static void print_value(void *ctx, const char *path, const struct json *v)
{
	struct buf text, name;

	buf_init(&text, NULL);
	buf_init(&name, NULL);
	put_text(&name, bytes_of(path));
	put_value(&text, v);
	print_cell(buf_bytes(&name), *(int *)ctx + 2);
	printf("%.*s\n", BYTES_ARG(buf_bytes(&text)));
	buf_release(&name);
	buf_release(&text);
}

void show_object(const struct json *object)
{
	int widest = 0;

	walk(object, "", measure, &widest);
	walk(object, "", print_value, &widest);
}

/* ---- tables ---- */

const struct json *show_member(const struct json *object, const char *name)
{
	while (object != NULL) {
		const char *dot = strchr(name, '.');
		size_t      len = dot == NULL ? strlen(name) : (size_t)(dot - name);

		object = object->type == JSON_OBJECT ? json_get(object, (struct bytes){name, len}) : NULL;
		if (dot == NULL)
			return object;
		name = dot + 1;
	}
	return NULL;
}

static struct bytes cell(const struct json *row, const char *column, struct buf *scratch)
{
	const struct json *v = show_member(row, column);

	buf_reset(scratch);
	if (v == NULL)
		return BYTES("-");
	put_value(scratch, v);
	return buf_bytes(scratch);
}

static void widen(struct show_table *t, int column, struct bytes text)
{
	int width = width_of(text);

	width = width > COLUMN_WIDTH_MAX ? COLUMN_WIDTH_MAX : width;
	if (width > t->widths[column])
		t->widths[column] = width;
}

/* "primaryEmail" to "PRIMARYEMAIL": the last part of the name. */
static struct bytes head(const char *column, char text[NAME_BYTES_MAX])
{
	const char *dot = strrchr(column, '.');
	const char *from = dot == NULL ? column : dot + 1;
	size_t      len = 0;

	for (; from[len] != '\0' && len < NAME_BYTES_MAX; len++)
		text[len] = from[len] >= 'a' && from[len] <= 'z' ? (char)(from[len] - 'a' + 'A') : from[len];
	return (struct bytes){text, len};
}

static void print_row(const struct show_table *t, const struct json *row, struct buf *scratch)
{
	char text[NAME_BYTES_MAX];

	for (int i = 0; t->columns[i] != NULL; i++) {
		bool         last = t->columns[i + 1] == NULL;
		struct bytes shown =
		        row == NULL ? head(t->columns[i], text) : cell(row, t->columns[i], scratch);

		print_cell(shown, last ? 0 : t->widths[i] + 2);
	}
	putchar('\n');
}

void show_rows(struct show_table *t, const struct json *rows)
{
	struct buf scratch;
	char       text[NAME_BYTES_MAX];

	buf_init(&scratch, NULL);
	for (int i = 0; t->columns[i] != NULL; i++) {
		widen(t, i, head(t->columns[i], text));
		for (const struct json *row = json_children(rows); row != NULL; row = row->next)
			widen(t, i, cell(row, t->columns[i], &scratch));
	}
	if (!t->headed)
		print_row(t, NULL, &scratch);
	t->headed = true;
	for (const struct json *row = json_children(rows); row != NULL; row = row->next)
		print_row(t, row, &scratch);
	buf_release(&scratch);
}
