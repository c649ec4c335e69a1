/* See description.h. */
#include "api/description.h"

__asm__(".section .rodata\n"
        ".global gatehouse_openapi_begin, gatehouse_openapi_end\n"
        "gatehouse_openapi_begin:\n"
        ".incbin \"openapi.yaml\"\n"
        "gatehouse_openapi_end:\n"
        ".previous\n");

extern const char gatehouse_openapi_begin[], gatehouse_openapi_end[];

void description_handle(struct api_loop *l, struct http_request *r)
{
	struct http_response response = {
	        .status = 200,
	        .content_type = "application/yaml",
	        .body = {gatehouse_openapi_begin, (size_t)(gatehouse_openapi_end - gatehouse_openapi_begin)}};

	(void)l;
	http_respond(r, &response);
}
