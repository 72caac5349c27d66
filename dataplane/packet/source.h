// SPDX-License-Identifier: BSD-3-Clause
//
// Source: the backend of new flows of a service with affinity (affinity.h). A source gets an entry
// when its first flow begins. The entry becomes proven when a TCP connection of the source is
// established, and is renewed when a flow of the source begins, is established, or finishes with
// FIN or RST after it was established.
//
// Threads: part of a pipeline, used only by the worker of the pipeline.
#pragma once

#include "burst.h"
#include "mailbox.h"

static inline bool weir_source_has_affinity(const struct weir_selection_view *view) {
	return (view->table.settings.hash4 & WEIR_HASH_AFFINITY) != 0;
}

// Returns the stored backend of a source if this backend takes new flows, otherwise
// WEIR_BACKEND_NONE. source: hash of the source (weir_burst_choice_hash). *ret_stale: the stored
// backend if this backend takes no new flows and must be replaced; WEIR_BACKEND_NONE = none.
uint16_t weir_source_backend(const struct weir_pipeline *pipeline, uint16_t service,
	uint64_t source, uint16_t *ret_stale);

// Returns the backend for packets of flows that are not in the flow table: the stored backend of
// the source, otherwise the backend of the Maglev fallback, or WEIR_BACKEND_NONE. For services with
// and without affinity. *ret_entry: enum weir_source_entry.
uint16_t weir_source_fallback(const struct weir_pipeline *pipeline,
	const struct weir_selection_view *view, uint16_t service, uint64_t source,
	uint8_t *ret_entry);

// Calls weir_source_fallback for the flow of a packet.
static inline uint16_t weir_source_fallback_of(const struct weir_pipeline *pipeline,
	const struct weir_selection_view *view, uint16_t service, const struct weir_descriptor *d) {
	uint8_t entry;

	return weir_source_fallback(pipeline, view, service,
		weir_burst_choice_hash(pipeline, view, &d->key, d->hash), &entry);
}

// Returns whether a backend is below its limits. If the limit is shared, this worker then holds a
// slot of the limit for the new flow.
bool weir_source_admits(struct weir_pipeline *pipeline, uint16_t service, uint16_t backend);

// Stores the chosen backend of a source. Returns the backend to use, which differs from the chosen
// backend if another worker has stored a backend for the source at the same time, or if there is no
// room for the source. Without room, the result is the backend of the Maglev fallback, so that all
// flows of the source still get the same backend. If this other backend takes no new flows or is at
// its limit, the result is the chosen backend.
uint16_t weir_source_remember(struct weir_pipeline *pipeline,
	const struct weir_selection_view *view, uint16_t service, uint64_t source, uint16_t backend,
	uint16_t stale);

// Renews the entry of a source. Call when a flow of the source begins at the stored backend.
void weir_source_renew(const struct weir_pipeline *pipeline, const struct weir_selection_view *view,
	uint16_t service, uint64_t source, uint16_t backend);

// Stores or renews the entry of the source of a flow. Call when a packet has established a flow of
// a backend, or ended an established flow. Does nothing for services without affinity, or if the
// backend takes no new flows. d: descriptor of the packet.
void weir_source_advanced(
	struct weir_pipeline *pipeline, const struct weir_descriptor *d, uint16_t backend);
