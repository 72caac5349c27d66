// SPDX-License-Identifier: BSD-3-Clause
#include "change_costs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "duration.h"
#include "older_flows.h"
#include "totals.h"

#define TEXT_BYTES 200
#define FLOWS_BYTES 64

// The names in a change: "web" and "web-1" in "service web backend web-1 weight"; "" = the change
// has no such name.
struct names {
	char service[WEIR_CONFIG_NAME_BYTES];
	char backend[WEIR_CONFIG_NAME_BYTES];
};

static struct names names_of(const struct weir_change *change) {
	struct names names = {0};

	(void)sscanf(change->what, "service %63s backend %63s", names.service, names.backend);
	return names;
}

static bool is(const struct weir_change *change, enum weir_change_kind kind, const char *key) {
	return change->kind == kind && strcmp(change->key, key) == 0;
}

// Finds services by name. A search begins at the service that the last search found, because
// changes are in the order of the services in both configurations.
struct finder {
	const struct weir_config *config;
	uint32_t next;
};

static const struct weir_config_service *find(struct finder *finder, const char *name) {
	const uint32_t count = finder->config->service_count;

	for (uint32_t i = 0; i < count; i++) {
		const uint32_t at = (finder->next + i) % count;

		if (strcmp(finder->config->services[at].name, name) == 0) {
			finder->next = at;
			return &finder->config->services[at];
		}
	}
	return NULL;
}

struct costs {
	const struct weir_change_costs_of *of;
	struct finder from, to;
	bool recount; // not all flows are counted yet
};

// Returns whether the service can have flows of a protocol.
static bool has_flows(const struct weir_config_service *service, uint8_t protocol) {
	if (protocol == IPPROTO_UDP && service->udp == WEIR_CONFIG_UDP_DATAGRAM) {
		return false;
	}
	for (uint32_t i = 0; i < service->bind_count; i++) {
		if (service->binds[i].protocol == protocol) {
			return true;
		}
	}
	return false;
}

// Writes a number of flows as text, such as "1 open flow". most: true = as an upper limit, such as
// "up to 3 open flows". recount: true = not all are counted yet: "3 open flows counted so far".
// Returns text.
static const char *flows_text(uint64_t flows, bool most, bool recount, char text[FLOWS_BYTES]) {
	snprintf(text, FLOWS_BYTES, "%s%" PRIu64 " open flow%s%s", most && !recount ? "up to " : "",
		flows, flows == 1 ? "" : "s", recount ? " counted so far" : "");
	return text;
}

static int set(struct weir_change *change, enum weir_change_effect effect, uint64_t flows,
	const char *text) {
	char *copy = strdup(text);

	if (copy == NULL) {
		return -ENOMEM;
	}
	free(change->cost.text);
	change->cost = (struct weir_change_cost){.effect = effect, .flows = flows, .text = copy};
	return 0;
}

// --- removals -----------------------------------------------------------------------------

struct removal {
	enum weir_config_on_backend_down down; // what happens to the TCP flows of a removed backend
	bool tcp, udp; // the service has flows of this protocol
	bool whole; // the service as a whole is removed
	// Time for which TCP flows drain before they are moved or reset; 0 = no drain.
	uint32_t removed_ms;
	bool udp_ends; // UDP flows end; false = they move to another backend
	bool of_service; // `flows` is an upper limit, because it counts all flows of the service
	bool of_down; // `flows` counts the flows of all backends that are down
	bool recount; // more flows may be open than are counted in `flows`
	uint64_t flows;
};

// Returns the effect of a removal on TCP flows, and writes it to text.
static enum weir_change_effect tcp_effect(const struct removal *removal, char text[TEXT_BYTES]) {
	enum weir_change_effect effect = WEIR_CHANGE_STAY;
	const char *what = "stay until they end";
	char time[WEIR_DURATION_BYTES];

	switch (removal->down) {
	case WEIR_ON_BACKEND_DOWN_REHASH:
		what = removal->whole ? "move to the service that then has their address, or stay "
					"if no service has it"
				      : "move to another backend, which resets them";
		effect = WEIR_CHANGE_MOVE;
		break;
	case WEIR_ON_BACKEND_DOWN_RESET:
		what = "are reset";
		effect = WEIR_CHANGE_BREAK;
		break;
	case WEIR_ON_BACKEND_DOWN_KEEP:
		break;
	}
	if (removal->removed_ms > 0 && effect != WEIR_CHANGE_STAY) {
		snprintf(text, TEXT_BYTES, "TCP flows drain for %s, then %s",
			weir_duration_text(removal->removed_ms, time), what);
	} else {
		snprintf(text, TEXT_BYTES, "TCP flows %s", what);
	}
	return effect;
}

static int set_removal(struct weir_change *change, const struct removal *removal) {
	const enum weir_change_effect udp =
		removal->udp_ends ? WEIR_CHANGE_BREAK : WEIR_CHANGE_MOVE;
	char text[3 * TEXT_BYTES], tcp_text[TEXT_BYTES], flows[FLOWS_BYTES];
	enum weir_change_effect effect = tcp_effect(removal, tcp_text);

	if (removal->flows == 0 && !removal->recount) {
		return set(change, WEIR_CHANGE_NONE, 0,
			removal->of_down ? "no open flows of backends that are down or removed"
					 : "no open flows");
	}
	if (removal->udp) {
		effect = udp > effect || !removal->tcp ? udp : effect;
	}
	snprintf(text, sizeof(text), "%s%s: %s%s%s",
		flows_text(removal->flows, removal->of_service, removal->recount, flows),
		removal->of_service ? " of all binds of the service"
		: removal->of_down  ? " of backends that are down or removed"
				    : "",
		removal->tcp ? tcp_text : "", removal->tcp && removal->udp ? ", " : "",
		!removal->udp       ? ""
		: removal->udp_ends ? "UDP flows end: the next datagram goes to the service that "
				      "then has its address and port; if no service has them, "
				      "closed_ports applies; if no bind has the address, the "
				      "kernel gets the datagram"
				    : "UDP flows move to another backend at their next datagram");
	return set(change, effect, removal->flows, text);
}

// Sets the cost of removing a backend, or of changing its address.
static int cost_backend(
	struct costs *costs, struct weir_change *change, const struct names *names) {
	const struct weir_change_costs_of *of = costs->of;
	const struct weir_config_service *from = find(&costs->from, names->service);
	const struct weir_config_service *to = find(&costs->to, names->service);
	int id = weir_tables_backend_find(of->tables, names->service, names->backend);

	if (from == NULL || to == NULL || id < 0) {
		return 0;
	}
	return set_removal(
		change, &(struct removal){.down = to->on_backend_down,
				.tcp = has_flows(from, IPPROTO_TCP),
				.udp = has_flows(from, IPPROTO_UDP),
				.recount = costs->recount,
				.flows = weir_sum_backend(of->segment, (uint32_t)id).open_flows});
}

// Returns whether on_backend_down applies to a backend: the backend is not in the selection, and is
// down, in maintenance, or removed.
static bool is_down(const struct weir_backend_state *backend) {
	return !backend->in_selection &&
	       (backend->leaving || backend->admin == WEIR_ADMIN_MAINTENANCE ||
		       backend->health == WEIR_HEALTH_REFUSING);
}

// Returns the number of open flows on removed backends that the new configuration contains again.
static uint64_t returning_flows(const struct weir_change_costs_of *of, uint16_t service,
	const struct weir_config_service *to) {
	uint64_t flows = 0;

	for (uint32_t i = 0; i < to->backend_count; i++) {
		int id = weir_tables_backend_find_removed(of->tables, service, &to->backends[i]);

		flows += id >= 0 ? weir_sum_backend(of->segment, (uint32_t)id).open_flows : 0;
	}
	return flows;
}

// Sets the cost of a change of on_backend_down. The new value also applies to the flows of backends
// that are already down.
static int cost_down(struct costs *costs, struct weir_change *change, const struct names *names) {
	const struct weir_change_costs_of *of = costs->of;
	const struct weir_config_service *to = find(&costs->to, names->service);
	int service = weir_tables_service_find(of->tables, names->service);
	struct removal removal = {.of_down = true};
	struct weir_backend_state backend;
	uint64_t stay;

	if (to == NULL || service < 0 || !has_flows(to, IPPROTO_TCP)) {
		return 0;
	}
	for (uint32_t id = 0; id < weir_tables_backend_ids(of->tables); id++) {
		if (weir_tables_backend_service(of->tables, (uint16_t)id) == service &&
			weir_tables_backend(of->tables, (uint16_t)id, &backend) == 0 &&
			is_down(&backend)) {
			removal.flows += weir_sum_backend(of->segment, id).open_flows;
			removal.recount = costs->recount;
		}
	}
	stay = returning_flows(of, (uint16_t)service, to);
	// `stay` and removal.flows are not read at the same time, so `stay` can be larger
	removal.flows -= stay < removal.flows ? stay : removal.flows;
	removal.down = to->on_backend_down;
	removal.tcp = true;
	return set_removal(change, &removal);
}

// Sets the cost of a change of "udp". If the new value is "datagram", the UDP flows of the service
// end at their next datagram.
static int cost_udp(struct costs *costs, struct weir_change *change, const struct names *names) {
	const struct weir_change_costs_of *of = costs->of;
	const struct weir_config_service *from = find(&costs->from, names->service);
	int id = weir_tables_service_find(of->tables, names->service);
	uint64_t flows;
	char text[TEXT_BYTES], number[FLOWS_BYTES];
	bool most;

	if (from == NULL || id < 0 || !has_flows(from, IPPROTO_UDP)) {
		return 0;
	}
	flows = weir_sum_service(of->segment, (uint32_t)id).open_flows;
	if (flows == 0 && !costs->recount) {
		return set(change, WEIR_CHANGE_NONE, 0, "no open flows");
	}
	most = has_flows(from, IPPROTO_TCP);
	snprintf(text, sizeof(text), "%s%s: UDP flows end at their next datagram%s",
		flows_text(flows, most, costs->recount, number),
		most ? " of all binds of the service" : "", most ? ", TCP flows stay" : "");
	return set(change, WEIR_CHANGE_MOVE, flows, text);
}

static int cost_service(
	struct costs *costs, struct weir_change *change, const struct names *names) {
	const struct weir_change_costs_of *of = costs->of;
	const struct weir_config_service *from = find(&costs->from, names->service);
	int id = weir_tables_service_find(of->tables, names->service);

	if (from == NULL || id < 0) {
		return 0;
	}
	return set_removal(
		change, &(struct removal){.down = from->on_backend_down,
				.tcp = has_flows(from, IPPROTO_TCP),
				.udp = has_flows(from, IPPROTO_UDP),
				.whole = true,
				.removed_ms = from->drain.removed_ms,
				.udp_ends = true,
				.recount = costs->recount,
				.flows = weir_sum_service(of->segment, (uint32_t)id).open_flows});
}

// Returns whether any service has this bind. bind: text such as "tcp 198.51.100.10:80".
static bool has_bind(const struct weir_config *config, const char *bind) {
	char text[WEIR_BIND_TEXT_BYTES];

	for (uint32_t i = 0; i < config->service_count; i++) {
		const struct weir_config_service *service = &config->services[i];

		for (uint32_t j = 0; j < service->bind_count; j++) {
			weir_bind_format(&service->binds[j], text, sizeof(text));
			if (strcmp(text, bind) == 0) {
				return true;
			}
		}
	}
	return false;
}

// Sets the cost of removing a bind. Flows are not counted per bind, so the number of flows of the
// service is an upper limit if the service has, or may have had, another bind. The TCP flows of the
// bind continue, because the backends stay in the configuration, except in one case: they are reset
// after the drain if removed binds are drained, on_backend_down is reset, and no service has this
// bind.
static int cost_bind(struct costs *costs, struct weir_change *change, const struct names *names) {
	const struct weir_change_costs_of *of = costs->of;
	const struct weir_config_service *from = find(&costs->from, names->service);
	const struct weir_config_service *to = find(&costs->to, names->service);
	const char *bind = weir_change_bind(change);
	int id = weir_tables_service_find(of->tables, names->service);
	struct weir_service_state state;
	bool resets, udp;

	if (from == NULL || to == NULL || bind == NULL || id < 0 ||
		weir_tables_service(of->tables, (uint16_t)id, &state) < 0) {
		return 0;
	}
	resets = to->drain.removed_ms > 0 && to->on_backend_down == WEIR_ON_BACKEND_DOWN_RESET &&
		 !has_bind(of->to, bind);
	udp = strncmp(bind, "udp ", strlen("udp ")) == 0;
	return set_removal(change,
		&(struct removal){
			.down = resets ? WEIR_ON_BACKEND_DOWN_RESET : WEIR_ON_BACKEND_DOWN_KEEP,
			.removed_ms = to->drain.removed_ms,
			.tcp = !udp,
			.udp = udp,
			.udp_ends = true,
			.of_service = from->bind_count > 1 || state.removed_binds > 0 ||
				      state.lost_binds || state.adopted,
			.recount = costs->recount,
			.flows = weir_sum_service(of->segment, (uint32_t)id).open_flows});
}

// --- a restart of the dataplane -----------------------------------------------------------

static bool is_maglev(const struct weir_tables *tables, uint16_t service) {
	struct weir_service_state state;

	return weir_tables_service(tables, service, &state) == 0 &&
	       state.policy == WEIR_POLICY_MAGLEV;
}

// Adds the flows that lose their backend in a restart even if the selection does not change: flows
// that began before the last change of the selection, and spilled flows. id: the service. flows:
// its flows that otherwise reach their backends again.
static void add_former(const struct weir_tables *tables, uint16_t id, uint64_t flows,
	struct weir_restart_cost *cost) {
	const struct weir_former_flows former = weir_tables_former_flows(tables, id);
	const uint64_t older = flows < former.older ? flows : former.older;
	const uint64_t spilled = flows - older < former.spilled ? flows - older : former.spilled;

	cost->older += older;
	cost->lost += older + spilled;
}

// Returns the sum of the flows of all backends. changed: by service id, whether the selection is
// different after the restart; NULL = no selection is different. finding: by service id, zeroed by
// the caller; set to the number of flows that can reach their backends again after the restart (see
// add_former); NULL (out of memory) = all flows count as lost.
static struct weir_restart_cost sum_backends(const struct weir_tables *tables,
	const struct weir_segment *segment, const bool *changed, uint64_t *finding) {
	const uint32_t ids = weir_tables_backend_ids(tables);
	struct weir_restart_cost cost = {0};
	// Service of the previous backend. `finds` is computed again only if the service changes,
	// because most backends of a service have consecutive ids.
	uint16_t last = WEIR_SERVICE_NONE;
	// whether flows of service `last` reach their backends again after the restart
	bool finds = false;

	for (uint32_t id = 0; id < ids; id++) {
		struct weir_backend_state backend;
		uint64_t open =
			weir_tables_backend_service(tables, (uint16_t)id) == WEIR_SERVICE_NONE
				? 0
				: weir_sum_backend(segment, id).open_flows;

		if (open == 0 || weir_tables_backend(tables, (uint16_t)id, &backend) < 0) {
			continue;
		}
		if (backend.service_id != last) {
			last = backend.service_id;
			finds = finding != NULL && is_maglev(tables, last) &&
				(changed == NULL || !changed[last]);
		}
		cost.open += open;
		if (finds && backend.in_selection) {
			finding[last] += open;
		} else {
			cost.lost += open;
		}
	}
	return cost;
}

static struct weir_restart_cost sum_restart(
	const struct weir_tables *tables, const struct weir_segment *segment, const bool *changed) {
	struct weir_restart_cost cost = {0};
	uint32_t services;
	uint64_t *finding;

	if (tables == NULL || segment == NULL) {
		return cost;
	}
	services = weir_tables_service_ids(tables);
	finding = calloc(services + 1u, sizeof(*finding));
	cost = sum_backends(tables, segment, changed, finding);
	cost.recount = weir_tables_recount_left_ms(tables) > 0;
	for (uint32_t id = 0; finding != NULL && id < services; id++) {
		if (finding[id] > 0) {
			add_former(tables, (uint16_t)id, finding[id], &cost);
		}
	}
	free(finding);
	return cost;
}

struct weir_restart_cost weir_restart_cost(
	const struct weir_tables *tables, const struct weir_segment *segment) {
	return sum_restart(tables, segment, NULL);
}

const char *weir_restart_cost_text(
	const struct weir_restart_cost *cost, bool seed, char *text, size_t bytes) {
	char flows[FLOWS_BYTES], older[WEIR_OLDER_FLOWS_BYTES];

	flows_text(cost->open, false, cost->recount, flows);
	if (cost->open == 0 && !cost->recount) {
		snprintf(text, bytes, "no open flows");
	} else if (seed) {
		snprintf(text, bytes, "a restart with another hash_seed breaks up to %s", flows);
	} else if (cost->lost == 0) {
		snprintf(text, bytes, "the restart breaks none of %s", flows);
	} else {
		snprintf(text, bytes, "the restart breaks up to %" PRIu64 " of %s%s", cost->lost,
			flows, weir_older_flows_text(cost->older, older));
	}
	return text;
}

// Returns whether a change is one of the health check of a service or of a backend.
static bool is_of_check(const struct weir_change *change) {
	int service = 0, backend = 0;

	(void)sscanf(change->what, "service %*s health_check%n", &service);
	(void)sscanf(change->what, "service %*s backend %*s health_check%n", &backend);
	return service > 0 || backend > 0;
}

// Returns whether a change alters the selection of a service, sets a policy that ignores the hash,
// or removes the service or one of its binds.
static bool changes_selection(const struct weir_change *change, const struct names *names) {
	static const char *const keys[] = {"table_size", "weight", "backup", "backup_below_percent",
		"backends", "address", "name", "weights", "algorithm", "size", "salt", "mode",
		"client"};

	if (names->service[0] == '\0' || is_of_check(change)) {
		return false;
	}
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (strcmp(change->key, keys[i]) == 0) {
			return true;
		}
	}
	return is(change, WEIR_CHANGE_REMOVE, "services") ||
	       is(change, WEIR_CHANGE_REMOVE, "binds");
}

// Returns whether a change outside of the section "services" changes the subsets of services.
// of_workers: true = of services in which each worker has its own subset. These subsets also change
// when workers.cores changes, because each worker then gets other flows.
static bool changes_subsets(const struct weir_change *change, bool of_workers) {
	static const char *const keys[] = {
		"instance client_id", "instance clients", "instance member", "instance members"};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (strcmp(change->what, keys[i]) == 0) {
			return true;
		}
	}
	return of_workers && strcmp(change->what, "workers cores") == 0;
}

static void mark_subsets(const struct weir_change_costs_of *of,
	const struct weir_difference *difference, bool *changed) {
	bool any = false, of_workers = false;

	for (uint32_t i = 0; i < difference->count; i++) {
		any |= changes_subsets(&difference->change[i], false);
		of_workers |= changes_subsets(&difference->change[i], true);
	}
	for (uint32_t i = 0; of_workers && i < of->to->service_count; i++) {
		const struct weir_config_service *service = &of->to->services[i];
		int id = weir_tables_service_find(of->tables, service->name);

		if (id >= 0 && service->subset.algorithm != WEIR_SUBSET_NONE &&
			(any || service->subset.client == WEIR_SUBSET_CLIENT_WORKER)) {
			changed[id] = true;
		}
	}
}

// Returns which services select backends differently after all changes, by service id. Returns NULL
// if out of memory. The caller frees the array.
static bool *changed_services(
	const struct weir_change_costs_of *of, const struct weir_difference *difference) {
	bool *changed = calloc(weir_tables_service_ids(of->tables) + 1u, sizeof(*changed));

	for (uint32_t i = 0; changed != NULL && i < difference->count; i++) {
		const struct names names = names_of(&difference->change[i]);
		int id = changes_selection(&difference->change[i], &names)
				 ? weir_tables_service_find(of->tables, names.service)
				 : -1;

		if (id >= 0) {
			changed[id] = true;
		}
	}
	if (changed != NULL) {
		mark_subsets(of, difference, changed);
	}
	return changed;
}

static bool has_key(const struct weir_difference *difference, const char *key) {
	for (uint32_t i = 0; i < difference->count; i++) {
		if (strcmp(difference->change[i].key, key) == 0) {
			return true;
		}
	}
	return false;
}

int weir_change_restart_cost(const struct weir_change_costs_of *of,
	const struct weir_difference *difference, struct weir_restart_cost *ret) {
	bool *changed = changed_services(of, difference);

	if (changed == NULL) {
		return -ENOMEM;
	}
	*ret = sum_restart(of->tables, of->segment, changed);
	free(changed);
	return 0;
}

// Sets the cost of each change that needs a restart to the cost of the restart.
static int cost_restart(const struct weir_change_costs_of *of, struct weir_difference *difference) {
	const bool seed = has_key(difference, "hash_seed");
	struct weir_restart_cost cost;
	char text[TEXT_BYTES];
	int r = weir_change_restart_cost(of, difference, &cost);

	if (r == 0) {
		cost.lost = seed ? cost.open : cost.lost;
		weir_restart_cost_text(&cost, seed, text, sizeof(text));
	}
	for (uint32_t i = 0; r == 0 && i < difference->count; i++) {
		if (difference->change[i].needs_restart) {
			r = set(&difference->change[i],
				cost.lost > 0 || (seed && cost.recount) ? WEIR_CHANGE_BREAK
									: WEIR_CHANGE_NONE,
				cost.lost, text);
		}
	}
	return r;
}

// Appends the manual settings that a change discards to the text of its cost.
static int cost_hand(struct costs *costs, struct weir_change *change, const struct names *names) {
	const char *before = change->cost.text != NULL ? change->cost.text : "";
	const struct weir_change_hand hand = {.tables = costs->of->tables,
		.keeping_canary = costs->of->keeping_canary,
		.canaries = costs->of->canaries,
		.change = change,
		.service = names->service,
		.backend = names->backend,
		.from = find(&costs->from, names->service),
		.to = find(&costs->to, names->service)};
	char ends[WEIR_CHANGE_HAND_BYTES], text[3 * TEXT_BYTES + WEIR_CHANGE_HAND_BYTES];

	weir_change_hand_text(&hand, ends);
	if (ends[0] == '\0') {
		return 0;
	}
	snprintf(text, sizeof(text), "%s%s%s", before, before[0] != '\0' ? "; " : "", ends);
	return set(change, change->cost.effect, change->cost.flows, text);
}

// Set the cost of a change that is applied by a reload.
static int cost_reload(struct costs *costs, struct weir_change *change) {
	const struct names names = names_of(change);
	const bool address = names.backend[0] != '\0' && is(change, WEIR_CHANGE_CHANGE, "address");
	int r = 0;

	if (is_of_check(change)) {
		return 0; // a key of the check can have the name of a key of the backend
	}
	if (costs->of->segment == NULL) {
		// without a dataplane, flows are not counted
	} else if (is(change, WEIR_CHANGE_REMOVE, "services")) {
		r = cost_service(costs, change, &names);
	} else if (is(change, WEIR_CHANGE_REMOVE, "binds")) {
		r = cost_bind(costs, change, &names);
	} else if (is(change, WEIR_CHANGE_REMOVE, "backends") || address) {
		r = cost_backend(costs, change, &names);
	}
	if (r == 0 && costs->of->segment != NULL &&
		is(change, WEIR_CHANGE_CHANGE, "on_backend_down")) {
		r = cost_down(costs, change, &names);
	}
	if (r == 0 && costs->of->segment != NULL && names.service[0] != '\0' &&
		is(change, WEIR_CHANGE_CHANGE, "udp")) {
		r = cost_udp(costs, change, &names);
	}
	if (r == 0 && names.service[0] != '\0' && change->kind != WEIR_CHANGE_ADD) {
		r = cost_hand(costs, change, &names);
	}
	return r;
}

int weir_change_costs(const struct weir_change_costs_of *of, struct weir_difference *difference) {
	struct costs costs = {.of = of, .from = {.config = of->from}, .to = {.config = of->to}};
	bool restart = false;
	int r = 0;

	if (of->tables == NULL) {
		return 0;
	}
	costs.recount = weir_tables_recount_left_ms(of->tables) > 0;
	for (uint32_t i = 0; r == 0 && i < difference->count; i++) {
		if (difference->change[i].needs_restart) {
			restart = true;
		} else {
			r = cost_reload(&costs, &difference->change[i]);
		}
	}
	return r == 0 && restart && of->segment != NULL ? cost_restart(of, difference) : r;
}
