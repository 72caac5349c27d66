// SPDX-License-Identifier: BSD-3-Clause
#include "source.h"

#include "affinity.h"

_Static_assert(WEIR_AFFINITY_NONE == WEIR_BACKEND_NONE,
	"both tables must use the same value for no backend");

// Returns whether a backend takes new flows of a service. Ignores a missing next hop: control
// closes the backend if another backend of the service has a next hop.
static bool takes_flows(const struct weir_pipeline *pipeline, uint16_t service, uint16_t backend) {
	const struct weir_row_head *head = &pipeline->outers[backend].head;
	const uint32_t barred = WEIR_BACKEND_CLOSED | WEIR_BACKEND_OUTSIDE;

	return head->service == service &&
	       (head->flags & (WEIR_BACKEND_PRESENT | barred)) == WEIR_BACKEND_PRESENT;
}

static uint16_t enter(const struct weir_pipeline *pipeline, const struct weir_selection_view *view,
	uint16_t service, uint64_t source, uint16_t backend, uint16_t stale, bool proven) {
	return pipeline->affinity == NULL
		       ? WEIR_BACKEND_NONE
		       : weir_affinity_enter(pipeline->affinity,
				 weir_affinity_hash(pipeline->affinity, service, source), backend,
				 stale, proven, view->table.affinity_ms, pipeline->now_ns);
}

uint16_t weir_source_backend(const struct weir_pipeline *pipeline, uint16_t service,
	uint64_t source, uint16_t *ret_stale) {
	uint16_t backend;

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

uint16_t weir_source_fallback(const struct weir_pipeline *pipeline,
	const struct weir_selection_view *view, uint16_t service, uint64_t source,
	uint8_t *ret_entry) {
	uint16_t backend = WEIR_BACKEND_NONE, stale = WEIR_BACKEND_NONE;

	if (weir_source_has_affinity(view)) {
		backend = weir_source_backend(pipeline, service, source, &stale);
	}
	*ret_entry = backend != WEIR_BACKEND_NONE ? WEIR_SOURCE_ENTRY_KNOWN
		     : stale != WEIR_BACKEND_NONE ? WEIR_SOURCE_ENTRY_STALE
		     : weir_source_has_affinity(view) && pipeline->affinity == NULL
			     ? WEIR_SOURCE_ENTRY_NO_TABLE
			     : WEIR_SOURCE_ENTRY_NONE;
	return backend != WEIR_BACKEND_NONE ? backend : weir_burst_fallback(pipeline, view, source);
}

bool weir_source_admits(struct weir_pipeline *pipeline, uint16_t service, uint16_t backend) {
	struct weir_policy_client *client = &pipeline->clients[service];

	return weir_policy_below_limit(client, &pipeline->policy.backends[backend]) &&
	       weir_policy_admits(&pipeline->policy, client, backend);
}

uint16_t weir_source_remember(struct weir_pipeline *pipeline,
	const struct weir_selection_view *view, uint16_t service, uint64_t source, uint16_t backend,
	uint16_t stale) {
	uint16_t entered = enter(pipeline, view, service, source, backend, stale, false);

	if (entered == WEIR_BACKEND_NONE) {
		pipeline->pending.affinity_full += pipeline->affinity != NULL;
		entered = weir_burst_fallback(pipeline, view, source);
	}
	return entered != backend && entered < pipeline->max_backends &&
			       takes_flows(pipeline, service, entered) &&
			       weir_source_admits(pipeline, service, entered)
		       ? entered
		       : backend;
}

void weir_source_renew(const struct weir_pipeline *pipeline, const struct weir_selection_view *view,
	uint16_t service, uint64_t source, uint16_t backend) {
	(void)enter(pipeline, view, service, source, backend, WEIR_BACKEND_NONE, false);
}

void weir_source_advanced(
	struct weir_pipeline *pipeline, const struct weir_descriptor *d, uint16_t backend) {
	const uint16_t service = pipeline->owner[backend];
	const struct weir_selection_view *view = weir_reader_selection(&pipeline->reader, service);

	if (unlikely(weir_source_has_affinity(view)) && takes_flows(pipeline, service, backend)) {
		(void)enter(pipeline, view, service,
			weir_burst_choice_hash(pipeline, view, &d->key, d->hash), backend,
			WEIR_BACKEND_NONE, d->key.protocol == WEIR_PROTOCOL_TCP);
	}
}
