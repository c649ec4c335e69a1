/* Remote: commands that ask a running server over HTTP (`gatehouse user`, `token`, `job`, …), where the others work on a data
 * directory. A command is a table of words; each word is a function that makes a few calls and shows what came back.
 *
 *   endpoint   --endpoint, GATEHOUSE_ENDPOINT, or http://127.0.0.1:8420
 *   key        AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; none: the server runs without authentication
 *   TLS        --ca-file, GATEHOUSE_CA_FILE, or the system's authorities
 *
 * What always holds
 * (1) A key is never sent over plain http to another machine.
 * (2) A call that changes something has an Idempotency-Key, so that sending it again does it once.
 * (3) Personal data can be read from standard input instead of the arguments, which every user of the machine can see;
 *     tokens and codes are read from there or from a file only.
 *
 * A function returns a code and fills *err exactly when it failed; remote_run prints it. ERR_INVALID is the user's mistake
 * (exit status 2), anything else a failure (1). */
#ifndef CLI_REMOTE_H
#define CLI_REMOTE_H

#include <stdio.h>

#include "cli/commands.h"
#include "cli/show.h"
#include "json/json.h"
#include "json/write.h"

#define REMOTE_ENDPOINT "http://127.0.0.1:8420"

enum {
	REMOTE_ARGUMENTS_MAX = 40, /* an id and as many fields as a user has, with its attributes */
	REMOTE_ANSWER_BYTES_MAX = 16 * 1024 * 1024,
	REMOTE_INPUT_BYTES_MAX = 64 * 1024, /* of standard input, or of a file that an option names */
	REMOTE_TIMEOUT_S = 30,
	REMOTE_FILTERS_MAX = 3,
	REMOTE_CURSOR_BYTES_MAX = 4096,
};

/* What each of these commands can be told; the first member of its options. */
struct remote_options {
	const char *endpoint, *ca_file;
	uint64_t    timeout_s;
	bool        json, help;
};

#define REMOTE_OPTIONS                                                                                       \
	{"--endpoint",                                                                                       \
	 OPTION_TEXT,                                                                                        \
	 "URL",                                                                                              \
	 "the server (default: GATEHOUSE_ENDPOINT, else " REMOTE_ENDPOINT                                    \
	 "); its key comes from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",                                \
	 offsetof(struct remote_options, endpoint),                                                          \
	 0,                                                                                                  \
	 0},                                                                                                 \
	        {"--ca-file",                                                                                \
	         OPTION_TEXT,                                                                                \
	         "FILE",                                                                                     \
	         "authorities to trust (default: GATEHOUSE_CA_FILE, else the system's)",                     \
	         offsetof(struct remote_options, ca_file),                                                   \
	         0,                                                                                          \
	         0},                                                                                         \
	        {"--timeout",                                                                                \
	         OPTION_NUMBER,                                                                              \
	         "S",                                                                                        \
	         "seconds to wait for an answer, with second tries (default: 30)",                           \
	         offsetof(struct remote_options, timeout_s),                                                 \
	         1,                                                                                          \
	         3600},                                                                                      \
	        {"--json",                                                                                   \
	         OPTION_FLAG,                                                                                \
	         NULL,                                                                                       \
	         "print JSON: the server's answer, or one object per line of a list",                        \
	         offsetof(struct remote_options, json),                                                      \
	         0,                                                                                          \
	         0},                                                                                         \
	{                                                                                                    \
		"--help", OPTION_FLAG, NULL, "print this help", offsetof(struct remote_options, help), 0, 0  \
	}

struct remote {
	const struct remote_options *options; /* the command's own struct begins with it */
	const char                  *arguments[REMOTE_ARGUMENTS_MAX + 1];
	int                          count;
	struct outbound             *target;
	struct bytes                 key;   /* "Bearer …"; empty: none */
	struct bytes                 trace; /* of this command: the server's log and events have it */
	struct json_reader          *reader;
	struct arena                 arena; /* of all that a command reads and answers */
};

/* What the word of the same index in struct command does, with how many arguments after it. A command without words has one of these. */
struct remote_word {
	enum err_code (*run)(struct remote *r, struct err *err);
	int arguments_min, arguments_max;
};

/* Runs `gatehouse COMMAND WORD …`: reads the arguments into *options (of the command's own type), connects, calls the word's
 * function, says what went wrong. Returns the exit status. */
int remote_run(const struct command *c, const struct remote_word *words, struct remote_options *options,
               struct arguments rest);

/* ---- for the functions of words (remote_call.c) ---- */

struct remote_call {
	const char  *method;
	struct bytes path;     /* with its query */
	struct bytes body;     /* JSON; empty: none */
	struct bytes if_match; /* empty: none */
};

struct remote_answer {
	int                status;
	struct bytes       text; /* as it came */
	const struct json *body; /* NULL: none */
	struct bytes       etag; /* empty: none */
};

/* An answer that is no 2xx is an error, whose text says what the server says and what to do: ERR_INVALID (400, 413, 422), ERR_NOT_FOUND,
 * ERR_CONDITION (409, 412), or ERR_STORAGE. */
enum err_code remote_call(struct remote *r, const struct remote_call *q, struct remote_answer *out,
                          struct err *err);

/* One call with these arguments in its path, whose answer is shown. */
enum err_code remote_simple(struct remote *r, const char *method, const char *pattern, struct err *err);

/* The same with a body of one member. */
enum err_code remote_simple_with(struct remote *r, const struct remote_call *q, const char *name,
                                 struct bytes value, struct err *err);

/* On standard output: for people, or with --json as it came. */
void remote_show(const struct remote *r, const struct remote_answer *a);

/* Shows an answer that may be a verdict. One other than `allow` is no error to the server, but it is one to the caller: ERR_CONDITION. */
enum err_code remote_end(const struct remote *r, const struct remote_answer *a, struct err *err);

struct remote_list {
	struct bytes path;
	const char  *member;   /* of the answer: the array */
	uint64_t     page;     /* rows per call; 0: the path takes no limit */
	uint64_t     rows_max; /* 0: all */
	struct {
		const char *name, *value; /* of the query; a value of NULL: not said */
	} filters[REMOTE_FILTERS_MAX];
};

/* How far a list has come; all 0 at the start. */
struct remote_place {
	uint64_t seen; /* rows */
	char     cursor[REMOTE_CURSOR_BYTES_MAX];
	size_t   cursor_len; /* 0 after a page: it was the last */
};

/* The next page: an array. */
enum err_code remote_page(struct remote *r, const struct remote_list *q, struct remote_place *at,
                          const struct json **rows, struct err *err);

/* Shows the rows of all pages, as a table or with --json as one object per line. */
enum err_code remote_list(struct remote *r, const struct remote_list *q, struct show_table *table,
                          struct err *err);

/* 32 hexadecimal digits. */
struct bytes remote_random(struct remote *r);

/* "/v1/users/%/suspend", with each % replaced by the next argument, encoded. The arguments end with NULL. */
struct bytes remote_path(struct remote *r, const char *pattern, const char *const *arguments);

/* An argument that may be "-": then it is the first line of standard input. `what` is for the error. */
enum err_code remote_value(struct remote *r, const char *argument, const char *what, struct bytes *out,
                           struct err *err);

/* The first line of a file, or of standard input if the path is "-"; without blanks around it. */
enum err_code remote_secret(struct remote *r, const char *path, const char *what, struct bytes *out,
                            struct err *err);

/* The members of the JSON object in a file, or on standard input if the path is "-", into an object that is being written. A path of NULL: none.
 * `like` is an example, for the error. */
enum err_code remote_members(struct remote *r, const char *path, const char *like, struct json_writer *w,
                             struct err *err);

/* Is the user asked at a terminal? If so, shows the question. */
void remote_ask(const char *question);

#endif
