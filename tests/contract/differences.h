/* Differences: rules that a host does not keep, each with the reason. A rule that is not here is kept by all of them. */
#ifndef TESTS_CONTRACT_DIFFERENCES_H
#define TESTS_CONTRACT_DIFFERENCES_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct difference {
	const char *host; /* "": all that are reached by remote/ */
	const char *rule; /* "suite: behaviour", or "suite: *" */
	const char *why;
};

static const struct difference differences[] = {
        {"", "limit: of_tables_is_2500",
         "the endpoint says how many tables there may be, and over HTTP the rule takes minutes"},
        {"dynoxide", "table: name_has_3_to_255_characters",
         "the prefix that tells worlds apart is part of the name there"},
        {"dynoxide", "table: is_described_as_it_was_created", "creation times come from its own clock"},
        {"dynoxide", "table: counts_its_items_and_those_of_its_indexes", "counts are kept rarely or never"},
        {"dynoxide", "limit: of_attributes_included_in_indexes_is_100", "not limited"},
        {"dynoxide", "limit: of_global_indexes_is_20",
         "UpdateTable does not count, or wants units of an on-demand table"},
        {"dynoxide", "projection: a_global_index_refuses_what_it_does_not_hold",
         "answers without the attribute"},
        {"dynoxide", "projection: a_local_index_fetches_what_it_does_not_hold",
         "answers without the attribute"},
        {"dynoxide", "index: key_of_a_hash_may_have_2048_bytes_and_not_one_more", "not limited in an index"},
        {"dynoxide", "page: refuses_a_start_key_that_is_none_or_lies_outside", "refused with another text"},
        {"dynoxide", "page: is_measured_before_the_filter_and_the_projection",
         "a page holds more than a megabyte"},
        {"dynoxide", "scan: refuses_a_start_key_of_another_segment", "not refused, or with another text"},
        {"dynalite", "table: name_has_3_to_255_characters",
         "the prefix that tells worlds apart is part of the name there"},
        {"dynalite", "table: is_described_as_it_was_created", "creation times come from its own clock"},
        {"dynalite", "table: counts_its_items_and_those_of_its_indexes", "counts are kept rarely or never"},
        {"dynalite", "limit: of_attributes_included_in_indexes_is_100", "not limited"},
        {"dynalite", "limit: of_global_indexes_is_20",
         "UpdateTable does not count, or wants units of an on-demand table"},
        {"dynalite", "projection: a_global_index_refuses_what_it_does_not_hold",
         "answers without the attribute"},
        {"dynalite", "projection: a_local_index_fetches_what_it_does_not_hold",
         "answers without the attribute"},
        {"dynalite", "index: key_of_a_hash_may_have_2048_bytes_and_not_one_more", "not limited in an index"},
        {"dynalite", "page: refuses_a_start_key_that_is_none_or_lies_outside", "refused with another text"},
        {"dynalite", "page: is_measured_before_the_filter_and_the_projection",
         "a page holds more than a megabyte"},
        {"dynalite", "scan: refuses_a_start_key_of_another_segment", "not refused, or with another text"},
        {"dynoxide", "expired: stays_absent_after_it_was_swept",
         "sweeps by its own clock, so the row is still counted"},
        {"dynoxide", "update: that_cannot_be_computed_is_refused_and_changes_nothing",
         "refused with another text"},
        {"dynoxide", "size: an_update_may_make_an_item_of_400_kb_and_not_one_byte_more",
         "the limit of an update is lower"},
        {"dynoxide", "query: must_name_the_hash_key_and_only_keys",
         "a key of another type finds nothing instead of being refused"},
        {"dynoxide", "table: name_can_be_used_once", "answers 500 to a name that differs in case only"},
        {"dynoxide", "transaction: may_write_4_megabytes_and_not_a_byte_more", "refused with another text"},
        {"dynoxide", "transaction: may_read_4_megabytes_and_not_a_byte_more", "not limited"},
        {"dynoxide", "token: used_for_another_transaction_is_refused", "refused with another text"},
        {"dynoxide", "returns: of_an_item_that_was_not_there_old_is_nothing", "returns the key"},
        {"dynoxide", "update: of_an_absent_item_that_only_removes_creates_nothing", "creates the bare key"},
        {"dynoxide", "update: may_remove_a_part_of_an_absent_item", "creates the bare key"},
        {"dynoxide", "transaction: with_an_update_that_only_removes_creates_nothing", "creates the bare key"},
        {"dynalite", "update: of_an_absent_item_that_only_removes_creates_nothing", "creates the bare key"},
        {"dynalite", "update: may_remove_a_part_of_an_absent_item", "refuses the path"},
        {"dynoxide", "transaction: of_reads_with_an_empty_key_is_refused_as_a_whole",
         "cancels it and says which"},
        {"dynoxide", "page: of_a_table_without_range_key_is_the_only_one", "goes on behind the only row"},
        {"dynalite", "page: of_a_table_without_range_key_is_the_only_one", "goes on behind the only row"},
        {"dynoxide", "index: created_later_leaves_out_rows_whose_key_is_too_long_for_it",
         "not limited in an index"},
        {"dynalite", "index: created_later_leaves_out_rows_whose_key_is_too_long_for_it",
         "wants units of an on-demand table"},
        {"dynoxide", "index: refuses_a_start_key_without_its_own_key", "refused with another text"},
        {"dynalite", "index: refuses_a_start_key_without_its_own_key", "refused with another text"},
        {"dynoxide", "table: units_that_stay_as_they_are_are_refused", "not refused of an index"},
        {"dynalite", "table: units_that_stay_as_they_are_are_refused", "refused with another text"},
        {"dynalite", "transaction: *", "has no transactions"},
        {"dynalite", "token: *", "has no transactions"},
        {"dynalite", "expired: *", "has no time to live"},
        {"dynalite", "expiry: *", "has no time to live"},
        {"dynalite", "table: time_to_live_can_be_switched_on_and_off", "has no time to live"},
        {"dynalite", "table: that_is_protected_is_not_removed", "has no deletion protection"},
        {"dynalite", "tag: of_a_table_there_are_50_at_most", "not limited"},
        {"dynalite", "batch_get: leaves_for_the_next_call_what_does_not_fit_into_16_megabytes",
         "stops before 16 MB"},
        {"dynalite", "condition: that_fails_returns_the_old_item_only_if_asked",
         "does not know ReturnValuesOnConditionCheckFailure"},
        {"dynalite", "index: stops_a_page_at_a_key_of_index_and_table",
         "items of one index key come in another order"},
        {"dynalite", "index: key_must_have_its_type_and_not_be_empty", "an empty index key is taken"},
        {"dynalite", "index: created_later_holds_what_was_there_before_and_what_comes",
         "wants units of an on-demand table"},
        {"dynalite", "index: deleted_is_gone_and_its_name_can_be_used_again",
         "an index that was deleted still answers"},
        {"dynalite", "update: refuses_a_sum_of_more_than_38_digits", "does not count digits"},
        {"dynalite", "key: may_not_be_empty_text_or_empty_binary", "refused with another text"},
        {"dynalite", "page: holds_not_a_byte_more_than_a_megabyte", "a page holds more than a megabyte"},
};

static inline bool difference_applies(const struct difference *d, const char *host, const char *rule)
{
	size_t len = strlen(d->rule);
	bool   whole = d->rule[len - 1] != '*';

	if (strcmp(d->host, host) != 0 && (*d->host != '\0' || strcmp(host, "embedded") == 0))
		return false;
	return whole ? strcmp(d->rule, rule) == 0 : strncmp(d->rule, rule, len - 1) == 0;
}

/* Why the host does not keep the rule; NULL: it does. */
static inline const char *difference_of(const char *host, const char *rule)
{
	for (size_t i = 0; i < sizeof(differences) / sizeof(differences[0]); i++)
		if (difference_applies(&differences[i], host, rule))
			return differences[i].why;
	return NULL;
}

#endif
