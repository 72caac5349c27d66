// SPDX-License-Identifier: BSD-3-Clause
#include "api_affinity.h"

#include <errno.h>

#include "api_audit.h"

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

int weir_api_find_affinity(struct weir_daemon *daemon, struct weir_api_call *call, bool deletes,
	struct weir_service_state *ret_state) {
	const int id = weir_api_find_service(daemon, call);
	enum weir_api_affinity affinity;

	if (id < 0) {
		return id;
	}
	affinity = weir_api_affinity_of(daemon->tables, (uint16_t)id, ret_state);
	if (affinity == WEIR_API_AFFINITY_NONE) {
		weir_api_fail(call, WEIR_API_REFUSED,
			"service \"%.100s\" has no affinity: a backend is selected for each flow",
			weir_api_text(call, "service"));
		return -ENOENT;
	}
	if (deletes && affinity == WEIR_API_AFFINITY_HASH) {
		weir_api_affinity_by_hash(daemon, call, (uint16_t)id);
		return -ENOENT;
	}
	return id;
}

void weir_api_affinity_by_hash(
	const struct weir_daemon *daemon, struct weir_api_call *call, uint16_t service) {
	struct weir_service_state state;
	const bool is_maglev =
		weir_api_affinity_of(daemon->tables, service, &state) == WEIR_API_AFFINITY_HASH;

	weir_api_fail(call, WEIR_API_REFUSED,
		"service \"%.100s\" has %s: the hash of a client's address selects its backend, "
		"and nothing is remembered",
		weir_api_text(call, "service"),
		is_maglev ? "the policy maglev"
			  : "no affinity table, because flow_table.affinity_sources is 0");
}

void weir_api_answer_forgotten(struct weir_api_call *call, uint64_t clients, bool incomplete,
	const char *backend, const char *client) {
	weir_api_audit_removed(call, clients, "client", "forgotten");
	weir_api_answer(call,
		json_pack("{s:I, s:b, s:s, s:s?, s:s?}", "forgotten", (json_int_t)clients,
			"incomplete", (int)incomplete, "service", weir_api_text(call, "service"),
			"backend", backend, "client", client));
}
