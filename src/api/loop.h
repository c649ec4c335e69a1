/* What each loop thread has of its own: a JSON reader, a buffer for answers, a source of request ids. */
#ifndef API_LOOP_H
#define API_LOOP_H

#include "api/api.h"
#include "base/buf.h"
#include "base/debt.h"
#include "json/json.h"

enum {
	REQUEST_ID_LENGTH = 52,
	ANSWER_KEEP_BYTES_MAX = 256 * 1024, /* a longer answer's buffer is given back */
};

struct sigv4_key_cache;
struct late;

struct api_loop {
	struct api             *api;
	struct json_reader     *json;
	struct sigv4_key_cache *signatures;
	struct buf              answer;   /* of the request being answered; reused */
	struct debts            debts;    /* of callers whose requests were heavy */
	struct late            *late;     /* where the work for these is done; NULL: here */
	struct meter_shard     *meter;    /* in the api; shared with other loops if there are many */
	uint64_t                id_state; /* moves with each request id, through all 2^64 values */
	uint64_t                id_fixed; /* differs from loop to loop */
};

void *api_loop_open(void *api);
void  api_loop_close(void *api, void *loop);

/* Like DynamoDB's: 52 digits and capitals, never twice from one process. */
void api_loop_request_id(struct api_loop *l, char id[REQUEST_ID_LENGTH]);

/* An empty buffer for the next answer. */
struct buf *api_loop_answer(struct api_loop *l);

#endif
