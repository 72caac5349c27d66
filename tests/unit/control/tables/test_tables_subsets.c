// SPDX-License-Identifier: BSD-3-Clause
//
// subsets.c: which backends each client uses, and what happens when backends become unusable.
#include "subsets_lab.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TEST(subset_equals_that_of_the_algorithm) {
	static const enum weir_subset_algorithm algorithms[] = {
		WEIR_SUBSET_RANDOM, WEIR_SUBSET_DETERMINISTIC, WEIR_SUBSET_ROCKSTEADIER};

	for (size_t i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]); i++) {
		for (int client = 0; client < WEIR_SUBSET_CLIENT_WORKER; client++) {
			// With 12 backends the test shows that b10 comes after b9, and not after
			// b1.
			struct weir_config *config =
				subset_config(12, 5, (enum weir_subset_client)client);
			uint32_t index = client == WEIR_SUBSET_CLIENT_GROUP ? 2 : 2 * 3 + 1;
			struct lab lab;

			config->services[0].subset.algorithm = algorithms[i];
			config->services[0].subset.salt = 77;
			lab_open(&lab, NULL);
			lab_apply(&lab, config);
			assert_int_equal(
				subset_seen_by(&lab, 0), subset_expected(config, index, 12, 0));
			assert_int_equal(
				subset_seen_by(&lab, 1), subset_expected(config, index, 12, 0));
			lab_close(&lab);
			lab_config_free(config);
		}
	}
}

// All instances must select subsets from the same list. So the order of backends in the file does
// not matter.
TEST(order_of_the_file_does_not_matter) {
	struct weir_config *config = subset_config(12, 4, WEIR_SUBSET_CLIENT_GROUP);
	struct weir_config_service *service = &config->services[0];
	struct lab lab;

	for (uint32_t i = 0; i < 6; i++) {
		struct weir_config_backend swap = service->backends[i];

		service->backends[i] = service->backends[11 - i];
		service->backends[11 - i] = swap;
	}
	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	assert_int_equal(subset_seen_by(&lab, 0), subset_expected(config, 2, 12, 0));
	lab_close(&lab);
	lab_config_free(config);
}

TEST(unusable_members_are_replaced_and_return) {
	struct weir_config *config = subset_config(12, 4, WEIR_SUBSET_CLIENT_GROUP);
	uint64_t before, after;
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	before = subset_seen_by(&lab, 0);
	assert_int_equal(__builtin_popcountll(before), 4);
	for (int how = 0; how < 5; how++) {
		uint32_t lost = subset_first_of(before);
		char name[16];
		uint16_t id;

		snprintf(name, sizeof(name), "b%u", lost);
		id = lab_id(&lab, "s0", name);
		if (how < 2) {
			subset_set_health(&lab, lost,
				how == 0 ? WEIR_HEALTH_REFUSING : WEIR_HEALTH_LAME_DUCK);
		} else if (how < 4) {
			weir_tables_set_admin(lab.tables, id,
				how == 2 ? WEIR_ADMIN_DRAIN : WEIR_ADMIN_MAINTENANCE);
		} else {
			weir_tables_set_weight(lab.tables, id, 0);
		}
		weir_tables_publish(lab.tables);
		after = subset_seen_by(&lab, 0);
		assert_int_equal(after, subset_expected(config, 2, 12, 1ull << lost));
		// One backend replaces the unusable backend. The other members of the subset stay
		// the same (guarantees U2, U3).
		assert_int_equal(__builtin_popcountll(after), 4);
		assert_int_equal(__builtin_popcountll(after & before), 3);
		subset_set_health(&lab, lost, WEIR_HEALTH_HEALTHY);
		weir_tables_set_admin(lab.tables, id, WEIR_ADMIN_READY);
		weir_tables_set_weight(lab.tables, id, WEIR_WEIGHT_UNSET);
		weir_tables_publish(lab.tables);
		assert_int_equal(subset_seen_by(&lab, 0), before);
	}
	lab_close(&lab);
	lab_config_free(config);
}

TEST(changes_of_other_backends_have_no_effect) {
	struct weir_config *config = subset_config(12, 4, WEIR_SUBSET_CLIENT_GROUP);
	struct lab lab;
	uint64_t before;
	weir_ref ref;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	before = subset_seen_by(&lab, 0);
	ref = lab.segment->roots->selection[0];
	for (uint32_t i = 0; i < 12; i++) {
		if ((before >> i & 1) == 0) {
			subset_set_health(&lab, i, WEIR_HEALTH_REFUSING);
		}
	}
	assert_int_equal(subset_seen_by(&lab, 0), before);
	// the selection is not published again
	assert_int_equal(lab.segment->roots->selection[0], ref);
	lab_close(&lab);
	lab_config_free(config);
}

// If fewer backends are usable than the subset needs, all usable backends are used.
TEST(never_fewer_than_requested_while_there_are_more) {
	struct weir_config *config = subset_config(12, 5, WEIR_SUBSET_CLIENT_GROUP);
	uint64_t down = 0;
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	while (down != 0xfff) {
		uint64_t now = subset_seen_by(&lab, 0);
		int usable = 12 - __builtin_popcountll(down);
		uint32_t lost = subset_first_of(now);

		// "spread" makes some subsets larger than requested.
		assert_true(__builtin_popcountll(now) >= (usable < 5 ? usable : 5));
		assert_int_equal(now & down, 0);
		down |= 1ull << lost;
		subset_set_health(&lab, lost, WEIR_HEALTH_REFUSING);
	}
	assert_int_equal(subset_seen_by(&lab, 0), 0);
	lab_close(&lab);
	lab_config_free(config);
}

// Panic mode is determined for all backends of the service. Then the subset is selected from the
// backends that panic mode permits.
TEST(panic_is_determined_for_the_whole_list) {
	struct weir_config *config = subset_config(12, 4, WEIR_SUBSET_CLIENT_GROUP);
	struct weir_service_state found;
	uint64_t before;
	struct lab lab;

	config->services[0].panic_threshold_percent = 50;
	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	before = subset_seen_by(&lab, 0);
	// All members are unusable. But most backends of the service are usable, so there is no
	// panic.
	for (uint32_t i = 0; i < 12; i++) {
		if (before >> i & 1) {
			subset_set_health(&lab, i, WEIR_HEALTH_REFUSING);
		}
	}
	assert_int_equal(weir_tables_service(lab.tables, 0, &found), 0);
	assert_false(found.panic);
	assert_int_equal(found.eligible, 8);
	assert_int_equal(subset_seen_by(&lab, 0) & before, 0);
	assert_int_equal(subset_seen_by(&lab, 0), subset_expected(config, 2, 12, before));
	// Only 5 of 12 backends are healthy, which is below the threshold. Two of the refusing
	// members are used again. The other two members of the subset are healthy.
	for (uint32_t i = 0, more = 3; i < 12 && more > 0; i++) {
		if ((before >> i & 1) == 0) {
			subset_set_health(&lab, i, WEIR_HEALTH_REFUSING);
			more--;
		}
	}
	assert_int_equal(weir_tables_service(lab.tables, 0, &found), 0);
	assert_true(found.panic);
	assert_int_equal(__builtin_popcountll(subset_seen_by(&lab, 0) & before), 2);
	assert_int_equal(__builtin_popcountll(subset_seen_by(&lab, 0)), 4);
	lab_close(&lab);
	lab_config_free(config);
}

// In panic mode each subset contains a proportional number of the healthy backends, whichever
// backends the client prefers.
TEST(panic_gives_no_client_only_dead_backends) {
	struct weir_subset_member members[12];
	struct weir_subset_count counts[12];

	for (uint32_t healthy = 1; healthy < 12; healthy++) {
		struct weir_config *config = subset_config(12, 4, WEIR_SUBSET_CLIENT_GROUP);
		uint64_t up = 0, used[3];
		struct lab lab;

		config->services[0].panic_threshold_percent = 100;
		config->instance.clients = 3;
		lab_open(&lab, NULL);
		for (uint32_t client = 0; client < 3; client++) {
			uint32_t least = (4 * healthy + 11) / 12, n, away = 0, stand_ins = 0;
			uint64_t now, own, shown = 0;

			config->instance.client_id = client;
			lab_apply(&lab, config);
			own = subset_expected(config, client, 12, 0);
			for (uint32_t i = 0; i < 12; i++) {
				// The backends that the first client prefers fail first.
				bool down = client == 0
						    ? __builtin_popcountll(up) >= (int)healthy ||
							      (own >> i & 1) != 0
						    : (up >> i & 1) == 0;

				up |= down ? 0 : 1ull << i;
			}
			for (uint32_t i = 0; __builtin_popcountll(up) < (int)healthy; i++) {
				up |= 1ull << i;
			}
			for (uint32_t i = 0; i < 12; i++) {
				subset_set_health(&lab, i,
					up >> i & 1 ? WEIR_HEALTH_HEALTHY : WEIR_HEALTH_REFUSING);
			}
			now = subset_seen_by(&lab, 0);
			assert_int_equal(__builtin_popcountll(now), 4);
			assert_true(__builtin_popcountll(now & up) >= (int)least);
			// If the subset has more than `least` healthy backends, all its unhealthy
			// backends would also be members without panic mode.
			assert_true(__builtin_popcountll(now & up) == (int)least ||
				    (now & ~up & ~own) == 0);
			n = (uint32_t)weir_tables_subset_members(lab.tables, 0, 0, members);
			for (uint32_t i = 0; i < n; i++) {
				away += members[i].unusable;
				stand_ins += members[i].replaces != WEIR_BACKEND_NONE;
				shown |= members[i].unusable ? 0 : 1ull << members[i].backend;
				assert_true(!members[i].unusable ||
					    (up >> members[i].backend & 1) == 0);
			}
			assert_int_equal(shown, now);
			assert_int_equal(away, stand_ins);
			used[client] = now;
		}
		// The counts agree with the subsets of all clients.
		assert_int_equal(weir_tables_subset_counts(lab.tables, 0, counts), 12);
		for (uint32_t i = 0; i < 12; i++) {
			assert_int_equal(counts[i].clients,
				(used[0] >> i & 1) + (used[1] >> i & 1) + (used[2] >> i & 1));
		}
		lab_close(&lab);
		lab_config_free(config);
	}
}

// When the state of a backend changes, control updates the subset that it shows, even without a
// dataplane.
TEST(subset_is_computed_without_a_dataplane) {
	struct weir_config *config = subset_config(12, 4, WEIR_SUBSET_CLIENT_GROUP);
	struct weir_subset_member members[12];
	struct weir_tables *tables;
	char why[256];
	uint16_t lost;

	assert_int_equal(weir_tables_open(NULL, &tables), 0);
	assert_int_equal(weir_tables_apply(tables, config, why, sizeof(why)), 0);
	assert_int_equal(weir_tables_subset_members(tables, 0, 0, members), 4);
	assert_false(members[0].unusable);
	lost = members[0].backend;
	weir_tables_set_health(tables, lost, WEIR_HEALTH_REFUSING);
	assert_int_equal(weir_tables_publish(tables), 0);
	assert_int_equal(weir_tables_subset_members(tables, 0, 0, members), 5);
	assert_true(members[0].unusable);
	assert_int_equal(members[4].replaces, lost);
	weir_tables_free(tables);
	lab_config_free(config);
}

TEST(every_worker_has_its_own) {
	struct weir_config *config = subset_config(12, 4, WEIR_SUBSET_CLIENT_WORKER);
	uint64_t all = 0, before[LAB_WORKERS];
	uint32_t lost;
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	for (uint32_t worker = 0; worker < LAB_WORKERS; worker++) {
		// member 1 of 3 in group 2 is instance number 7
		uint32_t client = 7 * LAB_WORKERS + worker;

		before[worker] = subset_seen_by(&lab, worker);
		assert_int_equal(before[worker], subset_expected(config, client, 12, 0));
		all |= before[worker];
	}
	assert_true(before[0] != before[1]);
	for (uint16_t id = 0; id < 12; id++) {
		assert_int_equal(lab_state(&lab, id).in_selection, (all >> id & 1) != 0);
	}
	// A member of worker 0's subset fails and is replaced. The other worker's subset stays the
	// same.
	lost = subset_first_of(before[0] & ~before[1]);
	subset_set_health(&lab, lost, WEIR_HEALTH_REFUSING);
	assert_int_equal(__builtin_popcountll(subset_seen_by(&lab, 0) & before[0]), 3);
	assert_int_equal(__builtin_popcountll(subset_seen_by(&lab, 0)), 4);
	assert_int_equal(subset_seen_by(&lab, 1), before[1]);
	lab_close(&lab);
	lab_config_free(config);
}

// Each worker has a subset. The share of a backend is the sum of its shares in the subsets of all
// workers.
TEST(parts_are_those_of_all_workers) {
	static const enum weir_policy policies[] = {WEIR_POLICY_MAGLEV, WEIR_POLICY_ROUND_ROBIN,
		WEIR_POLICY_WEIGHTED_ROUND_ROBIN, WEIR_POLICY_INTERLEAVED_WEIGHTED_ROUND_ROBIN};

	for (size_t p = 0; p < sizeof(policies) / sizeof(policies[0]); p++) {
		struct weir_config *config = subset_config(12, 4, WEIR_SUBSET_CLIENT_WORKER);
		struct weir_service_state service;
		uint64_t sum = 0;
		struct lab lab;

		config->services[0].policy.name = policies[p];
		// This backend has a higher weight. It must reduce only the shares of backends in
		// the same worker's subset.
		config->services[0].backends[0].weight = 200;
		lab_open(&lab, NULL);
		lab_apply(&lab, config);
		assert_int_equal(weir_tables_service(lab.tables, 0, &service), 0);
		assert_int_equal(service.slots,
			policies[p] == WEIR_POLICY_MAGLEV ? LAB_WORKERS * LAB_TABLE_SIZE : 0);
		for (uint16_t id = 0; id < 12; id++) {
			uint64_t parts = weir_tables_backend_parts(lab.tables, id);
			uint32_t workers = 0;

			for (uint32_t worker = 0; worker < LAB_WORKERS; worker++) {
				workers += (subset_seen_by(&lab, worker) >> id & 1) != 0;
			}
			assert_int_equal(parts > 0, workers > 0);
			if (workers > 0 && policies[p] == WEIR_POLICY_ROUND_ROBIN) {
				assert_in_range(100 * parts / service.parts,
					100 * workers / (4 * LAB_WORKERS) - 1,
					100 * workers / (4 * LAB_WORKERS) + 1);
			}
			sum += parts;
		}
		assert_int_equal(sum, service.parts);
		lab_close(&lab);
		lab_config_free(config);
	}
}

TEST(state_shows_members_and_replacements) {
	struct weir_config *config = subset_config(12, 4, WEIR_SUBSET_CLIENT_INSTANCE);
	struct weir_subset_member members[12], before[12];
	struct weir_subset_count counts[12];
	struct weir_subset_state subset;
	uint32_t sum = 0;
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	assert_int_equal(weir_tables_subset(lab.tables, 0, &subset), 0);
	assert_false(subset.off);
	assert_int_equal(subset.client, WEIR_SUBSET_CLIENT_INSTANCE);
	assert_int_equal(subset.subsets, 1);
	assert_int_equal(subset.clients, 12);
	assert_int_equal(subset.backends, 12);
	assert_int_equal(subset.params.client, 7);
	assert_int_equal(weir_tables_subset_members(lab.tables, 0, 0, before), 4);
	for (uint32_t i = 0; i < 4; i++) {
		assert_false(before[i].unusable);
		assert_int_equal(before[i].replaces, WEIR_BACKEND_NONE);
	}
	subset_set_health(&lab, before[1].backend, WEIR_HEALTH_REFUSING);
	subset_set_health(&lab, before[3].backend, WEIR_HEALTH_REFUSING);
	assert_int_equal(weir_tables_subset_members(lab.tables, 0, 0, members), 6);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(members[i].backend, before[i].backend);
		assert_int_equal(members[i].unusable, i == 1 || i == 3);
	}
	for (uint32_t i = 4; i < 6; i++) {
		assert_int_equal(members[i].replaces, before[i == 4 ? 1 : 3].backend);
		assert_false(members[i].unusable);
		assert_true(lab_state(&lab, members[i].backend).in_selection);
	}
	assert_int_equal(weir_tables_subset_counts(lab.tables, 0, counts), 12);
	for (uint32_t i = 0; i < 12; i++) {
		char name[16];

		snprintf(name, sizeof(name), "b%u", i);
		assert_string_equal(weir_tables_backend_name(lab.tables, counts[i].backend), name);
		assert_int_equal(
			counts[i].usable, i != members[1].backend && i != members[3].backend);
		assert_int_equal(counts[i].clients > 0, counts[i].usable);
		sum += counts[i].clients;
	}
	assert_int_equal(sum, 12 * 4); // 12 clients with 4 backends each
	assert_int_equal(weir_tables_subset(lab.tables, 1, &subset), -ENOENT);
	assert_int_equal(weir_tables_subset_members(lab.tables, 1, 0, members), -ENOENT);
	assert_int_equal(weir_tables_subset_counts(lab.tables, 1, counts), -ENOENT);
	lab_close(&lab);
	lab_config_free(config);
}

// A backend is far from use unless it is a member (usable or not), replaces a member, or is one of
// a few spare backends.
TEST(backends_that_are_far_from_use) {
	struct weir_config *config = subset_config(40, 4, WEIR_SUBSET_CLIENT_GROUP);
	struct weir_config *off = lab_config(1, 40);
	uint64_t before, near = 0;
	uint32_t lost;
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	before = subset_seen_by(&lab, 0);
	for (uint16_t id = 0; id < 40; id++) {
		near |= (uint64_t)!weir_tables_backend_is_far(lab.tables, id) << id;
	}
	assert_int_equal(near & before, before);
	assert_int_equal(__builtin_popcountll(near), 4 + WEIR_SUBSET_SPARES_LEAST);
	lost = subset_first_of(before);
	subset_set_health(&lab, lost, WEIR_HEALTH_REFUSING);
	assert_false(weir_tables_backend_is_far(lab.tables, (uint16_t)lost));
	assert_int_equal(subset_seen_by(&lab, 0) & ~near, 0); // a spare replaces the member
	near = 0;
	for (uint16_t id = 0; id < 40; id++) {
		near |= (uint64_t)!weir_tables_backend_is_far(lab.tables, id) << id;
	}
	assert_int_equal(__builtin_popcountll(near), 4 + WEIR_SUBSET_SPARES_LEAST + 1);
	lab_apply(&lab, off);
	for (uint16_t id = 0; id < 40; id++) {
		assert_false(weir_tables_backend_is_far(lab.tables, id));
	}
	assert_false(weir_tables_backend_is_far(lab.tables, WEIR_BACKEND_NONE));
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(off);
}

// There is only one subset, which contains all backends, if the algorithm is "none", or if the
// service has no more backends than the size of a subset.
TEST(off_is_one_subset_of_all) {
	for (int how = 0; how < 2; how++) {
		struct weir_config *config =
			subset_config(6, how == 0 ? 6 : 2, WEIR_SUBSET_CLIENT_WORKER);
		struct weir_subset_member members[6];
		struct weir_subset_state subset;
		uint32_t seen = 0;
		struct lab lab;

		if (how == 1) {
			config->services[0].subset.algorithm = WEIR_SUBSET_NONE;
		}
		lab_open(&lab, NULL);
		lab_apply(&lab, config);
		assert_int_equal(subset_seen_by(&lab, 0), 0x3f);
		assert_int_equal(subset_seen_by(&lab, 1), 0x3f);
		assert_int_equal(weir_tables_subset(lab.tables, 0, &subset), 0);
		assert_true(subset.off);
		assert_int_equal(subset.subsets, 1);
		assert_int_equal(weir_tables_subset_members(lab.tables, 0, 0, members), 6);
		for (uint32_t i = 0; i < 6; i++) {
			seen |= 1u << members[i].backend;
		}
		assert_int_equal(seen, 0x3f);
		lab_close(&lab);
		lab_config_free(config);
	}
}
