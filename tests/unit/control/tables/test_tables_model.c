// SPDX-License-Identifier: BSD-3-Clause
//
// Tables are compared with a simple model. Configurations, states, weights, restarts and reports of
// workers are random. After each step all published tables must agree with the model.
#include "tables_lab.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SERVICES 4
#define BACKENDS 6
#define ADDRESSES 3
#define STEPS 6000
#define SEEDS 4u // WEIR_TEST_SEEDS in the environment sets another number

struct model_backend {
	bool exists;
	uint32_t address; // variant of the address
	uint32_t configured, runtime;
	bool backup;
	int admin, health;
	int id; // -1 = id not known yet
};

struct model_service {
	bool exists;
	uint32_t threshold;
	uint32_t below; // backup_below_percent
	struct model_backend backend[BACKENDS];
};

struct owner { // the backend to which an id with flows belongs
	bool pinned;
	int service, backend;
	uint32_t address;
};

struct model {
	struct model_service service[SERVICES];
	struct owner owner[512];
	struct weir_config *applied;
	unsigned int seed;
};

static uint32_t pick(struct model *model, uint32_t n) {
	return (uint32_t)rand_r(&model->seed) % n;
}

static void set_address(struct weir_address *address, uint32_t s, uint32_t b, uint32_t variant) {
	memset(address, 0, sizeof(*address));
	if (variant == 2) {
		address->family = 6;
		memcpy(address->bytes,
			(uint8_t[16]){0x20, 1, 0xd, 0xb8, [14] = (uint8_t)s, [15] = (uint8_t)b},
			16);
	} else {
		address->family = 4;
		memcpy(address->bytes, (uint8_t[4]){10, (uint8_t)s, (uint8_t)variant, (uint8_t)b},
			4);
	}
}

static struct weir_config *build_config(const struct model *model) {
	struct weir_config *config = lab_config(SERVICES, BACKENDS);

	for (int s = SERVICES - 1; s >= 0; s--) {
		const struct model_service *from = &model->service[s];

		config->services[s].panic_threshold_percent = from->threshold;
		config->services[s].backup_below_percent = from->below;
		for (int b = BACKENDS - 1; b >= 0; b--) {
			struct weir_config_backend *backend = &config->services[s].backends[b];

			backend->weight = from->backend[b].configured;
			backend->backup = from->backend[b].backup;
			set_address(&backend->address, (uint32_t)s, (uint32_t)b,
				from->backend[b].address);
			if (!from->backend[b].exists) {
				lab_remove_backend(config, (uint32_t)s, (uint32_t)b);
			}
		}
		if (!from->exists) {
			lab_remove_service(config, (uint32_t)s);
		}
	}
	return config;
}

static void reset_backend(struct model_backend *backend) {
	backend->runtime = WEIR_WEIGHT_UNSET;
	backend->admin = WEIR_ADMIN_READY;
	backend->health = WEIR_HEALTH_HEALTHY; // the services have no health check
	backend->id = -1;
}

// Apply a new configuration to the model.
static void change_configuration(struct model *model) {
	uint32_t s = pick(model, SERVICES), b = pick(model, BACKENDS);
	struct model_service *service = &model->service[s];
	struct model_backend *backend = &service->backend[b];
	uint32_t weight;

	switch (pick(model, 8)) {
	case 0:
		service->exists = !service->exists;
		for (int i = 0; i < BACKENDS; i++) {
			reset_backend(&service->backend[i]);
		}
		break;
	case 1:
	case 2:
		backend->exists = !backend->exists;
		reset_backend(backend);
		break;
	case 3:
		backend->address = (backend->address + 1 + pick(model, ADDRESSES - 1)) % ADDRESSES;
		reset_backend(backend);
		break;
	case 4:
		service->threshold = pick(model, 3) * 50;
		break;
	case 5:
		service->below = pick(model, 5) * 25;
		break;
	case 6:
		backend->backup = !backend->backup;
		break;
	default:
		weight = pick(model, 4) * 50;
		if (weight != backend->configured) {
			backend->configured = weight;
			backend->runtime = WEIR_WEIGHT_UNSET;
		}
		break;
	}
}

static struct model_backend *live_backend(struct model *model, char service[16], char name[16]) {
	uint32_t s = pick(model, SERVICES), b = pick(model, BACKENDS);

	if (!model->service[s].exists || !model->service[s].backend[b].exists) {
		return NULL;
	}
	snprintf(service, 16, "s%u", s);
	snprintf(name, 16, "b%u", b);
	return &model->service[s].backend[b];
}

static void change_state(struct model *model, struct lab *lab) {
	char service[16], name[16];
	struct model_backend *backend = live_backend(model, service, name);
	uint16_t id;

	if (backend == NULL) {
		return;
	}
	id = lab_id(lab, service, name);
	switch (pick(model, 4)) {
	case 0:
		backend->admin = (int)pick(model, 3);
		assert_int_equal(weir_tables_set_admin(lab->tables, id, backend->admin), 0);
		break;
	case 1:
		backend->health = (int)pick(model, 4);
		assert_int_equal(weir_tables_set_health(lab->tables, id, backend->health), 0);
		break;
	case 2:
		backend->runtime = pick(model, 4) == 0 ? WEIR_WEIGHT_UNSET : pick(model, 5) * 25;
		assert_int_equal(weir_tables_set_weight(lab->tables, id, backend->runtime), 0);
		break;
	default: {
		struct weir_next_hop hop = lab_hop((uint8_t)pick(model, 4));

		hop.resolved = pick(model, 4) > 0;
		assert_int_equal(weir_tables_set_next_hop(lab->tables, id, &hop), 0);
	}
	}
}

// Start a flow at an existing backend, or end all flows of an id.
static void change_flows(struct model *model, struct lab *lab) {
	char service[16], name[16];
	struct model_backend *backend = live_backend(model, service, name);
	uint16_t id;

	if (backend != NULL && pick(model, 2)) {
		id = lab_id(lab, service, name);
		model->owner[id] =
			(struct owner){true, service[1] - '0', name[1] - '0', backend->address};
		lab_set_flows(lab, pick(model, LAB_WORKERS), id, 1);
	} else {
		id = (uint16_t)pick(model, 64);
		model->owner[id].pinned = false;
		lab_set_flows(lab, 0, id, 0);
		lab_set_flows(lab, 1, id, 0);
	}
}

static uint32_t effective(const struct model_backend *backend) {
	return backend->runtime != WEIR_WEIGHT_UNSET ? backend->runtime : backend->configured;
}

struct tally { // backends of one kind: primary backends, or backups
	uint32_t any; // could get flows in panic mode
	uint32_t good; // eligible
	uint32_t fair; // healthy or were healthy before
	uint32_t all;
};

static bool could_serve(const struct model_backend *backend) {
	return backend->exists && effective(backend) > 0 &&
	       backend->admin != WEIR_ADMIN_MAINTENANCE;
}

static bool is_good(const struct model_backend *backend) {
	return could_serve(backend) && backend->admin == WEIR_ADMIN_READY &&
	       backend->health == WEIR_HEALTH_HEALTHY;
}

static bool is_fair(const struct model_backend *backend) {
	return is_good(backend) || (could_serve(backend) && backend->admin == WEIR_ADMIN_READY &&
					   backend->health == WEIR_HEALTH_REFUSING);
}

static struct tally tally_of(const struct model_service *service, bool backup) {
	struct tally tally = {0};

	for (int b = 0; b < BACKENDS; b++) {
		const struct model_backend *backend = &service->backend[b];

		if (backend->exists && backend->backup == backup) {
			tally.all++;
			tally.any += could_serve(backend);
			tally.good += is_good(backend);
			tally.fair += is_fair(backend);
		}
	}
	return tally;
}

static bool panics(const struct model_service *service, struct tally tally) {
	return tally.any > 0 &&
	       (tally.fair > 0 ? tally.good * 100 / tally.fair : 0) < service->threshold;
}

// Determine which backends take new flows. The model implements this rule independently of the
// code.
static void expect_members(
	const struct model_service *service, const bool resolved[BACKENDS], bool member[BACKENDS]) {
	const struct tally primaries = tally_of(service, false), backups = tally_of(service, true);
	const struct tally *judged = &primaries; // the backends that decide about panic mode
	bool use_primaries = true, use_backups = false, panic, reachable = false;

	if (backups.good > 0) {
		use_primaries = primaries.good > 0;
		use_backups = primaries.good == 0 ||
			      primaries.good * 100 < service->below * primaries.all;
		judged = &backups;
	} else if (primaries.any == 0) {
		use_primaries = false;
		use_backups = true;
		judged = &backups;
	}
	panic = panics(service, *judged) && (use_backups || backups.good == 0);
	for (int b = 0; b < BACKENDS; b++) {
		const struct model_backend *backend = &service->backend[b];

		member[b] = backend->backup ? use_backups : use_primaries;
		member[b] &= !panic               ? is_good(backend)
			     : judged->good > 0   ? is_fair(backend)
			     : primaries.good > 0 ? is_fair(backend)
						  : could_serve(backend);
		reachable |= member[b] && resolved[b];
	}
	for (int b = 0; b < BACKENDS; b++) {
		member[b] &= !reachable || resolved[b];
	}
}

static void check_row(struct lab *lab, uint16_t id, const struct weir_backend_state *state) {
	struct weir_backend_row row = lab_row(lab, id);
	uint32_t at = state->address.family == 4 ? 14 + 16 : 14 + 24;

	assert_true(row.flags & WEIR_BACKEND_PRESENT);
	assert_int_equal(!!(row.flags & WEIR_BACKEND_RESOLVED), state->resolved);
	assert_int_equal(row.service, state->service_id);
	assert_memory_equal(
		row.header + at, state->address.bytes, state->address.family == 4 ? 4 : 16);
}

// Check that the flags of the row match the expected handling of the backend's flows.
static void check_flags(uint8_t flags, const struct model_backend *backend, bool member) {
	bool down =
		backend->admin == WEIR_ADMIN_MAINTENANCE || backend->health == WEIR_HEALTH_REFUSING;

	assert_int_equal((flags & WEIR_BACKEND_CLOSED) != 0, !member);
	assert_int_equal((flags & WEIR_BACKEND_DOWN) != 0, !member && down);
}

static void check_backend(
	struct model *model, struct lab *lab, int s, int b, bool member, uint32_t total_weight) {
	struct model_backend *backend = &model->service[s].backend[b];
	struct weir_backend_state state;
	struct weir_address address;
	char service[16], name[16];
	uint32_t slots;
	uint16_t id;

	snprintf(service, sizeof(service), "s%d", s);
	snprintf(name, sizeof(name), "b%d", b);
	id = lab_id(lab, service, name);
	if (backend->id >= 0) {
		assert_int_equal(id, backend->id);
	}
	backend->id = id;
	if (model->owner[id].pinned) {
		assert_int_equal(model->owner[id].service, s);
		assert_int_equal(model->owner[id].backend, b);
		assert_int_equal(model->owner[id].address, backend->address);
	}
	state = lab_state(lab, id);
	set_address(&address, (uint32_t)s, (uint32_t)b, backend->address);
	assert_memory_equal(&state.address, &address, sizeof(address));
	assert_int_equal(state.admin, backend->admin);
	assert_int_equal(state.health, backend->health);
	assert_int_equal(state.configured_weight, backend->configured);
	assert_int_equal(state.runtime_weight, backend->runtime);
	assert_int_equal(state.effective_weight, effective(backend));
	assert_int_equal(state.in_selection, member);
	assert_false(state.leaving);
	check_row(lab, id, &state);
	check_flags(lab_row(lab, id).flags, backend, member);
	slots = lab_slots(lab, state.service_id, id);
	assert_int_equal(slots, weir_tables_backend_parts(lab->tables, id));
	if (member) {
		uint32_t ideal = LAB_TABLE_SIZE * effective(backend) / total_weight;

		assert_in_range(slots, ideal > 3 ? ideal - 3 : 0, ideal + 3);
	} else {
		assert_int_equal(slots, 0);
	}
}

static void check(struct model *model, struct lab *lab) {
	for (int s = 0; s < SERVICES; s++) {
		uint32_t total_weight = 0;
		bool member[BACKENDS], resolved[BACKENDS] = {false};
		char name[16], other[16];

		snprintf(name, sizeof(name), "s%d", s);
		if (!model->service[s].exists) {
			assert_int_equal(weir_tables_service_find(lab->tables, name), -ENOENT);
			continue;
		}
		for (int b = 0; b < BACKENDS; b++) {
			snprintf(other, sizeof(other), "b%d", b);
			if (model->service[s].backend[b].exists) {
				resolved[b] = lab_state(lab, lab_id(lab, name, other)).resolved;
			}
		}
		expect_members(&model->service[s], resolved, member);
		for (int b = 0; b < BACKENDS; b++) {
			total_weight += member[b] ? effective(&model->service[s].backend[b]) : 0;
		}
		for (int b = 0; b < BACKENDS; b++) {
			if (model->service[s].backend[b].exists) {
				check_backend(model, lab, s, b, member[b], total_weight);
			} else {
				snprintf(other, sizeof(other), "b%d", b);
				assert_int_equal(weir_tables_backend_find(lab->tables, name, other),
					-ENOENT);
			}
		}
	}
	assert_int_equal(lab->reader.refusals.refused, 0);
}

static void apply(struct model *model, struct lab *lab) {
	struct weir_config *next = build_config(model);

	lab_apply(lab, next);
	if (model->applied != NULL) {
		lab_config_free(model->applied);
	}
	model->applied = next;
}

static void step(struct model *model, struct lab *lab) {
	uint32_t n = pick(model, 100);

	if (n < 25) {
		change_configuration(model);
		apply(model, lab);
	} else if (n < 70) {
		change_state(model, lab);
	} else if (n < 80) {
		change_flows(model, lab);
	} else if (n < 95) {
		lab_quiescent(lab);
		weir_tables_tick(lab->tables);
	} else {
		assert_true(weir_tables_publish(lab->tables) >= 0);
		lab_restart(lab);
		apply(model, lab);
	}
}

TEST(random_operations_agree_with_the_model) {
	const char *text = getenv("WEIR_TEST_SEEDS");
	unsigned int seeds = text != NULL ? (unsigned int)strtoul(text, NULL, 10) : SEEDS;

	for (unsigned int seed = 1; seed <= seeds; seed++) {
		struct model *model = calloc(1, sizeof(*model));
		struct lab lab;

		assert_non_null(model);
		model->seed = seed;
		for (int s = 0; s < SERVICES; s++) {
			model->service[s].threshold = 50;
			for (int b = 0; b < BACKENDS; b++) {
				reset_backend(&model->service[s].backend[b]);
				model->service[s].backend[b].configured = 100;
			}
		}
		lab_open(&lab, NULL);
		apply(model, &lab);
		for (int i = 0; i < STEPS; i++) {
			step(model, &lab);
			assert_true(weir_tables_publish(lab.tables) >= 0);
			check(model, &lab);
		}
		// All flows have ended. All objects of former configurations must be removed.
		for (uint16_t id = 0; id < 512; id++) {
			lab_set_flows(&lab, 0, id, 0);
			lab_set_flows(&lab, 1, id, 0);
		}
		lab_settle(&lab);
		for (uint16_t id = 0; id < weir_tables_backend_ids(lab.tables); id++) {
			struct weir_backend_state found;

			if (weir_tables_backend(lab.tables, id, &found) == 0) {
				assert_false(found.leaving);
			}
		}
		lab_close(&lab);
		lab_config_free(model->applied);
		free(model);
	}
}
