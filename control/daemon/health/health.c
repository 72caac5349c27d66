// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "health_check.h"
#include "health_ping.h"

struct slot {
	struct weir_health_check *check; // NULL = the slot has no check
	// number of the last weir_health_configure call that contained this check
	uint64_t generation;
};

struct weir_health {
	struct weir_health_checking checking;
	struct slot *slots; // two slots per backend, see slot_of
	uint32_t count; // number of slots
	uint64_t generation;
};

// Returns the index of a slot. Each backend has two slots: one for the check, and one for the
// agent-check that runs alongside.
static uint32_t slot_of(uint16_t backend, bool alongside) {
	return backend * 2u + alongside;
}

// Returns a check of a backend, or NULL.
static struct weir_health_check *find(
	const struct weir_health *health, uint16_t backend, bool alongside) {
	uint32_t slot = slot_of(backend, alongside);

	return slot < health->count ? health->slots[slot].check : NULL;
}

static bool is_sound(const struct weir_health_target *target) {
	const struct weir_config_health_check *check = target->check;

	return check->type == WEIR_CHECK_NONE ||
	       (check->interval_ms > 0 && check->timeout_ms > 0 && check->rise > 0 &&
		       check->fall > 0 &&
		       (target->port > 0 || check->type == WEIR_CHECK_PING ||
			       check->type == WEIR_CHECK_EXEC) &&
		       (target->address.family == 4 || target->address.family == 6));
}

static int validate(const struct weir_health_target *targets, uint32_t n, uint32_t *ret_slots) {
	uint8_t *seen = calloc(2, WEIR_BACKENDS_MAX + 1);
	uint32_t slots = 0;
	int r = 0;

	if (seen == NULL) {
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < n && !r; i++) {
		uint32_t slot = slot_of(targets[i].backend, targets[i].alongside);

		if (targets[i].backend >= WEIR_BACKENDS_MAX || seen[slot]++ ||
			!is_sound(&targets[i])) {
			r = -EINVAL;
		}
		slots = slot >= slots ? slot + 1 : slots;
	}
	free(seen);
	if (!r) {
		*ret_slots = slots;
	}
	return r;
}

static int grow(struct weir_health *health, uint32_t count) {
	struct slot *slots;

	if (count <= health->count) {
		return 0;
	}
	slots = realloc(health->slots, count * sizeof(*slots));
	if (slots == NULL) {
		return -ENOMEM;
	}
	memset(slots + health->count, 0, (count - health->count) * sizeof(*slots));
	health->slots = slots;
	health->count = count;
	return 0;
}

// Returns whether a target has no check yet, or differs from its current check.
static bool is_fresh(const struct weir_health *health, const struct weir_health_target *target) {
	const struct weir_health_check *check = find(health, target->backend, target->alongside);

	return target->check->type != WEIR_CHECK_NONE &&
	       (check == NULL || !weir_health_check_is_of(check, target));
}

struct memory { // memory for a target; both NULL if the target is not fresh
	struct weir_health_check *check; // NULL: the check already exists
	struct weir_health_params *params;
};

static void release(struct memory *memory, uint32_t n) {
	for (uint32_t i = 0; i < n; i++) {
		weir_health_check_free(memory[i].check);
		weir_health_params_leave(memory[i].params);
	}
	free(memory);
}

// Allocates all memory for the fresh targets, so that applying the targets cannot fail halfway.
// Returns an array in the order of the targets, or NULL.
static struct memory *allocate(
	struct weir_health *health, const struct weir_health_target *targets, uint32_t n) {
	struct memory *memory = calloc(n + 1, sizeof(*memory));
	const struct weir_health_target *before_of[2] = {NULL};
	struct weir_health_params *before[2] = {NULL};

	for (uint32_t i = 0; memory != NULL && i < n; i++) {
		bool alongside = targets[i].alongside;
		bool is_new = find(health, targets[i].backend, alongside) == NULL;

		if (!is_fresh(health, &targets[i])) {
			continue;
		}
		before[alongside] = weir_health_params_share(
			before[alongside], before_of[alongside], &targets[i]);
		before_of[alongside] = &targets[i];
		memory[i].params = before[alongside];
		memory[i].check =
			is_new ? weir_health_check_create(&health->checking, &targets[i]) : NULL;
		if (before[alongside] == NULL || (is_new && memory[i].check == NULL)) {
			release(memory, n);
			return NULL;
		}
	}
	return memory;
}

// Returns the delay in milliseconds until the first check of a fresh target. index: index among the
// fresh targets. The first checks start 1 ms apart. If there are more fresh targets than
// milliseconds in the interval, the checks are spread over the interval.
static uint64_t first_delay(uint32_t index, uint32_t fresh, uint32_t interval_ms) {
	uint64_t spread = fresh < interval_ms ? fresh : interval_ms;

	return fresh > 0 ? index * spread / fresh : 0;
}

static void apply_fresh(struct slot *slot, const struct weir_health_target *target,
	struct memory *memory, uint64_t delay_ms) {
	if (slot->check == NULL) {
		slot->check = memory->check;
		memory->check = NULL;
	}
	weir_health_check_set(slot->check, target, memory->params, delay_ms);
	memory->params = NULL;
}

static void apply(struct weir_health *health, const struct weir_health_target *targets, uint32_t n,
	struct memory *memory) {
	uint32_t fresh = 0, index = 0;

	for (uint32_t i = 0; i < n; i++) {
		fresh += is_fresh(health, &targets[i]);
	}
	for (uint32_t i = 0; i < n; i++) {
		struct slot *slot =
			&health->slots[slot_of(targets[i].backend, targets[i].alongside)];
		uint32_t interval_ms = targets[i].check->interval_ms;

		if (is_fresh(health, &targets[i])) {
			apply_fresh(slot, &targets[i], &memory[i],
				first_delay(index++, fresh, interval_ms));
		}
		if (targets[i].check->type != WEIR_CHECK_NONE) {
			slot->generation = health->generation;
		}
	}
}

static void free_check(struct slot *slot) {
	weir_health_check_free(slot->check);
	slot->check = NULL;
}

int weir_health_configure(
	struct weir_health *health, const struct weir_health_target *targets, uint32_t n) {
	struct memory *memory;
	uint32_t slots;
	int r = validate(targets, n, &slots);

	if (!r) {
		r = grow(health, slots);
	}
	if (r) {
		return r;
	}
	memory = allocate(health, targets, n);
	if (memory == NULL) {
		return -ENOMEM;
	}
	health->generation++;
	weir_health_starts_limit(&health->checking.starts);
	uv_update_time(health->checking.loop);
	apply(health, targets, n, memory);
	for (uint32_t i = 0; i < health->count; i++) {
		if (health->slots[i].generation != health->generation) {
			free_check(&health->slots[i]);
		}
	}
	weir_health_checking_wake(&health->checking);
	release(memory, n);
	return 0;
}

// --- checks -------------------------------------------------------------------------------

void weir_health_set_hop(
	struct weir_health *health, uint16_t backend, const struct weir_data_path_hop *hop) {
	struct weir_health_check *check = find(health, backend, false);

	if (check != NULL) {
		weir_health_check_set_hop(check, hop);
	}
}

void weir_health_set_far(struct weir_health *health, uint16_t backend, bool far) {
	for (int alongside = 0; alongside < 2; alongside++) {
		struct weir_health_check *check = find(health, backend, alongside);

		if (check != NULL) {
			weir_health_check_set_far(check, far);
		}
	}
}

void weir_health_set_idle(struct weir_health *health, uint16_t backend, uint32_t interval_ms) {
	for (int alongside = 0; alongside < 2; alongside++) {
		struct weir_health_check *check = find(health, backend, alongside);

		if (check != NULL) {
			weir_health_check_set_idle(check, interval_ms);
		}
	}
}

void weir_health_clear_words(struct weir_health *health, uint16_t backend) {
	for (int alongside = 0; alongside < 2; alongside++) {
		struct weir_health_check *check = find(health, backend, alongside);

		if (check != NULL) {
			weir_health_check_clear_words(check);
		}
	}
}

void weir_health_restart(struct weir_health *health, uint16_t backend) {
	struct weir_health_check *check = find(health, backend, false);

	if (check != NULL) {
		weir_health_check_restart(check);
	}
}

void weir_health_agent_result(struct weir_health *health, uint16_t backend,
	enum weir_probe_outcome outcome, const char *detail, uint32_t duration_ms) {
	struct weir_health_check *check = find(health, backend, false);

	if (check != NULL) {
		weir_health_check_agent_result(check, outcome, detail, duration_ms);
	}
}

struct weir_health_durations *weir_health_durations(struct weir_health *health) {
	return &health->checking.durations;
}

int weir_health_status(const struct weir_health *health, uint16_t backend, bool alongside,
	struct weir_health_status *ret) {
	const struct weir_health_check *check = find(health, backend, alongside);

	if (check == NULL) {
		return -ENOENT;
	}
	weir_health_check_status(check, ret);
	return 0;
}

uint64_t weir_health_unchecked_ms(const struct weir_health *health, uint16_t backend) {
	const struct weir_health_check *check = find(health, backend, false);

	return check != NULL ? weir_health_check_unchecked_ms(check) : 0;
}

uint32_t weir_health_programs_late(
	const struct weir_health *health, int service, uint64_t *ret_ms) {
	const struct weir_health_checking *checking = &health->checking;

	return weir_health_starts_late(
		&checking->program_starts, service, uv_now(checking->loop), ret_ms);
}

// --- create and free ----------------------------------------------------------------------

int weir_health_create(uv_loop_t *loop, weir_health_fn on_health, weir_health_report_fn on_report,
	void *context, struct weir_health **ret) {
	struct weir_health *health = calloc(1, sizeof(*health));
	int r;

	if (health == NULL) {
		return -ENOMEM;
	}
	weir_health_checking_init(&health->checking, loop);
	r = weir_health_curl_create(loop, &health->checking.curl);
	if (r) {
		free(health);
		return r;
	}
	health->checking.on_health = on_health;
	health->checking.on_report = on_report;
	health->checking.context = context;
	health->checking.forget = weir_health_clear_words;
	health->checking.health = health;
	*ret = health;
	return 0;
}

int weir_health_set_data_path(struct weir_health *health, struct weir_data_path_tunnel *tunnel,
	weir_data_path_lost_fn on_lost) {
	struct weir_health_checking *checking = &health->checking;

	return weir_data_path_create(
		checking->loop, tunnel, on_lost, checking->context, &checking->path);
}

void weir_health_on_failed(struct weir_health *health, weir_health_excuse_fn excuse) {
	health->checking.excuse = excuse;
}

int weir_health_set_ping(struct weir_health *health, struct weir_ping_sockets *sockets) {
	return weir_health_pings_create(health->checking.loop, sockets, &health->checking.pings);
}

void weir_health_set_programs(
	struct weir_health *health, struct weir_programs *programs, weir_health_names_fn names) {
	health->checking.programs = programs;
	health->checking.names = names;
}

void weir_health_free(struct weir_health *health) {
	if (health == NULL) {
		return;
	}
	for (uint32_t i = 0; i < health->count; i++) {
		free_check(&health->slots[i]);
	}
	weir_health_curl_free(health->checking.curl);
	weir_data_path_free(health->checking.path);
	weir_health_pings_free(health->checking.pings);
	weir_health_durations_fini(&health->checking.durations);
	free(health->slots);
	free(health);
}
