// SPDX-License-Identifier: BSD-3-Clause
//
// Warnings about valid settings that are probably mistakes.
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config_keys.h"
#include "driver_names.h"
#include "plural.h"

// Warns about the default hash_seed, which is public: an attacker who has the seed can choose ports
// so that all flows get the same backend.
static void warn_seed(struct weir_json_reader *reader, const struct weir_json_place *root,
	const struct weir_config *config) {
	const struct weir_json_place instance = weir_json_place_member(root, "instance");
	const struct weir_json_place place = weir_json_place_member(&instance, "hash_seed");

	if (config->service_count > 0 &&
		config->instance.hash_seed == strtoull(WEIR_CONFIG_HASH_SEED, NULL, 16)) {
		weir_json_warning(reader, &place,
			"is the default, which is public: clients can direct all flows to one "
			"backend; set \"0x\" followed by the output of \"openssl rand -hex 8\", "
			"the same on all instances that share VIPs; a restart with another "
			"hash_seed breaks open flows: first drain or withdraw this instance");
	}
}

// Warns if there are no services: routers may send packets to this instance, but it forwards
// nothing.
static void warn_no_service(struct weir_json_reader *reader, const struct weir_json_place *services,
	const struct weir_config *config) {
	if (config->service_count == 0) {
		weir_json_warning(reader, services,
			"is empty: nothing is forwarded, and \"weirctl status\" reports "
			"CRITICAL; add a service");
	}
}

static void warn_weights(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_config_service *service) {
	const struct weir_json_place backends = weir_json_place_member(place, "backends");

	for (uint32_t i = 0; i < service->backend_count; i++) {
		if (service->backends[i].weight > 0) {
			return;
		}
	}
	weir_json_warning(reader, &backends,
		"all weights are 0: the service gets no new flows; set a weight above 0");
}

// Warns about a quorum that the backends cannot reach, or only while the service runs on its
// backups, because backups do not count otherwise.
static void warn_quorum(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_config_service *service) {
	const struct weir_json_place quorum = weir_json_place_member(place, "quorum");
	const uint32_t needed = service->quorum + service->hysteresis;
	uint32_t primaries = 0, counted;

	for (uint32_t i = 0; i < service->backend_count; i++) {
		primaries += !service->backends[i].backup;
	}
	counted = primaries > 0 ? primaries : service->backend_count;
	if (service->quorum == 1 || needed <= counted) {
		return;
	}
	if (counted == service->backend_count) {
		weir_json_warning(reader, &quorum,
			"the service needs %u eligible backends to become up, but has only %u "
			"backend%s: it is always down; use a smaller quorum, or add backends",
			needed, counted, weir_plural(counted));
	} else {
		weir_json_warning(reader, &quorum,
			"the service needs %u eligible backends to become up, but has only %u "
			"primary backend%s, and backups count only while they get new flows; use a "
			"smaller quorum, or add primary backends",
			needed, counted, weir_plural(counted));
	}
}

static void warn_backups(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_config_service *service) {
	const struct weir_json_place backends = weir_json_place_member(place, "backends");
	const struct weir_json_place percent =
		weir_json_place_member(place, "backup_below_percent");
	uint32_t backups = 0;

	for (uint32_t i = 0; i < service->backend_count; i++) {
		backups += service->backends[i].backup;
	}
	if (backups == service->backend_count) {
		weir_json_warning(reader, &backends,
			"every backend is a backup, so all backups are used: remove \"backup\", or "
			"add primary backends");
	} else if (backups == 0 && service->backup_below_percent > 0) {
		weir_json_warning(reader, &percent,
			"is not used, because no backend has \"backup\": true; remove it, or mark "
			"the backups");
	}
}

// Warns about an agent-check without a port: the check would connect to the port of the VIP, where
// the server listens instead of the agent.
static void warn_agent_check(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_config_service *service) {
	const struct weir_json_place backends = weir_json_place_member(place, "backends");
	struct weir_config_checks at = {.service = service};

	while (weir_config_next_check(&at)) {
		const struct weir_json_place backend =
			weir_json_place_element(&backends, at.next > 0 ? at.next - 1 : 0);
		const struct weir_json_place check = weir_json_place_member(
			at.backend != NULL ? &backend : place, "health_check");

		if (at.check->type == WEIR_CHECK_AGENT_CHECK && at.check->port == 0) {
			weir_json_warning(reader, &check,
				"has type \"agent-check\" and no port: the check connects to the "
				"port of the service (%u); add \"port\"",
				weir_config_checked_bind(service, at.check)->port_first);
		}
	}
}

// Returns whether the service has checks that detect all dead backends, or whether the file
// disables checks explicitly.
static bool is_checked(const struct weir_config_service *service) {
	bool own = service->backend_count > 0;

	for (uint32_t i = 0; own && i < service->backend_count; i++) {
		own = service->backends[i].health_check != NULL;
	}
	return own || service->has_health_check || service->agent.port != 0 ||
	       service->agent_check.type != WEIR_CHECK_NONE || service->outlier_ejection.enabled;
}

// Adds one warning for all services without a check, because a file that a program has written may
// have thousands of such services.
static void warn_unchecked(struct weir_json_reader *reader, const struct weir_json_place *services,
	const struct weir_config *config) {
	uint32_t count = 0, first = 0;

	for (uint32_t i = config->service_count; i-- > 0;) {
		if (!is_checked(&config->services[i])) {
			first = i;
			count++;
		}
	}
	if (count > 0) {
		const struct weir_json_place place = weir_json_place_element(services, first);
		char all[48] = "";

		if (count > 1) {
			snprintf(all, sizeof(all), " (%" PRIu32 " services have none)", count);
		}
		weir_json_warning(reader, &place,
			"has no health check%s: a dead backend keeps getting flows; add "
			"\"health_check\" or \"agent\", or \"health_check\": {\"type\": \"none\"} "
			"if this is intended",
			all);
	}
}

static bool has_tcp(const struct weir_config_service *service) {
	bool found = false;

	for (uint32_t i = 0; i < service->bind_count; i++) {
		found |= service->binds[i].protocol == IPPROTO_TCP;
	}
	return found;
}

// Warn if stealing cannot work: the service has no TCP bind or only one backend, flows expire from
// the flow table before they can be moved, or backends without flows report too rarely.
static void warn_steal(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_config_flow_table *flows, const struct weir_config_service *service) {
	const struct weir_json_place object = weir_json_place_member(place, "steal");
	const struct weir_json_place at = weir_json_place_member(&object, "after_ms");
	const struct weir_json_place agent = weir_json_place_member(place, "agent");
	const struct weir_json_place interval =
		weir_json_place_member(&agent, "inactive_interval_ms");
	const struct weir_config_steal *steal = &service->steal;

	if (steal->enabled && !has_tcp(service)) {
		weir_json_warning(reader, &object,
			"moves TCP connections, but the service has no TCP bind: remove "
			"\"steal\"");
	} else if (steal->enabled && service->backend_count == 1) {
		weir_json_warning(reader, &object,
			"moves connections to other backends, but the service has only one "
			"backend: add a backend, or remove \"steal\"");
	} else if (steal->enabled && steal->after_ms >= flows->syn_seen_ms) {
		weir_json_warning(reader, &at,
			"%" PRIu32 " ms is not below flow_table.timeout_ms.syn_seen (%" PRIu32
			" ms): connections time out before they can be moved; lower after_ms or "
			"raise syn_seen",
			steal->after_ms, flows->syn_seen_ms);
	}
	if (steal->enabled &&
		service->agent.inactive_interval_ms > WEIR_CONFIG_STEAL_REPORT_MOST_MS) {
		weir_json_warning(reader, &interval,
			"%" PRIu32 " ms is above %u ms: backends without flows report too rarely "
			"to get stolen connections; use a smaller value",
			service->agent.inactive_interval_ms, WEIR_CONFIG_STEAL_REPORT_MOST_MS);
	}
}

static int compare_addresses(const void *a, const void *b, void *list) {
	const struct weir_config_backend *backends = list;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	int order = memcmp(&backends[x].address, &backends[y].address, sizeof(backends[x].address));

	return order ? order : (x > y) - (x < y);
}

// Warn if two backends of a service have the same address.
static void warn_addresses(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_config_service *service) {
	const struct weir_json_place backends = weir_json_place_member(place, "backends");
	const uint32_t count = service->backend_count;
	uint32_t *order = calloc(count, sizeof(*order));

	if (order == NULL) {
		reader->out_of_memory = true;
		return;
	}
	for (uint32_t i = 0; i < count; i++) {
		order[i] = i;
	}
	qsort_r(order, count, sizeof(*order), compare_addresses, service->backends);
	for (uint32_t i = 1; i < count; i++) {
		const struct weir_config_backend *first = &service->backends[order[i - 1]];
		const struct weir_config_backend *second = &service->backends[order[i]];
		const struct weir_json_place backend = weir_json_place_element(&backends, order[i]);
		const struct weir_json_place address = weir_json_place_member(&backend, "address");
		char text[INET6_ADDRSTRLEN];

		if (memcmp(&first->address, &second->address, sizeof(first->address)) == 0) {
			weir_json_warning(reader, &address,
				"%s is also the address of backend \"%s\" in line %d: the server "
				"gets the flows of both backends; keep one, with the sum of the "
				"weights",
				weir_address_format(&second->address, text, sizeof(text)),
				first->name, first->line);
		}
	}
	free(order);
}

static bool is_source(const struct weir_config_port *port, const struct weir_address *address) {
	const uint8_t *a = port->source_ipv4.bytes, *b = address->bytes;
	const uint32_t differ = (uint32_t)(a[0] ^ b[0]) << 24 | (uint32_t)(a[1] ^ b[1]) << 16 |
				(uint32_t)(a[2] ^ b[2]) << 8 | (uint32_t)(a[3] ^ b[3]);

	return address->family == 4 && port->source_ipv4.family == 4 &&
	       differ >> port->source_ipv4_bits == 0;
}

static bool has_tunnel(
	const struct weir_config_service *service, const struct weir_config_backend *backend) {
	return weir_config_forwarding_of(service, backend).mode != WEIR_FORWARDING_L2;
}

// Returns the number of backends to which packets are sent in a tunnel.
static uint32_t count_tunnels(const struct weir_config_service *service) {
	uint32_t count = 0;

	for (uint32_t i = 0; i < service->backend_count; i++) {
		count += has_tunnel(service, &service->backends[i]);
	}
	return count;
}

// Returns an address of a backend or VIP that is also an outer source address of the port, or NULL.
// Backends without a tunnel get no outer source address. *ret_what: "a VIP" or "a backend".
static const struct weir_address *find_source(const struct weir_config *config,
	const struct weir_config_port *port, const char **ret_what) {
	for (uint32_t i = 0; i < config->service_count; i++) {
		const struct weir_config_service *service = &config->services[i];
		const uint32_t tunnels = count_tunnels(service);

		*ret_what = "a VIP";
		for (uint32_t k = 0; k < service->bind_count && tunnels > 0; k++) {
			if (is_source(port, &service->binds[k].address)) {
				return &service->binds[k].address;
			}
		}
		*ret_what = "a backend";
		for (uint32_t k = 0; k < service->backend_count; k++) {
			if (has_tunnel(service, &service->backends[k]) &&
				is_source(port, &service->backends[k].address)) {
				return &service->backends[k].address;
			}
		}
	}
	return NULL;
}

// Warns if an outer source is the address of a backend or a VIP. The kernel of a host that has this
// address would drop the encapsulated packets, because their source is an address of the host
// itself.
static void warn_source(struct weir_json_reader *reader, const struct weir_json_place *root,
	const struct weir_config *config, uint32_t number) {
	const struct weir_json_place ports = weir_json_place_member(root, "ports");
	const struct weir_json_place port = weir_json_place_element(&ports, number);
	const struct weir_json_place place = weir_json_place_member(&port, "source_ipv4");
	const struct weir_address *address;
	char text[INET6_ADDRSTRLEN];
	const char *what;

	address = find_source(config, &config->ports[number], &what);
	if (address != NULL) {
		weir_json_warning(reader, &place,
			"%s is the address of %s: backends drop packets from their own "
			"addresses; use addresses that no backend has",
			weir_address_format(address, text, sizeof(text)), what);
	}
}

// Warns about a device whose driver name is probably a typing error: with an unknown driver,
// weir-dataplane does not start. The name is not refused as an error, because the list of drivers
// may be incomplete.
static void warn_driver(struct weir_json_reader *reader, const struct weir_json_place *root,
	uint32_t number, const char *key, const char *device) {
	const struct weir_json_place ports = weir_json_place_member(root, "ports");
	const struct weir_json_place port = weir_json_place_element(&ports, number);
	const struct weir_json_place place = weir_json_place_member(&port, key);
	char guess[WEIR_DRIVER_GUESS_BYTES];

	if (device[0] == '\0' || weir_driver_is_known(device)) {
		return;
	}
	weir_driver_guess(device, guess);
	weir_json_warning(reader, &place,
		"\"%.*s\" does not begin with the name of a known DPDK driver, so weir-dataplane "
		"would probably not start; %s%s%s",
		(int)strcspn(device, ","), device, guess[0] != '\0' ? "did you mean \"" : "",
		guess[0] != '\0' ? guess : "see \"device\" in the reference",
		guess[0] != '\0' ? "\"?" : "");
}

// Warns about an outer source address of a port; called if no backend has a tunnel.
static void warn_unused_source(struct weir_json_reader *reader, const struct weir_json_place *port,
	const struct weir_address *source, const char *key) {
	const struct weir_json_place place = weir_json_place_member(port, key);

	if (source->family != 0) {
		weir_json_warning(reader, &place,
			"is not used, because every backend has forwarding \"l2\"; remove it");
	}
}

// Warns about settings of ports that have no effect on backends with forwarding "l2", or that
// prevent this forwarding.
static void warn_l2(struct weir_json_reader *reader, const struct weir_json_place *root,
	const struct weir_config *config) {
	const struct weir_json_place ports = weir_json_place_member(root, "ports");
	const struct weir_json_place services = weir_json_place_member(root, "services");
	uint32_t tunnels = 0, fixed = 0, first = config->service_count;

	for (uint32_t i = config->service_count; i-- > 0;) {
		const struct weir_config_service *service = &config->services[i];
		const uint32_t count = count_tunnels(service);

		tunnels += count;
		first = count < service->backend_count ? i : first;
	}
	for (uint32_t i = 0; i < config->port_count; i++) {
		const struct weir_json_place port = weir_json_place_element(&ports, i);

		fixed += config->ports[i].has_gateway_mac;
		if (first < config->service_count && tunnels == 0) {
			warn_unused_source(
				reader, &port, &config->ports[i].source_ipv4, "source_ipv4");
			warn_unused_source(
				reader, &port, &config->ports[i].source_ipv6, "source_ipv6");
		}
	}
	if (first < config->service_count && fixed == config->port_count) {
		const struct weir_json_place service = weir_json_place_element(&services, first);

		weir_json_warning(reader, &service,
			"has backends with forwarding \"l2\", but every port sends all packets to "
			"its gateway_mac instead of the backend's MAC address: these backends get "
			"no packets; remove gateway_mac from the port on their link, or use "
			"another forwarding");
	}
}

void weir_config_warn(struct weir_json_reader *reader, const struct weir_json_place *root,
	const struct weir_config *config) {
	const struct weir_json_place services = weir_json_place_member(root, "services");

	warn_seed(reader, root, config);
	for (uint32_t i = 0; i < config->port_count; i++) {
		warn_source(reader, root, config, i);
		warn_driver(reader, root, i, "device", config->ports[i].device);
		warn_driver(reader, root, i, "exception", config->ports[i].exception);
	}
	warn_l2(reader, root, config);
	warn_no_service(reader, &services, config);
	warn_unchecked(reader, &services, config);
	for (uint32_t i = 0; i < config->service_count; i++) {
		const struct weir_json_place place = weir_json_place_element(&services, i);

		warn_weights(reader, &place, &config->services[i]);
		warn_quorum(reader, &place, &config->services[i]);
		warn_backups(reader, &place, &config->services[i]);
		warn_addresses(reader, &place, &config->services[i]);
		warn_agent_check(reader, &place, &config->services[i]);
		warn_steal(reader, &place, &config->flow_table, &config->services[i]);
	}
}
