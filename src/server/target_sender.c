/* Target senders: see target_sender.h. */
#include "server/target_sender.h"

#include "outbound/eventbridge.h"
#include "outbound/nats.h"
#include "outbound/sqs.h"
#include "outbound/webhook.h"

void target_senders_init(struct target_senders *s, struct clock *clock)
{
	*s = (struct target_senders){.clock = clock};
	pthread_mutex_init(&s->lock, NULL);
}

void target_senders_release(struct target_senders *s)
{
	if (s->credentials != NULL)
		aws_credentials_close(s->credentials);
	pthread_mutex_destroy(&s->lock);
}

/* What a sender is opened with. */
struct opening {
	struct target_senders       *s;
	const struct target_sending *q;
	const char                  *name; /* ends with NUL */
	struct arena                *arena;
};

static struct bytes setting(const struct opening *o, const char *name)
{
	return row_text(&o->q->settings, name);
}

static struct bytes secret(const struct opening *o, const char *name)
{
	return row_text(&o->q->secrets, name);
}

/* With the values of secret ones. One whose value is not there is left out: a check has none of those that are stored. */
static uint32_t headers_of(const struct opening *o, struct outbound_header *out)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < o->q->header_count; i++) {
		const struct target_header *h = &o->q->headers[i];
		struct bytes sealed = target_header_sealed(o->arena, h->name); /* ends with NUL */
		struct bytes value = h->value.len > 0 ? h->value : secret(o, sealed.data);

		if (value.len > 0)
			out[count++] = (struct outbound_header){h->name, value};
	}
	return count;
}

static enum err_code webhook(const struct opening *o, struct sender **out, struct err *err)
{
	struct outbound_header headers[TARGET_HEADERS_MAX];
	struct webhook_options w = {.name = o->name,
	                            .url = setting(o, "url"),
	                            .secrets = arena_printf(o->arena, "%.*s\n%.*s",
	                                                    BYTES_ARG(secret(o, TARGET_SECRET)),
	                                                    BYTES_ARG(secret(o, TARGET_PREVIOUS))),
	                            .ca_file = o->s->ca_file,
	                            .allow_private = o->s->allow_private,
	                            .calls_max = o->q->lanes,
	                            .try_s = o->q->call_s,
	                            .headers = headers,
	                            .header_count = headers_of(o, headers),
	                            .clock = o->s->clock};

	if (webhook_sender_open(&w, out, err) == ERR_NONE)
		return ERR_NONE;
	if (strcmp(err->field, "secrets") == 0)
		return err_field(err, ERR_INVALID, TARGET_SECRET,
		                 "must be whsec_ and the base64 of %d to %d bytes", WEBHOOK_SECRET_BYTES_MIN,
		                 WEBHOOK_SECRET_BYTES_MAX);
	return err->code;
}

/* ---- AWS ---- */

static enum err_code credentials_find(struct target_senders *s, struct aws_credentials **out, struct err *err)
{
	enum err_code rc = ERR_NONE;

	pthread_mutex_lock(&s->lock);
	if (s->credentials == NULL)
		rc = aws_credentials_open(&environment_process, s->clock, &s->credentials, err);
	*out = s->credentials;
	pthread_mutex_unlock(&s->lock);
	return rc;
}

static enum err_code place_of(const struct opening *o, struct aws_place *out, struct err *err)
{
	*out = (struct aws_place){.name = o->name,
	                          .region = setting(o, "region"),
	                          .endpoint = setting(o, "endpoint"),
	                          .ca_file = o->s->ca_file,
	                          .allow_private = o->s->allow_private,
	                          .calls_max = o->q->lanes,
	                          .key_id = setting(o, "accessKeyId"),
	                          .secret = secret(o, "secretAccessKey"),
	                          .clock = o->s->clock};
	if (out->key_id.len > 0)
		return ERR_NONE;
	out->secret = (struct bytes){NULL, 0}; /* of a key that the target had before */
	if (credentials_find(o->s, &out->credentials, err) != ERR_NONE)
		return err_field(err, ERR_INVALID, "accessKeyId",
		                 "the server has no AWS credentials of its own: give accessKeyId and "
		                 "secretAccessKey");
	return ERR_NONE;
}

static enum err_code eventbridge(const struct opening *o, struct sender **out, struct err *err)
{
	struct eventbridge_options e = {.bus = setting(o, "bus"), .source = setting(o, "source")};

	if (place_of(o, &e.place, err) != ERR_NONE)
		return err->code;
	return eventbridge_open(&e, out, err);
}

static enum err_code sqs(const struct opening *o, struct sender **out, struct err *err)
{
	struct sqs_options q = {.queue_url = setting(o, "queueUrl")};

	if (place_of(o, &q.place, err) != ERR_NONE)
		return err->code;
	return sqs_open(&q, out, err);
}

static enum err_code nats(const struct opening *o, struct sender **out, struct err *err)
{
	struct nats_options n = {.name = o->name,
	                         .url = setting(o, "url"),
	                         .subject = setting(o, "subject"),
	                         .token = secret(o, "token"),
	                         .user = setting(o, "user"),
	                         .password = secret(o, "password"),
	                         .seed = secret(o, "seed"),
	                         .credentials = secret(o, "credentials"),
	                         .ca_file = o->s->ca_file,
	                         .allow_private = o->s->allow_private,
	                         .clock = o->s->clock};

	if (n.user.len == 0)
		n.password = (struct bytes){NULL, 0}; /* of a user that the target had before */
	return nats_open(&n, out, err);
}

static const struct {
	const char *type;
	enum err_code (*open)(const struct opening *o, struct sender **out, struct err *err);
} senders[] = {{"webhook", webhook}, {"eventbridge", eventbridge}, {"sqs", sqs}, {"nats", nats}};

enum err_code target_sender_open(struct target_senders *s, const struct target_sending *q,
                                 struct sender **out, struct err *err)
{
	struct arena   arena;
	struct opening o = {.s = s, .q = q, .arena = &arena};
	enum err_code  rc = err_set(err, ERR_INVALID, "this program does not know the target's type");

	arena_init(&arena);
	o.name = arena_printf(&arena, "%.*s", BYTES_ARG(q->name)).data;
	for (size_t i = 0; i < sizeof(senders) / sizeof(senders[0]); i++)
		if (q->type != NULL && strcmp(q->type->name, senders[i].type) == 0)
			rc = senders[i].open(&o, out, err);
	arena_release(&arena);
	return rc;
}

enum err_code target_sender_open_stored(struct target_senders *s, const struct context *ctx,
                                        const struct target *t, struct sender **out, struct err *err)
{
	struct target_sending q = {.name = t->name,
	                           .type = t->type,
	                           .settings = t->settings,
	                           .headers = t->headers,
	                           .header_count = t->header_count,
	                           .lanes = (uint32_t)t->lanes,
	                           .call_s = t->call_s};
	struct row            secrets;

	row_init(&secrets, ctx->arena);
	for (uint32_t i = 0; i < t->sealed.count; i++) {
		struct bytes name = t->sealed.members[i].name, text;
		const char  *named = arena_printf(ctx->arena, "%.*s", BYTES_ARG(name)).data;

		if (bytes_is(name, TARGET_PREVIOUS) && t->previous_until_s <= ctx->now_s)
			continue;
		if (target_secret(ctx, t, named, &text, err) != ERR_NONE)
			return err->code;
		row_set_text(&secrets, named, text);
	}
	q.secrets = row_item(&secrets);
	return target_sender_open(s, &q, out, err);
}
