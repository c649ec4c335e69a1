/* Problem: the body and the answers. */
#include "api/problem.h"

#include "json/write.h"

static void write_text(struct json_writer *w, const char *name, struct bytes text)
{
	if (text.len == 0)
		return;
	json_name(w, bytes_of(name));
	json_string(w, bytes_is_utf8(text) ? text : BYTES("(not UTF-8)"));
}

static void write_problem(struct buf *out, enum err_code code, int status, struct bytes detail,
                          struct bytes field)
{
	struct json_writer w;

	json_writer_init(&w, out);
	json_begin_object(&w);
	write_text(&w, "type", bytes_of(err_v1_type(code)));
	write_text(&w, "title", bytes_of(err_v1_title(code)));
	json_name(&w, BYTES("status"));
	json_i64(&w, status);
	write_text(&w, "detail", detail);
	write_text(&w, "field", field);
	json_end_object(&w);
	buf_add(out, "\n", 1);
}

void problem_write_http(struct buf *out, int status, const char *detail)
{
	write_problem(out, ERR_HTTP, status, bytes_of(detail), (struct bytes){NULL, 0});
}

void problem_write_err(struct buf *out, enum err_code code, const struct err *err)
{
	write_problem(out, code, err_v1_status(code), bytes_of(err->text), bytes_of(err->field));
}

/* `headers` is the response's, with room for one more. */
static void answer(struct api_loop *l, struct http_request *r, struct http_response *response,
                   struct http_header *headers, enum err_code code, const char *detail)
{
	struct buf *out = api_loop_answer(l);
	char        id[REQUEST_ID_LENGTH];

	api_loop_request_id(l, id);
	headers[response->header_count++] = (struct http_header){BYTES("X-Request-Id"), {id, sizeof(id)}};
	response->headers = headers;

	response->status = err_v1_status(code);
	write_problem(out, code, response->status, bytes_of(detail), (struct bytes){NULL, 0});
	response->content_type = PROBLEM_CONTENT_TYPE;
	response->body = buf_bytes(out);
	http_respond(r, response);
}

void problem_answer(struct api_loop *l, struct http_request *r, enum err_code code, const char *detail)
{
	struct http_header headers[1];

	answer(l, r, &(struct http_response){0}, headers, code, detail);
}

void problem_answer_method(struct api_loop *l, struct http_request *r, const char *allowed)
{
	struct http_header   headers[2] = {{BYTES("Allow"), bytes_of(allowed)}};
	struct http_response response = {.header_count = 1};

	answer(l, r, &response, headers, ERR_METHOD,
	       "this path does not accept the method; the Allow header lists those it does");
}
