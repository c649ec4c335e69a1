/* Linking: the last step of reading a rule set (rules_read.c). */
#ifndef SERVICE_RULES_LINK_H
#define SERVICE_RULES_LINK_H

#include "json/fields.h"
#include "service/rules.h"

/* Sorts the rules, as rules_find needs them, sees to it that none is there twice and that what they refer to exists,
 * and tells each whose success makes a device known. Errors go into f, the set's outermost object. */
void rules_link(struct rules *rules, struct fields *f);

#endif
