// SPDX-License-Identifier: BSD-3-Clause
#include "difference.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES 320
#define WHAT_BYTES 512

enum field_type {
	FIELD_TEXT,
	FIELD_U16,
	FIELD_U32,
	FIELD_U64,
	FIELD_SEED,
	FIELD_BOOL,
	FIELD_ADDRESS,
	FIELD_IDLE,
	FIELD_POLICY,
	FIELD_WEIGHTS,
	FIELD_STATISTIC,
	FIELD_MEASUREMENT,
	FIELD_SERVICE_TIME,
	FIELD_ROUNDS,
	FIELD_WORKLOAD,
	FIELD_WHEN_EXHAUSTED,
	FIELD_SUBSET,
	FIELD_SUBSET_MODE,
	FIELD_SUBSET_CLIENT,
	FIELD_FORWARDING,
	FIELD_CHECK,
};

struct field {
	const char *name; // as in the file
	size_t offset;
	enum field_type type;
};

#define FIELD(structure, name, member, type) {name, offsetof(struct structure, member), type}

static const struct field instance_fields[] = {
	FIELD(weir_config_instance, "name", name, FIELD_TEXT),
	FIELD(weir_config_instance, "hash_seed", hash_seed, FIELD_SEED),
	{NULL, 0, 0},
};

// Where the instance stands in its fleet: control alone uses it, for subsets.
static const struct field place_fields[] = {
	FIELD(weir_config_instance, "client_id", client_id, FIELD_U32),
	FIELD(weir_config_instance, "clients", clients, FIELD_U32),
	FIELD(weir_config_instance, "member", member, FIELD_U32),
	FIELD(weir_config_instance, "members", members, FIELD_U32),
	{NULL, 0, 0},
};

static const struct field workers_fields[] = {
	FIELD(weir_config_workers, "idle", idle, FIELD_IDLE),
	{NULL, 0, 0},
};

static const struct field flow_table_fields[] = {
	FIELD(weir_config_flow_table, "flows_per_worker", flows_per_worker, FIELD_U32),
	FIELD(weir_config_flow_table, "half_open_percent", half_open_percent, FIELD_U32),
	FIELD(weir_config_flow_table, "timeout_ms syn_seen", syn_seen_ms, FIELD_U32),
	FIELD(weir_config_flow_table, "timeout_ms established", established_ms, FIELD_U32),
	FIELD(weir_config_flow_table, "timeout_ms closing", closing_ms, FIELD_U32),
	FIELD(weir_config_flow_table, "timeout_ms udp", udp_ms, FIELD_U32),
	{NULL, 0, 0},
};

static const struct field segment_fields[] = {
	FIELD(weir_config_segment, "max_services", max_services, FIELD_U32),
	FIELD(weir_config_segment, "max_backends", max_backends, FIELD_U32),
	FIELD(weir_config_segment, "heap_bytes", heap_bytes, FIELD_U64),
	FIELD(weir_config_segment, "huge_pages", huge_pages, FIELD_BOOL),
	{NULL, 0, 0},
};

// Of a port, what the dataplane reads when it starts, and what control alone uses.
static const struct field port_restart_fields[] = {
	FIELD(weir_config_port, "device", device, FIELD_TEXT),
	FIELD(weir_config_port, "exception", exception, FIELD_TEXT),
	FIELD(weir_config_port, "mtu", mtu, FIELD_U16),
	FIELD(weir_config_port, "vlan", vlan, FIELD_U16),
	FIELD(weir_config_port, "queues", queues, FIELD_U16),
	{NULL, 0, 0},
};

static const struct field port_fields[] = {
	FIELD(weir_config_port, "source_ipv4", source_ipv4, FIELD_ADDRESS),
	FIELD(weir_config_port, "source_ipv6", source_ipv6, FIELD_ADDRESS),
	{NULL, 0, 0},
};

static const struct field service_fields[] = {
	FIELD(weir_config_service, "policy", policy.name, FIELD_POLICY),
	FIELD(weir_config_service, "policy weights", policy.weights, FIELD_WEIGHTS),
	FIELD(weir_config_service, "policy statistic", policy.statistic, FIELD_STATISTIC),
	FIELD(weir_config_service, "policy window", policy.window, FIELD_U32),
	FIELD(weir_config_service, "policy measurement", policy.measurement, FIELD_MEASUREMENT),
	FIELD(weir_config_service, "policy service_time", policy.service_time, FIELD_SERVICE_TIME),
	FIELD(weir_config_service, "policy stale_ms", policy.stale_ms, FIELD_U32),
	FIELD(weir_config_service, "policy rounds", policy.rounds, FIELD_ROUNDS),
	FIELD(weir_config_service, "policy error_window_ms", policy.error_window_ms, FIELD_U32),
	FIELD(weir_config_service, "workload", workload, FIELD_WORKLOAD),
	FIELD(weir_config_service, "flow_control max_active_flows", flow_control.max_active_flows,
		FIELD_U32),
	FIELD(weir_config_service, "flow_control when_exhausted", flow_control.when_exhausted,
		FIELD_WHEN_EXHAUSTED),
	FIELD(weir_config_service, "subset algorithm", subset.algorithm, FIELD_SUBSET),
	FIELD(weir_config_service, "subset size", subset.size, FIELD_U32),
	FIELD(weir_config_service, "subset mode", subset.mode, FIELD_SUBSET_MODE),
	FIELD(weir_config_service, "subset client", subset.client, FIELD_SUBSET_CLIENT),
	FIELD(weir_config_service, "subset salt", subset.salt, FIELD_U32),
	FIELD(weir_config_service, "forwarding", forwarding, FIELD_FORWARDING),
	FIELD(weir_config_service, "table_size", table_size, FIELD_U32),
	FIELD(weir_config_service, "panic_threshold_percent", panic_threshold_percent, FIELD_U32),
	{NULL, 0, 0},
};

static const struct field check_fields[] = {
	FIELD(weir_config_health_check, "type", type, FIELD_CHECK),
	FIELD(weir_config_health_check, "path", path, FIELD_TEXT),
	FIELD(weir_config_health_check, "host", host, FIELD_TEXT),
	FIELD(weir_config_health_check, "port", port, FIELD_U16),
	FIELD(weir_config_health_check, "status_first", status_first, FIELD_U16),
	FIELD(weir_config_health_check, "status_last", status_last, FIELD_U16),
	FIELD(weir_config_health_check, "interval_ms", interval_ms, FIELD_U32),
	FIELD(weir_config_health_check, "timeout_ms", timeout_ms, FIELD_U32),
	FIELD(weir_config_health_check, "rise", rise, FIELD_U32),
	FIELD(weir_config_health_check, "fall", fall, FIELD_U32),
	{NULL, 0, 0},
};

static const struct field backend_fields[] = {
	FIELD(weir_config_backend, "address", address, FIELD_ADDRESS),
	FIELD(weir_config_backend, "weight", weight, FIELD_U32),
	{NULL, 0, 0},
};

static void format_address(const struct weir_address *address, char *text, size_t bytes) {
	if (address->family == 0) {
		snprintf(text, bytes, "none");
	} else {
		weir_address_format(address, text, bytes);
	}
}

// The name of a choice, or NULL for the other types.
static const char *choice_name(enum field_type type, const void *value) {
#define NAME(of, enumeration) weir_##of##_name(*(const enum enumeration *)value)
	switch (type) {
	case FIELD_IDLE:
		return *(const enum weir_config_idle *)value == WEIR_IDLE_POLL ? "poll" : "yield";
	case FIELD_POLICY:
		return NAME(policy, weir_policy);
	case FIELD_WEIGHTS:
		return NAME(config_weights, weir_config_weights);
	case FIELD_STATISTIC:
		return NAME(config_statistic, weir_config_statistic);
	case FIELD_MEASUREMENT:
		return NAME(config_measurement, weir_config_measurement);
	case FIELD_SERVICE_TIME:
		return NAME(config_service_time, weir_config_service_time);
	case FIELD_ROUNDS:
		return NAME(config_rounds, weir_config_rounds);
	case FIELD_WORKLOAD:
		return NAME(config_workload, weir_config_workload);
	case FIELD_WHEN_EXHAUSTED:
		return NAME(config_when_exhausted, weir_when_exhausted);
	case FIELD_SUBSET:
		return NAME(subset, weir_subset_algorithm);
	case FIELD_SUBSET_MODE:
		return NAME(subset_mode, weir_subset_mode);
	case FIELD_SUBSET_CLIENT:
		return NAME(subset_client, weir_subset_client);
	case FIELD_FORWARDING:
		return NAME(config_forwarding, weir_config_forwarding);
	case FIELD_CHECK:
		return NAME(config_check, weir_config_check);
	default:
		return NULL;
	}
#undef NAME
}

static void format_field(
	const struct field *field, const void *structure, char *text, size_t bytes) {
	const void *value = (const char *)structure + field->offset;

	switch (field->type) {
	case FIELD_TEXT:
		snprintf(text, bytes, "%s", (const char *)value);
		break;
	case FIELD_U16:
		snprintf(text, bytes, "%u", *(const uint16_t *)value);
		break;
	case FIELD_U32:
		snprintf(text, bytes, "%u", *(const uint32_t *)value);
		break;
	case FIELD_U64:
		snprintf(text, bytes, "%llu", (unsigned long long)*(const uint64_t *)value);
		break;
	case FIELD_SEED:
		snprintf(text, bytes, "0x%llx", (unsigned long long)*(const uint64_t *)value);
		break;
	case FIELD_BOOL:
		snprintf(text, bytes, "%s", *(const bool *)value ? "true" : "false");
		break;
	case FIELD_ADDRESS:
		format_address(value, text, bytes);
		break;
	default:
		snprintf(text, bytes, "%s", choice_name(field->type, value));
		break;
	}
}

// --- collecting ---------------------------------------------------------------------------

struct collector {
	struct weir_difference difference;
	uint32_t room;
	bool failed; // out of memory
};

// from or to NULL: there is none.
static void note(struct collector *collector, enum weir_change_kind kind, bool needs_restart,
	const char *what, const char *from, const char *to) {
	struct weir_difference *difference = &collector->difference;
	struct weir_change change = {.kind = kind, .needs_restart = needs_restart};

	if (difference->count == collector->room) {
		uint32_t room = collector->room * 2 + 16;
		struct weir_change *grown =
			realloc(difference->change, room * sizeof(difference->change[0]));

		if (grown == NULL) {
			collector->failed = true;
			return;
		}
		difference->change = grown;
		collector->room = room;
	}
	change.what = strdup(what);
	change.from = from != NULL ? strdup(from) : NULL;
	change.to = to != NULL ? strdup(to) : NULL;
	if (change.what == NULL || (from != NULL && change.from == NULL) ||
		(to != NULL && change.to == NULL)) {
		collector->failed = true;
	}
	difference->change[difference->count++] = change;
}

static void compare_text(struct collector *collector, bool needs_restart, const char *of,
	const char *name, const char *from, const char *to) {
	char what[WHAT_BYTES];

	if (strcmp(from, to) != 0) {
		snprintf(what, sizeof(what), "%s %s", of, name);
		note(collector, WEIR_CHANGE_CHANGE, needs_restart, what, from, to);
	}
}

static void compare_fields(struct collector *collector, bool needs_restart, const char *of,
	const struct field *fields, const void *from, const void *to) {
	char before[TEXT_BYTES], after[TEXT_BYTES];

	for (const struct field *field = fields; field->name != NULL; field++) {
		format_field(field, from, before, sizeof(before));
		format_field(field, to, after, sizeof(after));
		compare_text(collector, needs_restart, of, field->name, before, after);
	}
}

// --- finding what has the same name ---------------------------------------------------------

// Elements begin with their name (asserted below), so that one comparison serves all. Sorting
// keeps 10,000 backends from being compared with 10,000 others.
_Static_assert(offsetof(struct weir_config_port, name) == 0, "name first");
_Static_assert(offsetof(struct weir_config_service, name) == 0, "name first");
_Static_assert(offsetof(struct weir_config_backend, name) == 0, "name first");

struct by_name {
	const char **element; // sorted
	uint32_t count;
};

static int order_by_name(const void *a, const void *b) {
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int by_name_init(struct by_name *index, const void *array, uint32_t count, size_t bytes) {
	index->count = count;
	index->element = calloc(count > 0 ? count : 1, sizeof(index->element[0]));
	if (index->element == NULL) {
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < count; i++) {
		index->element[i] = (const char *)array + i * bytes;
	}
	qsort(index->element, count, sizeof(index->element[0]), order_by_name);
	return 0;
}

static const void *by_name_find(const struct by_name *index, const char *name) {
	const char **found = bsearch(
		&name, index->element, index->count, sizeof(index->element[0]), order_by_name);

	return found != NULL ? *found : NULL;
}

// Two named lists: `removed` for what is only in from, `added` for what is only in to, `kept` for
// both.
struct named_lists {
	const void *from, *to;
	uint32_t from_count, to_count;
	size_t bytes; // of an element
	const char *of; // what they belong to
	void (*removed)(struct collector *collector, const char *of, const void *from);
	void (*added)(struct collector *collector, const char *of, const void *to);
	void (*kept)(struct collector *collector, const char *of, const void *from, const void *to);
};

static void compare_lists(struct collector *collector, const struct named_lists *lists) {
	struct by_name before = {0}, after = {0};

	if (by_name_init(&before, lists->from, lists->from_count, lists->bytes) < 0 ||
		by_name_init(&after, lists->to, lists->to_count, lists->bytes) < 0) {
		collector->failed = true;
		goto free_indexes;
	}
	for (uint32_t i = 0; i < lists->from_count; i++) {
		const char *element = (const char *)lists->from + i * lists->bytes;

		if (by_name_find(&after, element) == NULL) {
			lists->removed(collector, lists->of, element);
		}
	}
	for (uint32_t i = 0; i < lists->to_count; i++) {
		const char *element = (const char *)lists->to + i * lists->bytes;
		const void *former = by_name_find(&before, element);

		if (former == NULL) {
			lists->added(collector, lists->of, element);
		} else {
			lists->kept(collector, lists->of, former, element);
		}
	}
free_indexes:
	free(before.element);
	free(after.element);
}

// --- backends -----------------------------------------------------------------------------

static void describe_backend(const struct weir_config_backend *backend, char *text, size_t bytes) {
	char address[INET6_ADDRSTRLEN];

	weir_address_format(&backend->address, address, sizeof(address));
	snprintf(text, bytes, "%s weight %u", address, backend->weight);
}

static void backend_removed(struct collector *collector, const char *of, const void *from) {
	const struct weir_config_backend *backend = from;
	char what[TEXT_BYTES], text[TEXT_BYTES];

	snprintf(what, sizeof(what), "%s backend %s", of, backend->name);
	describe_backend(backend, text, sizeof(text));
	note(collector, WEIR_CHANGE_REMOVE, false, what, text, NULL);
}

static void backend_added(struct collector *collector, const char *of, const void *to) {
	const struct weir_config_backend *backend = to;
	char what[TEXT_BYTES], text[TEXT_BYTES];

	snprintf(what, sizeof(what), "%s backend %s", of, backend->name);
	describe_backend(backend, text, sizeof(text));
	note(collector, WEIR_CHANGE_ADD, false, what, NULL, text);
}

static void backend_kept(
	struct collector *collector, const char *of, const void *from, const void *to) {
	const struct weir_config_backend *backend = to;
	char what[TEXT_BYTES];

	snprintf(what, sizeof(what), "%s backend %s", of, backend->name);
	compare_fields(collector, false, what, backend_fields, from, to);
}

// --- services -----------------------------------------------------------------------------

static bool has_bind(const struct weir_config_service *service, const char *text) {
	char other[WEIR_BIND_TEXT_BYTES];

	for (uint32_t i = 0; i < service->bind_count; i++) {
		if (strcmp(weir_bind_format(&service->binds[i], other, sizeof(other)), text) == 0) {
			return true;
		}
	}
	return false;
}

static void compare_binds(struct collector *collector, const char *of,
	const struct weir_config_service *from, const struct weir_config_service *to) {
	char text[WEIR_BIND_TEXT_BYTES], what[WHAT_BYTES];

	for (uint32_t i = 0; i < from->bind_count; i++) {
		weir_bind_format(&from->binds[i], text, sizeof(text));
		if (!has_bind(to, text)) {
			snprintf(what, sizeof(what), "%s bind %s", of, text);
			note(collector, WEIR_CHANGE_REMOVE, false, what, NULL, NULL);
		}
	}
	for (uint32_t i = 0; i < to->bind_count; i++) {
		weir_bind_format(&to->binds[i], text, sizeof(text));
		if (!has_bind(from, text)) {
			snprintf(what, sizeof(what), "%s bind %s", of, text);
			note(collector, WEIR_CHANGE_ADD, false, what, NULL, NULL);
		}
	}
}

static void describe_service(const struct weir_config_service *service, char *text, size_t bytes) {
	snprintf(text, bytes, "%u bind%s, %u backend%s, %s", service->bind_count,
		service->bind_count == 1 ? "" : "s", service->backend_count,
		service->backend_count == 1 ? "" : "s", weir_policy_name(service->policy.name));
}

static void service_removed(struct collector *collector, const char *of, const void *from) {
	const struct weir_config_service *service = from;
	char what[TEXT_BYTES], text[TEXT_BYTES];

	(void)of;
	snprintf(what, sizeof(what), "service %s", service->name);
	describe_service(service, text, sizeof(text));
	note(collector, WEIR_CHANGE_REMOVE, false, what, text, NULL);
}

static void service_added(struct collector *collector, const char *of, const void *to) {
	const struct weir_config_service *service = to;
	char what[TEXT_BYTES], text[TEXT_BYTES];

	(void)of;
	snprintf(what, sizeof(what), "service %s", service->name);
	describe_service(service, text, sizeof(text));
	note(collector, WEIR_CHANGE_ADD, false, what, NULL, text);
}

static void service_kept(
	struct collector *collector, const char *of, const void *from, const void *to) {
	const struct weir_config_service *before = from, *after = to;
	char what[TEXT_BYTES], check[TEXT_BYTES];
	struct named_lists backends = {
		.from = before->backends,
		.to = after->backends,
		.from_count = before->backend_count,
		.to_count = after->backend_count,
		.bytes = sizeof(struct weir_config_backend),
		.of = what,
		.removed = backend_removed,
		.added = backend_added,
		.kept = backend_kept,
	};

	(void)of;
	snprintf(what, sizeof(what), "service %s", after->name);
	snprintf(check, sizeof(check), "service %s health_check", after->name);
	compare_binds(collector, what, before, after);
	compare_fields(collector, false, what, service_fields, before, after);
	compare_fields(
		collector, false, check, check_fields, &before->health_check, &after->health_check);
	compare_lists(collector, &backends);
}

// --- what the dataplane reads ---------------------------------------------------------------

static void port_removed(struct collector *collector, const char *of, const void *from) {
	const struct weir_config_port *port = from;
	char what[TEXT_BYTES];

	(void)of;
	snprintf(what, sizeof(what), "port %s", port->name);
	note(collector, WEIR_CHANGE_REMOVE, true, what, port->device, NULL);
}

static void port_added(struct collector *collector, const char *of, const void *to) {
	const struct weir_config_port *port = to;
	char what[TEXT_BYTES];

	(void)of;
	snprintf(what, sizeof(what), "port %s", port->name);
	note(collector, WEIR_CHANGE_ADD, true, what, NULL, port->device);
}

static void format_gateway(const struct weir_config_port *port, char *text, size_t bytes) {
	const uint8_t *mac = port->gateway_mac;

	if (port->has_gateway_mac) {
		snprintf(text, bytes, "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2],
			mac[3], mac[4], mac[5]);
	} else {
		snprintf(text, bytes, "none");
	}
}

static void port_kept(
	struct collector *collector, const char *of, const void *from, const void *to) {
	const struct weir_config_port *before = from, *after = to;
	char what[TEXT_BYTES], mac_before[32], mac_after[32];

	(void)of;
	snprintf(what, sizeof(what), "port %s", after->name);
	compare_fields(collector, true, what, port_restart_fields, before, after);
	compare_fields(collector, false, what, port_fields, before, after);
	format_gateway(before, mac_before, sizeof(mac_before));
	format_gateway(after, mac_after, sizeof(mac_after));
	compare_text(collector, false, what, "gateway_mac", mac_before, mac_after);
}

static void format_cores(const struct weir_config_workers *workers, char *text, size_t bytes) {
	size_t used = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < workers->count && used < bytes; i++) {
		used += (size_t)snprintf(
			text + used, bytes - used, i == 0 ? "%u" : ",%u", workers->cores[i]);
	}
}

// A port's index is part of the segment: the same ports in another order are other ports.
static void compare_port_order(
	struct collector *collector, const struct weir_config *from, const struct weir_config *to) {
	if (from->port_count != to->port_count) {
		return; // listed already as added or removed
	}
	for (uint32_t i = 0; i < from->port_count; i++) {
		char what[TEXT_BYTES];

		snprintf(what, sizeof(what), "port number %u", i);
		if (strcmp(from->ports[i].name, to->ports[i].name) != 0) {
			note(collector, WEIR_CHANGE_CHANGE, true, what, from->ports[i].name,
				to->ports[i].name);
		}
	}
}

static void compare_dataplane(
	struct collector *collector, const struct weir_config *from, const struct weir_config *to) {
	char before[TEXT_BYTES], after[TEXT_BYTES];
	struct named_lists ports = {
		.from = from->ports,
		.to = to->ports,
		.from_count = from->port_count,
		.to_count = to->port_count,
		.bytes = sizeof(struct weir_config_port),
		.of = "",
		.removed = port_removed,
		.added = port_added,
		.kept = port_kept,
	};

	compare_fields(
		collector, true, "instance", instance_fields, &from->instance, &to->instance);
	compare_fields(collector, false, "instance", place_fields, &from->instance, &to->instance);
	compare_lists(collector, &ports);
	compare_port_order(collector, from, to);
	format_cores(&from->workers, before, sizeof(before));
	format_cores(&to->workers, after, sizeof(after));
	compare_text(collector, true, "workers", "cores", before, after);
	compare_fields(collector, true, "workers", workers_fields, &from->workers, &to->workers);
	compare_fields(collector, true, "flow_table", flow_table_fields, &from->flow_table,
		&to->flow_table);
	compare_fields(collector, true, "segment", segment_fields, &from->segment, &to->segment);
}

int weir_difference_compute(
	const struct weir_config *from, const struct weir_config *to, struct weir_difference *ret) {
	struct collector collector = {0};
	struct named_lists services = {
		.from = from != NULL ? from->services : NULL,
		.to = to->services,
		.from_count = from != NULL ? from->service_count : 0,
		.to_count = to->service_count,
		.bytes = sizeof(struct weir_config_service),
		.of = "",
		.removed = service_removed,
		.added = service_added,
		.kept = service_kept,
	};

	if (from != NULL) {
		compare_dataplane(&collector, from, to);
	}
	compare_lists(&collector, &services);
	if (collector.failed) {
		weir_difference_fini(&collector.difference);
		return -ENOMEM;
	}
	*ret = collector.difference;
	return 0;
}

void weir_difference_fini(struct weir_difference *difference) {
	for (uint32_t i = 0; i < difference->count; i++) {
		free(difference->change[i].what);
		free(difference->change[i].from);
		free(difference->change[i].to);
	}
	free(difference->change);
	*difference = (struct weir_difference){0};
}
