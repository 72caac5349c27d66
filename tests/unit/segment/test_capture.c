// SPDX-License-Identifier: BSD-3-Clause
//
// Capture: control writes orders, and workers write records to rings. The rings wrap several times.
// In some tests the process on the other side is hostile.
#include <errno.h>
#include <pthread.h>

#include "capture.h"
#include "segment_lab.h"

#define HEAP_BYTES (256u << 10)
#define NOW 1000000000ull
#define SPAN ((uint32_t)sizeof(struct weir_capture_record))

struct own {
	struct weir_segment *dataplane, *control;
};

static struct own make(void) {
	struct own own = {.dataplane = fixture_segment(HEAP_BYTES)};

	assert_int_equal(weir_segment_attach_own(own.dataplane, &own.control), 0);
	return own;
}

static void unmake(struct own *own) {
	weir_segment_free(own->control);
	weir_segment_free(own->dataplane);
}

static struct weir_capture_terms any(void) {
	return (struct weir_capture_terms){.interval_ns = 100000,
		.snap_bytes = 128,
		.service = WEIR_SERVICE_NONE,
		.backend = WEIR_BACKEND_NONE};
}

static struct weir_capture_record record(uint64_t number, uint16_t saved) {
	return (struct weir_capture_record){.number = number,
		.length = 1500,
		.saved = saved,
		.reason = WEIR_CAPTURE_NONE,
		.out_port = WEIR_CAPTURE_NONE,
		.flow_state = WEIR_CAPTURE_NONE};
}

// --- orders -------------------------------------------------------------------------------

TEST(an_order_is_read_completely_and_ends) {
	struct own own = make();
	struct weir_capture_terms terms = any(), got;
	uint64_t first, second;

	assert_int_equal(weir_capture_wanted(own.dataplane), 0);
	terms.client_family = 6;
	terms.client_bits = 128;
	memset(terms.client, 0xab, sizeof(terms.client));
	first = weir_capture_order(own.control, &terms, NOW);
	assert_int_equal(weir_capture_wanted(own.dataplane), first);
	assert_int_equal(weir_capture_read(own.dataplane, first, &got), 0);
	terms.number = first;
	assert_memory_equal(&got, &terms, sizeof(terms));
	assert_true(weir_capture_is_due(own.dataplane, NOW));
	assert_false(weir_capture_is_due(own.dataplane, NOW + 1));
	weir_capture_extend(own.control, NOW + 1);
	assert_true(weir_capture_is_due(own.dataplane, NOW + 1));
	second = weir_capture_order(own.control, &terms, NOW);
	assert_int_not_equal(second, first);
	assert_int_equal(weir_capture_read(own.dataplane, first, &got), -EAGAIN);
	assert_int_equal(weir_capture_read(own.dataplane, second, &got), 0);
	weir_capture_withdraw(own.control);
	assert_int_equal(weir_capture_wanted(own.dataplane), 0);
	unmake(&own);
}

// A control process exits between two stores of an order, and the next process writes the next
// order.
TEST(a_half_written_order_is_ignored) {
	struct own own = make();
	struct weir_capture_terms terms = any(), got;
	uint64_t number = weir_capture_order(own.control, &terms, NOW);

	own.control->capture_control->version |= 1;
	assert_int_equal(weir_capture_read(own.dataplane, number, &got), -EAGAIN);
	number = weir_capture_order(own.control, &terms, NOW);
	assert_int_equal(own.control->capture_control->version % 2, 0);
	assert_int_equal(weir_capture_read(own.dataplane, number, &got), 0);
	own.control->capture_control->terms.number = UINT64_MAX; // number 0 means no order
	assert_int_equal(weir_capture_order(own.control, &terms, NOW), 1);
	unmake(&own);
}

TEST(terms_out_of_range_are_refused) {
	struct own own = make();
	const struct {
		size_t at, bytes;
		uint64_t value;
	} wrong[] = {
#define WRONG(field, number) \
	{offsetof(struct weir_capture_terms, field), \
		sizeof(((struct weir_capture_terms *)NULL)->field), number}
		WRONG(snap_bytes, 0),
		WRONG(snap_bytes, WEIR_CAPTURE_SNAP_LEAST - 1),
		WRONG(snap_bytes, WEIR_CAPTURE_SNAP_MOST + 1),
		WRONG(snap_bytes, UINT32_MAX),
		WRONG(interval_ns, 0),
		WRONG(interval_ns, 999),
		WRONG(interval_ns, WEIR_CAPTURE_SECOND_NS + 1),
		WRONG(interval_ns, UINT64_MAX),
		WRONG(client_family, 5),
		WRONG(client_bits, 129),
		WRONG(destination_family, 255),
#undef WRONG
	};
	struct weir_capture_terms terms, got;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		terms = any();
		memcpy((uint8_t *)&terms + wrong[i].at, &wrong[i].value, wrong[i].bytes);
		if (weir_capture_read(own.dataplane, weir_capture_order(own.control, &terms, NOW),
			    &got) != -EINVAL) {
			fail_msg("number %zu was taken", i);
		}
	}
	terms = any();
	terms.client_family = 4;
	terms.client_bits = 33;
	assert_int_equal(weir_capture_read(
				 own.dataplane, weir_capture_order(own.control, &terms, NOW), &got),
		-EINVAL);
	unmake(&own);
}

// --- rings --------------------------------------------------------------------------------

static void fill_data(uint8_t *data, uint32_t bytes, uint32_t seed) {
	for (uint32_t i = 0; i < bytes; i++) {
		data[i] = (uint8_t)(seed * 31 + i * 7);
	}
}

static bool put(struct own *own, uint64_t number, uint32_t i) {
	uint8_t data[WEIR_CAPTURE_SNAP_MOST];
	struct weir_capture_record r = record(number, (uint16_t)(i * 97 % 1537));

	r.time_ns = i;
	fill_data(data, r.saved, i);
	return weir_capture_put(&own->dataplane->capture_rings[1],
		&own->dataplane->capture_control->read[1], &r, data);
}

static void check(const struct weir_capture_packet *packet, uint32_t i) {
	uint8_t data[WEIR_CAPTURE_SNAP_MOST];

	assert_int_equal(packet->record.time_ns, i);
	assert_int_equal(packet->record.saved, i * 97 % 1537);
	fill_data(data, packet->record.saved, i);
	assert_memory_equal(packet->data, data, packet->record.saved);
}

TEST(records_are_complete_after_many_wraps) {
	struct own own = make();
	struct weir_capture_terms terms = any();
	uint64_t number = weir_capture_order(own.control, &terms, NOW);
	struct weir_capture_packet packet;

	for (uint32_t i = 0; i < 5000; i += 3) { // the ring wraps several times
		for (uint32_t k = 0; k < 3; k++) {
			assert_true(put(&own, number, i + k));
		}
		for (uint32_t k = 0; k < 3; k++) {
			assert_true(weir_capture_take(own.control, 1, number, &packet));
			check(&packet, i + k);
		}
		assert_false(weir_capture_take(own.control, 1, number, &packet));
	}
	unmake(&own);
}

TEST(a_full_ring_loses_the_new_record) {
	struct own own = make();
	struct weir_capture_terms terms = any();
	uint64_t number = weir_capture_order(own.control, &terms, NOW);
	const struct weir_capture_ring *ring = &own.dataplane->capture_rings[1];
	struct weir_capture_packet packet;
	uint32_t n = 0;

	while (put(&own, number, n)) {
		n++;
	}
	assert_in_range(n, WEIR_CAPTURE_RING_BYTES / (SPAN + 1544), WEIR_CAPTURE_RING_BYTES / SPAN);
	assert_in_range(ring->tail, WEIR_CAPTURE_RING_BYTES - SPAN - 1544, WEIR_CAPTURE_RING_BYTES);
	for (uint32_t i = 0; i < n; i++) {
		assert_true(weir_capture_take(own.control, 1, number, &packet));
		check(&packet, i);
	}
	assert_false(weir_capture_take(own.control, 1, number, &packet));
	assert_true(put(&own, number, n));
	unmake(&own);
}

TEST(a_new_order_skips_former_records) {
	struct own own = make();
	struct weir_capture_terms terms = any();
	uint64_t former = weir_capture_order(own.control, &terms, NOW), number, lost, limited;
	struct weir_capture_packet packet;

	weir_capture_begin(&own.dataplane->capture_rings[1], former);
	own.dataplane->capture_rings[1].lost = 7;
	own.dataplane->capture_rings[1].limited = 9;
	weir_capture_missed(own.control, 1, former, &lost, &limited);
	assert_int_equal(lost, 7);
	assert_int_equal(limited, 9);
	assert_true(put(&own, former, 1));
	number = weir_capture_order(own.control, &terms, NOW);
	assert_true(put(&own, former, 2)); // the worker has not read the new order yet
	assert_true(put(&own, number, 3));
	weir_capture_missed(own.control, 1, number, &lost, &limited);
	assert_int_equal(lost + limited, 0);
	assert_true(weir_capture_take(own.control, 1, number, &packet));
	check(&packet, 3);
	assert_false(weir_capture_take(own.control, 1, number, &packet));
	unmake(&own);
}

// Whatever read position control writes, the worker accesses no memory outside of the ring.
TEST(a_position_out_of_range_is_a_full_ring) {
	static const uint64_t heads[] = {1, 64, WEIR_CAPTURE_RING_BYTES, 1ull << 63};
	struct own own = make();

	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		own.control->capture_control->read[1].head = heads[i];
		assert_false(put(&own, 1, 5));
	}
	assert_int_equal(own.dataplane->capture_rings[1].tail, 0);
	unmake(&own);
}

// Whatever a dataplane writes, control reads no memory outside of the ring, and continues.
TEST(a_broken_ring_is_skipped) {
	struct own own = make();
	struct weir_capture_ring *ring = &own.dataplane->capture_rings[1];
	struct weir_ring_position *read = &own.control->capture_control->read[1];
	struct weir_capture_packet packet;
	uint64_t random = 7;

	for (uint32_t i = 0; i < 20000; i++) {
		uint64_t tail = ring->tail;

		random = random * 6364136223846793005ull + 1442695040888963407ull;
		assert_true(put(&own, 1, i));
		if (i % 4 == 0) { // change a byte of the record's header
			ring->data[(tail + (random >> 32) % SPAN) % WEIR_CAPTURE_RING_BYTES] ^=
				(uint8_t)(random >> 56) | 1;
		} else if (i % 4 == 1) {
			ring->tail = tail + (random >> 33);
		} else if (i % 4 == 2) {
			ring->tail = random;
		}
		while (weir_capture_take(own.control, 1, 1, &packet)) {
			assert_in_range(packet.record.saved, 0, WEIR_CAPTURE_SNAP_MOST);
			assert_true(packet.record.action < WEIR_ACTION_COUNT);
			assert_true(packet.record.kind < WEIR_PACKET_KIND_COUNT ||
				    packet.record.kind == WEIR_CAPTURE_NONE);
		}
		assert_int_equal(read->head, ring->tail);
	}
	assert_true(put(&own, 1, 3));
	assert_true(weir_capture_take(own.control, 1, 1, &packet));
	check(&packet, 3);
	unmake(&own);
}

// --- two threads ----------------------------------------------------------------------------

#define ORDERS 20000u

static void *give_orders(void *context) {
	struct own *own = context;

	for (uint32_t i = 0; i < ORDERS; i++) {
		struct weir_capture_terms terms = any();

		// Set `client` and the next field, the destination.
		memset(terms.client, (int)(i % 251), 2 * sizeof(terms.client));
		terms.reasons = i % 251;
		(void)weir_capture_order(own->control, &terms, NOW);
	}
	return NULL;
}

TEST(an_order_is_complete_or_ignored_while_it_changes) {
	struct own own = make();
	struct weir_capture_terms got;
	uint32_t read = 0;
	uint64_t number = 0;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, give_orders, &own), 0);
	while (number < ORDERS) {
		number = weir_capture_wanted(own.dataplane);
		if (number == 0 || weir_capture_read(own.dataplane, number, &got) < 0) {
			continue;
		}
		read++;
		assert_int_equal(got.number, number);
		assert_int_equal(got.reasons, (number - 1) % 251);
		for (unsigned int i = 0; i < 16; i++) {
			assert_int_equal(got.client[i], got.reasons);
			assert_int_equal(got.destination[i], got.reasons);
		}
	}
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(read > 0);
	unmake(&own);
}
