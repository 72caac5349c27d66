// SPDX-License-Identifier: BSD-3-Clause
//
// Settings lab, for tests: the settings of services, as control reports them and as a worker reads
// them.
#pragma once

#include "tables.h"
#include "tables_lab.h"

static inline struct weir_service_state service_of(const struct lab *lab, uint16_t id) {
	struct weir_service_state state;

	assert_int_equal(weir_tables_service(lab->tables, id, &state), 0);
	return state;
}

static inline struct weir_policy_table published(struct lab *lab, uint16_t service) {
	return lab_selection(lab, service)->table;
}
