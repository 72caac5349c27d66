// SPDX-License-Identifier: BSD-3-Clause
//
// Probes: their schedule, and timeouts.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agents_private.h"

#define JITTER_SHARE 16 // a probe is sent up to this fraction of an interval earlier
#define DUE_BETWEEN_READS 64
#define MEASURE_MS 1000 // maximum time in which an agent measures a new field

// SplitMix64.
static uint64_t next_random(struct weir_agents *agents) {
	uint64_t x = agents->random += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

uint64_t weir_agents_interval_ms(const struct agent *agent) {
	bool slow = !agent->active && agent->streak >= agent->settled &&
		    weir_agents_now_ms() >= agent->soon_ms;

	return slow ? agent->inactive_interval_ms : agent->interval_ms;
}

void weir_agents_schedule(struct agent *agent) {
	uint64_t due_ms = agent->next_ms;

	if (agent->awaiting && agent->deadline_ms < due_ms) {
		due_ms = agent->deadline_ms;
	}
	weir_wheel_set(&agent->agents->wheel, &agent->entry, due_ms);
}

// Relative to the time at which this probe was due, so that the probes stay spread, even after a
// pause of the whole process, when all are due at once.
static void set_next(struct agent *agent, uint64_t now_ms) {
	uint64_t interval = weir_agents_interval_ms(agent);
	uint64_t early = next_random(agent->agents) % (interval / JITTER_SHARE + 1);

	agent->next_ms += interval - early;
	if (agent->next_ms <= now_ms) {
		agent->next_ms += ((now_ms - agent->next_ms) / interval + 1) * interval;
	}
	if (agent->next_ms > now_ms + interval) {
		agent->next_ms = now_ms + interval - early;
	}
}

static void write_probe(const struct agent *agent, uint64_t now_ns, uint8_t *to) {
	const struct weir_agents *agents = agent->agents;
	struct weir_agent_probe probe = {
		.balancer = agent->balancer,
		.sequence = agent->sequence,
		.agent = agent->has_last ? agent->last.agent : 0,
		.clock_ms = (now_ns - agents->started_ns) / 1000000,
		// Upper bound: the next probe is sent at this interval or earlier.
		.interval_ms = agent->active ? agent->interval_ms : agent->inactive_interval_ms,
		.heard = agent->serial,
		.wants = agent->wants,
		.recipient_port = agent->port,
	};

	weir_agent_recipient(agent->address.family, agent->address.bytes, probe.recipient);
	memcpy(probe.challenge, agent->probe[0].challenge, sizeof(probe.challenge));
	weir_agent_probe_encode(&probe, &agents->keys.key[0], to);
}

void weir_agents_probe(struct agent *agent) {
	struct weir_agents *agents = agent->agents;
	uint64_t now_ns = uv_hrtime();

	agent->sequence++;
	agent->probes++;
	agents->counts.probes++;
	agent->probe[1] = agent->probe[0];
	agent->probe[0] = (struct probe){.sent_ns = now_ns, .state = PROBE_SENT};
	weir_agent_random_challenge(agent->probe[0].challenge);
	agent->awaiting = true;
	agent->deadline_ms = now_ns / 1000000 + agent->timeout_ms;
	write_probe(agent, now_ns,
		weir_agents_sockets_add(agents->sockets, &agent->address, agent->port, agent));
}

static void count_end(struct agent *agent, bool answered) {
	agent->streak = agent->answers == answered ? agent->streak + 1 : 1;
	agent->answers = answered;
	agent->answered += answered;
	if (answered) {
		agent->lost = false;
	} else {
		agent->agents->counts.silent++;
	}
}

void weir_agents_end_probe(
	struct agent *agent, enum weir_agents_outcome outcome, const char *detail) {
	const struct weir_agents *agents = agent->agents;
	uint32_t duration_ms = (uint32_t)((uv_hrtime() - agent->probe[0].sent_ns) / 1000000);
	bool lost = false;

	agent->awaiting = false;
	if (outcome != WEIR_AGENTS_UNKNOWN) {
		count_end(agent, outcome == WEIR_AGENTS_ANSWERED);
		lost = !agent->answers && !agent->lost && agent->streak >= WEIR_AGENT_SILENT_PROBES;
		agent->lost |= lost;
		weir_agents_hasten(agent);
	}
	for (uint32_t link = agent->members; link != 0; link = agents->members[link - 1].next) {
		uint16_t id = (uint16_t)(link - 1);

		agents->events.probed(agents->events.context, id, outcome, detail, duration_ms);
		if (lost) {
			agents->events.lost(agents->events.context, id);
		}
	}
}

void weir_agents_hasten(struct agent *agent) {
	uint64_t interval = weir_agents_interval_ms(agent), now_ms = weir_agents_now_ms();

	if (agent->next_ms > now_ms + interval) { // at a random time in it: many agents may be
						  // rescheduled at once
		agent->next_ms = now_ms + 1 + next_random(agent->agents) % interval;
	}
	weir_agents_schedule(agent);
}

void weir_agents_measure_more(struct agent *agent) {
	agent->soon_ms = weir_agents_now_ms() + 2 * (uint64_t)agent->interval_ms + MEASURE_MS;
	weir_agents_hasten(agent);
}

static void time_out(struct agent *agent) {
	char detail[WEIR_AGENTS_DETAIL_BYTES];

	snprintf(detail, sizeof(detail), "no answer from weir-agent within %u ms",
		agent->timeout_ms);
	weir_agents_end_probe(agent, WEIR_AGENTS_SILENT, detail);
}

static void start_probe(struct agent *agent, uint64_t now_ms) {
	struct weir_agents *agents = agent->agents;
	uint64_t late_ms = now_ms - agent->next_ms;

	if (late_ms > agents->counts.late_ms) {
		agents->counts.late_ms = late_ms;
	}
	set_next(agent, now_ms);
	if (agents->keys.count == 0) {
		agent->probe[0].sent_ns = uv_hrtime();
		weir_agents_end_probe(
			agent, WEIR_AGENTS_UNKNOWN, "weir-control has no key for agents");
	} else {
		weir_agents_probe(agent);
	}
}

// Whether waiting for an answer ends now. With unread datagrams, which may contain it, waiting
// continues until the next probe.
static bool is_over(const struct agent *agent, uint64_t now_ms, bool unread) {
	return agent->next_ms <= now_ms || (agent->deadline_ms <= now_ms && !unread);
}

static void on_due(struct agent *agent, uint64_t now_ms, bool unread) {
	if (agent->awaiting && is_over(agent, now_ms, unread)) {
		time_out(agent);
	} else if (agent->awaiting && agent->deadline_ms <= now_ms) {
		agent->deadline_ms = now_ms + WEIR_WHEEL_TICK_MS;
	}
	if (agent->next_ms <= now_ms) {
		start_probe(agent, now_ms);
	}
	weir_agents_schedule(agent);
}

// Applying a configuration keeps the loop busy. Delay new agents by that time, so that they stay
// spread and are not probed all at once afterwards.
static void delay_fresh(struct weir_agents *agents, uint64_t now_ms) {
	uint64_t busy_ms = now_ms - agents->fresh_ms;

	agents->fresh_ms = 0;
	for (uint32_t i = 0; busy_ms > WEIR_WHEEL_TICK_MS && i <= agents->bucket_mask; i++) {
		for (struct agent *agent = agents->buckets[i]; agent != NULL;
			agent = agent->hash_next) {
			if (agent->probes == 0) {
				agent->next_ms += busy_ms;
				weir_agents_schedule(agent);
			}
		}
	}
}

static void on_timer(uv_timer_t *timer) {
	struct weir_agents *agents = timer->data;
	uint64_t now_ms = weir_agents_now_ms();
	struct weir_wheel_entry *entry;
	uint32_t due = 0;
	bool unread;

	if (agents->fresh_ms != 0) {
		delay_fresh(agents, now_ms);
	}
	// While the loop was busy, answers may have arrived in time that are still unread. After a
	// long time, thousands of agents are probed now, and not all of their answers fit into the
	// receive buffer.
	unread = weir_agents_sockets_read(agents->sockets);
	while ((entry = weir_wheel_take(&agents->wheel, now_ms)) != NULL) {
		on_due((struct agent *)(void *)entry, now_ms, unread);
		if (++due % DUE_BETWEEN_READS == 0) {
			weir_agents_sockets_flush(agents->sockets);
			unread = weir_agents_sockets_read(agents->sockets);
		}
	}
	weir_agents_sockets_flush(agents->sockets);
	weir_agents_arm(agents);
}

_Static_assert(offsetof(struct agent, entry) == 0, "a wheel entry is cast to its agent");

void weir_agents_arm(struct weir_agents *agents) {
	uint64_t wait_ms = weir_wheel_wait(&agents->wheel, weir_agents_now_ms());

	if (wait_ms == 0) {
		uv_timer_stop(&agents->timer);
		return;
	}
	uv_update_time(agents->loop);
	// A timer that is due is not put off: under a flood of datagrams this is called in every
	// turn, and from libuv 1.45 on timers run after the sockets.
	if (!uv_is_active((uv_handle_t *)&agents->timer) ||
		uv_timer_get_due_in(&agents->timer) > wait_ms) {
		uv_timer_start(&agents->timer, on_timer, wait_ms, 0);
	}
}
