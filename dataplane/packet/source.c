// SPDX-License-Identifier: BSD-3-Clause
#include "source.h"

#include "affinity.h"

_Static_assert(WEIR_AFFINITY_NONE == WEIR_BACKEND_NONE, "the same value for no backend");

static bool takes_flows(const struct weir_pipeline *pipeline, uint16_t service, uint16_t backend) {
	const struct weir_row_head *head = &pipeline->outers[backend].head;
	const uint32_t wanted = WEIR_BACKEND_PRESENT | WEIR_BACKEND_RESOLVED;

	return head->service == service && (head->flags & (wanted | WEIR_BACKEND_CLOSED)) == wanted;
}

uint16_t weir_source_backend(const struct weir_pipeline *pipeline,
	const struct weir_selection_view *view, uint16_t service, uint64_t source,
	uint16_t *ret_stale) {
	uint16_t backend;

	(void)view;
	*ret_stale = WEIR_BACKEND_NONE;
	if (pipeline->affinity == NULL) {
		return WEIR_BACKEND_NONE;
	}
	backend = weir_affinity_find(pipeline->affinity,
		weir_affinity_hash(pipeline->affinity, service, source), pipeline->now_ns);
	if (backend == WEIR_BACKEND_NONE || backend >= pipeline->max_backends) {
		return WEIR_BACKEND_NONE;
	}
	if (!takes_flows(pipeline, service, backend)) {
		*ret_stale = backend;
		return WEIR_BACKEND_NONE;
	}
	return backend;
}

uint16_t weir_source_remember(struct weir_pipeline *pipeline,
	const struct weir_selection_view *view, uint16_t service, uint64_t source, uint16_t backend,
	uint16_t stale) {
	uint16_t entered = WEIR_BACKEND_NONE;

	if (pipeline->affinity != NULL) {
		entered = weir_affinity_enter(pipeline->affinity,
			weir_affinity_hash(pipeline->affinity, service, source), backend, stale,
			false, view->table.affinity_ms, pipeline->now_ns);
	}
	if (entered == WEIR_BACKEND_NONE) {
		pipeline->pending.affinity_full++;
		entered = weir_burst_fallback(pipeline, view, source);
	}
	return entered < pipeline->max_backends && takes_flows(pipeline, service, entered)
		       ? entered
		       : backend;
}

void weir_source_renew(struct weir_pipeline *pipeline, const struct weir_descriptor *d,
	uint16_t backend, bool proven) {
	const uint16_t service = pipeline->owner[backend];
	const struct weir_selection_view *view = weir_reader_selection(&pipeline->reader, service);

	if (likely(!weir_source_has_affinity(view)) || pipeline->affinity == NULL ||
		!takes_flows(pipeline, service, backend)) {
		return;
	}
	(void)weir_affinity_enter(pipeline->affinity,
		weir_affinity_hash(pipeline->affinity, service,
			weir_burst_choice_hash(pipeline, view, &d->key, d->hash)),
		backend, WEIR_BACKEND_NONE, proven, view->table.affinity_ms, pipeline->now_ns);
}
