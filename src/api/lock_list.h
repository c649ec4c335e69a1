/* Locks in answers: those that a list or a bulk unlock names. */
#ifndef API_LOCK_LIST_H
#define API_LOCK_LIST_H

#include "json/write.h"
#include "service/lock_list.h"

/* `name`: [{subject, journey, name, …}], `more`, and the `cursor` of the next page if there is one. */
void lock_page_write(struct json_writer *w, struct bytes name, const struct lock_page *page, struct arena *a,
                     int64_t now_us);

#endif
