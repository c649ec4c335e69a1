/* Registrations that race, on the rough store. */
#include "service/scene.h"

#include "service/push_devices.h"

enum { SEEDS = 20, CONTROL_SEEDS = 40, RACERS = 8 };

struct racer {
	struct act               act; /* first */
	struct push_registration q;
	struct push_registered   r;
	enum err_code            rc;
	bool                     ends;
};

static enum err_code race_step(struct act *act, struct err *err)
{
	struct racer     *r = (struct racer *)act;
	struct push_ref   ref = {r->q.user, r->q.device};
	struct push_ended e;

	r->rc = r->ends ? push_device_deactivate(&act->ctx, &ref, &e, err)
	                : push_device_register(&act->ctx, &r->q, &r->r, err);
	if (r->rc == ERR_NONE)
		r->rc = commit(act, err);
	return r->rc == ERR_NOT_FOUND ? ERR_NONE : r->rc;
}

static void race(struct scene *x, struct racer *racers, int count)
{
	rough_hold(x->rough);
	for (int i = 0; i < count; i++) {
		racers[i].act.run = race_step;
		racers[i].act.base = (struct turn_request){.run = act_run_again, .done = act_done};
		racers[i].act.x = x;
		assert_int_equal(rough_submit(&x->rough->base, &racers[i].act.base, &x->s.f.err), ERR_NONE);
	}
	rough_release(x->rough);
	rough_finish(x->rough);
	for (int i = 0; i < count; i++)
		if (racers[i].act.base.rc != ERR_NONE)
			fail_msg("seed %lu: %s", x->rough->seed, racers[i].act.base.err.text);
}

static struct racer racer_of(struct scene *x, const char *user, const char *device, int token)
{
	return (struct racer){
	        .q = registration(user, device, arena_printf(&x->s.f.arena, TOKEN("%d"), token).data)};
}

/* Several users register one token at once: exactly one has it. */
static bool one_token(uint64_t seed, bool blind)
{
	struct racer racers[RACERS];
	struct scene x;
	uint32_t     left, markers;

	scene_open(&x, seed, false);
	for (int i = 0; i < RACERS; i++)
		racers[i] = racer_of(&x, arena_printf(&x.s.f.arena, "user-%d", i).data, "phone", 0);
	x.rough->blind = blind;
	race(&x, racers, RACERS);
	left = scanned(&x.s, "device-tokens").count;
	markers = scanned(&x.s, "gatehouse-push-tokens").count - RACERS;
	if (!blind)
		check_markers(&x.s);
	scene_close(&x);
	return left == 1 && markers == 1;
}

/* The same device many times: one row, and one of them made it. */
static bool one_device(uint64_t seed, bool blind)
{
	struct racer racers[RACERS];
	struct scene x;
	int          created = 0;

	scene_open(&x, seed, false);
	for (int i = 0; i < RACERS; i++)
		racers[i] = racer_of(&x, "ann", "phone", 0);
	x.rough->blind = blind;
	race(&x, racers, RACERS);
	for (int i = 0; i < RACERS; i++)
		created += racers[i].r.created;
	scene_close(&x);
	return created == 1;
}

/* New devices at the maximum. */
static bool at_the_maximum(uint64_t seed, bool blind)
{
	struct racer racers[RACERS];
	struct scene x;
	uint32_t     left;

	scene_open(&x, seed, false);
	devices_max = 5;
	for (int i = 0; i < 4; i++)
		enrolled(&x.s, "ann", arena_printf(&x.s.f.arena, "old-%d", i).data,
		         arena_printf(&x.s.f.arena, TOKEN("old-%d"), i).data);
	for (int i = 0; i < RACERS; i++)
		racers[i] = racer_of(&x, "ann", arena_printf(&x.s.f.arena, "new-%d", i).data, i);
	x.rough->blind = blind;
	race(&x, racers, RACERS);
	left = listed(&x.s, "ann", true);
	if (!blind)
		check_markers(&x.s);
	devices_max = 0;
	scene_close(&x);
	return left == 5;
}

/* Deactivations against refreshes that rotate the token: whoever came last, row and markers agree. */
static bool deactivate_against_refresh(uint64_t seed, bool blind)
{
	struct racer racers[RACERS];
	struct scene x;
	uint32_t     left, markers;

	scene_open(&x, seed, false);
	enrolled(&x.s, "ann", "phone", TOKEN("first"));
	for (int i = 0; i < RACERS; i++) {
		racers[i] = racer_of(&x, "ann", "phone", i);
		racers[i].ends = i % 2 == 1;
	}
	x.rough->blind = blind;
	race(&x, racers, RACERS);
	left = scanned(&x.s, "device-tokens").count;
	markers = scanned(&x.s, "gatehouse-push-tokens").count - 1;
	if (!blind)
		check_markers(&x.s);
	scene_close(&x);
	return left == 1 && markers == 1;
}

static void show(scene_holds *holds)
{
	scene_show(holds, SEEDS, CONTROL_SEEDS);
}

TEST(push_races, of_many_users_who_register_one_token_one_has_it)
{
	show(one_token);
}

TEST(push_races, of_many_who_register_one_device_one_made_it)
{
	show(one_device);
}

TEST(push_races, registrations_at_the_maximum_leave_the_maximum)
{
	show(at_the_maximum);
}

TEST(push_races, deactivate_against_refresh_leaves_one_row_and_its_marker)
{
	show(deactivate_against_refresh);
}
