// SPDX-License-Identifier: BSD-3-Clause
#include "states.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clocks.h"
#include "configured.h"

struct entry { // data of one backend id
	bool known;
	bool unresolved; // the last next hop event in the history is "unresolved"
	// The backend was announced as down when its verdict became FAILING. The verdict is still
	// FAILING.
	bool was_down;
	uint64_t identity; // identity of the backend to which the facts belong
	struct weir_address address;
	struct weir_health_facts facts;
	enum weir_health_state state;
	uint64_t since_ms; // when the backend was added or its state last changed, monotonic
	char why[WEIR_STATES_WHY_BYTES];
};

struct weir_states {
	struct weir_log *log;
	weir_states_changed changed;
	weir_states_recheck recheck; // NULL = none
	weir_states_moved moved; // NULL = none
	void *context; // context of these callbacks
	struct weir_tables *tables; // NULL until the first weir_states_configure
	struct entry *entries; // indexed by backend id
	uint32_t ids;
	struct weir_changes history;
};

int weir_states_create(struct weir_log *log, weir_states_changed changed, void *context,
	struct weir_states **ret) {
	struct weir_states *states = calloc(1, sizeof(*states));

	if (states == NULL) {
		return -ENOMEM;
	}
	states->log = log;
	states->changed = changed;
	states->context = context;
	*ret = states;
	return 0;
}

void weir_states_on_recheck(struct weir_states *states, weir_states_recheck recheck) {
	states->recheck = recheck;
}

void weir_states_on_moved(struct weir_states *states, weir_states_moved moved) {
	states->moved = moved;
}

void weir_states_free(struct weir_states *states) {
	if (states == NULL) {
		return;
	}
	weir_changes_fini(&states->history);
	free(states->entries);
	free(states);
}

// --- changes --------------------------------------------------------------------------------

static struct entry *find(const struct weir_states *states, uint16_t backend) {
	return backend < states->ids && states->entries[backend].known ? &states->entries[backend]
								       : NULL;
}

static void remember(struct weir_states *states, const struct weir_backend_state *backend,
	enum weir_health_state to, const char *source, const char *why) {
	struct weir_states_change change = {.time_ms = weir_wall_ms(),
		.from = (enum weir_health_state)backend->health,
		.to = to};

	memcpy(change.service, backend->service, sizeof(change.service));
	memcpy(change.backend, backend->name, sizeof(change.backend));
	snprintf(change.source, sizeof(change.source), "%s", source);
	snprintf(change.why, sizeof(change.why), "%s", why);
	weir_changes_add(&states->history, &change);
}

// Sets the facts of a backend and computes the state from the facts. If the state in the tables
// differs, writes it to the tables, records and logs the change, and calls the callbacks.
static void settle(struct weir_states *states, uint16_t id, struct weir_health_facts facts,
	const char *source, const char *why) {
	struct entry *entry = &states->entries[id];
	struct weir_backend_state backend;

	entry->facts = facts;
	entry->state = weir_health_state_of(facts);
	if (weir_tables_backend(states->tables, id, &backend) < 0 ||
		backend.health == entry->state) {
		return;
	}
	entry->since_ms = weir_monotonic_ms();
	snprintf(entry->why, sizeof(entry->why), "%s", why);
	remember(states, &backend, entry->state, source, why);
	weir_tables_set_health(states->tables, id, entry->state);
	if (states->moved != NULL) {
		states->moved(
			states->context, &(struct weir_states_transition){.id = id,
						 .service = backend.service,
						 .backend = backend.name,
						 .address = &backend.address,
						 .from = (enum weir_health_state)backend.health,
						 .to = entry->state,
						 .why = why});
	}
	weir_log_event(states->log,
		entry->state == WEIR_HEALTH_HEALTHY ? WEIR_LOG_INFO : WEIR_LOG_WARN,
		&(struct weir_log_fields){.service = backend.service,
			.backend = backend.name,
			.state = weir_health_state_name(entry->state),
			.reason = why},
		"backend %s/%s: %s (%s: %s)", backend.service, backend.name,
		weir_health_state_name(entry->state), source, why);
	states->changed(states->context);
}

void weir_states_set_verdict(struct weir_states *states, uint16_t backend,
	enum weir_health_verdict verdict, const char *why) {
	struct entry *entry = find(states, backend);

	if (entry != NULL) {
		entry->was_down = verdict == WEIR_HEALTH_VERDICT_FAILING &&
				  (entry->was_down || entry->facts.word == WEIR_HEALTH_WORD_DOWN);
		settle(states, backend, weir_health_set_verdict(entry->facts, verdict), "check",
			why);
	}
}

// Sets facts whose announced state may have changed. Starts the checks again if the backend is no
// longer announced as down.
static void settle_word(struct weir_states *states, uint16_t id, struct weir_health_facts facts,
	const char *source, const char *why) {
	struct entry *entry = &states->entries[id];
	bool was_down = entry->was_down || entry->facts.word == WEIR_HEALTH_WORD_DOWN;

	settle(states, id, facts, source, why);
	if (was_down && facts.word != WEIR_HEALTH_WORD_DOWN) {
		entry->was_down = false;
		if (states->recheck != NULL && facts.verdict != WEIR_HEALTH_VERDICT_UNCHECKED) {
			states->recheck(states->context, id);
		}
	}
}

void weir_states_set_word(struct weir_states *states, uint16_t backend, enum weir_health_word word,
	const char *source, const char *why) {
	const struct entry *entry = find(states, backend);

	if (entry != NULL) {
		settle_word(states, backend, weir_health_set_word(entry->facts, word), source, why);
	}
}

void weir_states_expire(struct weir_states *states, uint16_t backend, const char *source) {
	const struct entry *entry = find(states, backend);

	if (entry != NULL) {
		settle_word(states, backend, weir_health_expire(entry->facts), source,
			"last report expired");
	}
}

void weir_states_record(
	struct weir_states *states, uint16_t backend, const char *source, const char *why) {
	struct weir_backend_state state;

	if (find(states, backend) != NULL &&
		weir_tables_backend(states->tables, backend, &state) == 0) {
		remember(states, &state, (enum weir_health_state)state.health, source, why);
	}
}

void weir_states_record_service(
	struct weir_states *states, const char *service, const char *source, const char *why) {
	struct weir_backend_state none = {.service_id = 0};

	snprintf(none.service, sizeof(none.service), "%s", service);
	remember(states, &none, (enum weir_health_state)none.health, source, why);
}

void weir_states_next_hop(
	struct weir_states *states, uint16_t backend, bool resolved, const char *why) {
	struct entry *entry = find(states, backend);
	char text[WEIR_STATES_EVENT_BYTES];

	if (entry == NULL || entry->unresolved != resolved) {
		return;
	}
	entry->unresolved = !resolved;
	snprintf(text, sizeof(text), "%s%s",
		resolved ? "next hop resolved" : "next hop unresolved: ", resolved ? "" : why);
	weir_states_record(states, backend, "next-hop", text);
}

// --- configuration --------------------------------------------------------------------------

static bool is_same(const struct entry *entry, const struct weir_backend_state *backend) {
	return entry->known && entry->identity == backend->identity &&
	       weir_address_equal(&entry->address, &backend->address);
}

// Returns the facts of a backend after the configuration has added or removed its check.
static struct weir_health_facts with_check(const struct entry *entry, bool checked) {
	bool was_checked = entry->facts.verdict != WEIR_HEALTH_VERDICT_UNCHECKED;

	if (checked == was_checked) {
		return entry->facts;
	}
	if (!checked) {
		return weir_health_set_verdict(entry->facts, WEIR_HEALTH_VERDICT_UNCHECKED);
	}
	return weir_health_adopt(entry->state, true);
}

// The entries before weir_states_configure.
struct former {
	const struct entry *entries; // indexed by backend id
	uint32_t ids;
	// Known entries by identity; filled and sorted when the first backend is not at its id.
	const struct entry **sorted;
	uint32_t sorted_count;
	bool is_sorted;
};

static int by_identity(const void *a, const void *b) {
	const struct entry *const *left = a, *const *right = b;

	return ((*left)->identity > (*right)->identity) - ((*left)->identity < (*right)->identity);
}

// Returns the former entry of a backend that had another id, or NULL.
static const struct entry *find_moved(
	struct former *former, const struct weir_backend_state *backend) {
	const struct entry key = {.identity = backend->identity}, *at = &key, **found;

	if (!former->is_sorted) {
		for (uint32_t id = 0; id < former->ids; id++) {
			if (former->entries[id].known) {
				former->sorted[former->sorted_count++] = &former->entries[id];
			}
		}
		qsort(former->sorted, former->sorted_count, sizeof(*former->sorted), by_identity);
		former->is_sorted = true;
	}
	found = bsearch(&at, former->sorted, former->sorted_count, sizeof(*found), by_identity);
	return found != NULL && is_same(*found, backend) ? *found : NULL;
}

// Fills the entry of a backend. With another id than before, it keeps the age of its state; its
// checks and reports begin again, so its facts are derived from the tables.
static void fill_entry(struct entry *entry, struct former *former,
	const struct weir_backend_state *backend, bool checked) {
	const struct entry *moved;

	if (backend->id < former->ids && is_same(&former->entries[backend->id], backend)) {
		*entry = former->entries[backend->id];
		entry->facts = with_check(entry, checked);
		return;
	}
	*entry = (struct entry){.known = true,
		.identity = backend->identity,
		.address = backend->address,
		.state = (enum weir_health_state)backend->health,
		.since_ms = weir_monotonic_ms()};
	entry->facts = weir_health_adopt(entry->state, checked);
	moved = find_moved(former, backend);
	if (moved != NULL) {
		entry->unresolved = moved->unresolved;
		if (moved->state == entry->state) {
			entry->since_ms = moved->since_ms;
			memcpy(entry->why, moved->why, sizeof(entry->why));
		}
	}
}

static bool is_checked(const struct weir_configured *of) {
	return weir_config_check_of(of->service, of->config)->type != WEIR_CHECK_NONE;
}

int weir_states_configure(
	struct weir_states *states, struct weir_tables *tables, const struct weir_config *config) {
	const uint32_t ids = weir_tables_backend_ids(tables);
	struct former former = {.entries = states->entries, .ids = states->ids};
	struct entry *entries = calloc(ids + 1, sizeof(*entries));
	struct weir_configured of;

	former.sorted = calloc(former.ids + 1, sizeof(*former.sorted));
	if (entries == NULL || former.sorted == NULL) {
		free(former.sorted);
		free(entries);
		return -ENOMEM;
	}
	for (of = weir_configured_begin(tables, config); weir_configured_next(&of);) {
		fill_entry(&entries[of.backend.id], &former, &of.backend, is_checked(&of));
	}
	free(former.sorted);
	free(states->entries);
	states->tables = tables;
	states->entries = entries;
	states->ids = ids;
	for (of = weir_configured_begin(tables, config); weir_configured_next(&of);) {
		settle(states, of.backend.id, entries[of.backend.id].facts, "configuration",
			is_checked(&of) ? "health check configured" : "no health check");
	}
	return 0;
}

// --- status and history ---------------------------------------------------------------------

int weir_states_status(
	const struct weir_states *states, uint16_t backend, struct weir_states_status *ret) {
	const struct entry *entry = find(states, backend);

	if (entry == NULL) {
		return -ENOENT;
	}
	*ret = (struct weir_states_status){.facts = entry->facts,
		.state = entry->state,
		.since_ms = weir_monotonic_ms() - entry->since_ms,
		.why = entry->why};
	return 0;
}

bool weir_states_history(
	const struct weir_states *states, uint32_t n, struct weir_states_change *ret) {
	return weir_changes_get(&states->history, n, ret);
}

uint64_t weir_states_history_lost(const struct weir_states *states, const char *service) {
	return weir_changes_lost(&states->history, service);
}
