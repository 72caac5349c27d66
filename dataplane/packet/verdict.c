// SPDX-License-Identifier: BSD-3-Clause
#include "verdict.h"

#include <rte_common.h>

const char *weir_action_name(enum weir_action action) {
	static const char *const names[] = {
#define X(name, key) [WEIR_ACTION_##name] = key,
		WEIR_ACTIONS(X)
#undef X
	};

	return (unsigned int)action < RTE_DIM(names) ? names[action] : "unknown";
}

const char *weir_choice_name(enum weir_choice choice) {
	static const char *const names[] = {
#define X(name, key) [WEIR_CHOICE_##name] = key,
		WEIR_CHOICES(X)
#undef X
	};

	return (unsigned int)choice < RTE_DIM(names) ? names[choice] : "unknown";
}
