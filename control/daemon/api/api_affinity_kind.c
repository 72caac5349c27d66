// SPDX-License-Identifier: BSD-3-Clause
#include "api_affinity.h"

enum weir_api_affinity weir_api_affinity_of(
	const struct weir_tables *tables, uint16_t service, struct weir_service_state *ret_state) {
	const char *name = weir_tables_service_name(tables, service);
	const struct weir_config_service *config =
		name != NULL ? weir_tables_service_config(tables, name) : NULL;

	*ret_state = (struct weir_service_state){.id = service};
	if (weir_tables_service(tables, service, ret_state) < 0 || config == NULL ||
		config->affinity.name != WEIR_AFFINITY_SOURCE) {
		return WEIR_API_AFFINITY_NONE;
	}
	return (ret_state->settings.hash4 & WEIR_HASH_AFFINITY) != 0 ? WEIR_API_AFFINITY_TABLE
								     : WEIR_API_AFFINITY_HASH;
}

void weir_api_no_affinity(
	const struct weir_daemon *daemon, struct weir_api_call *call, uint16_t service) {
	weir_api_fail(call, WEIR_API_REFUSED,
		"service \"%.100s\" has no affinity: a backend is selected for each flow",
		weir_tables_service_name(daemon->tables, service));
}

void weir_api_affinity_by_hash(
	const struct weir_daemon *daemon, struct weir_api_call *call, uint16_t service) {
	struct weir_service_state state;
	const bool is_maglev =
		weir_api_affinity_of(daemon->tables, service, &state) == WEIR_API_AFFINITY_HASH;

	weir_api_fail(call, WEIR_API_REFUSED,
		"service \"%.100s\" has %s: the hash of a client's address selects its backend, "
		"and "
		"nothing is remembered",
		weir_api_text(call, "service"),
		is_maglev ? "the policy maglev"
			  : "no affinity table, because flow_table.affinity_sources is 0");
}
