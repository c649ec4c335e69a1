/* Where AWS credentials come from: an environment of the test's own, files in a directory of its own, a scripted peer. */
#include "outbound/credentials.h"

#include <stdlib.h>

#include "base/log.h"
#include "outbound/setup.h"
#include "scripted.h"

enum { VARIABLES_MAX = 16 };

struct world {
	const char             *names[VARIABLES_MAX];
	const char             *values[VARIABLES_MAX];
	unsigned                count;
	struct environment      env;
	struct clock_manual     clock;
	struct arena            arena;
	char                    dir[64];
	struct aws_credentials *c;
	struct aws_credential   got;
	struct err              err;
};

static const char *world_get(void *ctx, const char *name)
{
	struct world *w = ctx;

	for (unsigned i = 0; i < w->count; i++)
		if (strcmp(w->names[i], name) == 0)
			return w->values[i];
	return NULL;
}

static void set(struct world *w, const char *name, const char *value)
{
	assert_true(w->count < VARIABLES_MAX);
	w->names[w->count] = name;
	w->values[w->count++] = value;
}

static const int64_t noon_us = 1794830400LL * 1000000; /* 2026-11-16T12:00:00Z */

static void world_init(struct world *w)
{
	log_set_level(LOG_ERROR);
	*w = (struct world){.dir = "/tmp/gatehouse-credentials-XXXXXX"};
	w->env = (struct environment){world_get, w};
	arena_init(&w->arena);
	clock_manual_init(&w->clock, noon_us);
	assert_non_null(mkdtemp(w->dir));
	set(w, "HOME", w->dir);
}

static const char *file_write(struct world *w, const char *name, const char *text)
{
	struct bytes path = arena_printf(&w->arena, "%s/%s", w->dir, name);
	FILE        *f = fopen(path.data, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	return path.data;
}

static enum err_code world_open(struct world *w)
{
	return aws_credentials_open(&w->env, &w->clock.base, &w->c, &w->err);
}

static enum err_code world_credential(struct world *w)
{
	return aws_credentials_get(w->c, &w->arena, &w->got, &w->err);
}

static void world_release(struct world *w)
{
	char command[128];

	if (w->c != NULL)
		aws_credentials_close(w->c);
	snprintf(command, sizeof(command), "rm -r %s", w->dir);
	assert_int_equal(system(command), 0);
	arena_release(&w->arena);
}

/* ---- environment and files ---- */

TEST(credentials, the_environment_comes_first)
{
	struct world w;

	world_init(&w);
	set(&w, "AWS_ACCESS_KEY_ID", "AKID");
	set(&w, "AWS_SECRET_ACCESS_KEY", "secret");
	set(&w, "AWS_SESSION_TOKEN", "session");
	set(&w, "AWS_DEFAULT_REGION", "eu-west-1");
	set(&w, "AWS_WEB_IDENTITY_TOKEN_FILE", "/nowhere");
	assert_int_equal(world_open(&w), ERR_NONE);
	assert_int_equal(world_credential(&w), ERR_NONE);
	assert_bytes(w.got.key_id, "AKID");
	assert_bytes(w.got.secret, "secret");
	assert_bytes(w.got.token, "session");
	assert_string_equal(aws_credentials_region(w.c), "eu-west-1");
	assert_string_equal(aws_credentials_source(w.c), "environment");
	world_release(&w);
}

TEST(credentials, a_key_without_its_secret_is_refused)
{
	struct world w;

	world_init(&w);
	set(&w, "AWS_ACCESS_KEY_ID", "AKID");
	assert_int_equal(world_open(&w), ERR_INVALID);
	assert_non_null(strstr(w.err.text, "AWS_SECRET_ACCESS_KEY"));
	world_release(&w);
}

TEST(credentials, a_profile_is_read_from_both_files_and_the_credentials_file_counts_for_more)
{
	struct world w;

	world_init(&w);
	set(&w, "AWS_SHARED_CREDENTIALS_FILE",
	    file_write(&w, "credentials",
	               "# mine\n[default]\naws_access_key_id=WRONG\n[work]\r\n"
	               "aws_access_key_id = AKWORK\r\naws_secret_access_key=s=cret\r\n  indented = 1\n"));
	set(&w, "AWS_CONFIG_FILE",
	    file_write(&w, "config",
	               "[work]\nregion = nowhere\n[profile work]\nregion = eu-north-1\naws_access_key_id = "
	               "OTHER\n"));
	set(&w, "AWS_PROFILE", "work");
	assert_int_equal(world_open(&w), ERR_NONE);
	assert_int_equal(world_credential(&w), ERR_NONE);
	assert_bytes(w.got.key_id, "AKWORK");
	assert_bytes(w.got.secret, "s=cret");
	assert_string_equal(aws_credentials_region(w.c), "eu-north-1");
	world_release(&w);
}

TEST(credentials, a_profile_that_is_missing_or_asks_for_more_than_we_do_is_refused_by_name)
{
	struct world w;

	world_init(&w);
	set(&w, "AWS_PROFILE", "gone");
	assert_int_equal(world_open(&w), ERR_INVALID);
	assert_non_null(strstr(w.err.text, "\"gone\""));
	w.count--;
	set(&w, "AWS_CONFIG_FILE", file_write(&w, "config", "[default]\ncredential_process = /bin/keys\n"));
	assert_int_equal(world_open(&w), ERR_INVALID);
	assert_non_null(strstr(w.err.text, "credential_process"));
	world_release(&w);
}

TEST(credentials, nothing_set_up_says_what_to_set)
{
	struct world w;

	world_init(&w);
	set(&w, "AWS_EC2_METADATA_DISABLED", "true");
	assert_int_equal(world_open(&w), ERR_INVALID);
	assert_non_null(strstr(w.err.text, "AWS_ACCESS_KEY_ID"));
	world_release(&w);
}

TEST(credentials, a_file_of_the_maximum_is_read_and_one_byte_more_refused)
{
	struct world w;
	struct bytes text;
	char        *large = malloc(PROFILE_FILE_BYTES_MAX + 2);
	const char  *path;

	world_init(&w);
	memset(large, '#', PROFILE_FILE_BYTES_MAX);
	large[PROFILE_FILE_BYTES_MAX] = '\0';
	path = file_write(&w, "large", large);
	assert_int_equal(profile_file_read(path, &w.arena, &text, &w.err), ERR_NONE);
	assert_int_equal(text.len, PROFILE_FILE_BYTES_MAX);
	memcpy(large + PROFILE_FILE_BYTES_MAX, "#", 2);
	path = file_write(&w, "large", large);
	assert_int_equal(profile_file_read(path, &w.arena, &text, &w.err), ERR_INVALID);
	free(large);
	world_release(&w);
}

/* ---- endpoints ---- */

#define KEYS(id, until)                                                                                      \
	"HTTP/1.1 200 OK\r\nContent-Length: ?\r\n\r\n{\"Code\":\"Success\",\"AccessKeyId\":\"" id            \
	"\",\"SecretAccessKey\":\"s\",\"Token\":\"t\",\"Expiration\":\"" until "\"}"

static const char *url_of(struct world *w, struct peer *p, const char *path)
{
	return arena_printf(&w->arena, "http://127.0.0.1:%u%s", p->port, path).data;
}

TEST(credentials, a_container_is_asked_with_its_token_and_again_before_they_end)
{
	struct world w;
	struct peer *p = peer_open(0, PEER_SCRIPT({PEER_ANSWER, KEYS("FIRST", "2026-11-16T13:00:00Z")},
	                                          {PEER_ANSWER, KEYS("SECOND", "2026-11-16T14:00:00Z")}));

	world_init(&w);
	set(&w, "AWS_CONTAINER_CREDENTIALS_FULL_URI", url_of(&w, p, "/keys?x=1"));
	set(&w, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", file_write(&w, "token", "sesame\n"));
	assert_int_equal(world_open(&w), ERR_NONE);
	assert_int_equal(world_credential(&w), ERR_NONE);
	assert_bytes(w.got.key_id, "FIRST");
	assert_non_null(strstr(p->seen[0], "GET /keys?x=1 "));
	assert_non_null(strstr(p->seen[0], "Authorization: sesame\r\n"));
	clock_manual_set(&w.clock, noon_us + 44 * 60 * 1000000LL);
	assert_int_equal(world_credential(&w), ERR_NONE);
	assert_bytes(w.got.key_id, "FIRST");
	assert_int_equal(peer_requests(p), 1);
	clock_manual_set(&w.clock, noon_us + 46 * 60 * 1000000LL); /* 14 minutes left */
	assert_int_equal(world_credential(&w), ERR_NONE);
	assert_bytes(w.got.key_id, "SECOND");
	world_release(&w);
	peer_close(p);
}

TEST(credentials, a_failed_renewal_is_borne_until_the_keys_end)
{
	struct world w;
	struct peer *p =
	        peer_open(0, PEER_SCRIPT({PEER_ANSWER, KEYS("FIRST", "2026-11-16T13:00:00Z")},
	                                 {PEER_ANSWER, "HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n"}));

	world_init(&w);
	set(&w, "AWS_CONTAINER_CREDENTIALS_FULL_URI", url_of(&w, p, "/"));
	assert_int_equal(world_open(&w), ERR_NONE);
	assert_int_equal(world_credential(&w), ERR_NONE);
	clock_manual_set(&w.clock, noon_us + 46 * 60 * 1000000LL);
	assert_int_equal(world_credential(&w), ERR_NONE);
	assert_bytes(w.got.key_id, "FIRST");
	assert_int_equal(peer_requests(p), 2);
	assert_int_equal(world_credential(&w), ERR_NONE); /* not asked again so soon */
	assert_int_equal(peer_requests(p), 2);
	clock_manual_set(&w.clock, noon_us + 51 * 60 * 1000000LL);
	assert_int_equal(world_credential(&w), ERR_NONE);
	assert_int_equal(peer_requests(p), 3);
	clock_manual_set(&w.clock, noon_us + 60 * 60 * 1000000LL - 1000000);
	assert_int_equal(world_credential(&w), ERR_NONE); /* one second left */
	assert_bytes(w.got.key_id, "FIRST");
	clock_manual_set(&w.clock, noon_us + 60 * 60 * 1000000LL);
	assert_int_equal(world_credential(&w), ERR_OVERLOADED);
	assert_non_null(strstr(w.err.text, "403"));
	world_release(&w);
	peer_close(p);
}

TEST(credentials, that_end_soon_are_not_fetched_for_each_call)
{
	struct world w;
	struct peer *p = peer_open(0, PEER_SCRIPT({PEER_ANSWER, KEYS("SAME", "2026-11-16T12:09:00Z")},
	                                          {PEER_ANSWER, KEYS("SAME", "2026-11-16T12:09:00Z")},
	                                          {PEER_ANSWER, KEYS("NEXT", "2026-11-16T12:14:00Z")}));

	world_init(&w);
	set(&w, "AWS_CONTAINER_CREDENTIALS_FULL_URI", url_of(&w, p, "/"));
	assert_int_equal(world_open(&w), ERR_NONE);
	for (int i = 0; i < 100; i++)
		assert_int_equal(world_credential(&w), ERR_NONE);
	assert_int_equal(peer_requests(p), 1);
	clock_manual_set(&w.clock, noon_us + (CREDENTIALS_PAUSE_S_MAX + 1) * 1000000LL);
	for (int i = 0; i < 100; i++)
		assert_int_equal(world_credential(&w), ERR_NONE);
	assert_int_equal(peer_requests(p), 2);
	clock_manual_set(&w.clock,
	                 noon_us + (9 * 60 - 1) * 1000000LL); /* the pause is over long before they end */
	assert_int_equal(world_credential(&w), ERR_NONE);
	assert_bytes(w.got.key_id, "NEXT");
	world_release(&w);
	peer_close(p);
}

/* By our clock, which may be wrong: AWS decides. */
TEST(credentials, that_came_ended_are_used_and_asked_for_again_after_a_pause)
{
	struct world w;
	struct peer *p = peer_open(0, PEER_SCRIPT({PEER_ANSWER, KEYS("PAST", "2026-11-16T11:00:00Z")}));

	world_init(&w);
	set(&w, "AWS_CONTAINER_CREDENTIALS_FULL_URI", url_of(&w, p, "/"));
	assert_int_equal(world_open(&w), ERR_NONE);
	for (int i = 0; i < 100; i++)
		assert_int_equal(world_credential(&w), ERR_NONE);
	assert_bytes(w.got.key_id, "PAST");
	assert_int_equal(peer_requests(p), 1);
	world_release(&w);
	peer_close(p);
}

TEST(credentials, plain_http_goes_to_no_stranger)
{
	static const char *const wrong[] = {"http://example.org/keys", "http://169.254.170.20/keys",
	                                    "http://localhost.example.org/", "http://[::1].example.org/"};
	struct world             w;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		world_init(&w);
		set(&w, "AWS_CONTAINER_CREDENTIALS_FULL_URI", wrong[i]);
		assert_int_equal(world_open(&w), ERR_INVALID);
		world_release(&w);
	}
}

TEST(credentials, an_instance_is_asked_in_a_session)
{
	struct world w;
	struct peer *p = peer_open(
	        0, PEER_SCRIPT({PEER_ANSWER, "HTTP/1.1 200 OK\r\nContent-Length: ?\r\n\r\nsession-1"},
	                       {PEER_ANSWER, "HTTP/1.1 200 OK\r\nContent-Length: ?\r\n\r\nweb-role"},
	                       {PEER_ANSWER, KEYS("INSTANCE", "2026-11-16T18:00:00Z")}));

	world_init(&w);
	set(&w, "AWS_EC2_METADATA_SERVICE_ENDPOINT", url_of(&w, p, "/"));
	assert_int_equal(world_open(&w), ERR_NONE);
	assert_int_equal(world_credential(&w), ERR_NONE);
	assert_bytes(w.got.key_id, "INSTANCE");
	assert_non_null(strstr(p->seen[0], "PUT /latest/api/token "));
	assert_non_null(strstr(p->seen[0], "X-aws-ec2-metadata-token-ttl-seconds: 21600\r\n"));
	assert_non_null(strstr(p->seen[2], "GET /latest/meta-data/iam/security-credentials/web-role "));
	assert_non_null(strstr(p->seen[2], "X-aws-ec2-metadata-token: session-1\r\n"));
	world_release(&w);
	peer_close(p);
}

/* Noon is 12:00 UTC; keys that end in an hour are not asked for again. */
TEST(credentials, the_end_of_keys_is_read_with_its_zone_and_its_fraction)
{
	static const struct {
		const char *text;
		int64_t     in_s; /* from noon on */
	} ends[] = {{"2026-11-16T13:00:00Z", 3600},
	            {"2026-11-16T13:00:00.999Z", 3600},
	            {"2026-11-16T15:00:00+02:00", 3600},
	            {"2026-11-16T05:30:00.5-07:30", 3600},
	            {"2026-11-17T00:00:00+11:00", 3600}};

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		struct world w;
		struct peer *p;

		world_init(&w);
		p = peer_open(0, PEER_SCRIPT({PEER_ANSWER,
		                              arena_printf(&w.arena, KEYS("KEY", "%s"), ends[i].text).data}));
		set(&w, "AWS_CONTAINER_CREDENTIALS_FULL_URI", url_of(&w, p, "/keys"));
		assert_int_equal(world_open(&w), ERR_NONE);
		assert_int_equal(world_credential(&w), ERR_NONE);
		assert_int_equal(w.got.expires_s, noon_us / 1000000 + ends[i].in_s);
		world_release(&w);
		peer_close(p);
	}
}

TEST(credentials, keys_whose_end_is_not_a_time_are_refused)
{
	static const char *const ends[] = {"tomorrow",
	                                   "2026-11-16T13:00:00",
	                                   "2026-11-16T13:00:00 Z",
	                                   "2026-11-16T13:00:00Zulu",
	                                   "2026-11-16T13:00:00+0200",
	                                   "2026-11-16T13:00:00.Z",
	                                   "2026-02-30T13:00:00Z",
	                                   "2026-11-16T25:00:00Z",
	                                   "2026-11-16 13:00:00Z",
	                                   " 2026-11-16T13:00:00Z",
	                                   "1794834000"};

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		struct world w;
		struct peer *p;

		world_init(&w);
		p = peer_open(0, PEER_SCRIPT({PEER_ANSWER,
		                              arena_printf(&w.arena, KEYS("KEY", "%s"), ends[i]).data}));
		set(&w, "AWS_CONTAINER_CREDENTIALS_FULL_URI", url_of(&w, p, "/keys"));
		assert_int_equal(world_open(&w), ERR_NONE);
		assert_int_equal(world_credential(&w), ERR_OVERLOADED);
		assert_string_equal(w.err.text, "AWS credentials: the Expiration in the container endpoint's "
		                                "answer is not a time in RFC 3339's form");
		world_release(&w);
		peer_close(p);
	}
}

TEST(credentials, a_web_identity_is_exchanged_for_a_role)
{
	struct world w;
	struct peer *p = peer_open(
	        0, PEER_SCRIPT({PEER_ANSWER,
	                        "HTTP/1.1 200 OK\r\nContent-Length: "
	                        "?\r\n\r\n<AssumeRoleWithWebIdentityResponse><Credentials>"
	                        "<AccessKeyId>ROLE</AccessKeyId><SecretAccessKey>s</SecretAccessKey>"
	                        "<SessionToken>t</SessionToken><Expiration>2026-11-16T18:00:00Z</"
	                        "Expiration></Credentials>"}));

	world_init(&w);
	set(&w, "AWS_WEB_IDENTITY_TOKEN_FILE", file_write(&w, "identity", "a.b+c"));
	set(&w, "AWS_ROLE_ARN", "arn:aws:iam::1:role/web");
	set(&w, "AWS_ENDPOINT_URL_STS", url_of(&w, p, ""));
	assert_int_equal(world_open(&w), ERR_NONE);
	assert_int_equal(world_credential(&w), ERR_NONE);
	assert_bytes(w.got.key_id, "ROLE");
	assert_bytes(w.got.token, "t");
	assert_non_null(strstr(p->seen[0],
	                       "RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fweb&RoleSessionName=gatehouse&"
	                       "WebIdentityToken=a.b%2Bc"));
	assert_null(strstr(p->seen[0], "Authorization"));
	world_release(&w);
	peer_close(p);
}

#define ROLE_ANSWER                                                                                          \
	"HTTP/1.1 200 OK\r\nContent-Length: ?\r\n\r\n<AssumeRoleResponse><AssumeRoleResult><Credentials>"    \
	"<AccessKeyId>ROLE</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>"  \
	"<Expiration>2026-11-16T13:00:00Z</Expiration></Credentials>"

TEST(credentials, a_role_is_assumed_with_the_keys_of_its_source_profile_and_again_before_they_end)
{
	struct world w;
	struct peer *p = peer_open(0, PEER_SCRIPT({PEER_ANSWER, ROLE_ANSWER}, {PEER_ANSWER, ROLE_ANSWER}));

	world_init(&w);
	set(&w, "AWS_CONFIG_FILE",
	    file_write(&w, "config",
	               "[profile work]\nrole_arn = arn:aws:iam::1:role/work\nsource_profile = base\n"
	               "role_session_name = nightly\nexternal_id = a/b\nduration_seconds = 3600\n"
	               "region = eu-west-1\n"));
	set(&w, "AWS_SHARED_CREDENTIALS_FILE",
	    file_write(&w, "credentials",
	               "[base]\naws_access_key_id = BASE\naws_secret_access_key = hidden-secret\n"
	               "aws_session_token = base-token\n"));
	set(&w, "AWS_PROFILE", "work");
	set(&w, "AWS_ENDPOINT_URL_STS", url_of(&w, p, ""));
	assert_int_equal(world_open(&w), ERR_NONE);
	assert_string_equal(aws_credentials_source(w.c), "role");
	assert_int_equal(world_credential(&w), ERR_NONE);
	assert_bytes(w.got.key_id, "ROLE");
	assert_bytes(w.got.token, "t");
	assert_non_null(
	        strstr(p->seen[0],
	               "Action=AssumeRole&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fwork&"
	               "RoleSessionName=nightly&ExternalId=a%2Fb&DurationSeconds=3600"));
	assert_non_null(strstr(p->seen[0], "Credential=BASE/20261116/eu-west-1/sts/aws4_request"));
	assert_non_null(strstr(p->seen[0], "base-token"));
	assert_null(strstr(p->seen[0], "hidden-secret"));
	clock_manual_set(&w.clock, noon_us + 51 * 60 * 1000000LL); /* 9 minutes left */
	assert_int_equal(world_credential(&w), ERR_NONE);
	assert_non_null(strstr(p->seen[1], "Action=AssumeRole&"));
	world_release(&w);
	peer_close(p);
}

TEST(credentials, a_profile_may_assume_a_role_with_its_own_keys)
{
	struct world w;
	struct peer *p = peer_open(0, PEER_SCRIPT({PEER_ANSWER, ROLE_ANSWER}));

	world_init(&w);
	set(&w, "AWS_SHARED_CREDENTIALS_FILE",
	    file_write(&w, "credentials",
	               "[default]\naws_access_key_id = OWN\naws_secret_access_key = s\nrole_arn = "
	               "arn:aws:iam::1:role/x\n"
	               "source_profile = default\n"));
	set(&w, "AWS_ENDPOINT_URL_STS", url_of(&w, p, ""));
	assert_int_equal(world_open(&w), ERR_NONE);
	assert_int_equal(world_credential(&w), ERR_NONE);
	assert_non_null(strstr(p->seen[0], "Credential=OWN/20261116/us-east-1/sts/aws4_request"));
	assert_non_null(strstr(p->seen[0], "RoleSessionName=gatehouse"));
	world_release(&w);
	peer_close(p);
}

TEST(credentials, a_role_that_cannot_be_assumed_is_refused_by_name)
{
	static const char *const wrong[][2] = {
	        {"role_arn = r\nsource_profile = gone\n", "neither shared file has a profile \"gone\""},
	        {"role_arn = r\nsource_profile = chain\n", "roles that are assumed by other roles"},
	        {"role_arn = r\nsource_profile = default\n", "\"default\" has no aws_access_key_id"},
	        {"source_profile = keys\n", "source_profile, but no role_arn"},
	        {"role_arn = r\nsource_profile = keys\nduration_seconds = 899\n", "must be 900 to 43200"},
	        {"role_arn = r\nsource_profile = keys\nduration_seconds = 43201\n", "must be 900 to 43200"},
	        {"role_arn = r\nsource_profile = half\n", "no aws_secret_access_key"},
	        {"role_arn = r\ncredential_source = Ec2InstanceMetadata\n", "\"credential_source\""},
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct world w;

		world_init(&w);
		set(&w, "AWS_REGION", "eu-west-1");
		set(&w, "AWS_CONFIG_FILE",
		    file_write(
		            &w, "config",
		            arena_printf(
		                    &w.arena,
		                    "[default]\n%s[profile chain]\nrole_arn = q\nsource_profile = default\n"
		                    "[profile keys]\naws_access_key_id = K\naws_secret_access_key = s\n"
		                    "[profile half]\naws_access_key_id = K\n",
		                    wrong[i][0])
		                    .data));
		assert_int_equal(world_open(&w), ERR_INVALID);
		if (strstr(w.err.text, wrong[i][1]) == NULL)
			fail_msg("%s: %s", wrong[i][1], w.err.text);
		world_release(&w);
	}
}

TEST(credentials, a_services_section_says_where_dynamodb_is)
{
	static const char config[] = "[default]\nservices = mine\nendpoint_url = http://all\n"
	                             "[services others]\ndynamodb =\n  endpoint_url = http://others\n"
	                             "[services mine]\ns3 =\n  endpoint_url = http://s3\n# a comment\n"
	                             "dynamodb =\n\tendpoint_url = http://mine\n"
	                             "[profile plain]\nendpoint_url = http://plain\nservices = gone\n";
	struct world      w;

	world_init(&w);
	set(&w, "AWS_ACCESS_KEY_ID", "AKID");
	set(&w, "AWS_SECRET_ACCESS_KEY", "secret");
	set(&w, "AWS_CONFIG_FILE", file_write(&w, "config", config));
	assert_int_equal(world_open(&w), ERR_NONE);
	assert_string_equal(aws_credentials_dynamodb(w.c), "http://mine");
	aws_credentials_close(w.c);
	set(&w, "AWS_PROFILE", "plain");
	assert_int_equal(world_open(&w), ERR_NONE);
	assert_string_equal(aws_credentials_dynamodb(w.c), "http://plain");
	aws_credentials_close(w.c);
	w.count--;
	set(&w, "AWS_ENDPOINT_URL", "http://from-environment");
	assert_int_equal(world_open(&w), ERR_NONE);
	assert_string_equal(aws_credentials_dynamodb(w.c), "http://from-environment");
	aws_credentials_close(w.c);
	w.count--;
	set(&w, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true");
	assert_int_equal(world_open(&w), ERR_NONE);
	assert_null(aws_credentials_dynamodb(w.c));
	world_release(&w);
}

TEST(credentials, an_answer_that_lacks_something_is_refused)
{
	struct world w;
	struct peer *p =
	        peer_open(0, PEER_SCRIPT({PEER_ANSWER, "HTTP/1.1 200 OK\r\nContent-Length: ?\r\n\r\n"
	                                               "{\"Code\":\"Failed\",\"Message\":\"no role\"}"}));

	world_init(&w);
	set(&w, "AWS_CONTAINER_CREDENTIALS_FULL_URI", url_of(&w, p, "/"));
	assert_int_equal(world_open(&w), ERR_NONE);
	assert_int_equal(world_credential(&w), ERR_OVERLOADED);
	world_release(&w);
	peer_close(p);
}
