// SPDX-License-Identifier: BSD-3-Clause
#include "mailbox.h"

#include <string.h>

_Static_assert((WEIR_MAILBOX_MESSAGES & (WEIR_MAILBOX_MESSAGES - 1)) == 0, "indexes are masked");

bool weir_mailbox_send(struct weir_mailbox_ring *ring, const struct weir_ring_position *position,
	const struct weir_message *message) {
	uint64_t head = __atomic_load_n(&position->head, __ATOMIC_ACQUIRE);
	uint64_t tail = __atomic_load_n(&ring->tail, __ATOMIC_RELAXED);

	if (tail - head >= WEIR_MAILBOX_MESSAGES) {
		return false;
	}
	memcpy(ring->message[tail % WEIR_MAILBOX_MESSAGES], message, sizeof(*message));
	__atomic_store_n(&ring->tail, tail + 1, __ATOMIC_RELEASE);
	return true;
}

bool weir_mailbox_receive(const struct weir_mailbox_ring *ring, struct weir_ring_position *position,
	struct weir_message *ret) {
	uint64_t tail = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
	uint64_t head = __atomic_load_n(&position->head, __ATOMIC_RELAXED);

	if (tail == head) {
		return false;
	}
	if (tail - head > WEIR_MAILBOX_MESSAGES) {
		__atomic_store_n(&position->head, tail, __ATOMIC_RELEASE);
		return false;
	}
	memcpy(ret, ring->message[head % WEIR_MAILBOX_MESSAGES], sizeof(*ret));
	__atomic_store_n(&position->head, head + 1, __ATOMIC_RELEASE);
	return true;
}
