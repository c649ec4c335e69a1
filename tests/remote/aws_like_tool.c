/* Aws like: the proxy of aws_like.h as a program.
 *
 *   aws_like_tool ENDPOINT_PORT [PORT [HOLD_US [DELAY_US]]]
 *
 * It listens on loopback, prints its port, and ends when its standard input does. GET /aws-like shows what it counted; POST /aws-like sets what
 * aws_control_set reads. */
#include <stdio.h>

#include "remote/aws_like.h"

int main(int argc, char **argv)
{
	static struct aws_like p;
	struct aws_settings    s;
	char                   ignored[64];

	if (argc < 2 || argc > 5) {
		fprintf(stderr, "usage: aws_like_tool ENDPOINT_PORT [PORT [HOLD_US [DELAY_US]]]\n");
		return 2;
	}
	if (!aws_like_open(&p, (unsigned)atoi(argv[1]), argc > 2 ? (unsigned)atoi(argv[2]) : 0)) {
		perror("aws_like_tool");
		return 1;
	}
	s = aws_like_settings(&p);
	if (argc > 3)
		s.hold_us = atoi(argv[3]);
	if (argc > 4)
		s.delay_us = atoi(argv[4]);
	aws_like_set(&p, &s);
	printf("%u\n", p.port);
	fflush(stdout);
	while (read(STDIN_FILENO, ignored, sizeof(ignored)) > 0)
		continue;
	aws_like_close(&p);
	return 0;
}
