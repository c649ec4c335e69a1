/* Policy: `gatehouse policy test`: asks a policy about a request, without a server, and explains the
 * decision. */
#include <stdio.h>
#include <string.h>

#include "access/policy.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "json/json.h"
#include "server/offline.h"

enum { REQUEST_BYTES_MAX = 64 * 1024 };

/* what: which file, where the text does not say so itself; or NULL */
static int failed(const char *what, const struct err *err)
{
	fprintf(stderr, "gatehouse policy test: %s%s%s\n", what == NULL ? "" : what, what == NULL ? "" : ": ",
	        err->text);
	return 2;
}

struct policy_options {
	const char *policy, *request, *region;
	bool        help;
};

static void warn(void *ctx, struct bytes action)
{
	(void)ctx;
	fprintf(stderr,
	        "gatehouse: warning: the policy names the action \"%.*s\", which this server does not have, "
	        "so it has no effect\n",
	        BYTES_ARG(action));
}

void policy_warn(const struct policy *p)
{
	struct bytes *names;
	struct arena  a;
	size_t        count;

	arena_init(&a);
	count = offline_actions(&a, &names);
	policy_idle_actions(p, names, count, warn, NULL);
	arena_release(&a);
}

static int explain(struct json_reader *reader, struct arena *a, const struct policy_options *o)
{
	struct access_request request;
	struct explanation    why;
	struct policy        *policy;
	struct json          *json;
	struct bytes          text, asked;
	struct buf            out;
	struct err            err;

	if (input_read(o->policy, POLICY_BYTES_MAX, a, &text, &err) != ERR_NONE ||
	    input_read(o->request, REQUEST_BYTES_MAX, a, &asked, &err) != ERR_NONE)
		return failed(NULL, &err);
	if (access_region_check(bytes_of(o->region), "--region", &err) != ERR_NONE)
		return failed(NULL, &err);
	if (policy_parse(reader, text, &policy, &err) != ERR_NONE)
		return failed(o->policy, &err);
	if (policy_check_home(policy, bytes_of(o->region), &err) != ERR_NONE) {
		policy_close(policy);
		return failed(o->policy, &err);
	}
	if (json_read(reader, a, asked, &json, &err) != ERR_NONE ||
	    access_request_read(a, json, &request, &err) != ERR_NONE) {
		policy_close(policy);
		return failed(o->request, &err);
	}
	policy_warn(policy);
	buf_init(&out, a);
	policy_explain((const struct policy *const *)&policy, 1, &request, &out);
	policy_evaluate((const struct policy *const *)&policy, 1, &request, &why);
	printf("%.*s", BYTES_ARG(buf_bytes(&out)));
	policy_close(policy);
	return why.decision == DECISION_ALLOWED ? 0 : 1;
}

static const struct option_spec options[] = {
        {"--policy", OPTION_TEXT, "FILE", "IAM policy document", offsetof(struct policy_options, policy), 0,
         0},
        {"--request", OPTION_TEXT, "FILE", "request to test (default: -, standard input)",
         offsetof(struct policy_options, request), 0, 0},
        {"--region", OPTION_TEXT, "NAME", "region of the server (default: local)",
         offsetof(struct policy_options, region), 0, 0},
        {"--help", OPTION_FLAG, NULL, "print this help", offsetof(struct policy_options, help), 0, 0},
};

static const struct command_word words[] = {
        {"test", "--policy FILE --request FILE", "say whether the request is allowed, and why"},
};

static int test(const struct policy_options *o)
{
	struct json_reader *reader = json_reader_open();
	struct arena        a;
	int                 status;

	arena_init(&a);
	status = explain(reader, &a, o);
	json_reader_close(reader);
	arena_release(&a);
	return status;
}

static int run(int argc, char **argv)
{
	struct policy_options o = {.request = "-", .region = ACCESS_REGION};
	const char           *word = argc > 0 && argv[0][0] != '-' ? argv[0] : NULL;
	struct err            err;

	if (word != NULL && strcmp(word, words[0].name) != 0)
		return command_word_unknown(&command_policy, word);
	if (options_parse(OPTIONS(options), &o, argc - (word != NULL), argv + (word != NULL), &err) !=
	    ERR_NONE)
		return failed(NULL, &err);
	if (o.help || word == NULL) {
		command_help(&command_policy);
		return o.help ? 0 : 2;
	}
	if (o.policy == NULL) {
		err_set(&err, ERR_INVALID, "--policy FILE is missing");
		return failed(NULL, &err);
	}
	return test(&o);
}

const struct command command_policy = {
        .name = "policy",
        .help = "test what an access key's policy allows",
        .about = "Evaluates a request against a policy and explains the decision, without a server. Exit\n"
                 "status 0: allowed. 1: not allowed. 2: a file is missing or wrong. A request looks like\n"
                 "  {\"action\": \"dynamodb:GetItem\",\n"
                 "   \"resource\": \"arn:aws:dynamodb:local:000000000000:table/users\",\n"
                 "   \"context\": {\"dynamodb:LeadingKeys\": [\"user-1\"]}}",
        .words = words,
        .word_count = OPTIONS_COUNT(words),
        .options = {options, OPTIONS_COUNT(options)},
        .run = run,
};
