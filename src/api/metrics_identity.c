/* Metrics of users and what belongs to them: codes, tokens, known and registered devices, push messages, and the providers that users come from. */
#include <string.h>

#include "api/exposition.h"
#include "api/metrics.h"
#include "api/v1.h"
#include "service/push.h"
#include "service/push_feedback.h"
#include "service/services.h"
#include "service/sync.h"
#include "token/verifier.h"

static const struct labels no_labels = {NULL, 0};

/* ---- known devices ---- */

static void write_devices(struct buf *out, const struct meter *m)
{
	static const char *const events[METER_DEVICES] = {[METER_DEVICE_ISSUED] = "issued",
	                                                  [METER_DEVICE_KNOWN] = "known",
	                                                  [METER_DEVICE_UNKNOWN] = "unknown",
	                                                  [METER_DEVICE_SPENT] = "spent"};

	exposition_family(out, "gatehouse_device_tokens_total", "counter",
	                  "Device tokens: issued; sent and known, or unknown; spent by failures.");
	for (int i = 0; i < METER_DEVICES; i++) {
		struct label label = {"event", bytes_of(events[i])};

		exposition_sample(out, "gatehouse_device_tokens_total", (struct labels){&label, 1},
		                  (double)meter_sum(m, &m->shards[0].devices[i]));
	}
}

/* ---- identity providers ---- */

/* X(name, kind, what it means, the number) */
#define SYNC_NUMBERS(X)                                                                                      \
	X("gatehouse_sync_dead_letters", "gauge",                                                            \
	  "Records of identity providers that could not be written and wait for a redrive.",                 \
	  atomic_load(&n->dead_letters))                                                                     \
	X("gatehouse_sign_outs_pending", "gauge",                                                            \
	  "Suspended users who are still to be signed out at their provider.",                               \
	  atomic_load(&n->sign_outs_pending))                                                                \
	X("gatehouse_sign_outs_total", "counter", "Users signed out at their provider.",                     \
	  metric_value(&n->sign_outs))                                                                       \
	X("gatehouse_sign_out_failures_total", "counter",                                                    \
	  "Calls to sign a user out that failed; each is made again.", metric_value(&n->sign_out_failures))

static void write_sync(struct buf *out, const struct sync_numbers *n)
{
	exposition_family(out, "gatehouse_sync_records_total", "counter",
	                  "Records of identity providers, by what became of them.");
	for (int i = 0; i < SYNC_OUTCOME_COUNT; i++) {
		struct label label = {"outcome", bytes_of(sync_outcome_names[i])};

		exposition_sample(out, "gatehouse_sync_records_total", (struct labels){&label, 1},
		                  (double)metric_value(&n->outcomes[i]));
	}
#define X(name, kind, help, number)                                                                          \
	exposition_family(out, name, kind, help);                                                            \
	exposition_sample(out, name, no_labels, (double)(number));
	SYNC_NUMBERS(X)
#undef X
}

/* ---- users ---- */

static void write_users(struct buf *out, const struct meter *m)
{
	static const struct {
		const char *kind, *family, *label, *help;
	} families[] = {{"codes", "gatehouse_email_codes_total", "outcome",
	                 "Requests for a code that proves an email address: a code was made, or the request "
	                 "was refused."},
	                {"entries", "gatehouse_email_entries_total", "outcome",
	                 "Entries of such codes; lost: right, but another user has the address."},
	                {"conflicts", "gatehouse_user_conflicts_total", "about",
	                 "Changes of users refused because of others: the address, the id or the version."},
	                {"revocations", "gatehouse_revocations_total", "kind",
	                 "Calls that revoked tokens: one token, a user's, a client's, or everyone's."}};
	static const struct {
		const char *kind, *label;
	} counters[] = {
#define X(id, kind, label) [id] = {kind, label},
	        METER_USERS(X)
#undef X
	};

	for (size_t f = 0; f < sizeof(families) / sizeof(families[0]); f++) {
		exposition_family(out, families[f].family, "counter", families[f].help);
		for (int i = 0; i < METER_USER_COUNT; i++) {
			struct label label = {families[f].label, bytes_of(counters[i].label)};

			if (strcmp(counters[i].kind, families[f].kind) == 0)
				exposition_sample(out, families[f].family, (struct labels){&label, 1},
				                  (double)meter_sum(m, &m->shards[0].users[i]));
		}
	}
}

static void write_code_sender(struct buf *out, const struct code_post *post)
{
	struct code_numbers n = post->read == NULL ? (struct code_numbers){0} : post->read(post->ctx);
	const struct {
		const char *outcome;
		uint64_t    number;
	} ends[] = {{"sent", n.sent}, {"failed", n.failed}, {"dropped", n.dropped}, {"replaced", n.replaced}};

	exposition_family(out, "gatehouse_code_messages_total", "counter",
	                  "Messages to the webhook of codes. failed: not accepted before the code expired. "
	                  "dropped: the "
	                  "queue was full. replaced: a newer code took its place.");
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		struct label label = {"outcome", bytes_of(ends[i].outcome)};

		exposition_sample(out, "gatehouse_code_messages_total", (struct labels){&label, 1},
		                  (double)ends[i].number);
	}
	exposition_family(out, "gatehouse_code_queue", "gauge",
	                  "Messages that wait for the webhook of codes to accept them.");
	exposition_sample(out, "gatehouse_code_queue", no_labels, n.queued);
}

/* ---- registered devices ---- */

/* One counter per name, with the name as its label. */
struct named_counters {
	const char                  *family, *help, *label;
	const char *const           *names;
	const struct metric_counter *counters; /* in the first shard */
	int                          count;
};

static void write_named(struct buf *out, const struct meter *m, const struct named_counters *n)
{
	exposition_family(out, n->family, "counter", n->help);
	for (int i = 0; i < n->count; i++) {
		struct label label = {n->label, bytes_of(n->names[i])};

		exposition_sample(out, n->family, (struct labels){&label, 1},
		                  (double)meter_sum(m, &n->counters[i]));
	}
}

static void write_push(struct buf *out, const struct meter *m)
{
	static const char *const events[METER_PUSHES] = {[METER_PUSH_CREATED] = "created",
	                                                 [METER_PUSH_REFRESHED] = "refreshed",
	                                                 [METER_PUSH_MOVED] = "moved",
	                                                 [METER_PUSH_TRIMMED] = "trimmed"};

	write_named(
	        out, m,
	        &(struct named_counters){"gatehouse_devices_total",
	                                 "Registered devices: created, refreshed; moved: a device lost its "
	                                 "push token to another; trimmed: removed to make room.",
	                                 "event", events, m->shards[0].push, METER_PUSHES});
	write_named(out, m,
	            &(struct named_counters){"gatehouse_push_feedback_total",
	                                     "What providers reported of push tokens, by outcome.", "outcome",
	                                     push_feedback_names, m->shards[0].push_feedback,
	                                     FEEDBACK_OUTCOMES});
}

/* ---- push messages ---- */

/* Since when the oldest one waits, over all shards; 0: none does. */
static double push_oldest_s(const struct push_numbers *n, int64_t now_us)
{
	int64_t oldest_us = 0;

	for (int i = 0; i < PUSH_SHARDS; i++) {
		int64_t us = atomic_load_explicit(&n->oldest_us[i], memory_order_relaxed);

		if (us > 0 && (oldest_us == 0 || us < oldest_us))
			oldest_us = us;
	}
	return oldest_us == 0 || oldest_us > now_us ? 0 : (double)(now_us - oldest_us) / 1e6;
}

struct push_counters {
	const char                  *family, *help, *label;
	const struct metric_counter *list;
	const char *const           *names;
	int                          first, count;
};

static void write_push_counters(struct buf *out, const struct push_counters *c)
{
	exposition_family(out, c->family, "counter", c->help);
	for (int i = c->first; i < c->count; i++) {
		struct label label = {c->label, bytes_of(c->names[i])};

		exposition_sample(out, c->family, (struct labels){&label, 1},
		                  (double)metric_value(&c->list[i]));
	}
}

static void write_push_messages(struct buf *out, const struct push_numbers *n, int64_t now_us)
{
	if (n == NULL)
		return;
	exposition_family(out, "gatehouse_push_queued", "gauge",
	                  "Push messages that wait or are being sent.");
	exposition_sample(out, "gatehouse_push_queued", (struct labels){NULL, 0},
	                  (double)atomic_load_explicit(&n->queued, memory_order_relaxed));
	exposition_family(out, "gatehouse_push_oldest_seconds", "gauge",
	                  "How long the oldest push message has waited; 0: none waits.");
	exposition_sample(out, "gatehouse_push_oldest_seconds", (struct labels){NULL, 0},
	                  push_oldest_s(n, now_us));
	write_push_counters(out, &(struct push_counters){"gatehouse_push_messages_total",
	                                                 "Push messages by the state that they came into.",
	                                                 "state", n->states, push_state_names, PUSH_ACCEPTED,
	                                                 PUSH_STATE_COUNT});
	write_push_counters(out, &(struct push_counters){"gatehouse_push_errors_total",
	                                                 "Push messages that failed, by Expo's code.", "code",
	                                                 n->errors, push_error_names, 0, PUSH_ERROR_COUNT});
	write_push_counters(out,
	                    &(struct push_counters){"gatehouse_push_calls_total",
	                                            "Calls to Expo that sent messages, by how they ended.",
	                                            "end", n->calls, push_end_names, 0, PUSH_END_COUNT});
	exposition_family(out, "gatehouse_push_receipts_total", "counter",
	                  "Receipts that Expo was asked for.");
	exposition_sample(out, "gatehouse_push_receipts_total", (struct labels){NULL, 0},
	                  (double)metric_value(&n->receipts));
	exposition_family(out, "gatehouse_push_resent_total", "counter",
	                  "Push messages that were queued again because their call got no answer.");
	exposition_sample(out, "gatehouse_push_resent_total", (struct labels){NULL, 0},
	                  (double)metric_value(&n->resent));
	exposition_family(out, "gatehouse_push_disabled_total", "counter",
	                  "Push tokens that were disabled because Expo said that they are dead.");
	exposition_sample(out, "gatehouse_push_disabled_total", (struct labels){NULL, 0},
	                  (double)metric_value(&n->disabled));
}

/* ---- tokens ---- */

/* X(name, kind, what it means, the number) */
#define ISSUER_NUMBERS(X)                                                                                    \
	X("gatehouse_token_key_fetches_total", "counter", "Fetches of an issuer's keys that were begun.",    \
	  (double)n.fetches)                                                                                 \
	X("gatehouse_token_key_failures_total", "counter",                                                   \
	  "Fetches of an issuer's keys that failed; the last good keys stay in use.", (double)n.failures)    \
	X("gatehouse_token_keys", "gauge", "Keys of an issuer that tokens are verified with.",               \
	  (double)n.keys)                                                                                    \
	X("gatehouse_token_key_age_seconds", "gauge",                                                        \
	  "Time since an issuer's keys were fetched; 0 if they come from a file, or were never fetched.",    \
	  n.fetched_us == 0 ? 0 : (double)(now_us - n.fetched_us) / 1e6)                                     \
	X("gatehouse_token_long_lived", "gauge",                                                             \
	  "1 if an issuer was seen to issue tokens that live longer than an hour.", (double)n.long_lived)    \
	X("gatehouse_token_issuer_ahead", "gauge",                                                           \
	  "1 if an issuer's clock was seen ahead of this server's, by a second or more, within a day.",      \
	  (double)n.ahead)

static void write_issuers(struct buf *out, struct issuers *all, int64_t now_us)
{
	struct issuer_numbers n;

#define X(family, kind, help, number)                                                                        \
	exposition_family(out, family, kind, help);                                                          \
	for (uint32_t i = 0; issuers_read(all, i, &n); i++) {                                                \
		struct label issuer = {"issuer", n.issuer};                                                  \
                                                                                                             \
		exposition_sample(out, family, (struct labels){&issuer, 1}, number);                         \
	}
	ISSUER_NUMBERS(X)
#undef X
}

/* Each token once: by what is wrong with it, or by what stands against it. */
static void write_tokens(struct buf *out, struct verifier *v)
{
	exposition_family(out, "gatehouse_tokens_total", "counter", "Tokens that were verified, by outcome.");
	for (int i = TOKEN_VALID + 1; i < TOKEN_OUTCOME_COUNT; i++) {
		struct label outcome = {"outcome", bytes_of(token_outcome_name((enum token_outcome)i))};

		exposition_sample(out, "gatehouse_tokens_total", (struct labels){&outcome, 1},
		                  (double)verifier_count(v, (enum token_outcome)i));
	}
	for (int i = 0; i < TOKEN_JUDGEMENT_COUNT; i++) {
		struct label outcome = {"outcome", bytes_of(token_judgement_name((enum token_judgement)i))};

		exposition_sample(out, "gatehouse_tokens_total", (struct labels){&outcome, 1},
		                  (double)verifier_judgements(v, (enum token_judgement)i));
	}
}

static void write_verifier(struct buf *out, const struct api *api)
{
	struct issuers    *all = verifier_issuers(api->parts.verifier);
	struct file_health health = api->parts.identity_health(api->parts.ready_ctx);

	write_tokens(out, api->parts.verifier);
	write_issuers(out, all, clock_steady_us(api->parts.clock));
	issuers_drop(all);
	exposition_family(out, "gatehouse_identity_refused", "gauge",
	                  "1 while the identity file is refused because of a mistake in it.");
	exposition_sample(out, "gatehouse_identity_refused", no_labels, health.refused);
	exposition_family(out, "gatehouse_identity_reload_failures_total", "counter",
	                  "How often a changed identity file was refused.");
	exposition_sample(out, "gatehouse_identity_reload_failures_total", no_labels,
	                  (double)health.failures);
}

void metrics_write_identity(struct buf *out, const struct api *api)
{
	const struct services *services = api->parts.services;
	struct store          *store = api->parts.store;

	write_devices(out, &api->meter);
	if (api->parts.verifier != NULL)
		write_verifier(out, api);
	if (services != NULL && services->sync != NULL)
		write_sync(out, services->sync);
	if (services != NULL && store != NULL)
		write_push_messages(out, services->push_post.numbers, store->backend->now_us(store));
	write_users(out, &api->meter);
	if (services != NULL)
		write_code_sender(out, &services->codes);
	write_push(out, &api->meter);
}
