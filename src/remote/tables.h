/* Tables: making, describing, changing and removing them at the endpoint. What DynamoDB does by and by is waited for, at most
 * REMOTE_TABLE_S: a table that was made can be used, and one that was removed is gone. */
#ifndef REMOTE_TABLES_H
#define REMOTE_TABLES_H

#include "remote/session.h"

enum err_code remote_table_create(struct table *t, struct arena *a, const struct table_schema *q,
                                  struct table_description *r, struct err *err);
enum err_code remote_table_describe(struct table *t, struct arena *a, struct bytes name,
                                    struct table_description *r, struct err *err);
enum err_code remote_table_list(struct table *t, struct arena *a, const struct table_list *q,
                                struct table_list_result *r, struct err *err);

/* Changes that DynamoDB has different requests for (time to live, tags, all others) cannot be made at once: ERR_INVALID. */
enum err_code remote_table_alter(struct table *t, struct arena *a, const struct table_alter *q,
                                 struct table_description *r, struct err *err);
enum err_code remote_table_remove(struct table *t, struct arena *a, struct bytes name,
                                  struct table_description *r, struct err *err);

/* As table.h says. What it learns is kept for the calls that follow (schemas.h). */
enum err_code remote_table_look(struct table *t, struct arena *a, struct bytes name, struct table_schema *r,
                                struct err *err);

/* Keys, indexes and time to live, without tags: for schemas.h. */
enum err_code remote_table_schema(struct remote_session *s, struct arena *a, struct bytes name,
                                  struct table_schema *out, struct err *err);

/* For inspect.h and provision.h, one request each; nobody waits. `change` takes three for time to live and two for tags. */
enum err_code remote_table_change(struct remote_session *s, struct arena *a, const struct table_alter *q,
                                  struct err *err);
enum err_code remote_table_once(struct remote_session *s, struct arena *a, struct bytes name,
                                struct client_table *out, struct err *err);
enum err_code remote_table_ttl(struct remote_session *s, struct arena *a, struct bytes name,
                               struct bytes *attribute, struct err *err);
enum err_code remote_table_recovery(struct remote_session *s, struct arena *a, struct bytes name, bool *on,
                                    struct err *err);
enum err_code remote_table_tags(struct remote_session *s, struct arena *a, struct bytes arn,
                                struct table_schema *out, struct err *err);

#endif
