// SPDX-License-Identifier: BSD-3-Clause
#include "table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend_signal.h"
#include "hash.h"
#include "interleaved.h"
#include "inverse_weight.h"
#include "maglev.h"
#include "slow_start.h"
#include "stride.h"

#define NS_PER_MS 1000000u
// The automatic error window is the average latency times ERROR_WINDOW_LATENCIES, but at least
// ERROR_WINDOW_MIN_MS and at most ERROR_WINDOW_MAX_MS.
#define ERROR_WINDOW_LATENCIES 10u
#define ERROR_WINDOW_MIN_MS 1000u
#define ERROR_WINDOW_MAX_MS 30000u
// Configured weights are multiplied by this factor, because weights are integers and corrections
// may be small.
#define BALANCED_UNIT 1000.0
#define KNOWN_MIN 2u // reported weights are used if at least this many backends have reported one

int weir_sim_table_scratch(struct weir_sim *sim) {
	uint32_t n = sim->scenario->backends.count;

	sim->numbers = malloc(n * sizeof(*sim->numbers));
	sim->capabilities = malloc(2 * n * sizeof(*sim->capabilities));
	sim->weights = malloc(n * sizeof(*sim->weights));
	return sim->numbers == NULL || sim->capabilities == NULL || sim->weights == NULL ? -ENOMEM
											 : 0;
}

void weir_sim_table_scratch_free(struct weir_sim *sim) {
	free(sim->numbers);
	free(sim->capabilities);
	free(sim->weights);
}

static uint32_t configured_weight(const struct weir_sim *sim, uint32_t backend) {
	const struct weir_sim_numbers *weights = &sim->scenario->backends.weights;

	return (uint32_t)weights->value[backend % weights->count];
}

static int compare_numbers(const void *left, const void *right) {
	uint64_t a = *(const uint64_t *)left;
	uint64_t b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

// Writes the members of a client to sim->numbers, sorted by backend. For
// interleaved-weighted-round-robin, the members are sorted by configured weight, and members with
// the same weight by backend. Returns the number of members.
static uint32_t order_members(struct weir_sim *sim, const struct weir_sim_client *client) {
	bool by_weight = sim->policy->name == WEIR_POLICY_INTERLEAVED_WEIGHTED_ROUND_ROBIN;
	uint32_t count = 0;

	for (uint32_t i = 0; i < client->slot_count; i++) {
		uint32_t backend = client->slot[i].backend;

		if (client->slot[i].member) {
			uint64_t weight = by_weight ? configured_weight(sim, backend) : 0;

			sim->numbers[count++] = weight << 32 | (uint64_t)backend << 16 | i;
		}
	}
	qsort(sim->numbers, count, sizeof(*sim->numbers), compare_numbers);
	return count;
}

// Sets the balanced weights: the configured weights, corrected by the reports of the client's
// backends. Returns whether any correction applies.
static bool balance(struct weir_sim *sim, struct weir_sim_client *client, uint64_t elapsed_ns) {
	const struct weir_balanced_settings settings = weir_balanced_defaults();
	uint32_t n = client->table.count;
	double *correction = sim->capabilities + sim->scenario->backends.count;
	double *utilization = sim->capabilities;
	bool left;

	for (uint32_t i = 0; i < n; i++) {
		const struct weir_sim_slot *slot = &client->slot[client->candidates[i].id];

		correction[i] = slot->correction;
		utilization[i] = weir_balanced_read(
			&sim->backend[slot->backend].load, &settings, sim->now_ns);
	}
	left = weir_balanced_step(&settings, utilization, correction, n, elapsed_ns);
	for (uint32_t i = 0; i < n; i++) {
		struct weir_sim_slot *slot = &client->slot[client->candidates[i].id];

		slot->correction = correction[i];
		sim->weights[i] = (uint32_t)weir_balanced_weight(
			BALANCED_UNIT * configured_weight(sim, slot->backend), correction[i]);
	}
	return left;
}

static bool set_weights(struct weir_sim *sim, struct weir_sim_client *client, uint64_t elapsed_ns) {
	uint32_t n = client->table.count;
	bool reported = sim->policy->weights == WEIR_WEIGHTS_REPORTED;

	for (uint32_t i = 0; reported && i < n; i++) {
		uint32_t backend = client->slot[client->candidates[i].id].backend;

		sim->capabilities[i] = weir_capability_read(
			&sim->backend[backend].capability, &sim->policy->capability, sim->now_ns);
	}
	if (sim->policy->weights == WEIR_WEIGHTS_BALANCED) {
		reported = balance(sim, client, elapsed_ns);
	} else if (reported) {
		reported = weir_capability_weights(sim->capabilities, n, sim->weights) >= KNOWN_MIN;
	}
	for (uint32_t i = 0; i < n; i++) {
		struct weir_candidate *candidate = &client->candidates[i];

		candidate->weight =
			reported ? sim->weights[i]
				 : configured_weight(sim, client->slot[candidate->id].backend);
	}
	if (sim->policy->name == WEIR_POLICY_WEIGHTED_ROUND_ROBIN) {
		weir_stride_scale(client->candidates, n, reported);
	} else if (sim->policy->name == WEIR_POLICY_LEAST_LOADED) {
		weir_inverse_weights(client->candidates, n);
	}
	return reported;
}

static uint32_t error_window_ms(const struct weir_sim *sim) {
	struct weir_moving_stats latency;
	uint64_t window_ms;

	if (sim->policy->error_window_ns > 0) {
		window_ms = sim->policy->error_window_ns / NS_PER_MS;
		return window_ms > 0 ? (uint32_t)window_ms : 1;
	}
	weir_moving_read(sim->latency, &latency);
	window_ms = ERROR_WINDOW_LATENCIES * latency.mean_ns / NS_PER_MS;
	window_ms = window_ms > ERROR_WINDOW_MIN_MS ? window_ms : ERROR_WINDOW_MIN_MS;
	return window_ms < ERROR_WINDOW_MAX_MS ? (uint32_t)window_ms : ERROR_WINDOW_MAX_MS;
}

static void set_settings(const struct weir_sim *sim, struct weir_sim_client *client) {
	uint8_t needs = weir_policy_needs((enum weir_policy)sim->policy->name);

	if (!sim->policy->errors_as_active) {
		needs &= (uint8_t)~WEIR_NEEDS_ERRORS;
	}
	client->table.settings = (struct weir_policy_settings){.policy = (uint8_t)sim->policy->name,
		.needs = needs,
		.when_exhausted = (uint8_t)sim->scenario->flow_control.when_exhausted,
		.rounds = (uint8_t)sim->policy->rounds,
		.max_active_flows = sim->scenario->flow_control.max_active_flows,
		.error_window_ms = error_window_ms(sim)};
}

static int build_maglev(struct weir_sim *sim, struct weir_sim_client *client) {
	uint32_t n = client->table.count;
	uint32_t slots = sim->scenario->table_size;
	struct weir_maglev_backend *backends;
	void *scratch;

	if (client->maglev == NULL) {
		client->maglev = malloc(slots * sizeof(*client->maglev));
	}
	backends = malloc((n + 1) * sizeof(*backends));
	scratch = malloc(weir_maglev_scratch_bytes(n));
	if (client->maglev != NULL && backends != NULL && scratch != NULL) {
		for (uint32_t i = 0; i < n; i++) {
			uint32_t backend = client->slot[client->candidates[i].id].backend;

			weir_maglev_permutation(weir_hash_bytes(&backend, sizeof(backend), 0),
				slots, &backends[i].offset, &backends[i].skip);
			backends[i].weight = client->candidates[i].weight;
		}
		weir_maglev_build(backends, n, client->maglev, slots, scratch);
		client->table.slots = client->maglev;
		client->table.slot_count = slots;
	}
	free(backends);
	free(scratch);
	return client->table.slot_count > 0 ? 0 : -ENOMEM;
}

static int build_rounds(struct weir_sim_client *client) {
	struct weir_round *rounds =
		realloc(client->rounds, (client->table.count + 1) * sizeof(*rounds));

	if (rounds == NULL) {
		return -ENOMEM;
	}
	client->rounds = rounds;
	client->table.rounds = rounds;
	client->table.round_count =
		weir_interleaved_rounds(client->candidates, client->table.count, rounds);
	return 0;
}

int weir_sim_table_build(struct weir_sim *sim, struct weir_sim_client *client) {
	uint32_t n = order_members(sim, client);
	struct weir_candidate *candidates =
		realloc(client->candidates, (n + 1) * sizeof(*candidates));
	uint8_t needs = weir_policy_needs((enum weir_policy)sim->policy->name);

	if (candidates == NULL) {
		return -ENOMEM;
	}
	client->candidates = candidates;
	client->table = (struct weir_policy_table){.candidates = candidates, .count = n};
	for (uint32_t i = 0; i < n; i++) {
		candidates[i] = (struct weir_candidate){.id = (uint16_t)sim->numbers[i]};
	}
	set_weights(sim, client, 0);
	set_settings(sim, client);
	if ((needs & WEIR_NEEDS_SLOTS) != 0 && n > 0) {
		return build_maglev(sim, client);
	}
	return (needs & WEIR_NEEDS_ROUNDS) != 0 ? build_rounds(client) : 0;
}

bool weir_sim_table_update(struct weir_sim *sim, struct weir_sim_client *client) {
	uint32_t before_ms = client->table.settings.error_window_ms;
	uint8_t needs = client->table.settings.needs;
	bool changed = sim->policy->weights != WEIR_WEIGHTS_CONFIGURED;

	if (changed) {
		set_weights(sim, client, sim->scenario->control.update_ns);
	}
	if ((needs & WEIR_NEEDS_ERRORS) != 0 && sim->policy->error_window_ns == 0) {
		uint32_t now_ms = error_window_ms(sim);

		// Change the error window only if the new value differs by more than a quarter,
		// because a change restarts the time slots of the window.
		if (now_ms > before_ms + before_ms / 4 || now_ms < before_ms - before_ms / 4) {
			client->table.settings.error_window_ms = now_ms;
			changed = true;
		}
	}
	return changed;
}

uint64_t weir_sim_error_window_ns(const struct weir_sim *sim) {
	return (uint64_t)error_window_ms(sim) * NS_PER_MS;
}

static uint32_t active_errors(const struct weir_sim *sim, uint32_t index) {
	const struct weir_sim_backend *backend = &sim->backend[index];

	if (!sim->scenario->reports.errors) {
		return 0;
	}
	return weir_reported_errors_active(&backend->errors,
		backend->clients > 0 ? backend->clients : 1, weir_sim_error_window_ns(sim),
		sim->now_ns);
}

// Publishes the errors and the requests in progress that a client's backends have reported to
// control.
static void table_counts(const struct weir_sim *sim, struct weir_sim_client *client) {
	for (uint32_t i = 0; i < client->table.count; i++) {
		uint16_t id = client->candidates[i].id;
		const struct weir_sim_slot *slot = &client->slot[id];

		client->cost_ns[id] = weir_reported_share_refresh(&client->share, &slot->count, 1,
			active_errors(sim, slot->backend), client->cost_ns[id], sim->now_ns);
	}
}

static void take_active(
	struct weir_sim *sim, struct weir_sim_client *client, uint32_t id, uint64_t active) {
	struct weir_sim_slot *slot = &client->slot[id];

	const struct weir_reported_own own = {
		.flows = client->worker.backends[id].active, .begun = slot->begun};

	weir_reported_share_add(&client->share, &slot->count, client->table.count, (double)active,
		&own, sim->now_ns);
	if ((client->table.settings.needs & WEIR_NEEDS_ERRORS) == 0) {
		return; // table_counts publishes the result later
	}
	client->cost_ns[id] = weir_reported_share_signal(&client->share, &slot->count, 1,
		active_errors(sim, slot->backend), client->cost_ns[id], sim->now_ns);
}

void weir_sim_table_take_active(struct weir_sim *sim, uint32_t backend, uint64_t active) {
	for (uint32_t i = 0; i < sim->scenario->clients.count; i++) {
		struct weir_sim_client *client = &sim->client[i];
		bool counts = (client->table.settings.needs & WEIR_NEEDS_ERRORS) != 0 ||
			      weir_policy_charges((enum weir_policy)sim->policy->name);

		for (uint32_t id = 0; counts && id < client->slot_count; id++) {
			if (client->slot[id].backend == backend && client->slot[id].member) {
				take_active(sim, client, id, active);
			}
		}
	}
}

static uint64_t cost_of_errors(const struct weir_sim *sim, uint32_t backend) {
	if (!sim->scenario->reports.errors) {
		return 0;
	}
	return weir_reported_errors_cost_ns(
		&sim->backend[backend].errors, weir_sim_error_window_ns(sim), sim->now_ns);
}

// Copies the last report of each of the client's backends to the signals of the client.
static void table_probes(const struct weir_sim *sim, struct weir_sim_client *client) {
	for (uint32_t i = 0; i < client->table.count; i++) {
		uint16_t id = client->candidates[i].id;
		const struct weir_sim_backend *backend = &sim->backend[client->slot[id].backend];
		uint64_t latency_ns =
			backend->probe_latency_ns + cost_of_errors(sim, client->slot[id].backend);

		client->cost_ns[id] = backend->probe_ns > 0
					      ? weir_signal_of_probe(backend->probe_active,
							latency_ns, backend->probe_ns)
					      : 0;
	}
}

void weir_sim_table_costs(struct weir_sim *sim, struct weir_sim_client *client) {
	if ((sim->scenario->reports.errors || sim->scenario->reports.active) &&
		(client->table.settings.needs & WEIR_NEEDS_ERRORS) != 0) {
		table_counts(sim, client);
	}
	if ((client->table.settings.needs & WEIR_NEEDS_PROBES) != 0) {
		table_probes(sim, client);
	}
	if (!sim->collects) {
		return;
	}
	for (uint32_t i = 0; i < client->table.count; i++) {
		const struct weir_sim_slot *slot = &client->slot[client->candidates[i].id];
		const struct weir_moving *moving = sim->backend[slot->backend].moving;

		moving = moving != NULL ? moving : slot->moving;
		sim->numbers[i] =
			weir_moving_estimate_ns(moving, sim->now_ns, sim->policy->stale_ns);
	}
	weir_moving_costs(sim->numbers, client->table.count, sim->numbers);
	for (uint32_t i = 0; i < client->table.count; i++) {
		uint16_t id = client->candidates[i].id;
		const struct weir_sim_slot *slot = &client->slot[id];
		double cost = (double)sim->numbers[i];

		if (weir_policy_charges((enum weir_policy)sim->policy->name)) {
			cost *= weir_reported_share_charge(
				&client->share, &slot->count, sim->now_ns);
		}
		client->cost_ns[id] = (uint64_t)cost + cost_of_errors(sim, slot->backend);
	}
}

static double slow_start_factor(const struct weir_sim *sim, uint32_t backend) {
	const struct weir_slow_start_settings settings = {
		.window_ms = sim->scenario->slow_start.window_ns / NS_PER_MS,
		.aggression = sim->scenario->slow_start.aggression,
		.least = sim->scenario->slow_start.min_weight_percent / 100};
	uint64_t since_ns = sim->backend[backend].slow_start_ns;

	if (since_ns == 0) {
		return 1;
	}
	return weir_slow_start_factor(&settings, (sim->now_ns - since_ns) / NS_PER_MS);
}

void weir_sim_table_shares(struct weir_sim *sim, struct weir_sim_client *client) {
	uint32_t count = sim->scenario->backends.count, usable = 0;
	double *factors = sim->capabilities; // 0 = not usable
	double sum;

	if (sim->scenario->slow_start.window_ns == 0) {
		return;
	}
	for (uint32_t i = 0; i < count; i++) {
		factors[i] = sim->usable[i] ? slow_start_factor(sim, i) : 0;
		usable += sim->usable[i];
	}
	sum = weir_slow_start_level(factors, count);
	for (uint32_t i = 0; i < client->table.count; i++) {
		uint16_t id = client->candidates[i].id;
		struct weir_policy_share share;

		weir_slow_start_share(factors[client->slot[id].backend], sum, usable, &share);
		weir_policy_set_share(&client->worker, &client->policy, id, share);
	}
}
