/* Consumer tool: a member of a consumer, for the end-to-end tests. Takes a URL, the consumer's name and the member's name, and runs
 * rounds until its standard input ends. Prints "TYPE SUBJECT SEQ" for each event that it is handed; errors go to standard error, and
 * the next round tries again. With a fourth argument, every so many-th event is refused once. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "gatehouse.h"

struct counts {
	long every, events;
	bool refused; /* the last one: this time it is dealt with */
};

static bool handle(void *ctx, const struct gatehouse_event *event)
{
	struct counts *c = ctx;

	c->refused = c->every > 0 && !c->refused && ++c->events % c->every == 0;
	if (c->refused)
		return false;
	printf("%s %s %lld\n", event->type, event->subject, (long long)event->seq);
	fflush(stdout);
	return true;
}

static bool is_over(void)
{
	struct pollfd in = {STDIN_FILENO, POLLIN, 0};

	return poll(&in, 1, 0) > 0;
}

int main(int argc, char **argv)
{
	struct counts                     counts = {.every = argc > 4 ? atol(argv[4]) : 0};
	struct gatehouse_options          options = {.url = argv[1], .deadline_ms = 10000, .probe_ms = 50};
	struct gatehouse_consumer_options wanted = {
	        .handle = handle, .ctx = &counts, .wait_s = 1, .lease_s = 2};
	struct gatehouse_consumer_round round;
	struct gatehouse_error          error;
	struct gatehouse               *g;
	struct gatehouse_consumer      *consumer = NULL;

	if (argc < 4)
		return 2;
	wanted.name = argv[2];
	wanted.member = argv[3];
	g = gatehouse_open(&options, &error);
	if (g != NULL)
		consumer = gatehouse_consumer_open(g, &wanted, &error);
	if (consumer == NULL) {
		fprintf(stderr, "%s\n", error.text);
		return 1;
	}
	while (!is_over())
		if (gatehouse_consumer_run(consumer, &round, &error) != GATEHOUSE_OK) {
			fprintf(stderr, "%s: %s\n", gatehouse_code_name(error.code), error.text);
			usleep(20000);
		}
	gatehouse_consumer_close(consumer);
	gatehouse_close(g);
	return 0;
}
