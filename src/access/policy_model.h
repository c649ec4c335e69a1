/* Policy model: what a parsed policy is made of, the questions its parts answer, and what the
 * files that read a document share. Private to access/.
 *
 * What always holds of a parsed policy:
 * (1) Lists of actions, resources and operands have at least one element, and a list of conditions is empty
 *     only where the statement had no Condition.
 * (2) Actions are in lower case. Texts under an operator that ignores case are, too.
 * (3) The operands of a condition are of the kind its operator compares; the key is of a type that it may. */
#ifndef ACCESS_POLICY_MODEL_H
#define ACCESS_POLICY_MODEL_H

#include "access/policy.h"
#include "json/json.h"

enum { ARN_PARTS = 6, ARN_SERVICE = 2, ARN_TAIL = ARN_PARTS - 1 };

/* A text in which `*` stands for any characters and `?` for exactly one. */
enum pattern_kind { PATTERN_LITERAL, PATTERN_ANY, PATTERN_PREFIX, PATTERN_GLOB };

struct pattern {
	enum pattern_kind kind;
	struct bytes      text;
	size_t            plain; /* how many bytes come before the first wildcard */
};

/* An ARN, part by part, so that no `*` reaches over a colon into the next. With fewer than ARN_PARTS parts
 * the last one ends in `*` and stands for all that follows. "*" alone has no parts. */
struct resource {
	struct bytes   text;
	bool           literal; /* no wildcard anywhere: the text is compared as a whole */
	unsigned       count;
	struct pattern parts[ARN_PARTS];
};

enum relation_family { FAMILY_TEXT, FAMILY_IP, FAMILY_TRUTH, FAMILY_NUMBER, FAMILY_DATE, FAMILY_NULL };

enum comparison {
	COMPARE_EQUAL,
	COMPARE_FOLDED, /* equal but for the case of ASCII letters */
	COMPARE_LIKE,
	COMPARE_LESS,
	COMPARE_LESS_EQUAL,
	COMPARE_GREATER,
	COMPARE_GREATER_EQUAL,
};

/* A relation is an operator of a condition. A negated one holds for what matches none of its values;
 * `comparison` is the one that is negated. */
struct relation {
	struct bytes         name;
	enum relation_family family;
	enum comparison      comparison;
	bool                 negated;
};

enum { CIDR_BITS = 128, CIDR_BITS_V4 = 96 /* the bits of ::ffff:0:0 */ };

struct cidr {
	struct access_address address; /* zero beyond the bits */
	unsigned              bits;
};

/* Which member counts follows from the operator's family. */
union operand {
	struct pattern text;
	struct cidr    range;
	bool           truth;
	int64_t        micros; /* millionths: of a second since 1970, or of one */
};

enum quantifier { QUANTIFIER_NONE, QUANTIFIER_ALL, QUANTIFIER_ANY };

struct condition {
	enum access_key        key;
	const struct relation *relation;
	enum quantifier        quantifier;
	bool                   if_exists;
	struct bytes           spelled; /* the operator as the document has it */
	union operand         *operands;
	size_t                 operand_count;
};

struct statement {
	struct bytes      sid; /* may be empty */
	bool              allow;
	bool              not_action; /* the list says what it does not apply to */
	bool              not_resource;
	struct pattern   *actions;
	size_t            action_count;
	struct resource  *resources;
	size_t            resource_count;
	struct condition *conditions;
	size_t            condition_count;
};

struct policy {
	struct arena      arena;
	struct statement *statements;
	size_t            statement_count;
	uint32_t          keys; /* a bit for each key that a condition mentions */
};
_Static_assert(ACCESS_KEY_COUNT <= 32, "struct policy has a bit a key");

/* ---- names (policy_eval.c) ---- */

struct access_key_row {
	struct bytes     name;
	enum access_type type;
	unsigned         traits;
};

const struct access_key_row *access_key_row(enum access_key key);

/* ACCESS_KEY_COUNT if there is none of that name. Case does not count. */
enum access_key access_key_find(struct bytes name);

/* NULL if there is none of that name, as it is spelled. */
const struct relation *relation_find(struct bytes name);

bool relation_takes(const struct relation *relation, enum access_type type);

/* Does an action, in lower case, read or write items? */
bool action_touches_items(struct bytes action);

/* ---- matching (policy_pattern.c) ---- */

/* The text must outlive the pattern. */
struct pattern pattern_of(struct bytes text);
bool           pattern_matches(const struct pattern *p, struct bytes text);

/* A text taken apart at its first five colons; count < ARN_PARTS if there are fewer. */
struct arn {
	struct bytes text;
	unsigned     count;
	struct bytes parts[ARN_PARTS];
};

struct arn arn_split(struct bytes text);
bool       resource_matches(const struct resource *r, const struct arn *arn);

/* Could it match a resource that begins with this ARN, which may end within a part? */
bool resource_could_match(const struct resource *r, const struct arn *start);

/* An IPv4 address is in no range wider than all of IPv4: ::/0 means IPv6 only. */
bool cidr_holds(const struct cidr *range, const struct access_address *address);

/* ---- values as text (policy_condition.c) ---- */

bool cidr_parse(struct bytes text, struct cidr *out);
bool truth_parse(struct bytes text, bool *out);
bool decimal_parse(struct bytes text, int64_t *micros);

/* 2024-05-01, 2024-05-01T10:00Z, 2024-05-01T10:00:00.5+02:00, or seconds since 1970. */
bool date_parse(struct bytes text, int64_t *micros);

/* ---- judging (policy_eval.c) ---- */

/* A request, prepared once for all statements. */
struct question {
	const struct access_request *request;
	struct bytes                 action; /* lower case, in `lower` */
	struct arn                   arn;
	char                         lower[ACCESS_ACTION_BYTES_MAX];
};

enum verdict { VERDICT_APPLIES, VERDICT_OTHER_ACTION, VERDICT_OTHER_RESOURCE, VERDICT_CONDITION };

void question_init(struct question *q, const struct access_request *request);

/* What the request says of a key; NULL if nothing. */
const struct access_value *question_value(const struct question *q, enum access_key key);

/* Does the request touch items without saying which values of that key? Then a condition on the set of them
 * counts against it: false in an Allow, true in a Deny. */
bool question_leaves_open(const struct question *q, enum access_key key);

/* `failed` is set with VERDICT_CONDITION: the first that does not hold. */
enum verdict statement_judge(const struct statement *s, const struct question *q,
                             const struct condition **failed);

/* ---- reading a document ----
 * Where the parser stands is kept as it goes down, so that every refusal says the statement, the element and, within a
 * condition, the operator and the key. */

struct parser {
	struct arena *arena; /* the policy's */
	struct err   *err;
	uint32_t      keys;     /* mentioned so far */
	size_t        searched; /* bytes of runs that take long to look for, so far */

	/* where it stands; what does not apply is NULL or empty */
	const struct json *statement;
	size_t             number;
	struct bytes       element;
	struct bytes       spelled; /* operator */
	struct bytes       key;
};

/* Fills the error with the place and the message; always ERR_INVALID. */
enum err_code parser_refuse(struct parser *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A value as an error text may show it: in quotes, cut off when long, and plain ASCII. */
enum { QUOTED_BYTES_MAX = 80 };

struct quoted {
	char text[QUOTED_BYTES_MAX * 4 + sizeof("\"…\"")];
};

struct quoted quote(struct bytes value);

/* A list, or the one value that stands for a list of one: the first of them, and how many. Refuses an empty
 * list and one longer than POLICY_LIST_MAX. */
enum err_code parser_list(struct parser *p, const struct json *json, const struct json **first,
                          size_t *count);

/* A string of at most `max` bytes, without variables. */
enum err_code parser_text(struct parser *p, const struct json *json, size_t max, struct bytes *out);

/* No two members of the object have the same name. */
enum err_code parser_unique(struct parser *p, const struct json *object);

enum err_code parse_action(struct parser *p, const struct json *json, struct pattern *out);
enum err_code parse_resource(struct parser *p, const struct json *json, struct resource *out);
enum err_code parse_conditions(struct parser *p, const struct json *json, struct statement *out);

/* Adds up what would take long to match, and refuses what is too much of it. */
enum err_code parser_count_runs(struct parser *p, struct bytes pattern);

#endif
