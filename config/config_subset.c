// SPDX-License-Identifier: BSD-3-Clause
//
// Checks the dependencies between the keys of a subset.
#include "config_keys.h"

// With algorithm "none", the other keys are allowed, because a user may disable subsetting
// temporarily.
void weir_config_check_subset(struct weir_json_reader *reader, const struct weir_json_place *place,
	void *into, const struct weir_json_keys_read *read) {
	const struct weir_config_subset *subset = into;

	if (!weir_json_valid(read, "algorithm") || subset->algorithm == WEIR_SUBSET_NONE) {
		return;
	}
	if (!weir_json_present(read, "size")) {
		weir_json_error(reader, place,
			"algorithm \"%s\" needs \"size\": the number of backends in a subset, such "
			"as 20",
			weir_subset_name(subset->algorithm));
	}
	if (weir_json_present(read, "mode") && subset->algorithm != WEIR_SUBSET_DETERMINISTIC) {
		weir_json_error_at(reader, place, "mode",
			"is not used by algorithm \"%s\"; remove it, or use deterministic",
			weir_subset_name(subset->algorithm));
	}
}
