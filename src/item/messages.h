/* Messages: every text that DynamoDB's callers may match on, in one table. They are facts of the protocol,
 * gathered from AWS's documentation and from what clients report; a few are formats for printf. */
#ifndef ITEM_MESSAGES_H
#define ITEM_MESSAGES_H

/* numbers */
#define MSG_NUMBER_BAD       "The parameter cannot be converted to a numeric value: %.*s"
#define MSG_NUMBER_EMPTY     "The parameter cannot be converted to a numeric value"
#define MSG_NUMBER_PRECISION "Attempting to store more than 38 significant digits in a Number"
#define MSG_NUMBER_OVERFLOW                                                                                  \
	"Number overflow. Attempting to store a number with magnitude larger than supported range"
#define MSG_NUMBER_UNDERFLOW                                                                                 \
	"Number underflow. Attempting to store a number with magnitude smaller than supported range"

#endif
