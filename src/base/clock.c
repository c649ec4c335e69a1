/* Clock: the operating system's, and two for tests. */
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"

static int64_t read_us(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static int64_t system_wall_us(struct clock *c)
{
	(void)c;
	return read_us(CLOCK_REALTIME);
}

static int64_t system_steady_us(struct clock *c)
{
	(void)c;
	return read_us(CLOCK_BOOTTIME);
}

struct clock *clock_system(void)
{
	static struct clock c = {system_wall_us, system_steady_us};

	return &c;
}

static int64_t manual_steady_us(struct clock *c)
{
	return __atomic_load_n(&((struct clock_manual *)c)->now_us, __ATOMIC_ACQUIRE);
}

static int64_t manual_wall_us(struct clock *c)
{
	return manual_steady_us(c) + __atomic_load_n(&((struct clock_manual *)c)->shift_us, __ATOMIC_ACQUIRE);
}

void clock_manual_init(struct clock_manual *c, int64_t now_us)
{
	*c = (struct clock_manual){{manual_wall_us, manual_steady_us}, now_us, 0};
}

void clock_manual_set(struct clock_manual *c, int64_t now_us)
{
	__atomic_store_n(&c->now_us, now_us, __ATOMIC_RELEASE);
}

void clock_manual_jump(struct clock_manual *c, int64_t by_us)
{
	__atomic_fetch_add(&c->shift_us, by_us, __ATOMIC_ACQ_REL);
}

/* ---- a file's ---- */

struct clock_text {
	char    head[sizeof(CLOCK_FILE_HEAD) - 1];
	int64_t passed_us, set_us;
};

struct clock_file {
	struct clock             base;
	const struct clock_text *text; /* as the file is now */
};

static int64_t file_steady_us(struct clock *c)
{
	const struct clock_text *text = ((struct clock_file *)c)->text;

	return read_us(CLOCK_BOOTTIME) + __atomic_load_n(&text->passed_us, __ATOMIC_ACQUIRE);
}

static int64_t file_wall_us(struct clock *c)
{
	const struct clock_text *text = ((struct clock_file *)c)->text;

	return read_us(CLOCK_REALTIME) + __atomic_load_n(&text->passed_us, __ATOMIC_ACQUIRE) +
	       __atomic_load_n(&text->set_us, __ATOMIC_ACQUIRE);
}

enum err_code clock_file_open(struct clock **out, const char *path, struct err *err)
{
	int                fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat        st;
	struct clock_text *text = MAP_FAILED;
	struct clock_file *c;

	if (fd < 0)
		return err_set(err, ERR_INVALID, "open %s: %s", path, strerror(errno));
	if (fstat(fd, &st) == 0 && st.st_size == (off_t)sizeof(*text))
		text = mmap(NULL, sizeof(*text), PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (text == MAP_FAILED)
		return err_set(err, ERR_INVALID, "%s: not a clock", path);
	if (memcmp(text->head, CLOCK_FILE_HEAD, sizeof(text->head)) != 0) {
		munmap(text, sizeof(*text));
		return err_set(err, ERR_INVALID, "%s: not a clock", path);
	}
	c = mem_zalloc(sizeof(*c));
	*c = (struct clock_file){{file_wall_us, file_steady_us}, text};
	*out = &c->base;
	return ERR_NONE;
}
