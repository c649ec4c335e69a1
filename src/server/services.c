/* Services: the tables' names, limits, policies, and the key of identifiers. */
#include "server/services.h"

#include <stdlib.h>

#include "base/crypto.h"
#include "base/log.h"
#include "base/random.h"
#include "base/seal.h"
#include "server/device_key.h"
#include "server/own_call.h"
#include "service/context.h"
#include "service/email_code.h"
#include "service/event_shards.h"
#include "service/hot_keys.h"
#include "service/identifier_check.h"
#include "service/heed.h"
#include "service/limits.h"
#include "service/lock_ending.h"
#include "service/policy_store.h"
#include "service/provider.h"
#include "service/rules.h"
#include "service/user_policy.h"

/* ---- tables ---- */

struct service_tables services_tables(const struct serve_options *options)
{
	struct service_tables tables = {.device_index = options->device_index,
	                                .never_made = serve_is_remote(options) &&
	                                              strcmp(options->create_tables, "never") == 0};

	for (int i = 0; i < SERVICE_TABLE_COUNT; i++)
		tables.names[i] = bytes_of(options->tables[i]);
	return tables;
}

/* One that somebody made with other keys is of no use to services, but those who made it may go on using it. */
static void tables_warn(const struct service_tables *tables, struct store *store)
{
	struct table *reader;
	struct arena  arena;
	struct err    err;

	arena_init(&arena);
	reader = store->backend->read_begin(store, &arena);
	for (int i = 0; i < SERVICE_TABLE_COUNT; i++)
		if (tables_check_keys(tables, (enum service_table)i, reader, &arena, &err) != ERR_NONE)
			log_warn("%s", err.text);
	store->backend->read_end(store, reader);
	arena_release(&arena);
}

/* The index of devices, if it is switched on for a table that was made without it. Devices come into it when they are
 * registered again, or by the job that repairs rows. */
struct indexing {
	struct turn_request          base;
	const struct service_tables *tables;
	struct arena                 arena;
};

static enum err_code index_in_turn(struct turn_request *w, struct table *t)
{
	struct indexing *i = (struct indexing *)w;

	return tables_index_ensure(i->tables, t, &i->arena, &w->err);
}

static enum err_code open_index(const struct service_tables *tables, struct store *store, struct err *err)
{
	struct indexing i = {.base = {.run = index_in_turn, .cost_bytes = 1024}, .tables = tables};
	enum err_code   rc;

	if (!tables->device_index)
		return ERR_NONE;
	arena_init(&i.arena);
	rc = store_run(store, &i.base, err);
	arena_release(&i.arena);
	return rc;
}

/* ---- all tables, for code that speaks DynamoDB ---- */

static enum err_code make_in_turn(struct turn_request *w, struct table *t)
{
	struct indexing *i = (struct indexing *)w;
	enum err_code    rc = ERR_NONE;

	for (int which = 0; which < SERVICE_TABLE_COUNT && rc == ERR_NONE; which++)
		rc = tables_ensure(i->tables, t, &i->arena, i->tables->names[which], &w->err);
	return rc;
}

static enum err_code make_tables(const struct service_tables *tables, struct store *store, struct err *err)
{
	struct indexing i = {.base = {.run = make_in_turn, .cost_bytes = 1024}, .tables = tables};
	enum err_code   rc;

	arena_init(&i.arena);
	rc = store_run(store, &i.base, err);
	arena_release(&i.arena);
	return rc;
}

/* ---- policies ---- */

static void kinds_init(struct document_kind kinds[POLICY_KINDS], struct document_holder *rules,
                       struct document_holder *limits, struct document_holder *users,
                       struct event_settings *events)
{
	kinds[0] = (struct document_kind){.name = "attempts",
	                                  .parse = rules_parse,
	                                  .holder = rules,
	                                  .inherit = rule_tally_inherit,
	                                  .heritage = &rules_heritage};
	kinds[1] = (struct document_kind){.name = "limits", .parse = limit_policies_parse, .holder = limits};
	kinds[2] = (struct document_kind){.name = "users", .parse = user_policy_parse, .holder = users};
	kinds[3] = (struct document_kind){.name = "events",
	                                  .parse = event_policy_parse,
	                                  .holder = &events->policy,
	                                  .changed = event_settings_changed,
	                                  .ctx = events};
}

/* Reads them as a start would, and puts nothing into force. */
static enum err_code check_policies(const struct serve_options *options, struct err *err)
{
	struct document_kind   kinds[POLICY_KINDS];
	struct document_holder rules, limits, users;
	struct event_settings  events = {0};
	struct policy_store   *store;

	kinds_init(kinds, &rules, &limits, &users, &events);
	if (policy_store_open(&store, kinds, POLICY_KINDS, options->policies, err) != ERR_NONE)
		return err->code;
	policy_store_close(store);
	return ERR_NONE;
}

enum err_code services_check(const struct serve_options *options, struct err *err)
{
	struct service_tables tables = services_tables(options);

	if (service_tables_check(&tables, err) != ERR_NONE)
		return err->code;
	if (strcmp(options->email_claims, "added") != 0 && strcmp(options->email_claims, "verified") != 0)
		return err_set(err, ERR_INVALID, "email-claims: must be added or verified");
	return check_policies(options, err);
}

/* ---- the key of identifiers ---- */

static enum err_code secret_make(const char *dir, const char *name, uint8_t *out, size_t len, struct err *err)
{
	random_bytes(out, len);
	return seal_write(dir, name, (struct bytes){(const char *)out, len}, err);
}

/* Random bytes that are made once and kept in a sealed file (base/seal.h), readable by its owner only. A file that is there but
 * not as it should be is an error, never replaced: what was hashed with it could not be found again. */
static enum err_code secret_read(const char *dir, const char *name, uint8_t *out, size_t len, struct err *err)
{
	struct buf    text;
	bool          found, due;
	enum err_code rc;

	buf_init(&text, NULL);
	if (seal_read(dir, name, &text, &found, err) != ERR_NONE ||
	    seal_is_due(dir, name, &due, err) != ERR_NONE)
		rc = err->code;
	else if (!found)
		rc = secret_make(dir, name, out, len, err);
	else if (text.len != len)
		rc = err_set(err, ERR_STORAGE, "%s/%s must have %zu bytes, not %zu", dir, name, len,
		             text.len);
	else /* an older program wrote it without a seal */
		rc = due ? seal_write(dir, name, buf_bytes(&text), err) : ERR_NONE;
	if (rc == ERR_NONE && found)
		memcpy(out, text.data, len);
	crypto_wipe(text.data, text.len);
	buf_release(&text);
	return rc;
}

static enum err_code open_identifiers(struct services *s, const struct serve_options *options,
                                      struct err *err)
{
	uint8_t secret[IDENTIFIER_KEY_BYTES];

	if (secret_read(options->data, "identifiers.key", secret, sizeof(secret), err) != ERR_NONE)
		return err->code;
	identifier_key_init(&s->identifiers, secret);
	crypto_wipe(secret, sizeof(secret));
	return ERR_NONE;
}

struct key_check {
	struct own_call call; /* first */
	bool            same;
};

static enum err_code key_compare(struct own_call *c, struct err *err)
{
	return identifier_check(&c->ctx, &((struct key_check *)c)->same, err);
}

/* Others may use the tables too, each with a file of its own. */
static enum err_code check_identifiers(struct services *s, const struct serve_options *options,
                                       struct store *store, struct err *err)
{
	enum { COST_BYTES = 1024 };
	struct key_check x;
	enum err_code    rc;

	own_call_init(&x.call, s, store);
	rc = own_call_run(&x.call, &(struct own_step){key_compare, sizeof(x), COST_BYTES}, err);
	own_call_release(&x.call);
	if (rc != ERR_NONE || x.same)
		return rc;
	return err_set(
	        err, ERR_FOREIGN_TABLE,
	        "%s/identifiers.key is not the key that these tables are used with: this process would "
	        "not find what others count for emails, numbers and addresses. Copy identifiers.key "
	        "from the data directory of a process that uses them, and start again. Only if no "
	        "copy is left, delete the row " IDENTIFIER_CHECK_ROW " of the table \"%s%s\": "
	        "then those counts and locks begin anew",
	        options->data, options->table_prefix == NULL ? "" : options->table_prefix,
	        options->tables[TABLE_IDEMPOTENCY]);
}

/* ---- the shards of the log of events ---- */

struct shards_call {
	struct own_call call; /* first */
	uint32_t        wanted, found;
};

static enum err_code shards_find(struct own_call *c, struct err *err)
{
	struct shards_call *x = (struct shards_call *)c;

	return event_shards_find(&c->ctx, x->wanted, &x->found, err);
}

/* Where nobody else uses the tables there is nothing to write: a start on a full disk reads it too. */
static enum err_code shards_ask(struct shards_call *x, bool shared, struct err *err)
{
	enum { COST_BYTES = 1024 };
	enum err_code rc;

	if (shared)
		return own_call_run(&x->call, &(struct own_step){shards_find, sizeof(*x), COST_BYTES}, err);
	own_call_read(&x->call);
	rc = shards_find(&x->call, err);
	own_call_read_end(&x->call);
	return rc;
}

/* Before anything is published: all who share the tables divide the log alike. */
static enum err_code open_event_shards(struct services *s, const struct serve_options *options,
                                       struct store *store, struct err *err)
{
	struct shards_call x = {.wanted = (uint32_t)options->event_shards};
	enum err_code      rc;

	own_call_init(&x.call, s, store);
	rc = shards_ask(&x, serve_is_remote(options), err);
	own_call_release(&x.call);
	if (rc != ERR_NONE)
		return rc;
	s->events.shards = x.found;
	if (x.wanted == 0 || x.wanted == x.found)
		return ERR_NONE;
	return err_set(
	        err, ERR_FOREIGN_TABLE,
	        "event-shards: the log of events in the table \"%s%s\" has %u shard%s, not %u, and the "
	        "number "
	        "cannot change: the events of a subject would be in two shards, and lose their order. Set "
	        "--event-shards %u, or leave it out. docs/scaling.md says how to begin a log with another "
	        "number",
	        options->table_prefix == NULL ? "" : options->table_prefix, options->tables[TABLE_EVENTS],
	        x.found, x.found == 1 ? "" : "s", x.wanted, x.found);
}

/* ---- opening ---- */

static enum err_code open_devices(struct server_services *s, const struct serve_options *options,
                                  struct err *err)
{
	struct device_keys *keys, *newer;

	s->data = options->data;
	if (device_keys_open(s->data, &keys, err) != ERR_NONE ||
	    device_keys_refresh(s->data, &s->device_keys_seen, &newer, err) != ERR_NONE)
		return err->code;
	document_put(&s->all.devices, &keys->base);
	return ERR_NONE;
}

static void open_limits(struct services *s, const struct serve_options *options)
{
	struct limits_options limits = {.memory_bytes_max = (size_t)options->limits_mb << 20};

	random_bytes(&limits.seed, sizeof(limits.seed));
	s->limits = limits_open(&limits);
	s->hot_keys = hot_keys_open(&(struct hot_keys_options){
	        .seed = limits.seed, .identifiers = &s->identifiers, .warn_units = options->hot_key_units});
	s->targets_per_key = (uint32_t)options->targets_per_key;
	s->consumers_per_key = (uint32_t)options->consumers_per_key;
}

/* ---- locks that policies would end ---- */

/* A page at a time, each with memory of its own. */
static enum err_code ending_count(struct server_services *s, struct store *store, struct locks_ending *e,
                                  struct err *err)
{
	enum err_code   rc = ERR_NONE;
	struct own_call c;

	while (rc == ERR_NONE && !e->whole) {
		own_call_init(&c, &s->all, store);
		own_call_read(&c);
		rc = locks_ending_step(&c.ctx, e, err);
		own_call_read_end(&c);
		own_call_release(&c);
	}
	return rc;
}

static int64_t store_now_s(struct store *store)
{
	return store->backend->now_us(store) / 1000000;
}

/* A start accepts what a running server refuses. */
static void warn_of_ending(struct server_services *s, struct store *store)
{
	struct document    *old = policy_store_replaced(s->all.policies), *now;
	struct locks_ending e;
	struct err          err;

	if (old == NULL)
		return;
	now = document_acquire(&s->all.rules);
	locks_ending_init(&e, old, now, store_now_s(store));
	if (ending_count(s, store, &e, &err) != ERR_NONE)
		log_warn("the locks that the new policies have ended were not counted: %s", err.text);
	else if (locks_ending_any(&e))
		log_warn("the policies have changed since the last start, and end %s%u locks that hold: the "
		         "new "
		         "ones lack their journey, type or name, such as %s",
		         e.more ? "at least " : "", e.count, e.count > 0 ? e.first : "unknown");
	document_release(now);
	document_release(old);
}

struct checking {
	struct server_services *services;
	struct store           *store;
};

static enum err_code file_allows(void *arg, const struct document *now, const struct document *next,
                                 struct err *err)
{
	const struct checking *c = arg;
	struct locks_ending    e;

	locks_ending_init(&e, now, next, store_now_s(c->store));
	if (ending_count(c->services, c->store, &e, err) != ERR_NONE)
		return err->code;
	return locks_ending_any(&e)
	               ? locks_ending_refuse(&e,
	                                     "lift them and save the file again, or restart the server, "
	                                     "which accepts it",
	                                     err)
	               : ERR_NONE;
}

static enum err_code open_policies(struct server_services *s, const struct serve_options *options,
                                   struct store *store, struct err *err)
{
	struct arena   arena;
	struct context ctx = {.services = &s->all, .arena = &arena, .caller = BYTES("-")};
	enum err_code  rc;

	kinds_init(s->kinds, &s->all.rules, limits_holder(s->all.limits), &s->all.users, &s->all.events);
	if (policy_store_open(&s->all.policies, s->kinds, POLICY_KINDS, options->policies, err) != ERR_NONE)
		return err->code;
	arena_init(&arena);
	ctx_begin(&ctx, store->backend->read_begin(store, &arena));
	rc = policy_store_load(s->all.policies, &ctx, err);
	event_settings_changed(&s->all.events); /* also if nothing but what ships is in force */
	store->backend->read_end(store, ctx.table);
	arena_release(&arena);
	if (rc == ERR_NONE)
		warn_of_ending(s, store);
	return rc;
}

/* The two kinds change one without the other, so neither can be refused for what the other lacks. Once for each pair. */
static void warn_of_codes(struct server_services *s)
{
	struct rules       *rules = document_acquire(&s->all.rules);
	struct user_policy *users = document_acquire(&s->all.users);
	int64_t    now[2] = {rules->base.version + 1, users->base.version + 1}; /* 0: none was seen */
	struct err err;

	if (memcmp(now, s->counting_seen, sizeof(now)) != 0 &&
	    code_rules_check(rules, users, &err) != ERR_NONE)
		log_warn("requests for codes that verify addresses are refused: %s", err.text);
	memcpy(s->counting_seen, now, sizeof(now));
	document_release(&rules->base);
	document_release(&users->base);
}

/* ---- the policy file ---- */

static enum err_code keep(struct own_call *c, struct err *err)
{
	return policy_store_keep(c->ctx.services->policies, &c->ctx, err);
}

/* Explanations cite versions of the file, so they are kept. If it fails it is tried again, a second later. */
static void keep_versions(struct server_services *s, struct store *store)
{
	struct own_call c;
	struct err      err;

	own_call_init(&c, &s->all, store);
	if (own_call_run(&c, &(struct own_step){keep, sizeof(c), POLICY_DOCUMENT_BYTES_MAX}, &err) ==
	    ERR_NONE)
		policy_store_kept(s->all.policies);
	else if (!s->keeping_failed)
		log_warn("the current version of the policy file was not stored, so it cannot be shown once "
		         "it is replaced: %s",
		         err.text);
	s->keeping_failed = policy_store_unkept(s->all.policies);
	own_call_release(&c);
}

enum err_code services_open(struct server_services *s, const struct serve_options *options,
                            struct store *store, struct err *err)
{
	s->all.tables = services_tables(options);
	s->all.random = random_bytes;
	s->all.sync = &s->sync;
	s->all.event_numbers = &s->events;
	document_holder_init(&s->providers);
	document_put(&s->providers, document_make(sizeof(struct providers)));
	s->all.providers = &s->providers;
	s->all.claims_verified = strcmp(options->email_claims, "verified") == 0;
	s->all.push = (struct push_settings){.shards = (uint32_t)options->device_shards};
	document_holder_init(&s->all.devices);
	if (!serve_is_remote(options)) /* there, endpoint.c has refused it */
		tables_warn(&s->all.tables, store);
	if (strcmp(options->create_tables, "now") == 0 && make_tables(&s->all.tables, store, err) != ERR_NONE)
		return err->code;
	if (open_index(&s->all.tables, store, err) != ERR_NONE ||
	    open_identifiers(&s->all, options, err) != ERR_NONE || open_devices(s, options, err) != ERR_NONE)
		return err->code;
	open_limits(&s->all, options);
	if (serve_is_remote(options) && check_identifiers(&s->all, options, store, err) != ERR_NONE)
		return err->code;
	if (open_event_shards(&s->all, options, store, err) != ERR_NONE ||
	    open_policies(s, options, store, err) != ERR_NONE)
		return err->code;
	warn_of_codes(s);
	return ERR_NONE;
}

static void refresh_device_keys(struct server_services *s)
{
	struct device_keys *keys;
	struct err          err;

	if (device_keys_refresh(s->data, &s->device_keys_seen, &keys, &err) != ERR_NONE) {
		log_error("the device keys were not reloaded, and the previous ones stay in force: %s",
		          err.text);
		return;
	}
	if (keys == NULL)
		return;
	document_put(&s->all.devices, &keys->base);
	log_info("reloaded the device keys");
}

void services_refresh(struct server_services *s, struct store *store)
{
	struct checking     checking = {s, store};
	struct policy_check check = {store_now_s(store), file_allows, &checking};

	policy_store_refresh(s->all.policies, &check);
	if (policy_store_unkept(s->all.policies))
		keep_versions(s, store);
	refresh_device_keys(s);
	warn_of_codes(s);
}

void services_close(struct server_services *s)
{
	if (s->all.providers != NULL)
		document_holder_release(&s->providers);
	if (s->data != NULL)
		document_holder_release(&s->all.devices);
	if (s->all.policies != NULL)
		policy_store_close(s->all.policies);
	if (s->all.limits != NULL)
		limits_close(s->all.limits);
	if (s->all.hot_keys != NULL)
		hot_keys_close(s->all.hot_keys);
}
