// SPDX-License-Identifier: BSD-3-Clause
#include <string.h>

#include "state.h"

// Bit of `state` in struct weir_identity_backend and struct weir_identity_service.
#define LEAVING (1u << 24)

// Bits of `state` in struct weir_identity_backend.
#define ADMIN_SHIFT 8
#define HEALTH_SHIFT 16
#define PROVEN (1u << 25)
#define DRAIN_SHIFT 26 // 3 bits
#define DRAIN_BITS 7u
#define WEIGHT_AUTO (1u << 29) // configured_weight is the automatic weight; 0 = unknown

// Bit of removal_until_ns in struct weir_identity_service. The bit is set if the time is the end of
// the phase DROPPED, in which clients are refused. The bit and the time are written with one store.
// If this process is killed before it stores `removal`, the next process can still derive the phase
// from the bit.
#define REFUSING 1ull

// Bits of `policies` in struct weir_identity_service.
#define RUNTIME_SHIFT 8

static void store(uint32_t *word, uint32_t value) {
	if (*word != value) {
		__atomic_store_n(word, value, __ATOMIC_RELEASE);
	}
}

// --- store --------------------------------------------------------------------------------

// Stores the deadline of a drain. Call before the phase is stored. If the drain has ended, does
// nothing: if this process is killed before it stores the new phase, the stored phase is still
// DRAINING and needs its deadline.
static void store_deadline(uint64_t *deadline, uint8_t phase, uint64_t until_ns) {
	if (phase == WEIR_DRAIN_DRAINING && *deadline != until_ns) {
		__atomic_store_n(deadline, until_ns, __ATOMIC_RELEASE);
	}
}

// Stores the phase of a removal and the end time of the phase. Without a removal, removal_until_ns
// is not used.
static void store_removal(struct weir_identity_service *to, const struct weir_service_entry *from) {
	uint64_t until_ns = (from->removal_until_ns & ~REFUSING) |
			    (from->removal == WEIR_DRAIN_DROPPED ? REFUSING : 0);

	if (from->removal != WEIR_DRAIN_NONE && to->removal_until_ns != until_ns) {
		__atomic_store_n(&to->removal_until_ns, until_ns, __ATOMIC_RELEASE);
	}
	store(&to->removal, from->removal);
}

static void add_counters(struct weir_share_counters *sum, const struct weir_share_counters *one) {
#define X(field, unit, metric, text) sum->field += weir_counter_read(&one->field);
	WEIR_SHARE_COUNTERS(X)
#undef X
}

void weir_identity_store_service(
	const struct weir_segment *segment, const struct weir_state *state, uint16_t id) {
	const struct weir_service_entry *from = &state->services[id];
	struct weir_identity_service *to = &segment->identity_services[id];
	struct weir_share_counters sum = {0};

	if (from->stage == WEIR_ID_FREE) {
		store(&to->state, 0);
		return;
	}
	if ((to->state & WEIR_IDENTITY_USED) == 0 ||
		strncmp(to->name, from->name, sizeof(to->name)) != 0) {
		store(&to->state, 0);
		memcpy(to->name, from->name, sizeof(to->name));
		for (uint32_t worker = 0; worker < segment->workers; worker++) {
			add_counters(&sum, weir_segment_service_counters(segment, worker, id));
		}
		segment->service_bases[id] = sum;
	}
	store(&to->policies,
		from->configured_policy | (uint32_t)from->runtime_policy << RUNTIME_SHIFT);
	store(&to->error_window_ms, from->error_window_ms);
	store(&to->down_flags, from->down_flags);
	store_deadline(&to->drain_until_ns, from->drain, from->drain_until_ns);
	store(&to->drain, from->drain);
	store(&to->removed_ms, from->removed_ms);
	store_removal(to, from);
	store(&to->state, WEIR_IDENTITY_USED | (from->stage != WEIR_ID_LIVE ? LEAVING : 0));
}

static bool is_same_backend(
	const struct weir_identity_backend *to, const struct weir_backend_entry *from) {
	return (to->state & WEIR_IDENTITY_USED) != 0 && to->service == from->service &&
	       to->family == from->address.family &&
	       memcmp(to->address, from->address.bytes, sizeof(to->address)) == 0 &&
	       strncmp(to->name, from->name, sizeof(to->name)) == 0;
}

void weir_identity_store_backend(
	const struct weir_segment *segment, const struct weir_state *state, uint16_t id) {
	const struct weir_backend_entry *from = &state->backends[id];
	struct weir_identity_backend *to = &segment->identity_backends[id];
	struct weir_share_counters sum = {0};

	if (from->stage == WEIR_ID_FREE) {
		store(&to->state, 0);
		return;
	}
	if (!is_same_backend(to, from)) {
		store(&to->state, 0);
		memcpy(to->name, from->name, sizeof(to->name));
		memcpy(to->address, from->address.bytes, sizeof(to->address));
		to->family = from->address.family;
		to->service = from->service;
		// Skip ids that never had a row, because their counters are 0. No memory is
		// allocated for these counters yet, and reading the counters of thousands of ids
		// for all workers would take seconds.
		for (uint32_t worker = 0;
			worker < segment->workers && segment->rows[id].version != 0; worker++) {
			add_counters(&sum, weir_segment_backend_counters(segment, worker, id));
		}
		segment->backend_bases[id] = sum;
	}
	// Store the configured weight after the run-time weight, because a new configured weight
	// cancels the run-time weight.
	store(&to->runtime_weight, from->runtime_weight);
	store(&to->configured_weight,
		from->weight_auto ? from->auto_weight : from->configured_weight);
	store(&to->reported_weight, from->reported_weight);
	store_deadline(&to->drain_until_ns, from->drain, from->drain_until_ns);
	if (to->slow_start_ms != from->slow_start_ms) {
		__atomic_store_n(&to->slow_start_ms, from->slow_start_ms, __ATOMIC_RELEASE);
	}
	store(&to->state, WEIR_IDENTITY_USED | (uint32_t)from->admin << ADMIN_SHIFT |
				  (uint32_t)from->health << HEALTH_SHIFT |
				  (uint32_t)from->drain << DRAIN_SHIFT |
				  (from->stage != WEIR_ID_LIVE ? LEAVING : 0) |
				  (from->proven ? PROVEN : 0) |
				  (from->weight_auto ? WEIGHT_AUTO : 0));
}

// --- adopt --------------------------------------------------------------------------------

static bool is_name(const char *name) {
	return name[0] != '\0' && memchr(name, '\0', WEIR_NAME_BYTES) != NULL;
}

static uint32_t admin_of(uint32_t word) {
	return word >> ADMIN_SHIFT & 0xff;
}

static uint32_t health_of(uint32_t word) {
	return word >> HEALTH_SHIFT & 0xff;
}

static bool is_drain(uint32_t drain, uint32_t admin) {
	return drain == WEIR_DRAIN_DROPPED
		       ? admin == WEIR_ADMIN_MAINTENANCE
		       : drain < WEIR_DRAIN_DROPPED && admin == WEIR_ADMIN_DRAIN;
}

static bool is_backend(const struct weir_state *state, const struct weir_identity_backend *entry) {
	return (entry->state & WEIR_IDENTITY_USED) != 0 && is_name(entry->name) &&
	       (entry->family == 4 || entry->family == 6) &&
	       admin_of(entry->state) <= WEIR_ADMIN_MAINTENANCE &&
	       health_of(entry->state) <= WEIR_HEALTH_REFUSING &&
	       entry->service < state->service_ids &&
	       state->services[entry->service].stage != WEIR_ID_FREE;
}

static void adopt_weight(
	struct weir_backend_entry *backend, const struct weir_identity_backend *entry) {
	uint32_t weight = entry->configured_weight;

	backend->configured_weight = weight;
	if ((entry->state & WEIGHT_AUTO) != 0) {
		backend->weight_auto = true;
		backend->configured_weight = WEIR_CONFIG_WEIGHT_DEFAULT;
		backend->auto_weight =
			weight < WEIR_WEIGHT_AUTO_MOST ? weight : WEIR_WEIGHT_AUTO_MOST;
	}
}

static void adopt_backend(
	struct weir_state *state, uint16_t id, const struct weir_identity_backend *entry) {
	struct weir_backend_entry *backend;
	struct weir_address address = {.family = entry->family};

	memcpy(address.bytes, entry->address, entry->family == 4 ? 4 : 16);
	if (weir_backend_id_take(state, id, entry->service, entry->name, &address) < 0) {
		return;
	}
	backend = &state->backends[id];
	backend->admin = (uint8_t)admin_of(entry->state);
	backend->proven = (entry->state & PROVEN) != 0;
	weir_backend_set_health(backend, (enum weir_health_state)health_of(entry->state));
	adopt_weight(backend, entry);
	backend->runtime_weight = entry->runtime_weight;
	backend->reported_weight = entry->reported_weight;
	if (is_drain(entry->state >> DRAIN_SHIFT & DRAIN_BITS, backend->admin)) {
		backend->drain = entry->state >> DRAIN_SHIFT & DRAIN_BITS;
		backend->drain_until_ns = entry->drain_until_ns;
		backend->drain_left = WEIR_FLOWS_UNKNOWN;
	}
	backend->slow_start_ms = entry->slow_start_ms;
	backend->eligible =
		backend->admin == WEIR_ADMIN_READY && backend->health == WEIR_HEALTH_HEALTHY;
	backend->adopted = true;
	if ((entry->state & LEAVING) != 0) {
		weir_backend_leave(state, id);
	}
}

static void adopt_service(
	struct weir_state *state, uint16_t id, const struct weir_identity_service *entry) {
	uint32_t runtime = entry->policies >> RUNTIME_SHIFT & 0xff;
	struct weir_service_entry *service;

	if ((entry->state & WEIR_IDENTITY_USED) == 0 || !is_name(entry->name) ||
		weir_service_id_take(state, id, entry->name) < 0) {
		return;
	}
	service = &state->services[id];
	service->configured_policy = entry->policies & 0xff;
	service->runtime_policy =
		runtime < WEIR_POLICY_COUNT ? (uint8_t)runtime : WEIR_POLICY_UNSET;
	service->error_window_ms = entry->error_window_ms;
	if (entry->down_flags == WEIR_BACKEND_REHASH || entry->down_flags == WEIR_BACKEND_RESET) {
		service->down_flags = (uint8_t)entry->down_flags;
	}
	if (entry->drain <= WEIR_DRAIN_DROPPED) {
		service->drain = (uint8_t)entry->drain;
		service->drain_until_ns = entry->drain_until_ns;
		service->drain_left = WEIR_FLOWS_UNKNOWN;
	}
	service->removed_ms = entry->removed_ms;
	if (entry->removal == WEIR_DRAIN_DRAINING || entry->removal == WEIR_DRAIN_DROPPED) {
		service->removal = (entry->removal_until_ns & REFUSING) != 0 ? WEIR_DRAIN_DROPPED
									     : WEIR_DRAIN_DRAINING;
		service->removal_until_ns = entry->removal_until_ns & ~REFUSING;
		state->removing = true;
	}
	service->adopted = true;
	service->adopted_leaving = (entry->state & LEAVING) != 0;
}

void weir_identity_adopt(struct weir_state *state, const struct weir_segment *segment) {
	uint32_t services = segment->notes->service_ids, backends = segment->notes->backend_ids;

	for (uint32_t id = 0; id < services && id < state->service_limit; id++) {
		adopt_service(state, (uint16_t)id, &segment->identity_services[id]);
	}
	// Adopt removed entries first, because a new entry may have the name of a removed entry.
	for (uint32_t leaving = LEAVING;; leaving = 0) {
		for (uint32_t id = 0; id < backends && id < state->backend_limit; id++) {
			const struct weir_identity_backend *entry = &segment->identity_backends[id];

			if ((entry->state & LEAVING) == leaving && is_backend(state, entry)) {
				adopt_backend(state, (uint16_t)id, entry);
			}
		}
		if (leaving == 0) {
			break;
		}
	}
}
