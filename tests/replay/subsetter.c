// SPDX-License-Identifier: BSD-3-Clause
#include "subsetter.h"

#include <stdlib.h>
#include <string.h>

struct subsetter *subsetter_create(
	const struct weir_subset_params *params, bool rendezvous, uint32_t n) {
	struct subsetter *subsetter = replay_alloc(sizeof(*subsetter));

	subsetter->params = *params;
	subsetter->rendezvous = rendezvous;
	subsetter->n = n;
	subsetter->subset = replay_alloc(n * sizeof(uint32_t));
	subsetter->counts = replay_alloc(n * sizeof(uint32_t));
	subsetter->scratch = replay_alloc(weir_subset_scratch_count(n) * sizeof(uint32_t));
	subsetter->scores = replay_alloc(n * sizeof(subsetter->scores[0]));
	return subsetter;
}

void subsetter_free(struct subsetter *subsetter) {
	if (subsetter == NULL) {
		return;
	}
	free(subsetter->scores);
	free(subsetter->scratch);
	free(subsetter->counts);
	free(subsetter->subset);
	free(subsetter);
}

uint32_t subsetter_choose(struct subsetter *subsetter, uint32_t client) {
	uint32_t size = subsetter->params.size;

	subsetter->params.client = client;
	if (!subsetter->rendezvous) {
		return weir_subset_choose(&subsetter->params, NULL, subsetter->n, subsetter->subset,
			subsetter->scratch);
	}
	size = size < subsetter->n ? size : subsetter->n;
	weir_subset_rendezvous(client, subsetter->params.salt, subsetter->n, size,
		subsetter->subset, subsetter->scores);
	return size;
}

void subsetter_count(struct subsetter *subsetter, uint32_t clients) {
	memset(subsetter->counts, 0, subsetter->n * sizeof(uint32_t));
	for (uint32_t client = 0; client < clients; client++) {
		uint32_t chosen = subsetter_choose(subsetter, client);

		for (uint32_t i = 0; i < chosen; i++) {
			subsetter->counts[subsetter->subset[i]]++;
		}
	}
}

uint32_t subsetter_least(const struct subsetter *subsetter) {
	uint32_t least = subsetter->n > 0 ? subsetter->counts[0] : 0;

	for (uint32_t i = 1; i < subsetter->n; i++) {
		least = subsetter->counts[i] < least ? subsetter->counts[i] : least;
	}
	return least;
}

uint32_t subsetter_most(const struct subsetter *subsetter) {
	uint32_t most = 0;

	for (uint32_t i = 0; i < subsetter->n; i++) {
		most = subsetter->counts[i] > most ? subsetter->counts[i] : most;
	}
	return most;
}

bool subsetter_read_count(
	struct replay *replay, const json_t *object, const char *key, uint32_t *ret_count) {
	const json_t *value = json_object_get(object, key);

	if (!json_is_integer(value) || json_integer_value(value) < 0 ||
		json_integer_value(value) > SUBSETTER_MAX) {
		replay_fail(replay, "\"%s\" is no whole number of 0 to %u", key, SUBSETTER_MAX);
		return false;
	}
	*ret_count = (uint32_t)json_integer_value(value);
	return true;
}

bool subsetter_read_salt(struct replay *replay, const json_t *object, uint32_t *ret_salt) {
	const json_t *value = json_object_get(object, "salt");

	*ret_salt = 0;
	if (value == NULL) {
		return true;
	}
	if (!json_is_integer(value) || json_integer_value(value) < 0 ||
		json_integer_value(value) > UINT32_MAX) {
		replay_fail(replay, "\"salt\" is no number of 32 bits");
		return false;
	}
	*ret_salt = (uint32_t)json_integer_value(value);
	return true;
}

void subsetter_check_min_max(
	struct replay *replay, const struct subsetter *subsetter, const json_t *min_max) {
	uint32_t got[2] = {subsetter_least(subsetter), subsetter_most(subsetter)};

	subsetter_check_list(replay, "least and most", min_max, got, 2);
}

void subsetter_check_list(struct replay *replay, const char *what, const json_t *list,
	const uint32_t *numbers, uint32_t n) {
	const json_t *value;
	size_t i;

	if (!json_is_array(list)) {
		replay_fail(replay, "%s: no list", what);
		return;
	}
	replay_check(replay, what, -1, (long long)json_array_size(list), n);
	json_array_foreach (list, i, value) {
		if (!json_is_integer(value)) {
			replay_fail(replay, "%s[%zu] is no whole number", what, i);
		} else if (i < n) {
			replay_check(replay, what, (long)i, json_integer_value(value), numbers[i]);
		}
	}
}
