// SPDX-License-Identifier: BSD-3-Clause
//
// State of the NIC (nic.c) in a file that the test maps, too: 64-bit words, in this order
// (tests/e2e/rss_nic.py).
//
// Threads: fields are relaxed. [test] fields are set by the test; the NIC sets the others.
#pragma once

#include <stdint.h>

#define NIC_ENTRIES 1024
#define NIC_QUEUES_MAX 16

// X(field)
#define NIC_STATE(X) \
	X(update_us) /* [test] how long a change of the table takes */ \
	X(refuses) /* [test] changes of the table */ \
	X(tx_ns) /* [test] that a worker needs for a packet that it sends */ \
	X(apart) /* [test] transmit queues go on independently, and each in turn pauses for so \
		    many microseconds; 0 = in the order of the packets */ \
	X(received) /* from the wire: what a queue has room for */ \
	X(missed) /* found no room in its queue, or no buffer */ \
	X(sent) \
	X(unsent) /* the wire took no more */ \
	X(updates) /* changes of the table that were carried out */ \
	X(flows) /* that the judge knows */ \
	X(unknown) /* encapsulated packets of flows that it has no room for */ \
	X(judged) /* packets that came back encapsulated */ \
	X(lost) /* that later ones of their flow have overtaken for good */ \
	X(reordered) /* that came back behind later ones, or twice */ \
	X(strayed) /* to another backend than the one before */ \
	X(pending) /* of flows of which some came back: that have not, and are not in `lost` */

struct nic_state {
#define X(field) uint64_t field;
	NIC_STATE(X)
#undef X
	uint64_t queue_received[NIC_QUEUES_MAX];
	uint64_t table[NIC_ENTRIES]; // the queue of each entry of the redirection table
};

static inline void nic_add(uint64_t *counter, uint64_t n) {
	__atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}
