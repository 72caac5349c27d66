// SPDX-License-Identifier: BSD-3-Clause
//
// removals.c is compared with a simple model. Random reloads move ports of one address between
// services, and remove services and add them again. Drains end, and control is restarted. After
// each step the published table and the states of the services must agree with the model.
#include "tables_lab.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "service_table.h"

#define SERVICES 3
#define PORTS 8
#define FIRST_PORT 1000
#define NOBODY (-1)
#define STEPS 1500
#define SEEDS 4u // WEIR_TEST_SEEDS in the environment sets another number
#define ESTABLISHED_MS 5000u

struct port { // one port, or two consecutive ports
	int owner; // service of the port; NOBODY = the port is not in the table
	bool removed, ended;
};

struct owner {
	bool exists; // whether the service is in the configuration
	bool leaves; // whether the service was removed, and has flows
	bool resets; // whether on_backend_down is "reset"
	uint32_t removed_ms;
	int phase; // enum weir_drain_phase
	uint64_t until_ms;
};

struct model {
	struct port port[PORTS];
	struct owner owner[SERVICES];
	struct weir_config *applied;
	uint64_t now_ms;
	unsigned int seed;
	bool ranges; // whether binds are port ranges instead of single ports
};

static uint32_t pick(struct model *model, uint32_t n) {
	return (uint32_t)rand_r(&model->seed) % n;
}

// --- the model ----------------------------------------------------------------------------

static void begin(struct model *model, int owner) {
	model->owner[owner].phase = WEIR_DRAIN_DRAINING;
	model->owner[owner].until_ms = model->now_ms + model->owner[owner].removed_ms;
}

static bool has_removed(const struct model *model, int owner) {
	for (int p = 0; p < PORTS; p++) {
		if (model->port[p].owner == owner && model->port[p].removed) {
			return true;
		}
	}
	return false;
}

// Withdraw the removed ports of services that have no removal in progress. End the removals of
// services that have no removed ports.
static void settle(struct model *model) {
	for (int p = 0; p < PORTS; p++) {
		struct port *port = &model->port[p];

		if (port->owner != NOBODY && port->removed &&
			model->owner[port->owner].phase == WEIR_DRAIN_NONE) {
			*port = (struct port){.owner = NOBODY};
		}
		if (port->owner != NOBODY && port->removed) {
			port->ended |= model->owner[port->owner].phase == WEIR_DRAIN_DROPPED;
		}
	}
	for (int s = 0; s < SERVICES; s++) {
		if (model->owner[s].exists && !has_removed(model, s)) {
			model->owner[s].phase = WEIR_DRAIN_NONE;
		}
	}
}

static void follow(struct model *model, const int owner[PORTS], const bool exists[SERVICES]) {
	for (int s = 0; s < SERVICES; s++) {
		struct owner *service = &model->owner[s];

		if (service->exists && !exists[s]) {
			service->leaves = true;
			if (service->removed_ms > 0) {
				begin(model, s);
			} else {
				service->phase = WEIR_DRAIN_NONE;
			}
		}
		service->leaves &= !exists[s];
		service->exists = exists[s];
	}
	for (int p = 0; p < PORTS; p++) {
		struct port *port = &model->port[p];

		if (owner[p] != NOBODY) {
			*port = (struct port){.owner = owner[p]};
			continue;
		}
		if (port->owner == NOBODY || port->removed) {
			continue;
		}
		port->removed = true;
		if (model->owner[port->owner].exists && model->owner[port->owner].removed_ms > 0) {
			begin(model, port->owner);
		} else if (model->owner[port->owner].phase == WEIR_DRAIN_NONE) {
			*port = (struct port){.owner = NOBODY};
		}
	}
	settle(model);
}

static uint16_t first_of(int p) {
	return (uint16_t)(FIRST_PORT + 2 * p);
}

static uint16_t last_of(const struct model *model, int p) {
	return first_of(p) + (model->ranges ? 1 : 0);
}

// --- steps --------------------------------------------------------------------------------

static struct weir_config *build(const struct model *model, const int owner[PORTS]) {
	struct weir_config *config = lab_config(SERVICES, 2);

	config->flow_table.established_ms = ESTABLISHED_MS;
	for (int s = SERVICES - 1; s >= 0; s--) {
		struct weir_config_service *service = &config->services[s];

		if (!model->owner[s].exists) {
			lab_remove_service(config, (uint32_t)s);
			continue;
		}
		service->on_backend_down = model->owner[s].resets ? WEIR_ON_BACKEND_DOWN_RESET
								  : WEIR_ON_BACKEND_DOWN_KEEP;
		service->drain.removed_ms = model->owner[s].removed_ms;
		service->binds = realloc(service->binds, (PORTS + 1) * sizeof(*service->binds));
		assert_non_null(service->binds);
		// the service's own address
		service->binds[0].address.bytes[3] = (uint8_t)(100 + s);
		for (int p = 0; p < PORTS; p++) {
			struct weir_config_bind *bind = &service->binds[service->bind_count];

			if (owner[p] != s) {
				continue;
			}
			if (model->ranges && p > 0 && owner[p - 1] == s) {
				bind[-1].port_last = last_of(model, p);
				continue;
			}
			*bind = service->binds[0];
			bind->address.bytes[3] = 0;
			bind->port_first = first_of(p);
			bind->port_last = last_of(model, p);
			service->bind_count++;
		}
	}
	return config;
}

static void reload(struct model *model, struct lab *lab, bool change) {
	static const uint32_t intervals[] = {0, 1000, 1000, 3000};
	bool exists[SERVICES];
	int owner[PORTS];
	struct weir_config *next;

	for (int s = 0; s < SERVICES; s++) {
		exists[s] = model->owner[s].exists;
	}
	if (change && pick(model, 4) == 0) {
		int s = (int)pick(model, SERVICES);

		exists[s] = !exists[s];
	}
	for (int p = 0; p < PORTS; p++) {
		owner[p] = model->port[p].removed ? NOBODY : model->port[p].owner;
		if (change && pick(model, 4) == 0) {
			owner[p] = (int)pick(model, SERVICES + 1) - 1;
		}
		if (owner[p] != NOBODY && !exists[owner[p]]) {
			owner[p] = NOBODY;
		}
	}
	for (int s = 0; change && s < SERVICES; s++) {
		if (exists[s]) { // a removed service keeps its last settings
			model->owner[s].removed_ms = intervals[pick(model, 4)];
			model->owner[s].resets = pick(model, 2);
		}
	}
	follow(model, owner, exists);
	next = build(model, owner);
	lab_apply(lab, next);
	if (model->applied != NULL) {
		lab_config_free(model->applied);
	}
	model->applied = next;
}

static struct weir_service_state state_of(const struct lab *lab, int s) {
	struct weir_service_state state = {0};
	char name[8];

	snprintf(name, sizeof(name), "s%d", s);
	for (uint32_t id = 0; id < weir_tables_service_ids(lab->tables); id++) {
		const char *found = weir_tables_service_name(lab->tables, (uint16_t)id);

		if (found != NULL && strcmp(found, name) == 0) {
			assert_int_equal(weir_tables_service(lab->tables, (uint16_t)id, &state), 0);
			return state;
		}
	}
	state.id = WEIR_SERVICE_NONE;
	return state;
}

static void end(struct model *model, struct lab *lab) {
	int s = (int)pick(model, SERVICES);
	struct owner *owner = &model->owner[s];
	bool drains = owner->phase == WEIR_DRAIN_DRAINING, drained = drains && pick(model, 3) == 0;
	bool refuses = drains && !drained && owner->resets;

	if (owner->phase == WEIR_DRAIN_NONE) {
		return;
	}
	for (int p = 0; p < PORTS; p++) {
		refuses |= drained && model->port[p].owner == s && model->port[p].ended;
	}
	if (!drained && owner->until_ms > model->now_ms) {
		model->now_ms = owner->until_ms + pick(model, 2) * 2 * ESTABLISHED_MS;
		weir_tables_clock(lab->tables, model->now_ms);
	}
	owner->phase = refuses ? WEIR_DRAIN_DROPPED : WEIR_DRAIN_NONE;
	owner->until_ms = refuses ? model->now_ms + ESTABLISHED_MS : 0;
	settle(model);
	assert_true(weir_tables_end_removal(lab->tables, state_of(lab, s).id, drained) >= 0);
}

// Give each backend id one flow, or end all these flows. While a backend has a flow, the id of its
// service is not freed.
static void set_flows(struct lab *lab, bool any) {
	for (uint16_t id = 0; id < 64; id++) {
		lab_set_flows(lab, 0, id, any);
	}
}

static void step(struct model *model, struct lab *lab) {
	uint32_t n = pick(model, 100);

	model->now_ms += pick(model, 500);
	weir_tables_clock(lab->tables, model->now_ms);
	if (n < 40) {
		reload(model, lab, true);
	} else if (n < 70) {
		end(model, lab);
	} else if (n < 80) {
		lab_restart(lab);
		weir_tables_clock(lab->tables, model->now_ms);
		reload(model, lab, n < 75);
	} else {
		lab_quiescent(lab);
		weir_tables_tick(lab->tables);
	}
}

// --- comparison ---------------------------------------------------------------------------

static void check_port(const struct model *model, struct lab *lab, int p, bool last) {
	const uint8_t address[16] = {198, 51};
	const struct port *port = &model->port[p];
	uint16_t bind = weir_service_lookup(
		lab_services(lab), address, 4, IPPROTO_TCP, last ? last_of(model, p) : first_of(p));
	uint16_t flags = !port->removed ? 0 : WEIR_BIND_DRAINED | WEIR_BIND_REMOVED;

	if (port->owner == NOBODY) {
		assert_int_equal(bind, WEIR_SERVICE_NONE);
		return;
	}
	flags |= port->ended ? WEIR_BIND_ENDED : 0;
	assert_int_equal(bind, state_of(lab, port->owner).id | flags);
}

static void check(const struct model *model, struct lab *lab) {
	for (int p = 0; p < PORTS; p++) {
		check_port(model, lab, p, false);
		check_port(model, lab, p, true);
	}
	for (int s = 0; s < SERVICES; s++) {
		const struct owner *owner = &model->owner[s];
		struct weir_service_state state = state_of(lab, s);

		assert_int_equal(state.removal, owner->phase);
		if (owner->phase != WEIR_DRAIN_NONE) {
			assert_int_equal(state.removal_until_ns, owner->until_ms * 1000000);
			assert_int_equal(state.leaving, !owner->exists);
		}
		if (owner->exists) {
			assert_int_not_equal(state.id, WEIR_SERVICE_NONE);
			assert_false(state.leaving);
		}
	}
	assert_int_equal(lab->reader.refusals.refused, 0);
}

TEST(random_removals_agree_with_the_model) {
	const char *text = getenv("WEIR_TEST_SEEDS");
	unsigned int seeds = text != NULL ? (unsigned int)strtoul(text, NULL, 10) : SEEDS;

	for (unsigned int seed = 1; seed <= seeds; seed++) {
		struct model model = {.seed = seed, .now_ms = 1000, .ranges = seed % 2 == 0};
		struct lab lab;

		for (int p = 0; p < PORTS; p++) {
			model.port[p].owner = NOBODY;
		}
		lab_open(&lab, NULL);
		set_flows(&lab, true);
		reload(&model, &lab, true);
		for (int i = 0; i < STEPS; i++) {
			step(&model, &lab);
			assert_true(weir_tables_publish(lab.tables) >= 0);
			check(&model, &lab);
		}
		lab_close(&lab);
		lab_config_free(model.applied);
	}
}
