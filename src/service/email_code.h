/* Codes that prove addresses: how they are made, kept and compared, and the attempts that count them.
 *
 * A request for a code is an attempt of outcome `sent`, an entry of one is a failure or a success. Each is recorded in the
 * commit of what it is about, under rules that the policies of users name:
 *
 *   requests_of_user      subject: the user      one user does not ask for codes without end
 *   requests_of_address   subject: the address   many users do not flood one mailbox
 *   entries_of_user       subject: the user      a new code gives no new guesses
 *
 * What always holds
 * (1) A request or an entry that something stands against changes nothing: nothing is counted, no code is written.
 * (2) The request that reaches a maximum sets the lock, and gets no code.
 * (3) An entry is counted before its code is told right or wrong.
 * (4) Where a call comes from is counted as it is of attempts, if it says so: these rules skip sources that are not known.
 * Why these subjects: docs/decisions/022-who-is-counted-for-a-code.md. */
#ifndef SERVICE_EMAIL_CODE_H
#define SERVICE_EMAIL_CODE_H

#include "service/context.h"
#include "service/user_policy.h"

struct attempt;

/* On which terms an address is added or verified. NULL instead of one: as a service does it that has its own proof. Nothing
 * is counted, and what ships holds. */
struct email_terms {
	const struct rules       *rules; /* of attempts */
	const struct attempt     *from;  /* its source, its device, its risk (assess.h); NULL: not said */
	const struct user_policy *policy;
	bool                      neutral; /* the caller must not learn whether an address is taken */
};

const struct user_policy *email_policy(const struct email_terms *terms);

/* What was counted, for metrics. */
enum { CODE_COUNTS_MAX = 2 };

struct code_counts {
	struct {
		const struct rule *rule;
		enum verdict_kind  kind, shadow;
		bool               locked;
		enum outcome       outcome;
	} list[CODE_COUNTS_MAX];
	uint32_t count;
};

struct code_standing {
	bool               refused; /* (1), (2): the verdict is the answer */
	struct verdict     verdict;
	struct code_counts counts;
};

/* Whose code it is. */
struct code_subject {
	struct bytes user, email;
};

/* Can codes be counted under these policies? ERR_NOT_NOW: the rules lack a type that the policies of users name. */
enum err_code code_rules_check(const struct rules *rules, const struct user_policy *p, struct err *err);

/* ERR_NOT_NOW: the policies for attempts have no such rule. */
enum err_code code_request_count(struct context *ctx, const struct email_terms *terms,
                                 const struct code_subject *who, struct code_standing *out, struct err *err);

/* What an entry was. */
struct code_entry {
	struct code_subject who;
	bool                right;
};

enum err_code code_entry_count(struct context *ctx, const struct email_terms *terms,
                               const struct code_entry *entry, struct code_standing *out, struct err *err);

/* ---- the code itself ---- */

struct code {
	char   text[EMAIL_CODE_CHARS_MAX];
	size_t len;
};

static inline struct bytes code_bytes(const struct code *c)
{
	return (struct bytes){c->text, c->len};
}

void code_make(struct context *ctx, uint32_t chars, struct code *out);

/* Sets what a row keeps of it: a keyed hash, which is another one for another address. */
struct code_kept {
	struct bytes email_id;
	int64_t      ends_s;
};

void code_keep(struct context *ctx, struct row *row, const struct code *code, const struct code_kept *kept);
void code_drop(struct row *row);

/* Is there one in the row that still works? */
bool code_is_kept(struct context *ctx, const struct item *row);

/* Is it that one? As people type it: small letters, O for 0, I and L for 1. */
bool code_matches(struct context *ctx, const struct item *row, struct bytes email_id, struct bytes typed);

#endif
