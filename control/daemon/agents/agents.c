// SPDX-License-Identifier: BSD-3-Clause
#include "agents.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agents_private.h"

// --- lookup by address --------------------------------------------------------------------

static bool is_at(const struct agent *agent, const struct weir_address *address, uint16_t port) {
	return agent->port == port && agent->address.family == address->family &&
	       memcmp(agent->address.bytes, address->bytes, sizeof(address->bytes)) == 0;
}

// FNV-1a. The addresses come from the configuration, so a peer cannot cause collisions.
static uint32_t hash(const struct weir_address *address, uint16_t port) {
	uint32_t h = 0x811c9dc5u;

	for (size_t i = 0; i < sizeof(address->bytes); i++) {
		h = (h ^ address->bytes[i]) * 0x01000193u;
	}
	h = (h ^ (port & 0xff)) * 0x01000193u;
	return (h ^ port >> 8) * 0x01000193u;
}

// The agent at an address, or NULL.
static struct agent *find(
	const struct weir_agents *agents, const struct weir_address *address, uint16_t port) {
	struct agent *agent = agents->buckets != NULL
				      ? agents->buckets[hash(address, port) & agents->bucket_mask]
				      : NULL;

	while (agent != NULL && !is_at(agent, address, port)) {
		agent = agent->hash_next;
	}
	return agent;
}

static void insert(struct agent **buckets, uint32_t mask, struct agent *agent) {
	struct agent **bucket = &buckets[hash(&agent->address, agent->port) & mask];

	agent->hash_next = *bucket;
	*bucket = agent;
}

// --- configuration ------------------------------------------------------------------------

// State of a configuration before it is applied.
struct plan {
	struct member *members;
	struct agent **buckets;
	struct agent **fresh; // new agents
	uint32_t ids, mask, fresh_count;
};

static bool is_sound(const struct weir_agents_target *target) {
	return target->backend < WEIR_AGENTS_BACKENDS_MAX && target->port != 0 &&
	       (target->address.family == 4 || target->address.family == 6) &&
	       target->interval_ms > 0 && target->inactive_interval_ms >= target->interval_ms &&
	       target->inactive_interval_ms <= WEIR_AGENT_INTERVAL_MOST_MS &&
	       target->timeout_ms > 0 && target->timeout_ms <= target->interval_ms;
}

static void plan_fini(struct plan *plan) {
	for (uint32_t i = 0; i < plan->fresh_count; i++) {
		free(plan->fresh[i]);
	}
	free(plan->fresh);
	free(plan->buckets);
	free(plan->members);
}

// The agent of a target: an existing one, or one of this plan, created if missing. NULL if out of
// memory.
static struct agent *agent_of(
	struct weir_agents *agents, struct plan *plan, const struct weir_agents_target *target) {
	struct weir_agents planned = {.buckets = plan->buckets, .bucket_mask = plan->mask};
	struct agent *agent = find(agents, &target->address, target->port);

	if (agent == NULL) {
		agent = find(&planned, &target->address, target->port);
	}
	if (agent != NULL) {
		return agent;
	}
	agent = calloc(1, sizeof(*agent));
	if (agent == NULL) {
		return NULL;
	}
	agent->agents = agents;
	agent->address = target->address;
	agent->port = target->port;
	agent->lost = true;
	agent->balancer = weir_agent_random_number();
	plan->fresh[plan->fresh_count++] = agent;
	insert(plan->buckets, plan->mask, agent);
	return agent;
}

static int plan_target(
	struct weir_agents *agents, struct plan *plan, const struct weir_agents_target *target) {
	struct member *member = &plan->members[target->backend];

	if (member->agent != NULL) {
		return -EINVAL;
	}
	member->agent = agent_of(agents, plan, target);
	if (member->agent == NULL) {
		return -ENOMEM;
	}
	member->target = *target;
	return weir_agents_sockets_open(agents->sockets, target->address.family);
}

static int plan_init(struct plan *plan, const struct weir_agents_target *targets, uint32_t n) {
	uint32_t buckets = 16;

	*plan = (struct plan){0};
	for (uint32_t i = 0; i < n; i++) {
		if (!is_sound(&targets[i])) {
			return -EINVAL;
		}
		plan->ids = targets[i].backend >= plan->ids ? targets[i].backend + 1u : plan->ids;
	}
	while (buckets < n) {
		buckets *= 2;
	}
	plan->mask = buckets - 1;
	plan->members = calloc(plan->ids + 1, sizeof(plan->members[0]));
	plan->buckets = calloc(buckets, sizeof(plan->buckets[0]));
	plan->fresh = calloc(n + 1, sizeof(plan->fresh[0]));
	return plan->members == NULL || plan->buckets == NULL || plan->fresh == NULL ? -ENOMEM : 0;
}

static uint32_t least(uint32_t a, uint32_t b) {
	return a < b ? a : b;
}

static uint32_t most(uint32_t a, uint32_t b) {
	return a > b ? a : b;
}

// Combine the parameters of all backends of an agent.
static void combine(struct agent *agent, const struct member *members) {
	agent->agents->counts.agents++;
	agent->members = agent->next_members;
	agent->next_members = 0;
	agent->interval_ms = agent->inactive_interval_ms = UINT32_MAX;
	agent->timeout_ms = agent->wants = agent->settled = 0;
	agent->active = false;
	for (uint32_t link = agent->members; link != 0; link = members[link - 1].next) {
		const struct weir_agents_target *target = &members[link - 1].target;

		agent->interval_ms = least(agent->interval_ms, target->interval_ms);
		agent->inactive_interval_ms =
			least(agent->inactive_interval_ms, target->inactive_interval_ms);
		agent->timeout_ms = most(agent->timeout_ms, target->timeout_ms);
		agent->settled = most(agent->settled, target->settled);
		agent->wants |= target->wants;
		agent->active |= members[link - 1].active;
	}
}

static void join(struct weir_agents *agents, struct plan *plan) {
	for (uint32_t id = 0; id < plan->ids; id++) {
		struct member *member = &plan->members[id];
		const struct member *previous = id < agents->ids ? &agents->members[id] : NULL;

		if (member->agent == NULL) {
			continue;
		}
		if (previous == NULL || previous->agent != member->agent) {
			member->agent->streak = 0; // probed soon: the new backend has no report yet
		}
		member->active =
			previous != NULL && previous->agent == member->agent && previous->active;
		member->next = member->agent->next_members;
		member->agent->next_members = id + 1;
	}
}

// Free the agents that have no backend any more; insert the others into the new buckets.
static void keep_or_free(struct weir_agents *agents, struct plan *plan) {
	for (uint32_t i = 0; agents->buckets != NULL && i <= agents->bucket_mask; i++) {
		struct agent *agent = agents->buckets[i], *next;
		uint32_t wants;

		for (; agent != NULL; agent = next) {
			next = agent->hash_next;
			if (agent->next_members == 0) {
				weir_wheel_clear(&agents->wheel, &agent->entry);
				weir_agents_steals_cancel(agents->steals, agent);
				free(agent);
				continue;
			}
			wants = agent->wants;
			combine(agent, plan->members);
			insert(plan->buckets, plan->mask, agent);
			weir_agents_hasten(agent);
			if ((agent->wants & ~wants) != 0) {
				weir_agents_measure_more(agent);
			}
		}
	}
}

// A few new agents are probed soon; many are spread over their interval.
static void start_fresh(struct weir_agents *agents, struct plan *plan) {
	uint64_t now_ms = weir_agents_now_ms();

	for (uint32_t i = 0; i < plan->fresh_count; i++) {
		struct agent *agent = plan->fresh[i];
		uint32_t spread;

		combine(agent, plan->members);
		spread = least(plan->fresh_count, agent->interval_ms);
		agent->next_ms = now_ms + 1 + (uint64_t)i * spread / plan->fresh_count;
		weir_wheel_set(&agents->wheel, &agent->entry, agent->next_ms);
	}
	agents->fresh_ms = plan->fresh_count > 0 ? now_ms : 0;
	plan->fresh_count = 0; // owned by `agents` now
}

int weir_agents_configure(
	struct weir_agents *agents, const struct weir_agents_target *targets, uint32_t n) {
	struct member *previous = agents->members;
	struct agent **previous_buckets = agents->buckets;
	struct plan plan;
	int r = plan_init(&plan, targets, n);

	for (uint32_t i = 0; r == 0 && i < n; i++) {
		r = plan_target(agents, &plan, &targets[i]);
	}
	if (r < 0) {
		plan_fini(&plan);
		return r;
	}
	join(agents, &plan);
	agents->counts.agents = 0;
	keep_or_free(agents, &plan);
	agents->members = plan.members;
	agents->ids = plan.ids;
	agents->buckets = plan.buckets;
	agents->bucket_mask = plan.mask;
	start_fresh(agents, &plan);
	plan.members = previous;
	plan.buckets = previous_buckets;
	plan_fini(&plan);
	weir_agents_arm(agents);
	return 0;
}

void weir_agents_set_keys(struct weir_agents *agents, const struct weir_agent_keys *keys) {
	agents->keys = *keys;
}

void weir_agents_set_active(struct weir_agents *agents, uint16_t backend, bool active) {
	const struct member *member = weir_agents_member(agents, backend);
	struct agent *agent;

	if (member == NULL || member->active == active) {
		return;
	}
	agent = member->agent;
	agents->members[backend].active = active;
	agent->active = false;
	for (uint32_t link = agent->members; link != 0; link = agents->members[link - 1].next) {
		agent->active |= agents->members[link - 1].active;
	}
	weir_agents_hasten(agent);
	weir_agents_arm(agents);
}

void weir_agents_set_wants(struct weir_agents *agents, uint16_t backend, uint32_t wants) {
	const struct member *member = weir_agents_member(agents, backend);
	struct agent *agent;
	uint32_t before;

	if (member == NULL) {
		return;
	}
	agent = member->agent;
	before = agent->wants;
	agents->members[backend].target.wants = wants;
	agent->wants = 0;
	for (uint32_t link = agent->members; link != 0; link = agents->members[link - 1].next) {
		agent->wants |= agents->members[link - 1].target.wants;
	}
	if ((agent->wants & ~before) != 0) {
		weir_agents_measure_more(agent);
		weir_agents_arm(agents);
	}
}

// --- status -------------------------------------------------------------------------------

int weir_agents_status(
	const struct weir_agents *agents, uint16_t backend, struct weir_agents_status *ret) {
	const struct member *member = weir_agents_member(agents, backend);
	const struct agent *agent;

	if (member == NULL) {
		return -ENOENT;
	}
	agent = member->agent;
	*ret = (struct weir_agents_status){.answers = agent->answers,
		.has_answer = agent->has_last,
		.interval_ms = weir_agents_interval_ms(agent),
		.streak = agent->streak,
		.probes = agent->probes,
		.answered = agent->answered};
	if (agent->has_last) {
		ret->age_ms = (uv_hrtime() - agent->answer_ns) / 1000000;
		ret->agent = agent->last.agent;
		ret->serial = agent->serial;
	}
	return 0;
}

struct weir_agents_counts weir_agents_counts(const struct weir_agents *agents) {
	return agents->counts;
}

// --- create and free ----------------------------------------------------------------------

static void on_received(void *context, const struct weir_address *address, uint16_t port,
	const uint8_t *bytes, size_t count) {
	struct weir_agents *agents = context;
	struct agent *agent = find(agents, address, port);

	if (agent == NULL) {
		agents->counts.refused[WEIR_AGENT_REFUSAL_SENDER]++;
	} else {
		weir_agents_take(agent, bytes, count);
	}
}

static void on_received_all(void *context) {
	struct weir_agents *agents = context;

	weir_agents_sockets_flush(agents->sockets);
	weir_agents_arm(agents);
}

// An error of this host is no result about the backend.
static void on_unsent(void *context, void *owner, int error) {
	struct agent *agent = owner;
	bool is_local = error == -EAGAIN || error == -ENOBUFS || error == -ENOMEM ||
			error == -EPERM || error == -EACCES || error == -EAFNOSUPPORT ||
			error == -EADDRNOTAVAIL;

	if (weir_agents_steals_unsent(((struct weir_agents *)context)->steals, owner)) {
		return;
	}
	agent->probe[0].state = PROBE_NONE;
	weir_agents_end_probe(
		agent, is_local ? WEIR_AGENTS_UNKNOWN : WEIR_AGENTS_SILENT, strerror(-error));
	weir_agents_schedule(agent);
}

int weir_agents_create(
	uv_loop_t *loop, const struct weir_agents_events *events, struct weir_agents **ret) {
	struct weir_agents_socket_events sockets = {
		.received = on_received, .received_all = on_received_all, .unsent = on_unsent};
	struct weir_agents *agents;
	int r = weir_agent_crypto_start();

	if (r < 0) {
		return r;
	}
	agents = calloc(1, sizeof(*agents));
	if (agents == NULL) {
		return -ENOMEM;
	}
	sockets.context = agents;
	agents->loop = loop;
	agents->events = *events;
	r = weir_agents_sockets_create(loop, &sockets, &agents->sockets);
	if (r < 0) {
		goto free_agents;
	}
	r = weir_agents_steals_create(agents, &agents->steals);
	if (r < 0) {
		goto free_sockets;
	}
	agents->random = weir_agent_random_number();
	agents->started_ns = uv_hrtime();
	weir_wheel_init(&agents->wheel, weir_agents_now_ms());
	uv_timer_init(loop, &agents->timer);
	agents->timer.data = agents;
	*ret = agents;
	return 0;
free_sockets:
	weir_agents_sockets_free(agents->sockets);
free_agents:
	free(agents);
	return r;
}

static void on_closed(uv_handle_t *handle) {
	free(handle->data);
}

void weir_agents_free(struct weir_agents *agents) {
	if (agents == NULL) {
		return;
	}
	for (uint32_t i = 0; agents->buckets != NULL && i <= agents->bucket_mask; i++) {
		struct agent *agent = agents->buckets[i], *next;

		for (; agent != NULL; agent = next) {
			next = agent->hash_next;
			free(agent);
		}
	}
	free(agents->buckets);
	free(agents->members);
	agents->buckets = NULL;
	agents->members = NULL;
	agents->ids = 0;
	weir_agent_keys_wipe(&agents->keys);
	weir_agents_steals_free(agents->steals);
	weir_agents_sockets_free(agents->sockets);
	uv_close((uv_handle_t *)&agents->timer, on_closed);
}
