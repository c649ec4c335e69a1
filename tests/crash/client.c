/* Client: a request is written whole, then the answer is read to the length its head names. */
#define _GNU_SOURCE
#include "client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "text.h"

enum { READ_BYTES = 64 * 1024 };

void client_init(struct client *c)
{
	c->fd = -1;
	buf_init(&c->out, NULL);
	buf_init(&c->in, NULL);
	arena_init(&c->arena);
	c->reader = json_reader_open();
}

void client_release(struct client *c)
{
	client_close(c);
	buf_release(&c->out);
	buf_release(&c->in);
	arena_release(&c->arena);
	json_reader_close(c->reader);
}

bool client_open(struct client *c, unsigned port)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
	                         .sin_port = htons((uint16_t)port),
	                         .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct timeval     wait = {.tv_sec = CLIENT_WAIT_S};
	int                on = 1;

	client_close(c);
	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		return false;
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	if (connect(c->fd, (struct sockaddr *)&to, sizeof(to)) == 0)
		return true;
	client_close(c);
	return false;
}

void client_close(struct client *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

static bool send_all(struct client *c)
{
	size_t sent = 0;

	while (sent < c->out.len) {
		ssize_t n = send(c->fd, c->out.data + sent, c->out.len - sent, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		sent += (size_t)n;
	}
	return true;
}

static bool receive_more(struct client *c)
{
	ssize_t n;

	buf_reserve(&c->in, READ_BYTES);
	n = recv(c->fd, c->in.data + c->in.len, READ_BYTES, 0);
	if (n <= 0)
		return false;
	c->in.len += (size_t)n;
	return true;
}

/* Reads until the head is whole; its length, with the empty line, or 0 if the connection broke. */
static size_t receive_head(struct client *c)
{
	for (;;) {
		const char *end = c->in.len == 0 ? NULL : memmem(c->in.data, c->in.len, "\r\n\r\n", 4);

		if (end != NULL)
			return (size_t)(end - c->in.data) + 4;
		if (!receive_more(c))
			return 0;
	}
}

static bool parse_head(const struct client *c, size_t head, int *status, size_t *body)
{
	static const char length_name[] = "\r\nContent-Length: ";
	const char       *length = memmem(c->in.data, head, length_name, sizeof(length_name) - 1);

	if (length == NULL || head < sizeof("HTTP/1.1 200"))
		return false;
	*status = atoi(c->in.data + sizeof("HTTP/1.1"));
	*body = strtoul(length + sizeof(length_name) - 1, NULL, 10);
	return true;
}

bool client_call(struct client *c, const char *operation, struct bytes body, struct answer *answer)
{
	size_t head, length;

	if (c->fd < 0)
		return false;
	buf_reset(&c->out);
	text_add(&c->out,
	         "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Amz-Target: DynamoDB_20120810.%s\r\n"
	         "Content-Type: application/x-amz-json-1.0\r\nContent-Length: %zu\r\n\r\n",
	         operation, body.len);
	buf_add_bytes(&c->out, body);
	buf_reset(&c->in);
	if (!send_all(c) || (head = receive_head(c)) == 0 || !parse_head(c, head, &answer->status, &length))
		return false;
	while (c->in.len < head + length)
		if (!receive_more(c))
			return false;
	arena_reset(&c->arena);
	answer->body = client_parse(
	        c, length == 0 ? BYTES("{}")
	                       : (struct bytes){c->in.data + head, length}); /* TagResource answers nothing */
	return true;
}

const struct json *client_parse(struct client *c, struct bytes text)
{
	struct json *tree;
	struct err   err;

	return json_read(c->reader, &c->arena, text, &tree, &err) == ERR_NONE ? tree : NULL;
}
