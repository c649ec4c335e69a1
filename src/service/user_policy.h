/* The policies of users: how many addresses and registered devices a user has, how long a claim and a code live, and which rules of attempts count
 * the requests for codes and their entries. A document (document.h): immutable, counted. */
#ifndef SERVICE_USER_POLICY_H
#define SERVICE_USER_POLICY_H

#include "service/rules.h"

enum {
	USER_EMAILS_MAX = 20, /* unless set; so with the next ones */
	USER_DEVICES_MAX = 100,
	EMAIL_CLAIM_S = 24 * 3600,
	EMAIL_CODE_S = 15 * 60,
	EMAIL_CODE_CHARS = 8, /* 40 bits */
	EMAIL_CODE_TRIES_MAX = 5,

	USER_EMAILS_LIMIT = 100, /* what may be set; so with the next ones */
	USER_DEVICES_LIMIT = 1000,
	EMAIL_CLAIM_S_MIN = 60,
	EMAIL_CLAIM_S_MAX = 366 * 24 * 3600,
	EMAIL_CODE_S_MIN = 30,
	EMAIL_CODE_S_MAX = 24 * 3600,
	EMAIL_CODE_CHARS_MIN = 6, /* 30 bits: with the counts below, years of guessing */
	EMAIL_CODE_CHARS_MAX = 16,
	EMAIL_CODE_TRIES_LIMIT = 20,
};

struct user_policy {
	struct document base;
	uint32_t        emails_max, devices_max;
	int64_t         claim_s, code_s;
	uint32_t        code_chars, code_tries;

	/* Rules of attempts: whose subject is the user; whose subject is the address; whose subject is the user. */
	struct rule_ref requests_of_user, requests_of_address, entries_of_user;
};

/* document_kind's parse. */
enum err_code user_policy_parse(const struct json *tree, struct document **out, struct err *err);

/* For those who are not handed the policies: the numbers that are in force. */
struct user_bounds {
	uint32_t emails_max;
	int64_t  claim_s;
};

struct user_bounds user_bounds_now(struct document_holder *users);

/* What holds where no policies were asked for: the numbers that ship. */
extern const struct user_policy user_policy_usual;

#endif
