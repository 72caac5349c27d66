// SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause)
//
// Steer: sends a port's VIP traffic to the dataplane's AF_XDP sockets, and leaves everything else
// (ARP, neighbour discovery, ssh, BGP, ...) to the kernel. XDP, on the balancer's interface.
//
// It decides by the destination alone and validates nothing: the dataplane drops and counts broken
// packets for a VIP. If no socket serves the queue, the packet goes to the kernel.
#include <linux/icmpv6.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>

#include "ipv6_chain.h"
#include "packet.h"
#include "steer.h"

// From linux/icmp.h, which would include headers of the C library.
#define ICMP_DEST_UNREACH 3
#define ICMP_ECHO 8
#define ICMP_TIME_EXCEEDED 11
#define ICMP_PARAMETERPROB 12
#define ICMP_BYTES 8 // of its header, and of no transport header less

#define IPV4_FRAGMENT bpf_htons(0x3fff) // more fragments, or an offset

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, WEIR_STEER_QUEUES_MAX);
	__type(key, __u32);
	__type(value, __u32);
} xsks_map SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, WEIR_STEER_VIPS_MAX);
	__type(key, struct weir_vip_key);
	__type(value, weir_vip_value);
} weir_vips SEC(".maps");

static __always_inline int is_vip(struct weir_vip_key *key, __u8 protocol, __be16 port) {
	key->protocol = protocol;
	key->port = port;
	return bpf_map_lookup_elem(&weir_vips, key) != NULL;
}

// True if a port is in one of the VIP's wide ranges, or the VIP takes every port.
static __always_inline int is_in_range(struct weir_vip_key *key, __u8 protocol, __be16 port) {
	const __u32 number = bpf_ntohs(port);
	const __u8 family = key->family;
	const weir_vip_value *value;
	weir_vip_value blocks;

	key->protocol = protocol;
	key->port = 0;
	value = bpf_map_lookup_elem(&weir_vips, key);
	if (value == NULL) {
		return 0;
	}
	blocks = *value;
	if (blocks & WEIR_STEER_EVERY_PORT) {
		return 1;
	}
	for (int k = 1; k <= WEIR_STEER_BLOCK_MAX; k++) {
		if (!(blocks >> k & 1)) {
			continue;
		}
		key->family = WEIR_STEER_BLOCK(family, k);
		key->port = bpf_htons((__u16)(number >> k << k));
		if (bpf_map_lookup_elem(&weir_vips, key) != NULL) {
			return 1;
		}
	}
	return 0;
}

// True for an echo request or an error. The kernel gets the rest of ICMP: redirects, router and
// neighbour discovery, replies to its own requests.
static __always_inline int is_icmp_for_us(__u8 protocol, __u8 type) {
	if (protocol == IPPROTO_ICMP) {
		return type == ICMP_ECHO || type == ICMP_DEST_UNREACH ||
		       type == ICMP_TIME_EXCEEDED || type == ICMP_PARAMETERPROB;
	}
	return type == ICMPV6_ECHO_REQUEST ||
	       (type >= ICMPV6_DEST_UNREACH && type <= ICMPV6_PARAMPROB);
}

// True if a packet with this transport header at `at` is for the dataplane. key holds the
// destination. portless: a fragment, or too short for any transport header.
static __always_inline int is_ours(
	struct weir_vip_key *key, __u8 protocol, int portless, void *at, void *end) {
	int icmp = key->family == 4 ? IPPROTO_ICMP : IPPROTO_ICMPV6;
	__be16 *ports = at;
	__u8 *type = at;

	if (protocol != IPPROTO_TCP && protocol != IPPROTO_UDP && protocol != icmp) {
		return 0;
	}
	if (portless) {
		return is_vip(key, 0, 0);
	}
	if (protocol == icmp) {
		if ((void *)(type + ICMP_BYTES) <= end && !is_icmp_for_us(protocol, *type)) {
			return 0;
		}
		return is_vip(key, 0, 0);
	}
	if ((void *)(ports + 2) > end) {
		return is_vip(key, 0, 0);
	}
	// Port 0 is not a valid port, and its key stands for ranges of ports.
	if (ports[1] != 0 && is_vip(key, protocol, ports[1])) {
		return 1;
	}
	return is_in_range(key, protocol, ports[1]);
}

static __always_inline int steer_ipv4(void *at, void *end) {
	struct weir_vip_key key = {.family = 4};
	struct iphdr *ip = at;

	if ((void *)(ip + 1) > end) {
		return 0;
	}
	__builtin_memcpy(key.address, &ip->daddr, 4);
	if (ip->version != 4 || ip->ihl < 5) {
		return is_vip(&key, 0, 0);
	}
	return is_ours(&key, ip->protocol, ip->frag_off & IPV4_FRAGMENT, at + ip->ihl * 4, end);
}

// Walks as weir_parse_ipv6_chain does, up to a fragment header: the dataplane gets all fragments to
// a VIP, whatever their Next Header. It also gets packets that end inside their chain and packets
// whose chain it refuses, and drops and counts them.
static __always_inline int steer_ipv6(void *at, void *end) {
	struct weir_vip_key key = {.family = 6};
	struct ipv6hdr *ip = at;
	__u32 left;
	__u8 next;

	if ((void *)(ip + 1) > end) {
		return 0;
	}
	__builtin_memcpy(key.address, &ip->daddr, 16);
	if (ip->version != 6) {
		return is_vip(&key, 0, 0);
	}
	next = ip->nexthdr;
	left = bpf_ntohs(ip->payload_len); // padding may follow in the frame
	at = ip + 1;
#pragma unroll
	for (int i = 0; i < WEIR_IPV6_EXTENSIONS_MAX; i++) {
		__u8 *extension = at;
		__u32 bytes;

		if (!weir_ipv6_is_extension(next)) {
			return is_ours(&key, next, left < ICMP_BYTES, at, end);
		}
		if ((void *)(extension + WEIR_IPV6_EXTENSION_MIN) > end ||
			!weir_ipv6_extension_may_be(next, i)) {
			return is_vip(&key, 0, 0);
		}
		if (next == WEIR_IPV6_FRAGMENT &&
			*(__be16 *)(extension + 2) & bpf_htons(WEIR_IPV6_FRAGMENT_PART)) {
			return is_vip(&key, 0, 0);
		}
		bytes = weir_ipv6_extension_bytes(next, extension[1]);
		if (bytes > left) {
			return is_vip(&key, 0, 0);
		}
		next = extension[0];
		left -= bytes;
		at += bytes;
	}
	return weir_ipv6_is_extension(next) ? is_vip(&key, 0, 0)
					    : is_ours(&key, next, left < ICMP_BYTES, at, end);
}

SEC("xdp")
int weir_steer(struct xdp_md *ctx) {
	void *at = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	int ours = 0;

	switch (skip_ethernet(&at, end)) {
	case bpf_htons(ETH_P_IP):
		ours = steer_ipv4(at, end);
		break;
	case bpf_htons(ETH_P_IPV6):
		ours = steer_ipv6(at, end);
		break;
	}
	return ours ? (int)bpf_redirect_map(&xsks_map, ctx->rx_queue_index, XDP_PASS) : XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
