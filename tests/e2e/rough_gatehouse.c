/* Gatehouse on the rough store (tests/rough_store.h): the whole server, but its store is never alone. The linker puts
 * this engine_store in the place of the engine's (--wrap). GATEHOUSE_ROUGH holds the seed; 1 unless set. */
#include "engine/engine.h"

struct store *__real_engine_store(struct engine *e);
struct store *__wrap_engine_store(struct engine *e);

#define ROUGH_ENGINE_STORE __real_engine_store
#include "rough_store.h"

/* It lives as long as the server: what is under way when it stops goes on with the engine. */
struct store *__wrap_engine_store(struct engine *e)
{
	const char *seed = getenv(ROUGH_VARIABLE);

	return &rough_open(e, seed == NULL ? 1 : strtoull(seed, NULL, 10))->base;
}
