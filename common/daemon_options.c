// SPDX-License-Identifier: BSD-3-Clause
#include "daemon_options.h"

const struct weir_option_word weir_log_level_words[] = {
#define X(name, key, priority) {key, WEIR_LOG_##name, NULL},
	WEIR_LOG_LEVELS(X)
#undef X
		{NULL, 0, NULL},
};

const struct weir_option_word weir_log_format_words[] = {
#define X(name, key, text) {key, WEIR_LOG_FORMAT_##name, text},
	WEIR_LOG_FORMATS(X)
#undef X
		{NULL, 0, NULL},
};
