/* JSON without memory: the process ends (decision 003). Nobody is told that what he sent is wrong. */
#include "test.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "json/json.h"

/* ---- C++'s `new (std::nothrow) T[]`, which the library allocates with, and `delete[]`: they take the place of its own ---- */

void *_ZnamRKSt9nothrow_t(size_t bytes, const void *nothrow);
void  _ZdaPv(void *p);
void  _ZdaPvm(void *p, size_t bytes);

static atomic_long passes; /* so many allocations, and no more */

void *_ZnamRKSt9nothrow_t(size_t bytes, const void *nothrow)
{
	(void)nothrow;
	return atomic_fetch_sub(&passes, 1) > 0 ? malloc(bytes) : NULL;
}

void _ZdaPv(void *p)
{
	free(p);
}

void _ZdaPvm(void *p, size_t bytes)
{
	(void)bytes;
	free(p);
}

enum { LONG_TEXT = 100000, ALLOCATIONS_MAX = 100 };

/* A text of that length, with so many allocations. */
static enum err_code read_with(long allocations, size_t len)
{
	struct json_reader *r;
	struct json        *out;
	struct arena        a;
	struct err          err;
	char               *text = malloc(len);
	enum err_code       rc;

	memset(text, 'x', len);
	text[0] = text[len - 1] = '"';
	atomic_store(&passes, allocations);
	r = json_reader_open();
	arena_init(&a);
	rc = json_read(r, &a, (struct bytes){text, len}, &out, &err);
	arena_release(&a);
	json_reader_close(r);
	free(text);
	return rc;
}

/* How it ended: the wait status. */
static int read_apart(long allocations, size_t len)
{
	const struct rlimit no_core = {0, 0};
	int                 status;
	pid_t               child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		setrlimit(RLIMIT_CORE, &no_core);
		fclose(stderr);
		_exit((int)read_with(allocations, len));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

TEST(json_memory, a_text_for_which_there_is_no_memory_is_not_called_wrong)
{
	static const size_t lengths[] = {100, LONG_TEXT};

	for (size_t i = 0; i < 2; i++) {
		long n = 0;
		int  status;

		while (status = read_apart(n, lengths[i]), WIFSIGNALED(status) && n < ALLOCATIONS_MAX) {
			assert_int_equal(WTERMSIG(status), SIGABRT);
			n++;
		}
		assert_in_range(n, 2, ALLOCATIONS_MAX - 1);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), ERR_NONE);
	}
}
