// SPDX-License-Identifier: BSD-3-Clause
//
// Finds victims and thieves by the accept queues that agents report, and by the half-open flows
// that workers count.
#include "flow_steals_private.h"

#define ROOM_MOST 0.25 // fill of a thief's accept queue
#define GIVEN_MS 1000u // until the client's next SYN, more or less
#define REFUSED_MS 100u // pause of a victim whose agent permits nothing: doubled each time
#define REFUSED_MOST_MS 1000u
#define COUNTERS_MOST 4096u // backends times workers, up to which each round reads all
#define COUNTERS_PACES 10u // rounds in which more of them are read

// --- moved connections ------------------------------------------------------------------------

void weir_steal_member_given(struct steal_member *member, uint64_t now_ms, uint32_t more) {
	if (now_ms - member->given_ms >= GIVEN_MS) {
		member->given[1] = now_ms - member->given_ms < 2 * GIVEN_MS ? member->given[0] : 0;
		member->given[0] = 0;
		member->given_ms = now_ms;
	}
	member->given[0] += more;
}

// Connections moved to a backend in the last second or two, which may not have arrived.
static uint32_t coming_to(struct steal_member *member, uint64_t now_ms) {
	weir_steal_member_given(member, now_ms, 0);
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

		// The timer may be a little early.
		if (service->enabled &&
			passed_ms + WEIR_FLOW_STEALS_MS / 2 >= paces * WEIR_FLOW_STEALS_MS) {
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

// Read the accept queue, if reported.
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
	// No report contains the recently moved connections yet.
	coming = queue + coming_to(member, now_ms);
	member->fill = coming < limit ? coming / limit : 1;
	member->room = coming < limit ? (uint32_t)(limit - coming) : 0;
	member->full = status.at_limit;
	member->thief = !status.at_limit && status.age_ms <= service->report_most_ms &&
			queue <= ROOM_MOST * limit && member->room > 0 && takes_new_flows(state);
}

// End the last round of a victim: after one without a permission it pauses briefly, so that
// requests and thieves are left to other victims.
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
	member->fill = 0;
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
		return 0; // the common case: nothing else to do
	}
	for (uint32_t i = 0; i < service->count; i++) {
		look_at(service, i, tables, reports, now_ms);
		thieves += service->members[i].thief;
		service->saturated |= weir_steal_is_saturated(&service->members[i]);
	}
	for (uint32_t i = 0; i < service->count && thieves > 0 && found < WEIR_WAITING_BACKENDS;
		i++) {
		uint32_t at = (turn + i) % service->count;
		const struct steal_member *member = &service->members[at];

		if (weir_steal_is_saturated(member) && now_ms >= member->paused_ms) {
			victims[found++] = member->id;
			service->turn = (at + 1) % service->count;
		}
	}
	return found;
}

bool weir_steal_service_relieved(const struct steal_service *service,
	const struct weir_tables *tables, uint32_t *place, struct weir_flow_steals_relieved *ret) {
	while (service->saturated && *place < service->count) {
		const uint32_t m = (*place)++;
		const struct steal_member *member = &service->members[m];
		const char *name;

		if (!weir_steal_is_saturated(member)) {
			continue;
		}
		name = weir_tables_backend_name(tables, member->id);
		*ret = (struct weir_flow_steals_relieved){.name = name != NULL ? name : "",
			.reason = weir_steal_reason(member),
			.half_open = service->handshakes[m].half_open};
		return true;
	}
	return false;
}
