// SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause)
//
// Steer: redirects VIP traffic to the dataplane's AF_XDP sockets, and passes all other traffic
// (ARP, neighbour discovery, ssh, BGP, ...) to the kernel. The program is attached with XDP to an
// interface of the balancer.
//
// Steering depends on the destination address, the protocol, the destination port and the ICMP
// type. Packets are not validated: the dataplane drops and counts malformed packets to a VIP. For a
// TCP port whose bind was removed, the program also checks TCP flags and the kernel's sockets: open
// connections stay on the dataplane, and new connections and connections of the kernel go to the
// kernel. If there is no AF_XDP socket for the receive queue, the packet goes to the kernel.
#include <linux/icmpv6.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>

#include "ipv6_chain.h"
#include "packet.h"
#include "steer.h"

// Constants of linux/icmp.h. The header itself is not included, because it includes headers of the
// C library.
#define ICMP_DEST_UNREACH 3
#define ICMP_ECHO 8
#define ICMP_TIME_EXCEEDED 11
#define ICMP_PARAMETERPROB 12
#define ICMP_BYTES 8 // length of an ICMP header, the shortest of all transport headers

#define TCP_FLAGS 13 // offset of the flags in the TCP header
#define TCP_SYN 0x02
// Mask of FIN, SYN, RST and ACK. A packet begins a connection if SYN is set, and FIN, RST and ACK
// are not set.
#define TCP_BEGINS 0x17

#define IPV4_FRAGMENT bpf_htons(0x3fff) // mask of the more-fragments flag and the offset

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

enum verdict {
	FOR_KERNEL,
	FOR_DATAPLANE,
	// a TCP packet to a port without a bind, but not the first packet of a connection: see
	// is_leaving
	OPEN_CONNECTION,
};

static __always_inline weir_vip_value *look_up(
	struct weir_vip_key *key, __u8 protocol, __be16 port) {
	key->protocol = protocol;
	key->port = port;
	return bpf_map_lookup_elem(&weir_vips, key);
}

static __always_inline int is_vip(struct weir_vip_key *key, __u8 protocol, __be16 port) {
	return look_up(key, protocol, port) != NULL;
}

// Looks up the key `protocol, 0`. If its value is not WEIR_STEER_EVERY_PORT, looks up the blocks
// that contain `port`, the smallest first. Returns the value of the key that applies, or NULL if
// the map contains no such key.
static __always_inline weir_vip_value *find_range(
	struct weir_vip_key *key, __u8 protocol, __be16 port) {
	const __u32 number = bpf_ntohs(port);
	const __u8 family = key->family;
	weir_vip_value *value = look_up(key, protocol, 0);
	weir_vip_value blocks;

	if (value == NULL) {
		return NULL;
	}
	blocks = *value;
	if (blocks & WEIR_STEER_EVERY_PORT) {
		return value;
	}
	for (int k = 1; k <= WEIR_STEER_BLOCK_MAX; k++) {
		if (!(blocks >> k & 1)) {
			continue;
		}
		key->family = WEIR_STEER_BLOCK(family, k);
		value = look_up(key, protocol, bpf_htons((__u16)(number >> k << k)));
		if (value != NULL) {
			return value;
		}
	}
	key->family = family;
	return NULL;
}

// Returns true if an ICMP packet to a VIP goes to the dataplane: echo requests and ICMP errors. All
// other types, such as redirects, neighbour discovery and replies to requests of the kernel, go to
// the kernel. protocol: IPPROTO_ICMP or IPPROTO_ICMPV6. type: type of the ICMP message.
static __always_inline int is_icmp_for_us(__u8 protocol, __u8 type) {
	if (protocol == IPPROTO_ICMP) {
		return type == ICMP_ECHO || type == ICMP_DEST_UNREACH ||
		       type == ICMP_TIME_EXCEEDED || type == ICMP_PARAMETERPROB;
	}
	return type == ICMPV6_ECHO_REQUEST ||
	       (type >= ICMPV6_DEST_UNREACH && type <= ICMPV6_PARAMPROB);
}

// Returns true if the packet is not the first packet of a TCP connection. at: the TCP header.
// Returns false if the packet begins a connection, or if the frame ends before the TCP flags.
static __always_inline int is_of_connection(void *at, void *end) {
	__u8 *header = at;

	return (void *)(header + TCP_FLAGS + 1) <= end &&
	       (header[TCP_FLAGS] & TCP_BEGINS) != TCP_SYN;
}

// Returns the action for a packet. at: the transport header. key: holds the destination address and
// the family; the function may change the key. portless: the packet is a fragment, or too short for
// any transport header. *ret_tcp is set to the TCP header if the result is OPEN_CONNECTION.
static __always_inline enum verdict judge(struct weir_vip_key *key, __u8 protocol, int portless,
	void *at, void *end, struct tcphdr **ret_tcp) {
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
	// Port 0 is not a valid port: the key with port 0 is for ranges of ports.
	if ((ports[1] != 0 && is_vip(key, protocol, ports[1])) ||
		find_range(key, protocol, ports[1]) != NULL) {
		return FOR_DATAPLANE;
	}
	if (protocol != IPPROTO_TCP || !is_of_connection(at, end)) {
		return FOR_KERNEL;
	}
	*ret_tcp = at;
	return OPEN_CONNECTION;
}

static __always_inline enum verdict steer_ipv4(
	void *at, void *end, struct weir_vip_key *key, struct tcphdr **ret_tcp) {
	struct iphdr *ip = at;

	if ((void *)(ip + 1) > end) {
		return 0;
	}
	key->family = 4;
	__builtin_memcpy(key->address, &ip->daddr, 4);
	if (ip->version != 4 || ip->ihl < 5) {
		return is_vip(key, 0, 0);
	}
	return judge(
		key, ip->protocol, ip->frag_off & IPV4_FRAGMENT, at + ip->ihl * 4, end, ret_tcp);
}

// Returns the action for an IPv6 packet. at: the IPv6 header. *ret_tcp: as set by judge. Parses the
// chain of extension headers like weir_parse_ipv6_chain, but stops at the fragment header of a
// fragment: all fragments to a VIP go to the dataplane, regardless of their Next Header. Packets to
// a VIP also go to the dataplane if they end inside their chain, or if their chain is invalid. The
// dataplane drops and counts these packets.
static __always_inline enum verdict steer_ipv6(
	void *at, void *end, struct weir_vip_key *key, struct tcphdr **ret_tcp) {
	struct ipv6hdr *ip = at;
	__u32 left;
	__u8 next;

	if ((void *)(ip + 1) > end) {
		return 0;
	}
	key->family = 6;
	__builtin_memcpy(key->address, &ip->daddr, 16);
	if (ip->version != 6) {
		return is_vip(key, 0, 0);
	}
	next = ip->nexthdr;
	left = bpf_ntohs(ip->payload_len); // the frame may have padding after the packet
	at = ip + 1;
#pragma unroll
	for (int i = 0; i < WEIR_IPV6_EXTENSIONS_MAX; i++) {
		__u8 *extension = at;
		__u32 bytes;

		if (!weir_ipv6_is_extension(next)) {
			return judge(key, next, left < ICMP_BYTES, at, end, ret_tcp);
		}
		if ((void *)(extension + WEIR_IPV6_EXTENSION_MIN) > end ||
			!weir_ipv6_extension_may_be(next, i)) {
			return is_vip(key, 0, 0);
		}
		if (next == WEIR_IPV6_FRAGMENT &&
			*(__be16 *)(extension + 2) & bpf_htons(WEIR_IPV6_FRAGMENT_PART)) {
			return is_vip(key, 0, 0);
		}
		bytes = weir_ipv6_extension_bytes(next, extension[1]);
		if (bytes > left) {
			return is_vip(key, 0, 0);
		}
		next = extension[0];
		left -= bytes;
		at += bytes;
	}
	return weir_ipv6_is_extension(next) ? is_vip(key, 0, 0)
					    : judge(key, next, left < ICMP_BYTES, at, end, ret_tcp);
}

// Returns true if a packet completes a handshake for which a listening socket sent a SYN cookie.
// The kernel keeps no state of such a handshake.
static __always_inline int has_cookie(
	struct bpf_sock *listener, void *ip, __u32 bytes, struct tcphdr *tcp, void *end) {
	return (void *)(tcp + 1) <= end &&
	       bpf_tcp_check_syncookie(listener, ip, bytes, tcp, sizeof(*tcp)) == 0;
}

// Returns true if the packet belongs to a connection of the kernel, or completes a handshake for
// which the kernel sent a SYN cookie. at: the IP header. tcp: the TCP header.
static __always_inline int kernel_has(
	struct xdp_md *ctx, void *at, void *end, __u8 family, struct tcphdr *tcp) {
	struct bpf_sock_tuple tuple = {0};
	struct ipv6hdr *ipv6 = at;
	struct iphdr *ipv4 = at;
	struct bpf_sock *socket;
	int has;

	if ((void *)(ipv4 + 1) > end) {
		return 0;
	}
	if (family == 4) {
		tuple.ipv4.saddr = ipv4->saddr;
		tuple.ipv4.daddr = ipv4->daddr;
		tuple.ipv4.sport = tcp->source;
		tuple.ipv4.dport = tcp->dest;
		socket =
			bpf_skc_lookup_tcp(ctx, &tuple, sizeof(tuple.ipv4), BPF_F_CURRENT_NETNS, 0);
	} else if ((void *)(ipv6 + 1) > end) {
		return 0;
	} else {
		__builtin_memcpy(tuple.ipv6.saddr, &ipv6->saddr, 16);
		__builtin_memcpy(tuple.ipv6.daddr, &ipv6->daddr, 16);
		tuple.ipv6.sport = tcp->source;
		tuple.ipv6.dport = tcp->dest;
		socket =
			bpf_skc_lookup_tcp(ctx, &tuple, sizeof(tuple.ipv6), BPF_F_CURRENT_NETNS, 0);
	}
	if (socket == NULL) {
		return 0;
	}
	has = socket->state != BPF_TCP_LISTEN ||
	      (family == 4 ? has_cookie(socket, ipv4, sizeof(*ipv4), tcp, end)
			   : has_cookie(socket, ipv6, sizeof(*ipv6), tcp, end));
	bpf_sk_release(socket);
	return has;
}

// Returns true if a packet that is not a SYN must go to the dataplane: the bind of the destination
// port was removed, and the kernel does not have the connection. In this case, the function also
// stores the time of the packet. at: the IP header. tcp: the TCP header.
static __always_inline int is_leaving(
	struct xdp_md *ctx, void *at, void *end, struct weir_vip_key *key, struct tcphdr *tcp) {
	const __be16 port = tcp->dest;
	const __u8 family = key->family;
	weir_vip_value *last, now_s;

	if (!is_vip(key, WEIR_STEER_LEAVING, 0)) {
		return 0;
	}
	last = port != 0 ? look_up(key, WEIR_STEER_LEAVING, port) : NULL;
	if (last == NULL) {
		last = find_range(key, WEIR_STEER_LEAVING, port);
	}
	if (last == NULL || kernel_has(ctx, at, end, family, tcp)) {
		return 0;
	}
	now_s = (weir_vip_value)(bpf_ktime_get_ns() / 1000000000);
	// Write once per second only: a write for each packet would slow down other CPUs.
	if (*last != now_s) {
		*last = now_s;
	}
	return 1;
}

SEC("xdp")
int weir_steer(struct xdp_md *ctx) {
	void *at = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	struct weir_vip_key key = {0};
	struct tcphdr *tcp = NULL;
	enum verdict verdict = FOR_KERNEL;

	switch (skip_ethernet(&at, end)) {
	case bpf_htons(ETH_P_IP):
		verdict = steer_ipv4(at, end, &key, &tcp);
		break;
	case bpf_htons(ETH_P_IPV6):
		verdict = steer_ipv6(at, end, &key, &tcp);
		break;
	}
	if (verdict == OPEN_CONNECTION) {
		verdict = is_leaving(ctx, at, end, &key, tcp);
	}
	return verdict != FOR_KERNEL
		       ? (int)bpf_redirect_map(&xsks_map, ctx->rx_queue_index, XDP_PASS)
		       : XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
