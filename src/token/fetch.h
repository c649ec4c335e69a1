/* Fetch: an issuer's documents over HTTPS, by outbound/: the real thing behind struct token_fetch. fetch.c is the only file of
 * this folder that calls anybody.
 *
 * Each fetch opens a connection of its own and closes it: there is one every ten minutes per issuer. Certificates are
 * verified, redirects are not followed, and private addresses are refused unless allowed. */
#ifndef TOKEN_FETCH_H
#define TOKEN_FETCH_H

#include "token/issuer.h"

enum { TOKEN_FETCH_S = 5 };

struct token_fetch token_fetch_https(struct clock *clock);

#endif
