// SPDX-License-Identifier: BSD-3-Clause
#include "mailbox.h"

#include <string.h>

_Static_assert((WEIR_MAILBOX_MESSAGES & (WEIR_MAILBOX_MESSAGES - 1)) == 0, "indexes are masked");

static uint8_t *message_at(struct weir_mailbox_ring *ring, uint64_t index) {
	return ring->message[index & (WEIR_MAILBOX_MESSAGES - 1)];
}

bool weir_mailbox_send(struct weir_mailbox_ring *ring, const struct weir_message *message) {
	uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE);
	uint64_t tail = __atomic_load_n(&ring->tail, __ATOMIC_RELAXED);

	if (tail - head >= WEIR_MAILBOX_MESSAGES) {
		return false;
	}
	memcpy(message_at(ring, tail), message, sizeof(*message));
	__atomic_store_n(&ring->tail, tail + 1, __ATOMIC_RELEASE);
	return true;
}

bool weir_mailbox_receive(struct weir_mailbox_ring *ring, struct weir_message *ret) {
	uint64_t tail = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
	uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_RELAXED);

	if (tail == head) {
		return false;
	}
	if (tail - head > WEIR_MAILBOX_MESSAGES) {
		__atomic_store_n(&ring->head, tail, __ATOMIC_RELEASE);
		return false;
	}
	memcpy(ret, message_at(ring, head), sizeof(*ret));
	__atomic_store_n(&ring->head, head + 1, __ATOMIC_RELEASE);
	return true;
}
