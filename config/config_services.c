// SPDX-License-Identifier: BSD-3-Clause
//
// Checks services, binds and backends for errors that the table of keys cannot detect.
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config_keys.h"

// Returns why an address cannot be a VIP or a backend, or NULL if it can.
static const char *address_fault(const struct weir_address *address) {
	static const uint8_t none[16], loopback[16] = {[15] = 1};
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	const uint8_t *b = address->bytes;

	if (address->family == 4) {
		return b[0] == 127                 ? "a loopback address"
		       : b[0] == 0                 ? "unspecified (0.0.0.0/8)"
		       : b[0] >= 224 && b[0] < 240 ? "a multicast address"
		       : b[0] >= 240               ? "reserved or broadcast (240.0.0.0/4)"
						   : NULL;
	}
	return memcmp(b, none, 16) == 0                 ? "unspecified (::)"
	       : memcmp(b, loopback, 16) == 0           ? "a loopback address"
	       : b[0] == 0xff                           ? "a multicast address"
	       : weir_address_is_link_local(address)    ? "a link-local address"
	       : memcmp(b, mapped, sizeof(mapped)) == 0 ? "IPv4 written as IPv6 (::ffff:0:0/96)"
							: NULL;
}

static void check_address(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_address *address, const char *what) {
	const char *fault = address_fault(address);
	char text[INET6_ADDRSTRLEN];

	if (fault != NULL) {
		weir_json_error_at(reader, place, "address",
			"%s is %s and cannot be a %s; use a unicast address",
			weir_address_format(address, text, sizeof(text)), fault, what);
	}
}

void weir_config_check_bind(struct weir_json_reader *reader, const struct weir_json_place *place,
	void *into, const struct weir_json_keys_read *read) {
	struct weir_config_bind *bind = into;
	const bool port = weir_json_present(read, "port");
	const bool first = weir_json_present(read, "port_first");
	const bool last = weir_json_present(read, "port_last");

	if (weir_json_valid(read, "address")) {
		check_address(reader, place, &bind->address, "VIP");
	}
	if (port && (first || last)) {
		weir_json_error_at(reader, place, "port",
			"cannot be used with \"port_first\" or \"port_last\"; remove \"port\", or "
			"the range");
	} else if (!port && !(first && last)) {
		weir_json_error(reader, place,
			"has no port; add \"port\" (0 = every port), or \"port_first\" and "
			"\"port_last\"");
	} else if (port && weir_json_valid(read, "port")) {
		bind->port_last = bind->port_first ? bind->port_first : UINT16_MAX;
	} else if (!port && weir_json_valid(read, "port_first") &&
		   weir_json_valid(read, "port_last") && bind->port_first > bind->port_last) {
		weir_json_error_at(reader, place, "port_first",
			"%u is above port_last (%u); swap them", bind->port_first, bind->port_last);
	}
}

void weir_config_check_backend(struct weir_json_reader *reader, const struct weir_json_place *place,
	void *into, const struct weir_json_keys_read *read) {
	const struct weir_config_backend *backend = into;

	if (weir_json_valid(read, "address")) {
		check_address(reader, place, &backend->address, "backend");
	}
}

struct weir_forwarding weir_config_forwarding_of(
	const struct weir_config_service *service, const struct weir_config_backend *backend) {
	struct weir_forwarding forwarding = service->forwarding;

	if (backend->forwarding_mode != 0) {
		forwarding.mode = backend->forwarding_mode - 1;
	}
	if (forwarding.mode != WEIR_FORWARDING_GUE) {
		forwarding.gue_port = WEIR_GUE_PORT;
	}
	if (forwarding.mode != WEIR_FORWARDING_GRE) {
		forwarding.gre_key = 0;
	}
	return forwarding;
}

static bool uses_mode(const struct weir_config_service *service, enum weir_forwarding_mode mode) {
	for (uint32_t i = 0; i < service->backend_count; i++) {
		if (weir_config_forwarding_of(service, &service->backends[i]).mode == mode) {
			return true;
		}
	}
	return false;
}

// Refuses a key of a forwarding mode that no backend of the service uses. Keys that the policy of a
// service does not use are also refused (config_policy.c).
static void check_forwarding(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_config_service *service, const struct weir_json_keys_read *read) {
	static const char unused[] =
		"is not used, because no backend has forwarding \"%s\"; remove it, or use "
		"forwarding \"%s\"";

	if (weir_json_present(read, "gue_port") && !uses_mode(service, WEIR_FORWARDING_GUE)) {
		weir_json_error_at(reader, place, "gue_port", unused, "gue", "gue");
	}
	if (service->forwarding.gre_key != 0 && !uses_mode(service, WEIR_FORWARDING_GRE)) {
		weir_json_error_at(reader, place, "gre_key", unused, "gre", "gre");
	}
}

static void check_hash_fields(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_config_service *service) {
	if (service->hash_fields == WEIR_HASH_FIELDS_TUPLE) {
		return;
	}
	if (service->affinity.name != WEIR_AFFINITY_NONE) {
		weir_json_error_at(reader, place, "hash_fields",
			"cannot be used with affinity, which hashes the source; remove one of "
			"them");
	} else if (service->policy.name != WEIR_POLICY_MAGLEV) {
		weir_json_error_at(reader, place, "hash_fields",
			"is only used by the policy maglev; remove it, or use \"affinity\"");
	}
}

static void check_udp(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_config_service *service) {
	bool used = service->udp == WEIR_CONFIG_UDP_FLOW;

	for (uint32_t i = 0; i < service->bind_count; i++) {
		used |= service->binds[i].protocol == IPPROTO_UDP;
	}
	if (!used) {
		weir_json_error_at(reader, place, "udp",
			"\"datagram\" is not used, because the service has no UDP bind; remove it");
	}
}

static bool is_prime(uint32_t n) {
	for (uint32_t divisor = 2; divisor * divisor <= n; divisor++) {
		if (n % divisor == 0) {
			return false;
		}
	}
	return n >= 2;
}

static uint32_t next_prime(uint32_t n) {
	while (!is_prime(n)) {
		n++;
	}
	return n;
}

// Checks that the table size is a prime. The error message names the next prime, which always
// exists: the largest allowed size is a prime. Checks the size for every policy, because the policy
// can change at run time.
static void check_table_size(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_config_service *service) {
	if (!is_prime(service->table_size)) {
		weir_json_error_at(reader, place, "table_size", "%u is not a prime; use %u",
			service->table_size, next_prime(service->table_size));
	} else if (service->table_size < service->backend_count) {
		weir_json_error_at(reader, place, "table_size",
			"%u is below the number of backends (%u); use at least %u, preferably "
			"100 for each backend",
			service->table_size, service->backend_count,
			next_prime(service->backend_count));
	}
}

static const struct weir_config_backend *backend_at(const void *list, uint32_t i) {
	return &((const struct weir_config_backend *)list)[i];
}

static int compare_backend_names(const void *a, const void *b, void *list) {
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	int order = strcmp(backend_at(list, x)->name, backend_at(list, y)->name);

	return order ? order : (x > y) - (x < y);
}

static int compare_service_names(const void *a, const void *b, void *list) {
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	const struct weir_config_service *services = list;
	int order = strcmp(services[x].name, services[y].name);

	return order ? order : (x > y) - (x < y);
}

// Returns the indexes 0..n-1 of the elements of a list, sorted by `compare`. NULL = out of memory.
static uint32_t *sorted(struct weir_json_reader *reader, uint32_t n, void *list,
	int (*compare)(const void *, const void *, void *)) {
	uint32_t *order = calloc(n ? n : 1, sizeof(*order));

	if (order == NULL) {
		reader->out_of_memory = true;
		return NULL;
	}
	for (uint32_t i = 0; i < n; i++) {
		order[i] = i;
	}
	qsort_r(order, n, sizeof(*order), compare, list);
	return order;
}

// "steal" needs agents: only the agent of a backend can detect that a connection can still be moved
// to another backend, and that the accept queue is full.
static void check_steal(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_config_service *service) {
	if (!service->steal.enabled) {
		return;
	}
	if (service->agent.port == 0) {
		weir_json_error_at(reader, place, "steal",
			"needs agents on the backends; add \"agent\": {} to the service, or remove "
			"\"steal\"");
	} else if (service->flow_control.accept_queue_percent == 0) {
		weir_json_error_at(reader, place, "steal",
			"needs reports of full accept queues, but "
			"flow_control.accept_queue_percent is 0; use 75");
	}
}

static void check_quorum(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_config_service *service) {
	if (service->hysteresis >= service->quorum && service->hysteresis > 0) {
		weir_json_error_at(reader, place, "hysteresis",
			"must be less than \"quorum\" (%u); otherwise the service is never down",
			service->quorum);
	}
}

void weir_config_check_service(struct weir_json_reader *reader, const struct weir_json_place *place,
	void *into, const struct weir_json_keys_read *read) {
	struct weir_config_service *service = into;
	const struct weir_json_place backends = weir_json_place_member(place, "backends");
	uint32_t *order;

	service->has_closed_ports = weir_json_present(read, "closed_ports");
	service->has_health_check = weir_json_present(read, "health_check");
	if (!weir_json_present(read, "outlier_ejection")) {
		service->outlier_ejection.enabled = false;
	}
	if (!weir_json_present(read, "steal")) {
		service->steal.enabled = false;
	}
	// Only workload "requests" has a limit by default, because a backend with this number of
	// requests in progress is probably overloaded. Other TCP connections may be idle for hours,
	// and a limit would reject users although the backends are healthy.
	if (!service->flow_control.has_max && service->workload == WEIR_WORKLOAD_REQUESTS) {
		service->flow_control.max_active_flows = WEIR_CONFIG_MAX_ACTIVE_REQUESTS;
	}
	if (weir_json_valid(read, "table_size")) {
		check_table_size(reader, place, service);
	}
	if (!weir_json_present(read, "affinity")) {
		service->affinity.name = WEIR_AFFINITY_NONE;
	}
	check_hash_fields(reader, place, service);
	if (weir_json_valid(read, "binds")) {
		check_udp(reader, place, service);
	}
	if (weir_json_valid(read, "forwarding") && weir_json_valid(read, "backends")) {
		check_forwarding(reader, place, service, read);
	}
	weir_config_check_service_agent(reader, place, service, weir_json_present(read, "agent"));
	weir_config_check_service_health(reader, place, service, read);
	check_steal(reader, place, service);
	if (weir_json_valid(read, "quorum") && weir_json_valid(read, "hysteresis")) {
		check_quorum(reader, place, service);
	}
	order = sorted(reader, service->backend_count, service->backends, compare_backend_names);
	for (uint32_t i = 1; order != NULL && i < service->backend_count; i++) {
		const struct weir_config_backend *first = &service->backends[order[i - 1]];
		const struct weir_config_backend *second = &service->backends[order[i]];

		if (second->name[0] && strcmp(first->name, second->name) == 0) {
			struct weir_json_place at = weir_json_place_element(&backends, order[i]);

			weir_json_error_at(reader, &at, "name",
				"\"%s\" is already used by the backend in line %d; backend "
				"names must be unique within a service",
				second->name, first->line);
		}
	}
	free(order);
}

static void check_service_names(struct weir_json_reader *reader,
	const struct weir_json_place *services, const struct weir_config *config) {
	uint32_t *order =
		sorted(reader, config->service_count, config->services, compare_service_names);

	for (uint32_t i = 1; order != NULL && i < config->service_count; i++) {
		const struct weir_config_service *first = &config->services[order[i - 1]];
		const struct weir_config_service *second = &config->services[order[i]];

		if (second->name[0] && strcmp(first->name, second->name) == 0) {
			struct weir_json_place at = weir_json_place_element(services, order[i]);

			weir_json_error_at(reader, &at, "name",
				"\"%s\" is already used by the service in line %d; service "
				"names must be unique",
				second->name, first->line);
		}
	}
	free(order);
}

struct bind_number { // a bind, and the indexes of its service and of the bind in the service
	struct weir_config_bind bind;
	uint32_t service, number;
};

static uint32_t width(const struct weir_config_bind *bind) {
	return (uint32_t)bind->port_last - bind->port_first;
}

static int compare_binds(const void *a, const void *b) {
	const struct bind_number *x = a, *y = b;
	int order = memcmp(&x->bind.address, &y->bind.address, sizeof(x->bind.address));

	if (order) {
		return order;
	}
	if (x->bind.protocol != y->bind.protocol) {
		return x->bind.protocol < y->bind.protocol ? -1 : 1;
	}
	if (width(&x->bind) != width(&y->bind)) {
		return width(&x->bind) < width(&y->bind) ? -1 : 1;
	}
	if (x->bind.port_first != y->bind.port_first) {
		return x->bind.port_first < y->bind.port_first ? -1 : 1;
	}
	if (x->service != y->service) {
		return x->service < y->service ? -1 : 1;
	}
	return x->number < y->number ? -1 : 1;
}

static void complain_bind(struct weir_json_reader *reader, const struct weir_json_place *services,
	const struct bind_number *first, const struct bind_number *second) {
	const bool swap = second->service < first->service ||
			  (second->service == first->service && second->number < first->number);
	const struct bind_number *later = swap ? first : second, *earlier = swap ? second : first;
	const struct weir_json_place service = weir_json_place_element(services, later->service);
	const struct weir_json_place binds = weir_json_place_member(&service, "binds");
	const struct weir_json_place place = weir_json_place_element(&binds, later->number);
	const bool equal = first->bind.port_first == second->bind.port_first;

	weir_json_error(reader, &place, "%s services[%u].binds[%u]; %s",
		equal ? "is the same VIP, protocol and port as"
		      : "overlaps a range of the same width,",
		earlier->service, earlier->number,
		equal ? "remove one of the two"
		      : "change one range: a narrower range takes precedence, equal widths are "
			"ambiguous");
}

// Allocates an array with one element of `bytes` bytes for each bind of each service. NULL: out of
// memory, which is recorded in the reader.
static void *for_each_bind(
	struct weir_json_reader *reader, const struct weir_config *config, size_t bytes) {
	size_t count = 0;
	void *elements;

	for (uint32_t i = 0; i < config->service_count; i++) {
		count += config->services[i].bind_count;
	}
	elements = calloc(count ? count : 1, bytes);
	reader->out_of_memory |= elements == NULL;
	return elements;
}

// Reports ambiguous binds. If two binds overlap, the bind with fewer ports takes precedence; if
// they have the same number of ports, the configuration is ambiguous.
static void check_binds(struct weir_json_reader *reader, const struct weir_json_place *services,
	const struct weir_config *config) {
	struct bind_number *all = for_each_bind(reader, config, sizeof(*all));
	size_t n = 0;

	if (all == NULL) {
		return;
	}
	for (uint32_t i = 0; i < config->service_count; i++) {
		for (uint32_t j = 0; j < config->services[i].bind_count; j++) {
			const struct weir_config_bind *bind = &config->services[i].binds[j];

			if (bind->address.family && bind->protocol && bind->port_last &&
				bind->port_first <= bind->port_last) {
				all[n++] = (struct bind_number){*bind, i, j};
			}
		}
	}
	qsort(all, n, sizeof(*all), compare_binds);
	for (size_t i = 1; i < n; i++) {
		const struct weir_config_bind *a = &all[i - 1].bind, *b = &all[i].bind;

		if (memcmp(&a->address, &b->address, sizeof(a->address)) == 0 &&
			a->protocol == b->protocol && width(a) == width(b) &&
			b->port_first <= a->port_last) {
			complain_bind(reader, services, &all[i - 1], &all[i]);
		}
	}
	free(all);
}

static int compare_addresses(const void *a, const void *b) {
	return memcmp(a, b, sizeof(struct weir_address));
}

// Reports backends with the address of a VIP: packets to such a backend would return to the
// balancer, in a loop.
static void check_loops(struct weir_json_reader *reader, const struct weir_json_place *services,
	const struct weir_config *config) {
	struct weir_address *vip = for_each_bind(reader, config, sizeof(*vip));
	size_t n = 0;

	if (vip == NULL) {
		return;
	}
	for (uint32_t i = 0; i < config->service_count; i++) {
		for (uint32_t j = 0; j < config->services[i].bind_count; j++) {
			vip[n++] = config->services[i].binds[j].address;
		}
	}
	qsort(vip, n, sizeof(*vip), compare_addresses);
	for (uint32_t i = 0; i < config->service_count; i++) {
		const struct weir_config_service *service = &config->services[i];

		for (uint32_t j = 0; j < service->backend_count; j++) {
			const struct weir_address *address = &service->backends[j].address;
			struct weir_json_place at, list, backend;

			if (!address->family ||
				bsearch(address, vip, n, sizeof(*vip), compare_addresses) == NULL) {
				continue;
			}
			at = weir_json_place_element(services, i);
			list = weir_json_place_member(&at, "backends");
			backend = weir_json_place_element(&list, j);
			weir_json_error_at(reader, &backend, "address",
				"is a VIP: packets would come back to the balancer; use an "
				"address of the server itself");
		}
	}
	free(vip);
}

struct vip { // a VIP, and the service that has it
	struct weir_address address;
	uint32_t service;
};

static int compare_vips(const void *a, const void *b) {
	const struct vip *x = a, *y = b;
	int order = compare_addresses(&x->address, &y->address);

	return order ? order : (x->service > y->service) - (x->service < y->service);
}

// If services share a VIP, only the setting of the first service is used for ports without a bind.
// It is an error if a later service sets another value. A later service may omit the key.
static void check_closed_ports(struct weir_json_reader *reader,
	const struct weir_json_place *services, const struct weir_config *config) {
	struct vip *vip = for_each_bind(reader, config, sizeof(*vip));
	const struct vip *first;
	size_t n = 0;

	if (vip == NULL) {
		return;
	}
	for (uint32_t i = 0; i < config->service_count; i++) {
		for (uint32_t j = 0; j < config->services[i].bind_count; j++) {
			vip[n++] = (struct vip){config->services[i].binds[j].address, i};
		}
	}
	qsort(vip, n, sizeof(*vip), compare_vips);
	first = vip;
	for (size_t i = 1; i < n; i++) {
		const struct weir_config_service *later = &config->services[vip[i].service];
		const struct weir_config_service *decides;
		struct weir_json_place at;

		if (!vip[i].address.family ||
			compare_addresses(&first->address, &vip[i].address) != 0) {
			first = &vip[i];
			continue;
		}
		decides = &config->services[first->service];
		if (!later->has_closed_ports || vip[i].service == vip[i - 1].service ||
			later->closed_ports == decides->closed_ports) {
			continue;
		}
		at = weir_json_place_element(services, vip[i].service);
		weir_json_error_at(reader, &at, "closed_ports",
			"is \"%s\", but services[%u] has the same VIP and sets \"%s\"%s; only "
			"the setting of the first service of a VIP is used",
			weir_config_closed_ports_name(later->closed_ports), first->service,
			weir_config_closed_ports_name(decides->closed_ports),
			decides->has_closed_ports ? "" : ", the default");
	}
	free(vip);
}

void weir_config_check_services(struct weir_json_reader *reader, const struct weir_json_place *root,
	const struct weir_config *config) {
	const struct weir_json_place services = weir_json_place_member(root, "services");
	uint64_t backends = 0;

	for (uint32_t i = 0; i < config->service_count; i++) {
		backends += config->services[i].backend_count;
	}
	if (config->segment.max_services && config->service_count > config->segment.max_services) {
		weir_json_error(reader, &services,
			"has %u services, more than segment.max_services (%u); raise it",
			config->service_count, config->segment.max_services);
	}
	if (config->segment.max_backends && backends > config->segment.max_backends) {
		weir_json_error(reader, &services,
			"has %llu backends in total, more than segment.max_backends (%u); raise it",
			(unsigned long long)backends, config->segment.max_backends);
	}
	check_service_names(reader, &services, config);
	check_binds(reader, &services, config);
	check_loops(reader, &services, config);
	check_closed_ports(reader, &services, config);
}

void weir_config_check_root(struct weir_json_reader *reader, const struct weir_json_place *place,
	void *into, const struct weir_json_keys_read *read) {
	const struct weir_config *config = into;

	(void)read;
	weir_config_check_ports(reader, place, config);
	weir_config_check_services(reader, place, config);
	weir_config_check_gcu(reader, place, config);
}

void weir_config_identify_service(const void *element, char *text, size_t bytes) {
	snprintf(text, bytes, "%s", ((const struct weir_config_service *)element)->name);
}

void weir_config_describe_service(const void *element, char *text, size_t bytes) {
	const struct weir_config_service *service = element;

	snprintf(text, bytes, "%u bind%s, %u backend%s, %s", service->bind_count,
		service->bind_count == 1 ? "" : "s", service->backend_count,
		service->backend_count == 1 ? "" : "s", weir_policy_name(service->policy.name));
}

void weir_config_identify_bind(const void *element, char *text, size_t bytes) {
	weir_bind_format(element, text, bytes);
}

void weir_config_identify_backend(const void *element, char *text, size_t bytes) {
	snprintf(text, bytes, "%s", ((const struct weir_config_backend *)element)->name);
}

void weir_config_describe_backend(const void *element, char *text, size_t bytes) {
	const struct weir_config_backend *backend = element;
	char address[INET6_ADDRSTRLEN], weight[16] = "auto";

	weir_address_format(&backend->address, address, sizeof(address));
	if (!backend->weight_auto) {
		snprintf(weight, sizeof(weight), "%u", backend->weight);
	}
	snprintf(text, bytes, "%s weight %s", address, weight);
}
