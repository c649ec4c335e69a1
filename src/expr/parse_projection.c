/* Parse projection: path { "," path }. */
#include "expr/path.h"

static enum err_code parse_paths(struct parser *p, struct expr_projection *out)
{
	for (;;) {
		enum err_code rc = parser_path(p, &out->paths[out->count]);

		if (rc != ERR_NONE)
			return rc;
		out->count++;
		if (!parser_is(p, TOKEN_COMMA))
			return ERR_NONE;
		p->at++;
	}
}

enum err_code expr_parse_projection(struct arena *a, struct bytes text, struct expr_scope *scope,
                                    struct expr_projection *out, struct err *err)
{
	struct parser p;
	enum err_code rc = parser_init(&p, a, "ProjectionExpression", text, LEX_PROJECTION, scope, err);

	if (rc != ERR_NONE)
		return rc;
	*out = (struct expr_projection){arena_array(a, p.list.count, sizeof(*out->paths)), 0};
	rc = parse_paths(&p, out);
	if (rc != ERR_NONE)
		return rc;
	path_check_disjoint(&p, out->paths, out->count);
	path_sort(out->paths, out->count);
	return parser_finish(&p);
}
