/* Request: one HTTP request, built once and then only patched, so that making the next one costs the
 * generator a few stores. Path and body are templates: %d stands for a key number, always eight digits, and %t for
 * a time to live in Unix seconds, always ten, so the length of the request never changes. */
#ifndef BENCH_REQUEST_H
#define BENCH_REQUEST_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	REQUEST_BYTES_MAX = 8192,
	REQUEST_SLOTS_MAX = 8,
	REQUEST_KEY_DIGITS = 8,
	REQUEST_TTL_DIGITS = 10,
	REQUEST_KEYS_MAX = 100000000, /* what eight digits can name */
};

struct request_slot {
	size_t at;
	int    digits;
};

struct request {
	size_t              length;
	size_t              slot_count;
	struct request_slot slots[REQUEST_SLOTS_MAX];
	char                text[REQUEST_BYTES_MAX];
};

static inline void request_patch(struct request *r, int digits, uint64_t number)
{
	for (size_t i = 0; i < r->slot_count; i++) {
		uint64_t rest = number;

		if (r->slots[i].digits != digits)
			continue;
		for (int d = digits - 1; d >= 0; d--, rest /= 10)
			r->text[r->slots[i].at + (size_t)d] = (char)('0' + rest % 10);
	}
}

static inline void request_set_key(struct request *r, uint64_t key)
{
	request_patch(r, REQUEST_KEY_DIGITS, key);
}

static inline void request_set_ttl(struct request *r, uint64_t unix_seconds)
{
	request_patch(r, REQUEST_TTL_DIGITS, unix_seconds);
}

/* The digits a placeholder at p stands for; 0 when there is none. */
static inline int request_placeholder(const char *p)
{
	if (p[0] != '%')
		return 0;
	return p[1] == 'd' ? REQUEST_KEY_DIGITS : p[1] == 't' ? REQUEST_TTL_DIGITS : 0;
}

static inline size_t request_body_length(const char *template)
{
	size_t length = 0;

	for (const char *p = template; *p != '\0';) {
		int digits = request_placeholder(p);

		length += digits ? (size_t)digits : 1;
		p += digits ? 2 : 1;
	}
	return length;
}

/* What an AWS SDK sends. The signature is well formed and wrong: the servers measured here do not verify it.
 */
static inline int request_write_aws(struct request *r, const char *host, int port, const char *target,
                                    size_t length)
{
	return snprintf(
	        r->text, sizeof r->text,
	        "POST / HTTP/1.1\r\n"
	        "Host: %s:%d\r\n"
	        "User-Agent: aws-sdk-js/3 os/linux lang/js api/dynamodb#3\r\n"
	        "Content-Type: application/x-amz-json-1.0\r\n"
	        "X-Amz-Target: DynamoDB_20120810.%s\r\n"
	        "X-Amz-Date: 20250101T000000Z\r\n"
	        "Amz-Sdk-Invocation-Id: 6a2f41a3-0000-4000-8000-000000000000\r\n"
	        "Amz-Sdk-Request: attempt=1; max=3\r\n"
	        "Authorization: AWS4-HMAC-SHA256 Credential=bench/20250101/us-east-1/dynamodb/aws4_request, "
	        "SignedHeaders=content-type;host;x-amz-date;x-amz-target, "
	        "Signature=0000000000000000000000000000000000000000000000000000000000000000\r\n"
	        "Content-Length: %zu\r\n\r\n",
	        host, port, target, length);
}

/* With the key of GATEHOUSE_KEY (ID.SECRET) if there is one: an argument could be read by others. `target`: a path to POST to, or
 * another method, a space and a path. */
static inline int request_write_plain(struct request *r, const char *host, int port, const char *target,
                                      size_t length)
{
	const char *key = getenv("GATEHOUSE_KEY");

	return snprintf(r->text, sizeof r->text,
	                "%s%s HTTP/1.1\r\n"
	                "Host: %s:%d\r\n"
	                "%s%s%s"
	                "Content-Type: application/json\r\n"
	                "Content-Length: %zu\r\n\r\n",
	                target[0] == '/' ? "POST " : "", target, host, port,
	                key != NULL ? "Authorization: Bearer " : "", key != NULL ? key : "",
	                key != NULL ? "\r\n" : "", length);
}

/* Appends a text with its slots. */
static inline bool request_write_body(struct request *r, const char *template)
{
	for (const char *p = template; *p != '\0';) {
		int digits = request_placeholder(p);

		if (digits == 0) {
			r->text[r->length++] = *p++;
			continue;
		}
		if (r->slot_count == REQUEST_SLOTS_MAX)
			return false;
		r->slots[r->slot_count++] = (struct request_slot){r->length, digits};
		memset(r->text + r->length, '0', (size_t)digits);
		r->length += (size_t)digits;
		p += 2;
	}
	return true;
}

/* A target with a / is a path to send plain JSON to, any other one a DynamoDB operation.
 * False: the request exceeds REQUEST_BYTES_MAX or REQUEST_SLOTS_MAX. */
static inline bool request_build(struct request *r, const char *host, int port, const char *target,
                                 const char *template)
{
	size_t body = request_body_length(template);
	bool   plain = strchr(target, '/') != NULL;
	int    head = plain ? request_write_plain(r, host, port, target, body)
	                    : request_write_aws(r, host, port, target, body);
	char   text[REQUEST_BYTES_MAX];

	if (head < 0 || (size_t)head >= sizeof text ||
	    (plain ? request_body_length(r->text) : (size_t)head) + body > sizeof r->text)
		return false;
	r->length = (size_t)head;
	r->slot_count = 0;
	if (plain) {
		memcpy(text, r->text, (size_t)head + 1);
		r->length = 0;
		if (!request_write_body(r, text))
			return false;
	}
	return request_write_body(r, template);
}

#endif
