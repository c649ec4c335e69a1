/* The identity file: what it may say, every way it is refused, and how changes of it take effect. */
#include "server/identity.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "test.h"
#include "token/issuer.h"

#define KEYS                                                                                                 \
	"{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"11qYAYKxCrfVS_"                             \
	"7TyWQHOg7hcvPapiMlrwIaaPcHURo\","                                                                   \
	"\"kid\":\"k\"}]}"
#define ENTRY "issuers:\n  - issuer: https://a.example\n    audiences: any\n"

static const char *told(const char *text)
{
	static struct err err;

	err = (struct err){0};
	return identity_check_text(bytes_of(text), &err) == ERR_NONE ? "good" : err.text;
}

static void expect_good(const char *text)
{
	if (strcmp(told(text), "good") != 0)
		fail_msg("refused: %s\n%s", told(text), text);
}

/* The text must hold the words. */
static void expect_refused(const char *text, const char *words)
{
	if (strstr(told(text), words) == NULL)
		fail_msg("said \"%s\", not \"%s\", of:\n%s", told(text), words, text);
}

TEST(identity_file, what_it_may_say)
{
	expect_good("");
	expect_good("# nothing yet\n");
	expect_good("issuers: []\n");
	expect_good(ENTRY);
	expect_good(
	        ENTRY
	        "    discovery: true\n    algorithms: [RS256, ES256, EdDSA]\n    leeway: 0\n    max_age: 1\n"
	        "    allow_private: true\n");
	expect_good("issuers:\n  - issuer: https://a.example\n    audiences: [api, web]\n"
	            "    jwks_url: https://b.example/keys\n    leeway: 600\n    max_age: 31622400\n");
	expect_good("issuers:\n  - cognito:\n      pool: eu-west-1_AbC\n      clients: [c1]\n");
	expect_good(ENTRY
	            "    provider: any\n  - cognito:\n      pool: eu-west-1_AbC\n      clients: [c1]\n");
	expect_good(ENTRY "    provider: staff\n  - issuer: https://b.example\n    audiences: any\n    "
	                  "provider: any\n");
	expect_good("issuers:\n  - cognito:\n      pool: local_AbC\n      clients: any\n      uses: [id, "
	            "access]\n"
	            "      endpoint: http://127.0.0.1:9229/\n    allow_private: true\n    leeway: 5\n");
}

TEST(identity_file, every_mistake_is_refused_with_its_line_and_its_field)
{
	static const struct {
		const char *text, *words;
	} cases[] = {
	        {"issuer: []\n", "line 1: issuer"},
	        {"- issuers\n", "must be an object"},
	        {"issuers: 5\n", "line 1: issuers: must be an array"},
	        {"issuers: [5]\n", "line 1: issuers[0]: must be an object"},
	        {"issuers:\n  - audiences: any\n", "issuers[0].issuer: "},
	        {"issuers:\n  - issuer: https://a.example\n", "issuers[0].audiences: must be a list"},
	        {"issuers:\n  - issuer: https://a.example\n    audiences: []\n",
	         "line 3: issuers[0].audiences"},
	        {"issuers:\n  - issuer: https://a.example\n    audiences: all\n",
	         "line 3: issuers[0].audiences"},
	        {"issuers:\n  - issuer: https://a.example\n    audiences: [5]\n",
	         "line 3: issuers[0].audiences"},
	        {"issuers:\n  - issuer: https://a.example\n    audiences: ['']\n",
	         "line 3: issuers[0].audiences"},
	        {"issuers:\n  - issuer: a.example\n    audiences: any\n", "not an https address"},
	        {"issuers:\n  - issuer: ''\n    audiences: any\n", "line 2: issuers[0].issuer"},
	        {"issuers:\n  - issuer: 'https://a.example/\"'\n    audiences: any\n", "without quotes"},
	        {ENTRY "    audience: x\n", "line 4: issuers[0].audience: unknown"},
	        {ENTRY "    jwks_url: http://b.example/keys\n", "is not an https address"},
	        {ENTRY "    jwks_url: https://b.example/keys\n    discovery: true\n", "one place"},
	        {ENTRY "    discovery: false\n", "one place"},
	        {ENTRY "    discovery: 1\n", "line 4: issuers[0].discovery"},
	        {ENTRY "    jwks_file: no-such-file\n",
	         "line 4: issuers[0].jwks_file: no-such-file: No such file"},
	        {ENTRY "    jwks_file: /dev/null\n", "line 4: issuers[0].jwks_file: the file is empty"},
	        {ENTRY "    jwks_file: /\n", "line 4: issuers[0].jwks_file"},
	        {ENTRY "    ca_file: no-such-file\n",
	         "line 4: issuers[0].ca_file: no-such-file: No such file"},
	        {ENTRY "    algorithms: []\n", "line 4: issuers[0].algorithms"},
	        {ENTRY "    algorithms: [none]\n", "line 4: issuers[0].algorithms"},
	        {ENTRY "    algorithms: [HS256]\n", "line 4: issuers[0].algorithms"},
	        {ENTRY "    algorithms: RS256\n", "line 4: issuers[0].algorithms"},
	        {ENTRY "    leeway: -1\n", "line 4: issuers[0].leeway"},
	        {ENTRY "    leeway: 601\n", "line 4: issuers[0].leeway"},
	        {ENTRY "    max_age: 0\n", "line 4: issuers[0].max_age"},
	        {ENTRY "    max_age: 31622401\n", "line 4: issuers[0].max_age"},
	        {ENTRY "    allow_private: maybe\n", "line 4: issuers[0].allow_private"},
	        {ENTRY "  - issuer: https://a.example\n    audiences: any\n",
	         "line 2: issuers[0].provider: missing; where there are several issuers"},
	        {ENTRY
	         "    provider: any\n  - issuer: https://a.example\n    audiences: any\n    provider: any\n",
	         "line 5: issuers[1]: issuer: set up twice"},
	        {"issuers:\n  - cognito: 5\n", "line 2: issuers[0].cognito: must be an object"},
	        {"issuers:\n  - cognito:\n      pool: eu-west-1_AbC\n", "issuers[0].cognito.clients"},
	        {"issuers:\n  - cognito:\n      pool: nonsense\n      clients: any\n",
	         "not the id of a user pool"},
	        {"issuers:\n  - cognito:\n      clients: any\n", "issuers[0].cognito.pool"},
	        {"issuers:\n  - cognito:\n      pool: eu-west-1_AbC\n      clients: any\n      uses: []\n",
	         "line 5: issuers[0].cognito.uses"},
	        {"issuers:\n  - cognito:\n      pool: eu-west-1_AbC\n      clients: any\n      uses: "
	         "[refresh]\n",
	         "line 5: issuers[0].cognito.uses"},
	        {"issuers:\n  - cognito:\n      pool: eu-west-1_AbC\n      clients: any\n      endpoint: "
	         "nowhere\n",
	         "not an https address"},
	        {"issuers:\n  - cognito:\n      pool: eu-west-1_AbC\n      clients: any\n      region: x\n",
	         "line 5: issuers[0].cognito.region: unknown"},
	        {"issuers:\n  - cognito:\n      pool: eu-west-1_AbC\n      clients: any\n    issuer: "
	         "https://a.example\n",
	         "line 5: issuers[0].issuer: unknown"},
	        {ENTRY "  - issuer: https://b.example\n    audiences: any\n",
	         "issuers[0].provider: missing; where there are several issuers"},
	        {ENTRY "    provider: staff\n  - issuer: https://b.example\n    audiences: any\n",
	         "issuers[1].provider: missing"},
	        {ENTRY "    provider: a b\n", "issuers[0].provider: must have letters"},
	        {"issuers: []\nissuers: []\n", "line 2"},
	        {"issuers: &a []\n", "line 1"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		expect_refused(cases[i].text, cases[i].words);
}

#define POOL "providers:\n  pools:\n    - pool: eu-west-1_A\n"

TEST(identity_file, of_a_provider_that_could_not_be_called_is_refused_by_line)
{
	expect_good(POOL "      endpoint: https://pool.example:8443\n");
	expect_refused(POOL "      endpoint: https://user@pool.example\n",
	               "line 4: providers.pools[0].endpoint");
	expect_refused(POOL "      endpoint: https://pool.example/\n", "line 4: providers.pools[0].endpoint");
	expect_refused(POOL "      endpoint: ftp://pool.example\n", "line 4: providers.pools[0].endpoint");
	expect_refused(POOL "      region: a b\n", "line 4: providers.pools[0].region");
	expect_refused(POOL "      region: x/y\n", "line 4: providers.pools[0].region");
}

TEST(identity_file, an_error_does_not_repeat_the_password_of_an_address)
{
	static const char *const texts[] = {
	        POOL "      endpoint: https://ann:hush-hush@pool.example\n",
	        "issuers:\n  - issuer: https://ann:hush-hush@i.example\n    audiences: any\n",
	        "issuers:\n  - issuer: https://i.example\n    audiences: any\n    jwks_url: "
	        "https://ann:hush-hush@i.example/k\n",
	};
	struct err err;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		assert_int_not_equal(identity_check_text(bytes_of(texts[i]), &err), ERR_NONE);
		assert_null(strstr(err.text, "hush-hush"));
	}
}

TEST(identity_file, as_many_issuers_as_may_be_and_one_more)
{
	struct buf text;

	buf_init(&text, NULL);
	buf_add_bytes(&text, BYTES("issuers:\n"));
	for (int i = 0; i <= ISSUERS_MAX; i++) {
		char entry[128];

		snprintf(entry, sizeof(entry),
		         "  - issuer: https://i%d.example\n    audiences: any\n    provider: any\n", i);
		if (i == ISSUERS_MAX) {
			buf_add_byte(&text, '\0');
			expect_good(text.data);
			text.len--;
		}
		buf_add_bytes(&text, bytes_of(entry));
	}
	buf_add_byte(&text, '\0');
	expect_refused(text.data, "issuers");
	buf_release(&text);
}

/* ---- a file that changes ---- */

struct world {
	char             dir[64], file[128];
	struct identity *identity;
	struct issuers  *issuers; /* in effect */
	int              applied;
	struct err       err;
};

static void apply(void *ctx, void *made[IDENTITY_SECTION_COUNT])
{
	struct world *w = ctx;

	if (w->issuers != NULL)
		issuers_inherit(made[IDENTITY_ISSUERS], w->issuers);
	issuers_drop(w->issuers);
	w->issuers = made[IDENTITY_ISSUERS];
	w->applied++;
}

static void put(struct world *w, const char *name, const char *text)
{
	assert_int_equal(file_replace(w->dir, name, bytes_of(text), &w->err), ERR_NONE);
}

static void world_open(struct world *w)
{
	*w = (struct world){.dir = "/tmp/identity-XXXXXX"};
	log_set_level(LOG_ERROR + 1);
	assert_non_null(mkdtemp(w->dir));
	snprintf(w->file, sizeof(w->file), "%s/identity.yaml", w->dir);
}

static void world_start(struct world *w)
{
	assert_int_equal(identity_open(&w->identity, w->file, clock_system(),
	                               (struct identity_target){apply, w}, &w->err),
	                 ERR_NONE);
}

static void world_close(struct world *w)
{
	char name[160];

	identity_close(w->identity);
	issuers_drop(w->issuers);
	for (int i = 0; i < 2; i++) {
		snprintf(name, sizeof(name), "%s/%s", w->dir, i == 0 ? "identity.yaml" : "keys.json");
		unlink(name);
	}
	rmdir(w->dir);
}

static uint32_t count(const struct world *w)
{
	struct issuer_numbers n;
	uint32_t              at = 0;

	while (issuers_read(w->issuers, at, &n))
		at++;
	return at;
}

TEST(identity_file, a_change_takes_effect_and_a_bad_one_is_refused_once)
{
	struct world w;

	world_open(&w);
	put(&w, "identity.yaml", ENTRY);
	world_start(&w);
	identity_refresh(w.identity);
	assert_int_equal(w.applied, 1);
	put(&w, "identity.yaml",
	    ENTRY "    provider: any\n  - issuer: https://b.example\n"
	          "    audiences: any\n    provider: any\n");
	identity_refresh(w.identity);
	assert_int_equal(w.applied, 2);
	assert_int_equal(count(&w), 2);
	put(&w, "identity.yaml", ENTRY "    leeway: x\n");
	for (int i = 0; i < 3; i++)
		identity_refresh(w.identity);
	assert_int_equal(w.applied, 2);
	assert_int_equal(count(&w), 2);
	assert_true(identity_health(w.identity).refused);
	assert_int_equal(identity_health(w.identity).failures, 1);
	put(&w, "identity.yaml", ENTRY);
	identity_refresh(w.identity);
	assert_int_equal(count(&w), 1);
	assert_false(identity_health(w.identity).refused);
	world_close(&w);
}

TEST(identity_file, one_that_is_cut_off_changes_nothing_until_it_is_written)
{
	struct world w;

	world_open(&w);
	put(&w, "identity.yaml", ENTRY);
	world_start(&w);
	put(&w, "identity.yaml", "");
	for (int i = 0; i < 3; i++)
		identity_refresh(w.identity);
	assert_int_equal(count(&w), 1);
	assert_int_equal(identity_health(w.identity).failures, 1);
	put(&w, "identity.yaml", "{}\n");
	identity_refresh(w.identity);
	assert_int_equal(w.applied, 2);
	assert_false(identity_health(w.identity).refused);
	world_close(&w);
}

TEST(identity_file, one_that_is_gone_changes_nothing_until_it_is_back)
{
	struct world w;

	world_open(&w);
	put(&w, "identity.yaml", ENTRY);
	world_start(&w);
	unlink(w.file);
	identity_refresh(w.identity);
	assert_false(identity_health(w.identity).refused); /* an editor may be replacing it */
	identity_refresh(w.identity);
	identity_refresh(w.identity);
	assert_true(identity_health(w.identity).refused);
	assert_int_equal(identity_health(w.identity).failures, 1);
	assert_int_equal(count(&w), 1);
	put(&w, "identity.yaml", "issuers: []\n");
	identity_refresh(w.identity);
	assert_int_equal(count(&w), 0);
	world_close(&w);
}

TEST(identity_file, a_change_of_a_file_that_it_names_counts)
{
	struct world w;

	world_open(&w);
	put(&w, "keys.json", KEYS);
	put(&w, "identity.yaml",
	    ENTRY "    jwks_file: keys.json\n"); /* beside it, wherever the server runs */
	world_start(&w);
	put(&w, "keys.json", KEYS " ");
	identity_refresh(w.identity);
	assert_int_equal(w.applied, 2);
	put(&w, "keys.json", "{");
	identity_refresh(w.identity);
	identity_refresh(w.identity);
	assert_int_equal(w.applied, 2);
	assert_int_equal(identity_health(w.identity).failures, 1);
	world_close(&w);
}

TEST(identity_file, one_that_is_too_large_is_refused)
{
	struct world w;
	char        *text = malloc(IDENTITY_BYTES_MAX + 2);

	world_open(&w);
	memset(text, '#', IDENTITY_BYTES_MAX + 1);
	text[IDENTITY_BYTES_MAX] = '\0';
	put(&w, "identity.yaml", text);
	assert_int_equal(identity_check(w.file, &w.err), ERR_NONE);
	text[IDENTITY_BYTES_MAX] = '#';
	text[IDENTITY_BYTES_MAX + 1] = '\0';
	put(&w, "identity.yaml", text);
	assert_int_equal(identity_check(w.file, &w.err), ERR_INVALID);
	assert_non_null(strstr(w.err.text, "at most"));
	free(text);
	world_close(&w);
}

TEST(identity_file, without_a_file_there_are_no_issuers)
{
	struct world w;

	world_open(&w);
	assert_int_equal(identity_check(NULL, &w.err), ERR_NONE);
	assert_int_equal(
	        identity_open(&w.identity, NULL, clock_system(), (struct identity_target){apply, &w}, &w.err),
	        ERR_NONE);
	identity_refresh(w.identity);
	assert_int_equal(w.applied, 1);
	assert_int_equal(count(&w), 0);
	world_close(&w);
}
