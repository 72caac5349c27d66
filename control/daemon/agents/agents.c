// SPDX-License-Identifier: BSD-3-Clause
#include "agents.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agents_prober.h"
#include "agents_shed.h"
#include "agents_socket.h"
#include "agents_steal.h"
#include "wheel.h"

#define DUE_BETWEEN_READS 64

struct agent { // one weir-agent, of one or more backends
	struct weir_wheel_entry entry; // due when the prober is due
	struct weir_agents *agents;
	struct agent *hash_next;
	struct weir_agents_peer peer;
	struct weir_agents_prober *prober;
	// Head of the list of the agent's backends: backend id + 1, 0 = the list is empty.
	uint32_t members;
	uint32_t next_members; // head of the same list in the configuration that is being applied
};

struct member { // data of a backend, indexed by backend id
	struct agent *agent; // NULL = none
	uint32_t next; // next backend in the agent's list: backend id + 1, 0 = last
	bool active;
	struct weir_agents_target target;
};

struct weir_agents {
	uv_loop_t *loop;
	struct weir_agents_events events;
	struct weir_agent_keys keys;
	struct weir_agents_counts counts;
	struct weir_agents_sockets *sockets;
	struct weir_agents_probing probing;
	struct weir_agents_steals *steals;
	struct weir_agents_sheds *sheds;
	uv_timer_t timer; // expires when the next entry of the wheel is due
	// Time when the last configuration added new agents to the wheel; 0 = it added no agent, or
	// the timer has run since.
	uint64_t fresh_ms;
	struct agent **buckets; // hash table by address and port
	uint32_t bucket_mask;
	struct member *members; // indexed by backend id
	uint32_t ids;
	struct weir_wheel wheel;
};

static uint64_t read_now_ms(void) {
	return uv_hrtime() / 1000000;
}

// Returns the data of a backend, or NULL if the backend has no agent.
static struct member *find_member(const struct weir_agents *agents, uint16_t backend) {
	return backend < agents->ids && agents->members[backend].agent != NULL
		       ? &agents->members[backend]
		       : NULL;
}

static void agent_free(struct agent *agent) {
	weir_agents_prober_free(agent->prober);
	free(agent);
}

// --- lookup by address --------------------------------------------------------------------

static bool is_at(const struct agent *agent, const struct weir_address *address, uint16_t port) {
	return agent->peer.port == port && weir_address_equal(&agent->peer.address, address);
}

// The hash function FNV-1a. It needs no secret seed: the addresses come from the configuration, so
// a peer cannot cause collisions.
static uint32_t hash(const struct weir_address *address, uint16_t port) {
	uint32_t h = 0x811c9dc5u;

	for (size_t i = 0; i < sizeof(address->bytes); i++) {
		h = (h ^ address->bytes[i]) * 0x01000193u;
	}
	h = (h ^ (port & 0xff)) * 0x01000193u;
	return (h ^ port >> 8) * 0x01000193u;
}

// Returns the agent at an address and port, or NULL.
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
	struct agent **bucket = &buckets[hash(&agent->peer.address, agent->peer.port) & mask];

	agent->hash_next = *bucket;
	*bucket = agent;
}

// --- timer --------------------------------------------------------------------------------

// Set the wheel entry to the time at which the prober is due.
static void schedule(struct agent *agent) {
	weir_wheel_set(
		&agent->agents->wheel, &agent->entry, weir_agents_prober_due_ms(agent->prober));
}

// Delays the first probes of new agents by the time for which the loop was busy after
// weir_agents_configure. Without the delay, many probes that should be spread over time would be
// due at the same time.
static void delay_fresh(struct weir_agents *agents, uint64_t now_ms) {
	uint64_t busy_ms = now_ms - agents->fresh_ms;

	agents->fresh_ms = 0;
	for (uint32_t i = 0; busy_ms > WEIR_WHEEL_TICK_MS && i <= agents->bucket_mask; i++) {
		for (struct agent *agent = agents->buckets[i]; agent != NULL;
			agent = agent->hash_next) {
			weir_agents_prober_delay(agent->prober, busy_ms);
			schedule(agent);
		}
	}
}

static void arm(struct weir_agents *agents);

static void on_timer(uv_timer_t *timer) {
	struct weir_agents *agents = timer->data;
	uint64_t now_ms = read_now_ms();
	struct weir_wheel_entry *entry;
	uint32_t due = 0;
	bool unread;

	if (agents->fresh_ms != 0) {
		delay_fresh(agents, now_ms);
	}
	// Read the sockets before probing. Answers that arrived in time while the loop was busy may
	// still be unread. After a long busy time, thousands of agents are probed below, and the
	// receive buffer has no room for all their answers.
	unread = weir_agents_sockets_read(agents->sockets);
	while ((entry = weir_wheel_take(&agents->wheel, now_ms)) != NULL) {
		struct agent *agent = (struct agent *)(void *)entry;

		weir_agents_prober_run(agent->prober, now_ms, unread);
		schedule(agent);
		if (++due % DUE_BETWEEN_READS == 0) {
			weir_agents_sockets_flush(agents->sockets);
			unread = weir_agents_sockets_read(agents->sockets);
		}
	}
	weir_agents_sockets_flush(agents->sockets);
	arm(agents);
}

_Static_assert(offsetof(struct agent, entry) == 0,
	"entry must be the first member: a wheel entry is cast to its agent");

// Start the timer so that it expires when the next entry of the wheel is due.
static void arm(struct weir_agents *agents) {
	uint64_t wait_ms = weir_wheel_wait(&agents->wheel, read_now_ms());

	if (wait_ms == 0) {
		uv_timer_stop(&agents->timer);
		return;
	}
	uv_update_time(agents->loop);
	// Do not postpone a timer that is due. In a flood of datagrams, this function runs in every
	// iteration of the loop. Since libuv 1.45, timers run after the sockets. So a timer that is
	// postponed in each iteration would never expire.
	if (!uv_is_active((uv_handle_t *)&agents->timer) ||
		uv_timer_get_due_in(&agents->timer) > wait_ms) {
		uv_timer_start(&agents->timer, on_timer, wait_ms, 0);
	}
}

// --- configuration ------------------------------------------------------------------------

// The new members and agents while a configuration is being applied.
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
		agent_free(plan->fresh[i]);
	}
	free(plan->fresh);
	free(plan->buckets);
	free(plan->members);
}

// Returns the agent at the address and port of a target. If this agent is not yet in the current
// configuration or in the plan, adds it to the plan. Returns NULL if out of memory.
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
	agent->peer = (struct weir_agents_peer){.address = target->address,
		.port = target->port,
		.balancer = weir_agent_random_number()};
	agent->prober = weir_agents_prober_create(&agents->probing, &agent->peer, agent);
	if (agent->prober == NULL) {
		free(agent);
		return NULL;
	}
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

// Combines the settings of all backends of an agent. The result has the shortest intervals, the
// longest timeout (but at most the interval, because a probe ends the wait for the answer to the
// previous probe), the largest `settled`, and all fields that any backend requests.
static struct weir_agents_probe_settings combine(
	const struct agent *agent, const struct member *members) {
	struct weir_agents_probe_settings all = {
		.interval_ms = UINT32_MAX, .inactive_interval_ms = UINT32_MAX};

	for (uint32_t link = agent->members; link != 0; link = members[link - 1].next) {
		const struct weir_agents_target *target = &members[link - 1].target;

		all.interval_ms = least(all.interval_ms, target->interval_ms);
		all.inactive_interval_ms =
			least(all.inactive_interval_ms, target->inactive_interval_ms);
		all.timeout_ms = most(all.timeout_ms, target->timeout_ms);
		all.settled = most(all.settled, target->settled);
		all.wants |= target->wants;
		all.active |= members[link - 1].active;
	}
	all.timeout_ms = least(all.timeout_ms, all.interval_ms);
	return all;
}

// Replaces the members of an agent by its members in the plan. Returns their combined settings.
static struct weir_agents_probe_settings adopt_members(
	struct agent *agent, const struct plan *plan) {
	agent->agents->counts.agents++;
	agent->members = agent->next_members;
	agent->next_members = 0;
	return combine(agent, plan->members);
}

// Updates the settings of an agent after a member has changed.
static void update(struct agent *agent) {
	const struct weir_agents_probe_settings settings = combine(agent, agent->agents->members);

	weir_agents_prober_set(agent->prober, &settings);
	schedule(agent);
	arm(agent->agents);
}

static void join(struct weir_agents *agents, struct plan *plan) {
	for (uint32_t id = 0; id < plan->ids; id++) {
		struct member *member = &plan->members[id];
		const struct member *previous = id < agents->ids ? &agents->members[id] : NULL;

		if (member->agent == NULL) {
			continue;
		}
		if (previous == NULL || previous->agent != member->agent) {
			weir_agents_prober_restart(
				member->agent->prober, previous != NULL && previous->agent != NULL);
		}
		member->active =
			previous != NULL && previous->agent == member->agent && previous->active;
		member->next = member->agent->next_members;
		member->agent->next_members = id + 1;
	}
}

static void cancel_requests(struct weir_agents *agents, const struct weir_agents_peer *peer) {
	weir_agents_requests_cancel(weir_agents_steals_requests(agents->steals), peer);
	weir_agents_requests_cancel(weir_agents_sheds_requests(agents->sheds), peer);
}

// Frees the agents that no longer have a backend, and inserts all other agents into the plan's hash
// table.
static void keep_or_free(struct weir_agents *agents, struct plan *plan) {
	for (uint32_t i = 0; agents->buckets != NULL && i <= agents->bucket_mask; i++) {
		struct agent *agent = agents->buckets[i], *next;

		for (; agent != NULL; agent = next) {
			struct weir_agents_probe_settings settings;

			next = agent->hash_next;
			if (agent->next_members == 0) {
				weir_wheel_clear(&agents->wheel, &agent->entry);
				cancel_requests(agents, &agent->peer);
				agent_free(agent);
				continue;
			}
			settings = adopt_members(agent, plan);
			insert(plan->buckets, plan->mask, agent);
			weir_agents_prober_set(agent->prober, &settings);
			schedule(agent);
		}
	}
}

// Schedules the first probes of new agents: 1 ms apart, or evenly spread over the interval of each
// agent if this interval in ms is below the number of new agents.
static void start_fresh(struct weir_agents *agents, struct plan *plan) {
	uint64_t now_ms = read_now_ms();

	for (uint32_t i = 0; i < plan->fresh_count; i++) {
		struct agent *agent = plan->fresh[i];
		const struct weir_agents_probe_settings settings = adopt_members(agent, plan);
		uint32_t spread = least(plan->fresh_count, settings.interval_ms);

		weir_agents_prober_start(agent->prober, &settings,
			now_ms + 1 + (uint64_t)i * spread / plan->fresh_count);
		schedule(agent);
	}
	agents->fresh_ms = plan->fresh_count > 0 ? now_ms : 0;
	plan->fresh_count = 0; // the new agents are now owned by `agents`
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
	arm(agents);
	return 0;
}

void weir_agents_set_keys(struct weir_agents *agents, const struct weir_agent_keys *keys) {
	agents->keys = *keys;
}

void weir_agents_set_active(struct weir_agents *agents, uint16_t backend, bool active) {
	struct member *member = find_member(agents, backend);

	if (member != NULL && member->active != active) {
		member->active = active;
		update(member->agent);
	}
}

void weir_agents_set_wants(struct weir_agents *agents, uint16_t backend, uint32_t wants) {
	struct member *member = find_member(agents, backend);

	if (member != NULL && member->target.wants != wants) {
		member->target.wants = wants;
		update(member->agent);
	}
}

void weir_agents_hasten(struct weir_agents *agents, uint16_t backend) {
	struct member *member = find_member(agents, backend);

	if (member != NULL) {
		weir_agents_prober_restart(member->agent->prober, false);
		update(member->agent);
	}
}

// --- steals and sheds ---------------------------------------------------------------------

// Get what a request to a backend's agent needs: the agent, the random ID of its process, and its
// clock (weir_agents_prober_clock). Returns 0, -ENOENT (no agent), -ENOKEY (no keys) or -EAGAIN.
static int find_process(const struct weir_agents *agents, uint16_t backend, struct agent **ret,
	uint64_t *process, uint64_t *clock_ms) {
	const struct member *member = find_member(agents, backend);

	if (member == NULL) {
		return -ENOENT;
	}
	if (agents->keys.count == 0) {
		return -ENOKEY;
	}
	*ret = member->agent;
	return weir_agents_prober_clock(
		member->agent->prober, WEIR_AGENTS_STEAL_ANSWER_MS, process, clock_ms);
}

int weir_agents_request_steal(struct weir_agents *agents, const struct weir_agents_steal *steal) {
	uint64_t process, clock_ms;
	struct agent *agent;
	int r = find_process(agents, steal->backend, &agent, &process, &clock_ms);

	return r < 0 ? r
		     : weir_agents_steals_request(
			       agents->steals, &agent->peer, process, clock_ms, steal);
}

void weir_agents_on_steal_ended(
	struct weir_agents *agents, weir_agents_steal_ended ended, void *context) {
	weir_agents_steals_on_ended(agents->steals, ended, context);
}

int weir_agents_order_shed(struct weir_agents *agents, const struct weir_agents_shed *order) {
	uint64_t process, clock_ms;
	struct agent *agent;
	int r = find_process(agents, order->backend, &agent, &process, &clock_ms);

	return r < 0 ? r
		     : weir_agents_sheds_order(
			       agents->sheds, &agent->peer, process, clock_ms, order);
}

void weir_agents_on_shed_ended(
	struct weir_agents *agents, weir_agents_shed_ended ended, void *context) {
	weir_agents_sheds_on_ended(agents->sheds, ended, context);
}

// --- status -------------------------------------------------------------------------------

int weir_agents_status(
	const struct weir_agents *agents, uint16_t backend, struct weir_agents_status *ret) {
	const struct member *member = find_member(agents, backend);

	if (member == NULL) {
		return -ENOENT;
	}
	weir_agents_prober_status(member->agent->prober, ret);
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
	} else if (weir_agent_message_kind(bytes, count) == WEIR_AGENT_STEAL_ANSWER) {
		weir_agents_steals_take(agents->steals, &agent->peer, bytes, count);
	} else if (weir_agent_message_kind(bytes, count) == WEIR_AGENT_SHED_ANSWER) {
		weir_agents_sheds_take(agents->sheds, &agent->peer, bytes, count);
	} else if (weir_agent_message_kind(bytes, count) == WEIR_AGENT_TCP) {
		weir_agents_prober_take_tcp(agent->prober, bytes, count);
	} else {
		weir_agents_prober_take(agent->prober, bytes, count);
		schedule(agent);
	}
}

static void on_received_all(void *context) {
	struct weir_agents *agents = context;

	weir_agents_sockets_flush(agents->sockets);
	arm(agents);
}

static void on_unsent(void *context, void *owner, const uint8_t *bytes, int error) {
	struct weir_agents *agents = context;
	struct agent *agent = owner;

	if (!weir_agents_requests_unsent(weir_agents_steals_requests(agents->steals), owner) &&
		!weir_agents_requests_unsent(weir_agents_sheds_requests(agents->sheds), owner)) {
		weir_agents_prober_unsent(agent->prober, bytes, error);
		schedule(agent);
	}
}

static void on_report(void *owner, const struct weir_report *report) {
	const struct agent *agent = owner;
	const struct weir_agents *agents = agent->agents;

	for (uint32_t link = agent->members; link != 0; link = agents->members[link - 1].next) {
		agents->events.report(agents->events.context, (uint16_t)(link - 1), report);
	}
}

static void on_tcp(void *owner, const struct weir_agent_tcp *tcp) {
	const struct agent *agent = owner;
	const struct weir_agents *agents = agent->agents;

	for (uint32_t link = agent->members; link != 0; link = agents->members[link - 1].next) {
		const struct member *member = &agents->members[link - 1];

		if (agents->events.tcp != NULL &&
			(member->target.wants & WEIR_AGENT_TCP_FIGURES) != 0) {
			agents->events.tcp(agents->events.context, (uint16_t)(link - 1), tcp);
		}
	}
}

static bool on_unanswered(
	void *owner, uint32_t took_ms, uint32_t timeout_ms, char *why, size_t bytes) {
	const struct agent *agent = owner;
	const struct weir_agents_events *events = &agent->agents->events;

	return events->excuse != NULL && agent->members != 0 &&
	       events->excuse(events->context, (uint16_t)(agent->members - 1), took_ms, timeout_ms,
		       why, bytes);
}

static void on_probe_ended(void *owner, enum weir_agents_outcome outcome, const char *detail,
	uint32_t duration_ms, bool lost) {
	const struct agent *agent = owner;
	const struct weir_agents *agents = agent->agents;

	for (uint32_t link = agent->members; link != 0; link = agents->members[link - 1].next) {
		uint16_t id = (uint16_t)(link - 1);

		agents->events.probed(agents->events.context, id, outcome, detail, duration_ms);
		if (lost) {
			agents->events.lost(agents->events.context, id);
		}
	}
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
	r = weir_agents_steals_create(
		loop, agents->sockets, &agents->keys, &agents->counts, &agents->steals);
	if (r < 0) {
		goto free_sockets;
	}
	r = weir_agents_sheds_create(
		loop, agents->sockets, &agents->keys, &agents->counts, &agents->sheds);
	if (r < 0) {
		goto free_steals;
	}
	agents->probing = (struct weir_agents_probing){.sockets = agents->sockets,
		.keys = &agents->keys,
		.counts = &agents->counts,
		.started_ns = uv_hrtime(),
		.random = weir_agent_random_number(),
		.report = on_report,
		.tcp = on_tcp,
		.excuse = on_unanswered,
		.ended = on_probe_ended};
	weir_wheel_init(&agents->wheel, read_now_ms());
	uv_timer_init(loop, &agents->timer);
	agents->timer.data = agents;
	*ret = agents;
	return 0;
free_steals:
	weir_agents_steals_free(agents->steals);
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
			agent_free(agent);
		}
	}
	free(agents->buckets);
	free(agents->members);
	agents->buckets = NULL;
	agents->members = NULL;
	agents->ids = 0;
	weir_agent_keys_wipe(&agents->keys);
	weir_agents_steals_free(agents->steals);
	weir_agents_sheds_free(agents->sheds);
	weir_agents_sockets_free(agents->sockets);
	uv_close((uv_handle_t *)&agents->timer, on_closed);
}
