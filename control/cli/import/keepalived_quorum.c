// SPDX-License-Identifier: BSD-3-Clause
//
// The quorum of a virtual server: a sum of weights in keepalived, a number of backends in Weir.
#include <string.h>

#include "keepalived_private.h"

static const struct weir_keepalived_statement *find_last(
	const struct weir_keepalived_statement *block, const char *keyword) {
	const struct weir_keepalived_statement *found = NULL;

	for (const struct weir_keepalived_statement *statement = block->children; statement != NULL;
		statement = statement->next) {
		if (strcmp(statement->word[0], keyword) == 0) {
			found = statement;
		}
	}
	return found;
}

// Returns the sum of the weights of the backends, without backups.
static uint64_t sum_weights(const json_t *backends) {
	const json_t *backend;
	uint64_t sum = 0;
	size_t i;

	json_array_foreach (backends, i, backend) {
		if (!json_is_true(json_object_get(backend, "backup"))) {
			sum += (uint64_t)json_integer_value(json_object_get(backend, "weight"));
		}
	}
	return sum;
}

static uint64_t divide_up(uint64_t sum, uint64_t weight) {
	return (sum + weight - 1) / weight;
}

// In keepalived, a service becomes up when the sum of the weights reaches `up` (quorum +
// hysteresis), and down when it is below `down` (quorum - hysteresis). Returns how many more
// backends than in keepalived are needed to stay up: 0, or 1 because of rounding.
static uint32_t set_numbers(struct weir_import_service *service, uint64_t up, uint64_t down) {
	up = divide_up(up, (uint64_t)service->weight);
	down = divide_up(down, (uint64_t)service->weight);
	service->quorum = (uint32_t)((up + down + 1) / 2);
	service->hysteresis = (uint32_t)(up - service->quorum);
	return (uint32_t)((up + down) % 2);
}

// Notes how a sorry server changes the meaning of the quorum, once per virtual server: at its
// quorum if this is above 1, else at a script for its quorum.
static void note_sorry(struct weir_import *import, const struct weir_keepalived_statement *block,
	const struct weir_keepalived_statement *quorum) {
	const struct weir_keepalived_statement *statement = quorum;
	char what[WEIR_IMPORT_TEXT_BYTES];

	if (statement == NULL) {
		statement = find_last(block, "quorum_down");
	}
	if (statement == NULL) {
		statement = find_last(block, "quorum_up");
	}
	if (statement == NULL || find_last(block, "sorry_server") == NULL) {
		return;
	}
	weir_import_note(import, &statement->place, WEIR_IMPORT_DIFFERS,
		weir_keepalived_text(statement, what, sizeof(what)),
		"the sorry server becomes a backup: it gets flows when no server is healthy "
		"(earlier with backup_below_percent), and counts towards the quorum while it gets "
		"flows; in keepalived it never counts, so quorum_down runs although it serves");
}

void weir_keepalived_quorum(struct weir_import *import,
	const struct weir_keepalived_statement *block, struct weir_import_service *service) {
	const struct weir_keepalived_statement *statement = find_last(block, "quorum");
	const struct weir_keepalived_statement *width = find_last(block, "hysteresis");
	const uint64_t sum = sum_weights(service->backends);
	char what[WEIR_IMPORT_TEXT_BYTES];
	uint64_t quorum = 1, hysteresis = 0;

	if (sum == 0 || (statement != NULL && !weir_keepalived_number(
						      import, statement, 1, UINT32_MAX, &quorum))) {
		return;
	}
	note_sorry(import, block, quorum > 1 ? statement : NULL);
	if (quorum == 1) {
		return;
	}
	if (width != NULL) {
		(void)weir_keepalived_number(import, width, 0, UINT32_MAX, &hysteresis);
	}
	weir_keepalived_text(statement, what, sizeof(what));
	if (service->weights_differ) {
		weir_import_note(import, &statement->place, WEIR_IMPORT_LEFT_OUT, what,
			"a quorum of Weir is a number of backends, not a sum of weights: set "
			"\"quorum\" and \"hysteresis\" of the service");
		return;
	}
	// keepalived reduces both in this way, too
	quorum = quorum < sum ? quorum : sum;
	hysteresis = hysteresis < quorum ? hysteresis : quorum - 1;
	if (set_numbers(service, quorum + hysteresis, quorum - hysteresis) > 0) {
		weir_import_note(import, &statement->place, WEIR_IMPORT_DIFFERS, what,
			"the service is down below %u servers, in keepalived below %u",
			service->quorum - service->hysteresis,
			service->quorum - service->hysteresis - 1);
	}
}
