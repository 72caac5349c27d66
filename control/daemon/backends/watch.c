// SPDX-License-Identifier: BSD-3-Clause
#include "watch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "neighbours.h"
#include "segment.h"
#include "steer_map.h"
#include "watch_agents.h"

struct owner { // which backend has an address
	struct weir_address address;
	uint16_t backend;
};

struct weir_watch {
	struct weir_log *log;
	weir_watch_changed changed;
	void *context;
	struct weir_states *states;
	struct weir_reports *reports;
	struct weir_health *health;
	struct weir_watch_agents *agents;
	struct weir_neighbours *neighbours;
	struct weir_tables *tables; // NULL until the first configure
	struct owner *owners; // sorted by address
	uint32_t owner_count;
	struct weir_neighbour_port ports[WEIR_PORTS_MAX]; // as last configured
	uint32_t port_count;
	char steer_why[272]; // why the VIP maps were not updated, as logged; "" = they were
};

// --- callbacks ----------------------------------------------------------------------------

static void on_health(
	void *context, uint16_t backend, enum weir_health_verdict verdict, const char *detail) {
	struct weir_watch *watch = context;

	weir_states_judge(watch->states, backend, verdict, detail);
}

static void on_report(
	void *context, uint16_t backend, const struct weir_report *report, const char *source) {
	struct weir_watch *watch = context;

	weir_reports_take(watch->reports, backend, report, source);
}

static int order_by_address(const void *a, const void *b) {
	const struct owner *left = a, *right = b;

	if (left->address.family != right->address.family) {
		return left->address.family < right->address.family ? -1 : 1;
	}
	return memcmp(left->address.bytes, right->address.bytes, sizeof(left->address.bytes));
}

// The first owner of an address, or owner_count.
static uint32_t first_owner(const struct weir_watch *watch, const struct weir_address *address) {
	struct owner key = {.address = *address};
	uint32_t low = 0, high = watch->owner_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (order_by_address(&watch->owners[middle], &key) < 0) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return low;
}

static void log_next_hop(struct weir_watch *watch, const struct weir_backend_state *backend,
	const struct weir_next_hop *hop, const char *why) {
	const struct weir_log_fields fields = {
		.service = backend->service, .backend = backend->name, .reason = why};
	char address[INET6_ADDRSTRLEN];

	weir_address_format(&backend->address, address, sizeof(address));
	if (!hop->resolved) {
		weir_log_event(watch->log, WEIR_LOG_WARN, &fields,
			"backend %s/%s: next hop for %s unresolved: %s", backend->service,
			backend->name, address, why);
	} else {
		weir_log_event(watch->log, backend->resolved ? WEIR_LOG_DEBUG : WEIR_LOG_INFO,
			&fields,
			"backend %s/%s: next hop for %s: port %u, %02x:%02x:%02x:%02x:%02x:%02x",
			backend->service, backend->name, address, hop->port, hop->mac[0],
			hop->mac[1], hop->mac[2], hop->mac[3], hop->mac[4], hop->mac[5]);
		if (hop->mtu != 0) {
			weir_log_event(watch->log, WEIR_LOG_INFO, &fields,
				"backend %s/%s: path MTU to %s is %u", backend->service,
				backend->name, address, hop->mtu);
		} else if (backend->path_mtu != 0) {
			weir_log_event(watch->log, WEIR_LOG_INFO, &fields,
				"backend %s/%s: path MTU to %s is that of the port again",
				backend->service, backend->name, address);
		}
	}
}

static void on_next_hop(void *context, const struct weir_address *address,
	const struct weir_next_hop *hop, const char *why) {
	struct weir_watch *watch = context;
	struct owner key = {.address = *address};

	for (uint32_t i = first_owner(watch, address);
		i < watch->owner_count && order_by_address(&watch->owners[i], &key) == 0; i++) {
		struct weir_backend_state backend;
		uint16_t id = watch->owners[i].backend;

		// The id may have been given to another since the owners were listed.
		if (weir_tables_backend(watch->tables, id, &backend) < 0 ||
			backend.address.family != address->family ||
			memcmp(backend.address.bytes, address->bytes, sizeof(address->bytes)) !=
				0) {
			continue;
		}
		log_next_hop(watch, &backend, hop, why);
		weir_states_next_hop(watch->states, id, hop->resolved, why);
		weir_health_set_source(watch->health, id, &hop->source, hop->source_bits);
		weir_tables_set_next_hop(watch->tables, id, hop);
		watch->changed(watch->context);
	}
}

int weir_watch_create(uv_loop_t *loop, struct weir_log *log, struct weir_estimates *estimates,
	weir_watch_changed changed, void *context, struct weir_watch **ret) {
	struct weir_watch *watch = calloc(1, sizeof(*watch));
	int r;

	if (watch == NULL) {
		return -ENOMEM;
	}
	watch->log = log;
	watch->changed = changed;
	watch->context = context;
	r = weir_states_create(log, changed, context, &watch->states);
	if (r < 0) {
		goto free_watch;
	}
	r = weir_reports_create(watch->states, estimates, changed, context, &watch->reports);
	if (r < 0) {
		goto free_states;
	}
	r = weir_health_create(loop, on_health, on_report, watch, &watch->health);
	if (r < 0) {
		goto free_reports;
	}
	r = weir_watch_agents_create(loop, log, watch->health, watch->reports, &watch->agents);
	if (r < 0) {
		goto free_health;
	}
	r = weir_neighbours_create(loop, on_next_hop, watch, &watch->neighbours);
	if (r < 0) {
		goto free_agents;
	}
	*ret = watch;
	return 0;
free_agents:
	weir_watch_agents_free(watch->agents);
free_health:
	weir_health_free(watch->health);
free_reports:
	weir_reports_free(watch->reports);
free_states:
	weir_states_free(watch->states);
free_watch:
	free(watch);
	return r;
}

void weir_watch_listen(struct weir_watch *watch, struct weir_path_mtu_sockets *sockets) {
	weir_neighbours_listen(watch->neighbours, sockets);
}

static void on_data_path_lost(void *context, const char *device) {
	struct weir_watch *watch = context;

	weir_log_write(watch->log, WEIR_LOG_ERROR,
		"device %s is gone: health checks via the data path have no result until "
		"weir-control is restarted",
		device);
}

int weir_watch_set_data_path(struct weir_watch *watch, struct weir_data_path_tunnel *tunnel) {
	return weir_health_set_data_path(watch->health, tunnel, on_data_path_lost);
}

void weir_watch_free(struct weir_watch *watch) {
	if (watch == NULL) {
		return;
	}
	weir_neighbours_free(watch->neighbours);
	weir_watch_agents_free(watch->agents);
	weir_health_free(watch->health);
	weir_reports_free(watch->reports);
	weir_states_free(watch->states);
	free(watch->owners);
	free(watch);
}

// --- health -------------------------------------------------------------------------------

static uint32_t count_backends(const struct weir_config *config) {
	uint32_t count = 0;

	for (uint32_t i = 0; i < config->service_count; i++) {
		count += config->services[i].backend_count;
	}
	return count;
}

// The agent-check is asked whatever the check beside it, if there is one, says.
static void add_agent_check(const struct weir_config_service *service,
	const struct weir_backend_state *backend, struct weir_health_target *targets, uint32_t *n) {
	const struct weir_config_health_check *check = &service->agent_check;

	if (check->type != WEIR_CHECK_NONE) {
		targets[(*n)++] = (struct weir_health_target){
			.backend = backend->id,
			.port = check->port,
			.address = backend->address,
			.check = check,
			.beside = true,
			.initial = WEIR_HEALTH_VERDICT_UNKNOWN,
		};
	}
}

// What an answer without X-Weir-State takes back: but for what agents say.
static enum weir_health_word said_in_answers(
	const struct weir_config_service *service, struct weir_health_facts facts) {
	return service->agent.port == 0 && service->agent_check.type == WEIR_CHECK_NONE
		       ? (enum weir_health_word)facts.word
		       : WEIR_HEALTH_WORD_NONE;
}

// A new check goes on from what is known already.
static void add_target(struct weir_watch *watch, const struct weir_config_service *service,
	const struct weir_config_health_check *check, const struct weir_backend_state *backend,
	struct weir_health_target *targets, uint32_t *n) {
	const struct weir_config_bind *bind = weir_config_checked_bind(service);
	struct weir_states_status status;

	if (check->type == WEIR_CHECK_NONE ||
		weir_states_status(watch->states, backend->id, &status) < 0) {
		return;
	}
	targets[*n] = (struct weir_health_target){
		.backend = backend->id,
		.port = check->port != 0 ? check->port : bind->port_first,
		.address = backend->address,
		.check = check,
		.initial = (enum weir_health_verdict)status.facts.verdict,
		.word = said_in_answers(service, status.facts),
	};
	if (check->via == WEIR_VIA_DATA_PATH) {
		targets[*n].vip = bind->address;
	}
	(*n)++;
}

// A check by the agent has the agent's port and pace.
static struct weir_config_health_check check_of(const struct weir_config_service *service) {
	struct weir_config_health_check check = service->health_check;

	if (check.type == WEIR_CHECK_AGENT) {
		check.port = service->agent.port;
		check.interval_ms = service->agent.interval_ms;
		check.timeout_ms = service->agent.timeout_ms;
	}
	return check;
}

static uint32_t list_targets(struct weir_watch *watch, const struct weir_config *config,
	struct weir_config_health_check *checks, struct weir_health_target *targets) {
	uint32_t n = 0;

	for (uint32_t i = 0; i < config->service_count; i++) {
		const struct weir_config_service *service = &config->services[i];

		checks[i] = check_of(service);
		for (uint32_t j = 0; j < service->backend_count; j++) {
			struct weir_backend_state backend;
			int id = weir_tables_backend_find(
				watch->tables, service->name, service->backends[j].name);

			if (id >= 0 &&
				weir_tables_backend(watch->tables, (uint16_t)id, &backend) == 0) {
				add_target(watch, service, &checks[i], &backend, targets, &n);
				add_agent_check(service, &backend, targets, &n);
			}
		}
	}
	return n;
}

static int configure_health(struct weir_watch *watch, const struct weir_config *config) {
	struct weir_health_target *targets =
		calloc(2 * count_backends(config) + 1, sizeof(targets[0]));
	struct weir_config_health_check *checks =
		calloc(config->service_count + 1, sizeof(checks[0]));
	int r = targets == NULL || checks == NULL ? -ENOMEM : 0;

	if (r == 0) {
		r = weir_states_configure(watch->states, watch->tables, config);
	}
	if (r == 0) {
		r = weir_reports_configure(watch->reports, watch->tables, config);
	}
	if (r == 0) {
		r = weir_health_configure(
			watch->health, targets, list_targets(watch, config, checks, targets));
	}
	if (r == 0) {
		r = weir_watch_agents_configure(watch->agents, watch->tables, config);
	}
	free(checks);
	free(targets);
	return r;
}

void weir_watch_follow(struct weir_watch *watch) {
	weir_watch_agents_follow(watch->agents);
}

void weir_watch_pace(struct weir_watch *watch) {
	uint32_t ids = watch->tables != NULL ? weir_tables_backend_ids(watch->tables) : 0;

	for (uint32_t id = 0; id < ids; id++) {
		weir_health_set_far(watch->health, (uint16_t)id,
			weir_tables_backend_is_far(watch->tables, (uint16_t)id));
	}
}

void weir_watch_forget(struct weir_watch *watch) {
	weir_health_configure(watch->health, NULL, 0);
	weir_watch_agents_forget(watch->agents);
}

void weir_watch_overrule(struct weir_watch *watch, uint16_t backend, const char *why) {
	weir_health_forget(watch->health, backend);
	weir_states_say(watch->states, backend, WEIR_HEALTH_WORD_NONE, "operator", why);
}

void weir_watch_second(struct weir_watch *watch) {
	weir_watch_agents_second(watch->agents);
	weir_reports_second(watch->reports, uv_hrtime() / 1000000);
}

struct weir_reports *weir_watch_reports(struct weir_watch *watch) {
	return watch->reports;
}

uint32_t weir_watch_look(struct weir_watch *watch, uint16_t service) {
	return weir_watch_agents_look(watch->agents, service);
}

void weir_watch_tell_steals(struct weir_watch *watch, weir_watch_steal_ended ended, void *context) {
	weir_watch_agents_tell_steals(watch->agents, ended, context);
}

int weir_watch_ask_steal(struct weir_watch *watch, const struct weir_agents_steal *steal) {
	return weir_watch_agents_ask_steal(watch->agents, steal);
}

const struct weir_agents *weir_watch_agents(const struct weir_watch *watch) {
	return weir_watch_agents_of(watch->agents);
}

int weir_watch_health(const struct weir_watch *watch, uint16_t backend, bool beside,
	struct weir_health_status *ret) {
	return weir_health_status(watch->health, backend, beside, ret);
}

struct weir_states *weir_watch_states(struct weir_watch *watch) {
	return watch->states;
}

// --- neighbours ---------------------------------------------------------------------------

// Backends that leave are watched too: flows still go there.
static int list_owners(struct weir_watch *watch) {
	uint32_t ids = weir_tables_backend_ids(watch->tables), n = 0;
	struct owner *owners = calloc(ids > 0 ? ids : 1, sizeof(owners[0]));

	if (owners == NULL) {
		return -ENOMEM;
	}
	for (uint32_t id = 0; id < ids; id++) {
		struct weir_backend_state backend;

		if (weir_tables_backend(watch->tables, (uint16_t)id, &backend) == 0) {
			owners[n].address = backend.address;
			owners[n++].backend = backend.id;
		}
	}
	qsort(owners, n, sizeof(owners[0]), order_by_address);
	free(watch->owners);
	watch->owners = owners;
	watch->owner_count = n;
	return 0;
}

// Ports are those of the segment; their configuration is found by name.
static void list_ports(struct weir_watch *watch, const struct weir_config *config) {
	const struct weir_segment *segment = weir_tables_segment(watch->tables);

	if (segment != NULL) {
		watch->port_count = segment->ports;
	}
	for (uint32_t i = 0; i < watch->port_count; i++) {
		struct weir_neighbour_port *port = &watch->ports[i];

		if (segment != NULL) {
			*port = (struct weir_neighbour_port){.info = segment->header->port[i]};
			port->info.name[sizeof(port->info.name) - 1] = '\0';
			port->info.kernel_interface[sizeof(port->info.kernel_interface) - 1] = '\0';
		}
		for (uint32_t j = 0; j < config->port_count; j++) {
			const struct weir_config_port *wanted = &config->ports[j];

			if (strcmp(wanted->name, port->info.name) == 0) {
				port->has_gateway_mac = wanted->has_gateway_mac;
				memcpy(port->gateway_mac, wanted->gateway_mac,
					sizeof(port->gateway_mac));
				port->source_ipv4 = wanted->source_ipv4;
				port->source_ipv4_bits = wanted->source_ipv4_bits;
				port->source_ipv6 = wanted->source_ipv6;
			}
		}
	}
}

static int configure_neighbours(struct weir_watch *watch, const struct weir_config *config) {
	struct weir_address *addresses;
	int r = list_owners(watch);

	if (r < 0) {
		return r;
	}
	list_ports(watch, config);
	addresses = calloc(watch->owner_count > 0 ? watch->owner_count : 1, sizeof(addresses[0]));
	if (addresses == NULL) {
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < watch->owner_count; i++) {
		addresses[i] = watch->owners[i].address;
	}
	r = weir_neighbours_configure(
		watch->neighbours, watch->ports, watch->port_count, addresses, watch->owner_count);
	free(addresses);
	return r;
}

int weir_watch_configure(
	struct weir_watch *watch, struct weir_tables *tables, const struct weir_config *config) {
	int health, neighbours;

	watch->tables = tables;
	watch->steer_why[0] = '\0'; // to be logged again
	health = configure_health(watch, config);
	neighbours = configure_neighbours(watch, config);
	if (health < 0) {
		weir_log_write(watch->log, WEIR_LOG_ERROR, "cannot update the health checks: %s",
			strerror(-health));
	}
	if (neighbours < 0) {
		weir_log_write(watch->log, WEIR_LOG_ERROR, "cannot update the next hops: %s",
			strerror(-neighbours));
	}
	return health < 0 ? health : neighbours;
}

// --- steer maps ---------------------------------------------------------------------------

const char *weir_watch_unsteered(const struct weir_watch *watch) {
	return watch->steer_why[0] != '\0' ? watch->steer_why : NULL;
}

int weir_watch_steer(struct weir_watch *watch, const struct weir_handover *handover,
	const struct weir_config *config) {
	struct weir_steer_map_changes changes;
	char why[256] = "", text[sizeof(watch->steer_why)];
	int r;

	if (handover->vip_maps == 0) {
		watch->steer_why[0] = '\0';
		return 0;
	}
	r = weir_steer_map_update(
		handover->vip_map_fd, handover->vip_maps, config, &changes, why, sizeof(why));
	if (r < 0) { // it is tried again every second
		if (why[0] == '\0') {
			snprintf(why, sizeof(why), "%s", strerror(-r));
		}
		snprintf(text, sizeof(text), "XDP VIP maps: %s", why);
		if (strcmp(text, watch->steer_why) != 0) {
			weir_log_write(watch->log, WEIR_LOG_ERROR, "%s", text);
		}
		memcpy(watch->steer_why, text, sizeof(text));
		return r;
	}
	watch->steer_why[0] = '\0';
	if (changes.added + changes.deleted > 0) {
		weir_log_write(watch->log, WEIR_LOG_INFO,
			"XDP VIP maps: %u added, %u deleted, %u in total", changes.added,
			changes.deleted, changes.keys);
	}
	return 0;
}
