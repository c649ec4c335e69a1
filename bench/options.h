/* Options: what load is told on its command line, checked before anything is opened. */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "request.h"

enum { CONNECTIONS_MAX = 10000, RATE_MAX = 1000000 };

struct options {
	const char *host;
	int         port;
	int         connections;
	double      seconds;
	double      warmup;
	uint64_t    keys;
	uint64_t    first; /* the least key */
	uint64_t    seed;
	double      rate;  /* requests per second over all connections; 0: as many as are answered */
	bool        once;  /* every key one time, in order, instead of for a time: to fill a table */
	bool        spin;  /* never sleep while waiting for an answer */
	bool        sign;  /* with the key of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY */
	bool        redis; /* the target is "redis": the body is a command */
	const char *target;
	const char *body;
	const char *expect;
};

static const struct option options_names[] = {
        {"host", required_argument, NULL, 'h'},
        {"port", required_argument, NULL, 'p'},
        {"connections", required_argument, NULL, 'c'},
        {"seconds", required_argument, NULL, 's'},
        {"warmup", required_argument, NULL, 'w'},
        {"keys", required_argument, NULL, 'k'},
        {"first", required_argument, NULL, 'f'},
        {"seed", required_argument, NULL, 'r'},
        {"rate", required_argument, NULL, 'q'},
        {"once", no_argument, NULL, 'o'},
        {"spin", no_argument, NULL, 'i'},
        {"sign", no_argument, NULL, 'g'},
        {"target", required_argument, NULL, 't'},
        {"body-template", required_argument, NULL, 'b'},
        {"expect", required_argument, NULL, 'e'},
        {NULL, 0, NULL, 0},
};

static inline bool options_set(struct options *o, int name, const char *value)
{
	switch (name) {
	case 'h':
		o->host = value;
		return true;
	case 'p':
		o->port = atoi(value);
		return true;
	case 'c':
		o->connections = atoi(value);
		return true;
	case 's':
		o->seconds = atof(value);
		return true;
	case 'w':
		o->warmup = atof(value);
		return true;
	case 'k':
		o->keys = strtoull(value, NULL, 10);
		return true;
	case 'f':
		o->first = strtoull(value, NULL, 10);
		return true;
	case 'r':
		o->seed = strtoull(value, NULL, 10);
		return true;
	case 'q':
		o->rate = atof(value);
		return true;
	case 'o':
		o->once = true;
		return true;
	case 'i':
		o->spin = true;
		return true;
	case 'g':
		o->sign = true;
		return true;
	case 't':
		o->target = value;
		o->redis = strcmp(value, "redis") == 0;
		return true;
	case 'b':
		o->body = value;
		return true;
	case 'e':
		o->expect = value;
		return true;
	default:
		return false;
	}
}

static inline bool options_valid(const struct options *o)
{
	return o->port > 0 && o->port < 65536 && o->connections > 0 && o->connections <= CONNECTIONS_MAX &&
	       o->seconds > 0 && o->warmup >= 0 && o->rate >= 0 && o->rate <= RATE_MAX &&
	       !(o->rate > 0 && (o->once || o->spin)) && o->keys > 0 && o->keys <= REQUEST_KEYS_MAX &&
	       o->first <= REQUEST_KEYS_MAX - o->keys && (o->first == 0 || !o->sign) && o->target && o->body;
}

static inline bool options_read(struct options *o, int argc, char **argv)
{
	int name;

	*o = (struct options){.host = "127.0.0.1", .connections = 16, .seconds = 4, .keys = 1, .seed = 1};
	while ((name = getopt_long(argc, argv, "", options_names, NULL)) != -1) {
		if (!options_set(o, name, optarg))
			return false;
	}
	return optind == argc && options_valid(o);
}

#endif
