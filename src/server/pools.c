/* Pools: see pools.h. The credentials are looked for at the first call: a server without providers needs none. */
#include "server/pools.h"

#include <pthread.h>
#include <stdlib.h>

#include "outbound/cognito.h"
#include "service/cognito.h"

struct pools {
	struct clock         *clock;
	struct provider_calls calls;
	struct cognito_calls  under_way;

	/* under lock */
	pthread_mutex_t         lock;
	struct aws_credentials *credentials; /* NULL: not looked for yet, or in vain */
};

static enum err_code find_credentials(struct pools *p, struct aws_credentials **out, struct err *err)
{
	enum err_code rc = ERR_NONE;

	pthread_mutex_lock(&p->lock);
	if (p->credentials == NULL)
		rc = aws_credentials_open(&environment_process, p->clock, &p->credentials, err);
	*out = p->credentials;
	pthread_mutex_unlock(&p->lock);
	return rc;
}

static enum err_code target_of(struct pools *p, const struct provider_call *c, struct cognito_target *out,
                               struct err *err)
{
	const struct provider *to = c->provider;

	*out = (struct cognito_target){.endpoint =
	                                       arena_printf(c->arena, "%.*s", BYTES_ARG(to->endpoint)).data,
	                               .region = arena_printf(c->arena, "%.*s", BYTES_ARG(to->region)).data,
	                               .pool = arena_printf(c->arena, "%.*s", BYTES_ARG(to->pool)).data,
	                               .allow_private = to->allow_private,
	                               .clock = p->clock,
	                               .calls = &p->under_way,
	                               .trace = c->trace};
	if (to->ca_file.len > 0)
		out->ca_file = arena_printf(c->arena, "%.*s", BYTES_ARG(to->ca_file)).data;
	return find_credentials(p, &out->credentials, err);
}

/* False: it cannot be a user here. */
static bool record_of(const struct provider_call *c, const struct cognito_user *u, struct sync_record *out)
{
	*out = (struct sync_record){.provider = c->provider->name,
	                            .name = u->name,
	                            .has_time = u->modified_ms > 0,
	                            .time_ms = u->modified_ms,
	                            .standing = cognito_standing(u->status, u->disabled),
	                            .fresh = true,
	                            .complete = true,
	                            .keeps = c->provider->keeps_absent};
	for (uint32_t i = 0; i < u->attribute_count; i++)
		cognito_attribute(c->arena, out, u->attributes[i].name, u->attributes[i].value);
	return cognito_complete(out);
}

static enum err_code list(void *ctx, const struct provider_call *c, struct bytes from,
                          struct provider_page *out, struct err *err)
{
	struct cognito_target t;
	struct cognito_page   page;

	*out = (struct provider_page){0};
	if (target_of(ctx, c, &t, err) != ERR_NONE ||
	    cognito_list_users(&t, from, c->arena, &page, err) != ERR_NONE)
		return err->code;
	out->list = arena_array(c->arena, page.count + 1, sizeof(*out->list));
	out->next = page.next;
	for (uint32_t i = 0; i < page.count; i++) {
		if (record_of(c, &page.list[i], &out->list[out->count]))
			out->count++;
		else
			out->unreadable++;
	}
	return ERR_NONE;
}

static enum err_code get(void *ctx, const struct provider_call *c, struct bytes name, struct sync_record *out,
                         struct err *err)
{
	struct cognito_target t;
	struct cognito_user   user;

	if (target_of(ctx, c, &t, err) != ERR_NONE ||
	    cognito_get_user(&t, name, c->arena, &user, err) != ERR_NONE)
		return err->code;
	record_of(c, &user, out);
	return ERR_NONE;
}

static enum err_code sign_out(void *ctx, const struct provider_call *c, struct bytes name, struct err *err)
{
	struct cognito_target t;

	if (target_of(ctx, c, &t, err) != ERR_NONE)
		return err->code;
	return cognito_sign_out(&t, name, c->arena, err);
}

struct pools *pools_open(struct clock *clock)
{
	struct pools *p = mem_zalloc(sizeof(*p));

	p->clock = clock;
	p->calls = (struct provider_calls){list, get, sign_out, p};
	pthread_mutex_init(&p->lock, NULL);
	cognito_calls_init(&p->under_way);
	return p;
}

void pools_stop(struct pools *p)
{
	if (p != NULL)
		cognito_calls_stop(&p->under_way);
}

void pools_close(struct pools *p)
{
	if (p == NULL)
		return;
	if (p->credentials != NULL)
		aws_credentials_close(p->credentials);
	cognito_calls_release(&p->under_way);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

const struct provider_calls *pools_calls(struct pools *p)
{
	return &p->calls;
}
