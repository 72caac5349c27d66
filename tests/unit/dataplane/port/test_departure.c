// SPDX-License-Identifier: BSD-3-Clause
#include "departure.h"
#include "test.h"

#include <errno.h>

#include <rte_ethdev.h>

#define DESCRIPTORS 512u
#define PUT 100000u // total number of packets; one descriptor each

// How a driver reports the status of a descriptor.
enum style {
	BY_DESCRIPTOR, // as documented by DPDK
	RESERVED, // as documented, but UNAVAIL instead of DONE
	BY_COUNT, // reports "full" if the offset is below the number of waiting packets
	// rounds the descriptor's number up to a multiple of WEIR_DEPARTURE_STEP, and reports the
	// status of that descriptor
	IN_STEPS,
	NEVER, // always reports "full"
	REFUSES, // returns a negative error
	NOTHING, // the driver does not support the call
	STYLES
};

static struct {
	enum style style;
	uint64_t put; // total number of packets
	uint32_t waiting; // how many of the last packets still wait in the ring
} nic;

static struct rte_ring *no_ring = (struct rte_ring *)&nic; // a ring that is not used

static int say(bool full) {
	if (full) {
		return RTE_ETH_TX_DESC_FULL;
	}
	return nic.style == RESERVED ? RTE_ETH_TX_DESC_UNAVAIL : RTE_ETH_TX_DESC_DONE;
}

static int status(void *queue, uint16_t offset) {
	uint64_t at = nic.put + offset; // number of the descriptor, counted without wrapping

	assert_ptr_equal(queue, &nic);
	assert_true(offset < DESCRIPTORS);
	switch (nic.style) {
	case BY_COUNT:
		return say(offset < nic.waiting);
	case IN_STEPS:
		at = (at + WEIR_DEPARTURE_STEP - 1) / WEIR_DEPARTURE_STEP * WEIR_DEPARTURE_STEP;
		break;
	case NEVER:
		return say(true);
	case REFUSES:
		return -EINVAL;
	case BY_DESCRIPTOR:
	case RESERVED:
	case NOTHING:
	case STYLES:
		break;
	}
	return say((nic.put + 2 * DESCRIPTORS - 1 - at) % DESCRIPTORS < nic.waiting);
}

static void be(enum style style) {
	static void *queue[] = {&nic};

	nic.style = style;
	rte_eth_fp_ops[0].txq.data = queue;
	rte_eth_fp_ops[0].tx_descriptor_status = style == NOTHING ? NULL : status;
}

// Tests any number of waiting packets, at any position in the ring.
TEST(waiting_packets_have_not_departed) {
	for (enum style style = 0; style < STYLES; style++) {
		uint32_t unreported = style == IN_STEPS ? WEIR_DEPARTURE_STEP - 1 : 0;

		be(style);
		for (nic.put = PUT; nic.put < PUT + WEIR_DEPARTURE_STEP; nic.put++) {
			struct weir_path path = {.put = nic.put, .descriptors = DESCRIPTORS};

			for (nic.waiting = unreported + 1; nic.waiting <= DESCRIPTORS;
				nic.waiting++) {
				for (uint32_t since = 0; since < nic.waiting - unreported;
					since++) {
					assert_false(
						weir_path_has_departed(&path, path.put - since));
				}
			}
		}
	}
}

TEST(other_packets_have_departed) {
	static const bool tells[STYLES] = {
		[BY_DESCRIPTOR] = true, [RESERVED] = true, [BY_COUNT] = true, [IN_STEPS] = true};

	for (enum style style = 0; style < STYLES; style++) {
		struct weir_path path = {.put = PUT, .descriptors = DESCRIPTORS};

		be(style);
		nic.put = PUT;
		nic.waiting = 0;
		for (uint32_t since = 0; since < DESCRIPTORS; since++) {
			assert_int_equal(weir_path_has_departed(&path, PUT - since), tells[style]);
		}
		// The ring has no room for the next packet.
		nic.waiting = DESCRIPTORS;
		assert_true(weir_path_has_departed(&path, PUT - DESCRIPTORS));
	}
}

TEST(newer_packets_may_wait) {
	const enum style styles[] = {BY_DESCRIPTOR, RESERVED, BY_COUNT};

	for (unsigned int i = 0; i < RTE_DIM(styles); i++) {
		struct weir_path path = {.put = PUT, .descriptors = DESCRIPTORS};

		be(styles[i]);
		nic.put = PUT;
		for (uint32_t since = 0; since < DESCRIPTORS / 2 - WEIR_DEPARTURE_STEP; since++) {
			nic.waiting = since;
			assert_true(weir_path_has_departed(&path, PUT - since));
		}
	}
}

TEST(the_owner_of_the_queue_responds) {
	struct weir_path own = {.put = PUT, .descriptors = DESCRIPTORS};
	struct weir_outlet outlet = {.own = &own};
	struct weir_path path = {.ring = no_ring, .outlet = &outlet};

	be(BY_DESCRIPTOR);
	nic.put = PUT;
	nic.waiting = 3;
	assert_false(weir_outlet_is_requested(&outlet));
	weir_path_request(&path);
	assert_true(weir_outlet_is_requested(&outlet));
	weir_outlet_answer(&outlet);
	assert_false(weir_path_is_answered(&path));
	// Two packets that were added later are ignored.
	own.put = nic.put = PUT + 2;
	nic.waiting = 3;
	weir_outlet_answer(&outlet);
	assert_false(weir_path_is_answered(&path));
	nic.waiting = 2;
	weir_outlet_answer(&outlet);
	assert_true(weir_path_is_answered(&path));
	assert_false(weir_outlet_is_requested(&outlet));
	weir_path_stop_requesting(&path);
	assert_false(weir_outlet_is_requested(&outlet));
	// The next query gets a new answer.
	nic.waiting = 3;
	weir_path_request(&path);
	assert_false(weir_path_is_answered(&path));
	weir_outlet_answer(&outlet);
	assert_false(weir_path_is_answered(&path));
	weir_path_stop_requesting(&path);
	assert_false(weir_outlet_is_requested(&outlet)); // no worker waits
	// A new query includes the later packets.
	own.put = nic.put = PUT + 4;
	weir_path_request(&path);
	assert_true(weir_outlet_is_requested(&outlet));
	nic.waiting = 2;
	weir_outlet_answer(&outlet);
	assert_false(weir_path_is_answered(&path));
	nic.waiting = 0;
	weir_outlet_answer(&outlet);
	assert_true(weir_path_is_answered(&path));
}
