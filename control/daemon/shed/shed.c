// SPDX-License-Identifier: BSD-3-Clause
#include "shed.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "plural.h"
#include "totals.h"

// --- terms ----------------------------------------------------------------------------------

struct weir_shed_terms weir_shed_terms_default(void) {
	return (struct weir_shed_terms){.rate = 10, .idle_ms = 5000, .for_ms = 600000};
}

int weir_shed_terms_check(const struct weir_shed_terms *terms, char *why, size_t why_bytes) {
	// This form of the conditions rejects NaN.
	if (!(terms->rate >= WEIR_SHED_RATE_LEAST_MILLI / 1000.0 &&
		    terms->rate <= WEIR_AGENT_SHED_RATE_MILLI_MOST / 1000.0)) {
		snprintf(why, why_bytes, "argument \"rate\" must be a number from 0.2 to 1000");
		return -EINVAL;
	}
	if (!(terms->idle_ms >= WEIR_AGENT_SHED_IDLE_LEAST_MS &&
		    terms->idle_ms <= WEIR_SHED_IDLE_MOST_MS)) {
		snprintf(why, why_bytes, "argument \"idle_ms\" must be a number from %d to %.0f",
			WEIR_AGENT_SHED_IDLE_LEAST_MS, WEIR_SHED_IDLE_MOST_MS);
		return -EINVAL;
	}
	if (!(terms->for_ms >= 1000 && terms->for_ms <= WEIR_SHED_FOR_MOST_MS)) {
		snprintf(why, why_bytes, "argument \"for_ms\" must be a number from 1000 to %.0f",
			WEIR_SHED_FOR_MOST_MS);
		return -EINVAL;
	}
	return 0;
}

// --- texts ----------------------------------------------------------------------------------

const char *weir_shed_state_name(enum weir_shed_state state) {
	static const char *const names[] = {
#define X(name, key) [WEIR_SHED_##name] = key,
		WEIR_SHED_STATES(X)
#undef X
	};

	return names[state];
}

bool weir_shed_is_running(const struct weir_shed *shed) {
	return shed->state <= WEIR_SHED_STOPPING;
}

const char *weir_shed_describe(const struct weir_shed *shed, char *buffer, size_t bytes) {
	snprintf(buffer, bytes, "%s, %llu connection%s ended, %llu above the mean, at most %g/s",
		weir_shed_state_name((enum weir_shed_state)shed->state),
		(unsigned long long)shed->ended, weir_plural(shed->ended),
		(unsigned long long)shed->level.above, shed->terms.rate);
	return buffer;
}

void weir_shed_note(struct weir_shed *shed, const char *format, ...) {
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(shed->why, sizeof(shed->why), format, arguments);
	va_end(arguments);
}

void weir_shed_note_mean(struct weir_shed *shed) {
	if (shed->level.above == 0) {
		weir_shed_note(shed, "the backend no longer has connections above the mean");
	} else {
		weir_shed_note(shed,
			"its server has %u connection%s, which is not above the mean (%llu flow%s "
			"above the mean: UDP, or connections that have ended)",
			shed->connections, weir_plural(shed->connections),
			(unsigned long long)shed->level.above, weir_plural(shed->level.above));
	}
}

void weir_shed_note_wait(struct weir_shed *shed, const struct weir_agents_shed_result *result) {
	if (result->result == WEIR_AGENT_SHED_BUSY) {
		weir_shed_note(shed, "waiting: its weir-agent is still executing another order");
	} else if (result->method == WEIR_AGENT_SHED_IDLE) {
		weir_shed_note(shed, "waiting: no connection has been idle for %g s",
			shed->terms.idle_ms / 1000);
	} else {
		weir_shed_note(shed,
			"waiting: all connections above the mean were already passed to the hook");
	}
}

// --- conditions -----------------------------------------------------------------------------

bool weir_shed_is_at_mean(const struct weir_shed *shed) {
	return shed->level.above == 0 ||
	       shed->connections <= shed->level.mean + (uint64_t)shed->leaving;
}

const char *weir_shed_misfit(const struct weir_backend_state *backend) {
	return backend->leaving                           ? "the backend was removed"
	       : backend->admin == WEIR_ADMIN_DRAIN       ? "the backend is drained"
	       : backend->admin == WEIR_ADMIN_MAINTENANCE ? "the backend is in maintenance"
	       : !backend->in_selection                   ? "the backend gets no new flows"
							  : NULL;
}

uint32_t weir_shed_weight(
	const struct weir_service_state *service, const struct weir_backend_state *backend) {
	return weir_policy_uses_weights((enum weir_policy)service->policy)
		       ? backend->effective_weight
		       : 1;
}

// --- answers of the agent -------------------------------------------------------------------

bool weir_shed_is_answered(const struct weir_agents_shed_result *result) {
	return result->answered && result->result != WEIR_AGENT_SHED_LATE;
}

bool weir_shed_has_numbers(enum weir_agent_shed_result result) {
	return result == WEIR_AGENT_SHED_ACTIVE || result == WEIR_AGENT_SHED_DONE ||
	       result == WEIR_AGENT_SHED_HOOK_FAILED;
}

const char *weir_shed_failure(enum weir_agent_shed_result result) {
	switch (result) {
	case WEIR_AGENT_SHED_OFF:
		return "its weir-agent does not permit shedding: start weir-agent on the server "
		       "with --shed-idle or --shed-hook";
	case WEIR_AGENT_SHED_NO_PORT:
		return "its weir-agent was started without the port of the service: add --port";
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

// --- flows ----------------------------------------------------------------------------------

// Returns whether this is the backend of a shed: its service, name and address are the same.
static bool is_of(const struct weir_shed *shed, const struct weir_backend_state *backend) {
	return weir_address_equal(&shed->address, &backend->address) &&
	       strcmp(shed->service, backend->service) == 0 &&
	       strcmp(shed->backend, backend->name) == 0;
}

bool weir_shed_find_backend(const struct weir_tables *tables, const struct weir_shed *shed,
	struct weir_backend_state *ret) {
	int id = weir_tables_backend_find(tables, shed->service, shed->backend);

	return id >= 0 && weir_tables_backend(tables, (uint16_t)id, ret) == 0 && is_of(shed, ret);
}

static uint64_t min(uint64_t a, uint64_t b) {
	return a < b ? a : b;
}

static uint64_t open_flows(const struct weir_tables *tables, uint16_t backend) {
	return weir_sum_backend(weir_tables_segment(tables), backend).open_flows;
}

uint64_t weir_shed_flows(const struct weir_tables *tables, const struct weir_shed *sheds,
	const struct weir_backend_state *backend, uint64_t now_ms) {
	uint64_t flows = open_flows(tables, backend->id), gone = 0;

	for (const struct weir_shed *shed = sheds; shed != NULL; shed = shed->next) {
		gone += is_of(shed, backend) ? weir_shed_gone_count(&shed->gone, now_ms) : 0;
	}
	return flows - min(flows, gone);
}

struct weir_shed_sum weir_shed_add_up(const struct weir_tables *tables,
	const struct weir_shed *sheds, const struct weir_service_state *service, uint64_t now_ms) {
	struct weir_shed_sum sum = {0};
	struct weir_backend_state each;

	for (uint32_t id = 0; id < weir_tables_backend_ids(tables); id++) {
		if (weir_tables_backend_service(tables, (uint16_t)id) == service->id &&
			weir_tables_backend(tables, (uint16_t)id, &each) == 0 &&
			weir_shed_misfit(&each) == NULL) {
			weir_shed_sum_add(&sum, open_flows(tables, each.id),
				weir_shed_weight(service, &each));
		}
	}
	// Subtract the flows that sheds have ended. This loop is outside of the loop above, so that
	// the list of sheds is searched once, not once for each backend.
	for (const struct weir_shed *shed = sheds; shed != NULL; shed = shed->next) {
		uint64_t gone = weir_shed_gone_count(&shed->gone, now_ms);

		if (gone > 0 && weir_shed_find_backend(tables, shed, &each) &&
			each.service_id == service->id && weir_shed_misfit(&each) == NULL) {
			gone = min(gone, open_flows(tables, each.id));
			sum.flows -= min(gone, sum.flows);
		}
	}
	return sum;
}

// --- orders ---------------------------------------------------------------------------------

uint32_t weir_shed_rate_milli(const struct weir_shed_terms *terms) {
	return (uint32_t)(terms->rate * 1000 + 0.5);
}

static uint32_t tcp_binds(const struct weir_config_service *service) {
	uint32_t count = 0;

	for (uint32_t i = 0; i < service->bind_count; i++) {
		count += service->binds[i].protocol == IPPROTO_TCP;
	}
	return count;
}

int weir_shed_check_binds(
	const struct weir_config_service *service, const char *name, char *why, size_t why_bytes) {
	const uint32_t count = service != NULL ? tcp_binds(service) : 0;

	if (count == 0) {
		snprintf(why, why_bytes, "service %s has no TCP bind", name);
		return -EINVAL;
	}
	if (count > WEIR_AGENT_SHED_BINDS) {
		snprintf(why, why_bytes,
			"service %s has %u TCP binds, but a shed supports at most %d", name, count,
			WEIR_AGENT_SHED_BINDS);
		return -EINVAL;
	}
	return 0;
}

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

struct weir_agents_shed weir_shed_order(const struct weir_shed *shed,
	const struct weir_config_service *service, uint16_t backend, struct weir_shed_step step) {
	struct weir_agents_shed order = {.backend = backend,
		.duration_ms = step.duration_ms,
		.count = step.count,
		.rate_milli_per_s = weir_shed_rate_milli(&shed->terms),
		.keep = shed->level.mean < UINT32_MAX ? (uint32_t)shed->level.mean : UINT32_MAX,
		.idle_ms = (uint32_t)shed->terms.idle_ms};

	memcpy(order.service, shed->service, sizeof(order.service));
	set_binds(&order, service);
	return order;
}
