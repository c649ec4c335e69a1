/* Plan: sums of calls, of bytes, of dollars. */
#include "plan/plan.h"

#include <assert.h>
#include <math.h>

#define DAY_S    86400.0
#define GB_BYTES 1e9
#define MILLION  1e6
#define PER_CENT 100.0

/* ---- calls ---- */

static double share(uint64_t all, uint64_t percent)
{
	return (double)all * (double)percent / PER_CENT;
}

/* How often a day. A login that failed before counts as one after a failure, once however often it failed. */
static void calls_count(const struct plan_input *in, double *out)
{
	double logins = (double)in->logins_per_day, failed = share(in->logins_per_day, in->failed_percent);
	double after = failed < logins ? failed : logins;

	out[PLAN_USER_CREATED] = (double)in->new_users_per_day;
	out[PLAN_SIGN_IN] = logins - after;
	out[PLAN_SIGN_IN_AFTER] = after;
	out[PLAN_FAILURE] = failed;
	out[PLAN_LOCK] = (double)in->locks_per_day;
	out[PLAN_LOCKED] = (double)in->locked_per_day;
	out[PLAN_SECOND_FACTOR] = share(in->logins_per_day, in->second_factor_percent);
	out[PLAN_CHECK] = logins * (double)in->checks_per_login;
	out[PLAN_LIMIT] = logins * (double)in->limits_per_login;
	out[PLAN_USER_READ] = (double)in->user_reads_per_day;
	out[PLAN_DEVICE_REGISTERED] = (double)in->new_devices_per_day;
	out[PLAN_DEVICE_REFRESHED] = (double)in->device_refreshes_per_day;
	out[PLAN_DEVICES_LISTED] = (double)in->device_lists_per_day;
}

/* What the calls publish. */
static double events_count(const struct plan_input *in)
{
	if (in->no_events)
		return 0;
	return (double)in->new_users_per_day * PLAN_USER_EVENTS +
	       (double)in->new_devices_per_day * PLAN_DEVICE_EVENTS +
	       (double)in->locks_per_day * PLAN_LOCK_EVENTS;
}

static void works_count(const struct plan_input *in, double *out)
{
	double events = events_count(in);

	out[PLAN_MESSAGE] = (double)in->messages_per_day;
	out[PLAN_BROADCAST_MESSAGE] = (double)in->broadcast_messages_per_day;
	out[PLAN_RECEIPT] = (double)in->messages_per_day + (double)in->broadcast_messages_per_day;
	out[PLAN_EVENT_DELIVERED] = events * (double)in->targets;
	out[PLAN_EVENT_CONSUMED] = events * (double)in->consumers;
}

static void line_add(struct plan *out, const struct plan_name *what, double count,
                     const struct plan_cost *each, double times)
{
	struct plan_line *line = &out->calls[out->call_count++];

	*line = (struct plan_line){.name = what->name,
	                           .label = what->label,
	                           .count = count,
	                           .reads = count * times * each->reads,
	                           .writes = count * times * each->writes};
	out->per_day.reads += line->reads;
	out->per_day.writes += line->writes;
}

static void calls_add(const struct plan_input *in, const struct plan_units *units, struct plan *out)
{
	static const struct plan_name processes = {"background", "idle processes"};
	const double                  waiting[PLAN_IDLE_COUNT] = {
	                         [PLAN_IDLE_TARGET] = (double)in->targets, [PLAN_IDLE_CONSUMER] = (double)in->consumers};
	double counts[PLAN_CALL_COUNT], works[PLAN_WORK_COUNT];

	calls_count(in, counts);
	works_count(in, works);
	for (int i = 0; i < PLAN_CALL_COUNT; i++)
		line_add(out, &plan_calls[i], counts[i], &units->calls[!in->no_events][i], 1);
	for (int i = 0; i < PLAN_WORK_COUNT; i++)
		line_add(out, &plan_works[i], works[i], &units->works[i], 1);
	line_add(out, &processes, (double)in->processes, &units->background, DAY_S);
	for (int i = 0; i < PLAN_IDLE_COUNT; i++)
		line_add(out, &plan_idles[i], waiting[i], &units->idles[i], DAY_S);
	assert(out->call_count == PLAN_LINES);
}

/* What waits has no peak. A table has at least one unit of each. */
static void rates_add(const struct plan_input *in, double tables, struct plan *out)
{
	struct plan_cost idle = {0, 0};
	double           factor = (double)in->peak_factor;
	double           utilisation = (double)in->utilisation_percent / PER_CENT;

	for (int i = PLAN_IDLE_LINE; i < PLAN_LINES; i++) {
		idle.reads += out->calls[i].reads;
		idle.writes += out->calls[i].writes;
	}
	out->average = (struct plan_cost){out->per_day.reads / DAY_S, out->per_day.writes / DAY_S};
	out->peak.reads = ((out->per_day.reads - idle.reads) * factor + idle.reads) / DAY_S;
	out->peak.writes = ((out->per_day.writes - idle.writes) * factor + idle.writes) / DAY_S;
	out->read_capacity = fmax(ceil(out->peak.reads / utilisation), tables);
	out->write_capacity = fmax(ceil(out->peak.writes / utilisation), tables);
}

/* ---- storage ---- */

static void stores_count(const struct plan_input *in, double *out)
{
	double days = in->no_events ? 0 : (double)in->event_days;

	out[PLAN_STORE_USER] = (double)in->users;
	out[PLAN_STORE_DEVICE] = (double)in->users * (double)in->devices_per_user;
	out[PLAN_STORE_FAILURE] = ceil(share(in->logins_per_day, in->failed_percent) *
	                               (PLAN_COUNT_LIFE_S / DAY_S) * (double)in->peak_factor);
	out[PLAN_STORE_LIMIT] = (double)in->limit_keys;
	out[PLAN_STORE_USER_EVENTS] = (double)in->new_users_per_day * days;
	out[PLAN_STORE_DEVICE_EVENTS] = (double)in->new_devices_per_day * days;
}

static void stores_add(const struct plan_input *in, const struct plan_units *units, struct plan *out)
{
	double counts[PLAN_STORE_COUNT];

	stores_count(in, counts);
	for (int i = 0; i < PLAN_STORE_COUNT; i++) {
		out->stores[i] = (struct plan_line){.name = plan_stores[i].name,
		                                    .label = plan_stores[i].label,
		                                    .count = counts[i],
		                                    .bytes = counts[i] * units->stores[i]};
		out->bytes += out->stores[i].bytes;
	}
}

/* ---- money ---- */

static void money_add(struct plan *out, const char *name, const char *label, struct plan_money m)
{
	assert(out->cost_count < PLAN_COSTS_MAX);
	m.name = name;
	m.label = label;
	out->costs[out->cost_count++] = m;
	out->on_demand += m.on_demand;
	out->provisioned += m.provisioned;
	out->unverified = out->unverified || m.unverified;
}

/* Of what costs the same in both ways. */
static void money_add_both(struct plan *out, const struct plan_prices *p, enum plan_price_kind kind,
                           double amount)
{
	double usd = amount * p->list[kind].usd;

	money_add(out, plan_price_kinds[kind].name, plan_price_kinds[kind].label,
	          (struct plan_money){
	                  .on_demand = usd, .provisioned = usd, .unverified = p->list[kind].unverified});
}

static struct plan_money units_cost(const struct plan_price *million, const struct plan_price *hour,
                                    double per_day, double capacity)
{
	return (struct plan_money){.on_demand = per_day * PLAN_MONTH_DAYS / MILLION * million->usd,
	                           .provisioned = capacity * PLAN_MONTH_HOURS * hour->usd,
	                           .unverified = million->unverified || hour->unverified};
}

static void costs_add(const struct plan_input *in, const struct plan_prices *p, struct plan *out)
{
	double gb = out->bytes / GB_BYTES;

	money_add(out, "writes", "writes",
	          units_cost(&p->list[PLAN_WRITE], &p->list[PLAN_WRITE_HOUR], out->per_day.writes,
	                     out->write_capacity));
	money_add(out, "reads", "reads",
	          units_cost(&p->list[PLAN_READ], &p->list[PLAN_READ_HOUR], out->per_day.reads,
	                     out->read_capacity));
	money_add_both(out, p, PLAN_STORAGE, gb);
	if (in->pitr)
		money_add_both(out, p, PLAN_PITR, gb);
	if (in->backups > 0)
		money_add_both(out, p, PLAN_BACKUP, gb * (double)in->backups);
	if (in->stream_reads_per_day > 0)
		money_add_both(out, p, PLAN_STREAM,
		               (double)in->stream_reads_per_day * PLAN_MONTH_DAYS / MILLION);
	if (!in->kms)
		return;
	money_add_both(out, p, PLAN_KMS_KEY, 1);
	if (in->kms_rotations > 0)
		money_add_both(out, p, PLAN_KMS_ROTATION,
		               (double)(in->kms_rotations < PLAN_ROTATIONS_PAID ? in->kms_rotations
		                                                                : PLAN_ROTATIONS_PAID));
}

void plan_make(const struct plan_input *in, const struct plan_units *units, const struct plan_prices *prices,
               struct plan *out)
{
	*out = (struct plan){.bytes = 0};
	calls_add(in, units, out);
	rates_add(in, units->tables, out);
	stores_add(in, units, out);
	costs_add(in, prices, out);
}

/* ---- estimates of others ---- */

static void verdict(struct plan_verdict *v, double says, double computed)
{
	*v = (struct plan_verdict){.computed = computed, .made = says >= 0, .times = 1};
	v->right = fabs(says - computed) <= PLAN_CLAIM_TOLERANCE * computed;
	if (computed > 0)
		v->times = says / computed;
}

void plan_compare(const struct plan_estimate *e, const struct plan_prices *prices,
                  struct plan_verdict out[PLAN_CLAIM_COUNT])
{
	double bytes = e->items * e->item_bytes;
	double gb = e->items * (e->item_bytes + PLAN_ITEM_OVERHEAD) / GB_BYTES; /* as it is billed */
	double writes = e->writes_per_day * e->units_per_write * prices->list[PLAN_WRITE].usd / MILLION;
	double reads = e->reads_per_day * e->units_per_read * prices->list[PLAN_READ].usd / MILLION;

	verdict(&out[PLAN_SAYS_BYTES], e->says[PLAN_SAYS_BYTES], bytes);
	verdict(&out[PLAN_SAYS_WRITES_PER_SECOND], e->says[PLAN_SAYS_WRITES_PER_SECOND],
	        e->writes_per_day / DAY_S);
	verdict(&out[PLAN_SAYS_READS_PER_SECOND], e->says[PLAN_SAYS_READS_PER_SECOND],
	        e->reads_per_day / DAY_S);
	verdict(&out[PLAN_SAYS_WRITE_USD_PER_DAY], e->says[PLAN_SAYS_WRITE_USD_PER_DAY], writes);
	verdict(&out[PLAN_SAYS_READ_USD_PER_DAY], e->says[PLAN_SAYS_READ_USD_PER_DAY], reads);
	verdict(&out[PLAN_SAYS_USD_PER_MONTH], e->says[PLAN_SAYS_USD_PER_MONTH],
	        (writes + reads) * PLAN_MONTH_DAYS + gb * prices->list[PLAN_STORAGE].usd);
	verdict(&out[PLAN_SAYS_PITR_USD_PER_MONTH], e->says[PLAN_SAYS_PITR_USD_PER_MONTH],
	        gb * prices->list[PLAN_PITR].usd);
}
