// SPDX-License-Identifier: BSD-3-Clause
#include "outer.h"

static bool is_sound(const struct weir_row_head *head, uint32_t ports, uint32_t services) {
	return weir_encap_row_valid(head) &&
	       head->header_bytes <= weir_outer_copy_bytes(head) - 2 && head->port < ports &&
	       head->service < services;
}

static enum weir_outer_kind kind_of(const struct weir_row_head *head) {
	if (head->outer_family == 0) {
		return WEIR_OUTER_NONE;
	}
	if (head->tail_bytes > 0) {
		return head->outer_family == 6 ? WEIR_OUTER_IPV6_TAIL
		       : head->source_bits > 0 ? WEIR_OUTER_IPV4_PREFIX_TAIL
					       : WEIR_OUTER_IPV4_TAIL;
	}
	return head->outer_family == 6 ? WEIR_OUTER_IPV6
	       : head->source_bits > 0 ? WEIR_OUTER_IPV4_PREFIX
				       : WEIR_OUTER_IPV4;
}

// Returns the low half of the IPv4 source address in a valid IPv4 row.
static uint16_t source_low(const struct weir_backend_row *row, const struct weir_row_head *head) {
	return weir_load16(&row->header[head->l2_bytes + 14]);
}

bool weir_outer_adopt(struct weir_outer *outer, const struct weir_backend_row *row,
	uint16_t backend, uint32_t ports, uint32_t services) {
	struct weir_row_head head = weir_encap_read(row);
	// Sum of the words of the IPv4 header that outer->checksum does not include, in host order:
	// 0x45 with DSCP and ECN 0, and, without a tail, TTL with protocol 4.
	const uint32_t left_out = 0x4500u + (head.tail_bytes == 0 ? (WEIR_OUTER_TTL << 8 | 4) : 0);
	uint32_t sum;

	if ((head.flags & WEIR_BACKEND_PRESENT) == 0) {
		*outer = (struct weir_outer){0};
		return true;
	}
	if (!is_sound(&head, ports, services) ||
		(head.source_bits > 0 &&
			(source_low(row, &head) & weir_encap_source_mask(&head)) != 0)) {
		return false;
	}
	*outer = (struct weir_outer){.head = head};
	memcpy((uint8_t *)(uintptr_t)weir_outer_header(outer), row->header, head.header_bytes);
	if ((head.flags & (WEIR_BACKEND_RESOLVED | WEIR_BACKEND_DOWN)) != WEIR_BACKEND_RESOLVED ||
		head.mtu <= weir_encap_outer_bytes(&head)) {
		return true;
	}
	outer->verdict = (struct weir_verdict){.action = WEIR_ACTION_FORWARD,
		.reason = WEIR_REASON_NONE,
		.choice = WEIR_CHOICE_FLOW,
		.port = head.port,
		.backend = backend,
		.service = head.service};
	outer->inner_max = (uint16_t)(head.mtu - weir_encap_outer_bytes(&head));
	// The sum in the row is a sum of words in host order. To get the sum of the words in
	// network order, swap the bytes of the result (RFC 1071, 2 B). Adding 0xffff does not
	// change a one's complement sum; it prevents a negative difference.
	sum = (uint32_t)head.checksum_base + 0xffff - left_out;
	outer->checksum = rte_cpu_to_be_16(weir_checksum_fold20(sum));
	outer->header_bytes = head.header_bytes;
	outer->kind = kind_of(&head);
	if (head.outer_family == 4) {
		outer->source_low = source_low(row, &head);
		outer->source_mask = weir_encap_source_mask(&head);
	}
	return true;
}
