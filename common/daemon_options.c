// SPDX-License-Identifier: BSD-3-Clause
#include "daemon_options.h"

const struct weir_option_word weir_log_level_words[] = {
#define X(name, key) {key, WEIR_LOG_##name, NULL},
	WEIR_LOG_LEVELS(X)
#undef X
		{NULL, 0, NULL},
};
