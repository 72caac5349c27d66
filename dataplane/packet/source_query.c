// SPDX-License-Identifier: BSD-3-Clause
#include "source_query.h"

#include "affinity.h"
#include "source.h"

_Static_assert(WEIR_SOURCE_LINE == WEIR_AFFINITY_WAYS, "a line of the table must be one bucket");
_Static_assert(WEIR_SOURCE_PAGE >= WEIR_AFFINITY_WAYS,
	"a page must have room for the entries of a bucket, so that each request makes progress");

// Returns whether a service hashes only the address of the client to choose a backend.
static bool is_by_source(const struct weir_policy_settings *settings) {
	return settings->hash4 != 0 && (settings->hash4 & WEIR_HASH_DESTINATION) == 0;
}

// Reads the entry of the source. Removes the entry if the message requests this, and if its backend
// is `only` or `only` is WEIR_BACKEND_NONE.
static void take_entry(
	struct weir_pipeline *pipeline, struct weir_message *message, uint16_t only) {
	const uint64_t hash = weir_affinity_hash(
		pipeline->affinity, message->source.service, message->source.hash);
	struct weir_affinity_entry entry;
	const bool found =
		message->kind == WEIR_MESSAGE_SOURCE_DELETE
			? weir_affinity_remove(
				  pipeline->affinity, hash, only, pipeline->now_ns, &entry)
			: weir_affinity_read(pipeline->affinity, hash, pipeline->now_ns, &entry);

	if (found && entry.backend < pipeline->max_backends) {
		message->source.found = 1;
		message->source.backend = entry.backend;
		message->source.proven = entry.proven;
		message->source.left_ms = entry.left_ms;
	}
}

void weir_source_look_up(
	struct weir_pipeline *pipeline, struct weir_message *message, uint64_t now_ns) {
	__typeof__(message->source) *source = &message->source;
	struct weir_flow_key key = {.family = source->family};
	const uint16_t only = source->backend;
	const struct weir_selection_view *view;

	pipeline->now_ns = now_ns;
	memcpy(key.source, source->address, key.family == 4 ? 4 : 16);
	*source = (__typeof__(*source)){.family = source->family,
		.service = source->service,
		.answered = 1,
		.backend = WEIR_BACKEND_NONE,
		.chosen = WEIR_BACKEND_NONE};
	memcpy(source->address, key.source, sizeof(source->address));
	weir_reader_update(&pipeline->reader);
	if (source->service >= pipeline->max_services) {
		return;
	}
	view = weir_reader_selection(&pipeline->reader, source->service);
	if (!is_by_source(&view->table.settings)) {
		return;
	}
	source->hash = weir_burst_fields_hash(pipeline, &view->table.settings, &key);
	source->chosen =
		weir_source_fallback(pipeline, view, source->service, source->hash, &source->entry);
	if (view->table.slot_count > 0) {
		source->slot = weir_selection_slot(source->hash, view->table.slot_count);
	}
	if (pipeline->affinity != NULL && weir_source_has_affinity(view)) {
		take_entry(pipeline, message, only);
	}
}

// --- walks ----------------------------------------------------------------------------------

// Writes the entries of a bucket to the page of the request.
static void list_bucket(
	struct weir_pipeline *pipeline, struct weir_message *message, uint32_t bucket) {
	uint16_t *page = pipeline->segment->flow_pages[pipeline->worker]
				 .source[message->walk.page % WEIR_FLOW_PAGES];
	struct weir_affinity_entry entries[WEIR_AFFINITY_WAYS];
	const uint32_t n =
		weir_affinity_read_bucket(pipeline->affinity, bucket, pipeline->now_ns, entries);

	for (uint32_t i = 0; i < n; i++) {
		if (entries[i].proven) {
			page[message->walk.proven++] = entries[i].backend;
		} else {
			page[WEIR_SOURCE_PAGE - ++message->walk.others] = entries[i].backend;
		}
	}
}

struct match {
	const struct weir_pipeline *pipeline;
	uint16_t backend, service;
};

static bool matches(const void *context, uint16_t backend) {
	const struct match *match = context;

	return (match->backend == WEIR_BACKEND_NONE || match->backend == backend) &&
	       (match->service == WEIR_SERVICE_NONE ||
		       (backend < match->pipeline->max_backends &&
			       match->pipeline->owner[backend] == match->service));
}

static uint32_t clear_bucket(
	struct weir_pipeline *pipeline, const struct weir_message *message, uint32_t bucket) {
	const struct match match = {pipeline, message->walk.backend, message->walk.service};

	return weir_affinity_clear_bucket(
		pipeline->affinity, bucket, pipeline->now_ns, matches, &match);
}

void weir_source_walk(
	struct weir_pipeline *pipeline, struct weir_message *message, uint64_t now_ns) {
	const uint32_t lines = pipeline->affinity != NULL ? pipeline->affinity->buckets : 0;
	const uint32_t last = RTE_MIN(message->walk.last, lines);
	uint32_t line = RTE_MIN(message->walk.first, last);
	const uint32_t end = last - line > WEIR_LIST_LINES ? line + WEIR_LIST_LINES : last;

	pipeline->now_ns = now_ns;
	message->walk.answered = 1;
	message->walk.proven = 0;
	message->walk.others = 0;
	message->walk.lines = lines;
	for (; line < end; line++) {
		if (message->walk.remove) {
			message->walk.others += clear_bucket(pipeline, message, line);
		} else if (message->walk.proven + message->walk.others + WEIR_AFFINITY_WAYS <=
			   WEIR_SOURCE_PAGE) {
			list_bucket(pipeline, message, line);
		} else {
			break;
		}
	}
	message->walk.next = line;
}
