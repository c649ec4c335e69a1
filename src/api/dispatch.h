/* Dispatch: one request from its sender to its answer, on the right threads. Both protocols go this way: DynamoDB's
 * (dynamodb.c) and the identity API (v1.c). What differs between them is in a struct protocol.
 *
 *   loop thread                                late thread          a thread of the store's
 *   admit: who is it, the limits of its key,
 *     could that key do this at all?
 *     its caller is in debt --------------->   work
 *   work: name, authorise, decode;              |
 *     a READ: run, on what is committed         |
 *   conclude  <---------------------------------'
 *     a WRITE: submit ------------------------------------------->  run, in its turn
 *                                                                   done: durable, or failed
 *   it waits for something: parked, and run again when it is there
 *   finish: answer, meter, log, audit, release  <-----------------
 *
 * Callers whose last requests were heavy are in debt: the work for them is done on another thread (late.h), so that the
 * loop's other connections do not wait for it. Their writes are rehearsed there (table/store.h), so that the store's other
 * callers do not either; and so is a write that turns out to be too heavy for its turn.
 *
 * Where reads go over a network (store_backend.reads_wait) a READ is submitted like a WRITE, and only what it decodes is done
 * on the loop.
 *
 * What always holds:
 * (D1) Every call leaves through finish, once: refused, failed, late, replayed, abandoned or committed.
 * (D2) A WRITE that was submitted is finished only after done.
 *      A protocol may give a write that failed further turns, with pauses between them (`again`).
 * (D3) Nothing of a call is touched after finish, nor by the loop between submit and done. */
#ifndef API_DISPATCH_H
#define API_DISPATCH_H

#include "api/auth.h"
#include "api/late.h"
#include "table/store.h"

enum call_kind {
	READ,       /* runs at once, on what is committed; unless reads wait for a network */
	WRITE,      /* waits for its turn */
	ADMINISTER, /* a write that is audited; only a route of /v1 has this kind, and its call is a WRITE */
};

/* What a call is counted as, and called in the log. */
struct call_label {
	unsigned     row; /* meter.h */
	struct bytes name;
};

struct call;

/* How a protocol does what the dispatcher has it do, in this order. Errors end the call. */
struct protocol {
	/* On the loop. Fills c->who. */
	enum err_code (*identify)(struct call *c, struct err *err);
	/* On the loop, by what the head of the request says. Sets c->reach, and refuses those who could never have it done: nothing
	 * of the body is read for them (docs/decisions/052). */
	enum err_code (*foresee)(struct call *c, struct err *err);
	/* On the loop or the late thread, as the next two. Reads what policies are asked about, and nothing else. */
	enum err_code (*name)(struct call *c, struct json_reader *json, struct err *err);
	enum err_code (*authorise)(struct call *c, struct err *err);
	/* The rest. Sets c->kind, and c->tableless or c->conditional if they apply. */
	enum err_code (*decode)(struct call *c, struct json_reader *json, struct err *err);
	/* Of a READ: on the same thread. Of a WRITE: in its turn. */
	enum err_code (*run)(struct call *c, struct table *t, struct err *err);
	/* On the loop, once. rc: how it ended, wherever it got to; c->admitted says whether run may have been called.
	 * Fills the response and returns the outcome, which is rc unless the protocol knows better: a false condition
	 * is an error there. */
	enum err_code (*answer)(struct call *c, enum err_code rc, struct err *err, struct http_response *out);
	/* On the loop, of a WRITE whose turn failed, before it is answered: is it to have another turn, and after what pause? It waits
	 * for that without a thread. `last`: nobody can wait any more. NULL: never. */
	bool (*again)(struct call *c, enum err_code rc, bool last, int64_t *pause_us);
	/* On the loop, of a call that has run and, if it wrote, is durable: shall its answer wait? True: the request is parked, and
	 * dispatch_resume follows; or that was called already. NULL: never. */
	bool (*waits)(struct call *c);
	/* On the loop, last: the answer is a stream. True: it was opened, and the request is gone. False: there is no room for it.
	 * Either way it has taken c->who over. Only asked if c->streams. */
	bool (*stream)(struct call *c);
	struct call_label (*label)(const struct call *c);
	/* Writes to the audit log, if the call administered something. */
	void (*audit)(const struct call *c, enum err_code outcome, struct audit *audit);
	/* Once, before it is sent: gives back what decode took. */
	void (*release)(struct call *c);
};

/* What both protocols know of a call. Theirs begin with it, and live in the request's arena. */
struct call {
	struct turn_request
	        turn; /* first: the store hands back a pointer to it. Its rc and err are the call's */
	const struct protocol *protocol;
	struct http_request   *http;
	struct api_loop       *loop;        /* the request's */
	enum call_kind         kind;        /* READ or WRITE, once decoded */
	bool                   tableless;   /* of a READ: run looks at the table's time only */
	bool                   conditional; /* of a WRITE: it has conditions, which a rehearsal can test */
	bool                   streams;     /* it is answered with a stream, unless it fails */
	bool                   admitted;    /* its caller may, and it was decoded */
	enum reach             reach;  /* of the caller's policy with this action; REACH_ALL without keys */
	struct caller          who;    /* until it is answered */
	struct table          *reader; /* call_reader; NULL: none */
	struct table           tableless_table; /* of a tableless READ: its time, and no backend */
	struct late_work       late;
	bool                   last;       /* of a WRITE that failed: nobody can wait for another turn */
	bool                   decided;    /* a rehearsal has shown that it fails: it needs no turn */
	struct bytes           request_id; /* from answer on */
	struct bytes
	        key_id; /* of the caller, which the log names after its release; empty: nobody was asked */
	char    id_text[REQUEST_ID_LENGTH], key_id_text[CREDENTIAL_ID_BYTES];
};

/* Before dispatch: of memory that was not zeroed. */
void call_init(struct call *c, const struct protocol *p, struct http_request *r);

/* Has it identified, worked on and answered. On the loop. */
void dispatch(struct call *c);

/* Answers it with the error at once; nobody is identified. On the loop. */
void dispatch_refuse(struct call *c, const struct err *err);

/* ---- for protocols ---- */

/* What is committed, from the first time this is called. In authorise, decode and the run of a READ. */
struct table *call_reader(struct call *c);

/* It will be asked for anew, if at all. */
void call_reader_end(struct call *c);

/* Of a call that waited, on its loop: runs it once more, or answers what it has. */
void dispatch_resume(struct call *c, bool once_more);

#endif
