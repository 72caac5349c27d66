// SPDX-License-Identifier: BSD-3-Clause
#include "steal_service.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "configured.h"

#define REPORT_FRESH_MS 5000u // minimum of report_most_ms
// First pause of an agent that could not permit steals. Each further pause is twice as long.
#define PAUSE_MS 1000u
#define PAUSES_MOST 6u
#define REPEAT_LOG_MS 600000u // time after which a message that was logged before is logged again
// A backend can be a thief only if the fill level of its accept queue is at most this value.
#define ROOM_MOST 0.25
#define GIVEN_MS 1000u // about the time until the next SYN of a client whose connection was moved
// First pause of a victim whose agent has permitted no move. Each further pause is twice as long.
#define REFUSED_MS 100u
#define REFUSED_MOST_MS 1000u
// A round reads at most about this number of counters (backends times workers), or more if reading
// all counters would otherwise take more than COUNTERS_PACES rounds.
#define COUNTERS_MOST 4096u
#define COUNTERS_PACES 10u // maximum number of rounds in which all counters are read

// Parameters of the planner.
// latency: time for the messages of a move. The time until the client's next SYN is not included,
// because all clients wait at the same time.
// idle_ratio: 1, so that any backend below the mean can be a thief. With a lower ratio, there would
// be no thief if one queue is full and many queues are short, because the full queue hardly
// increases the mean.
// pending_ratio: 0, so that each backend above the mean with waiting connections can be a victim,
// even if another backend has a longer queue.
// backoff: pause of a thief that could not take a connection.
static const struct weir_steal_params params = {.latency = 0.01,
	.victim_floor = 0,
	.pending_floor = 0,
	.pending_ratio = 0,
	.idle_ratio = 1,
	.parallel = true,
	.steal_share = 1,
	.backoff = 0.1,
	.backoff_max = 1,
	.answer_limit = 1e9}; // requests have a timeout

// --- init and fini --------------------------------------------------------------------------

// Determines whether clients of a service can connect to several ports, or to several addresses.
static void look_at_binds(
	const struct weir_config_service *config, bool *ret_ports, bool *ret_addresses) {
	const struct weir_config_bind *first = NULL;

	*ret_ports = *ret_addresses = false;
	for (uint32_t i = 0; i < config->bind_count; i++) {
		const struct weir_config_bind *bind = &config->binds[i];

		if (bind->protocol == IPPROTO_TCP) {
			first = first == NULL ? bind : first;
			*ret_ports |= bind->port_first != bind->port_last ||
				      bind->port_first != first->port_first;
			*ret_addresses |= !weir_address_equal(&bind->address, &first->address);
		}
	}
}

// Returns the maximum age of a report with which a backend can be a thief: the inactive interval
// plus a timeout, because agents of backends without flows are probed at the inactive interval, and
// a report can be late. The result is limited to the range from REPORT_FRESH_MS to
// WEIR_CONFIG_STEAL_REPORT_MOST_MS.
static uint32_t report_most_ms(const struct weir_config_agent *agent) {
	uint64_t most = (uint64_t)agent->inactive_interval_ms + agent->timeout_ms;

	if (most < REPORT_FRESH_MS) {
		return REPORT_FRESH_MS;
	}
	return most < WEIR_CONFIG_STEAL_REPORT_MOST_MS ? (uint32_t)most
						       : WEIR_CONFIG_STEAL_REPORT_MOST_MS;
}

int weir_steal_service_init(struct steal_service *service, const struct weir_tables *tables,
	const struct weir_config_service *config, uint32_t syn_seen_ms) {
	struct weir_configured of = weir_configured_of(tables, config);
	int id = weir_tables_service_find(tables, config->name);

	*service = (struct steal_service){.id = id >= 0 ? (uint16_t)id : WEIR_SERVICE_NONE,
		.enabled = config->steal.enabled && id >= 0,
		.after_ms = config->steal.after_ms,
		.per_second = config->steal.per_second,
		.stalling = {.memory_ms = syn_seen_ms, .after_ms = config->steal.after_ms},
		.report_most_ms = report_most_ms(&config->agent),
		.tokens = config->steal.per_second};
	look_at_binds(config, &service->many_ports, &service->many_addresses);
	snprintf(service->name, sizeof(service->name), "%s", config->name);
	if (!service->enabled) {
		return 0;
	}
	service->members = calloc(config->backend_count + 1, sizeof(service->members[0]));
	service->thieves = calloc(config->backend_count / 64 + 1, sizeof(service->thieves[0]));
	service->handshakes = calloc(config->backend_count + 1, sizeof(service->handshakes[0]));
	service->places = calloc(config->backend_count + 1, sizeof(service->places[0]));
	if (service->members == NULL || service->thieves == NULL || service->handshakes == NULL ||
		service->places == NULL) {
		return -ENOMEM;
	}
	while (weir_configured_next(&of)) {
		service->members[service->count++].id = of.backend.id;
	}
	if (service->count == 0) {
		service->enabled = false;
		return 0;
	}
	return weir_steal_plan_create(
		&params, service->count, service->count + WEIR_STEAL_WAITING, &service->plan);
}

void weir_steal_service_fini(struct steal_service *service) {
	weir_steal_plan_free(service->plan);
	free(service->places);
	free(service->handshakes);
	free(service->thieves);
	free(service->members);
	service->plan = NULL;
	service->places = NULL;
	service->handshakes = NULL;
	service->thieves = NULL;
	service->members = NULL;
}

void weir_steal_service_take_over(
	struct steal_service *to, const struct steal_service *from, uint32_t *place) {
	to->incomplete = from->incomplete;
	to->requests = from->requests;
	memcpy(to->outcomes, from->outcomes, sizeof(to->outcomes));
	to->filled_ms = from->filled_ms;
	if (from->filled_ms != 0) {
		to->tokens = from->tokens < to->per_second ? from->tokens : to->per_second;
	}
	for (uint32_t i = 0; i < to->count; i++) {
		place[to->members[i].id] = 1 + i;
	}
	for (uint32_t i = 0; i < from->count; i++) {
		uint32_t at = place[from->members[i].id];

		if (at > 0) {
			to->members[at - 1] = from->members[i];
		}
	}
	for (uint32_t i = 0; i < to->count; i++) {
		place[to->members[i].id] = 0;
	}
}

bool weir_steal_service_is_same(const struct steal_service *a, const struct steal_service *b) {
	bool same = a->enabled && b->enabled && a->id == b->id && a->count == b->count &&
		    a->report_most_ms == b->report_most_ms && a->after_ms == b->after_ms &&
		    a->per_second == b->per_second && a->many_ports == b->many_ports &&
		    a->many_addresses == b->many_addresses &&
		    a->stalling.memory_ms == b->stalling.memory_ms;

	for (uint32_t i = 0; same && i < a->count; i++) {
		same = a->members[i].id == b->members[i].id;
	}
	return same;
}

// --- moved connections ------------------------------------------------------------------------

// Adds `more` connections that were moved to a backend but are not in its reports yet.
static void add_given(struct steal_member *member, uint64_t now_ms, uint32_t more) {
	if (now_ms - member->given_ms >= GIVEN_MS) {
		member->given[1] = now_ms - member->given_ms < 2 * GIVEN_MS ? member->given[0] : 0;
		member->given[0] = 0;
		member->given_ms = now_ms;
	}
	member->given[0] += more;
}

// Returns the number of connections that were moved to a backend in the last one to two seconds;
// their next SYN may not have arrived yet.
static uint32_t coming_to(struct steal_member *member, uint64_t now_ms) {
	add_given(member, now_ms, 0);
	return member->given[0] + member->given[1];
}

// --- half-open flows --------------------------------------------------------------------------

static void read_counters(
	const struct weir_segment *segment, uint16_t id, struct weir_stalling_backend *handshakes) {
	handshakes->half_open = handshakes->new_flows = 0;
	for (uint32_t worker = 0; id < segment->max_backends && worker < segment->workers;
		worker++) {
		const struct weir_share_counters *of =
			weir_segment_backend_counters(segment, worker, id);

		handshakes->half_open += weir_counter_read(&of->half_open);
		handshakes->new_flows += weir_counter_read(&of->new_flows);
	}
}

static uint32_t counters_of(
	const struct steal_service *service, const struct weir_segment *segment) {
	return service->enabled ? service->count * segment->workers : 0;
}

static void count_half_open(struct steal_service *service, const struct weir_segment *segment,
	uint64_t now_ms, uint64_t passed_ms) {
	service->counted_ms = now_ms;
	for (uint32_t i = 0; i < service->count; i++) {
		read_counters(segment, service->members[i].id, &service->handshakes[i]);
		service->handshakes[i].moved = coming_to(&service->members[i], now_ms);
	}
	service->stalling_count = weir_stalling_look(&service->stalling, service->handshakes,
		service->count, service->places, passed_ms);
}

uint32_t weir_steal_services_count(struct steal_service *services, uint32_t count, uint32_t first,
	const struct weir_segment *segment, uint64_t now_ms) {
	uint64_t all = 0, most, seen = 0, paces;
	uint32_t i;

	for (i = 0; i < count; i++) {
		all += counters_of(&services[i], segment);
	}
	paces = all / COUNTERS_MOST + 1 < COUNTERS_PACES ? all / COUNTERS_MOST + 1 : COUNTERS_PACES;
	most = all / paces;
	for (i = 0; i < count && seen < most; i++) {
		struct steal_service *service = &services[(first + i) % count];
		uint64_t passed_ms = now_ms - service->counted_ms;

		// The interval may be half a round shorter, because the timer can fire early.
		if (service->enabled && passed_ms + WEIR_ROUND_MS / 2 >= paces * WEIR_ROUND_MS) {
			count_half_open(service, segment, now_ms, passed_ms);
			seen += counters_of(service, segment);
		}
	}
	return count > 0 ? (first + i) % count : 0;
}

// --- queues -----------------------------------------------------------------------------------

static bool takes_new_flows(const struct weir_backend_state *state) {
	return state->in_selection && state->resolved && !state->leaving && !state->ejected &&
	       !state->at_limit && state->admin == WEIR_ADMIN_READY &&
	       state->health == WEIR_HEALTH_HEALTHY && (state->flags & WEIR_BACKEND_CLOSED) == 0;
}

// Reads the state of a backend's accept queue, if its agent reports the queue.
static void look_at_queue(const struct steal_service *service, struct steal_member *member,
	const struct weir_backend_state *state, const struct weir_reports *reports,
	uint64_t now_ms) {
	const uint32_t fields = WEIR_REPORT(QUEUE) | WEIR_REPORT(QUEUE_LIMIT);
	struct weir_reports_status status;
	double queue, limit, coming;

	if (weir_reports_status(reports, member->id, &status) < 0 ||
		(status.report->given & fields) != fields ||
		status.report->accept_queue_limit < 1) {
		return;
	}
	queue = status.report->accept_queue;
	limit = status.report->accept_queue_limit;
	// Add the recently moved connections, which reports do not contain yet.
	coming = queue + coming_to(member, now_ms);
	member->fill = coming < limit ? coming / limit : 1;
	member->queue = coming;
	member->service_s = status.service_s;
	member->room = coming < limit ? (uint32_t)(limit - coming) : 0;
	member->full = status.at_limit;
	member->thief = !status.at_limit && status.age_ms <= service->report_most_ms &&
			queue <= ROOM_MOST * limit && member->room > 0 && takes_new_flows(state);
}

// Ends the last round of a victim. If its agent permitted no request, the victim pauses briefly, so
// that other victims can use the requests and the thieves.
static void end_round(struct steal_member *member, uint64_t now_ms) {
	uint64_t until_ms = now_ms;

	if (member->requests == 0) {
		return;
	}
	if (member->permitted) {
		member->refusals = 0;
	} else {
		until_ms += (uint64_t)REFUSED_MS << member->refusals;
		until_ms =
			until_ms < now_ms + REFUSED_MOST_MS ? until_ms : now_ms + REFUSED_MOST_MS;
		member->refusals += (REFUSED_MS << member->refusals) < REFUSED_MOST_MS;
	}
	member->paused_ms = until_ms > member->paused_ms ? until_ms : member->paused_ms;
	member->requests = 0;
}

static void look_at(struct steal_service *service, uint32_t i, const struct weir_tables *tables,
	const struct weir_reports *reports, uint64_t now_ms) {
	struct steal_member *member = &service->members[i];
	struct weir_backend_state state;

	end_round(member, now_ms);
	member->full = member->stalls = member->thief = false;
	member->fill = member->queue = 0;
	member->service_s = -1;
	member->room = 0;
	member->answered = member->permitted = false;
	if (weir_tables_backend(tables, member->id, &state) < 0 ||
		state.service_id != service->id) {
		return;
	}
	look_at_queue(service, member, &state, reports, now_ms);
	member->stalls = service->handshakes[i].stalls;
	if (member->stalls) {
		member->thief = false;
		member->fill = 1;
	}
	if (member->stalls && !member->full) { // its connections do not reach its accept queue
		member->queue = WEIR_STEAL_QUEUE;
		member->service_s = -1;
	}
}

static bool is_any_saturated(
	const struct steal_service *service, const struct weir_reports *reports) {
	bool saturated = service->stalling_count > 0;

	for (uint32_t i = 0; i < service->count && !saturated; i++) {
		saturated = weir_reports_at_limit(reports, service->members[i].id);
	}
	return saturated;
}

uint32_t weir_steal_service_look(struct steal_service *service, const struct weir_tables *tables,
	const struct weir_reports *reports, uint64_t now_ms,
	uint16_t victims[WEIR_WAITING_BACKENDS]) {
	uint32_t thieves = 0, found = 0, turn = service->turn;
	bool before = service->saturated;

	service->saturated = false;
	if (!before && !is_any_saturated(service, reports)) {
		return 0; // return early in the common case
	}
	for (uint32_t i = 0; i < service->count; i++) {
		look_at(service, i, tables, reports, now_ms);
		thieves += service->members[i].thief;
		service->saturated |= weir_steal_member_saturated(&service->members[i]);
	}
	for (uint32_t i = 0; i < service->count && thieves > 0 && found < WEIR_WAITING_BACKENDS;
		i++) {
		uint32_t at = (turn + i) % service->count;
		const struct steal_member *member = &service->members[at];

		if (weir_steal_member_saturated(member) && now_ms >= member->paused_ms) {
			victims[found++] = member->id;
			service->turn = (at + 1) % service->count;
		}
	}
	return found;
}

void weir_steal_service_refresh(struct steal_service *service, const struct weir_tables *tables,
	const struct weir_reports *reports, uint64_t now_ms) {
	service->saturated = false;
	for (uint32_t i = 0; i < service->count; i++) {
		look_at(service, i, tables, reports, now_ms);
		service->saturated |= weir_steal_member_saturated(&service->members[i]);
	}
}

void weir_steal_service_begin_with(struct steal_service *service, uint16_t id) {
	uint32_t i = 0;

	while (i < service->count && service->members[i].id != id) {
		i++;
	}
	service->turn = i < service->count ? i : service->turn;
}

bool weir_steal_service_relieved(const struct steal_service *service,
	const struct weir_tables *tables, uint32_t *place, struct weir_flow_steals_relieved *ret) {
	while (service->saturated && *place < service->count) {
		const uint32_t m = (*place)++;
		const struct steal_member *member = &service->members[m];
		const char *name;

		if (!weir_steal_member_saturated(member)) {
			continue;
		}
		name = weir_tables_backend_name(tables, member->id);
		*ret = (struct weir_flow_steals_relieved){.name = name != NULL ? name : "",
			.reason = weir_steal_member_reason(member),
			.half_open = service->handshakes[m].half_open};
		return true;
	}
	return false;
}

// --- outcomes -------------------------------------------------------------------------------

// Returns whether any other request to the victim's agent would have the same outcome.
static bool is_of_agent(enum weir_flow_steal_outcome outcome) {
	return outcome == WEIR_FLOW_STEAL_COOKIES || outcome == WEIR_FLOW_STEAL_NO_LISTENER ||
	       outcome == WEIR_FLOW_STEAL_CANNOT_TELL || outcome == WEIR_FLOW_STEAL_OFF ||
	       outcome == WEIR_FLOW_STEAL_SILENT;
}

// Returns whether an outcome applies only to one port, or to one address and port (*ret), and the
// service also has other ports or addresses. If not, the outcome applies to the whole backend.
static bool is_of_place(const struct steal_service *service, const struct steal_planned *planned,
	enum weir_flow_steal_outcome outcome, struct weir_refused_place *ret) {
	*ret = (struct weir_refused_place){
		.member = (uint16_t)planned->victim, .port = planned->port};
	if (outcome == WEIR_FLOW_STEAL_OFF) {
		return service->many_ports;
	}
	ret->family = planned->family;
	memcpy(ret->address, planned->address, sizeof(ret->address));
	return outcome == WEIR_FLOW_STEAL_NO_LISTENER &&
	       (service->many_ports || service->many_addresses);
}

// Returns whether the outcome means that the agent has permitted the steal.
static bool is_permitted(enum weir_flow_steal_outcome outcome) {
	return outcome == WEIR_FLOW_STEAL_MOVED || outcome == WEIR_FLOW_STEAL_CHANGED ||
	       outcome == WEIR_FLOW_STEAL_GONE || outcome == WEIR_FLOW_STEAL_UNUSABLE ||
	       outcome == WEIR_FLOW_STEAL_LIMIT || outcome == WEIR_FLOW_STEAL_NO_WORKER;
}

// Returns whether the outcome shows that the agent can permit steals. If the agent was paused
// because it did not answer, RUNNING, UNSETTLED and LATE also show this.
static bool is_of_help(const struct steal_member *victim, enum weir_flow_steal_outcome outcome) {
	if (outcome == WEIR_FLOW_STEAL_RUNNING || outcome == WEIR_FLOW_STEAL_UNSETTLED ||
		outcome == WEIR_FLOW_STEAL_LATE) {
		return victim->silent;
	}
	return is_permitted(outcome);
}

// Reports the outcome of a request to the plan. A thief pauses only if the thief was the reason why
// the connection could not be moved.
static void end_in_plan(struct steal_service *service, const struct steal_planned *planned,
	enum weir_flow_steal_outcome outcome, uint64_t now_ms) {
	bool moved = outcome == WEIR_FLOW_STEAL_MOVED;

	if (moved || outcome == WEIR_FLOW_STEAL_UNUSABLE || outcome == WEIR_FLOW_STEAL_LIMIT) {
		(void)weir_steal_plan_answer(service->plan, planned->task, planned->id,
			moved ? WEIR_STEAL_GIVEN_UP : WEIR_STEAL_RUNNING, true,
			(double)now_ms / 1000);
	} else {
		weir_steal_plan_remove(service->plan, planned->task);
	}
}

bool weir_steal_service_is_to_log(struct steal_service *service,
	const struct steal_planned *planned, enum weir_flow_steal_outcome outcome,
	uint64_t now_ms) {
	struct steal_member *member = &service->members[planned->victim];

	if (member->logged != 0 && now_ms - member->logged_ms >= REPEAT_LOG_MS) {
		member->logged = 0;
	}
	if ((member->logged >> outcome & 1) != 0) {
		return false;
	}
	member->logged_ms = member->logged == 0 ? now_ms : member->logged_ms;
	member->logged |= 1u << outcome;
	return true;
}

void weir_steal_service_ended(struct steal_service *service, const struct steal_planned *planned,
	enum weir_flow_steal_outcome outcome, uint64_t now_ms) {
	struct steal_member *victim = &service->members[planned->victim];
	struct weir_refused_place place;

	service->outcomes[outcome]++;
	end_in_plan(service, planned, outcome, now_ms);
	if (outcome == WEIR_FLOW_STEAL_MOVED) {
		add_given(&service->members[planned->thief], now_ms, 1);
	}
	victim->answered |= outcome != WEIR_FLOW_STEAL_SILENT;
	victim->permitted |= is_permitted(outcome);
	if (is_of_help(victim, outcome)) {
		victim->pauses = 0;
	} else if (is_of_place(service, planned, outcome, &place)) {
		weir_refused_places_add(&service->refused, &place, now_ms);
	} else if (is_of_agent(outcome) &&
		   !(outcome == WEIR_FLOW_STEAL_SILENT && victim->answered) &&
		   now_ms >= victim->paused_ms) { // otherwise another request of the round
						  // has paused the victim
		victim->paused_ms = now_ms + ((uint64_t)PAUSE_MS << victim->pauses);
		victim->pauses += victim->pauses < PAUSES_MOST;
		victim->silent = outcome == WEIR_FLOW_STEAL_SILENT;
	}
}
