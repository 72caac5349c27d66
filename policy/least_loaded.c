// SPDX-License-Identifier: BSD-3-Clause
//
// Least loaded: chooses the candidate with the lowest load, divided by its weight; equal candidates
// are chosen in turn. The load is the sum of active flows, recent errors, and the worker's missing
// share of the flows that the backend reports (recent_errors.h). The load is not divided, but
// multiplied by a factor that is inversely proportional to the weight (inverse_weight.h). If all
// weights are equal, there are no factors. With more than WEIR_POLICY_EXACT candidates, the policy
// compares only the candidates of two windows (window.h). Errors count as load, because otherwise a
// backend that fails fast would seem idle.
#include "recent_errors.h"
#include "window.h"

#define LOAD_MOST (UINT64_C(1) << 47) // keeps products with 16-bit factors below 2^63

// A separate function, so that equal weights cost only one branch.
static __attribute__((noinline)) uint32_t weighted_key(
	struct weir_policy_client *client, struct weir_policy_backend *backend) {
	uint64_t load = weir_policy_load_over_part(client, backend);

	load = (load < LOAD_MOST ? load : LOAD_MOST) * backend->factor >> client->key_shift;
	if (load >= WEIR_POLICY_KEY_NONE) {
		client->key_overflow = 1;
		return WEIR_POLICY_KEY_NONE - 1;
	}
	return (uint32_t)load;
}

static uint32_t key(struct weir_policy_client *client, struct weir_policy_backend *backend) {
	uint64_t load;

	if (__builtin_expect(client->weighted != 0, 0)) {
		return weighted_key(client, backend);
	}
	load = weir_policy_load_over_part(client, backend);
	return load < WEIR_POLICY_KEY_NONE ? (uint32_t)load : WEIR_POLICY_KEY_NONE - 1;
}

static void start(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, uint64_t now_ns) {
	(void)now_ns;
	client->key_overflow = 0;
	if (client->weighted == 0) {
		client->key_shift = 0;
	}
	weir_window_load(worker, client, table, &weir_least_loaded_ops);
	weir_window_fit(worker, client, &weir_least_loaded_ops);
}

static bool takes(struct weir_policy_worker *worker, const struct weir_policy_client *client,
	const struct weir_policy_table *table, uint16_t id, bool waits) {
	(void)waits;
	return weir_policy_takes_flow(worker, client, table, id);
}

static uint32_t choose(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, uint64_t hash, uint64_t now_ns) {
	uint32_t load;
	uint32_t place = weir_window_least(worker, client, table, &weir_least_loaded_ops, 0, &load);

	(void)hash;
	(void)now_ns;
	if (place == WEIR_POLICY_NONE) {
		return WEIR_POLICY_NONE;
	}
	client->turns++;
	if (!weir_window_place_takes(worker, client, table, takes, place, 0)) {
		place = weir_window_pass_over(worker, client, table, takes, place, 0, &load);
	}
	return weir_window_take(worker, client, table, place);
}

const struct weir_policy_ops weir_least_loaded_ops = {
	.start = start, .choose = choose, .key = key, .cursor = true};
