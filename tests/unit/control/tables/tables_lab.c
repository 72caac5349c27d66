// SPDX-License-Identifier: BSD-3-Clause
#include "tables_lab.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct weir_segment *lab_segment(const struct lab_room *room) {
	struct weir_port_info port = {
		.name = "wan",
		.mtu = 1500,
		.mac = {2, 0, 0, 0, 0, 1},
	};
	struct weir_segment_params params = {
		.workers = LAB_WORKERS,
		.ports = 1,
		.max_services = 64,
		.max_backends = 512,
		.heap_bytes = 64 << 20,
		.tsc_hz = 1000000000,
		.hash_seed = 7,
		.port_info = &port,
	};
	struct weir_segment *segment;

	if (room != NULL && room->workers != 0) {
		params.workers = room->workers;
	}
	if (room != NULL && room->max_services != 0) {
		params.max_services = room->max_services;
	}
	if (room != NULL && room->max_backends != 0) {
		params.max_backends = room->max_backends;
	}
	if (room != NULL && room->heap_bytes != 0) {
		params.heap_bytes = room->heap_bytes;
	}
	if (room != NULL) {
		params.bucketing = room->bucketing;
	}
	assert_int_equal(weir_segment_create(&params, &segment), 0);
	return segment;
}

struct weir_segment *lab_attach(const struct weir_segment *segment) {
	struct weir_segment *control;

	assert_int_equal(weir_segment_attach_own(segment, &control), 0);
	return control;
}

static bool adopt_row(void *context, uint16_t backend, const struct weir_backend_row *row) {
	struct lab *lab = context;

	lab->rows[backend] = *row;
	return true;
}

// The dataplane's main thread allocates memory, then the worker reads the tables.
static void settle_worker(struct lab *lab) {
	assert_int_equal(weir_segment_follow(lab->segment), 0);
	weir_reader_settle(&lab->reader);
}

void lab_worker_start(struct lab *lab) {
	lab->rows = calloc(lab->segment->max_backends, sizeof(lab->rows[0]));
	assert_non_null(lab->rows);
	assert_int_equal(weir_reader_init(&lab->reader, lab->segment, 0, adopt_row, lab), 0);
	assert_int_equal(weir_segment_follow(lab->segment), 0);
	weir_reader_online(&lab->reader);
}

void lab_worker_stop(struct lab *lab) {
	weir_reader_offline(&lab->reader);
	weir_reader_fini(&lab->reader);
	free(lab->rows);
}

void lab_open(struct lab *lab, const struct lab_room *room) {
	lab->segment = lab_segment(room);
	lab->control = lab_attach(lab->segment);
	lab_worker_start(lab);
	assert_int_equal(weir_tables_open(lab->control, &lab->tables), 0);
}

void lab_close(struct lab *lab) {
	weir_tables_free(lab->tables);
	lab_worker_stop(lab);
	weir_segment_free(lab->control);
	weir_segment_free(lab->segment);
}

void lab_restart(struct lab *lab) {
	weir_tables_free(lab->tables);
	assert_int_equal(weir_tables_open(lab->control, &lab->tables), 0);
}

void lab_quiescent(struct lab *lab) {
	settle_worker(lab);
	weir_reader_quiescent(&lab->reader);
}

const struct weir_services_view *lab_services(struct lab *lab) {
	settle_worker(lab);
	return weir_reader_services(&lab->reader);
}

const struct weir_selection_view *lab_selection(struct lab *lab, uint16_t service) {
	settle_worker(lab);
	return weir_reader_selection(&lab->reader, service);
}

struct weir_policy_table lab_table_of(const struct lab *lab, uint16_t service, uint32_t worker) {
	struct weir_policy_table table;
	struct weir_reader reader;

	assert_int_equal(weir_reader_init(&reader, lab->segment, worker, NULL, NULL), 0);
	assert_int_equal(weir_segment_follow(lab->segment), 0);
	weir_reader_settle(&reader);
	table = weir_reader_selection(&reader, service)->table;
	assert_int_equal(reader.refusals.refused, 0);
	weir_reader_fini(&reader);
	return table;
}

void lab_settle(struct lab *lab) {
	// The removal of a service takes at most five steps. Each step needs a report of the worker
	// and a tick.
	for (int i = 0; i < 8; i++) {
		lab_quiescent(lab);
		weir_tables_tick(lab->tables);
	}
}

struct weir_config *lab_config(uint32_t services, uint32_t backends) {
	struct weir_config *config = calloc(1, sizeof(*config));

	assert_non_null(config);
	config->segment.max_services = 64;
	config->segment.max_backends = 512;
	config->service_count = services;
	config->services = calloc(services + 1, sizeof(*config->services));
	assert_non_null(config->services);
	for (uint32_t s = 0; s < services; s++) {
		struct weir_config_service *service = &config->services[s];

		snprintf(service->name, sizeof(service->name), "s%u", s);
		service->table_size = LAB_TABLE_SIZE;
		service->panic_threshold_percent = 50;
		service->bind_count = 1;
		service->binds = calloc(1, sizeof(*service->binds));
		assert_non_null(service->binds);
		service->binds[0].address.family = 4;
		memcpy(service->binds[0].address.bytes,
			(uint8_t[4]){198, 51, (uint8_t)(s >> 8), (uint8_t)s}, 4);
		service->binds[0].protocol = IPPROTO_TCP;
		service->binds[0].port_first = 80;
		service->binds[0].port_last = 80;
		service->backend_count = backends;
		service->backends = calloc(backends + 1, sizeof(*service->backends));
		assert_non_null(service->backends);
		for (uint32_t b = 0; b < backends; b++) {
			struct weir_config_backend *backend = &service->backends[b];

			snprintf(backend->name, sizeof(backend->name), "b%u", b);
			backend->weight = 100;
			backend->address.family = 4;
			memcpy(backend->address.bytes,
				(uint8_t[4]){10, (uint8_t)s, (uint8_t)(b >> 8), (uint8_t)b}, 4);
		}
	}
	return config;
}

struct weir_config *lab_config_copy(const struct weir_config *config) {
	struct weir_config *copy = calloc(1, sizeof(*copy));

	assert_non_null(copy);
	*copy = *config;
	copy->services = calloc(config->service_count + 1, sizeof(*copy->services));
	assert_non_null(copy->services);
	for (uint32_t s = 0; s < config->service_count; s++) {
		const struct weir_config_service *from = &config->services[s];
		struct weir_config_service *to = &copy->services[s];

		*to = *from;
		to->binds = calloc(from->bind_count + 1, sizeof(*to->binds));
		to->backends = calloc(from->backend_count + 1, sizeof(*to->backends));
		assert_non_null(to->binds);
		assert_non_null(to->backends);
		memcpy(to->binds, from->binds, from->bind_count * sizeof(*to->binds));
		memcpy(to->backends, from->backends, from->backend_count * sizeof(*to->backends));
	}
	return copy;
}

void lab_config_free(struct weir_config *config) {
	for (uint32_t s = 0; s < config->service_count; s++) {
		free(config->services[s].binds);
		free(config->services[s].backends);
	}
	free(config->services);
	free(config);
}

void lab_remove_backend(struct weir_config *config, uint32_t service, uint32_t index) {
	struct weir_config_service *owner = &config->services[service];

	owner->backend_count--;
	memmove(&owner->backends[index], &owner->backends[index + 1],
		(owner->backend_count - index) * sizeof(*owner->backends));
}

void lab_remove_service(struct weir_config *config, uint32_t service) {
	free(config->services[service].binds);
	free(config->services[service].backends);
	config->service_count--;
	memmove(&config->services[service], &config->services[service + 1],
		(config->service_count - service) * sizeof(*config->services));
}

void lab_apply(struct lab *lab, const struct weir_config *config) {
	char why[256] = "";
	int r = weir_tables_apply(lab->tables, config, why, sizeof(why));

	if (r != 0) {
		fail_msg("apply: %d: %s", r, why);
	}
}

uint16_t lab_id(const struct lab *lab, const char *service, const char *backend) {
	int id = weir_tables_backend_find(lab->tables, service, backend);

	assert_true(id >= 0);
	return (uint16_t)id;
}

struct weir_backend_state lab_state(const struct lab *lab, uint16_t id) {
	struct weir_backend_state state;

	assert_int_equal(weir_tables_backend(lab->tables, id, &state), 0);
	return state;
}

struct weir_backend_row lab_row(struct lab *lab, uint16_t id) {
	settle_worker(lab);
	return lab->rows[id];
}

uint32_t lab_slots(struct lab *lab, uint16_t service, uint16_t backend) {
	const struct weir_selection_view *view = lab_selection(lab, service);
	uint32_t n = 0;

	for (uint32_t i = 0; view->table.slots != NULL && i < view->table.slot_count; i++) {
		assert_true(view->table.slots[i] < view->table.count);
		n += view->table.candidates[view->table.slots[i]].id == backend;
	}
	return n;
}

void lab_published(const struct lab *lab, struct lab_published *ret) {
	memset(ret, 0, sizeof(*ret));
	ret->services = lab->segment->roots->services;
	memcpy(ret->selection, lab->segment->roots->selection,
		lab->segment->max_services * sizeof(ret->selection[0]));
	ret->publications = lab->segment->notes->publications;
}

void lab_assert_published(const struct lab *lab, const struct lab_published *expected) {
	struct lab_published now;

	lab_published(lab, &now);
	assert_memory_equal(&now, expected, sizeof(now));
}

uint32_t lab_publish(struct lab *lab) {
	uint64_t before = lab->segment->notes->publications;

	assert_true(weir_tables_publish(lab->tables) >= 0);
	return (uint32_t)(lab->segment->notes->publications - before);
}

void lab_set_flows(struct lab *lab, uint32_t worker, uint16_t backend, uint64_t flows) {
	weir_segment_backend_counters(lab->segment, worker, backend)->active_flows = flows;
}

struct weir_next_hop lab_hop(uint8_t last) {
	struct weir_next_hop hop = {
		.resolved = true,
		.mac = {2, 0, 0, 0, 1, last},
		.source = {.family = 4, .bytes = {192, 0, 2, 1}},
	};

	return hop;
}

void lab_resolve(struct lab *lab) {
	struct weir_next_hop hop = lab_hop(1);

	for (uint32_t id = 0; id < weir_tables_backend_ids(lab->tables); id++) {
		weir_tables_set_next_hop(lab->tables, (uint16_t)id, &hop);
	}
	assert_true(weir_tables_publish(lab->tables) >= 0);
}
