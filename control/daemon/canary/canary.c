// SPDX-License-Identifier: BSD-3-Clause
#include "canary_private.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clocks.h"

// A canary keeps its weight while its share differs from the step's share by at most 10 % of it.
#define KEEP_SHARE 0.1
#define TEXT_BYTES WEIR_STATES_EVENT_BYTES

// --- the file -------------------------------------------------------------------------------

// Writes all canaries to the file. A canary whose promotion is not published yet is written as
// running: if this process exits before the publication, the next process promotes the canary
// again. Returns 0 or negative errno.
static int write_records(const struct weir_canaries *canaries) {
	struct weir_canary_record *records = calloc(canaries->count + 1, sizeof(*records));
	int r;

	if (records == NULL) {
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < canaries->count; i++) {
		records[i] = canaries->canary[i].record;
		if (canaries->canary[i].publishing) {
			records[i].state = WEIR_CANARY_RUNNING;
			records[i].weight = canaries->canary[i].step_weight;
		}
	}
	r = weir_canary_file_write(canaries->of.run_dir, records, canaries->count);
	free(records);
	return r;
}

int weir_canaries_save(struct weir_canaries *canaries, bool published) {
	int r;

	for (uint32_t i = 0; published && i < canaries->count; i++) {
		canaries->unsaved |= canaries->canary[i].publishing;
		canaries->canary[i].publishing = false;
	}
	if (!canaries->unsaved) {
		return 0;
	}
	r = write_records(canaries);
	if (r < 0 && !canaries->save_failed) {
		weir_log_write(canaries->of.log, WEIR_LOG_ERROR,
			"cannot save the canaries in %s: %s; weir-control retries every second",
			canaries->of.run_dir, strerror(-r));
	}
	canaries->save_failed = r < 0;
	canaries->unsaved = r < 0;
	return r;
}

int weir_canaries_create(const struct weir_canaries_of *of, struct weir_canaries **ret) {
	struct weir_canaries *canaries = calloc(1, sizeof(*canaries));
	struct weir_canary_record *records = NULL;
	uint32_t count = 0;
	int r;

	if (canaries == NULL) {
		return -ENOMEM;
	}
	canaries->of = *of;
	r = weir_canary_file_read(of->run_dir, &records, &count);
	if (r < 0 && r != -ENOENT) {
		weir_log_write(of->log, WEIR_LOG_ERROR,
			"cannot read the canaries in %s: %s; the canaries have ended, and their "
			"backends keep their weights",
			of->run_dir, strerror(-r));
	}
	canaries->canary = calloc(count + 1, sizeof(*canaries->canary));
	if (canaries->canary == NULL) {
		free(records);
		free(canaries);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < count; i++) {
		canaries->canary[i] =
			(struct weir_canary){.record = records[i], .service = -1, .backend = -1};
	}
	canaries->count = count;
	free(records);
	*ret = canaries;
	return 0;
}

void weir_canaries_free(struct weir_canaries *canaries) {
	if (canaries != NULL) {
		free(canaries->canary);
		free(canaries);
	}
}

static void forget(struct weir_canaries *canaries, struct weir_canary *canary) {
	*canary = canaries->canary[--canaries->count];
	canaries->unsaved = true;
}

// --- texts ----------------------------------------------------------------------------------

bool weir_canary_is_running(const struct weir_canary *canary) {
	return canary->record.state == WEIR_CANARY_RUNNING;
}

const char *weir_canary_state_text(const struct weir_canary *canary) {
	return weir_canary_is_running(canary) && canary->paused != NULL
		       ? "paused"
		       : weir_canary_state_name((enum weir_canary_state)canary->record.state);
}

const char *weir_canary_describe(const struct weir_canary *canary, char *buffer, size_t bytes) {
	const struct weir_canary_record *record = &canary->record;
	char weight[24] = "configured weight";

	if (record->weight != WEIR_WEIGHT_UNSET) {
		snprintf(weight, sizeof(weight), "weight %u", record->weight);
	}
	if (weir_canary_is_running(canary)) {
		snprintf(buffer, bytes, "step %u of %u, %g %%, %s", record->step + 1,
			record->plan.steps, record->plan.percent[record->step], weight);
	} else {
		snprintf(buffer, bytes, "%s, %s", weir_canary_state_text(canary), weight);
	}
	return buffer;
}

void weir_canary_note(const struct weir_canaries *canaries, const struct weir_canary *canary,
	enum weir_log_level level, const char *format, ...) {
	const struct weir_canary_record *record = &canary->record;
	char text[TEXT_BYTES];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	weir_log_event(canaries->of.log, level,
		&(struct weir_log_fields){
			.service = record->service, .backend = record->backend, .reason = text},
		"canary %s/%s: %s", record->service, record->backend, text);
	if (canary->backend >= 0) {
		weir_states_record(canaries->of.states, (uint16_t)canary->backend, "canary", text);
	}
}

// Adds an audit entry for a change that weir-control has made. The entry names the user who started
// the canary.
static void audit(const struct weir_canaries *canaries, const struct weir_canary *canary,
	const char *command, const char *before, const char *after, const char *why) {
	const struct weir_canary_record *record = &canary->record;
	char object[WEIR_AUDIT_OBJECT_BYTES];
	struct weir_audit_event event = {.who = record->who,
		.command = command,
		.object = object,
		.before = before,
		.after = after,
		.why = why};

	snprintf(object, sizeof(object), "%s/%s", record->service, record->backend);
	weir_audit_add(canaries->of.audit, &event);
}

// --- weights --------------------------------------------------------------------------------

void weir_canary_set_weight(
	struct weir_canaries *canaries, struct weir_canary *canary, uint32_t weight) {
	struct weir_backend_state state;

	if (canary->record.weight != weight) {
		canary->record.weight = weight;
		canaries->unsaved = true;
	}
	if (canary->backend >= 0 && canaries->tables != NULL &&
		weir_tables_backend(canaries->tables, (uint16_t)canary->backend, &state) == 0 &&
		state.runtime_weight != weight) {
		weir_tables_set_weight(canaries->tables, (uint16_t)canary->backend, weight);
		canaries->changed = true;
	}
}

// Returns the run-time weight that gives the backend this effective weight. The two weights differ
// if backends report weights, because reported weights are scaled by the run-time weight.
static uint32_t runtime_weight(const struct weir_backend_state *state, uint32_t effective) {
	double weight = effective;

	if (state->reported_weight > 0 && state->configured_weight > 0) {
		weight = weight * state->configured_weight / state->reported_weight;
	}
	return weight < 1                         ? 1
	       : weight > WEIR_CANARY_WEIGHT_MOST ? WEIR_CANARY_WEIGHT_MOST
						  : (uint32_t)(weight + 0.5);
}

void weir_canary_set_share(struct weir_canaries *canaries, struct weir_canary *canary, bool exact) {
	const struct weir_canary_record *record = &canary->record;
	struct weir_backend_state state;
	uint32_t weight;
	double share, wanted;

	if (canary->others == 0 ||
		weir_tables_backend(canaries->tables, (uint16_t)canary->backend, &state) < 0) {
		return;
	}
	weight = weir_canary_weight(record->plan.percent[record->step], canary->others);
	weight = weight > 0 ? weight : 1;
	wanted = weir_canary_share(weight, canary->others);
	share = weir_canary_share(state.effective_weight, canary->others);
	if (exact || state.runtime_weight != record->weight ||
		fabs(share - wanted) > KEEP_SHARE * wanted) {
		weir_canary_set_weight(canaries, canary, runtime_weight(&state, weight));
	}
}

// --- end of a canary ------------------------------------------------------------------------

static void end(struct weir_canary *canary, enum weir_canary_state state, const char *why) {
	struct weir_canary_record *record = &canary->record;

	record->state = (uint8_t)state;
	record->ended_ms = weir_wall_ms();
	snprintf(record->why, sizeof(record->why), "%s", why);
	canary->paused = NULL;
}

static void roll_back(struct weir_canaries *canaries, struct weir_canary *canary, const char *why) {
	end(canary, WEIR_CANARY_ROLLED_BACK, why);
	weir_canary_set_weight(canaries, canary, 0);
	canaries->unsaved = true;
}

// Promotes a canary: its backend gets the configured weight. If the configured weight is 0, the
// backend keeps the weight of the last step.
static void promote(struct weir_canaries *canaries, struct weir_canary *canary, const char *why) {
	struct weir_backend_state state;

	end(canary, WEIR_CANARY_PROMOTED, why);
	canary->publishing = true;
	canary->step_weight = canary->record.weight;
	if (canary->backend >= 0 &&
		weir_tables_backend(canaries->tables, (uint16_t)canary->backend, &state) == 0 &&
		state.configured_weight > 0) {
		weir_canary_set_weight(canaries, canary, WEIR_WEIGHT_UNSET);
	}
	canaries->unsaved = true;
}

void weir_canary_end(struct weir_canaries *canaries, struct weir_canary *canary,
	enum weir_canary_state state, const char *why) {
	char before[WEIR_AUDIT_VALUE_BYTES], after[WEIR_AUDIT_VALUE_BYTES];

	weir_canary_describe(canary, before, sizeof(before));
	if (state == WEIR_CANARY_ROLLED_BACK) {
		roll_back(canaries, canary, why);
		weir_canary_note(canaries, canary, WEIR_LOG_WARN,
			"rolled back: %s; weight 0, existing flows continue", why);
	} else {
		promote(canaries, canary, why);
		weir_canary_note(canaries, canary, WEIR_LOG_INFO, "promoted: %s", why);
	}
	weir_canary_describe(canary, after, sizeof(after));
	audit(canaries, canary,
		state == WEIR_CANARY_ROLLED_BACK ? "canary.rollback" : "canary.promote", before,
		after, why);
}

// --- the configuration ----------------------------------------------------------------------

static bool is_configured(const struct weir_tables *tables, const struct weir_canary *canary) {
	const struct weir_config_service *service =
		weir_tables_service_config(tables, canary->record.service);

	if (service == NULL) { // the service waits for an id, or is unknown
		service = weir_config_find_service(
			weir_tables_config(tables), canary->record.service);
	}
	for (uint32_t i = 0; service != NULL && i < service->backend_count; i++) {
		if (strcmp(service->backends[i].name, canary->record.backend) == 0) {
			return true;
		}
	}
	return false;
}

void weir_canary_find_ids(const struct weir_tables *tables, struct weir_canary *canary) {
	const int former = canary->backend;

	canary->service = weir_tables_service_find(tables, canary->record.service);
	canary->backend =
		weir_tables_backend_find(tables, canary->record.service, canary->record.backend);
	// With another address, the backend is another server.
	canary->begun &= canary->backend == former;
}

const char *weir_canary_misfit(
	const struct weir_tables *tables, int service, char *why, size_t why_bytes) {
	struct weir_service_state state;
	struct weir_subset_state subset;

	if (service < 0 || weir_tables_service(tables, (uint16_t)service, &state) < 0) {
		return NULL;
	}
	if (state.policy != WEIR_POLICY_MAGLEV &&
		state.policy != WEIR_POLICY_WEIGHTED_ROUND_ROBIN) {
		snprintf(why, why_bytes,
			"a canary needs policy maglev or weighted-round-robin: with policy %s, new "
			"flows are not distributed by weight",
			weir_policy_name((enum weir_policy)state.policy));
		return why;
	}
	if (weir_tables_subset(tables, (uint16_t)service, &subset) == 0 && !subset.off) {
		snprintf(why, why_bytes, "a canary needs a service without subsets");
		return why;
	}
	return NULL;
}

// Returns whether a canary determines the weight of its backend even when a reload changes the
// configured weight.
static bool keeps_weight(const struct weir_canary *canary) {
	return weir_canary_is_running(canary) || canary->record.state == WEIR_CANARY_ROLLED_BACK;
}

void weir_canaries_follow(struct weir_canaries *canaries, struct weir_tables *tables) {
	char why[WEIR_CANARY_WHY_BYTES], before[WEIR_AUDIT_VALUE_BYTES];

	canaries->tables = tables;
	for (uint32_t i = canaries->count; i > 0; i--) {
		struct weir_canary *canary = &canaries->canary[i - 1];

		weir_canary_find_ids(tables, canary);
		if (!is_configured(tables, canary)) {
			weir_canary_describe(canary, before, sizeof(before));
			if (weir_canary_is_running(canary)) {
				canary->backend = -1; // the backend is being removed, together with
						      // its weight
				weir_canary_note(canaries, canary, WEIR_LOG_WARN,
					"ended: the backend is no longer configured");
				audit(canaries, canary, "canary.end", before, "ended",
					"the backend is no longer configured");
			}
			forget(canaries, canary);
			continue;
		}
		if (weir_canary_is_running(canary) &&
			weir_canary_misfit(tables, canary->service, why, sizeof(why)) != NULL) {
			weir_canary_end(canaries, canary, WEIR_CANARY_ROLLED_BACK, why);
		}
		if (keeps_weight(canary)) {
			weir_canary_set_weight(canaries, canary, canary->record.weight);
		}
	}
	(void)weir_canaries_save(canaries, false);
}

// --- commands of operators ------------------------------------------------------------------

// Returns the running canary of a service. If no canary runs, returns the canary that was started
// last, or NULL.
static struct weir_canary *find(const struct weir_canaries *canaries, const char *service) {
	struct weir_canary *last = NULL;

	for (uint32_t i = 0; service != NULL && i < canaries->count; i++) {
		struct weir_canary *canary = &canaries->canary[i];

		if (strcmp(canary->record.service, service) != 0) {
			continue;
		}
		if (weir_canary_is_running(canary)) {
			return canary;
		}
		if (last == NULL || canary->record.started_ms > last->record.started_ms) {
			last = canary;
		}
	}
	return last;
}

// Returns the canary of a backend, or NULL.
static struct weir_canary *find_backend(
	const struct weir_canaries *canaries, const char *service, const char *backend) {
	for (uint32_t i = 0; i < canaries->count; i++) {
		const struct weir_canary_record *record = &canaries->canary[i].record;

		if (strcmp(record->service, service) == 0 &&
			strcmp(record->backend, backend) == 0) {
			return &canaries->canary[i];
		}
	}
	return NULL;
}

// Returns the ended canary that a new canary of a backend replaces, or NULL. A rolled-back canary
// of another backend stays, because it keeps the weight of that backend at 0.
static struct weir_canary *find_replaced(
	const struct weir_canaries *canaries, const char *service, const char *backend) {
	struct weir_canary *canary = find_backend(canaries, service, backend);

	if (canary == NULL) {
		canary = find(canaries, service);
		if (canary != NULL && keeps_weight(canary)) {
			return NULL;
		}
	}
	return canary;
}

// Returns the sum of the weights of the service's other backends that get new flows.
static uint64_t others_of(const struct weir_tables *tables, uint16_t service, uint16_t backend) {
	struct weir_backend_state state;
	uint64_t sum = 0;

	for (uint32_t id = 0; id < weir_tables_backend_ids(tables); id++) {
		if (id != backend && weir_tables_backend_service(tables, (uint16_t)id) == service &&
			weir_tables_backend(tables, (uint16_t)id, &state) == 0 &&
			state.in_selection) {
			sum += state.effective_weight;
		}
	}
	return sum;
}

static int refuse_state(const struct weir_backend_state *state, char *why, size_t why_bytes) {
	const char *is = state->admin == WEIR_ADMIN_DRAIN         ? "drained"
			 : state->admin == WEIR_ADMIN_MAINTENANCE ? "in maintenance"
			 : state->health == WEIR_HEALTH_LAME_DUCK ? "a lame duck"
								  : NULL;

	if (is != NULL) {
		snprintf(why, why_bytes, "backend %s/%s is %s; run \"weirctl backend ready %s/%s\"",
			state->service, state->name, is, state->service, state->name);
	} else if (state->health == WEIR_HEALTH_REFUSING || state->ejected) {
		snprintf(why, why_bytes,
			"backend %s/%s is %s; for the reason, run \"weirctl health history %s/%s\"",
			state->service, state->name, state->ejected ? "ejected" : "refusing",
			state->service, state->name);
	} else if (state->backup) {
		snprintf(why, why_bytes,
			"backend %s/%s is a backup, which gets new flows only while other backends "
			"fail; remove \"backup\" from its configuration, and reload",
			state->service, state->name);
	} else {
		return 0;
	}
	return -EINVAL;
}

// Checks that the first and the last share of a plan can be reached with some weight. Returns 0, or
// -EINVAL with the reason in why.
static int refuse_weights(const struct weir_tables *tables, const struct weir_backend_state *state,
	const struct weir_canary_plan *plan, uint64_t others, char *why, size_t why_bytes) {
	const struct weir_config_service *config =
		weir_tables_service_config(tables, state->service);
	const double first = plan->percent[0], last = plan->percent[plan->steps - 1];

	if (others == 0) {
		snprintf(why, why_bytes,
			"no other backend of service %s gets new flows: there is nothing to "
			"compare the canary with",
			state->service);
	} else if (config != NULL && config->policy.weights != WEIR_WEIGHTS_CONFIGURED &&
		   state->configured_weight == 0) {
		snprintf(why, why_bytes,
			"the configured weight of backend %s/%s is 0, so reported weights cannot "
			"be scaled to a step: configure a weight above 0",
			state->service, state->name);
	} else if (weir_canary_weight(first, others) == 0) {
		snprintf(why, why_bytes,
			"a share of %g %% cannot be reached: the weights of the other backends add "
			"up to %llu, so the smallest weight, 1, gives %.3g %%; use larger weights "
			"in the configuration, or begin with a larger step",
			first, (unsigned long long)others, weir_canary_share(1, others));
	} else if (weir_canary_share(weir_canary_weight(last, others), others) < 0.9 * last) {
		snprintf(why, why_bytes,
			"a share of %g %% cannot be reached: the weights of the other backends add "
			"up to %llu, so the largest weight, %u, gives %.3g %%; use smaller weights "
			"in the configuration, or end with a smaller step",
			last, (unsigned long long)others, WEIR_CANARY_WEIGHT_MOST,
			weir_canary_share(WEIR_CANARY_WEIGHT_MOST, others));
	} else {
		return 0;
	}
	return -EINVAL;
}

int weir_canaries_check(const struct weir_canaries *canaries, const struct weir_tables *tables,
	uint16_t backend, const struct weir_canary_plan *plan, uint64_t *ret_others, char *why,
	size_t why_bytes) {
	const struct weir_canary *running;
	struct weir_backend_state state;
	uint64_t others;
	int r;

	if (weir_tables_backend(tables, backend, &state) < 0 || state.leaving) {
		snprintf(why, why_bytes, "the backend is being removed");
		return -EINVAL;
	}
	running = find(canaries, state.service);
	if (running != NULL && weir_canary_is_running(running)) {
		snprintf(why, why_bytes,
			"backend %s is the canary of service %s; to end the canary, run \"weirctl "
			"canary stop %s\"",
			running->record.backend, state.service, state.service);
		return -EINVAL;
	}
	if (weir_canary_misfit(tables, state.service_id, why, why_bytes) != NULL) {
		return -EINVAL;
	}
	others = others_of(tables, state.service_id, backend);
	r = refuse_state(&state, why, why_bytes);
	if (r == 0) {
		r = refuse_weights(tables, &state, plan, others, why, why_bytes);
	}
	if (r == 0) {
		*ret_others = others;
	}
	return r;
}

static struct weir_canary *add(struct weir_canaries *canaries) {
	struct weir_canary *grown =
		realloc(canaries->canary, (canaries->count + 1) * sizeof(*canaries->canary));

	if (grown == NULL) {
		return NULL;
	}
	canaries->canary = grown;
	return &grown[canaries->count++];
}

int weir_canaries_start(struct weir_canaries *canaries, struct weir_tables *tables,
	uint16_t backend, const struct weir_canary_plan *plan, const struct weir_audit_who *who) {
	struct weir_backend_state state;
	struct weir_canary *canary, former;
	char text[WEIR_AUDIT_VALUE_BYTES];
	bool replaces;
	int r = weir_tables_backend(tables, backend, &state);

	if (r < 0) {
		return r;
	}
	canary = find_replaced(canaries, state.service, state.name);
	replaces = canary != NULL;
	canary = replaces ? canary : add(canaries);
	if (canary == NULL) {
		return -ENOMEM;
	}
	former = replaces ? *canary : (struct weir_canary){.backend = -1};
	*canary = (struct weir_canary){.service = state.service_id,
		.backend = backend,
		.others = others_of(tables, state.service_id, backend),
		.record = {.plan = *plan, .started_ms = weir_wall_ms(), .who = *who}};
	snprintf(canary->record.service, sizeof(canary->record.service), "%s", state.service);
	snprintf(canary->record.backend, sizeof(canary->record.backend), "%s", state.name);
	canary->record.weight =
		runtime_weight(&state, weir_canary_weight(plan->percent[0], canary->others));
	canaries->unsaved = true;
	r = weir_canaries_save(canaries, false);
	if (r < 0) { // without the file, the canary would not continue after a restart
		*canary = former;
		canaries->count -= !replaces;
		return r;
	}
	canaries->tables = tables;
	weir_canary_set_weight(canaries, canary, canary->record.weight);
	weir_canary_note(canaries, canary, WEIR_LOG_INFO, "%s",
		weir_canary_describe(canary, text, sizeof(text)));
	return 0;
}

int weir_canaries_stop(
	struct weir_canaries *canaries, const char *service, enum weir_canary_state state) {
	struct weir_canary *canary = find(canaries, service);
	static const char why[] = "weirctl canary stop";

	if (canary == NULL || !weir_canary_is_running(canary)) {
		return -ENOENT;
	}
	if (state == WEIR_CANARY_ROLLED_BACK) {
		roll_back(canaries, canary, why);
	} else if (state == WEIR_CANARY_PROMOTED) {
		promote(canaries, canary, why);
	} else {
		end(canary, WEIR_CANARY_STOPPED, why);
		canaries->unsaved = true;
	}
	weir_canary_note(
		canaries, canary, WEIR_LOG_INFO, "%s: %s", weir_canary_state_text(canary), why);
	return 0;
}

bool weir_canaries_let_go(
	struct weir_canaries *canaries, const char *service, const char *backend) {
	struct weir_canary *canary = find_backend(canaries, service, backend);

	if (canary == NULL) {
		return true;
	}
	if (weir_canary_is_running(canary)) {
		return false;
	}
	forget(canaries, canary);
	(void)weir_canaries_save(canaries, false);
	return true;
}

bool weir_canaries_are_unsaved(const struct weir_canaries *canaries) {
	return canaries->save_failed;
}

uint32_t weir_canaries_count(const struct weir_canaries *canaries) {
	return canaries->count;
}

const struct weir_canary *weir_canaries_at(const struct weir_canaries *canaries, uint32_t i) {
	return &canaries->canary[i];
}

const struct weir_canary *weir_canaries_find(
	const struct weir_canaries *canaries, const char *service) {
	return find(canaries, service);
}

const char *weir_canaries_keeping(const void *canaries, const char *service, const char *backend) {
	const struct weir_canary *canary = find_backend(canaries, service, backend);

	return canary != NULL && keeps_weight(canary) ? weir_canary_state_text(canary) : NULL;
}
