// SPDX-License-Identifier: BSD-3-Clause
#include "drains.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "totals.h"

#define BINDS_NAMED \
	WEIR_TABLES_FIRST_REMOVED // maximum number of binds named in the text of an event
#define BINDS_BYTES 192 // size of the text that names the binds

const char *weir_drain_phase_name(uint8_t phase) {
	static const char *const names[] = {
#define X(name, key) [WEIR_DRAIN_##name] = key,
		WEIR_DRAIN_PHASES(X)
#undef X
	};

	return phase < sizeof(names) / sizeof(names[0]) ? names[phase] : "unknown";
}

// --- list -----------------------------------------------------------------------------------

static void add(struct weir_drains *drains, uint16_t backend) {
	uint64_t *word = &drains->listed[backend / 64], bit = 1ull << backend % 64;

	if ((*word & bit) == 0) {
		*word |= bit;
		drains->backend[drains->count++] = backend;
	}
}

int weir_drains_begin(struct weir_drains *drains, struct weir_tables *tables,
	const uint16_t *backends, uint32_t count, uint64_t until_ns) {
	struct weir_backend_state state;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < count; i++) {
		r = weir_tables_backend(tables, backends[i], &state);
	}
	for (uint32_t i = 0; r == 0 && i < count; i++) {
		weir_tables_set_drain(tables, backends[i], WEIR_DRAIN_DRAINING, until_ns);
		add(drains, backends[i]);
	}
	return r;
}

void weir_drains_follow(struct weir_drains *drains, const struct weir_tables *tables) {
	uint32_t ids = weir_tables_backend_ids(tables);

	drains->count = 0;
	memset(drains->listed, 0, sizeof(drains->listed));
	for (uint32_t id = 0; id < ids; id++) {
		struct weir_backend_state state;

		if (weir_tables_backend(tables, (uint16_t)id, &state) == 0 &&
			state.drain == WEIR_DRAIN_DRAINING) {
			add(drains, (uint16_t)id);
		}
	}
}

// --- one drain ------------------------------------------------------------------------------

enum weir_config_at_deadline weir_drains_at_deadline(
	const struct weir_tables *tables, const char *service) {
	const struct weir_config_service *config = weir_tables_service_config(tables, service);

	return config != NULL ? config->drain.at_deadline : WEIR_AT_DEADLINE_KEEP;
}

enum weir_config_at_deadline weir_drains_backend_at_deadline(
	const struct weir_tables *tables, const struct weir_backend_state *backend) {
	return backend->leaving ? WEIR_AT_DEADLINE_KEEP
				: weir_drains_at_deadline(tables, backend->service);
}

// Returns the phase of the drain of a backend, or of a service's binds. moves: result of
// weir_tables_moves before the open flows were counted.
static enum weir_drain_phase phase_of(const struct weir_tables *tables,
	enum weir_config_at_deadline then, uint64_t until_ns, uint64_t moves, uint64_t open_flows,
	uint64_t now_ns) {
	if (open_flows == 0 && weir_tables_counts_drains(tables, moves)) {
		return WEIR_DRAIN_DRAINED;
	}
	if (until_ns == 0 || now_ns < until_ns) {
		return WEIR_DRAIN_DRAINING;
	}
	return then == WEIR_AT_DEADLINE_DROP ? WEIR_DRAIN_DROPPED : WEIR_DRAIN_KEPT;
}

uint64_t weir_drains_left(const struct weir_tables *tables, uint64_t open_flows) {
	return weir_tables_segment(tables) == NULL || weir_tables_recount_left_ms(tables) > 0 ||
			       open_flows == 0
		       ? WEIR_FLOWS_UNKNOWN
		       : open_flows;
}

// Returns why the number of flows at a deadline is unknown.
static const char *unknown_text(const struct weir_tables *tables) {
	return weir_tables_segment(tables) == NULL ? "while no dataplane was attached"
						   : "before all flows were counted";
}

// Describe the end of a drain and what happened to the remaining flows. left: result of
// weir_drains_left. dropped: what happened to flows that were not kept, e.g. "reset".
static const char *end_text(const struct weir_tables *tables, enum weir_drain_phase phase,
	uint64_t left, const char *dropped, char text[WEIR_STATES_WHY_BYTES]) {
	const char *what = phase == WEIR_DRAIN_DROPPED ? dropped : "kept";

	if (phase == WEIR_DRAIN_DRAINED) {
		return "drained: no open flows";
	}
	if (left == WEIR_FLOWS_UNKNOWN) {
		snprintf(text, WEIR_STATES_WHY_BYTES, "drain deadline reached %s: flows %s",
			unknown_text(tables), what);
	} else {
		snprintf(text, WEIR_STATES_WHY_BYTES,
			"drain deadline reached: %" PRIu64 " open flow%s %s", left,
			left == 1 ? "" : "s", what);
	}
	return text;
}

static void note_end(const struct weir_drains_of *of, const struct weir_backend_state *state,
	enum weir_drain_phase phase, uint64_t left) {
	const struct weir_log_fields fields = {.service = state->service,
		.backend = state->name,
		.state = weir_drain_phase_name((uint8_t)phase)};
	char text[WEIR_STATES_WHY_BYTES];
	const char *why = end_text(of->tables, phase, left, "dropped (maintenance)", text);

	weir_log_event(of->log, phase == WEIR_DRAIN_DRAINED ? WEIR_LOG_INFO : WEIR_LOG_WARN,
		&fields, "backend %s/%s: %s", state->service, state->name, why);
	weir_states_record(of->states, state->id, "drain", why);
}

// Ends the drain of a backend if it is due. Returns whether the backend is still draining.
// *publish: set to true if the tables must be published.
static bool advance(
	const struct weir_drains_of *of, uint16_t backend, uint64_t now_ns, bool *publish) {
	struct weir_tables *tables = of->tables;
	struct weir_backend_state state;
	enum weir_drain_phase phase;
	uint64_t moves = weir_tables_moves(tables), open_flows, left;

	if (weir_tables_backend(tables, backend, &state) < 0 ||
		state.drain != WEIR_DRAIN_DRAINING) {
		return false;
	}
	open_flows = weir_sum_backend(weir_tables_segment(tables), backend).open_flows;
	phase = phase_of(tables, weir_drains_backend_at_deadline(tables, &state),
		state.drain_until_ns, moves, open_flows, now_ns);
	if (phase == WEIR_DRAIN_DRAINING) {
		return true;
	}
	left = phase == WEIR_DRAIN_DRAINED ? 0 : weir_drains_left(tables, open_flows);
	note_end(of, &state, phase, left);
	weir_tables_end_drain(tables, backend, phase, left);
	*publish = true;
	return false;
}

// --- binds ----------------------------------------------------------------------------------

struct binds { // binds of one service; their drains end at the same time
	const char *what; // "bind", "removed bind"
	struct weir_config_bind first[BINDS_NAMED];
	uint32_t named, count; // named: number of binds in `first`
};

// Writes a text like "bind tcp 198.51.100.10:80" or "removed binds tcp 198.51.100.10:80, tcp
// 198.51.100.11:80 and 3 more".
static void binds_text(const struct binds *binds, char text[BINDS_BYTES]) {
	char bind[WEIR_BIND_TEXT_BYTES];
	int n = snprintf(text, BINDS_BYTES, "%s%s", binds->what, binds->count == 1 ? "" : "s");

	for (uint32_t i = 0; i < binds->named; i++) {
		n += snprintf(text + n, BINDS_BYTES - (size_t)n, "%s %s", i > 0 ? "," : "",
			weir_bind_format(&binds->first[i], bind, sizeof(bind)));
	}
	if (binds->named > 0 && binds->count > binds->named) {
		snprintf(text + n, BINDS_BYTES - (size_t)n, " and %" PRIu32 " more",
			binds->count - binds->named);
	}
}

// Logs the end of the drain of some binds of a service. The text does not contain the number of
// flows of these binds, because flows are counted only per service.
static void note_binds_end(const struct weir_drains_of *of, uint16_t id, const struct binds *binds,
	enum weir_drain_phase phase, uint64_t left, const char *dropped) {
	const char *name = weir_tables_service_name(of->tables, id);
	const struct weir_log_fields fields = {
		.service = name, .state = weir_drain_phase_name((uint8_t)phase)};
	const char *what = phase == WEIR_DRAIN_DROPPED ? dropped : "kept";
	char of_binds[BINDS_BYTES], why[WEIR_STATES_EVENT_BYTES];

	binds_text(binds, of_binds);
	if (phase == WEIR_DRAIN_DRAINED) {
		snprintf(why, sizeof(why), "%s: drained: no open flows", of_binds);
	} else if (left == WEIR_FLOWS_UNKNOWN) {
		snprintf(why, sizeof(why), "%s: drain deadline reached %s: flows %s", of_binds,
			unknown_text(of->tables), what);
	} else {
		snprintf(why, sizeof(why),
			"%s: drain deadline reached: %s open flows %s; the whole service has "
			"%" PRIu64 " open flow%s",
			of_binds, binds->count == 1 ? "its" : "their", what, left,
			left == 1 ? "" : "s");
	}
	weir_log_event(of->log, phase == WEIR_DRAIN_DRAINED ? WEIR_LOG_INFO : WEIR_LOG_WARN,
		&fields, "service %s: %s", name, why);
	weir_states_record_service(of->states, name, "drain", why);
}

// Logs the end of the drain of a service. what: the kind of the drained object, e.g. "removed
// service".
static void note_service_end(const struct weir_drains_of *of, uint16_t id, const char *what,
	enum weir_drain_phase phase, uint64_t left, const char *dropped) {
	const char *name = weir_tables_service_name(of->tables, id);
	const struct weir_log_fields fields = {
		.service = name, .state = weir_drain_phase_name((uint8_t)phase)};
	char text[WEIR_STATES_WHY_BYTES];
	const char *why = end_text(of->tables, phase, left, dropped, text);

	weir_log_event(of->log, phase == WEIR_DRAIN_DRAINED ? WEIR_LOG_INFO : WEIR_LOG_WARN,
		&fields, "%s %s: %s", what, name, why);
	weir_states_record_service(of->states, name, "drain", why);
}

// Find the drained binds of a service that also has binds that are not drained. Returns false if
// all binds are drained, or the service has no configuration.
static bool find_drained(const struct weir_tables *tables, uint16_t id, struct binds *ret) {
	const struct weir_config_service *config =
		weir_tables_service_config(tables, weir_tables_service_name(tables, id));

	*ret = (struct binds){.what = "bind", .count = weir_tables_drained_binds(tables, id)};
	for (uint32_t i = 0; config != NULL && i < config->bind_count && ret->named < BINDS_NAMED;
		i++) {
		if (weir_tables_bind_is_drained(tables, id, i)) {
			ret->first[ret->named++] = config->binds[i];
		}
	}
	return config != NULL && ret->count < weir_tables_select_binds(tables, id, NULL);
}

static void note_drain_end(
	const struct weir_drains_of *of, uint16_t id, enum weir_drain_phase phase, uint64_t left) {
	struct binds binds;

	if (find_drained(of->tables, id, &binds)) {
		note_binds_end(of, id, &binds, phase, left, "dropped");
	} else {
		note_service_end(of, id, "VIPs of service", phase, left, "dropped");
	}
}

// Advances the drain of a service's binds. Flows are counted only per service, so flows to VIPs
// that are not drained are counted as well.
static bool advance_service(const struct weir_drains_of *of, uint16_t id, uint64_t now_ns) {
	struct weir_tables *tables = of->tables;
	uint64_t moves = weir_tables_moves(tables);
	uint64_t open_flows = weir_sum_service(weir_tables_segment(tables), id).open_flows;
	const char *name = weir_tables_service_name(tables, id);
	struct weir_service_state state;
	enum weir_drain_phase phase;
	uint64_t left;
	int r;

	if (weir_tables_service(tables, id, &state) < 0) {
		return false;
	}
	phase = phase_of(tables, weir_drains_at_deadline(tables, name), state.drain_until_ns, moves,
		open_flows, now_ns);
	if (phase == WEIR_DRAIN_DRAINING) {
		return false;
	}
	left = phase == WEIR_DRAIN_DRAINED ? 0 : weir_drains_left(tables, open_flows);
	r = weir_tables_end_bind_drain(tables, id, phase, left);
	if (r >= 0) {
		note_drain_end(of, id, (enum weir_drain_phase)r, left);
	}
	return r >= 0;
}

// --- removals -------------------------------------------------------------------------------

// Logs the end of a removal. The service table still contains the removed binds until the next
// publication.
static void note_removal_end(const struct weir_drains_of *of, uint16_t id,
	const struct weir_service_state *state, enum weir_drain_phase phase, uint64_t left) {
	struct binds binds = {.what = "removed bind", .count = state->removed_binds};

	if (state->leaving) {
		note_service_end(of, id, "removed service", phase, left, "reset");
	} else {
		binds.named = weir_tables_first_removed(of->tables, id, binds.first);
		note_binds_end(of, id, &binds, phase, left, "reset");
	}
}

static bool advance_removal(const struct weir_drains_of *of, uint16_t id, uint64_t now_ns) {
	uint64_t moves = weir_tables_moves(of->tables);
	uint64_t open_flows = weir_sum_service(weir_tables_segment(of->tables), id).open_flows;
	struct weir_service_state state;
	bool drains, drained;
	int r;

	if (weir_tables_service(of->tables, id, &state) < 0) {
		return false;
	}
	// In the phase after DRAINING, the clients of removed binds get RSTs until
	// removal_until_ns.
	drains = state.removal == WEIR_DRAIN_DRAINING;
	drained = drains && open_flows == 0 && weir_tables_counts_drains(of->tables, moves);
	if (!drained && now_ns < state.removal_until_ns) {
		return false;
	}
	r = weir_tables_end_removal(of->tables, id, drained);
	if (r >= 0 && drains) {
		note_removal_end(of, id, &state, (enum weir_drain_phase)r,
			weir_drains_left(of->tables, open_flows));
	}
	return r >= 0;
}

// Examines up to `looks` services, beginning with the id *next. Returns whether the tables must be
// published.
static bool tick_services(const struct weir_drains_of *of, uint64_t now_ns, uint32_t looks,
	uint32_t *next, int (*find)(const struct weir_tables *tables, uint32_t from),
	bool (*go_on)(const struct weir_drains_of *of, uint16_t id, uint64_t now_ns)) {
	bool publish = false;

	for (; looks > 0; looks--) {
		int id = find(of->tables, *next);

		if (id < 0) {
			*next = 0;
			break;
		}
		publish |= go_on(of, (uint16_t)id, now_ns);
		*next = (uint32_t)id + 1;
	}
	return publish;
}

bool weir_drains_tick(
	struct weir_drains *drains, const struct weir_drains_of *of, uint64_t now_ns) {
	const struct weir_segment *segment = weir_tables_segment(of->tables);
	uint32_t looks = WEIR_DRAINS_LINES / (segment != NULL ? segment->workers : 1);
	bool publish = tick_services(of, now_ns, looks, &drains->next_service,
		weir_tables_next_draining, advance_service);

	publish |= tick_services(of, now_ns, looks, &drains->next_removal, weir_tables_next_removal,
		advance_removal);
	for (; looks > 0 && drains->next < drains->count; looks--) {
		uint16_t backend = drains->backend[drains->next];

		if (advance(of, backend, now_ns, &publish)) {
			drains->next++;
		} else {
			drains->listed[backend / 64] &= ~(1ull << backend % 64);
			drains->backend[drains->next] = drains->backend[--drains->count];
		}
	}
	if (drains->next >= drains->count) {
		drains->next = 0;
	}
	return publish;
}
