/* Data of plans: units.yaml and prices.yaml as bytes of the program; and trees, read strictly. */
#include "plan/data.h"

#include "base/buf.h"
#include "json/yaml.h"

__asm__(".section .rodata\n"
        ".global gatehouse_units_begin, gatehouse_units_end, gatehouse_prices_begin, gatehouse_prices_end\n"
        "gatehouse_units_begin:\n"
        ".incbin \"src/plan/units.yaml\"\n"
        "gatehouse_units_end:\n"
        "gatehouse_prices_begin:\n"
        ".incbin \"src/plan/prices.yaml\"\n"
        "gatehouse_prices_end:\n"
        ".previous\n");

extern const char gatehouse_units_begin[], gatehouse_units_end[], gatehouse_prices_begin[],
        gatehouse_prices_end[];

struct bytes plan_units_text(void)
{
	return (struct bytes){gatehouse_units_begin, (size_t)(gatehouse_units_end - gatehouse_units_begin)};
}

struct bytes plan_prices_text(void)
{
	return (struct bytes){gatehouse_prices_begin,
	                      (size_t)(gatehouse_prices_end - gatehouse_prices_begin)};
}

#define X(id, name, label) [id] = {name, label},
const struct plan_name plan_calls[] = {PLAN_CALLS(X)};
const struct plan_name plan_works[] = {PLAN_WORKS(X)};
const struct plan_name plan_idles[] = {PLAN_IDLES(X)};
const struct plan_name plan_stores[] = {PLAN_STORES(X)};
const struct plan_name plan_price_kinds[] = {PLAN_PRICES(X)};
#undef X

const struct plan_name plan_claims[] = {
        [PLAN_SAYS_BYTES] = {"bytes", "bytes of items"},
        [PLAN_SAYS_WRITES_PER_SECOND] = {"writes_per_second", "writes per second"},
        [PLAN_SAYS_READS_PER_SECOND] = {"reads_per_second", "reads per second"},
        [PLAN_SAYS_WRITE_USD_PER_DAY] = {"write_usd_per_day", "writes, $ per day"},
        [PLAN_SAYS_READ_USD_PER_DAY] = {"read_usd_per_day", "reads, $ per day"},
        [PLAN_SAYS_USD_PER_MONTH] = {"usd_per_month", "all of that, $ per month"},
        [PLAN_SAYS_PITR_USD_PER_MONTH] = {"pitr_usd_per_month", "PITR, $ per month"},
};

enum { DAY_BYTES_MAX = 10, TITLE_BYTES_MAX = 200, TABLES_MAX = 2500 };

#define LOAD_MAX 1e12 /* items, or calls per day */

/* ---- numbers ---- */

static bool number_of(const struct json *member, double *out)
{
	if (member != NULL && member->type == JSON_INT)
		*out = (double)json_integer(member);
	else if (member != NULL && member->type == JSON_DOUBLE)
		*out = json_real(member);
	else
		return false;
	return true;
}

static double number_check(struct fields *f, const char *name, const struct json *member, double max)
{
	double value = 0;

	if (!number_of(member, &value) || !(value >= 0 && value <= max))
		fields_fail(f, name, ERR_INVALID, "must be a number from 0 to %.0f", max);
	return fields_failed(f) ? 0 : value;
}

static double number_read(struct fields *f, const char *name, double max)
{
	return number_check(f, name, fields_get(f, name), max);
}

static double number_or(struct fields *f, const char *name, double max, double otherwise)
{
	return fields_has(f, name) ? number_read(f, name, max) : otherwise;
}

static void enter(struct fields *f, struct fields *parent, const char *name)
{
	const struct json *object = fields_object(parent, name, FIELDS_MEMBERS_MAX);

	if (object == NULL)
		fields_fail(parent, name, ERR_INVALID, "missing");
	fields_enter(f, parent, bytes_of(name), object);
}

static enum err_code begin(struct fields *f, struct bytes text, struct arena *a, struct err *err)
{
	struct json *tree;

	err->code = ERR_NONE;
	if (yaml_read(a, text, &tree, err) != ERR_NONE)
		return err->code;
	fields_init(f, tree, err);
	return err->code;
}

/* ---- units ---- */

/* Reads, writes; of a call, also requests. */
static void cost_read(struct fields *f, const char *name, uint32_t numbers, struct plan_cost *out)
{
	const struct json *list = fields_array(f, name, numbers), *units = json_children(list);

	if (list == NULL || list->count != numbers) {
		fields_fail(f, name, ERR_INVALID, "must be a list of %s",
		            numbers == 3 ? "three numbers: reads, writes, requests"
		                         : "two numbers: reads, writes");
		return;
	}
	out->reads = number_check(f, name, units, PLAN_UNITS_MAX);
	out->writes = number_check(f, name, units->next, PLAN_UNITS_MAX);
}

static void calls_read(struct fields *top, struct plan_units *out)
{
	struct fields calls, one;

	enter(&calls, top, "calls");
	for (int i = 0; i < PLAN_CALL_COUNT && !fields_failed(top); i++) {
		enter(&one, &calls, plan_calls[i].name);
		cost_read(&one, "no_events", 3, &out->calls[0][i]);
		cost_read(&one, "events", 3, &out->calls[1][i]);
		fields_end(&one);
	}
	fields_end(&calls);
}

enum err_code plan_units_read(struct bytes text, struct arena *a, struct plan_units *out, struct err *err)
{
	struct fields top, inner;

	memset(out, 0, sizeof(*out));
	if (begin(&top, text, a, err) != ERR_NONE)
		return err->code;
	out->measured = fields_text(&top, "measured", DAY_BYTES_MAX);
	fields_text_or(&top, "endpoint", TITLE_BYTES_MAX, BYTES(""));
	calls_read(&top, out);
	out->tables = number_read(&top, "tables", TABLES_MAX);
	enter(&inner, &top, "storage");
	for (int i = 0; i < PLAN_STORE_COUNT; i++)
		out->stores[i] = number_read(&inner, plan_stores[i].name, PLAN_BYTES_MAX);
	fields_end(&inner);
	enter(&inner, &top, "background");
	out->background.reads = number_read(&inner, "reads", PLAN_UNITS_MAX);
	out->background.writes = number_read(&inner, "writes", PLAN_UNITS_MAX);
	fields_end(&inner);
	enter(&inner, &top, "work");
	for (int i = 0; i < PLAN_WORK_COUNT; i++)
		cost_read(&inner, plan_works[i].name, 2, &out->works[i]);
	fields_end(&inner);
	enter(&inner, &top, "idle");
	for (int i = 0; i < PLAN_IDLE_COUNT; i++)
		cost_read(&inner, plan_idles[i].name, 2, &out->idles[i]);
	fields_end(&inner);
	return fields_end(&top);
}

/* ---- prices ---- */

static void price_read(struct fields *region, const char *name, struct arena *a, struct plan_price *out)
{
	struct fields f;

	enter(&f, region, name);
	out->usd = number_read(&f, "usd", PLAN_USD_MAX);
	out->unverified = fields_bool_or(&f, "unverified", false);
	out->source = arena_copy(a, fields_text(&f, "source", PLAN_SOURCE_BYTES_MAX));
	fields_end(&f);
}

static void no_region(struct fields *regions, struct bytes region, struct arena *a)
{
	struct buf names;

	buf_init(&names, a);
	for (const struct json *m = json_children(regions->object); m != NULL; m = m->next) {
		buf_add_bytes(&names, m->name);
		if (m->next != NULL)
			buf_add_bytes(&names, BYTES(", "));
	}
	if (names.len == 0)
		fields_fail(regions, NULL, ERR_INVALID, "must have at least one region");
	else
		err_set(regions->err, ERR_INVALID, "no prices for \"%.*s\"; there are prices for %.*s",
		        BYTES_ARG(region), (int)names.len, names.data);
}

/* Every region is read, so that a mistake in any is told. */
enum err_code plan_prices_read(struct bytes text, struct bytes region, struct arena *a,
                               struct plan_prices *out, struct err *err)
{
	struct fields top, regions, one;
	bool          found = false;

	memset(out, 0, sizeof(*out));
	if (begin(&top, text, a, err) != ERR_NONE)
		return err->code;
	out->dated = fields_text(&top, "dated", DAY_BYTES_MAX);
	enter(&regions, &top, "regions");
	if (!fields_failed(&top) && regions.object->count > PLAN_REGIONS_MAX)
		fields_fail(&regions, NULL, ERR_INVALID, "must have at most %d regions", PLAN_REGIONS_MAX);
	for (const struct json *m = fields_failed(&top) ? NULL : json_children(regions.object); m != NULL;
	     m = m->next) {
		struct plan_prices this = {.dated = out->dated, .region = m->name};

		fields_enter(&one, &regions, m->name, m);
		for (int i = 0; i < PLAN_PRICE_COUNT && !fields_failed(&top); i++)
			price_read(&one, plan_price_kinds[i].name, a, &this.list[i]);
		fields_end(&one);
		if (bytes_equal(m->name, region)) {
			*out = this;
			found = true;
		}
	}
	if (!fields_failed(&top) && !found)
		no_region(&regions, region, a);
	if (!fields_failed(&top))
		fields_get(&top, "regions");
	return fields_end(&top);
}

/* ---- estimates ---- */

enum err_code plan_estimate_read(struct bytes text, struct arena *a, struct plan_estimate *out,
                                 struct err *err)
{
	struct fields top, load, says;

	memset(out, 0, sizeof(*out));
	if (begin(&top, text, a, err) != ERR_NONE)
		return err->code;
	out->title = fields_text(&top, "title", TITLE_BYTES_MAX);
	enter(&load, &top, "load");
	out->items = number_read(&load, "items", LOAD_MAX);
	out->item_bytes = number_read(&load, "item_bytes", PLAN_BYTES_MAX);
	out->writes_per_day = number_read(&load, "writes_per_day", LOAD_MAX);
	out->reads_per_day = number_read(&load, "reads_per_day", LOAD_MAX);
	out->units_per_write = number_or(&load, "units_per_write", PLAN_UNITS_MAX, 1);
	out->units_per_read = number_or(&load, "units_per_read", PLAN_UNITS_MAX, 1);
	fields_end(&load);
	enter(&says, &top, "says");
	for (int i = 0; i < PLAN_CLAIM_COUNT; i++)
		out->says[i] = number_or(&says, plan_claims[i].name, LOAD_MAX * PLAN_BYTES_MAX, -1);
	fields_end(&says);
	return fields_end(&top);
}
