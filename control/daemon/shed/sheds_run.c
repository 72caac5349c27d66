// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "sheds_private.h"
#include "totals.h"

#define UNANSWERED_MOST 5u // a shed fails after this many attempts without an answer

// --- the mean -------------------------------------------------------------------------------

// Returns the open flows of a backend without those that its agent has ended.
static uint64_t flows_of(const struct weir_sheds *sheds, const struct weir_backend_state *backend) {
	const uint32_t timeout_ms = weir_tables_config(sheds->tables)->flow_table.established_ms;
	const struct weir_shed *shed = weir_sheds_find(sheds, backend->service, backend->name);
	const struct weir_segment *segment = weir_tables_segment(sheds->tables);
	uint64_t flows = weir_sum_backend(segment, backend->id).open_flows;
	uint64_t gone = shed != NULL && sheds->now_ms < shed->gone_ms + timeout_ms ? shed->gone : 0;

	return flows > gone ? flows - gone : 0;
}

int weir_shed_measure(const struct weir_sheds *sheds, const struct weir_backend_state *backend,
	uint64_t leaving, struct weir_shed_level *ret) {
	struct weir_shed_sum sum = {0};
	struct weir_backend_state each;
	uint64_t flows;

	for (uint32_t id = 0; id < weir_tables_backend_ids(sheds->tables); id++) {
		if (weir_tables_backend_service(sheds->tables, (uint16_t)id) ==
				backend->service_id &&
			weir_tables_backend(sheds->tables, (uint16_t)id, &each) == 0 &&
			!each.leaving && (each.in_selection || each.id == backend->id)) {
			weir_shed_sum_add(&sum, flows_of(sheds, &each), each.effective_weight);
		}
	}
	flows = flows_of(sheds, backend);
	return weir_shed_level(
		&sum, flows > leaving ? flows - leaving : 0, backend->effective_weight, ret);
}

// --- orders ---------------------------------------------------------------------------------

// Set the TCP binds of a service in an order. weir_sheds_start has checked their number, but a
// reload may have added more.
static void set_binds(struct weir_agents_shed *order, const struct weir_config_service *service) {
	for (uint32_t i = 0; i < service->bind_count; i++) {
		const struct weir_config_bind *bind = &service->binds[i];
		struct weir_agent_shed_bind *to = &order->binds[order->bind_count];

		if (bind->protocol != IPPROTO_TCP || order->bind_count == WEIR_AGENT_SHED_BINDS) {
			continue;
		}
		weir_agent_recipient(bind->address.family, bind->address.bytes, to->vip);
		to->port_first = bind->port_first;
		to->port_last = bind->port_last;
		order->bind_count++;
	}
}

static void fail(struct weir_sheds *sheds, struct weir_shed *shed, const char *why) {
	weir_shed_note(shed, "%s", why);
	weir_shed_end(sheds, shed, WEIR_SHED_FAILED);
}

// Count an attempt without an answer.
static void take_silence(struct weir_sheds *sheds, struct weir_shed *shed) {
	weir_shed_note(shed, "its weir-agent does not answer");
	if (++shed->unanswered >= UNANSWERED_MOST) {
		weir_shed_end(sheds, shed, WEIR_SHED_FAILED);
	}
}

static uint32_t rate_of(const struct weir_shed *shed) { // per 1000 s
	return (uint32_t)(shed->terms.rate * 1000 + 0.5);
}

static void send_order(struct weir_sheds *sheds, struct weir_shed *shed,
	const struct weir_backend_state *backend, struct weir_shed_step step) {
	const struct weir_config_service *service =
		weir_tables_service_config(sheds->tables, shed->service);
	struct weir_agents_shed order = {.backend = backend->id,
		.duration_ms = step.duration_ms,
		.count = step.count,
		.rate_milli_per_s = rate_of(shed),
		.keep = shed->level.mean < UINT32_MAX ? (uint32_t)shed->level.mean : UINT32_MAX,
		.idle_ms = (uint32_t)shed->terms.idle_ms};
	int r;

	if (service == NULL) {
		fail(sheds, shed, "the service is no longer configured");
		return;
	}
	memcpy(order.service, shed->service, sizeof(order.service));
	set_binds(&order, service);
	r = weir_agents_order_shed(sheds->of.agents, &order);
	if (r == 0) {
		shed->in_flight = true;
		shed->order_backend = backend->id;
		shed->orders += step.count > 0;
	} else if (r == -EAGAIN) {
		take_silence(sheds, shed);
	} else if (r != -EBUSY && r != -EALREADY) {
		fail(sheds, shed,
			r == -EINVAL ? "the service has no TCP bind"
				     : "it has no weir-agent any more");
	}
}

// Returns why a backend is not compared with the mean any more; NULL = it is.
static const char *misfit(const struct weir_backend_state *state) {
	return state->leaving                           ? "the backend was removed"
	       : state->admin == WEIR_ADMIN_DRAIN       ? "the backend is drained"
	       : state->admin == WEIR_ADMIN_MAINTENANCE ? "the backend is in maintenance"
	       : !state->in_selection                   ? "the backend takes no new flows"
							: NULL;
}

// Returns whether nothing is above the mean, by the flows of this balancer, or by the connections
// that the agent has counted. Those that the hook has got do not count.
static bool is_at_mean(const struct weir_shed *shed) {
	return shed->level.above == 0 ||
	       shed->connections <= shed->level.mean + (uint64_t)shed->leaving;
}

// End a shed that is at the mean, once the clients had time to connect again: some of them return
// to the backend. Until then orders that end nothing count its connections.
static void wait_at_mean(struct weir_sheds *sheds, struct weir_shed *shed,
	const struct weir_backend_state *backend) {
	if (shed->level_ms == 0) {
		shed->level_ms = sheds->now_ms;
	}
	if (shed->leaving == 0 && sheds->now_ms >= shed->level_ms + WEIR_SHED_SETTLED_MS) {
		weir_shed_note(shed, "it is at the mean");
		weir_shed_end(sheds, shed, WEIR_SHED_DONE);
	} else {
		weir_shed_note(shed, "waits for clients that connect again");
		send_order(sheds, shed, backend,
			(struct weir_shed_step){.duration_ms = WEIR_SHED_ORDER_MS});
	}
}

void weir_shed_advance(struct weir_sheds *sheds, struct weir_shed *shed) {
	const uint64_t left = shed->first.flows > shed->ended ? shed->first.flows - shed->ended : 0;
	struct weir_backend_state state;
	int id = weir_tables_backend_find(sheds->tables, shed->service, shed->backend);

	if (id < 0 || weir_tables_backend(sheds->tables, (uint16_t)id, &state) < 0) {
		fail(sheds, shed, "the backend is no longer configured");
		return;
	}
	if (misfit(&state) != NULL) {
		fail(sheds, shed, misfit(&state));
		return;
	}
	if (weir_shed_measure(sheds, &state, shed->leaving, &shed->level) < 0) {
		fail(sheds, shed, "no other backend takes new flows");
		return;
	}
	weir_shed_level_raise(&shed->level, shed->first.mean);
	if (shed->state == WEIR_SHED_STARTING) {
		send_order(sheds, shed, &state,
			(struct weir_shed_step){.duration_ms = WEIR_SHED_ORDER_MS});
		return;
	}
	if (sheds->now_ms >= shed->began_ms + (uint64_t)shed->terms.for_ms) {
		weir_shed_note(shed, "its time (--duration) is over");
		weir_shed_end(sheds, shed, WEIR_SHED_EXPIRED);
	} else if (is_at_mean(shed)) {
		wait_at_mean(sheds, shed, &state);
	} else if (left == 0) {
		weir_shed_note(shed, "it has ended as many connections as the backend had at its "
				     "start");
		weir_shed_end(sheds, shed, WEIR_SHED_DONE);
	} else {
		shed->level_ms = 0;
		send_order(sheds, shed, &state,
			weir_shed_step(shed->level.above, left, rate_of(shed)));
	}
}

// --- results --------------------------------------------------------------------------------

// Returns why a shed ends with this result; NULL = it does not end.
static const char *failure_of(enum weir_agent_shed_result result) {
	switch (result) {
	case WEIR_AGENT_SHED_OFF:
		return "its weir-agent does not permit it: the operator of the server has to set "
		       "--shed-idle or --shed-hook";
	case WEIR_AGENT_SHED_NO_PORT:
		return "its weir-agent does not have the port of the service: set --port";
	case WEIR_AGENT_SHED_UNSUPPORTED:
		return "the kernel of the server cannot end connections "
		       "(CONFIG_INET_DIAG_DESTROY): use --shed-hook of weir-agent";
	case WEIR_AGENT_SHED_FAILED:
		return "its weir-agent cannot list or end connections: see the agent's log";
	case WEIR_AGENT_SHED_HOOK_FAILED:
		return "the command of --shed-hook failed: see the agent's log";
	default:
		return NULL;
	}
}

static void count_result(struct weir_sheds *sheds, struct weir_shed *shed,
	const struct weir_agents_shed_result *result) {
	shed->ended += result->ended;
	if (result->answered) {
		shed->method = result->method;
		shed->connections = result->connections;
		shed->candidates = result->candidates;
		shed->leaving = result->leaving;
		shed->unanswered = 0;
	}
	// A hook makes the server close connections in order, which the workers see.
	if (shed->method == WEIR_AGENT_SHED_IDLE && result->ended > 0) {
		shed->gone += result->ended;
		shed->gone_ms = sheds->now_ms;
	}
}

static void take_first(struct weir_sheds *sheds, struct weir_shed *shed,
	const struct weir_agents_shed_result *result) {
	if (!result->answered) {
		fail(sheds, shed,
			"its weir-agent answers probes, but no shed orders: it is of an earlier "
			"version; upgrade it");
	} else if (result->result == WEIR_AGENT_SHED_BUSY) {
		fail(sheds, shed,
			"its weir-agent carries out orders of another balancer; try again "
			"when that shed has ended");
	} else if (shed->terms.dry_run) {
		weir_shed_end(sheds, shed, WEIR_SHED_DONE);
	} else {
		shed->state = WEIR_SHED_RUNNING;
		weir_shed_begin(sheds, shed);
		weir_shed_advance(sheds, shed);
	}
}

// Describe why no connection was ended. Then the next order waits for the next second.
static void note_wait(struct weir_shed *shed, const struct weir_agents_shed_result *result) {
	if (result->result == WEIR_AGENT_SHED_BUSY) {
		weir_shed_note(shed, "waits: its weir-agent carries out another order");
	} else if (result->method == WEIR_AGENT_SHED_IDLE) {
		weir_shed_note(
			shed, "waits: no connection is idle for %g s", shed->terms.idle_ms / 1000);
	} else {
		weir_shed_note(shed, "waits: the hook has got all connections above the mean");
	}
}

static void take_next(struct weir_sheds *sheds, struct weir_shed *shed,
	const struct weir_agents_shed *order, const struct weir_agents_shed_result *result) {
	if (shed->state == WEIR_SHED_STOPPING) {
		weir_shed_end(sheds, shed, WEIR_SHED_STOPPED);
	} else if (!result->answered) {
		take_silence(sheds, shed);
	} else if (result->ended == 0) {
		if (order->count > 0) {
			note_wait(shed, result);
		} // the next order follows in the next second
	} else {
		shed->why[0] = '\0';
		weir_shed_advance(sheds, shed);
	}
}

static struct weir_shed *find(const struct weir_sheds *sheds, uint16_t backend) {
	for (uint32_t i = 0; i < sheds->count; i++) {
		if (sheds->shed[i]->in_flight && sheds->shed[i]->order_backend == backend) {
			return sheds->shed[i];
		}
	}
	return NULL;
}

void weir_shed_take_result(void *context, const struct weir_agents_shed *order,
	const struct weir_agents_shed_result *result) {
	struct weir_sheds *sheds = context;
	struct weir_shed *shed = find(sheds, order->backend);

	if (shed == NULL) {
		return;
	}
	shed->in_flight = false;
	count_result(sheds, shed, result);
	if (!weir_shed_is_running(shed)) {
		return; // it was abandoned
	}
	if (failure_of(result->result) != NULL) {
		fail(sheds, shed, failure_of(result->result));
	} else if (shed->state == WEIR_SHED_STARTING) {
		take_first(sheds, shed, result);
	} else {
		take_next(sheds, shed, order, result);
	}
}
