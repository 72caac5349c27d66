// SPDX-License-Identifier: BSD-3-Clause
#include "memory.h"
#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB (1ull << 20)

static struct weir_plan plan_of(uint64_t flow_mib, uint64_t buffer_mib) {
	return (struct weir_plan){.flow_bytes = flow_mib * MIB,
		.buffer_bytes = buffer_mib * MIB,
		.total_bytes = (flow_mib + buffer_mib) * MIB};
}

TEST(huge_pages_are_used_when_enough_are_free) {
	struct weir_plan plan = plan_of(40, 20);
	struct weir_memory_facts facts = {
		.page_bytes = 2 * MIB, .huge_free_bytes = 76 * MIB, .available_bytes = 0};
	struct weir_memory memory;
	char why[512];

	assert_int_equal(weir_memory_choose(&plan, &facts, &memory, why, sizeof(why)), 0);
	assert_true(memory.huge_pages);
	assert_int_equal(memory.bytes, 60 * MIB);
	assert_string_equal(why, "");
}

TEST(ordinary_pages_give_a_warning_with_a_remedy) {
	struct weir_plan plan = plan_of(40, 20);
	struct weir_memory_facts facts = {
		.page_bytes = 2 * MIB, .huge_free_bytes = 74 * MIB, .available_bytes = 60 * MIB};
	struct weir_memory memory;
	char why[512];

	assert_int_equal(weir_memory_choose(&plan, &facts, &memory, why, sizeof(why)), 0);
	assert_false(memory.huge_pages);
	assert_non_null(strstr(why, "76 MiB needed, 74 MiB free"));
	assert_non_null(strstr(why, "vm.nr_hugepages=38"));
}

TEST(too_little_memory_names_need_and_key) {
	struct weir_plan plan = plan_of(40, 20);
	struct weir_memory_facts facts = {.available_bytes = 59 * MIB};
	struct weir_memory memory = {.bytes = 1};
	char why[512];

	assert_int_equal(weir_memory_choose(&plan, &facts, &memory, why, sizeof(why)), -ENOMEM);
	assert_non_null(strstr(why, "60 MiB needed"));
	assert_non_null(strstr(why, "59 MiB available"));
	assert_non_null(strstr(why, "lower flow_table.flows_per_worker"));
	assert_null(strstr(why, "workers.cores"));
	assert_int_equal(memory.bytes, 1);
	plan = plan_of(20, 40);
	assert_int_equal(weir_memory_choose(&plan, &facts, &memory, why, sizeof(why)), -ENOMEM);
	assert_non_null(strstr(why, "workers.cores"));
}

TEST(values_are_those_of_this_machine) {
	struct weir_memory_facts facts = {0};

	assert_int_equal(weir_memory_facts(&facts), 0);
	assert_true(facts.available_bytes > 16 * MIB);
	assert_true(facts.huge_free_bytes == 0 || facts.huge_free_bytes % facts.page_bytes == 0);
}
