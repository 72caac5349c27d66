// SPDX-License-Identifier: BSD-3-Clause
#include "subsets_lab.h"

#include <stdio.h>
#include <stdlib.h>

struct weir_config *subset_config(uint32_t n, uint32_t size, enum weir_subset_client client) {
	struct weir_config *config = lab_config(1, n);

	config->instance.client_id = 2;
	config->instance.clients = 4;
	config->instance.member = 1;
	config->instance.members = 3;
	config->services[0].panic_threshold_percent = 0;
	config->services[0].subset = (struct weir_config_subset){
		.algorithm = WEIR_SUBSET_DETERMINISTIC, .size = size, .client = client};
	return config;
}

uint64_t subset_seen_by(struct lab *lab, uint32_t worker) {
	struct weir_policy_table table = lab_table_of(lab, 0, worker);
	uint64_t bits = 0, reached = 0;

	for (uint32_t i = 0; i < table.count; i++) {
		bits |= 1ull << strtoul(
				weir_tables_backend_name(lab->tables, table.candidates[i].id) + 1,
				NULL, 10);
	}
	for (uint32_t i = 0; i < table.slot_count; i++) {
		uint16_t id = table.candidates[table.slots[i]].id;

		reached |= 1ull << strtoul(weir_tables_backend_name(lab->tables, id) + 1, NULL, 10);
	}
	assert_int_equal(reached, bits);
	return bits;
}

uint64_t subset_expected(
	const struct weir_config *config, uint32_t client, uint32_t n, uint64_t down) {
	const struct weir_config_subset *subset = &config->services[0].subset;
	struct weir_subset_params params = {.algorithm = subset->algorithm,
		.mode = subset->mode,
		.size = subset->size,
		.salt = subset->salt,
		.client = client};
	uint32_t chosen[BACKENDS_MAX], scratch[4 * BACKENDS_MAX], count;
	uint8_t usable[BACKENDS_MAX];
	uint64_t bits = 0;

	assert_true(weir_subset_scratch_count(n) <= 4 * BACKENDS_MAX);
	for (uint32_t i = 0; i < n; i++) {
		usable[i] = (down >> i & 1) == 0;
	}
	count = weir_subset_choose(&params, usable, n, chosen, scratch);
	for (uint32_t i = 0; i < count; i++) {
		bits |= 1ull << chosen[i];
	}
	return bits;
}

void subset_set_health(struct lab *lab, uint32_t backend, enum weir_health_state health) {
	char name[16];

	snprintf(name, sizeof(name), "b%u", backend);
	assert_int_equal(weir_tables_set_health(lab->tables, lab_id(lab, "s0", name), health), 0);
	assert_true(weir_tables_publish(lab->tables) >= 0);
}

uint32_t subset_first_of(uint64_t bits) {
	assert_true(bits != 0);
	return (uint32_t)__builtin_ctzll(bits);
}
