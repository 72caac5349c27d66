// SPDX-License-Identifier: BSD-3-Clause
//
// eligible.c: which backends take new flows, even if few or no backends are usable.
#include <stdio.h>
#include <string.h>

#include "state.h"
#include "test.h"

struct member {
	enum weir_admin_state admin;
	enum weir_health_state health;
	uint32_t configured, runtime;
	unsigned int flags; // LEAVING, UNPROVEN, RESOLVED, EJECTED
};

#define LEAVING 1
#define UNPROVEN 2 // the backend was never healthy
#define RESOLVED 4 // the backend's next hop is resolved
#define EJECTED 8

#define READY WEIR_ADMIN_READY
#define DRAIN WEIR_ADMIN_DRAIN
#define MAINTENANCE WEIR_ADMIN_MAINTENANCE
#define HEALTHY WEIR_HEALTH_HEALTHY
#define STARTING WEIR_HEALTH_STARTING
#define LAME WEIR_HEALTH_LAME_DUCK
#define REFUSING WEIR_HEALTH_REFUSING
#define UNSET WEIR_WEIGHT_UNSET

// Returns the state of a service with these n members after control has determined which of them
// take new flows.
static struct weir_state *decided(const struct member *members, uint32_t n, uint32_t threshold,
	struct weir_config_service *config) {
	struct weir_state *state;

	*config = (struct weir_config_service){.panic_threshold_percent = threshold};
	assert_int_equal(weir_state_create(&state), 0);
	weir_service_id_add(state, "a");
	state->services[0].config = config;
	for (uint32_t i = 0; i < n; i++) {
		struct weir_address address = {.family = 4, .bytes = {10, 0, 0, (uint8_t)i}};
		char name[16];

		snprintf(name, sizeof(name), "b%u", i);
		assert_int_equal(weir_backend_id_add(state, 0, name, &address), i);
		state->backends[i].admin = members[i].admin;
		state->backends[i].health = members[i].health;
		state->backends[i].configured_weight = members[i].configured;
		state->backends[i].runtime_weight = members[i].runtime;
		state->backends[i].proven = (members[i].flags & UNPROVEN) == 0;
		state->backends[i].hop.resolved = (members[i].flags & RESOLVED) != 0;
		state->backends[i].ejected = (members[i].flags & EJECTED) != 0;
		if ((members[i].flags & LEAVING) != 0) {
			weir_backend_leave(state, (uint16_t)i);
		}
	}
	weir_eligible_decide(state, 0);
	return state;
}

// Determines which of these n members of a service take new flows. Returns them as a bitmap.
static uint32_t decide(const struct member *members, uint32_t n, uint32_t threshold,
	bool *ret_panic, uint32_t *ret_eligible) {
	struct weir_config_service config;
	struct weir_state *state = decided(members, n, threshold, &config);
	bool reported = true;
	struct weir_selection_member chosen[32];
	uint32_t count, bits = 0;

	count = weir_eligible_members(state, 0, chosen, &reported);
	for (uint32_t i = 0; i < count; i++) {
		assert_true(chosen[i].weight > 0);
		assert_int_equal(chosen[i].weight,
			weir_backend_effective_weight(state, &state->backends[chosen[i].id]));
		assert_int_equal(chosen[i].identity, state->backends[chosen[i].id].identity);
		bits |= 1u << chosen[i].id;
	}
	assert_int_equal(__builtin_popcount(bits), count);
	// Affinity relies on this: the row of a backend is closed if the selection leaves it out.
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(
			(state->backends[i].flags & WEIR_BACKEND_CLOSED) == 0, bits >> i & 1);
	}
	*ret_panic = state->services[0].open.panic;
	*ret_eligible = state->services[0].eligible;
	weir_state_free(state);
	return bits;
}

TEST(eligible_sets) {
	static const struct {
		const char *name;
		uint32_t threshold;
		struct member members[5];
		uint32_t n, chosen, eligible;
		bool panic;
	} cases[] = {
		{"all healthy", 50, {{READY, HEALTHY, 1, UNSET, 0}, {READY, HEALTHY, 1, UNSET, 0}},
			2, 0x3, 2, false},
		{"a backend with weight 0 gets no flows and does not count", 50,
			{{READY, HEALTHY, 0, UNSET, 0}, {READY, HEALTHY, 1, UNSET, 0}}, 2, 0x2, 1,
			false},
		{"run-time weight overrides the configured weight", 50,
			{{READY, HEALTHY, 1, 0, 0}, {READY, HEALTHY, 0, 5, 0}}, 2, 0x2, 1, false},
		{"drained, above the threshold", 50,
			{{DRAIN, HEALTHY, 1, UNSET, 0}, {READY, HEALTHY, 1, UNSET, 0}}, 2, 0x2, 1,
			false},
		{"lame duck, above the threshold", 50,
			{{READY, LAME, 1, UNSET, 0}, {READY, HEALTHY, 1, UNSET, 0}}, 2, 0x2, 1,
			false},
		{"two of three refusing: panic, all are used", 50,
			{{READY, REFUSING, 1, UNSET, 0}, {READY, HEALTHY, 1, UNSET, 0},
				{READY, REFUSING, 1, UNSET, 0}},
			3, 0x7, 1, true},
		{"starting backends do not count and are not used while one backend is healthy", 50,
			{{READY, STARTING, 1, UNSET, UNPROVEN}, {READY, HEALTHY, 1, UNSET, 0},
				{READY, STARTING, 1, UNSET, 0},
				{READY, STARTING, 1, UNSET, UNPROVEN}},
			4, 0x2, 1, false},
		{"starting backends are not used in a panic that other backends cause", 50,
			{{READY, STARTING, 1, UNSET, UNPROVEN}, {READY, HEALTHY, 1, UNSET, 0},
				{READY, REFUSING, 1, UNSET, 0}, {READY, REFUSING, 1, UNSET, 0}},
			4, 0xe, 1, true},
		{"backends that were never healthy do not count", 50,
			{{READY, REFUSING, 1, UNSET, UNPROVEN},
				{READY, REFUSING, 1, UNSET, UNPROVEN},
				{READY, HEALTHY, 1, UNSET, 0}, {READY, REFUSING, 1, UNSET, 0}},
			4, 0x4, 1, false},
		{"no backend healthy: all are used", 50,
			{{READY, STARTING, 1, UNSET, UNPROVEN},
				{READY, REFUSING, 1, UNSET, UNPROVEN}, {READY, LAME, 1, UNSET, 0},
				{DRAIN, REFUSING, 1, UNSET, 0},
				{MAINTENANCE, REFUSING, 1, UNSET, 0}},
			5, 0xf, 0, true},
		{"no backend healthy, threshold 0: never panic", 0,
			{{READY, STARTING, 1, UNSET, 0}, {READY, HEALTHY, 1, UNSET, 0},
				{READY, REFUSING, 1, UNSET, 0}},
			3, 0x2, 1, false},
		{"panic does not use lame ducks and drained backends while one backend is healthy",
			50,
			{{READY, LAME, 1, UNSET, 0}, {READY, REFUSING, 1, UNSET, 0},
				{READY, REFUSING, 1, UNSET, 0}, {DRAIN, HEALTHY, 1, UNSET, 0},
				{READY, HEALTHY, 1, UNSET, 0}},
			5, 0x16, 1, true},
		{"no backend healthy: lame ducks and drained backends are used", 50,
			{{READY, LAME, 1, UNSET, 0}, {READY, REFUSING, 1, UNSET, 0},
				{DRAIN, HEALTHY, 1, UNSET, 0}},
			3, 0x7, 0, true},
		{"only lame ducks and drained backends: all are used", 50,
			{{READY, LAME, 1, UNSET, 0}, {MAINTENANCE, HEALTHY, 1, UNSET, 0},
				{DRAIN, REFUSING, 1, UNSET, 0}},
			3, 0x5, 0, true},
		{"only maintenance: no backend", 50,
			{{MAINTENANCE, HEALTHY, 1, UNSET, 0}, {MAINTENANCE, REFUSING, 1, UNSET, 0}},
			2, 0, 0, false},
		{"a backend in maintenance is not counted", 50,
			{{MAINTENANCE, HEALTHY, 1, UNSET, 0}, {MAINTENANCE, HEALTHY, 1, UNSET, 0},
				{READY, HEALTHY, 1, UNSET, 0}},
			3, 0x4, 1, false},
		{"a leaving backend is not counted", 50,
			{{READY, HEALTHY, 1, UNSET, LEAVING}, {READY, HEALTHY, 1, UNSET, LEAVING},
				{READY, HEALTHY, 1, UNSET, 0}, {READY, REFUSING, 1, UNSET, 0}},
			4, 0x4, 1, false},
		{"no backend healthy, threshold 0: no backend", 0, {{READY, REFUSING, 1, UNSET, 0}},
			1, 0, 0, false},
		{"no backends", 50, {{0}}, 0, 0, 0, false},
		{"all weights 0", 50, {{READY, HEALTHY, 0, UNSET, 0}}, 1, 0, 0, false},
		{"three of four drained: they count as neither healthy nor failed", 50,
			{{DRAIN, HEALTHY, 1, UNSET, 0}, {DRAIN, HEALTHY, 1, UNSET, 0},
				{DRAIN, HEALTHY, 1, UNSET, 0}, {READY, HEALTHY, 1, UNSET, 0}},
			4, 0x8, 1, false},
		{"three of four are lame ducks: they count as neither healthy nor failed", 50,
			{{READY, LAME, 1, UNSET, 0}, {READY, LAME, 1, UNSET, 0},
				{READY, LAME, 1, UNSET, 0}, {READY, HEALTHY, 1, UNSET, 0}},
			4, 0x8, 1, false},
		{"two of four drained, one of the other two down: half of these are healthy", 50,
			{{DRAIN, HEALTHY, 1, UNSET, 0}, {DRAIN, HEALTHY, 1, UNSET, 0},
				{READY, REFUSING, 1, UNSET, 0}, {READY, HEALTHY, 1, UNSET, 0}},
			4, 0x8, 1, false},
		{"one drained, two other backends down: panic, without the drained backend", 50,
			{{DRAIN, HEALTHY, 1, UNSET, 0}, {READY, REFUSING, 1, UNSET, 0},
				{READY, REFUSING, 1, UNSET, 0}, {READY, HEALTHY, 1, UNSET, 0}},
			4, 0xe, 1, true},
		{"only drained backends, threshold 0: no backend", 0,
			{{DRAIN, HEALTHY, 1, UNSET, 0}}, 1, 0, 0, false},
		{"threshold 100: panic if one backend is not healthy", 100,
			{{READY, HEALTHY, 1, UNSET, 0}, {READY, REFUSING, 1, UNSET, 0}}, 2, 0x3, 1,
			true},
		{"a backend without next hop is not used, but does not count as failed", 50,
			{{READY, HEALTHY, 1, UNSET, 0}, {READY, HEALTHY, 1, UNSET, RESOLVED},
				{READY, HEALTHY, 1, UNSET, 0}},
			3, 0x2, 3, false},
		{"ejected: no new flows", 50,
			{{READY, HEALTHY, 1, UNSET, EJECTED}, {READY, HEALTHY, 1, UNSET, 0}}, 2,
			0x2, 1, false},
		{"most backends are ejected: panic uses them", 50,
			{{READY, HEALTHY, 1, UNSET, EJECTED}, {READY, HEALTHY, 1, UNSET, EJECTED},
				{READY, HEALTHY, 1, UNSET, 0}},
			3, 0x7, 1, true},
		{"all have a next hop", 50,
			{{READY, HEALTHY, 1, UNSET, RESOLVED},
				{READY, HEALTHY, 1, UNSET, RESOLVED}},
			2, 0x3, 2, false},
		{"panic does not use backends without next hop", 50,
			{{READY, REFUSING, 1, UNSET, RESOLVED}, {READY, REFUSING, 1, UNSET, 0},
				{READY, HEALTHY, 1, UNSET, 0}},
			3, 0x1, 1, true},
		{"next hops of drained, refusing and leaving backends, and of weight 0, do not "
		 "count",
			50,
			{{DRAIN, HEALTHY, 1, UNSET, RESOLVED}, {READY, HEALTHY, 0, UNSET, RESOLVED},
				{READY, HEALTHY, 1, UNSET, LEAVING | RESOLVED},
				{READY, REFUSING, 1, UNSET, RESOLVED},
				{READY, HEALTHY, 1, UNSET, 0}},
			5, 0x10, 1, false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bool panic;
		uint32_t eligible;
		uint32_t chosen =
			decide(cases[i].members, cases[i].n, cases[i].threshold, &panic, &eligible);

		if (chosen != cases[i].chosen || panic != cases[i].panic ||
			eligible != cases[i].eligible) {
			fail_msg("%s: chosen %#x eligible %u panic %d", cases[i].name, chosen,
				eligible, panic);
		}
	}
}

TEST(backends_that_may_be_ejected) {
	static const struct {
		const char *name;
		uint32_t threshold;
		struct member members[4];
		uint32_t n;
		bool may; // whether the first backend may take flows
	} cases[] = {
		{"one of two backends", 50,
			{{READY, HEALTHY, 1, UNSET, 0}, {READY, HEALTHY, 1, UNSET, 0}}, 2, true},
		{"a single backend", 0, {{READY, HEALTHY, 1, UNSET, 0}}, 1, false},
		{"panic would follow", 51,
			{{READY, HEALTHY, 1, UNSET, 0}, {READY, HEALTHY, 1, UNSET, 0}}, 2, false},
		{"panic would follow, because another backend is refusing", 50,
			{{READY, HEALTHY, 1, UNSET, 0}, {READY, HEALTHY, 1, UNSET, 0},
				{READY, REFUSING, 1, UNSET, 0}},
			3, false},
		{"the other backends are drained, lame ducks or starting", 0,
			{{READY, HEALTHY, 1, UNSET, 0}, {DRAIN, HEALTHY, 1, UNSET, 0},
				{READY, LAME, 1, UNSET, 0}, {READY, STARTING, 1, UNSET, UNPROVEN}},
			4, false},
		{"the other backend has no next hop", 0,
			{{READY, HEALTHY, 1, UNSET, RESOLVED}, {READY, HEALTHY, 1, UNSET, 0}}, 2,
			false},
		{"the backend is already refusing", 0,
			{{READY, REFUSING, 1, UNSET, 0}, {READY, HEALTHY, 1, UNSET, 0}}, 2, false},
		{"the backend is already ejected", 0,
			{{READY, HEALTHY, 1, UNSET, EJECTED}, {READY, HEALTHY, 1, UNSET, 0}}, 2,
			false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct weir_config_service config;
		struct weir_state *found =
			decided(cases[i].members, cases[i].n, cases[i].threshold, &config);

		if (weir_eligible_may_eject(found, 0) != cases[i].may) {
			fail_msg("%s", cases[i].name);
		}
		weir_state_free(found);
	}
}

// Panic begins below the threshold, not at the threshold. The percentage is rounded down.
TEST(panic_threshold_table) {
	static const struct {
		uint32_t hosts, available, threshold;
		bool panic;
		uint32_t candidates;
	} cases[] = {
		{10, 10, 50, false, 10},
		{10, 6, 50, false, 6},
		{10, 5, 50, false, 5},
		{10, 4, 50, true, 10},
		{10, 0, 50, true, 10},
		{10, 0, 0, false, 0},
		{4, 1, 50, true, 4},
		{1, 0, 50, true, 1},
		{3, 1, 34, true, 3},
		{3, 1, 33, false, 1},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct member members[10];
		uint32_t eligible, chosen;
		bool panic;

		for (uint32_t m = 0; m < cases[i].hosts; m++) {
			members[m] = (struct member){
				READY, m < cases[i].available ? HEALTHY : REFUSING, 100, UNSET, 0};
		}
		chosen = decide(members, cases[i].hosts, cases[i].threshold, &panic, &eligible);
		assert_int_equal(panic, cases[i].panic);
		assert_int_equal(__builtin_popcount(chosen), cases[i].candidates);
		assert_int_equal(eligible, cases[i].available);
	}
}

// A run-time weight scales the reported weight down, but not to 0. A weight of 0 would remove the
// backend from service.
TEST(a_scaled_weight_is_at_least_1) {
	static const struct {
		uint32_t configured, runtime, reported, weight;
	} cases[] = {{1000, 1, 10, 1}, {1000, 1, 999, 1}, {1000, 1, 2000, 2}, {1000, 100, 10, 1},
		{1000, 0, 10, 0}, {1000, UNSET, 10, 10}, {1, 1000, UINT32_MAX, UINT32_MAX}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct member member = {
			READY, HEALTHY, cases[i].configured, cases[i].runtime, 0};
		struct weir_config_service config;
		struct weir_state *found = decided(&member, 1, 0, &config);
		struct weir_selection_member chosen[1];
		bool reported;

		config.policy.weights = WEIR_WEIGHTS_REPORTED;
		found->services[0].configured_policy = WEIR_POLICY_WEIGHTED_ROUND_ROBIN;
		found->backends[0].reported_weight = cases[i].reported;
		weir_eligible_decide(found, 0);
		assert_int_equal(
			weir_backend_effective_weight(found, &found->backends[0]), cases[i].weight);
		assert_int_equal(
			weir_eligible_members(found, 0, chosen, &reported), cases[i].weight > 0);
		weir_state_free(found);
	}
}
