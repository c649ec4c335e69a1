/* Verifier: see verifier.h. */
#include "token/verifier.h"

#include <pthread.h>
#include <stdlib.h>

/* How often the worker looks by itself. Between two looks it is woken for what is wanted. */
static const int64_t look_us = 5 * 1000000;

struct verifier {
	struct worker         worker;
	struct json_reader   *reader; /* the worker's */
	struct metric_counter outcomes[TOKEN_OUTCOME_COUNT];
	struct metric_counter judgements[TOKEN_JUDGEMENT_COUNT];

	/* shared under lock */
	pthread_mutex_t lock;
	struct issuers *issuers;
};

static void round_run(struct worker *w, void *ctx)
{
	struct verifier *v = ctx;
	struct issuers  *all = verifier_issuers(v);

	issuers_round(all, v->reader, w);
	issuers_drop(all);
}

enum err_code verifier_open(struct verifier **out, struct clock *clock, struct err *err)
{
	struct verifier *v = mem_zalloc(sizeof(*v));

	pthread_mutex_init(&v->lock, NULL);
	v->issuers = issuers_open((struct token_fetch){0}, clock);
	v->reader = json_reader_open();
	worker_init(&v->worker,
	            &(struct worker_options){
	                    .name = "token-keys", .round = round_run, .ctx = v, .period_us = look_us});
	if (worker_start(&v->worker, err) != ERR_NONE) {
		verifier_close(v);
		return err->code;
	}
	*out = v;
	return ERR_NONE;
}

void verifier_close(struct verifier *v)
{
	if (v == NULL)
		return;
	worker_join(&v->worker);
	worker_release(&v->worker);
	json_reader_close(v->reader);
	issuers_drop(v->issuers);
	pthread_mutex_destroy(&v->lock);
	free(v);
}

struct issuers *verifier_issuers(struct verifier *v)
{
	struct issuers *all;

	pthread_mutex_lock(&v->lock);
	all = issuers_retain(v->issuers);
	pthread_mutex_unlock(&v->lock);
	return all;
}

void verifier_put(struct verifier *v, struct issuers *next)
{
	struct issuers *before;

	issuers_inherit(next, v->issuers); /* only this thread replaces them */
	pthread_mutex_lock(&v->lock);
	before = v->issuers;
	v->issuers = next;
	pthread_mutex_unlock(&v->lock);
	issuers_drop(before);
	worker_wake(&v->worker);
}

enum token_outcome verifier_verify(struct verifier *v, const struct token_call *c, struct bytes text,
                                   struct jwt *out, int64_t *retry_s)
{
	struct issuers    *all = verifier_issuers(v);
	enum token_outcome outcome = issuers_verify(all, c, text, out, retry_s);

	issuers_drop(all);
	metric_add(&v->outcomes[outcome], 1);
	if (*retry_s == 1) /* a fetch may begin at once */
		worker_wake(&v->worker);
	return outcome;
}

uint64_t verifier_count(const struct verifier *v, enum token_outcome outcome)
{
	return metric_value(&v->outcomes[outcome]);
}

void verifier_judged(struct verifier *v, enum token_judgement judgement)
{
	metric_add(&v->judgements[judgement], 1);
}

uint64_t verifier_judgements(const struct verifier *v, enum token_judgement judgement)
{
	return metric_value(&v->judgements[judgement]);
}

const char *token_judgement_name(enum token_judgement judgement)
{
	static const char *const names[] = {
#define X(id, name) [id] = name,
	        TOKEN_JUDGEMENTS(X)
#undef X
	};

	return names[judgement];
}
