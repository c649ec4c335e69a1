/* The section `providers` of the identity file: the pools of Amazon Cognito whose users are users here.
 *
 *   providers:
 *     function: gatehouse-post-confirmation            # what the trigger is called as a Lambda function
 *     pools:
 *       - pool: eu-west-1_AbCdEf123
 *         name: customers                              # as `provider` has it; the pool's id unless set
 *         region: eu-west-1                            # what the pool's id says unless set
 *         endpoint: https://cognito.example.com        # AWS's unless set
 *         ca_file: private-ca.pem                      # the system's unless set
 *         allow_private: true                          # its address may be on this machine or in this network
 *         sign_out: true                               # suspending here signs out there; true unless set
 *         reconcile: 86400                             # seconds; 0: only when asked
 *         rate: 50                                     # users per second, while reconciling and signing out
 *         absent: remove                               # fields and addresses that a user no longer has there; or keep */
#include "outbound/cognito.h"
#include "server/identity.h"
#include "service/provider.h"

enum {
	POOL_BYTES_MAX = 64,
	URL_BYTES_MAX = 1024,
	FUNCTION_BYTES_MAX = 140,
	CA_BYTES_MAX = 4 * 1024 * 1024,
	RECONCILE_S_MAX = 365 * 86400,
	RATE_MAX = 10000,
};

static struct bytes keep(struct providers *all, struct bytes text)
{
	return arena_printf(&all->base.arena, "%.*s", BYTES_ARG(text));
}

static void read_endpoint(const struct identity_reading *r, struct fields *f, struct providers *all,
                          struct provider *p)
{
	struct bytes given = fields_text_or(f, "endpoint", URL_BYTES_MAX, (struct bytes){NULL, 0});
	const char  *ca_file = identity_path(r, f, "ca_file");

	p->endpoint = given.len > 0 ? keep(all, given)
	                            : arena_printf(&all->base.arena, "https://cognito-idp.%.*s.amazonaws.com",
	                                           BYTES_ARG(p->region));
	if (!fields_failed(f) && !outbound_url_is(p->endpoint.data))
		fields_fail(f, given.len > 0 ? "endpoint" : "region", ERR_INVALID,
		            given.len > 0 ? "must be like https://host:port, without a path or a user"
		                          : "not the name of a region");
	p->allow_private = fields_bool_or(f, "allow_private", false);
	if (ca_file == NULL)
		return;
	identity_file(r, f, "ca_file", ca_file, CA_BYTES_MAX);
	p->ca_file = keep(all, bytes_of(ca_file));
}

static bool read_absent(struct fields *f)
{
	static const char *const choices[] = {"remove", "keep", NULL};

	return fields_choice(f, "absent", choices, 0) == 1;
}

static void read_pool(const struct identity_reading *r, struct fields *f, struct providers *all)
{
	struct provider p = {.pool = fields_text(f, "pool", POOL_BYTES_MAX)};

	p.name = fields_text_or(f, "name", SYNC_PROVIDER_BYTES_MAX, p.pool);
	p.region = fields_text_or(f, "region", POOL_BYTES_MAX, cognito_region(p.pool));
	if (!fields_failed(f) && p.region.len == 0)
		fields_fail(f, "region", ERR_INVALID, "missing, and the pool's id does not say it");
	if (!fields_failed(f) && !sync_provider_is(p.name))
		fields_fail(f, "name", ERR_INVALID, "must have letters, digits, '-', '_' and '.' only");
	if (!fields_failed(f) &&
	    (provider_named(all, p.name) != NULL || provider_of_pool(all, p.pool) != NULL))
		fields_fail(f, "pool", ERR_INVALID, "there is another one of this name or pool");
	p.name = keep(all, p.name);
	p.pool = keep(all, p.pool);
	p.region = keep(all, p.region);
	read_endpoint(r, f, all, &p);
	p.sign_out = fields_bool_or(f, "sign_out", true);
	p.reconcile_s = fields_i64_or(f, "reconcile", 0, RECONCILE_S_MAX, PROVIDER_RECONCILE_S);
	p.rate = fields_i64_or(f, "rate", 1, RATE_MAX, PROVIDER_RATE);
	p.keeps_absent = read_absent(f);
	all->list[all->count++] = p;
}

static void read_section(const struct identity_reading *r, struct fields *f, struct providers *all)
{
	const struct json *pools = fields_array(f, "pools", PROVIDERS_MAX);
	unsigned           number = 0;

	all->function =
	        keep(all, fields_text_or(f, "function", FUNCTION_BYTES_MAX, BYTES(PROVIDER_FUNCTION)));
	for (const struct json *m = fields_first(f, pools); m != NULL; m = fields_next(f, m)) {
		struct fields one;

		fields_enter(&one, f, arena_printf(r->arena, "pools[%u]", number++), m);
		read_pool(r, &one, all);
		fields_end(&one);
	}
}

static void read_providers(const struct identity_reading *r, struct fields *file, void **out)
{
	const struct json *section = fields_object(file, "providers", FIELDS_MEMBERS_MAX);
	struct fields      f;

	if (section == NULL)
		return;
	*out = document_make(sizeof(struct providers));
	fields_enter(&f, file, BYTES("providers"), section);
	read_section(r, &f, *out);
	fields_end(&f);
}

static void drop(void *made)
{
	providers_release(made);
}

const struct identity_section identity_providers = {"providers", read_providers, drop};
