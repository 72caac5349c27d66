// SPDX-License-Identifier: BSD-3-Clause
#include "capture.h"

#include <errno.h>
#include <string.h>

#define TERMS_WORDS (sizeof(struct weir_capture_terms) / 8)

_Static_assert((WEIR_CAPTURE_RING_BYTES & (WEIR_CAPTURE_RING_BYTES - 1)) == 0,
	"the ring size must be a power of two");
_Static_assert(sizeof(struct weir_capture_terms) % 8 == 0, "the terms are copied as 64-bit words");
_Static_assert(WEIR_DROP_REASON_COUNT <= 64, "one bit per reason must fit in 64 bits");

union terms {
	struct weir_capture_terms terms;
	uint64_t words[TERMS_WORDS];
};

static uint32_t record_bytes(uint32_t saved) {
	return ((uint32_t)sizeof(struct weir_capture_record) + saved + 7) & ~7u;
}

// --- orders, control ----------------------------------------------------------------------

// Writes the terms under a sequence lock. A worker that reads the terms at the same time finds a
// changed or an odd version, and discards the terms.
static void write_terms(struct weir_capture_control *control, const union terms *from) {
	uint64_t version = __atomic_load_n(&control->version, __ATOMIC_RELAXED) | 1;
	uint64_t *to = (uint64_t *)(void *)&control->terms;

	__atomic_store_n(&control->version, version, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	for (unsigned int i = 0; i < TERMS_WORDS; i++) {
		__atomic_store_n(&to[i], from->words[i], __ATOMIC_RELAXED);
	}
	__atomic_store_n(&control->version, version + 1, __ATOMIC_RELEASE);
}

uint64_t weir_capture_order(struct weir_segment *segment, const struct weir_capture_terms *terms,
	uint64_t deadline_ns) {
	struct weir_capture_control *control = segment->capture_control;
	union terms copy = {.terms = *terms};

	weir_capture_withdraw(segment);
	copy.terms.number = __atomic_load_n(&control->terms.number, __ATOMIC_RELAXED) + 1;
	copy.terms.number += copy.terms.number == 0;
	for (uint32_t worker = 0; worker < segment->workers; worker++) {
		__atomic_store_n(&control->read[worker].head,
			__atomic_load_n(&segment->capture_rings[worker].tail, __ATOMIC_ACQUIRE),
			__ATOMIC_RELEASE);
	}
	write_terms(control, &copy);
	weir_capture_extend(segment, deadline_ns);
	__atomic_store_n(&segment->news->capture, copy.terms.number, __ATOMIC_RELEASE);
	return copy.terms.number;
}

void weir_capture_extend(struct weir_segment *segment, uint64_t deadline_ns) {
	__atomic_store_n(&segment->capture_control->deadline_ns, deadline_ns, __ATOMIC_RELAXED);
}

void weir_capture_withdraw(struct weir_segment *segment) {
	__atomic_store_n(&segment->news->capture, 0, __ATOMIC_RELEASE);
}

// --- orders, workers ----------------------------------------------------------------------

static bool is_sound(const struct weir_capture_terms *terms) {
	return terms->snap_bytes >= WEIR_CAPTURE_SNAP_LEAST &&
	       terms->snap_bytes <= WEIR_CAPTURE_SNAP_MOST &&
	       terms->interval_ns >= WEIR_CAPTURE_SECOND_NS / WEIR_CAPTURE_RATE_MOST &&
	       terms->interval_ns <= WEIR_CAPTURE_SECOND_NS &&
	       (terms->client_family == 0 || terms->client_family == 4 ||
		       terms->client_family == 6) &&
	       terms->client_bits <= (terms->client_family == 4 ? 32 : 128) &&
	       (terms->destination_family == 0 || terms->destination_family == 4 ||
		       terms->destination_family == 6);
}

int weir_capture_read(
	const struct weir_segment *segment, uint64_t number, struct weir_capture_terms *ret) {
	const struct weir_capture_control *control = segment->capture_control;
	const uint64_t *from = (const uint64_t *)(const void *)&control->terms;
	uint64_t version = __atomic_load_n(&control->version, __ATOMIC_ACQUIRE);
	union terms copy;

	for (unsigned int i = 0; i < TERMS_WORDS; i++) {
		copy.words[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
	}
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (version % 2 != 0 || copy.terms.number != number ||
		__atomic_load_n(&control->version, __ATOMIC_RELAXED) != version) {
		return -EAGAIN;
	}
	if (!is_sound(&copy.terms)) {
		return -EINVAL;
	}
	*ret = copy.terms;
	return 0;
}

// --- rings --------------------------------------------------------------------------------

static void copy_in(struct weir_capture_ring *ring, uint64_t at, const void *from, uint32_t bytes) {
	uint32_t offset = (uint32_t)(at % WEIR_CAPTURE_RING_BYTES);
	uint32_t whole = WEIR_CAPTURE_RING_BYTES - offset;
	uint32_t first = bytes < whole ? bytes : whole;

	memcpy(ring->data + offset, from, first);
	memcpy(ring->data, (const uint8_t *)from + first, bytes - first);
}

static void copy_out(const struct weir_capture_ring *ring, uint64_t at, void *to, uint32_t bytes) {
	uint32_t offset = (uint32_t)(at % WEIR_CAPTURE_RING_BYTES);
	uint32_t whole = WEIR_CAPTURE_RING_BYTES - offset;
	uint32_t first = bytes < whole ? bytes : whole;

	memcpy(to, ring->data + offset, first);
	memcpy((uint8_t *)to + first, ring->data, bytes - first);
}

void weir_capture_begin(struct weir_capture_ring *ring, uint64_t number) {
	__atomic_store_n(&ring->number, 0, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	__atomic_store_n(&ring->lost, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&ring->limited, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&ring->number, number, __ATOMIC_RELEASE);
}

// Writes a record, unless the ring is full. Control writes the read position, and workers do not
// trust it: if the distance to the write position is above the size of the ring, the ring is
// treated as full.
bool weir_capture_put(struct weir_capture_ring *ring, const struct weir_ring_position *read,
	struct weir_capture_record *record, const uint8_t *data) {
	uint64_t tail = __atomic_load_n(&ring->tail, __ATOMIC_RELAXED);
	uint64_t used = tail - __atomic_load_n(&read->head, __ATOMIC_ACQUIRE);

	record->bytes = record_bytes(record->saved);
	if (used > WEIR_CAPTURE_RING_BYTES - record->bytes) {
		return false;
	}
	copy_in(ring, tail, record, sizeof(*record));
	copy_in(ring, tail + sizeof(*record), data, record->saved);
	__atomic_store_n(&ring->tail, tail + record->bytes, __ATOMIC_RELEASE);
	return true;
}

static bool has_known_names(
	const struct weir_segment *segment, const struct weir_capture_record *record) {
	return (record->port < segment->ports || record->port == WEIR_CAPTURE_NONE) &&
	       (record->out_port < segment->ports || record->out_port == WEIR_CAPTURE_NONE) &&
	       record->action < WEIR_ACTION_COUNT &&
	       (record->reason < WEIR_DROP_REASON_COUNT || record->reason == WEIR_CAPTURE_NONE) &&
	       record->choice < WEIR_CHOICE_COUNT &&
	       (record->kind < WEIR_PACKET_KIND_COUNT || record->kind == WEIR_CAPTURE_NONE) &&
	       (record->event < WEIR_FLOW_EVENT_COUNT || record->event == WEIR_CAPTURE_NONE) &&
	       (record->path <= WEIR_CAPTURE_PATH_SLOW || record->path == WEIR_CAPTURE_NONE) &&
	       (record->flow_state < WEIR_FLOW_STATE_COUNT ||
		       record->flow_state == WEIR_CAPTURE_NONE);
}

bool weir_capture_take(const struct weir_segment *segment, uint32_t worker, uint64_t number,
	struct weir_capture_packet *ret) {
	const struct weir_capture_ring *ring = &segment->capture_rings[worker];
	struct weir_ring_position *read = &segment->capture_control->read[worker];
	uint64_t tail = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
	uint64_t head = __atomic_load_n(&read->head, __ATOMIC_RELAXED);
	bool found = false;

	// The loop ends after at most one pass over the ring, because each iteration advances by
	// one record.
	while (!found && head != tail) {
		uint64_t used = tail - head;
		struct weir_capture_record *record = &ret->record;

		if (used < sizeof(*record) || used > WEIR_CAPTURE_RING_BYTES) {
			head = tail;
			break;
		}
		copy_out(ring, head, record, sizeof(*record));
		if (record->saved > WEIR_CAPTURE_SNAP_MOST ||
			record->bytes != record_bytes(record->saved) || record->bytes > used ||
			!has_known_names(segment, record)) {
			head = tail;
			break;
		}
		copy_out(ring, head + sizeof(*record), ret->data, record->saved);
		head += record->bytes;
		found = record->number == number;
	}
	__atomic_store_n(&read->head, head, __ATOMIC_RELEASE);
	return found;
}

void weir_capture_missed(const struct weir_segment *segment, uint32_t worker, uint64_t number,
	uint64_t *ret_lost, uint64_t *ret_limited) {
	const struct weir_capture_ring *ring = &segment->capture_rings[worker];
	bool ours = __atomic_load_n(&ring->number, __ATOMIC_ACQUIRE) == number;

	*ret_lost = ours ? __atomic_load_n(&ring->lost, __ATOMIC_RELAXED) : 0;
	*ret_limited = ours ? __atomic_load_n(&ring->limited, __ATOMIC_RELAXED) : 0;
}
