// SPDX-License-Identifier: BSD-3-Clause
#include "tunnel_filter.h"

#include <netinet/in.h>
#include <string.h>

#include "forwarding.h"

static void add(struct weir_tunnel_filter *filter, struct sock_filter instruction) {
	filter->instruction[filter->count++] = instruction;
}

static void accept_protocol(struct weir_tunnel_filter *filter, uint8_t protocol) {
	add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, protocol, 0, 1));
	add(filter, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, UINT32_MAX));
}

// Appends instructions that accept a quoted UDP packet with GUE that contains an IP packet. If the
// quoted packet is too short for a load, the kernel drops the message.
static void accept_gue(struct weir_tunnel_filter *filter, const struct sock_filter *gue) {
	add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 5));
	add(filter, *gue);
	add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_IPIP, 1, 0));
	add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_IPV6, 0, 1));
	add(filter, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, UINT32_MAX));
	add(filter, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0));
}

void weir_tunnel_filter_make(const struct sock_filter *head, uint16_t head_count, uint8_t other,
	const struct sock_filter *gue, struct weir_tunnel_filter *ret) {
	memcpy(ret->instruction, head, head_count * sizeof(*head));
	ret->count = head_count;
	accept_protocol(ret, IPPROTO_IPIP);
	accept_protocol(ret, IPPROTO_IPV6);
	for (unsigned int i = 0; i < WEIR_FORWARDING_COUNT; i++) {
		if (weir_forwarding_headers[i]->protocol == IPPROTO_UDP && gue != NULL) {
			accept_gue(ret, gue);
		} else if (weir_forwarding_headers[i]->protocol != 0) {
			accept_protocol(ret, weir_forwarding_headers[i]->protocol);
		}
	}
	accept_protocol(ret, other);
	add(ret, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0));
}

int weir_tunnel_filter_open(const struct weir_tunnel_filter *ipv4,
	const struct weir_tunnel_filter *ipv6, struct weir_icmp_sockets *ret) {
	const struct weir_icmp_filter filter4 = {ipv4->instruction, ipv4->count};
	const struct weir_icmp_filter filter6 = {ipv6->instruction, ipv6->count};

	return weir_icmp_open(&filter4, &filter6, ret);
}

bool weir_tunnel_protocol(uint8_t protocol) {
	bool found = false;

	for (unsigned int i = 0; i < WEIR_FORWARDING_COUNT; i++) {
		found |= weir_forwarding_has_protocol((enum weir_forwarding_mode)i, protocol);
	}
	return found;
}
