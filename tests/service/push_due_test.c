/* When registrations of devices lapse: device.expired, once, in order, and only of what lapsed. The numbers are those of push_due.h. */
#include "service/push_devices.h"

#include "service/event.h"
#include "service/push_due.h"

enum { LIFE_S = PUSH_DEVICE_LIFE_S };

static void open_all_on(struct service *s)
{
	service_open(s, NULL);
	s->all.events.on = EVENT_ALL & ~event_types_of(BYTES("attempt.*"));
}

static struct table_query_result rows_like(struct service *s, const char *partition)
{
	return fixture_ok(&s->f, "Scan",
	                  arena_printf(
	                          &s->f.arena,
	                          "{'TableName':'gatehouse-events','FilterExpression':'begins_with(PK, :p)',"
	                          "'ExpressionAttributeValues':{':p':{'S':'%s'}}}",
	                          partition)
	                          .data)
	        .query;
}

static uint32_t dues(struct service *s)
{
	return rows_like(s, "DUE#").count;
}

/* What was published, by its last word: "registered expired". */
static const char *story(struct service *s)
{
	struct table_query_result log = rows_like(s, "LOG#");
	struct buf                out;

	buf_init(&out, &s->f.arena);
	for (uint32_t i = 0; i < log.count; i++) {
		struct bytes type = row_text(&log.items[i], "type");

		assert_true(bytes_starts_with(type, BYTES("device.")));
		buf_add_bytes(&out, i == 0 ? BYTES("") : BYTES(" "));
		buf_add_bytes(&out, (struct bytes){type.data + 7, type.len - 7});
	}
	buf_add_byte(&out, '\0');
	return out.data;
}

/* ---- the worker ---- */

struct telling {
	struct turn turn;
	struct due  due;
	bool        told;
};

static enum err_code tell_run(struct turn *turn, struct err *err)
{
	struct telling *t = (struct telling *)turn;

	return push_due_tell(&turn->ctx, &t->due, &t->told, err);
}

struct reading {
	struct turn       turn;
	struct due_places places;
	struct due_page   page;
};

static enum err_code read_run(struct turn *turn, struct err *err)
{
	struct reading *r = (struct reading *)turn;

	return dues_read(&turn->ctx, 0, &r->places, &r->page, err);
}

/* How many were published. */
static uint32_t tell_all(struct service *s)
{
	struct reading *r = arena_zalloc(&s->f.arena, sizeof(*r));
	uint32_t        told = 0;

	turn_take(s, &r->turn, read_run);
	for (uint32_t i = 0; i < r->page.count; i++) {
		struct telling t = {.due = r->page.list[i]};

		turn_take(s, &t.turn, tell_run);
		told += t.told;
	}
	return told;
}

/* ---- what lapses ---- */

TEST(push_due, a_registration_that_lapses_is_published_once_with_device_and_platform)
{
	struct service            s;
	struct table_query_result log;
	const struct item        *data;

	open_all_on(&s);
	enrolled(&s, "ann", "phone", TOKEN("a"));
	assert_int_equal(dues(&s), 1);
	at(&s, LIFE_S - 1);
	assert_int_equal(tell_all(&s), 0);
	at(&s, LIFE_S);
	assert_int_equal(tell_all(&s), 1);
	assert_int_equal(tell_all(&s), 0);
	assert_string_equal(story(&s), "registered expired");
	assert_int_equal(dues(&s), 0);
	log = rows_like(&s, "LOG#");
	data = &item_get(&log.items[1], BYTES("data"))->map;
	assert_true(bytes_is(row_text(&log.items[1], "subject"), "ann"));
	assert_true(bytes_is(row_text(data, "deviceId"), "phone") &&
	            bytes_is(row_text(data, "platform"), "ios"));
	service_close(&s);
}

TEST(push_due, a_registration_that_is_extended_moves_its_due_row_only_when_that_is_due_1)
{
	struct service s;

	open_all_on(&s);
	enrolled(&s, "ann", "phone", TOKEN("a"));
	for (int day = 1; day <= 60; day += 20) {
		at(&s, day * 86400);
		enrolled(&s, "ann", "phone", TOKEN("a"));
		assert_int_equal(dues(&s), 1);
	}
	at(&s, LIFE_S);
	assert_int_equal(tell_all(&s), 0);
	assert_int_equal(dues(&s), 1);
	assert_true(is_there(&s, "ann", "phone"));
	at(&s, 41 * 86400 + LIFE_S - 1);
	assert_int_equal(tell_all(&s), 0);
	at(&s, 41 * 86400 + LIFE_S);
	assert_int_equal(tell_all(&s), 1);
	assert_string_equal(story(&s), "registered expired");
	service_close(&s);
}

TEST(push_due, what_is_removed_moved_or_erased_does_not_lapse_2)
{
	struct service s;
	struct call    c = {.ref = {BYTES("cat"), BYTES("")}};

	open_all_on(&s);
	enrolled(&s, "ann", "phone", TOKEN("a"));
	enrolled(&s, "bob", "phone", TOKEN("b"));
	enrolled(&s, "cat", "phone", TOKEN("c"));
	enrolled(&s, "cat", "tablet", TOKEN("d"));
	assert_int_equal(dues(&s), 4);
	ended(&s, "ann", "phone", take_away);
	enrolled(&s, "dan", "phone", TOKEN("b")); /* bob's is moved */
	turn_take(&s, &c.turn, erase);
	assert_int_equal(dues(&s), 1);
	at(&s, LIFE_S);
	assert_int_equal(tell_all(&s), 1); /* dan's */
	service_close(&s);
}

TEST(push_due, a_device_that_is_registered_anew_before_its_end_was_published_lapsed_first_3)
{
	struct service s;

	open_all_on(&s);
	enrolled(&s, "ann", "phone", TOKEN("a"));
	at(&s, LIFE_S + 5);
	assert_true(enrolled(&s, "ann", "phone", TOKEN("a")).created);
	assert_int_equal(tell_all(&s), 0);
	assert_string_equal(story(&s), "registered expired registered");
	assert_int_equal(dues(&s), 1);
	service_close(&s);
}

TEST(push_due, a_device_without_a_due_row_gets_one_with_its_next_registration_1)
{
	struct service s;

	open_all_on(&s);
	s.all.events.on &= ~EVENT_BIT(EVENT_DEVICE_EXPIRED);
	enrolled(&s, "ann", "phone", TOKEN("a"));
	assert_int_equal(dues(&s), 0);
	s.all.events.on |= EVENT_BIT(EVENT_DEVICE_EXPIRED);
	at(&s, 10);
	enrolled(&s, "ann", "phone", TOKEN("a"));
	assert_int_equal(dues(&s), 1);
	s.all.events.on &=
	        ~EVENT_BIT(EVENT_DEVICE_EXPIRED); /* off when it lapses: nothing is published, also later */
	at(&s, 10 + LIFE_S);
	tell_all(&s);
	assert_int_equal(dues(&s), 0);
	assert_string_equal(story(&s), "registered");
	service_close(&s);
}

/* Others write rows as the document does: whole, without what is ours. */
TEST(push_due, rows_that_others_write_are_followed_and_two_due_rows_are_one_event)
{
	struct service s;

	open_all_on(&s);
	enrolled(&s, "ann", "phone", TOKEN("a"));
	put_literally(&s,
	              arena_printf(&s.f.arena,
	                           "{'userId':{'S':'ann'},'deviceId':{'S':'phone'},'platform':{'S':'ios'},"
	                           "'isActive':{'BOOL':true},'expoPushToken':{'S':'" TOKEN(
	                                   "a") "'},"
	                                        "'expiresAt':{'N':'%lld'}}",
	                           (long long)START_S + 2 * LIFE_S)
	                      .data);
	at(&s, LIFE_S - 10);
	enrolled(&s, "ann", "phone", TOKEN("a")); /* it has a second one now */
	assert_int_equal(dues(&s), 2);
	at(&s, LIFE_S);
	assert_int_equal(tell_all(&s), 0);
	assert_int_equal(dues(&s), 1);
	at(&s, 2 * LIFE_S);
	assert_int_equal(tell_all(&s), 1);
	assert_string_equal(story(&s), "registered expired");
	service_close(&s);
}
