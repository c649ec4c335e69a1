/* Audit: whole lines, in order, in a file that may move away, whoever writes and whatever fails. */
#define _GNU_SOURCE
#include "test.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/audit.h"
#include "base/fault.h"

/* How often a directory was synced: this stands before the library's. */
static _Atomic int directory_syncs;

int fsync(int fd)
{
	struct stat st;

	if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
		directory_syncs++;
	return (int)syscall(SYS_fsync, fd);
}

enum { THREADS = 4, LINES = 250, TEXT_MAX = 8 * 1024 * 1024 };

struct fixture {
	char          dir[64];
	char          path[96];
	struct audit *audit;
	char         *text; /* of the file, when last read */
};

static void open_fixture(struct fixture *f)
{
	struct err err;

	*f = (struct fixture){.dir = "/tmp/gatehouse-audit-XXXXXX"};
	assert_non_null(mkdtemp(f->dir));
	snprintf(f->path, sizeof(f->path), "%s/audit.log", f->dir);
	log_set_level(LOG_ERROR + 1);
	assert_int_equal(audit_open(&f->audit, f->dir, &err), ERR_NONE);
	f->text = malloc(TEXT_MAX);
}

static void close_fixture(struct fixture *f)
{
	char command[128];

	free(f->text);
	snprintf(command, sizeof(command), "rm -rf %s", f->dir);
	assert_int_equal(system(command), 0);
}

static const char *file_text(struct fixture *f)
{
	FILE  *file = fopen(f->path, "r");
	size_t len;

	assert_non_null(file);
	len = fread(f->text, 1, TEXT_MAX - 1, file);
	fclose(file);
	f->text[len] = '\0';
	return f->text;
}

/* The next line of the text; NULL at its end. Every line is a whole object with its time and act. */
static const char *next_line(char **at)
{
	char *line = *at, *end = strchr(line, '\n');

	if (*line == '\0')
		return NULL;
	assert_non_null(end);
	*end = '\0';
	*at = end + 1;
	assert_int_equal(strncmp(line, "{\"time\":\"2", 10), 0);
	assert_int_equal(strncmp(line + 32, "Z\",\"act\":\"", 10), 0);
	assert_int_equal(end[-1], '}');
	return line + 35;
}

static void write_number(struct audit *a, const char *act, int64_t number)
{
	audit_write(a, act, &(struct log_field){.name = "number", .number = number}, 1);
}

/* Writes one line and waits until it is on the disk. */
static void write_one(struct fixture *f)
{
	struct err err;

	assert_int_equal(audit_open(&f->audit, f->dir, &err), ERR_NONE);
	write_number(f->audit, "test.one", 1);
	audit_close(f->audit);
}

TEST(audit, the_name_of_a_new_file_is_synced_once_and_again_after_it_was_moved_away)
{
	struct fixture f;
	char           away[128];

	open_fixture(&f);
	audit_close(f.audit);
	directory_syncs = 0;
	write_one(&f);
	assert_int_equal(directory_syncs, 1);
	write_one(&f);
	assert_int_equal(directory_syncs, 1);
	snprintf(away, sizeof(away), "%s.1", f.path);
	assert_int_equal(rename(f.path, away), 0);
	write_one(&f);
	assert_int_equal(directory_syncs, 2);
	close_fixture(&f);
}

TEST(audit, without_a_thread_it_does_not_open)
{
	struct audit *audit = NULL;
	struct err    err;

	fault_arm(FAULT_THREAD, 0);
	assert_int_equal(audit_open(&audit, "/tmp", &err), ERR_STORAGE);
	fault_disarm(FAULT_THREAD);
	assert_null(audit);
	assert_non_null(strstr(err.text, "\"audit\""));
}

TEST(audit, lines_stand_in_order_in_a_file_that_only_its_owner_can_read)
{
	struct log_field fields[] = {{.name = "table", .text = BYTES_INIT("a\"b")},
	                             {.name = "n", .number = 7}};
	struct fixture   f;
	struct stat      st;
	char            *at;

	open_fixture(&f);
	audit_write(f.audit, "table.create", fields, 2);
	audit_write(f.audit, "server.stop", NULL, 0);
	audit_close(f.audit);
	file_text(&f);
	at = f.text;
	assert_string_equal(next_line(&at), "\"act\":\"table.create\",\"table\":\"a\\\"b\",\"n\":7}");
	assert_string_equal(next_line(&at), "\"act\":\"server.stop\"}");
	assert_null(next_line(&at));
	assert_int_equal(stat(f.path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	close_fixture(&f);
}

static unsigned count_lines(struct fixture *f)
{
	unsigned count = 0;
	char    *at;

	file_text(f);
	for (at = f->text; next_line(&at) != NULL;)
		count++;
	return count;
}

static bool is_there(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && st.st_size > 0;
}

TEST(audit, a_file_that_was_moved_away_is_made_anew)
{
	struct fixture f;
	char           away[128];

	open_fixture(&f);
	write_number(f.audit, "a.b", 1);
	while (!is_there(f.path))
		usleep(1000);
	snprintf(away, sizeof(away), "%s.1", f.path);
	assert_int_equal(rename(f.path, away), 0);
	write_number(f.audit, "a.b", 2);
	audit_close(f.audit);
	assert_non_null(strstr(file_text(&f), "\"number\":2}"));
	assert_int_equal(count_lines(&f), 1);
	close_fixture(&f);
}

TEST(audit, without_one_nothing_is_written_and_nothing_is_lost)
{
	audit_write(NULL, "a.b", NULL, 0);
	assert_int_equal(audit_lost(NULL), 0);
}

/* ---- threads, and processes ---- */

struct scribe {
	struct audit *audit;
	int           number;
};

static void *scribble(void *arg)
{
	struct scribe *s = arg;

	for (int i = 0; i < LINES; i++)
		write_number(s->audit, "a.b", s->number * LINES + i);
	return NULL;
}

/* The lines of two audits on one file: each thread's own are in order, and all are there. */
static void check_scribbled(struct fixture *f)
{
	int         next[THREADS] = {0};
	char       *at;
	const char *line;
	int         number;

	file_text(f);
	for (at = f->text; (line = next_line(&at)) != NULL;) {
		assert_int_equal(sscanf(line, "\"act\":\"a.b\",\"number\":%d}", &number), 1);
		assert_int_equal(number % LINES, next[number / LINES]++);
	}
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(next[i], LINES);
}

TEST(audit, lines_of_many_threads_and_of_another_process_are_whole_and_none_is_missing)
{
	struct fixture f;
	struct audit  *other; /* as another process would: it shares nothing but the file */
	struct scribe  scribes[THREADS];
	pthread_t      threads[THREADS];
	struct err     err;

	open_fixture(&f);
	assert_int_equal(audit_open(&other, f.dir, &err), ERR_NONE);
	for (int i = 0; i < THREADS; i++) {
		scribes[i] = (struct scribe){i % 2 ? f.audit : other, i};
		assert_int_equal(pthread_create(&threads[i], NULL, scribble, &scribes[i]), 0);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(audit_lost(f.audit) + audit_lost(other), 0);
	audit_close(other);
	audit_close(f.audit);
	check_scribbled(&f);
	close_fixture(&f);
}

/* ---- failures ---- */

static void wait_lost(struct audit *a, uint64_t count)
{
	while (audit_lost(a) < count)
		usleep(1000);
}

TEST(audit, what_cannot_be_written_is_counted_and_the_next_line_is_tried_again)
{
	struct fixture f;
	char           away[96];

	open_fixture(&f);
	snprintf(away, sizeof(away), "%s-away", f.dir);
	assert_int_equal(rename(f.dir, away), 0);
	write_number(f.audit, "a.b", 1);
	wait_lost(f.audit, 1);
	assert_int_equal(rename(away, f.dir), 0);
	write_number(f.audit, "a.b", 2);
	audit_close(f.audit);
	assert_int_equal(count_lines(&f), 1);
	close_fixture(&f);
}

TEST(audit, a_link_is_not_followed)
{
	struct fixture f;
	char           target[96];

	open_fixture(&f);
	snprintf(target, sizeof(target), "%s/target", f.dir);
	assert_int_equal(symlink(target, f.path), 0);
	write_number(f.audit, "a.b", 1);
	wait_lost(f.audit, 1);
	audit_close(f.audit);
	assert_false(is_there(target));
	close_fixture(&f);
}

TEST(audit, a_disk_that_fills_in_the_middle_of_a_line_leaves_whole_lines)
{
	struct rlimit  before, full;
	struct fixture f;
	struct stat    st;

	open_fixture(&f);
	signal(SIGXFSZ, SIG_IGN);
	write_number(f.audit, "a.b", 1);
	while (!is_there(f.path))
		usleep(1000);
	assert_int_equal(stat(f.path, &st), 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	full = (struct rlimit){(rlim_t)st.st_size + 10, before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
	write_number(f.audit, "a.b", 2);
	wait_lost(f.audit, 1);
	assert_int_equal(count_lines(&f), 1);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	write_number(f.audit, "a.b", 3);
	audit_close(f.audit);
	assert_int_equal(count_lines(&f), 2);
	close_fixture(&f);
}

TEST(audit, what_waits_is_bounded_and_past_it_lines_are_lost_and_counted)
{
	struct fixture f;
	uint64_t       written = 0, lost;
	int            fd;

	open_fixture(&f);
	fd = open(f.path, O_RDWR | O_CREAT, 0600);
	assert_int_equal(flock(fd, LOCK_EX), 0); /* the disk does not keep up */
	while (audit_lost(f.audit) == 0 && written < 3 * AUDIT_PENDING_BYTES_MAX / 50) {
		write_number(f.audit, "a.b", 1);
		written++;
	}
	lost = audit_lost(f.audit);
	assert_int_equal(lost, 1);
	close(fd);
	audit_close(f.audit);
	assert_int_equal(count_lines(&f), written - lost);
	close_fixture(&f);
}

TEST(audit, closing_gives_up_on_a_file_that_cannot_be_written_to_and_can_be_tried_again)
{
	struct fixture f;
	int            fd;

	open_fixture(&f);
	fd = open(f.path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(flock(fd, LOCK_EX), 0); /* as if the disk hung */
	write_number(f.audit, "test.late", 1);
	assert_false(audit_close(f.audit));
	close(fd);
	assert_true(audit_close(f.audit));
	assert_non_null(strstr(file_text(&f), "test.late"));
	close_fixture(&f);
}
