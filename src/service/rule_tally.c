/* Rule tally: attaching, inheriting. */
#include "service/rule_tally.h"

static bool same_type(const struct rule *a, const struct rule *b)
{
	return bytes_equal(a->journey, b->journey) && bytes_equal(a->type, b->type);
}

void rule_tally_attach(struct rules *rules)
{
	for (uint32_t i = 0; i < rules->count; i++) {
		struct rule *rule = &rules->list[i];

		rule->tally = i > 0 && same_type(rule, rule - 1)
		                      ? rule[-1].tally
		                      : arena_zalloc(&rules->base.arena, sizeof(*rule->tally));
	}
}

static void add(struct metric_counter *to, const struct metric_counter *from)
{
	metric_add(to, metric_value(from));
}

static void add_all(struct rule_tally *to, const struct rule_tally *from)
{
	for (int v = 0; v < VERDICT_COUNT; v++) {
		for (int q = 0; q < RULE_QUESTION_COUNT; q++)
			add(&to->verdicts[q][v], &from->verdicts[q][v]);
		add(&to->shadows[v], &from->shadows[v]);
	}
	add(&to->locks_set, &from->locks_set);
}

void rule_tally_inherit(struct document *next, const struct document *now)
{
	const struct rules *from = (const struct rules *)now;
	struct rules       *to = (struct rules *)next;

	for (uint32_t i = 0; i < to->count; i++) {
		const struct rule *old;
		uint32_t           count;

		if (i > 0 && to->list[i].tally == to->list[i - 1].tally)
			continue;
		old = rules_of_type(from, to->list[i].journey, to->list[i].type, &count);
		if (old != NULL)
			add_all(to->list[i].tally, old->tally);
	}
}
