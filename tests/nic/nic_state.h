// SPDX-License-Identifier: BSD-3-Clause
//
// State of the NIC (nic.c) in a file that the test also maps: 64-bit words, in this order
// (tests/e2e/rss_nic.py).
//
// Threads: all fields are accessed with relaxed atomics. The test sets the fields marked [test];
// the NIC sets the other fields.
#pragma once

#include <stdint.h>

#define NIC_ENTRIES 1024
#define NIC_QUEUES_MAX 16

// X(field)
#define NIC_STATE(X) \
	X(update_us) /* [test] duration of a change of the table */ \
	X(refuses) /* [test] whether changes of the table are refused */ \
	X(tx_ns) /* [test] time that a worker needs to send a packet */ \
	X(apart) /* [test] transmit queues proceed independently, and each in turn pauses for this \
		    number of microseconds; 0 = in the order of the packets */ \
	X(received) /* packets from the wire that entered a queue */ \
	X(missed) /* packets without room in their queue, or without a buffer */ \
	X(sent) \
	X(unsent) /* packets that the wire refused */ \
	X(updates) /* successful changes of the table */ \
	X(flows) /* flows known to the judge */ \
	X(unknown) /* encapsulated packets of flows that the judge has no room for */ \
	X(judged) /* packets that came back encapsulated */ \
	X(lost) /* packets that did not come back although later packets of the flow did */ \
	X(reordered) /* packets that came back after later packets, or twice */ \
	X(strayed) /* packets to another backend than the previous packet */ \
	X(pending) /* packets neither back nor in `lost`, if others of the flow came back */

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
