/* Plan: `gatehouse plan`: what a load costs at a DynamoDB endpoint; asks nobody, only src/plan. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "json/write.h"
#include "plan/plan.h"

struct plan_options {
	struct plan_input in;
	const char       *prices, *region, *compare_with;
	bool              json, help;
};

#define NOT_SAID UINT64_MAX

enum { USERS_MAX = 1000 * 1000 * 1000, PER_LOGIN_MAX = 1000 };

#define NUMBER(name, member, low, high, text)                                                                \
	{                                                                                                    \
		name, OPTION_NUMBER, "N", text, offsetof(struct plan_options, in.member), low, high          \
	}
#define PER_DAY(name, member, text) NUMBER(name, member, 0, UINT64_C(10000000000), text)
#define FLAG(name, member, text)                                                                             \
	{                                                                                                    \
		name, OPTION_FLAG, NULL, text, offsetof(struct plan_options, member), 0, 0                   \
	}
#define TEXT(name, value, member, text)                                                                      \
	{                                                                                                    \
		name, OPTION_TEXT, value, text, offsetof(struct plan_options, member), 0, 0                  \
	}

static const struct option_spec options[] = {
        NUMBER("--users", users, 1, USERS_MAX, "accounts (required)"),
        PER_DAY("--logins-per-day", logins_per_day, "sign-ins that succeed, per day (required)"),
        NUMBER("--devices-per-user", devices_per_user, 0, 1000, "registered devices per user (0)"),
        NUMBER("--failed-percent", failed_percent, 0, 100000, "failed attempts per 100 logins (10)"),
        NUMBER("--second-factor-percent", second_factor_percent, 0, 1000,
               "second factors per 100 logins (0)"),
        PER_DAY("--locks-per-day", locks_per_day, "failures that set a lock, per day (0)"),
        PER_DAY("--locked-per-day", locked_per_day, "attempts while a lock holds, per day (0)"),
        NUMBER("--checks-per-login", checks_per_login, 0, PER_LOGIN_MAX, "calls of /v1/check per login (0)"),
        NUMBER("--limits-per-login", limits_per_login, 0, PER_LOGIN_MAX,
               "limits with `engine: table` asked per login (0)"),
        NUMBER("--limit-keys", limit_keys, 0, USERS_MAX, "keys of such limits that are stored at a time (0)"),
        PER_DAY("--new-users-per-day", new_users_per_day, "accounts created per day (0)"),
        PER_DAY("--user-reads-per-day", user_reads_per_day, "reads of users per day (0)"),
        PER_DAY("--new-devices-per-day", new_devices_per_day,
                "devices registered for the first time, per day (0)"),
        PER_DAY("--device-refreshes-per-day", device_refreshes_per_day,
                "devices registered again, per day (0)"),
        PER_DAY("--device-lists-per-day", device_lists_per_day, "lists of a user's devices per day (0)"),
        PER_DAY("--messages-per-day", messages_per_day, "push messages to single users, per day (0)"),
        PER_DAY("--broadcast-messages-per-day", broadcast_messages_per_day,
                "push messages of broadcasts, per day (0)"),
        NUMBER("--targets", targets, 0, 1000, "targets that events are delivered to (0)"),
        NUMBER("--consumers", consumers, 0, 1000, "consumers that wait for events (0)"),
        FLAG("--no-events", in.no_events, "no events are published"),
        NUMBER("--event-days", event_days, 1, 3650, "days for which events are kept (7)"),
        NUMBER("--processes", processes, 0, 10000, "Gatehouse processes: idle ones ask too (1)"),
        NUMBER("--peak-factor", peak_factor, 1, 1000,
               "how much busier the busiest second is than the average (10)"),
        NUMBER("--utilisation-percent", utilisation_percent, 1, 100,
               "of provisioned capacity at the peak (70)"),
        FLAG("--pitr", in.pitr, "point-in-time recovery is on"),
        NUMBER("--backups", backups, 0, 1000, "full backups that are kept (0)"),
        PER_DAY("--stream-reads-per-day", stream_reads_per_day,
                "GetRecords calls on DynamoDB Streams per day (0)"),
        FLAG("--kms", in.kms, "the tables are encrypted with a KMS key of yours"),
        NUMBER("--kms-rotations", kms_rotations, 0, 1000,
               "how often that key was rotated; yearly is once a year (0)"),
        TEXT("--region", "NAME", region, "whose prices (us-east-1)"),
        TEXT("--prices", "FILE", prices,
             "prices of your own, in the form of /usr/share/gatehouse/prices.yaml"),
        TEXT("--compare-with", "FILE", compare_with, "check the arithmetic of an estimate instead"),
        FLAG("--json", json, "print JSON"),
        {"--help", OPTION_ACTION, NULL, "print this", offsetof(struct plan_options, help), 0, 0},
};

/* ---- for people ---- */

static void print_calls(const struct plan *p)
{
	printf("\n%-30s %15s %17s %17s\n", "per day", "calls", "read units", "write units");
	for (int i = 0; i < PLAN_LINES; i++)
		if (p->calls[i].count > 0)
			printf("%-30s %15.0f %17.0f %17.0f\n", p->calls[i].label, p->calls[i].count,
			       p->calls[i].reads, p->calls[i].writes);
	printf("%-30s %15s %17.0f %17.0f\n", "all", "", p->per_day.reads, p->per_day.writes);
	printf("%-30s %15s %17.1f %17.1f\n", "average per second", "", p->average.reads, p->average.writes);
	printf("%-30s %15s %17.1f %17.1f\n", "peak per second", "", p->peak.reads, p->peak.writes);
}

static void print_stores(const struct plan *p)
{
	printf("\n%-30s %15s %17s\n", "stored", "how many", "bytes");
	for (int i = 0; i < PLAN_STORE_COUNT; i++)
		if (p->stores[i].count > 0)
			printf("%-30s %15.0f %17.0f\n", p->stores[i].label, p->stores[i].count,
			       p->stores[i].bytes);
	printf("%-30s %15s %17.0f\n", "all", "", p->bytes);
}

static void print_costs(const struct plan *p)
{
	printf("\n%-30s %15s %17s\n", "$ per month", "on demand", "provisioned");
	for (unsigned i = 0; i < p->cost_count; i++)
		printf("%-30s %15.4f %17.4f%s\n", p->costs[i].label, p->costs[i].on_demand,
		       p->costs[i].provisioned, p->costs[i].unverified ? "  unverified" : "");
	printf("%-30s %15.2f %17.2f%s\n", "all", p->on_demand, p->provisioned,
	       p->unverified ? "  unverified" : "");
}

static void print_notes(const struct plan_options *o, const struct plan *p)
{
	printf("\nProvisioned: %.0f write and %.0f read units, for the peak at %llu %% utilisation.\n",
	       p->write_capacity, p->read_capacity, (unsigned long long)o->in.utilisation_percent);
	if (o->in.kms && o->in.kms_rotations == 0)
		printf("A KMS key that is rotated yearly costs more each year, for the first %d rotations: "
		       "see "
		       "--kms-rotations.\n",
		       PLAN_ROTATIONS_PAID);
	if (o->in.kms && o->in.kms_rotations > PLAN_ROTATIONS_PAID)
		printf("Of %llu rotations of the KMS key, %d are charged.\n",
		       (unsigned long long)o->in.kms_rotations, PLAN_ROTATIONS_PAID);
	if (p->unverified)
		printf("Unverified: nobody compared that price with Amazon's list. --prices FILE takes your "
		       "own.\n");
}

static void print_plan(const struct plan_options *o, const struct plan_units *u,
                       const struct plan_prices *prices, const struct plan *p)
{
	printf("%llu users, %llu devices each, %llu logins per day. Units as measured on %.*s; prices of "
	       "%.*s, dated %.*s.\n",
	       (unsigned long long)o->in.users, (unsigned long long)o->in.devices_per_user,
	       (unsigned long long)o->in.logins_per_day, BYTES_ARG(u->measured), BYTES_ARG(prices->region),
	       BYTES_ARG(prices->dated));
	print_calls(p);
	print_stores(p);
	print_costs(p);
	print_notes(o, p);
}

/* ---- as JSON ---- */

static void member_number(struct json_writer *w, const char *name, double value)
{
	json_name(w, bytes_of(name));
	json_double(w, value);
}

static void write_lines(struct json_writer *w, const char *name, const struct plan_line *lines, int count,
                        bool stored)
{
	json_name(w, bytes_of(name));
	json_begin_object(w);
	for (int i = 0; i < count; i++) {
		json_name(w, bytes_of(lines[i].name));
		json_begin_object(w);
		member_number(w, "count", lines[i].count);
		if (!stored) {
			member_number(w, "read_units", lines[i].reads);
			member_number(w, "write_units", lines[i].writes);
		} else {
			member_number(w, "bytes", lines[i].bytes);
		}
		json_end_object(w);
	}
	json_end_object(w);
}

static void write_cost(struct json_writer *w, const char *name, struct plan_cost c)
{
	json_name(w, bytes_of(name));
	json_begin_object(w);
	member_number(w, "read_units", c.reads);
	member_number(w, "write_units", c.writes);
	json_end_object(w);
}

static void write_money(struct json_writer *w, const struct plan *p)
{
	json_name(w, BYTES("usd_per_month"));
	json_begin_object(w);
	for (unsigned i = 0; i <= p->cost_count; i++) {
		struct plan_money m = i < p->cost_count ? p->costs[i]
		                                        : (struct plan_money){.name = "all",
		                                                              .on_demand = p->on_demand,
		                                                              .provisioned = p->provisioned,
		                                                              .unverified = p->unverified};

		json_name(w, bytes_of(m.name));
		json_begin_object(w);
		member_number(w, "on_demand", m.on_demand);
		member_number(w, "provisioned", m.provisioned);
		json_member_bool(w, BYTES("unverified"), m.unverified);
		json_end_object(w);
	}
	json_end_object(w);
}

static void write_plan(struct json_writer *w, const struct plan_units *u, const struct plan_prices *prices,
                       const struct plan *p)
{
	json_begin_object(w);
	json_member_text(w, BYTES("measured"), u->measured);
	json_member_text(w, BYTES("region"), prices->region);
	json_member_text(w, BYTES("prices_dated"), prices->dated);
	write_lines(w, "per_day", p->calls, PLAN_LINES, false);
	write_cost(w, "all_per_day", p->per_day);
	write_cost(w, "average_per_second", p->average);
	write_cost(w, "peak_per_second", p->peak);
	write_cost(w, "provisioned_capacity", (struct plan_cost){p->read_capacity, p->write_capacity});
	write_lines(w, "stored", p->stores, PLAN_STORE_COUNT, true);
	member_number(w, "bytes", p->bytes);
	write_money(w, p);
	json_end_object(w);
}

static void print_json(const struct buf *text)
{
	fwrite(text->data, 1, text->len, stdout);
	putchar('\n');
}

/* ---- estimates of others ---- */

static void print_verdict(double says, const struct plan_verdict *v)
{
	if (v->right)
		printf("right\n");
	else if (v->times >= 1)
		printf("%.3g times too high\n", v->times);
	else
		printf("too low: %.3g of it\n", says > 0 ? v->times : 0);
}

static void print_comparison(const struct plan_estimate *e, const struct plan_prices *prices,
                             const struct plan_verdict *verdicts)
{
	printf("%.*s, with the prices of %.*s%s\n\n%-28s %16s %16s\n", BYTES_ARG(e->title),
	       BYTES_ARG(prices->region), prices->list[PLAN_WRITE].unverified ? " (unverified)" : "", "",
	       "it says", "computed");
	for (int i = 0; i < PLAN_CLAIM_COUNT; i++) {
		if (!verdicts[i].made)
			continue;
		printf("%-28s %16.10g %16.*g  ", plan_claims[i].label, e->says[i],
		       verdicts[i].computed >= 1e4 ? 10 : 4, verdicts[i].computed);
		print_verdict(e->says[i], &verdicts[i]);
	}
	printf("\nRight: within %.0f %%. What is stored is billed with %d bytes more per item.\n",
	       PLAN_CLAIM_TOLERANCE * 100, PLAN_ITEM_OVERHEAD);
}

static void write_comparison(struct json_writer *w, const struct plan_estimate *e,
                             const struct plan_verdict *verdicts)
{
	json_begin_object(w);
	for (int i = 0; i < PLAN_CLAIM_COUNT; i++) {
		if (!verdicts[i].made)
			continue;
		json_name(w, bytes_of(plan_claims[i].name));
		json_begin_object(w);
		member_number(w, "says", e->says[i]);
		member_number(w, "computed", verdicts[i].computed);
		json_member_bool(w, BYTES("right"), verdicts[i].right);
		member_number(w, "times", verdicts[i].times);
		json_end_object(w);
	}
	json_end_object(w);
}

static enum err_code compare(const struct plan_options *o, const struct plan_prices *prices, struct arena *a,
                             struct err *err)
{
	struct plan_verdict  verdicts[PLAN_CLAIM_COUNT];
	struct plan_estimate e;
	struct json_writer   w;
	struct bytes         text;
	struct err           why;
	struct buf           out;

	if (input_read(o->compare_with, PLAN_FILE_BYTES_MAX, a, &text, &why) != ERR_NONE ||
	    plan_estimate_read(text, a, &e, &why) != ERR_NONE)
		return err_set(err, ERR_INVALID, "--compare-with: %s", why.text);
	plan_compare(&e, prices, verdicts);
	if (!o->json) {
		print_comparison(&e, prices, verdicts);
		return ERR_NONE;
	}
	buf_init(&out, a);
	json_writer_init(&w, &out);
	write_comparison(&w, &e, verdicts);
	print_json(&out);
	return ERR_NONE;
}

/* ---- the command ---- */

static enum err_code prices_read(const struct plan_options *o, struct arena *a, struct plan_prices *out,
                                 struct err *err)
{
	struct bytes text = plan_prices_text();
	struct err   why;

	if (o->prices != NULL && input_read(o->prices, PLAN_FILE_BYTES_MAX, a, &text, &why) != ERR_NONE)
		return err_set(err, ERR_INVALID, "--prices: %s", why.text);
	if (plan_prices_read(text, bytes_of(o->region), a, out, &why) == ERR_NONE)
		return ERR_NONE;
	return err_set(err, ERR_INVALID, "%s: %s", o->prices != NULL ? "--prices" : "--region", why.text);
}

static enum err_code make(const struct plan_options *o, const struct plan_prices *prices, struct arena *a,
                          struct err *err)
{
	struct plan_units  units;
	struct plan        p;
	struct json_writer w;
	struct buf         out;

	if (o->in.users == 0)
		return err_set(err, ERR_INVALID, "--users: missing: how many accounts? (see --help)");
	if (o->in.logins_per_day == NOT_SAID)
		return err_set(err, ERR_INVALID,
		               "--logins-per-day: missing: how many sign-ins succeed per day? (see --help)");
	if (o->in.kms_rotations > 0 && !o->in.kms)
		return err_set(err, ERR_INVALID, "--kms-rotations: only valid with --kms");
	if (plan_units_read(plan_units_text(), a, &units, err) != ERR_NONE)
		return err->code;
	plan_make(&o->in, &units, prices, &p);
	if (!o->json) {
		print_plan(o, &units, prices, &p);
		return ERR_NONE;
	}
	buf_init(&out, a);
	json_writer_init(&w, &out);
	write_plan(&w, &units, prices, &p);
	print_json(&out);
	return ERR_NONE;
}

static int plan(int argc, char **argv)
{
	struct plan_options o = {.in = {.logins_per_day = NOT_SAID,
	                                .failed_percent = 10,
	                                .peak_factor = 10,
	                                .utilisation_percent = 70,
	                                .processes = 1,
	                                .event_days = 7},
	                         .region = "us-east-1"};
	struct plan_prices  prices;
	struct arena        a;
	struct err          err;
	enum err_code       rc = options_parse(OPTIONS(options), &o, argc, argv, &err);

	if (rc == ERR_NONE && o.help) {
		command_help(&command_plan);
		return 0;
	}
	arena_init(&a);
	if (rc == ERR_NONE)
		rc = prices_read(&o, &a, &prices, &err);
	if (rc == ERR_NONE)
		rc = o.compare_with != NULL ? compare(&o, &prices, &a, &err) : make(&o, &prices, &a, &err);
	if (rc != ERR_NONE)
		fprintf(stderr, "gatehouse plan: %s\n", err.text);
	arena_release(&a);
	return rc == ERR_NONE ? 0 : 2;
}

const struct command command_plan = {
        .name = "plan",
        .help = "what a load costs at a DynamoDB endpoint",
        .about = "Prints reads, writes, storage and the monthly cost of a load with --engine dynamodb, on "
                 "demand and\n"
                 "provisioned. What each call costs in units was measured; prices come from a dated file.\n"
                 "Needs no endpoint and no network.",
        .options = {options, OPTIONS_COUNT(options)},
        .more = "An example:\n"
                "  gatehouse plan --users 100000 --devices-per-user 2 --logins-per-day 50000 --pitr --kms",
        .run = plan,
};
