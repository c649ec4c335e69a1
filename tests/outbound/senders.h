/* Senders: events to send, and what tests ask about their results. */
#ifndef TESTS_OUTBOUND_SENDERS_H
#define TESTS_OUTBOUND_SENDERS_H

#include "base/log.h"
#include "outbound/sender.h"
#include "scripted.h"

enum { LIST_MAX = 10 };

/* A sender, its peer, and a list to send. */
struct sending {
	struct sender      *sender;
	struct peer        *peer; /* NULL: none */
	struct arena        arena;
	struct sender_event list[LIST_MAX];
	uint32_t            count;
};

static inline void sending_init(struct sending *s, struct peer *peer, uint32_t count)
{
	log_set_level(LOG_ERROR);
	*s = (struct sending){.peer = peer, .count = count};
	arena_init(&s->arena);
	for (uint32_t i = 0; i < count; i++)
		s->list[i] = (struct sender_event){
		        .id = arena_printf(&s->arena, "event-%u", i),
		        .type = BYTES("user.created"),
		        .subject = arena_printf(&s->arena, "subject-%u", i),
		        .time = BYTES("2026-11-16T12:00:00.250000Z"),
		        .json = arena_printf(&s->arena, "{\"specversion\":\"1.0\",\"id\":\"event-%u\"}", i),
		        .end = SENDER_GONE}; /* a result that nobody fills is seen */
}

static inline void sending_run(struct sending *s)
{
	s->sender->kind->send(s->sender, s->list, s->count, &s->arena);
}

static inline void sending_release(struct sending *s)
{
	if (s->sender != NULL)
		s->sender->kind->close(s->sender);
	if (s->peer != NULL)
		peer_close(s->peer);
	arena_release(&s->arena);
}

/* One letter for each event: S, L, R or G. */
static inline const char *sending_ends(struct sending *s)
{
	static const char letters[] = {
	        [SENDER_LATER] = 'L', [SENDER_SENT] = 'S', [SENDER_REFUSED] = 'R', [SENDER_GONE] = 'G'};
	char *out = arena_zalloc(&s->arena, LIST_MAX + 1);

	for (uint32_t i = 0; i < s->count; i++)
		out[i] = letters[s->list[i].end];
	return out;
}

/* What the body of the n-th request that the peer saw is. */
static inline struct bytes sending_body(const struct sending *s, unsigned n)
{
	return bytes_of(strstr(s->peer->seen[n], "\r\n\r\n") + 4);
}

static inline bool sending_saw(const struct sending *s, unsigned n, const char *text)
{
	return strstr(s->peer->seen[n], text) != NULL;
}

#endif
