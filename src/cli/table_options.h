/* Table options: those that say which tables are meant: of `serve`, which uses them, and of `tables`, which sets them up. Both keep them in a
 * struct serve_options called `o`, and define AT as the place of a field in their own struct. */
#ifndef CLI_TABLE_OPTIONS_H
#define CLI_TABLE_OPTIONS_H

/* clang-format off */
#define TABLE_PREFIX_OPTION \
        {"--table-prefix", OPTION_TEXT, "TEXT", \
         "with --engine dynamodb: what the names of tables begin with there", AT(o.table_prefix), 0, 0}

#define TABLE_NAME_OPTIONS \
        {"--table-auth-state", OPTION_TABLE, "NAME", \
         "table for counts, locks and states (default: auth-state)", AT(o.tables[TABLE_AUTH_STATE]), 0, 0}, \
        {"--table-rate-limits", OPTION_TABLE, "NAME", \
         "table for limits kept in a table (default: rate-limits)", AT(o.tables[TABLE_RATE_LIMITS]), 0, 0}, \
        {"--table-policies", OPTION_TABLE, "NAME", \
         "table for policies set with PUT /v1/policies (default: gatehouse-policies)", \
         AT(o.tables[TABLE_POLICIES]), 0, 0}, \
        {"--table-idempotency", OPTION_TABLE, "NAME", \
         "table for answers kept one day for retries (default: gatehouse-idempotency)", \
         AT(o.tables[TABLE_IDEMPOTENCY]), 0, 0}, \
        {"--table-users", OPTION_TABLE, "NAME", "table for users and their addresses (default: users)", \
         AT(o.tables[TABLE_USERS]), 0, 0}, \
        {"--table-revocations", OPTION_TABLE, "NAME", \
         "table for revoked tokens (default: gatehouse-revocations)", AT(o.tables[TABLE_REVOCATIONS]), 0, 0}, \
        {"--table-outbox", OPTION_TABLE, "NAME", \
         "table for events that a poller passes on, if the policies of events say so (default: outbox)", \
         AT(o.tables[TABLE_OUTBOX]), 0, 0}, \
        {"--table-jobs", OPTION_TABLE, "NAME", "table for jobs (default: gatehouse-jobs)", \
         AT(o.tables[TABLE_JOBS]), 0, 0}, \
        {"--table-sync", OPTION_TABLE, "NAME", \
         "table for dead letters and sign-outs of identity providers (default: gatehouse-sync)", \
         AT(o.tables[TABLE_SYNC]), 0, 0}, \
        {"--table-devices", OPTION_TABLE, "NAME", "table for registered devices (default: device-tokens)", \
         AT(o.tables[TABLE_DEVICES]), 0, 0}, \
        {"--table-push-tokens", OPTION_TABLE, "NAME", \
         "table that says which device has a push token (default: gatehouse-push-tokens)", \
         AT(o.tables[TABLE_PUSH_TOKENS]), 0, 0}, \
        {"--table-push", OPTION_TABLE, "NAME", \
         "table for push messages and what became of them (default: gatehouse-push)", \
         AT(o.tables[TABLE_PUSH]), 0, 0}, \
        {"--device-index", OPTION_FLAG, NULL, \
         "keep an index of registered devices by platform, for broadcasts", AT(o.device_index), 0, 0}
/* clang-format on */

#endif
