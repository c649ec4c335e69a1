/* Check: `gatehouse check`: shows the progress of server/offline.h, and says plainly what it found. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "server/offline.h"

enum {
	BAR_CELLS = 30,
	BAR_REDRAW_US = 100 * 1000,
	LINE_EVERY_PERCENT = 10, /* without a terminal */
	PROBLEMS_SHOWN_MAX = 20,
};

/* ---- progress, on standard error: a bar on a terminal, else a line now and then ---- */

struct display {
	bool               terminal;
	int64_t            started_us, drawn_us;
	enum offline_phase phase;
	unsigned           percent; /* last shown of that phase */
	bool               any;     /* … if any was */
	unsigned           problems;
};

static uint64_t keys_of(const struct offline_check *f)
{
	return f->rows + f->index_entries + f->expiry_entries;
}

/* "rows and entries  40 %  1234 compared  0:05" */
static void print_facts(const struct display *d, const struct offline_check *f, int64_t now_us)
{
	int64_t elapsed_s = (now_us - d->started_us) / 1000000;

	fprintf(stderr, "%3u %%  ", d->percent);
	if (d->phase == OFFLINE_BLOCKS)
		fprintf(stderr, "%" PRIu64 " files, %" PRIu64 " MB read", f->files, f->bytes >> 20);
	else
		fprintf(stderr, "%" PRIu64 " rows and entries compared", keys_of(f));
	fprintf(stderr, "  %d:%02d", (int)(elapsed_s / 60), (int)(elapsed_s % 60));
}

static const char *phase_name(enum offline_phase phase)
{
	return phase == OFFLINE_BLOCKS ? "blocks" : "rows";
}

static void draw_bar(const struct display *d, const struct offline_check *f, int64_t now_us)
{
	char cells[BAR_CELLS + 1];

	memset(cells, '.', BAR_CELLS);
	memset(cells, '#', d->percent * BAR_CELLS / 100);
	cells[BAR_CELLS] = '\0';
	fprintf(stderr, "\r%-6s [%s] ", phase_name(d->phase), cells);
	print_facts(d, f, now_us);
	fprintf(stderr, "\033[K");
}

static void clear_bar(const struct display *d)
{
	if (d->terminal)
		fprintf(stderr, "\r\033[K");
}

/* Is it worth saying? Called for every key, so most often it is not, and the clock is not asked. */
static bool is_news(struct display *d, enum offline_phase phase, unsigned percent)
{
	unsigned step = d->terminal ? 1 : LINE_EVERY_PERCENT;

	return !d->any || phase != d->phase || percent / step != d->percent / step;
}

static void on_progress(void *ctx, enum offline_phase phase, unsigned percent, const struct offline_check *f)
{
	struct display *d = ctx;
	int64_t         now_us;

	if (!is_news(d, phase, percent))
		return;
	now_us = clock_steady_us(clock_system());
	if (d->terminal && d->any && percent < 100 && now_us - d->drawn_us < BAR_REDRAW_US)
		return;
	d->any = true;
	d->phase = phase;
	d->percent = percent;
	d->drawn_us = now_us;
	if (d->terminal) {
		draw_bar(d, f, now_us);
		return;
	}
	fprintf(stderr, "%s ", phase_name(phase));
	print_facts(d, f, now_us);
	fprintf(stderr, "\n");
}

static void on_problem(void *ctx, const char *text)
{
	struct display *d = ctx;

	if (d->problems++ >= PROBLEMS_SHOWN_MAX)
		return;
	clear_bar(d);
	fprintf(stderr, "gatehouse check: %s\n", text);
}

/* ---- the last line ---- */

static void say_sound(const char *path, const struct offline_check *f)
{
	printf("%s is sound: %u sealed files as they were written; %" PRIu64 " files (%" PRIu64
	       " MB) without a damaged block; %" PRIu64 " rows, %" PRIu64 " index entries and %" PRIu64
	       " expiry entries agree\n",
	       path, f->sealed, f->files, f->bytes >> 20, f->rows, f->index_entries, f->expiry_entries);
	if (f->torn_bytes > 0)
		printf("The last %" PRIu64
		       " bytes of the store's MANIFEST were not written to their end. The next start leaves "
		       "them out; nothing is lost by it\n",
		       f->torn_bytes);
}

/* Rows that break what always holds of users are no damage of ours: somebody wrote them through DynamoDB's protocol. */
static void say_users(const char *path, const struct offline_check *f)
{
	if (f->broken > 0)
		fprintf(stderr,
		        "gatehouse check: %s is not damaged, but %" PRIu64
		        " rows of users are not as they should be; POST /v1/users/adopt repairs what others "
		        "wrote "
		        "without markers\n",
		        path, f->broken);
	else if (f->users + f->addresses + f->markers > 0)
		printf("%" PRIu64 " users, %" PRIu64 " addresses and %" PRIu64
		       " markers agree: every address has its marker, every marker its address, and no user "
		       "two primary "
		       "addresses\n",
		       f->users, f->addresses, f->markers);
}

static void say_damaged(const char *path, const struct offline_check *f)
{
	if (f->damaged_files > 0)
		fprintf(stderr,
		        "gatehouse check: %s is DAMAGED: %" PRIu64 " of %" PRIu64
		        " files have damaged blocks; rows were not compared\n",
		        path, f->damaged_files, f->files);
	else if (f->differences == 0)
		fprintf(stderr,
		        "gatehouse check: %s is DAMAGED: %u of %u sealed files are damaged or missing; the "
		        "data "
		        "is sound\n",
		        path, f->damaged_seals, f->damaged_seals + f->sealed);
	else
		fprintf(stderr,
		        "gatehouse check: %s is DAMAGED: its blocks are intact, but %" PRIu64
		        " differences were found in %" PRIu64 " rows and entries\n",
		        path, f->differences, keys_of(f));
}

static int check(const struct offline_place *place)
{
	const char          *path = place->path;
	struct display       d = {.terminal = isatty(STDERR_FILENO) == 1};
	struct offline_watch watch = {&d, on_progress, on_problem};
	struct offline_check found;
	struct err           err;
	enum err_code        rc;

	log_set_level(LOG_WARN);
	d.started_us = clock_steady_us(clock_system());
	rc = file_become_owner(path, &err);
	if (rc == ERR_NONE)
		rc = offline_check(place, &watch, &found, &err);
	clear_bar(&d);
	if (d.problems > PROBLEMS_SHOWN_MAX)
		fprintf(stderr, "gatehouse check: … and %u more\n", d.problems - PROBLEMS_SHOWN_MAX);
	if (rc != ERR_NONE)
		fprintf(stderr, "gatehouse check: %s could not be checked: %s\n", path, err.text);
	else if (found.sound)
		say_sound(path, &found);
	else
		say_damaged(path, &found);
	if (rc == ERR_NONE && found.sound)
		say_users(path, &found);
	return rc == ERR_NONE && found.sound && found.broken == 0 ? 0 : 1;
}

struct check_options {
	const char *data, *table_users;
	bool        help;
};

static const struct option_spec options[] = {
        {"--data", OPTION_TEXT, "DIR", "data directory (default: data)", offsetof(struct check_options, data),
         0, 0},
        {"--table-users", OPTION_TABLE, "NAME", "table of users (default: users)",
         offsetof(struct check_options, table_users), 0, 0},
        {"--help", OPTION_FLAG, NULL, "print this help", offsetof(struct check_options, help), 0, 0},
};

static int run(int argc, char **argv)
{
	struct check_options o = {.data = "data", .table_users = "users"};
	struct err           err;

	if (options_parse(OPTIONS(options), &o, argc, argv, &err) != ERR_NONE) {
		fprintf(stderr, "gatehouse check: %s\n", err.text);
		return 2;
	}
	if (o.help) {
		command_help(&command_check);
		return 0;
	}
	return check(&(struct offline_place){o.data, o.table_users});
}

const struct command command_check = {
        .name = "check",
        .help = "verify a data directory",
        .about = "Reads FORMAT, the sealed files (keys.json and the secrets), the journal and every stored\n"
                 "block of a data directory and verifies their checksums. Then compares every row with its\n"
                 "index and expiry entries, and users with their addresses and markers. Stop the server "
                 "first:\n"
                 "no other process may have the directory open. Nothing in it is changed.",
        .more = "Exit status 0: sound. 1: damaged, rows of users are wrong, or it could not be checked; the "
                "last line says which.",
        .options = {options, OPTIONS_COUNT(options)},
        .run = run,
};
