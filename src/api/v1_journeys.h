/* Journeys: which of them the caller's key may read or change. A route names the journeys that it is about as resources, and is refused before it
 * runs; a route about many of them asks for each, and leaves out what the key may not see. */
#ifndef API_V1_JOURNEYS_H
#define API_V1_JOURNEYS_H

#include "api/v1.h"
#include "service/rules.h"
#include "service/subject.h"

/* It writes in all journeys: a key that is denied one of them is denied this. */
void v1_every_journey(struct v1_call *c, const struct rules *rules);

/* It reads all journeys: a key sees those that it may (v1_sees), and is denied this only if there is none. */
void v1_any_journey(struct v1_call *c, const struct rules *rules);

/* The same of all rows of a subject, states too; or, if a prefix of their keys is given, of that journey alone. */
void v1_any_row(struct v1_call *c, const struct rules *rules, struct bytes prefix);

/* May the caller have what the journey of a row's key says? States have resources of their own: state/intervention. */
bool v1_sees(void *call, struct bytes journey);

/* Takes the rows out that the caller may not see. */
void v1_hide_rows(struct v1_call *c, struct subject *s);

/* ERR_ACCESS names the first journey that the caller may not have. */
enum err_code v1_check_sees(struct v1_call *c, struct bytes journey, struct err *err);

/* A rule of the policies changes these, too: whoever is denied their journeys is denied this. Not being allowed them is
 * no reason: the rule says what follows from its own journey. */
enum err_code v1_check_follows(struct v1_call *c, const struct rule *rule, const struct rule_refs *refs,
                               struct err *err);

#endif
