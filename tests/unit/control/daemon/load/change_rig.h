// SPDX-License-Identifier: BSD-3-Clause
//
// A rig for changes by a reload: the configuration in use and the new configuration. Both have two
// services, s0 and s1, with three backends each.
#pragma once

#include <netinet/in.h>
#include <stdlib.h>

#include "config_difference.h"
#include "tables_lab.h"

struct rig {
	struct lab lab;
	struct weir_config *from, *to; // equal at first; `from` is in use
	struct weir_difference difference;
};

static inline struct rig *change_rig_open(void) {
	struct rig *rig = calloc(1, sizeof(*rig));

	lab_open(&rig->lab, &(struct lab_room){0});
	rig->from = lab_config(2, 3);
	rig->from->services[1].binds[0].protocol = IPPROTO_UDP;
	rig->to = lab_config_copy(rig->from);
	lab_apply(&rig->lab, rig->from);
	return rig;
}

// Clean-up function for TEST_EACH.
static inline int change_rig_close(void **state) {
	struct rig *rig = *state;

	weir_difference_fini(&rig->difference);
	lab_config_free(rig->to);
	lab_close(&rig->lab);
	lab_config_free(rig->from);
	free(rig);
	return 0;
}
