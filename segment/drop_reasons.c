// SPDX-License-Identifier: BSD-3-Clause
#include "drop_reasons.h"

static const struct {
	const char *name;
	const char *text;
} reasons[] = {
#define X(name, key, text) {key, text},
	WEIR_DROP_REASONS(X)
#undef X
};

const char *weir_drop_reason_name(enum weir_drop_reason reason) {
	return (unsigned int)reason < WEIR_DROP_REASON_COUNT ? reasons[reason].name : "unknown";
}

const char *weir_drop_reason_text(enum weir_drop_reason reason) {
	return (unsigned int)reason < WEIR_DROP_REASON_COUNT ? reasons[reason].text
							     : "unknown drop reason";
}
