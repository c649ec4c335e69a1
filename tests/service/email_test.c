/* Addresses: what is exactly one mailbox, and the one text that stands for it. */
#include "service/email.h"

#include "test.h"

static struct bytes normal(const char *text, char *out)
{
	return (struct bytes){out, email_normalise(bytes_of(text), out)};
}

static void refused(struct bytes text)
{
	char out[EMAIL_NORMAL_BYTES_MAX];

	if (email_normalise(text, out) > 0)
		fail_msg("%.*s was taken for one mailbox", BYTES_ARG(text));
}

static void becomes(const char *text, const char *meant)
{
	char         out[EMAIL_NORMAL_BYTES_MAX], again[EMAIL_NORMAL_BYTES_MAX];
	struct bytes first = normal(text, out);
	struct bytes second = {again, email_normalise(first, again)};

	if (!bytes_is(first, meant))
		fail_msg("%s became %.*s", text, BYTES_ARG(first));
	if (!bytes_equal(first, second))
		fail_msg("%s became %.*s, and then %.*s", text, BYTES_ARG(first), BYTES_ARG(second));
}

TEST(addresses, a_list_a_display_name_a_comment_and_a_route_are_refused)
{
	static const char *const bad[] = {"attacker@evil.org,x@corp.example",
	                                  "attacker@evil.org;x@corp.example",
	                                  "a,b@corp.example",
	                                  "a;b@corp.example",
	                                  "attacker@evil.org x@corp.example",
	                                  "<attacker@evil.org>x@corp.example",
	                                  "Ann <ann@example.org>",
	                                  "<ann@example.org>",
	                                  "ann(a comment)@example.org",
	                                  "ann@example.org(a comment)",
	                                  "group:ann@example.org;",
	                                  "@evil.org:ann@example.org",
	                                  "mailto:ann@example.org",
	                                  "a[b]@example.org",
	                                  "a\\b@example.org",
	                                  "a\"b@example.org",
	                                  "\"a\"b@example.org",
	                                  "\"a\".b@example.org",
	                                  "ann@evil.org@corp.example",
	                                  "ann@evil.org,corp.example",
	                                  "ann@corp.example>",
	                                  "ann@[192.0.2.1]",
	                                  "ann@192.0.2.1",
	                                  "ann@300"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		refused(bytes_of(bad[i]));
}

/* Mail libraries have taken the address in the quotes for the recipient. */
TEST(addresses, a_second_at_sign_is_refused_in_quotes_too)
{
	refused(BYTES("\"attacker@evil.org x\"@corp.example"));
	refused(BYTES("\"attacker@evil.org,\"@corp.example"));
	refused(BYTES("\"a\\@b\"@corp.example"));
	refused(BYTES("\"\uff20\"@corp.example"));
}

TEST(addresses, characters_that_are_not_shown_are_refused_wherever_they_stand)
{
	static const char *const hidden[] = {"\u200b",     "\u200d", "\u202e",   "\u00ad", "\ufeff",
	                                     "\u2028",     "\u00a0", "\xc2\x85", "\ufe0f", "\u3164",
	                                     "\U000e0041", "\ue000", "\u034f"};
	static const char *const around[][2] = {{"a", "b@example.org"}, {"ann@exa", "mple.org"}};
	char                     text[64];

	for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++)
		for (size_t j = 0; j < 2; j++) {
			snprintf(text, sizeof(text), "%s%s%s", around[j][0], hidden[i], around[j][1]);
			refused(bytes_of(text));
		}
	for (int c = 0; c < ' '; c++) {
		char control[] = "a?n@example.org", quoted[] = "\"a?n\"@example.org",
		     host[] = "ann@ex?mple.org";

		control[1] = quoted[2] = host[6] = (char)c;
		refused((struct bytes){control, sizeof(control) - 1});
		refused((struct bytes){quoted, sizeof(quoted) - 1});
		refused((struct bytes){host, sizeof(host) - 1});
	}
	refused(BYTES("a\x7f@example.org"));
}

/* A library that normalises would find a list in it. */
TEST(addresses, letters_that_become_a_separator_are_refused)
{
	refused(BYTES("a\u037eb@example.org")); /* the Greek question mark is a semicolon */
	refused(BYTES("a\uff0cb@example.org"));
	refused(BYTES("a\uff20evil.org\uff0c@example.org"));
	refused(BYTES("a\uff1cb\uff1e@example.org"));
	becomes("\"a\uff0cb\"@example.org", "\"a\uff0cb\"@example.org");
}

TEST(addresses, a_host_has_labels_of_letters_digits_and_hyphens)
{
	static const char *const bad[] = {"ann@.",
	                                  "ann@..",
	                                  "ann@example..org",
	                                  "ann@.example.org",
	                                  "ann@example.org..",
	                                  "ann@-example.org",
	                                  "ann@example-.org",
	                                  "ann@exa_mple.org",
	                                  "ann@exa mple.org",
	                                  "ann@exa/mple.org",
	                                  "ann@exa%mple.org",
	                                  "ann@b\u00fccher_.example"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		refused(bytes_of(bad[i]));
	becomes("root@localhost", "root@localhost");
	becomes("ann@1und1.de", "ann@1und1.de");
	becomes("ann@a--b.example", "ann@a--b.example");
}

TEST(addresses, a_local_part_a_label_and_a_host_have_their_maxima)
{
	char text[512], out[EMAIL_NORMAL_BYTES_MAX];

	memset(text, 'a', sizeof(text));
	text[EMAIL_LOCAL_BYTES_MAX] = '@';
	assert_true(email_normalise((struct bytes){text, EMAIL_LOCAL_BYTES_MAX + 2}, out) > 0);
	memset(text, 'a', sizeof(text));
	text[EMAIL_LOCAL_BYTES_MAX + 1] = '@';
	refused((struct bytes){text, EMAIL_LOCAL_BYTES_MAX + 3});
	memset(text, 'a', sizeof(text));
	text[1] = '@';
	assert_true(email_normalise((struct bytes){text, 2 + HOST_LABEL_BYTES_MAX}, out) > 0);
	refused((struct bytes){text, 2 + HOST_LABEL_BYTES_MAX + 1});
	for (size_t i = 2 + 60; i < sizeof(text); i += 61)
		text[i] = '.';
	assert_true(email_normalise((struct bytes){text, 2 + EMAIL_HOST_BYTES_MAX}, out) > 0);
	refused((struct bytes){text, 2 + EMAIL_HOST_BYTES_MAX + 1});
}

/* Some letters are longer folded, some shorter. */
TEST(addresses, a_local_part_has_its_maximum_as_typed_and_as_folded)
{
	char text[256], out[EMAIL_NORMAL_BYTES_MAX];

	for (size_t i = 0; i < 64; i += 2)
		memcpy(text + i, "\u0149", 2);
	memcpy(text + 64, "@b\u00fccher.de", 12);
	refused((struct bytes){text, 75});
	for (size_t i = 0; i < 64; i += 2)
		memcpy(text + i, "\u0390", 2); /* composed again */
	assert_int_equal(email_normalise((struct bytes){text, 75}, out), 64 + 1 + strlen("xn--bcher-kva.de"));
	for (size_t i = 0; i < 66; i += 3)
		memcpy(text + i, "\u212a", 3); /* the sign for kelvin, folded into one byte */
	memcpy(text + 66, "@b\u00fccher.de", 12);
	assert_int_equal(email_normalise((struct bytes){text, 77}, out), 22 + 1 + strlen("xn--bcher-kva.de"));
}

TEST(addresses, a_quoted_local_part_is_the_one_without_quotes_that_it_does_not_need)
{
	becomes("\"Ann\"@Example.org", "ann@example.org");
	becomes("\"a\\nn\"@example.org", "ann@example.org");
	becomes("\"a,b\"@example.org", "\"a,b\"@example.org");
	becomes("\"a b\"@example.org", "\"a b\"@example.org");
	becomes("\"A\\\"\\\\\\,B\"@example.org", "\"a\\\"\\\\,b\"@example.org");
	becomes("\"Stra\u00dfe 1\"@example.org", "\"strasse 1\"@example.org");
	refused(BYTES("\"\"@example.org"));
	refused(BYTES("\"ann@example.org"));
	refused(BYTES("\"ann\\\"@example.org"));
}

/* (1) of email.h: rows were stored under that. */
TEST(addresses, what_is_one_mailbox_in_ascii_is_itself_in_small_letters)
{
	becomes(" Ann.Lee+Tag@Example.ORG.\t", "ann.lee+tag@example.org");
	becomes("a..b.@docomo.example", "a..b.@docomo.example");
	becomes("!#$%&'*+-/=?^_`{|}~@example.org", "!#$%&'*+-/=?^_`{|}~@example.org");
}

TEST(addresses, mail_goes_to_the_address_as_it_was_typed)
{
	assert_bytes(email_as_typed(BYTES("  Stra\u00dfe@Example.org. ")), "Stra\u00dfe@Example.org");
	assert_bytes(email_typed_beside(BYTES("Ann@example.org"), BYTES("ann@example.org")),
	             "Ann@example.org");
	assert_int_equal(email_typed_beside(BYTES(" ann@example.org."), BYTES("ann@example.org")).len, 0);
}

/* A library that ends texts at a NUL would see another host: "z-z.org". */
TEST(addresses, nothing_hides_behind_a_nul)
{
	static const char hidden[] = "ann@z-z.org\0h\xcd\xbe";
	char              out[EMAIL_NORMAL_BYTES_MAX];

	assert_int_equal(email_normalise((struct bytes){hidden, sizeof(hidden) - 1}, out), 0);
	assert_int_equal(email_normalise((struct bytes){hidden, strlen(hidden) + 1}, out), 0);
	assert_int_equal(email_normalise(bytes_of(hidden), out), strlen(hidden));
}
