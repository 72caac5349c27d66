// SPDX-License-Identifier: BSD-3-Clause
//
// Clients: each client acts as one worker with its own service. A client has a numbered slot for
// each backend that it uses. Therefore a client that uses 20 of 10,000 backends needs memory for
// only 20 slots. A slot is reused for another backend when its backend is no longer a member and
// not temporarily unusable (`lost`), and no active request uses the slot.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "simulation_private.h"
#include "table.h"

#define SECOND_NS 1e9

static void find_needs(struct weir_sim *sim) {
	uint8_t needs = weir_policy_needs((enum weir_policy)sim->policy->name);

	sim->collects = (needs & WEIR_NEEDS_COST) != 0;
}

// Allocates the statistics of service times, if the policy needs them. Returns 0 or -ENOMEM.
static int add_statistics(struct weir_sim *sim, struct weir_sim_client *client) {
	bool fleet = sim->scenario->control.statistics == WEIR_SIM_SCOPE_FLEET;
	bool median = sim->policy->statistic == WEIR_STATISTIC_MEDIAN;

	for (uint32_t i = 0; sim->collects && i < client->slot_count; i++) {
		struct weir_sim_slot *slot = &client->slot[i];
		struct weir_moving **moving = &slot->moving;

		if (slot->backend == WEIR_SIM_NONE) {
			continue;
		}
		if (fleet) {
			moving = &sim->backend[slot->backend].moving;
		}
		if (*moving == NULL) {
			*moving = weir_moving_create(sim->policy->window, median);
			if (*moving == NULL) {
				return -ENOMEM;
			}
		}
	}
	return 0;
}

static int grow(struct weir_sim_client *client, uint32_t count) {
	struct weir_sim_slot *slot = realloc(client->slot, count * sizeof(*slot));
	struct weir_policy_backend *backends;
	uint32_t had = client->slot_count;
	uint64_t *cost_ns;

	client->slot = slot != NULL ? slot : client->slot;
	cost_ns = realloc(client->cost_ns, count * sizeof(*cost_ns));
	client->cost_ns = cost_ns != NULL ? cost_ns : client->cost_ns;
	backends = aligned_alloc(64, count * sizeof(*backends));
	if (slot == NULL || cost_ns == NULL || backends == NULL) {
		free(backends);
		return -ENOMEM;
	}
	if (had > 0) {
		memcpy(backends, client->worker.backends, had * sizeof(*backends));
	}
	free(client->worker.backends);
	memset(&backends[had], 0, (count - had) * sizeof(*backends));
	memset(&cost_ns[had], 0, (count - had) * sizeof(*cost_ns));
	for (uint32_t i = had; i < count; i++) {
		slot[i] = (struct weir_sim_slot){.backend = WEIR_SIM_NONE};
	}
	client->worker.backends = backends;
	client->worker.cost_ns = cost_ns;
	client->worker.backend_count = count;
	client->slot_count = count;
	return weir_policy_windows_alloc(&client->worker);
}

// Finds a free slot for a backend without a slot. *from: the slot at which the search starts; set
// to the slot after the found slot. Returns WEIR_SIM_NONE if out of memory, or if all slots are in
// use (slot indexes have 16 bits).
static uint32_t take_slot(struct weir_sim_client *client, uint32_t *from) {
	uint32_t count;

	for (; *from < client->slot_count; (*from)++) {
		struct weir_sim_slot *slot = &client->slot[*from];

		if (!slot->member && !slot->lost && client->worker.backends[*from].active == 0) {
			memset(&client->worker.backends[*from], 0,
				sizeof(client->worker.backends[0]));
			client->cost_ns[*from] = 0;
			slot->correction = 0;
			slot->count = (struct weir_reported_count){0};
			if (slot->moving != NULL) {
				weir_moving_reset(slot->moving);
			}
			return (*from)++;
		}
	}
	count = client->slot_count + client->slot_count / 4 + 1;
	if (client->slot_count >= UINT16_MAX ||
		grow(client, count < UINT16_MAX ? count : UINT16_MAX) < 0) {
		return WEIR_SIM_NONE;
	}
	return (*from)++;
}

// Sets the client's members to the backends in subset[]. Backends that were members already keep
// their slots. slot_of: scratch memory, all elements WEIR_SIM_NONE.
static int set_members(struct weir_sim *sim, struct weir_sim_client *client, const uint32_t *subset,
	uint32_t count, uint32_t *slot_of) {
	uint32_t from = 0, kept = 0;

	client->lost_count = 0;
	for (uint32_t i = 0; i < client->slot_count; i++) {
		struct weir_sim_slot *slot = &client->slot[i];

		if (slot->backend == WEIR_SIM_NONE) {
			continue;
		}
		slot_of[slot->backend] = i;
		sim->backend[slot->backend].clients -= slot->member;
		slot->lost = (slot->member || slot->lost) && !sim->usable[slot->backend] &&
			     sim->backend[slot->backend].listed;
		client->lost_count += slot->lost;
		slot->was_member = slot->member;
		slot->member = false;
	}
	for (uint32_t i = 0; i < count; i++) {
		uint32_t at = slot_of[subset[i]];

		// Mark the members that already have slots first, so that other members do not get
		// these slots.
		if (at != WEIR_SIM_NONE) {
			client->slot[at].member = true;
		}
	}
	for (uint32_t i = 0; i < count; i++) {
		uint32_t at = slot_of[subset[i]];

		sim->backend[subset[i]].clients++;
		if (at != WEIR_SIM_NONE) {
			client->lost_count -= client->slot[at].lost;
			client->slot[at].lost = false;
			kept += client->slot[at].was_member;
			continue;
		}
		at = take_slot(client, &from);
		if (at == WEIR_SIM_NONE) {
			return -ENOMEM;
		}
		if (client->slot[at].backend != WEIR_SIM_NONE) {
			slot_of[client->slot[at].backend] = WEIR_SIM_NONE;
		}
		client->slot[at].backend = subset[i];
		client->slot[at].member = true;
		client->slot[at].was_member = false;
	}
	for (uint32_t i = 0; i < client->slot_count; i++) {
		if (client->slot[i].backend != WEIR_SIM_NONE) {
			slot_of[client->slot[i].backend] = WEIR_SIM_NONE;
		}
	}
	sim->totals.replaced += client->member_count - kept;
	sim->members = sim->members - client->member_count + count;
	client->member_count = count;
	return 0;
}

static void choose_subset(struct weir_sim *sim, uint32_t index) {
	const struct weir_sim_scenario *scenario = sim->scenario;
	uint32_t n = sim->listed_count;
	struct weir_subset_params params = {
		.algorithm = (enum weir_subset_algorithm)scenario->subset.algorithm,
		.mode = (enum weir_subset_mode)scenario->subset.mode,
		.size = scenario->subset.size,
		.client = index,
		.salt = scenario->subset.salt_of_seed ? (uint32_t)sim->seed
						      : scenario->subset.salt};
	struct weir_sim_client *client = &sim->client[index];
	uint32_t *subset = sim->order;
	uint32_t *slot_of = subset + scenario->backends.count;
	uint32_t count = weir_subset_choose(
		&params, sim->usable_listed, n, subset, slot_of + scenario->backends.count);
	int r = client->slot_count == 0 ? grow(client, count > 0 ? count : 1) : 0;

	for (uint32_t i = 0; i < count; i++) {
		subset[i] = sim->listed[subset[i]];
	}
	if (r == 0) {
		r = set_members(sim, client, subset, count, slot_of);
	}
	if (r == 0) {
		r = add_statistics(sim, client);
	}
	if (r == 0) {
		r = weir_sim_table_build(sim, client);
	}
	if (r < 0) {
		weir_sim_fail(sim, r);
		return;
	}
	weir_sim_table_costs(sim, client);
	weir_policy_adopt(&client->worker, &client->policy, &client->table, sim->now_ns);
	weir_sim_table_shares(sim, client);
}

// Sets the mean time between the requests of each client. For bursty arrivals, this is the mean
// time within the on intervals. The clients' shares of all requests are drawn at random.
static void set_rates(struct weir_sim *sim) {
	const struct weir_sim_scenario *scenario = sim->scenario;
	struct weir_prng prng = weir_sim_stream(sim->seed, WEIR_SIM_STREAM_RATES, 0);
	double on = (double)scenario->clients.on_ns;
	double off = (double)scenario->clients.off_ns;
	double sum = 0;

	for (uint32_t i = 0; i < scenario->clients.count; i++) {
		double share = exp(scenario->clients.rate_sigma * weir_sim_normal(&prng));

		sim->client[i].interval_ns = share;
		sum += share;
	}
	for (uint32_t i = 0; i < scenario->clients.count; i++) {
		double share = sim->client[i].interval_ns / sum;
		double interval_ns = SECOND_NS / (share * weir_sim_request_rate(scenario));

		if (scenario->clients.arrivals == WEIR_SIM_ARRIVALS_BURSTY) {
			interval_ns *= on / (on + off);
		}
		sim->client[i].interval_ns = interval_ns;
	}
}

static double next_in_bursts(struct weir_sim *sim, struct weir_sim_client *client, double from_ns) {
	double on = (double)sim->scenario->clients.on_ns;
	double off = (double)sim->scenario->clients.off_ns;
	double end_ns = (double)sim->scenario->duration_ns;
	double at_ns = from_ns + weir_sim_exponential(&client->prng, client->interval_ns);

	while (at_ns > (double)client->burst_end_ns && at_ns <= end_ns) {
		double begin_ns =
			(double)client->burst_end_ns + weir_sim_exponential(&client->prng, off);

		client->burst_end_ns =
			(uint64_t)(begin_ns + weir_sim_exponential(&client->prng, on));
		at_ns = begin_ns + weir_sim_exponential(&client->prng, client->interval_ns);
	}
	return at_ns;
}

static void schedule_arrival(struct weir_sim *sim, uint32_t index) {
	struct weir_sim_client *client = &sim->client[index];
	double until_ns = (double)sim->scenario->clients.until_ns;
	double from_ns = fmax((double)sim->now_ns, (double)sim->scenario->clients.from_ns);
	double at_ns;

	switch ((enum weir_sim_arrivals)sim->scenario->clients.arrivals) {
	case WEIR_SIM_ARRIVALS_EVEN:
		at_ns = from_ns + client->interval_ns;
		break;
	case WEIR_SIM_ARRIVALS_BURSTY:
		at_ns = next_in_bursts(sim, client, from_ns);
		break;
	default:
		at_ns = from_ns + weir_sim_exponential(&client->prng, client->interval_ns);
	}
	if (at_ns <= (double)sim->scenario->duration_ns && (until_ns == 0 || at_ns < until_ns)) {
		weir_sim_schedule(sim, (uint64_t)at_ns, WEIR_SIM_EVENT_ARRIVAL, index);
	}
}

// Schedules the first request of a client. A bursty client starts at a random point of an on or off
// interval. A client with even arrivals sends its first request at a random time within its first
// interval. Therefore not all clients start at the same point.
static void schedule_first(struct weir_sim *sim, uint32_t index) {
	struct weir_sim_client *client = &sim->client[index];
	double on = (double)sim->scenario->clients.on_ns;
	double off = (double)sim->scenario->clients.off_ns;

	if (sim->scenario->clients.arrivals == WEIR_SIM_ARRIVALS_EVEN) {
		double phase_ns = (double)sim->scenario->clients.from_ns +
				  client->interval_ns * weir_sim_uniform(&client->prng);

		if (phase_ns <= (double)sim->scenario->duration_ns) {
			weir_sim_schedule(sim, (uint64_t)phase_ns, WEIR_SIM_EVENT_ARRIVAL, index);
		}
		return;
	}
	if (weir_sim_uniform(&client->prng) < on / (on + off)) {
		client->burst_end_ns = (uint64_t)weir_sim_exponential(&client->prng, on);
	}
	client->burst_end_ns += sim->scenario->clients.from_ns;
	schedule_arrival(sim, index);
}

static void init_client(struct weir_sim *sim, uint32_t index) {
	uint32_t count = sim->scenario->clients.count;
	struct weir_sim_client *client = &sim->client[index];
	struct weir_prng random = weir_sim_stream(sim->seed, WEIR_SIM_STREAM_POLICY, index);

	client->prng = weir_sim_stream(sim->seed, WEIR_SIM_STREAM_CLIENT, index);
	client->worker.rank = index;
	client->worker.ranks = count;
	client->worker.random = weir_prng_next(&random) | 1;
	choose_subset(sim, index);
	if (sim->error == 0) {
		schedule_first(sim, index);
		// Control processes publish at different times.
		weir_sim_schedule(sim,
			(uint64_t)((double)sim->scenario->control.update_ns * (index + 1) / count),
			WEIR_SIM_EVENT_UPDATE, index);
	}
}

int weir_sim_clients_init(struct weir_sim *sim) {
	uint32_t backends = sim->scenario->backends.count;
	uint32_t count = sim->scenario->clients.count;
	size_t order = 2 * (size_t)backends + weir_subset_scratch_count(backends);

	sim->client = aligned_alloc(64, count * sizeof(*sim->client));
	if (sim->client == NULL) {
		return -ENOMEM;
	}
	memset(sim->client, 0, count * sizeof(*sim->client));
	sim->order = malloc(order * sizeof(*sim->order));
	sim->latency = weir_moving_create(WEIR_MOVING_WINDOW, false);
	if (sim->order == NULL || sim->latency == NULL || weir_sim_table_scratch(sim) < 0) {
		return -ENOMEM;
	}
	memset(sim->order, 0xff, order * sizeof(*sim->order));
	set_rates(sim);
	find_needs(sim);
	for (uint32_t i = 0; i < count && sim->error == 0; i++) {
		init_client(sim, i);
	}
	return sim->error;
}

void weir_sim_clients_fini(struct weir_sim *sim) {
	for (uint32_t i = 0; sim->client != NULL && i < sim->scenario->clients.count; i++) {
		struct weir_sim_client *client = &sim->client[i];

		for (uint32_t k = 0; k < client->slot_count; k++) {
			weir_moving_free(client->slot[k].moving);
		}
		free(client->worker.windows.key);
		free(client->worker.backends);
		free(client->candidates);
		free(client->rounds);
		free(client->maglev);
		free(client->cost_ns);
		free(client->slot);
	}
	free(sim->client);
	free(sim->order);
	weir_sim_table_scratch_free(sim);
	weir_moving_free(sim->latency);
}

void weir_sim_client_arrival(struct weir_sim *sim, uint32_t index) {
	struct weir_sim_client *client = &sim->client[index];
	double cost_ns = weir_sim_draw(&sim->scenario->cost, &client->prng);
	double wait_ns = weir_sim_draw(&sim->scenario->wait, &client->prng);
	uint64_t hash = weir_prng_next(&client->prng);
	struct weir_chosen chosen;

	schedule_arrival(sim, index);
	sim->totals.arrived++;
	chosen = weir_policy_choose(
		&client->worker, &client->policy, &client->table, hash, sim->now_ns);
	if (chosen.how == WEIR_CHOSEN_NONE || chosen.how == WEIR_CHOSEN_REJECTED) {
		sim->totals.ended[WEIR_SIM_REJECTED]++;
		return;
	}
	sim->totals.spilled += chosen.how == WEIR_CHOSEN_SPILLED;
	weir_policy_started(&client->worker, &client->policy, chosen.id, sim->now_ns);
	client->slot[chosen.id].begun++;
	weir_sim_request_start(sim, index, chosen.id, cost_ns, wait_ns);
}

void weir_sim_client_update(struct weir_sim *sim, uint32_t index) {
	struct weir_sim_client *client = &sim->client[index];

	weir_sim_table_costs(sim, client);
	if (weir_sim_table_update(sim, client)) {
		weir_policy_adopt(&client->worker, &client->policy, &client->table, sim->now_ns);
	}
	weir_sim_table_shares(sim, client);
	weir_sim_schedule(
		sim, sim->now_ns + sim->scenario->control.update_ns, WEIR_SIM_EVENT_UPDATE, index);
}

static bool holds(const struct weir_sim_client *client, uint32_t backend) {
	for (uint32_t i = 0; i < client->slot_count; i++) {
		if (client->slot[i].backend == backend) {
			return client->slot[i].member;
		}
	}
	return false;
}

// Chooses new subsets for the clients that use a backend which has become unusable. The subsets of
// other clients do not change (guarantee U3 of subset.h).
void weir_sim_clients_lose(struct weir_sim *sim, uint32_t backend) {
	for (uint32_t i = 0; i < sim->scenario->clients.count; i++) {
		if (holds(&sim->client[i], backend)) {
			choose_subset(sim, i);
		}
	}
}

// Chooses new subsets after backends have become usable, but only for clients that have lost a
// member before. Other clients already have their preferred backends.
void weir_sim_clients_regain(struct weir_sim *sim) {
	for (uint32_t i = 0; i < sim->scenario->clients.count; i++) {
		if (sim->client[i].lost_count > 0) {
			choose_subset(sim, i);
		}
	}
}

void weir_sim_clients_rechoose(struct weir_sim *sim) {
	for (uint32_t i = 0; i < sim->scenario->clients.count; i++) {
		choose_subset(sim, i);
	}
}

void weir_sim_clients_republish(struct weir_sim *sim) {
	find_needs(sim);
	for (uint32_t i = 0; i < sim->scenario->backends.count; i++) {
		weir_moving_free(sim->backend[i].moving);
		sim->backend[i].moving = NULL;
	}
	for (uint32_t i = 0; i < sim->scenario->clients.count; i++) {
		struct weir_sim_client *client = &sim->client[i];

		// The new policy may need other measurements.
		for (uint32_t k = 0; k < client->slot_count; k++) {
			weir_moving_free(client->slot[k].moving);
			client->slot[k].moving = NULL;
		}
		choose_subset(sim, i);
	}
}
