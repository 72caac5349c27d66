// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "health_private.h"

static void free_check(uv_handle_t *handle) {
	free(handle->data);
}

static void leave_params(struct weir_health_params *params) {
	if (params != NULL && --params->users == 0) {
		free(params);
	}
}

static void check_free(struct weir_health_check *check) {
	weir_health_halt(check);
	leave_params(check->params);
	check->health->checks[weir_health_slot(check->backend, check->alongside)] = NULL;
	uv_close((uv_handle_t *)&check->timer, free_check);
}

static bool is_same_request(
	const struct weir_config_health_check *a, const struct weir_config_health_check *b) {
	return strcmp(a->path, b->path) == 0 && strcmp(a->host, b->host) == 0 &&
	       strcmp(a->body, b->body) == 0 && strcmp(a->ca_file, b->ca_file) == 0 &&
	       strcmp(a->server_name, b->server_name) == 0 && strcmp(a->send, b->send) == 0 &&
	       strcmp(a->grpc_service, b->grpc_service) == 0 && a->tls == b->tls &&
	       a->method == b->method && a->verify == b->verify && a->orca == b->orca &&
	       a->status_first == b->status_first && a->status_last == b->status_last;
}

static bool is_same_address(const struct weir_address *a, const struct weir_address *b) {
	return a->family == b->family && memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

static bool is_same(
	const struct weir_health_check *check, const struct weir_health_target *target) {
	const struct weir_config_health_check *a = &check->params->check, *b = target->check;

	return check->port == target->port && is_same_address(&check->address, &target->address) &&
	       is_same_address(&check->vip, &target->vip) && a->type == b->type &&
	       a->interval_ms == b->interval_ms && a->timeout_ms == b->timeout_ms &&
	       a->rise == b->rise && a->fall == b->fall &&
	       (a->type == WEIR_CHECK_TCP || is_same_request(a, b));
}

static bool is_sound(const struct weir_health_target *target) {
	const struct weir_config_health_check *check = target->check;

	return check->type == WEIR_CHECK_NONE ||
	       (check->interval_ms > 0 && check->timeout_ms > 0 && check->rise > 0 &&
		       check->fall > 0 && target->port > 0 &&
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
		uint32_t slot = weir_health_slot(targets[i].backend, targets[i].alongside);

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

static int grow(struct weir_health *health, uint32_t slots) {
	struct weir_health_check **checks;

	if (slots <= health->slots) {
		return 0;
	}
	checks = realloc(health->checks, slots * sizeof(*checks));
	if (checks == NULL) {
		return -ENOMEM;
	}
	memset(checks + health->slots, 0, (slots - health->slots) * sizeof(*checks));
	health->checks = checks;
	health->slots = slots;
	return 0;
}

// Whether the target is new, or differs from the current check.
static bool is_fresh(const struct weir_health *health, const struct weir_health_target *target) {
	const struct weir_health_check *check =
		weir_health_find(health, target->backend, target->alongside);

	return target->check->type != WEIR_CHECK_NONE && (check == NULL || !is_same(check, target));
}

struct memory { // for a target; both NULL if nothing is new
	struct weir_health_check *check; // NULL: already allocated
	struct weir_health_params *params;
};

static void release(struct memory *memory, uint32_t n) {
	for (uint32_t i = 0; i < n; i++) {
		free(memory[i].check);
		leave_params(memory[i].params);
	}
	free(memory);
}

// The targets of a service are adjacent: they share `before`, the parameters of the last fresh
// target, if it has the same check. Returns NULL if out of memory.
static struct weir_health_params *share(struct weir_health_params *before,
	const struct weir_config_health_check *before_of,
	const struct weir_config_health_check *check) {
	if (before == NULL || before_of != check) {
		before = calloc(1, sizeof(*before));
		if (before == NULL) {
			return NULL;
		}
		before->check = *check;
	}
	before->users++;
	return before;
}

// Allocate all memory for the fresh targets, so that applying them cannot fail halfway. Returns an
// array in the order of the targets, or NULL.
static struct memory *allocate(
	const struct weir_health *health, const struct weir_health_target *targets, uint32_t n) {
	struct memory *memory = calloc(n + 1, sizeof(*memory));
	const struct weir_config_health_check *before_of[2] = {NULL};
	struct weir_health_params *before[2] = {NULL};

	for (uint32_t i = 0; memory != NULL && i < n; i++) {
		bool alongside = targets[i].alongside;
		bool is_new = weir_health_find(health, targets[i].backend, alongside) == NULL;

		if (!is_fresh(health, &targets[i])) {
			continue;
		}
		before[alongside] =
			share(before[alongside], before_of[alongside], targets[i].check);
		before_of[alongside] = targets[i].check;
		memory[i].params = before[alongside];
		memory[i].check = is_new ? calloc(1, sizeof(*memory[i].check)) : NULL;
		if (before[alongside] == NULL || (is_new && memory[i].check == NULL)) {
			release(memory, n);
			return NULL;
		}
	}
	return memory;
}

// Takes ownership of the memory's parameters. The backend's word is kept, even if the type of the
// check changes.
static void set_target(struct weir_health_check *check, const struct weir_health_target *target,
	struct memory *memory, uint64_t delay_ms) {
	leave_params(check->params);
	check->params = memory->params;
	memory->params = NULL;
	if (!is_same_address(&check->address, &target->address)) {
		check->source = (struct weir_address){0};
	}
	check->port = target->port;
	check->address = target->address;
	check->vip = target->vip;
	check->ended_ns = 0;
	check->duration_ms = 0;
	check->detail[0] = '\0';
	check->streak = 0;
	check->passes = 0;
	check->fails = 0;
	check->spread = false;
	check->due_ms = uv_now(check->health->loop) + delay_ms;
	check->planned_ms = check->due_ms;
	check->phase = WEIR_HEALTH_CHECK_SLEEPING;
	if (check->params->check.type != WEIR_CHECK_AGENT) {
		uv_timer_start(&check->timer, weir_health_on_due, delay_ms, 0);
	}
}

static void add(struct weir_health *health, const struct weir_health_target *target,
	struct memory *memory, uint64_t delay_ms) {
	struct weir_health_check *check = memory->check;

	memory->check = NULL;
	check->health = health;
	check->backend = target->backend;
	check->alongside = target->alongside;
	check->verdict = target->initial;
	check->word = (uint8_t)target->word;
	check->phase = WEIR_HEALTH_CHECK_SLEEPING;
	uv_timer_init(health->loop, &check->timer);
	check->timer.data = check;
	health->checks[weir_health_slot(check->backend, check->alongside)] = check;
	set_target(check, target, memory, delay_ms);
}

// A few fresh targets are checked soon; many are spread over their interval.
static uint64_t first_delay(uint32_t index, uint32_t fresh, uint32_t interval_ms) {
	uint64_t spread = fresh < interval_ms ? fresh : interval_ms;

	return fresh > 0 ? index * spread / fresh : 0;
}

static void apply_fresh(struct weir_health *health, const struct weir_health_target *target,
	struct memory *memory, uint64_t delay_ms) {
	struct weir_health_check *check =
		weir_health_find(health, target->backend, target->alongside);

	if (check != NULL) {
		weir_health_halt(check);
		set_target(check, target, memory, delay_ms);
	} else if (memory->check != NULL) { // always true, see allocate
		add(health, target, memory, delay_ms);
	}
}

static void apply(struct weir_health *health, const struct weir_health_target *targets, uint32_t n,
	struct memory *memory) {
	uint32_t fresh = 0, index = 0;

	for (uint32_t i = 0; i < n; i++) {
		fresh += is_fresh(health, &targets[i]);
	}
	for (uint32_t i = 0; i < n; i++) {
		uint32_t interval_ms = targets[i].check->interval_ms;

		if (is_fresh(health, &targets[i])) {
			apply_fresh(health, &targets[i], &memory[i],
				first_delay(index++, fresh, interval_ms));
		}
		if (targets[i].check->type != WEIR_CHECK_NONE) {
			weir_health_find(health, targets[i].backend, targets[i].alongside)
				->generation = health->generation;
		}
	}
}

// Maximum number of descriptors of all checks. The process's limit may have changed since the last
// call.
static unsigned int descriptors_max(void) {
	const unsigned int most = WEIR_HEALTH_CONCURRENT * WEIR_HEALTH_RELAY_DESCRIPTORS;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur / 2 >= most) {
		return most;
	}
	return limit.rlim_cur < 16 ? 8 : (unsigned int)limit.rlim_cur / 2;
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
	health->descriptors_max = descriptors_max();
	uv_update_time(health->loop);
	apply(health, targets, n, memory);
	for (uint32_t slot = 0; slot < health->slots; slot++) {
		if (health->checks[slot] != NULL &&
			health->checks[slot]->generation != health->generation) {
			check_free(health->checks[slot]);
		}
	}
	release(memory, n);
	return 0;
}

// --- create and free ----------------------------------------------------------------------

int weir_health_create(uv_loop_t *loop, weir_health_fn on_health, weir_health_report_fn on_report,
	void *context, struct weir_health **ret) {
	struct weir_health *health = calloc(1, sizeof(*health));
	int r;

	if (health == NULL) {
		return -ENOMEM;
	}
	r = weir_health_curl_create(loop, &health->curl);
	if (r) {
		free(health);
		return r;
	}
	if (uv_random(NULL, NULL, &health->random, sizeof(health->random), 0, NULL) < 0 ||
		health->random == 0) {
		health->random = uv_hrtime() | 1;
	}
	health->loop = loop;
	health->on_health = on_health;
	health->on_report = on_report;
	health->context = context;
	STAILQ_INIT(&health->queue);
	STAILQ_INIT(&health->failing_queue);
	*ret = health;
	return 0;
}

int weir_health_set_data_path(struct weir_health *health, struct weir_data_path_tunnel *tunnel,
	weir_data_path_lost_fn on_lost) {
	return weir_data_path_create(health->loop, tunnel, on_lost, health->context, &health->path);
}

void weir_health_free(struct weir_health *health) {
	if (health == NULL) {
		return;
	}
	for (uint32_t slot = 0; slot < health->slots; slot++) {
		if (health->checks[slot] != NULL) {
			check_free(health->checks[slot]);
		}
	}
	weir_health_curl_free(health->curl);
	weir_data_path_free(health->path);
	free(health->checks);
	free(health);
}
