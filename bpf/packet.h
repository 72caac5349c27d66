/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
//
// Functions for XDP programs that parse a frame. Not for user space.
#pragma once

#include <linux/bpf.h>
#include <linux/if_ether.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define WEIR_VLAN_TAGS_MAX 2

struct vlan_tag { // the four bytes after EtherType 0x8100, 0x88a8 or 0x9100
	__be16 control;
	__be16 type;
};

static __always_inline int is_vlan(__be16 type) {
	return type == bpf_htons(ETH_P_8021Q) || type == bpf_htons(ETH_P_8021AD) ||
	       type == bpf_htons(ETH_P_QINQ1);
}

// Skip the Ethernet header and VLAN tags. Returns the EtherType of the payload (network order) and
// moves *at to the payload. Returns 0 if the frame is too short or has more than WEIR_VLAN_TAGS_MAX
// tags.
static __always_inline __be16 skip_ethernet(void **at, void *end) {
	struct ethhdr *ethernet = *at;
	__be16 type;

	if ((void *)(ethernet + 1) > end) {
		return 0;
	}
	type = ethernet->h_proto;
	*at = ethernet + 1;
#pragma unroll
	for (int i = 0; i < WEIR_VLAN_TAGS_MAX; i++) {
		struct vlan_tag *tag = *at;

		if (!is_vlan(type)) {
			return type;
		}
		if ((void *)(tag + 1) > end) {
			return 0;
		}
		type = tag->type;
		*at = tag + 1;
	}
	return is_vlan(type) ? 0 : type;
}
