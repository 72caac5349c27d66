// SPDX-License-Identifier: BSD-3-Clause
#include "daemon_lab_affinity.h"

#include <string.h>

#define LEFT_MS 250000

int lab_affinity_find(
	const struct lab_affinity *affinity, uint16_t service, const uint8_t client[4]) {
	for (uint32_t i = 0; i < affinity->count; i++) {
		if (affinity->entry[i].service == service &&
			memcmp(affinity->entry[i].client, client, 4) == 0) {
			return (int)i;
		}
	}
	return -1;
}

// Removes an entry. Its place stays, because a walk may be on its line.
static void forget(struct lab_affinity *affinity, uint32_t i) {
	affinity->entry[i].service = WEIR_SERVICE_NONE;
	affinity->entry[i].backend = WEIR_BACKEND_NONE;
}

void lab_affinity_look_up(
	struct lab_affinity *affinity, struct weir_message *message, bool usable, uint16_t chosen) {
	const int i = lab_affinity_find(affinity, message->source.service, message->source.address);
	const bool deletes = message->kind == WEIR_MESSAGE_SOURCE_DELETE;
	const uint16_t only = deletes ? message->source.backend : WEIR_BACKEND_NONE;

	message->source.answered = 1;
	message->source.found = 0;
	message->source.backend = WEIR_BACKEND_NONE;
	message->source.chosen = chosen;
	message->source.entry =
		affinity->entries == 0 ? WEIR_SOURCE_ENTRY_NO_TABLE : WEIR_SOURCE_ENTRY_NONE;
	if (i < 0 || (only != WEIR_BACKEND_NONE && only != affinity->entry[i].backend)) {
		return;
	}
	message->source.found = 1;
	message->source.backend = affinity->entry[i].backend;
	message->source.proven = affinity->entry[i].proven;
	message->source.left_ms = LEFT_MS;
	message->source.entry = usable ? WEIR_SOURCE_ENTRY_KNOWN : WEIR_SOURCE_ENTRY_STALE;
	if (usable) {
		message->source.chosen = affinity->entry[i].backend;
	}
	if (deletes) {
		forget(affinity, (uint32_t)i);
	}
}

// Lists or removes the entries of a line.
static void take_line(struct lab_affinity *affinity, uint16_t page[WEIR_SOURCE_PAGE],
	struct weir_message *message, uint32_t line) {
	for (uint32_t way = WEIR_SOURCE_LINE; way > 0; way--) {
		const uint32_t i = line * WEIR_SOURCE_LINE + way - 1;

		if (i >= affinity->count) {
			continue;
		}
		if (!message->walk.remove && affinity->entry[i].proven) {
			page[message->walk.proven++] = affinity->entry[i].backend;
		} else if (!message->walk.remove) {
			page[WEIR_SOURCE_PAGE - ++message->walk.others] =
				affinity->entry[i].backend;
		} else if (affinity->entry[i].service == message->walk.service &&
			   (message->walk.backend == WEIR_BACKEND_NONE ||
				   affinity->entry[i].backend == message->walk.backend)) {
			message->walk.others++;
			forget(affinity, i);
		}
	}
}

void lab_affinity_walk(struct lab_affinity *affinity, struct weir_segment *segment, uint32_t worker,
	struct weir_message *message) {
	uint16_t *page = segment->flow_pages[worker].source[message->walk.page];
	const uint32_t lines = affinity->entries / WEIR_SOURCE_LINE;
	const uint32_t last = message->walk.last < lines ? message->walk.last : lines;
	uint32_t line = message->walk.first < last ? message->walk.first : last;

	message->walk.answered = 1;
	message->walk.proven = message->walk.others = 0;
	message->walk.lines = lines;
	while (line < last && (message->walk.remove || message->walk.proven + message->walk.others +
								       WEIR_SOURCE_LINE <=
							       WEIR_SOURCE_PAGE)) {
		take_line(affinity, page, message, line++);
	}
	message->walk.next = line;
}
