/* Chunk: takes a chunked body apart, in bytes that arrive in any pieces. Strict: sizes
 * are hex digits only, every line ends with CR LF, extensions and trailers are bounded and dropped.
 *
 *   SIZE --digits, CR LF--> DATA --all of it--> DATA_END --CR LF--> SIZE
 *    '--size 0--> TRAILER --empty line--> DONE */
#ifndef HTTP_CHUNK_H
#define HTTP_CHUNK_H

#include "base/bytes.h"

enum {
	CHUNK_SIZE_DIGITS_MAX = 15,
	CHUNK_EXTENSION_BYTES_MAX = 256, /* a chunk */
	CHUNK_TRAILER_BYTES_MAX = 4096,  /* all of it */
};

enum chunk_state {
	CHUNK_SIZE,
	CHUNK_EXTENSION,
	CHUNK_SIZE_LF,
	CHUNK_DATA,
	CHUNK_DATA_CR,
	CHUNK_DATA_LF,
	CHUNK_TRAILER, /* inside a trailer line, or at its start if line_bytes is 0 */
	CHUNK_TRAILER_LF,
	CHUNK_DONE,
};

struct chunk {
	enum chunk_state state;
	uint64_t         left;       /* of this chunk's data */
	unsigned         digits;     /* of its size so far */
	size_t           line_bytes; /* of this extension or trailer line so far */
	size_t           trailer_bytes;
};

enum chunk_step {
	CHUNK_STEP_MORE,  /* everything used, the body goes on */
	CHUNK_STEP_PIECE, /* *piece is the next of the body; call again with the rest */
	CHUNK_STEP_DONE,  /* the body ended at *used */
	CHUNK_STEP_BAD,
};

void chunk_init(struct chunk *c);

/* *used says how many bytes of `in` were taken. *piece points into `in`. */
enum chunk_step chunk_next(struct chunk *c, struct bytes in, size_t *used, struct bytes *piece);

#endif
