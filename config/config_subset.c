// SPDX-License-Identifier: BSD-3-Clause
//
// The settings of a subset: their names, and what belongs together.
#include "config_keys.h"

// clang-format off
const struct weir_json_choice weir_config_subset_algorithms[] = {
#define X(name, key) {key, WEIR_SUBSET_##name},
	WEIR_SUBSET_ALGORITHMS(X)
#undef X
	{0}};
const struct weir_json_choice weir_config_subset_modes[] = {
#define X(name, key) {key, WEIR_SUBSET_MODE_##name},
	WEIR_SUBSET_MODES(X)
#undef X
	{0}};
const struct weir_json_choice weir_config_subset_clients[] = {
#define X(name, key) {key, WEIR_SUBSET_CLIENT_##name},
	WEIR_SUBSET_CLIENTS(X)
#undef X
	{0}};
// clang-format on

// With "none" the other keys may stay: it is how subsetting is switched off for a while.
void weir_config_check_subset(struct weir_json_reader *reader, const struct weir_json_place *place,
	void *into, const struct weir_json_keys_read *read) {
	const struct weir_config_subset *subset = into;

	if (!weir_json_valid(read, "algorithm") || subset->algorithm == WEIR_SUBSET_NONE) {
		return;
	}
	if (!weir_json_present(read, "size")) {
		weir_json_error(reader, place,
			"algorithm \"%s\" needs \"size\": how many backends a subset has, such as "
			"20",
			weir_subset_name(subset->algorithm));
	}
	if (weir_json_present(read, "mode") && subset->algorithm != WEIR_SUBSET_DETERMINISTIC) {
		weir_json_error_at(reader, place, "mode",
			"is not used by algorithm \"%s\"; remove it, or use deterministic",
			weir_subset_name(subset->algorithm));
	}
}
