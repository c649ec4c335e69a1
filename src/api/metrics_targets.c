/* Metrics of event targets. Their names are the operator's, of a fixed alphabet, and there are at most TARGETS_MAX. */
#include "api/exposition.h"
#include "api/metrics.h"
#include "service/delivery.h"

/* X(name, kind, what it means, the number) */
#define TARGET_NUMBERS(X)                                                                                    \
	X("gatehouse_target_state", "gauge",                                                                 \
	  "Whether a target accepts events: 0 well, 1 failing, 2 disabled.", t->state)                       \
	X("gatehouse_target_lag_events", "gauge",                                                            \
	  "Events of the log, of all types, behind which delivery to a target is.", t->lag_events)           \
	X("gatehouse_target_lag_seconds", "gauge",                                                           \
	  "Age of the oldest event that is on its way to a target; 0: none is.", t->lag_s)                   \
	X("gatehouse_target_waiting", "gauge",                                                               \
	  "Events that a target did not accept, or that wait behind one of their subject.", t->waiting)      \
	X("gatehouse_target_dead_letters", "gauge", "Dead letters of a target.", t->dead)                    \
	X("gatehouse_target_retries_total", "counter", "Deliveries that were not the first of their event.", \
	  t->retries)                                                                                        \
	X("gatehouse_target_died_total", "counter", "Events that became dead letters.", t->died)             \
	X("gatehouse_target_skipped_total", "counter",                                                       \
	  "Events that were trimmed before they were delivered to a target.", t->skipped)

void metrics_write_targets(struct buf *out, const struct target_post *post)
{
	struct target_reading all[TARGETS_MAX];
	unsigned              count = post->read == NULL ? 0 : post->read(post->ctx, all);

#define X(family, kind, help, number)                                                                        \
	exposition_family(out, family, kind, help);                                                          \
	for (const struct target_reading *t = all; t < all + count; t++) {                                   \
		struct label target = {"target", bytes_of(t->name)};                                         \
                                                                                                             \
		exposition_sample(out, family, (struct labels){&target, 1}, (double)(number));               \
	}
	TARGET_NUMBERS(X)
#undef X
	exposition_family(out, "gatehouse_target_deliveries_total", "counter",
	                  "Deliveries to a target, by what came of them.");
	for (unsigned i = 0; i < count; i++)
		for (int end = 0; end < DELIVERY_ENDS; end++) {
			struct label labels[] = {{"target", bytes_of(all[i].name)},
			                         {"result", bytes_of(delivery_end_names[end])}};

			exposition_sample(out, "gatehouse_target_deliveries_total",
			                  (struct labels){labels, 2}, (double)all[i].ends[end]);
		}
}
