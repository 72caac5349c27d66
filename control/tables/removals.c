// SPDX-License-Identifier: BSD-3-Clause
//
// Removals: when TCP binds or services are removed from the configuration, they drain until a
// deadline. The list of removed binds is stored only in the published service table, with the flag
// REMOVED. The removed binds are copied from each table to the next table. Therefore a new control
// process finds the removed binds in the published table. It also finds the binds that were removed
// from the configuration file while no control process was running. The phase and the deadline are
// stored in the identity record of the service.
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "service_table.h"
#include "state.h"

bool weir_removal_holds(const struct weir_service_entry *service) {
	return service->stage == WEIR_ID_LEAVING && service->removal != WEIR_DRAIN_NONE;
}

static void begin(struct weir_state *state, uint16_t id) {
	struct weir_service_entry *service = &state->services[id];

	service->removal = WEIR_DRAIN_DRAINING;
	service->removal_until_ns = (state->now_ms + service->removed_ms) * 1000000;
	state->removing = true;
	weir_state_touch_service(state, id);
}

static void end(struct weir_state *state, uint16_t id) {
	state->services[id].removal = WEIR_DRAIN_NONE;
	state->services[id].removal_until_ns = 0;
	weir_state_touch_service(state, id);
}

// Ends the flows of a removed service or of removed binds. Workers then refuse clients for a time
// equal to the timeout of established flows.
static void refuse(struct weir_state *state, uint16_t id) {
	struct weir_service_entry *service = &state->services[id];

	service->removal = WEIR_DRAIN_DROPPED;
	service->removal_until_ns = (state->now_ms + state->established_ms) * 1000000;
	state->removing = true;
	weir_state_touch_service(state, id);
}

void weir_removal_begin(struct weir_state *state, uint16_t id) {
	struct weir_service_entry *service = &state->services[id];
	// True if an earlier process has begun the removal.
	bool begun = service->config == NULL && service->adopted_leaving;
	// True if an operator's drain has already ended the flows.
	bool dropped = service->drain == WEIR_DRAIN_DROPPED;

	if (dropped) {
		service->down_flags = WEIR_BACKEND_RESET;
	}
	if (begun) {
		return;
	}
	if (service->removed_ms == 0) {
		end(state, id);
	} else if (dropped) {
		refuse(state, id);
	} else {
		begin(state, id);
	}
}

// --- the service table ------------------------------------------------------------------------

// Returns whether the removal of a published bind, which is not in the configuration, is in
// progress. Begins its drain if the bind was in the previous configuration and `drain.removed_ms`
// is above 0.
static bool drains(struct weir_state *state, uint16_t bind) {
	const uint16_t id = bind & (uint16_t)~WEIR_BIND_FLAGS;
	struct weir_service_entry *service = &state->services[id];

	if (id >= state->service_ids) {
		return false;
	}
	if (service->stage == WEIR_ID_LIVE && service->config != NULL &&
		(bind & WEIR_BIND_REMOVED) == 0 && service->removed_ms > 0) {
		begin(state, id);
	}
	return (service->stage == WEIR_ID_LIVE || service->stage == WEIR_ID_LEAVING) &&
	       service->removal != WEIR_DRAIN_NONE;
}

// Returns the new flags of a removed bind. bind: its service id and flags in the published table.
// A bind with the flag ENDED keeps this flag, even when another bind of the service begins to
// drain.
static uint16_t flags_of(const struct weir_service_entry *service, uint16_t bind) {
	return WEIR_BIND_DRAINED | WEIR_BIND_REMOVED | (bind & WEIR_BIND_ENDED) |
	       (service->removal == WEIR_DRAIN_DROPPED ? WEIR_BIND_ENDED : 0);
}

struct collection {
	struct weir_state *state;
	const struct weir_services_view *published, *built;
	struct weir_service_bind *bind;
	uint32_t count, room;
};

// Adds a bind to the collection. Returns false if out of memory.
static bool add(struct collection *to, const struct weir_service_bind *bind) {
	const uint16_t id = bind->service & (uint16_t)~WEIR_BIND_FLAGS;
	struct weir_service_bind *added;

	if (to->count == to->room) {
		uint32_t room = to->room > 0 ? 2 * to->room : 16;
		struct weir_service_bind *grown = realloc(to->bind, room * sizeof(*grown));

		if (grown == NULL) {
			return false;
		}
		to->bind = grown;
		to->room = room;
	}
	added = &to->bind[to->count++];
	*added = *bind;
	added->service = id | flags_of(&to->state->services[id], bind->service);
	// If the configuration still contains this VIP, the configuration's setting for closed
	// ports applies.
	added->closed = weir_service_is_vip(to->built, bind->address, bind->family)
				? WEIR_CLOSED_PORTS_KERNEL
				: (uint8_t)weir_service_closed_ports(
					  to->published, bind->address, bind->family);
	return true;
}

static bool is_built(const struct collection *to, const struct weir_service_bind *bind) {
	return weir_service_lookup(to->built, bind->address, bind->family, bind->protocol,
		       bind->port_first) != WEIR_SERVICE_NONE;
}

// Shortens a range at both ends by the ports that have their own bind in the configuration. Returns
// false if no port is left, or if the only port left also has its own published bind, because the
// removed binds would then contain this port twice.
static bool trim(const struct collection *to, struct weir_service_bind *gap) {
	struct weir_service_bind last = *gap;

	while (is_built(to, gap)) {
		if (gap->port_first == gap->port_last) {
			return false;
		}
		gap->port_first++;
	}
	for (last.port_first = last.port_last; is_built(to, &last); last.port_first--) {
		gap->port_last = last.port_first - 1;
	}
	return gap->port_first != gap->port_last ||
	       !weir_service_is_port(
		       to->published, gap->address, gap->family, gap->protocol, gap->port_first);
}

// Adds the ports of a published bind that have no bind in the configuration. An added range may
// include a port that the configuration contains as a single-port bind; lookups then find the
// single-port bind. Returns false if out of memory.
static bool add_gaps(struct collection *to, const struct weir_service_bind *bind) {
	struct weir_service_bind gap = *bind, ports;

	if (bind->port_first == bind->port_last) {
		return is_built(to, bind) || !drains(to->state, bind->service) || add(to, bind);
	}
	while (weir_service_gap(to->built, bind->address, bind->family, bind->protocol,
		&gap.port_first, &gap.port_last)) {
		ports = gap;
		if (trim(to, &ports) && drains(to->state, ports.service) && !add(to, &ports)) {
			return false;
		}
		if (gap.port_last >= bind->port_last) {
			break;
		}
		gap.port_first = gap.port_last + 1;
		gap.port_last = bind->port_last;
	}
	return true;
}

int weir_removals_collect(struct weir_state *state, const struct weir_services_view *published,
	const struct weir_services_view *built, struct weir_service_bind **ret, uint32_t *ret_n) {
	struct collection to = {.state = state, .published = published, .built = built};
	struct weir_service_cursor cursor = {0};
	struct weir_service_bind bind;

	while (weir_service_next(published, &cursor, &bind)) {
		// Collect only TCP binds, because UDP flows of a removed bind end immediately.
		if (bind.protocol == IPPROTO_TCP && bind.port_first <= bind.port_last &&
			!add_gaps(&to, &bind)) {
			free(to.bind);
			return -ENOMEM;
		}
	}
	*ret = to.bind;
	*ret_n = to.count;
	return 0;
}

static struct weir_config_bind bind_of(const struct weir_service_bind *bind) {
	struct weir_config_bind ret = {.address = {.family = bind->family},
		.protocol = bind->protocol,
		.port_first = bind->port_first,
		.port_last = bind->port_last};

	memcpy(ret.address.bytes, bind->address, sizeof(ret.address.bytes));
	return ret;
}

void weir_removals_settle(
	struct weir_state *state, const struct weir_service_bind *removed, uint32_t n) {
	for (uint32_t id = 0; id < state->service_ids; id++) {
		state->services[id].removed_binds = 0;
		state->services[id].removed_ended = false;
	}
	for (uint32_t i = 0; i < n; i++) {
		struct weir_service_entry *service =
			&state->services[removed[i].service & (uint16_t)~WEIR_BIND_FLAGS];

		if (service->removed_binds < WEIR_TABLES_FIRST_REMOVED) {
			service->removed_first[service->removed_binds] = bind_of(&removed[i]);
		}
		service->removed_binds++;
		service->removed_ended |= (removed[i].service & WEIR_BIND_ENDED) != 0;
	}
	state->removed_binds = n;
	for (uint32_t id = 0; state->removing && id < state->service_ids; id++) {
		const struct weir_service_entry *service = &state->services[id];
		const bool drains = service->removal == WEIR_DRAIN_DRAINING;

		// Do not end the removal of a removed service that is draining: even without binds,
		// its flows have a deadline.
		if (service->removal != WEIR_DRAIN_NONE && service->removed_binds == 0 &&
			(service->stage == WEIR_ID_LIVE || !drains)) {
			end(state, (uint16_t)id);
		}
	}
}

// --- for callers ------------------------------------------------------------------------------

uint32_t weir_tables_removed_count(const struct weir_tables *tables) {
	return tables->state->removed_binds;
}

uint32_t weir_tables_first_removed(const struct weir_tables *tables, uint16_t id,
	struct weir_config_bind ret[WEIR_TABLES_FIRST_REMOVED]) {
	const struct weir_service_entry *service = &tables->state->services[id];
	uint32_t n = id < tables->state->service_ids ? service->removed_binds : 0;

	n = n < WEIR_TABLES_FIRST_REMOVED ? n : WEIR_TABLES_FIRST_REMOVED;
	memcpy(ret, service->removed_first, n * sizeof(ret[0]));
	return n;
}

int weir_tables_next_removal(const struct weir_tables *tables, uint32_t from) {
	const struct weir_state *state = tables->state;

	for (uint32_t id = from; state->removing && id < state->service_ids; id++) {
		if (state->services[id].removal != WEIR_DRAIN_NONE) {
			return (int)id;
		}
	}
	return -ENOENT;
}

// Marks all backends of a removed service as down.
static void end_service(struct weir_state *state, const struct weir_service_entry *service) {
	for (uint16_t link = service->first; link != 0; link = state->backends[link - 1].next) {
		state->backends[link - 1].flags =
			WEIR_BACKEND_CLOSED | WEIR_BACKEND_DOWN | service->down_flags;
		weir_state_mark_backend(state, link - 1);
	}
}

int weir_tables_end_removal(struct weir_tables *tables, uint16_t id, bool drained) {
	struct weir_state *state = tables->state;
	struct weir_service_entry *service = &state->services[id];
	bool drains, drops;

	// Do nothing without a configuration, because then nothing can be published and the timeout
	// of flows is unknown.
	if (id >= state->service_ids || service->removal == WEIR_DRAIN_NONE ||
		tables->config == NULL) {
		return -ENOENT;
	}
	drains = service->removal == WEIR_DRAIN_DRAINING;
	drops = drains && !drained && service->down_flags == WEIR_BACKEND_RESET;
	state->services_dirty = true;
	if (service->stage != WEIR_ID_LIVE) {
		end_service(state, service);
	}
	// If clients of binds that were removed earlier are still refused, refuse all clients of
	// removed binds, even if no flow is left.
	if (drops || (drains && drained && service->removed_ended)) {
		refuse(state, id);
	} else {
		end(state, id);
	}
	return drained ? WEIR_DRAIN_DRAINED : drops ? WEIR_DRAIN_DROPPED : WEIR_DRAIN_KEPT;
}
