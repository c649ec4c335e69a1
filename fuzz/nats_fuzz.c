/* What a NATS server says, and files with NATS credentials. What is read of a message lies in the input; a message that is cut anywhere is
 * not whole yet; and only a stream's receipt says SENT. */
#include <stdlib.h>

#include "outbound/nats_wire.h"
#include "outbound/nkey.h"

static void within(struct bytes part, struct bytes whole)
{
	if (part.len > 0 && (part.data < whole.data || part.data + part.len > whole.data + whole.len))
		abort();
}

static void mean(const struct nats_message *m, struct arena *a)
{
	struct sender_event e = {.end = SENDER_GONE};
	struct nats_info    info;

	if (m->op == NATS_INFO)
		nats_info_read(m->text, a, &info);
	if (m->op == NATS_ERR && nats_err_is_about(m->text, BYTES("a.b")) &&
	    !bytes_contains(m->text, BYTES("a.b")))
		abort();
	if (m->op != NATS_MSG)
		return;
	nats_answer_read(m, BYTES("a.b"), &e, a);
	if (e.end > SENDER_REFUSED || (e.end == SENDER_SENT) != (e.error[0] == '\0'))
		abort();
}

/* Cut anywhere, it is not whole. */
static void cut(struct bytes input, size_t used, size_t at)
{
	if (nats_read((struct bytes){input.data, at % used}).op != NATS_MORE)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes        rest = {(const char *)data, size}, jwt;
	struct nats_message m;
	struct arena        a;
	struct nkey         key;

	arena_init(&a);
	nkey_credentials_read(rest, &jwt, &key);
	nkey_read(rest, &key);
	for (m = nats_read(rest); m.op != NATS_MORE && m.op != NATS_WRONG; m = nats_read(rest)) {
		if (m.used == 0 || m.used > rest.len)
			abort();
		within(m.text, rest);
		within(m.subject, rest);
		within(m.head, rest);
		within(m.body, rest);
		cut(rest, m.used, size * 31);
		mean(&m, &a);
		rest = (struct bytes){rest.data + m.used, rest.len - m.used};
	}
	if (m.op == NATS_MORE && rest.len >= NATS_INPUT_BYTES_MAX)
		abort();
	arena_release(&a);
	return 0;
}
