// SPDX-License-Identifier: BSD-3-Clause
//
// openings.c: when backups take new flows, alone or with the primary backends.
#include <stdio.h>
#include <string.h>

#include "state.h"
#include "subsets_lab.h"
#include "tables_lab.h"

#define PRIMARIES 4u
#define BACKENDS 6u // the last two are backups

// A letter for each backend, the backups after a '|': h healthy, r refusing, s starting (first
// checks), d drained, m in maintenance, 0 weight 0, e ejected, l lame duck.
static void set_member(struct weir_backend_entry *backend, char state) {
	backend->health = state == 'r'   ? WEIR_HEALTH_REFUSING
			  : state == 's' ? WEIR_HEALTH_STARTING
			  : state == 'l' ? WEIR_HEALTH_LAME_DUCK
					 : WEIR_HEALTH_HEALTHY;
	backend->admin = state == 'd'   ? WEIR_ADMIN_DRAIN
			 : state == 'm' ? WEIR_ADMIN_MAINTENANCE
					: WEIR_ADMIN_READY;
	backend->configured_weight = state == '0' ? 0 : 100;
	backend->proven = state != 's';
	backend->ejected = state == 'e';
}

static struct weir_state *decided(
	const char *members, uint32_t below, struct weir_config_service *config) {
	struct weir_state *state;
	bool backup = false;
	uint8_t n = 0;

	*config = (struct weir_config_service){
		.panic_threshold_percent = 50, .backup_below_percent = below};
	assert_int_equal(weir_state_create(&state), 0);
	weir_service_id_add(state, "a");
	state->services[0].config = config;
	for (const char *member = members; *member != '\0'; member++) {
		struct weir_address address = {.family = 4, .bytes = {10, 0, 0, n}};
		char name[16];

		if (*member == '|') {
			backup = true;
			continue;
		}
		snprintf(name, sizeof(name), "b%u", n);
		assert_int_equal(weir_backend_id_add(state, 0, name, &address), n);
		set_member(&state->backends[n], *member);
		state->backends[n++].backup = backup;
	}
	assert_int_equal(weir_eligible_decide(state, 0), 0);
	return state;
}

// Returns the backends that take new flows, in the form of the members: '+' or '-'.
static const char *usable_of(const struct weir_state *state, const char *members, char *text) {
	uint32_t id = 0;

	for (size_t i = 0; i <= strlen(members); i++) {
		text[i] = members[i] == '|' || members[i] == '\0' ? members[i]
			  : state->backends[id++].chosen          ? '+'
								  : '-';
	}
	return text;
}

TEST(sets_of_primaries_and_backups) {
	static const struct {
		const char *members;
		uint32_t below;
		const char *usable;
		bool on_backups, panic;
	} cases[] = {
		{"hhhh|hh", 0, "++++|--", false, false},
		{"hhhr|hh", 0, "+++-|--", false, false},
		// one primary left, no panic mode: a healthy backup could take over
		{"hrrr|hh", 0, "+---|--", false, false},
		{"rrrr|hh", 0, "----|++", true, false},
		{"rrrr|hr", 0, "----|+-", true, false},
		// operators, weights, announcements and ejections count as failures do
		{"dddd|hh", 0, "----|++", true, false},
		{"mmmm|hh", 0, "----|++", true, false},
		{"0000|hh", 0, "----|++", true, false},
		{"llll|hh", 0, "----|++", true, false},
		{"eeee|hh", 0, "----|++", true, false},
		{"ssss|hh", 0, "----|++", true, false},
		// backups are ready, healthy and of a weight above 0
		{"rrrr|dh", 0, "----|-+", true, false},
		{"rrrr|0h", 0, "----|-+", true, false},
		{"rrrr|eh", 0, "----|-+", true, false},
		// no eligible backup: panic mode as without backups
		{"hrrr|rr", 0, "++++|--", false, true},
		{"rrrr|rr", 0, "++++|--", false, true},
		{"hhrr|rr", 0, "++--|--", false, false},
		{"dddd|rr", 0, "++++|--", false, true},
		// unless no primary could get flows
		{"mmmm|rr", 0, "----|++", true, true},
		{"00m0|rs", 0, "----|++", true, true},
		// backups that are used have a panic mode of their own
		{"rrrr|rrh", 0, "----|+++", true, true},
		{"rrrr|rhh", 0, "----|-++", true, false},
		{"hrrr|rrh", 0, "+---|---", false, false},
		{"hrrr|rrh", 50, "++++|+++", true, true},
		{"hdrr|rdh", 50, "+---|--+", true, false},
		// below a share of the primaries, both are used
		{"hhhr|hh", 50, "+++-|--", false, false},
		{"hhrr|hh", 50, "++--|--", false, false},
		{"hhrr|hh", 51, "++--|++", true, false},
		{"hrrr|hh", 50, "+---|++", true, false},
		{"rrrr|hh", 50, "----|++", true, false},
		{"hhhh|hh", 100, "++++|--", false, false},
		{"hhhd|hh", 100, "+++-|++", true, false},
		// drained primaries count, those before their first checks do not
		{"hddd|hh", 50, "+---|++", true, false},
		{"h000|hh", 50, "+---|++", true, false},
		{"hsss|hh", 50, "+---|--", false, false},
		{"hrss|hh", 51, "+---|++", true, false},
		// only backups, or none
		{"|hhr", 0, "|++-", true, false},
		{"|rrh", 0, "|+++", true, true},
		{"hrr|", 0, "+++|", false, true},
		{"hhr|", 90, "++-|", false, false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct weir_config_service config;
		struct weir_state *found = decided(cases[i].members, cases[i].below, &config);
		const struct weir_service_entry *service = &found->services[0];
		char text[16];

		if (strcmp(usable_of(found, cases[i].members, text), cases[i].usable) != 0 ||
			service->open.on_backups != cases[i].on_backups ||
			service->open.panic != cases[i].panic) {
			fail_msg("%s below %u: %s, on backups %d, panic %d", cases[i].members,
				cases[i].below, text, service->open.on_backups,
				service->open.panic);
		}
		weir_state_free(found);
	}
}

// The last primary backend may be ejected if a backup takes over, and a backup that is used may be
// ejected if another one remains.
TEST(ejections_with_backups) {
	static const struct {
		const char *members;
		uint32_t below, backend;
		bool may;
	} cases[] = {
		{"hr|h", 0, 0, true}, {"h|h", 0, 0, true}, {"h|r", 0, 0, false},
		{"h|d", 0, 0, false}, {"h|e", 0, 0, false}, {"hhhh|h", 0, 0, true},
		{"rr|h", 0, 2, false}, // the only backend with flows
		{"rr|hh", 0, 2, true},
		{"rr|hhr", 0, 2, false}, // one of three backups would be left: panic mode
		{"hr|h", 60, 0, true},
		{"hr|h", 60, 2, true}, // one of two primaries is left, which is no panic
		{"hrr|h", 60, 3, false}, // one of three is
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct weir_config_service config;
		struct weir_state *found = decided(cases[i].members, cases[i].below, &config);

		if (weir_eligible_may_eject(found, (uint16_t)cases[i].backend) != cases[i].may) {
			fail_msg("%s below %u: backend %u", cases[i].members, cases[i].below,
				cases[i].backend);
		}
		weir_state_free(found);
	}
}

static struct weir_config *backups_config(uint32_t below) {
	struct weir_config *config = lab_config(1, BACKENDS);

	config->services[0].panic_threshold_percent = 50;
	config->services[0].backup_below_percent = below;
	for (uint32_t i = PRIMARIES; i < BACKENDS; i++) {
		config->services[0].backends[i].backup = true;
	}
	return config;
}

static void set_health(
	struct lab *lab, uint32_t first, uint32_t last, enum weir_health_state health) {
	for (uint32_t i = first; i <= last; i++) {
		char name[16];

		snprintf(name, sizeof(name), "b%u", i);
		weir_tables_set_health(lab->tables, lab_id(lab, "s0", name), health);
	}
	assert_true(weir_tables_publish(lab->tables) >= 0);
}

// Returns the backends in the worker's table; bit i = backend bi.
static uint32_t seen(struct lab *lab) {
	uint32_t bits = 0;

	for (uint32_t i = 0; i < BACKENDS; i++) {
		char name[16];
		int id;

		snprintf(name, sizeof(name), "b%u", i);
		id = weir_tables_backend_find(lab->tables, "s0", name);
		if (id >= 0 &&
			lab_slots(lab, lab_state(lab, (uint16_t)id).service_id, (uint16_t)id) > 0) {
			bits |= 1u << i;
		}
	}
	return bits;
}

static struct weir_service_state service_of(const struct lab *lab) {
	struct weir_service_state service;

	assert_int_equal(weir_tables_service(lab->tables,
				 (uint16_t)weir_tables_service_find(lab->tables, "s0"), &service),
		0);
	return service;
}

// The workers' table and the rows follow. Existing flows of both kinds continue: a backup that is
// not used is closed, but not down.
TEST(published_tables_follow) {
	struct weir_config *config = backups_config(0);
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	assert_int_equal(seen(&lab), 0x0f);
	assert_int_equal(lab_row(&lab, lab_id(&lab, "s0", "b4")).flags & WEIR_BACKEND_CLOSED,
		WEIR_BACKEND_CLOSED);
	set_health(&lab, 0, 3, WEIR_HEALTH_REFUSING);
	assert_int_equal(seen(&lab), 0x30);
	assert_int_equal(lab_row(&lab, lab_id(&lab, "s0", "b4")).flags & WEIR_BACKEND_CLOSED, 0);
	assert_int_equal(lab_row(&lab, lab_id(&lab, "s0", "b0")).flags & WEIR_BACKEND_DOWN,
		WEIR_BACKEND_DOWN);
	assert_true(service_of(&lab).on_backups);
	set_health(&lab, 2, 2, WEIR_HEALTH_HEALTHY);
	assert_int_equal(seen(&lab), 0x04);
	assert_int_equal(lab_row(&lab, lab_id(&lab, "s0", "b4")).flags &
				 (WEIR_BACKEND_CLOSED | WEIR_BACKEND_DOWN | WEIR_BACKEND_RESET),
		WEIR_BACKEND_CLOSED);
	assert_false(service_of(&lab).on_backups);
	lab_close(&lab);
	lab_config_free(config);
}

// Control does not remember that backups are used: the next process derives it from the same facts.
TEST(a_restart_of_control_changes_nothing) {
	struct weir_config *config = backups_config(60);
	struct lab_published published;
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	set_health(&lab, 0, 1, WEIR_HEALTH_REFUSING);
	assert_int_equal(seen(&lab), 0x3c);
	lab_published(&lab, &published);
	lab_restart(&lab);
	lab_apply(&lab, config);
	assert_int_equal(seen(&lab), 0x3c);
	assert_true(service_of(&lab).on_backups);
	lab_close(&lab);
	lab_config_free(config);
}

TEST(reloads_change_kinds_and_remove_primaries) {
	struct weir_config *config = backups_config(0), *less = backups_config(0),
			   *swapped = backups_config(0);
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	for (uint32_t i = 0; i < PRIMARIES; i++) {
		lab_remove_backend(less, 0, 0);
	}
	lab_apply(&lab, less);
	assert_int_equal(seen(&lab), 0x30);
	assert_true(service_of(&lab).on_backups);
	assert_int_equal(service_of(&lab).backups, 2);
	lab_apply(&lab, config);
	assert_int_equal(seen(&lab), 0x0f);
	swapped->services[0].backends[0].backup = true;
	swapped->services[0].backends[5].backup = false;
	lab_apply(&lab, swapped);
	assert_int_equal(seen(&lab), 0x2e);
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(less);
	lab_config_free(swapped);
}

// Each begin and end is returned once, whatever happened in between.
TEST(takeovers_are_returned_once) {
	struct weir_config *config = backups_config(0);
	uint16_t service = UINT16_MAX;
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	assert_false(weir_tables_takeover(lab.tables, &service));
	set_health(&lab, 0, 3, WEIR_HEALTH_REFUSING);
	assert_true(weir_tables_takeover(lab.tables, &service));
	assert_int_equal(service, weir_tables_service_find(lab.tables, "s0"));
	assert_false(weir_tables_takeover(lab.tables, &service));
	set_health(&lab, 4, 4, WEIR_HEALTH_REFUSING);
	set_health(&lab, 0, 0, WEIR_HEALTH_HEALTHY);
	set_health(&lab, 0, 0, WEIR_HEALTH_REFUSING);
	assert_false(weir_tables_takeover(lab.tables, &service));
	set_health(&lab, 0, 0, WEIR_HEALTH_HEALTHY);
	assert_true(weir_tables_takeover(lab.tables, &service));
	assert_false(weir_tables_takeover(lab.tables, &service));
	lab_close(&lab);
	lab_config_free(config);
}

TEST(restart_of_the_dataplane_is_no_takeover) {
	struct weir_config *config = backups_config(0);
	uint16_t service;
	struct lab lab, old;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	set_health(&lab, 0, 3, WEIR_HEALTH_REFUSING);
	assert_true(weir_tables_takeover(lab.tables, &service));
	lab_worker_stop(&lab);
	old = lab;
	lab.segment = lab_segment(NULL);
	lab.control = lab_attach(lab.segment);
	lab_worker_start(&lab);
	assert_int_equal(weir_tables_rebind(lab.tables, lab.control), 0);
	lab_publish(&lab);
	assert_false(weir_tables_takeover(lab.tables, &service));
	weir_segment_free(old.control);
	weir_segment_free(old.segment);
	lab_close(&lab);
	lab_config_free(config);
}

// A backend that fails or returns costs one examined backend as long as the backups stay used or
// unused. Only a takeover examines all.
TEST(flaps_examine_single_backends) {
	struct weir_config *config = backups_config(50);
	uint64_t before;
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	before = weir_tables_work(lab.tables).backends;
	set_health(&lab, 0, 0, WEIR_HEALTH_REFUSING);
	set_health(&lab, 5, 5, WEIR_HEALTH_REFUSING);
	set_health(&lab, 5, 5, WEIR_HEALTH_HEALTHY);
	set_health(&lab, 1, 1, WEIR_HEALTH_REFUSING);
	set_health(&lab, 1, 1, WEIR_HEALTH_HEALTHY);
	assert_int_equal(weir_tables_work(lab.tables).backends - before, 5);
	set_health(&lab, 1, 2, WEIR_HEALTH_REFUSING);
	assert_int_equal(seen(&lab), 0x38);
	before = weir_tables_work(lab.tables).backends;
	set_health(&lab, 4, 4, WEIR_HEALTH_REFUSING);
	set_health(&lab, 4, 4, WEIR_HEALTH_HEALTHY);
	assert_int_equal(weir_tables_work(lab.tables).backends - before, 2);
	lab_close(&lab);
	lab_config_free(config);
}

// --- subsets --------------------------------------------------------------------------------

#define WIDE 42u // backends, the last 12 are backups
#define WIDE_PRIMARIES 30u
#define SIZE 6u

static struct weir_config *wide_config(uint32_t below) {
	struct weir_config *config = subset_config(WIDE, SIZE, WEIR_SUBSET_CLIENT_GROUP);

	config->services[0].backup_below_percent = below;
	for (uint32_t i = WIDE_PRIMARIES; i < WIDE; i++) {
		config->services[0].backends[i].backup = true;
	}
	return config;
}

// The subset of the primaries is what it is without the backups in the configuration.
TEST(backups_take_no_places_in_subsets) {
	const uint64_t primaries = (1ull << WIDE_PRIMARIES) - 1;
	struct weir_config *config = wide_config(70);
	struct lab lab;
	uint64_t set;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	set = subset_seen_by(&lab, 0);
	assert_int_equal(set, subset_expected(config, 2, WIDE_PRIMARIES, 0));
	// 18 of 30 eligible: their places stay, and the backups of the subset come in addition: as
	// 12 usable backups are to 18 usable primary backends, 4 are to 6
	for (uint32_t i = 0; i < 12; i++) {
		subset_set_health(&lab, i, WEIR_HEALTH_REFUSING);
	}
	set = subset_seen_by(&lab, 0);
	assert_int_equal(set & primaries, subset_expected(config, 2, WIDE_PRIMARIES, 0xfff));
	assert_int_equal(__builtin_popcountll(set & ~primaries), 4);
	// no primary left: a whole subset of backups
	for (uint32_t i = 12; i < WIDE_PRIMARIES; i++) {
		subset_set_health(&lab, i, WEIR_HEALTH_REFUSING);
	}
	set = subset_seen_by(&lab, 0);
	assert_int_equal(set & primaries, 0);
	assert_int_equal(__builtin_popcountll(set), SIZE);
	lab_close(&lab);
	lab_config_free(config);
}

// The members that the API shows are those in the table, also the backups.
TEST(members_of_subsets_include_used_backups) {
	struct weir_config *config = wide_config(100);
	struct weir_subset_member members[WIDE];
	uint64_t set = 0;
	struct lab lab;
	int n;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	n = weir_tables_subset_members(lab.tables, 0, 0, members);
	assert_int_equal(n, SIZE);
	subset_set_health(&lab, 0, WEIR_HEALTH_REFUSING);
	n = weir_tables_subset_members(lab.tables, 0, 0, members);
	for (int i = 0; i < n; i++) {
		if (!members[i].unusable) {
			set |= 1ull << members[i].backend;
		}
	}
	assert_int_equal(set, subset_seen_by(&lab, 0));
	assert_true(set >> WIDE_PRIMARIES != 0);
	lab_close(&lab);
	lab_config_free(config);
}
