// SPDX-License-Identifier: BSD-3-Clause
#include "recent_errors.h"

#include <string.h>

// A tick is an eighth of the window, in nanoseconds.
#define TICK_NS_PER_WINDOW_MS (UINT64_C(1000000) / WEIR_POLICY_ERROR_SLOTS)

// While new flows arrive, signals from weir-control are read at least this often, even if a tick is
// longer.
#define LOOK_NS UINT64_C(250000000)

// Adds a random number of flows to the share, from a range whose width is the signal's `spread`.
// Otherwise, until the next report, all workers would send their flows to the same backend: the
// backend with the lowest load.
void weir_errors_adopt_share(struct weir_policy_worker *worker, uint32_t id, uint64_t word) {
	struct weir_policy_backend *backend = &worker->backends[id];
	int64_t spread = weir_signal_share_spread(word);
	int64_t missing = weir_signal_share_flows(word) +
			  weir_policy_uniform(worker, (uint32_t)spread + 1) - spread / 2 -
			  (int64_t)backend->active * WEIR_SIGNAL_FLOW;

	missing = missing > 0 ? missing * (weir_signal_share_gain(word) + 1) >> 8 : 0;
	backend->serial = (uint8_t)weir_signal_serial(word);
	backend->reported = (uint32_t)missing + weir_signal_share_errors(word) * WEIR_SIGNAL_FLOW;
}

static void set_tick_end(struct weir_policy_client *client, uint64_t now_ns) {
	client->tick_end_ns =
		client->slot_end_ns < now_ns + LOOK_NS ? client->slot_end_ns : now_ns + LOOK_NS;
}

void weir_errors_adopt(struct weir_policy_client *client, uint64_t now_ns) {
	uint64_t tick_ns = client->settings.error_window_ms * TICK_NS_PER_WINDOW_MS;

	if ((client->settings.needs & WEIR_NEEDS_ERRORS) == 0) {
		// No further ticks will occur. Advance the tick by all slots, so that the collected
		// errors expire.
		client->tick += client->tick_ns > 0 ? WEIR_POLICY_ERROR_SLOTS : 0;
		client->slot_end_ns = UINT64_MAX;
		client->tick_end_ns = UINT64_MAX;
		client->tick_ns = 0;
		return;
	}
	tick_ns = tick_ns > 0 ? tick_ns : 1;
	if (client->tick_ns != tick_ns) {
		client->tick_ns = tick_ns;
		client->slot_end_ns = now_ns + tick_ns;
		set_tick_end(client, now_ns);
	}
}

static void pass_slots(struct weir_policy_client *client, uint64_t now_ns) {
	for (uint32_t i = 0; i < WEIR_POLICY_ERROR_SLOTS; i++) {
		if (now_ns < client->slot_end_ns) {
			return;
		}
		client->tick++;
		client->slot_end_ns += client->tick_ns;
	}
	if (now_ns >= client->slot_end_ns) {
		// All errors have expired, so ticks may begin again at any time.
		client->slot_end_ns = now_ns + client->tick_ns;
	}
}

void weir_errors_tick(struct weir_policy_client *client, uint64_t now_ns) {
	pass_slots(client, now_ns);
	set_tick_end(client, now_ns);
}

void weir_errors_age(const struct weir_policy_client *client, struct weir_policy_backend *backend) {
	uint32_t ticks = client->tick - backend->error_tick;

	if (ticks >= WEIR_POLICY_ERROR_SLOTS) {
		memset(backend->error, 0, sizeof(backend->error));
		backend->errors = 0;
	} else {
		for (uint32_t i = 1; i <= ticks; i++) {
			uint32_t slot = (backend->error_tick + i) % WEIR_POLICY_ERROR_SLOTS;

			backend->errors -= backend->error[slot];
			backend->error[slot] = 0;
		}
	}
	backend->error_tick = client->tick;
}

void weir_errors_add(const struct weir_policy_client *client, struct weir_policy_backend *backend) {
	uint16_t *slot = &backend->error[client->tick % WEIR_POLICY_ERROR_SLOTS];

	weir_errors_age(client, backend);
	if (*slot < UINT16_MAX) {
		(*slot)++;
		backend->errors++;
	}
}
