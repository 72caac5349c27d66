// SPDX-License-Identifier: BSD-3-Clause
//
// Prequal: chooses the backend with the lowest latency among a few random backends, except backends
// with unusually many requests in progress.
//
// A probe is the last report of a backend, which weir-control has stored in the backend's signal
// (backend_signal.h). For each flow, the worker reads the signals of three random backends and adds
// them to its pool of probes. Therefore probes cost no packets. A probe is as old as the report,
// and expires after a second. The worker's own count of flows may be newer than the reported number
// of requests. The higher of the two numbers is used.
//
// With fewer than two probes in the pool, or if slow start skips all probes, a random backend is
// chosen.
#include "prequal.h"

#include <math.h>

#include "policy_private.h"

#define QUANTILE 215u // in 1/256: a probe above the 0.84 quantile of active requests is hot
// Ages are 24-bit numbers. From this value up, an age is negative: the report was written up to a
// second after now_ns was read.
#define STAMP_LATE 0xfffc00u
#define AGE_MAX 954u // 1 s, in units of 2^20 ns
#define REMOVE_EVERY 4u // remove a probe after this many flows; 1 / WEIR_PREQUAL_REMOVE
#define REUSE_UNIT 256.0
// The pool has room for probes of a quarter of the backends, at least ROOM_LEAST and at most
// WEIR_POLICY_PROBES. If the pool held probes of all backends, all clients would choose the same
// backend until the next reports.
#define BACKENDS_PER_PROBE 4u
#define ROOM_LEAST 2u

uint32_t weir_prequal_pick(const struct weir_probe *probes, uint32_t count, uint32_t hot) {
	uint64_t least = UINT64_MAX;
	uint32_t best = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t rank = probes[i].active > hot ? UINT64_C(1) << 32 | probes[i].active
						       : probes[i].latency;

		best = rank < least ? i : best;
		least = rank < least ? rank : least;
	}
	return best;
}

double weir_prequal_reuse(uint32_t n, uint32_t m, double draws, double remove, double delta) {
	double comes = (1 - (double)m / n) * draws - remove;
	double uses = (1 + delta) / comes;

	if (comes <= 0) {
		return INFINITY;
	}
	return uses > 1 ? uses : 1;
}

static void start(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, uint64_t now_ns) {
	uint32_t room = weir_policy_min(table->count / BACKENDS_PER_PROBE, WEIR_POLICY_PROBES);
	double reuse;

	(void)worker;
	(void)now_ns;
	client->probe_room = room > ROOM_LEAST ? room : ROOM_LEAST;
	reuse = weir_prequal_reuse(table->count, client->probe_room, WEIR_PREQUAL_DRAWS,
		WEIR_PREQUAL_REMOVE, WEIR_PREQUAL_DELTA);
	client->probe_count = 0; // backends may have been removed
	client->probe_reuse = isfinite(reuse) ? (uint32_t)(reuse * REUSE_UNIT) : UINT32_MAX;
}

static uint32_t age_of(uint32_t stamp, uint64_t now_ns) {
	uint32_t age = (weir_signal_stamp(now_ns) - stamp) & WEIR_SIGNAL_STAMP_MASK;

	return age < STAMP_LATE ? age : 0;
}

// Returns the number of active requests above which a probe is hot. The number is rounded up, so
// that no probe is hot if all probes have the same number.
static uint32_t hot_above(const struct weir_policy_client *client) {
	return (client->probe_hot + 255) >> 8;
}

static void drop(struct weir_policy_client *client, uint32_t i) {
	client->probe[i] = client->probe[--client->probe_count];
}

// Adjusts the estimate of the 0.84 quantile: up by 0.84 of a step if `active` is above the
// estimate, otherwise down by 0.16 of a step.
static void learn_hot(struct weir_policy_client *client, uint32_t active) {
	uint32_t step = (client->probe_hot >> 8) + 1;

	if ((uint64_t)active << 8 > client->probe_hot) {
		client->probe_hot += step * QUANTILE / 4;
	} else {
		uint32_t down = step * (256 - QUANTILE) / 4;

		client->probe_hot -= client->probe_hot > down ? down : client->probe_hot;
	}
}

static uint32_t oldest(const struct weir_policy_client *client, uint64_t now_ns) {
	uint32_t found = 0;

	for (uint32_t i = 1; i < client->probe_count; i++) {
		if (age_of(client->probe[i].stamp, now_ns) >
			age_of(client->probe[found].stamp, now_ns)) {
			found = i;
		}
	}
	return found;
}

// Selects the probe to remove. If a probe is hot, this is the probe with the most active requests,
// otherwise the probe with the highest latency.
static uint32_t worst(const struct weir_policy_client *client) {
	uint64_t most = 0;
	uint32_t found = 0;

	for (uint32_t i = 0; i < client->probe_count; i++) {
		const struct weir_probe *probe = &client->probe[i];
		uint64_t rank = probe->active > hot_above(client)
					? UINT64_C(1) << 32 | probe->active
					: probe->latency;

		found = rank > most ? i : found;
		most = rank > most ? rank : most;
	}
	return found;
}

// Put the current probe of a backend into the pool, if the backend has reported within a second.
// The probe replaces an older probe of the backend. If there is none and the pool is full, the
// probe replaces the oldest probe.
static void add(struct weir_policy_worker *worker, struct weir_policy_client *client, uint16_t id,
	uint64_t now_ns) {
	uint64_t word = __atomic_load_n(&worker->cost_ns[id], __ATOMIC_RELAXED);
	struct weir_probe probe = {.id = id,
		.stamp = weir_signal_probe_stamp(word),
		.active = weir_signal_probe_active(word),
		.latency = weir_signal_probe_latency(word)};
	uint32_t own = worker->backends[id].active;
	uint32_t at = 0;

	if (!weir_signal_is_probe(word) || age_of(probe.stamp, now_ns) > AGE_MAX) {
		return;
	}
	// The worker's own count may be newer than the report: use the higher number.
	probe.active = probe.active > own ? probe.active : own;
	learn_hot(client, probe.active);
	while (at < client->probe_count && client->probe[at].id != id) {
		at++;
	}
	if (at < client->probe_count && client->probe[at].stamp == probe.stamp) {
		probe.uses = client->probe[at].uses;
	} else if (at == client->probe_count && at == client->probe_room) {
		at = oldest(client, now_ns);
	}
	client->probe_count += at == client->probe_count;
	client->probe[at] = probe;
}

static void remove_some(
	struct weir_policy_worker *worker, struct weir_policy_client *client, uint64_t now_ns) {
	for (uint32_t i = client->probe_count; i > 0; i--) {
		if (age_of(client->probe[i - 1].stamp, now_ns) > AGE_MAX ||
			!weir_policy_can_take(worker, client, client->probe[i - 1].id)) {
			drop(client, i - 1);
		}
	}
	client->probe_turn++;
	if (client->probe_turn % REMOVE_EVERY == 0 && client->probe_count > 2) {
		drop(client, client->probe_turn % (2 * REMOVE_EVERY) == 0 ? oldest(client, now_ns)
									  : worst(client));
	}
}

// Returns the best probe whose backend accepts the flow, or WEIR_POLICY_NONE. If a backend in slow
// start skips the flow, its probe is removed.
static uint32_t pick(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table) {
	while (client->probe_count > 0) {
		uint32_t at =
			weir_prequal_pick(client->probe, client->probe_count, hot_above(client));

		if (weir_policy_takes_flow(worker, client, table, client->probe[at].id)) {
			return at;
		}
		drop(client, at);
	}
	return WEIR_POLICY_NONE;
}

static uint32_t choose(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, uint64_t hash, uint64_t now_ns) {
	uint32_t at = WEIR_POLICY_NONE;
	struct weir_probe *probe;
	uint32_t id;

	for (uint32_t i = 0; i < WEIR_PREQUAL_DRAWS; i++) {
		uint16_t drawn = weir_policy_id(table, weir_policy_uniform(worker, table->count));

		if (drawn < worker->backend_count) {
			add(worker, client, drawn, now_ns);
		}
	}
	remove_some(worker, client, now_ns);
	client->turns++;
	if (client->probe_count >= 2) {
		at = pick(worker, client, table);
	}
	if (at == WEIR_POLICY_NONE) {
		return weir_random_ops.choose(worker, client, table, hash, now_ns);
	}
	probe = &client->probe[at];
	id = probe->id;
	probe->active++;
	probe->uses += probe->uses < UINT16_MAX;
	if (client->probe_reuse != UINT32_MAX &&
		(uint32_t)probe->uses * (uint32_t)REUSE_UNIT >= client->probe_reuse) {
		drop(client, at);
	}
	return id;
}

const struct weir_policy_ops weir_prequal_ops = {.start = start, .choose = choose};
