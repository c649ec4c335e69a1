/* Credential file: the form on disk.
 *
 *   {"format": 1, "region": "local", "keys": [{"id": …, "secret": …, "name": …, "created": seconds, "active": true,
 *                           "max_connections": 10, "max_requests_per_second": 100, "policy": {…}}, …]}
 *
 * and a last member, "seal" (base/seal.h), once a server has started in the directory.
 *
 * The region is absent while no server has written down another than "local". A limit that is absent is none; programs
 * older than limits pass over them.
 * A policy that does not parse refuses the whole file: no key is ever in force with half a policy. */
#include "access/credential_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/file.h"
#include "base/seal.h"
#include "json/json.h"
#include "json/write.h"

#define FILE_NAME "keys.json"

static void file_path(char out[PATH_MAX], const char *dir, const char *name)
{
	snprintf(out, PATH_MAX, "%s/%s", dir, name);
}

/* ---- reading ---- */

static enum err_code read_whole(struct credentials *c, const char *path, struct buf *out, struct err *err)
{
	enum err_code rc = file_open_now(path, O_RDONLY, &c->file, err);
	ssize_t       n = -1;

	if (rc == ERR_NOT_FOUND)
		return err->code = ERR_NO_RESOURCE;
	if (rc != ERR_NONE)
		return rc;
	if (fstat(c->file, &c->read) == 0 && c->read.st_size <= CREDENTIAL_FILE_BYTES_MAX) {
		do {
			buf_reserve(out, 4096);
			n = read(c->file, out->data + out->len, out->cap - out->len);
			out->len += n > 0 ? (size_t)n : 0;
		} while (n > 0 && out->len <= CREDENTIAL_FILE_BYTES_MAX);
	}
	return n == 0 ? ERR_NONE
	              : err_set(err, ERR_STORAGE, "%s cannot be read, or has more than %d bytes", path,
	                        CREDENTIAL_FILE_BYTES_MAX);
}

static struct bytes text_of(const struct json *object, const char *name)
{
	const struct json *v = json_get(object, bytes_of(name));

	return v != NULL && v->type == JSON_STRING ? json_text(v) : (struct bytes){"", 0};
}

static bool read_limit(const struct json *key, const char *name, uint32_t *out)
{
	const struct json *v = json_get(key, bytes_of(name));

	if (v == NULL)
		return true;
	if (v->type != JSON_INT || json_integer(v) < 1 || json_integer(v) > KEY_LIMIT_MAX)
		return false;
	*out = (uint32_t)json_integer(v);
	return true;
}

static enum err_code read_key(struct arena *a, struct json_reader *reader, const struct json *json,
                              struct credential *out, struct err *err)
{
	const struct json *created = json->type == JSON_OBJECT ? json_get(json, BYTES("created")) : NULL;
	const struct json *active = json->type == JSON_OBJECT ? json_get(json, BYTES("active")) : NULL;
	const struct json *policy = json->type == JSON_OBJECT ? json_get(json, BYTES("policy")) : NULL;
	struct json_writer w;
	struct buf         text;

	if (created == NULL || created->type != JSON_INT || active == NULL || active->type != JSON_BOOL ||
	    policy == NULL)
		return err_set(err, ERR_INVALID, "a key has no valid \"created\", \"active\" or \"policy\"");
	*out = (struct credential){.id = text_of(json, "id"),
	                           .secret = text_of(json, "secret"),
	                           .name = text_of(json, "name"),
	                           .created_s = json_integer(created),
	                           .active = json_truth(active)};
	if (out->id.len == 0 || out->secret.len == 0 || out->name.len == 0)
		return err_set(err, ERR_INVALID, "a key has no \"id\", \"secret\" or \"name\"");
	if (!read_limit(json, "max_connections", &out->limits.connections_max) ||
	    !read_limit(json, "max_requests_per_second", &out->limits.requests_per_second_max))
		return err_set(err, ERR_INVALID,
		               "\"max_connections\" and \"max_requests_per_second\" must be whole numbers "
		               "from 1 to %d",
		               KEY_LIMIT_MAX);
	buf_init(&text, a);
	json_writer_init(&w, &text);
	json_tree(&w, policy);
	out->policy_text = buf_bytes(&text);
	return policy_parse(reader, out->policy_text, &out->policy, err);
}

static enum err_code check_homes(const struct credentials *c, struct bytes region, struct err *err)
{
	struct err why;

	for (uint32_t i = 0; i < c->count; i++)
		if (c->list[i].active && policy_check_home(c->list[i].policy, region, &why) != ERR_NONE)
			return err_set(
			        err, ERR_INVALID,
			        "the policy of the key \"%.*s\": %s (--region sets the server's region; "
			        "`gatehouse key revoke` ends the key)",
			        BYTES_ARG(c->list[i].name), why.text);
	return ERR_NONE;
}

static enum err_code read_keys(struct credentials *c, struct json_reader *reader, struct bytes text,
                               struct err *err)
{
	const struct json *keys = NULL, *format = NULL;
	struct json       *json;

	if (json_read(reader, &c->arena, text, &json, err) != ERR_NONE)
		return err->code;
	if (json->type == JSON_OBJECT) {
		format = json_get(json, BYTES("format"));
		keys = json_get(json, BYTES("keys"));
	}
	if (format == NULL || format->type != JSON_INT || json_integer(format) != CREDENTIAL_FORMAT)
		return err_set(err, ERR_INVALID, "\"format\" must be %d", CREDENTIAL_FORMAT);
	if (keys == NULL || keys->type != JSON_ARRAY || keys->count > CREDENTIAL_COUNT_MAX)
		return err_set(err, ERR_INVALID, "\"keys\" must be a list of at most %d keys",
		               CREDENTIAL_COUNT_MAX);
	c->region = text_of(json, "region");
	c->list = arena_zalloc(&c->arena, keys->count * sizeof(*c->list));
	for (const struct json *key = json_children(keys); key != NULL; key = key->next)
		if (read_key(&c->arena, reader, key, &c->list[c->count++], err) != ERR_NONE)
			return err->code;
	return ERR_NONE;
}

/* One that is absent but was made is an error of another kind than one that never was. */
static enum err_code read_text(struct credentials *c, const char *data_dir, bool sealed, struct buf *out,
                               struct err *err)
{
	char          path[PATH_MAX];
	enum err_code rc;

	file_path(path, data_dir, FILE_NAME);
	rc = read_whole(c, path, out, err);
	if (rc == ERR_NONE)
		return sealed ? seal_verify(data_dir, FILE_NAME, buf_bytes(out), err) : ERR_NONE;
	if (rc == ERR_NO_RESOURCE) {
		struct err why;

		if (seal_verify_absent(data_dir, FILE_NAME, &why) != ERR_NONE)
			*err = why;
	}
	return err->code;
}

static enum err_code read_file(const char *data_dir, bool sealed, struct bytes region,
                               struct credentials **out, struct err *err)
{
	struct credentials *c = mem_zalloc(sizeof(*c));
	struct json_reader *reader = json_reader_open();
	struct buf          text;
	struct err          why;
	enum err_code       rc;

	atomic_init(&c->refs, 1);
	arena_init(&c->arena);
	buf_init(&text, &c->arena);
	rc = read_text(c, data_dir, sealed, &text, err);
	if (rc == ERR_NONE && (read_keys(c, reader, buf_bytes(&text), &why) != ERR_NONE ||
	                       (region.len > 0 && check_homes(c, region, &why) != ERR_NONE)))
		rc = err_set(err, ERR_INVALID, "%s/%s: %s", data_dir, FILE_NAME, why.text);
	json_reader_close(reader);
	if (rc != ERR_NONE)
		credentials_release(c);
	else
		*out = c;
	return rc;
}

enum err_code credential_file_read(const char *data_dir, struct bytes region, struct credentials **out,
                                   struct err *err)
{
	return read_file(data_dir, true, region, out, err);
}

enum err_code credential_file_read_unsealed(const char *data_dir, struct credentials **out, struct err *err)
{
	return read_file(data_dir, false, (struct bytes){0}, out, err);
}

/* ---- writing ---- */

static void write_limit(struct json_writer *w, const char *name, uint32_t limit)
{
	if (limit == 0)
		return;
	json_name(w, bytes_of(name));
	json_i64(w, limit);
}

static void write_key(struct json_writer *w, const struct credential *key)
{
	json_begin_object(w);
	json_name(w, BYTES("id"));
	json_string(w, key->id);
	json_name(w, BYTES("secret"));
	json_string(w, key->secret);
	json_name(w, BYTES("name"));
	json_string(w, key->name);
	json_name(w, BYTES("created"));
	json_i64(w, key->created_s);
	json_name(w, BYTES("active"));
	json_bool(w, key->active);
	write_limit(w, "max_connections", key->limits.connections_max);
	write_limit(w, "max_requests_per_second", key->limits.requests_per_second_max);
	json_name(w, BYTES("policy"));
	json_raw(w, key->policy_text);
	json_end_object(w);
}

static void write_keys(struct buf *out, struct bytes region, const struct credential *list, uint32_t count)
{
	struct json_writer w;

	json_writer_init(&w, out);
	json_begin_object(&w);
	json_name(&w, BYTES("format"));
	json_i64(&w, CREDENTIAL_FORMAT);
	if (region.len > 0) {
		json_name(&w, BYTES("region"));
		json_string(&w, region);
	}
	json_name(&w, BYTES("keys"));
	json_begin_array(&w);
	for (uint32_t i = 0; i < count; i++)
		write_key(&w, &list[i]);
	json_end_array(&w);
	json_end_object(&w);
	buf_add_byte(out, '\n');
}

enum err_code credential_file_write(const char *data_dir, struct bytes region, const struct credential *list,
                                    uint32_t count, struct err *err)
{
	struct buf    text;
	enum err_code rc;

	buf_init(&text, NULL);
	write_keys(&text, region, list, count);
	rc = seal_write(data_dir, FILE_NAME, buf_bytes(&text), err);
	buf_release(&text);
	return rc;
}

enum err_code credential_file_lock(const char *data_dir, int *fd, struct err *err)
{
	char path[PATH_MAX];

	file_path(path, data_dir, "keys.lock");
	*fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (*fd >= 0 && flock(*fd, LOCK_EX) == 0)
		return ERR_NONE;
	err_set(err, ERR_STORAGE, "lock %s: %s", path, strerror(errno));
	if (*fd >= 0)
		close(*fd);
	return ERR_STORAGE;
}
