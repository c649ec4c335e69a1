/* Problem: the body and the answers. */
#include "api/problem.h"

#include "json/write.h"

void problem_write(struct buf *out, int status, const char *title, struct bytes detail)
{
	struct json_writer w;

	json_writer_init(&w, out);
	json_begin_object(&w);
	json_name(&w, BYTES("type"));
	json_string(&w, BYTES("about:blank"));
	json_name(&w, BYTES("title"));
	json_string(&w, bytes_of(title));
	json_name(&w, BYTES("status"));
	json_i64(&w, status);
	if (detail.len > 0) {
		json_name(&w, BYTES("detail"));
		json_string(&w, detail);
	}
	json_end_object(&w);
}

static void answer(struct api_loop *l, struct http_request *r, struct http_response *response,
                   const char *title, const char *detail)
{
	struct buf *out = api_loop_answer(l);

	problem_write(out, response->status, title, bytes_of(detail));
	response->content_type = PROBLEM_CONTENT_TYPE;
	response->body = buf_bytes(out);
	http_respond(r, response);
}

void problem_answer(struct api_loop *l, struct http_request *r, int status, const char *title,
                    const char *detail)
{
	answer(l, r, &(struct http_response){.status = status}, title, detail);
}

void problem_answer_method(struct api_loop *l, struct http_request *r, const char *allowed)
{
	struct http_header   allow = {BYTES("Allow"), bytes_of(allowed)};
	struct http_response response = {.status = 405, .headers = &allow, .header_count = 1};

	answer(l, r, &response, "Method Not Allowed", "this path answers to other methods");
}
