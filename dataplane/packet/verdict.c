// SPDX-License-Identifier: BSD-3-Clause
#include "verdict.h"

#include <rte_common.h>

const char *weir_action_name(enum weir_action action) {
	static const char *const names[] = {
		[WEIR_ACTION_FORWARD] = "forward",
		[WEIR_ACTION_REPLY] = "reply",
		[WEIR_ACTION_KERNEL] = "kernel",
		[WEIR_ACTION_DROP] = "drop",
		[WEIR_ACTION_OFFER] = "offer",
	};

	return (unsigned int)action < RTE_DIM(names) ? names[action] : "unknown";
}

const char *weir_choice_name(enum weir_choice choice) {
	static const char *const names[] = {
		[WEIR_CHOICE_NONE] = "none",
		[WEIR_CHOICE_FLOW] = "flow",
		[WEIR_CHOICE_NEW] = "new",
		[WEIR_CHOICE_UNTRACKED] = "untracked",
		[WEIR_CHOICE_REPLACED] = "replaced",
	};

	return (unsigned int)choice < RTE_DIM(names) ? names[choice] : "unknown";
}
