/* Identifiers: what is the same after normalising, what is refused, and that nothing of a value is in its hash. */
#include "service/fixture.h"

struct keyed {
	struct identifier_key key;
	struct arena          arena;
	struct json_reader   *json;
	struct err            err;
};

static void keyed_open(struct keyed *k, uint8_t first)
{
	uint8_t secret[IDENTIFIER_KEY_BYTES] = {first};

	identifier_key_init(&k->key, secret);
	arena_init(&k->arena);
	k->json = json_reader_open();
}

static void keyed_close(struct keyed *k)
{
	json_reader_close(k->json);
	arena_release(&k->arena);
}

static struct bytes hash(struct keyed *k, enum identifier_kind kind, const char *text)
{
	struct bytes out;

	if (!identifier_hash(&k->key, &k->arena, kind, bytes_of(text), &out))
		fail_msg("%s was refused", text);
	return out;
}

static bool same(struct keyed *k, enum identifier_kind kind, const char *a, const char *b)
{
	return bytes_equal(hash(k, kind, a), hash(k, kind, b));
}

static void refused(struct keyed *k, enum identifier_kind kind, const char *text)
{
	struct bytes out;

	if (identifier_hash(&k->key, &k->arena, kind, bytes_of(text), &out))
		fail_msg("%s was taken", text);
}

/* ---- normalising ---- */

TEST(identifiers, an_email_address_is_the_same_in_capitals_and_with_spaces_around_it)
{
	struct keyed k;

	keyed_open(&k, 1);
	assert_true(same(&k, IDENTIFIER_EMAIL, "bob@example.org", "  Bob@EXAMPLE.org\t"));
	assert_false(same(&k, IDENTIFIER_EMAIL, "bob@example.org", "bob+tag@example.org"));
	assert_false(same(&k, IDENTIFIER_EMAIL, "bob@example.org", "b.ob@example.org"));
	hash(&k, IDENTIFIER_EMAIL, "søren@example.org");
	static const char *const bad[] = {"",       " ", "bob", "@example.org", "bob@", "bo b@example.org",
	                                  "bob@\n", "@"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		refused(&k, IDENTIFIER_EMAIL, bad[i]);
	keyed_close(&k);
}

TEST(identifiers, one_mailbox_has_one_hash_however_its_letters_are_written)
{
	static const char *const alike[][2] = {
	        {"s\u00f8ren@example.org", "S\u00d8REN@EXAMPLE.org"},
	        {"ren\u00e9@example.org", "rene\u0301@example.org"}, /* composed, or not */
	        {"stra\u00dfe@example.org", "STRASSE@example.org"},  /* folded in full */
	        {"\u1f80@example.org", "\u1f00\u03b9@example.org"},
	        {"\u03c3\u03c2@example.org", "\u03a3\u03a3@example.org"},
	        {"k@example.org", "\u212a@example.org"}, /* the sign for kelvin */
	        {"ann@b\u00fccher.example", "ann@xn--bcher-kva.example"},
	        {"ann@b\u00fccher.example", "ANN@BU\u0308CHER.EXAMPLE"},
	        {"ann@fa\u00df.example", "ann@xn--fa-hia.example"},
	        {"ann@example.org", "ann@\uff45xample\u3002org"}, /* wide letters, an ideographic stop */
	        {" ann@b\u00fccher.example\t", "ann@b\u00fccher.example"},
	};
	static const char *const apart[][2] = {
	        {"ren\u00e9@example.org", "rene@example.org"},
	        {"\u0131@example.org", "i@example.org"}, /* without its dot it is another letter */
	        {"r.en\u00e9@example.org", "ren\u00e9@example.org"},
	        {"ren\u00e9+tag@example.org", "ren\u00e9@example.org"},
	        {"ann@fa\u00df.example", "ann@fass.example"},
	        {"\uff41nn@example.org",
	         "ann@example.org"}, /* before the @ wide letters are letters of their own */
	};
	struct keyed k;

	keyed_open(&k, 1);
	for (size_t i = 0; i < sizeof(alike) / sizeof(alike[0]); i++)
		if (!same(&k, IDENTIFIER_EMAIL, alike[i][0], alike[i][1]))
			fail_msg("%s and %s are one mailbox", alike[i][0], alike[i][1]);
	for (size_t i = 0; i < sizeof(apart) / sizeof(apart[0]); i++)
		if (same(&k, IDENTIFIER_EMAIL, apart[i][0], apart[i][1]))
			fail_msg("%s and %s are two mailboxes", apart[i][0], apart[i][1]);
	keyed_close(&k);
}

TEST(identifiers, an_address_that_is_not_utf_8_or_has_no_such_host_is_refused)
{
	static const char *const bad[] = {"ren\xe9@example.org",       "a\xc0\xaf@example.org",
	                                  "a\xed\xa0\x80@example.org", "ann@b\u00fccher..example",
	                                  "ann@.b\u00fccher",          "ann@b\u00fc\uff20cher.example",
	                                  "ann@b\u00fc/cher.example",  "ann@\u3002",
	                                  "\u00e9 @example.org",       "ann@\u200d.example",
	                                  "@b\u00fccher.example",      "\u00e9@"};
	struct keyed             k;

	keyed_open(&k, 1);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		refused(&k, IDENTIFIER_EMAIL, bad[i]);
	keyed_close(&k);
}

TEST(identifiers, a_host_is_the_same_with_the_dot_of_the_root)
{
	struct keyed k;

	keyed_open(&k, 1);
	assert_true(same(&k, IDENTIFIER_EMAIL, "ann@example.org.", "ann@example.org"));
	assert_true(same(&k, IDENTIFIER_EMAIL, "ann@b\u00fccher.example.", "ann@b\u00fccher.example"));
	assert_true(
	        same(&k, IDENTIFIER_EMAIL, "ann@b\u00fccher.example\u3002", "ann@xn--bcher-kva.example."));
	assert_false(same(&k, IDENTIFIER_EMAIL, "ann.@example.org", "ann@example.org"));
	keyed_close(&k);
}

TEST(identifiers, a_phone_number_is_one_text_and_any_other_way_to_write_it_is_refused)
{
	static const char *const bad[] = {"",
	                                  "+",
	                                  "12",
	                                  "+1+2345",
	                                  "12345x",
	                                  "٠١٢٣٤٥",
	                                  "- -",
	                                  "00442079460958",
	                                  "+44 (0)20 7946 0958",
	                                  "+44 20 7946 0958",
	                                  "020.7946.0958",
	                                  "442079460958",
	                                  "+02079460958",
	                                  "+123456",
	                                  "+1234567890123456"};
	struct keyed             k;

	keyed_open(&k, 1);
	assert_true(same(&k, IDENTIFIER_PHONE, "+442079460958", "+442079460958"));
	assert_false(same(&k, IDENTIFIER_PHONE, "+442079460958", "+442079460959"));
	assert_true(same(&k, IDENTIFIER_PHONE, "+1234567", "+1234567"));
	assert_true(same(&k, IDENTIFIER_PHONE, "+123456789012345", "+123456789012345"));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		refused(&k, IDENTIFIER_PHONE, bad[i]);
	keyed_close(&k);
}

TEST(identifiers, of_an_ipv6_address_the_network_of_64_bits_counts)
{
	struct keyed k;

	keyed_open(&k, 1);
	assert_true(same(&k, IDENTIFIER_IP, "2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff"));
	assert_false(same(&k, IDENTIFIER_IP, "2001:db8:1:2::1", "2001:db8:1:3::1"));
	assert_false(same(&k, IDENTIFIER_IP, "192.0.2.1", "192.0.2.2"));
	keyed_close(&k);
}

TEST(identifiers, an_address_is_the_same_however_it_is_written)
{
	struct keyed k;

	keyed_open(&k, 1);
	assert_true(same(&k, IDENTIFIER_IP, "192.0.2.1", "::ffff:192.0.2.1"));
	assert_true(same(&k, IDENTIFIER_IP, "2001:db8::1", "2001:0DB8:0:0:0:0:0:1"));
	assert_false(same(&k, IDENTIFIER_IP, "192.0.2.1", "192.0.2.2"));
	static const char *const bad[] = {"",
	                                  "192.0.2",
	                                  "192.0.2.256",
	                                  "1.2.3.4 ",
	                                  "localhost",
	                                  ":",
	                                  "2001:db8::g",
	                                  "192.0.2.1/24",
	                                  "0x7f.1",
	                                  "1.2.3.4.5",
	                                  "00000000000000000000000000000000000000000000000001.2.3.4"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		refused(&k, IDENTIFIER_IP, bad[i]);
	keyed_close(&k);
}

TEST(identifiers, a_device_is_compared_byte_by_byte)
{
	struct keyed k;

	keyed_open(&k, 1);
	assert_false(same(&k, IDENTIFIER_DEVICE, "Device-1", "device-1"));
	assert_true(same(&k, IDENTIFIER_DEVICE, "d", "d"));
	keyed_close(&k);
}

TEST(identifiers, may_be_as_long_as_their_bounds_and_no_longer)
{
	struct keyed k;
	char         text[512];
	struct bytes out;

	keyed_open(&k, 1);
	memset(text, '1', sizeof(text));
	assert_true(identifier_hash(&k.key, &k.arena, IDENTIFIER_DEVICE,
	                            (struct bytes){text, IDENTIFIER_DEVICE_MAX}, &out));
	assert_false(identifier_hash(&k.key, &k.arena, IDENTIFIER_DEVICE,
	                             (struct bytes){text, IDENTIFIER_DEVICE_MAX + 1}, &out));
	keyed_close(&k);
}

/* Rows of users whose addresses are refused by now are still found under the hash that they were stored under. */
TEST(identifiers, an_address_of_a_row_has_its_hash_also_if_it_is_refused_by_now)
{
	struct keyed k;
	struct bytes list, one, as_before;

	keyed_open(&k, 1);
	list = identifier_of_row_email(&k.key, &k.arena, BYTES("a@evil.org,x@corp.example"));
	one = identifier_of_row_email(&k.key, &k.arena, BYTES("Bob@example.org"));
	as_before = arena_printf(&k.arena, "email:%.*s",
	                         BYTES_ARG(identifier_hash_text(&k.key, &k.arena, "email",
	                                                        BYTES("a@evil.org,x@corp.example"))));
	assert_true(bytes_equal(list, as_before));
	assert_true(bytes_equal(one, hash(&k, IDENTIFIER_EMAIL, "bob@example.org")));
	keyed_close(&k);
}

/* ---- hashing ---- */

TEST(identifiers, a_hash_has_its_kind_its_length_and_depends_on_kind_and_key)
{
	struct keyed k, other;
	struct bytes phone, device;

	keyed_open(&k, 1);
	keyed_open(&other, 2);
	phone = hash(&k, IDENTIFIER_PHONE, "+12345678");
	device = hash(&k, IDENTIFIER_DEVICE, "+12345678");
	assert_int_equal(phone.len, strlen("phone:") + IDENTIFIER_HASH_CHARS);
	assert_true(bytes_starts_with(phone, BYTES("phone:")));
	assert_memory_not_equal(phone.data + 6, device.data + 7, IDENTIFIER_HASH_CHARS);
	assert_false(bytes_equal(phone, hash(&other, IDENTIFIER_PHONE, "+12345678")));
	for (size_t i = 6; i < phone.len; i++)
		assert_non_null(memchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
		                       phone.data[i], 64));
	keyed_close(&other);
	keyed_close(&k);
}

/* HMAC-SHA-256 of "email:bob@example.org" under a key of 32 bytes 01 00 … 00, its first 24 bytes; computed with
 * another program. Stored rows depend on it. */
TEST(identifiers, the_hash_is_the_one_that_rows_were_stored_under)
{
	struct keyed k;

	keyed_open(&k, 1);
	assert_bytes(hash(&k, IDENTIFIER_EMAIL, "Bob@example.org"), "email:pz3dWf1yNp9C-JQy-wtKQBLwfSO20bVA");
	assert_bytes(hash(&k, IDENTIFIER_IP, "192.0.2.1"), "ip:jy9S6Re3kLDcKIfZm6BD9xvgIgb9TZQ8");
	keyed_close(&k);
}

/* ---- reading ---- */

static struct bytes read_member(struct keyed *k, const char *json)
{
	struct fields f;
	struct json  *tree;
	struct bytes  out;

	assert_int_equal(json_read(k->json, &k->arena, bytes_of(json), &tree, &k->err), ERR_NONE);
	fields_init(&f, tree, &k->err);
	out = identifier_read(&k->key, &k->arena, &f, "subject", fields_get(&f, "subject"));
	fields_end(&f);
	return out;
}

TEST(identifiers, a_plain_id_is_kept_and_a_personal_one_is_hashed)
{
	struct keyed k;
	struct bytes id;

	keyed_open(&k, 1);
	assert_bytes(read_member(&k, "{\"subject\":\"alice\"}"), "alice");
	assert_int_equal(k.err.code, ERR_NONE);
	id = read_member(&k, "{\"subject\":{\"email\":\"BOB@example.org\"}}");
	assert_int_equal(k.err.code, ERR_NONE);
	assert_true(bytes_equal(id, hash(&k, IDENTIFIER_EMAIL, "bob@example.org")));
	id = arena_printf(&k.arena, "{\"subject\":\"%.*s\"}", BYTES_ARG(id));
	assert_true(bytes_equal(read_member(&k, id.data), hash(&k, IDENTIFIER_EMAIL, "bob@example.org")));
	keyed_close(&k);
}

TEST(identifiers, a_refusal_names_the_field_and_never_the_value)
{
	static const struct {
		const char   *json, *text;
		enum err_code code;
	} cases[] = {
	        {"{}", "subject: missing", ERR_INVALID},
	        {"{\"subject\":null}", "subject: missing", ERR_INVALID},
	        {"{\"subject\":7}", "subject: must be a string or an object, not a number",
	         ERR_SERIALIZATION},
	        {"{\"subject\":[]}", "subject: must be a string or an object, not an array",
	         ERR_SERIALIZATION},
	        {"{\"subject\":\"\"}", "subject: must have 1 to 256 bytes, not 0", ERR_INVALID},
	        {"{\"subject\":\"email:bob@example.org\"}",
	         "subject: must be an object like {\"email\": …}, because it is a personal value",
	         ERR_INVALID},
	        {"{\"subject\":\"ip:\"}",
	         "subject: must be an object like {\"email\": …}, because it is a personal value",
	         ERR_INVALID},
	        {"{\"subject\":{\"email\":\"bob\"}}", "subject: not a valid email", ERR_INVALID},
	        {"{\"subject\":{\"email\":7}}", "subject: not a valid email", ERR_INVALID},
	        {"{\"subject\":{\"ip\":\"bob@example.org\"}}", "subject: not a valid ip", ERR_INVALID},
	        {"{\"subject\":{}}",
	         "subject: must be an id, or an object with exactly one member: email, phone, ip or device",
	         ERR_INVALID},
	        {"{\"subject\":{\"email\":\"a@b\",\"ip\":\"::\"}}",
	         "subject: must be an id, or an object with exactly one member: email, phone, ip or device",
	         ERR_INVALID},
	        {"{\"subject\":{\"bob@example.org\":1}}",
	         "subject: must be an id, or an object with exactly one member: email, phone, ip or device",
	         ERR_INVALID},
	};
	struct keyed k;

	keyed_open(&k, 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		read_member(&k, cases[i].json);
		assert_int_equal(k.err.code, cases[i].code);
		assert_string_equal(k.err.text, cases[i].text);
		assert_string_equal(k.err.field, "subject");
	}
	keyed_close(&k);
}

TEST(identifiers, the_name_of_an_erased_subject_is_taken_for_the_past_only)
{
	static const char *const names[] = {"erased:", "erased:bob",
	                                    "erased:aSd85x3yrqbE291NuSmv652yPTg_Uyyy"};
	struct keyed             k;

	keyed_open(&k, 1);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct json   member = json_of_text(bytes_of(names[i]));
		struct fields f = {.err = &k.err};

		k.err.code = ERR_NONE;
		assert_bytes(identifier_read_past(&k.key, &k.arena, &f, "subject", &member), names[i]);
		assert_int_equal(k.err.code, ERR_NONE);
		identifier_read(&k.key, &k.arena, &f, "subject", &member);
		assert_int_equal(k.err.code, ERR_INVALID);
		assert_string_equal(k.err.text,
		                    "subject: must not begin with erased:, which is how Gatehouse "
		                    "names subjects that were erased");
	}
	assert_bytes(read_member(&k, "{\"subject\":\"erased\"}"), "erased");
	assert_int_equal(k.err.code, ERR_NONE);
	keyed_close(&k);
}

/* Reads the text as a plain id; it must be refused as one of that kind, or taken (NULL). */
static void face_is(struct keyed *k, const char *text, bool method, const char *kind)
{
	struct json   member = json_of_text(bytes_of(text));
	struct fields f = {.err = &k->err};
	struct bytes  advice = arena_printf(&k->arena, "send {\"%s\": …}", kind == NULL ? "" : kind);

	k->err.code = ERR_NONE;
	(method ? identifier_read_method : identifier_read)(&k->key, &k->arena, &f, "id", &member);
	if ((kind == NULL) != (k->err.code == ERR_NONE))
		fail_msg("%s, method %d: %s", text, method, kind == NULL ? k->err.text : "taken");
	if (kind != NULL && strstr(k->err.text, advice.data) == NULL)
		fail_msg("%s, method %d: %s", text, method, k->err.text);
}

TEST(identifiers, a_plain_id_that_is_personal_on_its_face_is_refused)
{
	static const struct {
		const char *text, *subject, *method; /* what it is taken for; NULL: a plain id */
	} cases[] = {
	        {"ann@example.org", "email", "email"},
	        {"@", "email", "email"},
	        {"+44 7700 900123", "phone", "phone"},
	        {"(020) 7946-0958", "phone", "phone"},
	        {"07700900123", "phone", "phone"},
	        {"123-4567", "phone", "phone"},
	        {"+1234567", "phone", "phone"},
	        {"7700900123", NULL, "phone"}, /* a user's number, or a phone's */
	        {"1234567", NULL, "phone"},
	        {"123456", NULL, NULL},
	        {"123456789012345", NULL, "phone"},
	        {"1234567890123456", NULL, NULL}, /* longer than any phone number */
	        {"0123456789012345", NULL, NULL},
	        {"192.0.2.1", "ip", "ip"},
	        {"2001:db8::1", "ip", "ip"},
	        {"phone-1", NULL, NULL},
	        {"user-7700900123", NULL, NULL},
	        {"4f9c2d11-0000-4000-8000-000000000000", NULL, NULL},
	        {"auth0|12345678", NULL, NULL},
	};
	struct keyed k;

	keyed_open(&k, 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct json   member = json_of_text(bytes_of(cases[i].text));
		struct fields f = {.err = &k.err};

		face_is(&k, cases[i].text, false, cases[i].subject);
		face_is(&k, cases[i].text, true, cases[i].method);
		k.err.code = ERR_NONE;
		identifier_read_key(&k.key, &k.arena, &f, "key", &member); /* rows of an old limiter */
		assert_int_equal(k.err.code, ERR_NONE);
	}
	keyed_close(&k);
}

TEST(identifiers, a_plain_id_may_have_256_bytes_and_no_more)
{
	struct keyed k;
	char         body[512];

	keyed_open(&k, 1);
	snprintf(body, sizeof(body), "{\"subject\":\"%0256d\"}", 0);
	assert_int_equal(read_member(&k, body).len, 256);
	assert_int_equal(k.err.code, ERR_NONE);
	snprintf(body, sizeof(body), "{\"subject\":\"%0257d\"}", 0);
	read_member(&k, body);
	assert_string_equal(k.err.text, "subject: must have 1 to 256 bytes, not 257");
	keyed_close(&k);
}

/* ---- key names ---- */

static void splits(struct arena *a, const char *sk, const char *journey, const char *type, const char *name,
                   const char *qualifier)
{
	struct key_parts p = key_split(bytes_of(sk));

	assert_bytes(p.journey, journey);
	assert_bytes(p.type, type);
	assert_bytes(p.classifier, name);
	assert_bytes(p.qualifier, qualifier);
	if (name[0] != '\0')
		assert_bytes(key_name(a, p.journey, p.type, p.classifier, p.qualifier), sk);
}

TEST(key_names, are_put_together_and_taken_apart)
{
	struct arena a;

	arena_init(&a);
	splits(&a, "SIGN_IN#ERROR_COUNT#PASSWORD_ENTRY", "SIGN_IN", "ERROR_COUNT", "PASSWORD_ENTRY", "");
	splits(&a, "SIGN_IN#ERROR_COUNT#MFA_CODE_ENTRY#SMS", "SIGN_IN", "ERROR_COUNT", "MFA_CODE_ENTRY",
	       "SMS");
	splits(&a, "A#B#C#d#e", "A", "B", "C", "d#e"); /* only others write such a key */
	splits(&a, "A", "A", "", "", "");
	splits(&a, "", "", "", "", "");
	splits(&a, "##", "", "", "", "");
	assert_int_equal(key_split((struct bytes){NULL, 0}).qualifier.len,
	                 0); /* a prefix that was not sent */
	assert_bytes(key_device(&a, BYTES("x")), "DEVICE#COOKIE#x");
	assert_bytes(key_state(&a, KEY_INTERVENTION, "BLOCKED"), "ACCOUNT_INTERVENTION#STATE#BLOCKED");
	arena_release(&a);
}

TEST(key_names, a_key_is_under_its_name_with_or_without_a_qualifier_and_under_no_other)
{
	assert_true(key_is_under(BYTES("A#B#C"), BYTES("A#B#C")));
	assert_true(key_is_under(BYTES("A#B#C#d"), BYTES("A#B#C")));
	assert_false(key_is_under(BYTES("A#B#CD"), BYTES("A#B#C")));
	assert_false(key_is_under(BYTES("A#B"), BYTES("A#B#C")));
	assert_false(key_is_under(BYTES(""), BYTES("A#B#C")));
}
