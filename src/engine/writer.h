/* Writer: the one thread that writes. See writer.c. */
#ifndef ENGINE_WRITER_H
#define ENGINE_WRITER_H

#include "engine/engine.h"

struct writer;

/* (W3) What is said from then on. */
#define MSG_WRITER_FAILED "a write to the disk failed, and the server restarts; try again shortly"

struct writer_stats {
	uint64_t              requests, batches, largest_batch, commit_us;
	size_t                queue_bytes;
	struct metric_reading batch_requests, flush_us;
};

enum err_code writer_open(struct writer **out, struct engine *e, struct err *err);

/* Completes everything that was submitted, then ends the thread. False if a commit failed. */
bool writer_close(struct writer *w);

enum err_code writer_submit(struct writer *w, struct turn_request *r, struct err *err);
void          writer_gathered(struct writer *w); /* see engine_gathered */
bool          writer_failed(const struct writer *w);
void          writer_stop(struct writer *w, const char *why); /* (W3), for what another thread saw fail */
struct writer_stats writer_stats(struct writer *w);

#endif
