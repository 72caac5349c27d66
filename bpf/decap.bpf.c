// SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause)
//
// Decap: removes the outer headers that the balancer has added to a packet, and passes the inner
// packet to the kernel. The outer and the inner IP header can each be IPv4 or IPv6. The headers
// between the two IP headers depend on the forwarding mode: none (IP in IP), a UDP header followed
// by a GUE header, or a GRE header. The program is attached with XDP to an interface of a backend.
//
// The program changes only tunnel packets to the addresses in weir_decap_addresses; MAC addresses
// and VLAN tags stay unchanged. ECN is handled as in RFC 6040, section 4.2; the inner TTL and DSCP
// are not changed.
//
// GUE packets have a separate UDP port, so all packets to this port are tunnel packets. GRE is also
// used by tunnels of other programs. GRE packets of a kind that the balancers never send are passed
// to the kernel: packets with another version (PPTP), a checksum, a sequence number, a payload
// other than IP, or, if gre_key is set, another key or no key.
#include <stdbool.h>

#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>

#include "decap.h"
#include "packet.h"

#define L2_BYTES_MAX (ETH_HLEN + WEIR_VLAN_TAGS_MAX * sizeof(struct vlan_tag))
#define IPV4_FRAGMENT bpf_htons(0x3fff) // mask of the more-fragments flag and the offset
#define IPV4_OFFSET bpf_htons(0x1fff)
#define GRE_KEY bpf_htons(0x2000) // flag: the header has a key (RFC 2890)
#define GRE_IGNORED bpf_htons(0x03f8) // flags that receivers ignore (RFC 2784, 2.3)
#define ECN_MASK 3
#define ECN_NOT_ECT 0
#define ECN_ECT1 1
#define ECN_ECT0 2
#define ECN_CE 3

const volatile bool check_sources = false;
const volatile bool accept_ipip = true;
const volatile bool accept_gre = true;
const volatile __u16 gue_port = 0; // host order; 0 = GUE is not accepted
const volatile __u32 gre_key = 0; // host order; 0 = with any key, or without a key

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WEIR_DECAP_ADDRESSES_MAX);
	__type(key, struct weir_decap_address);
	__type(value, __u32);
} weir_decap_addresses SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, WEIR_DECAP_SOURCES_MAX);
	__type(key, struct weir_decap_prefix);
	__type(value, __u32);
} weir_decap_sources SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, WEIR_DECAP_RESULT_COUNT);
	__type(key, __u32);
	__type(value, struct weir_decap_counter);
} weir_decap_counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_decap_refused);
} weir_decap_refused SEC(".maps");

struct gue_header { // draft-ietf-intarea-gue-09, 3.1
	struct udphdr udp;
	__u8 first; // version (2 bits), control message (1 bit), length of the optional fields
	__u8 protocol;
	__be16 flags; // one bit for each optional field that is present
};

struct gre_header { // RFC 2784, 2.1, and RFC 2890, 2
	__be16 flags;
	__be16 type; // EtherType of the payload
	__be32 key[]; // only with the flag GRE_KEY
};

struct tunnel { // the parsed outer headers of a packet
	void *inner;
	__u32 header_bytes; // length of all outer headers
	// Number of bytes after the outer headers that were parsed so far, according to the length
	// fields of these headers.
	__u32 payload_bytes;
	__u8 mode; // protocol of the outer IP header
	__u8 protocol; // IPPROTO_IPIP or IPPROTO_IPV6: the family of the inner packet
	__u8 ecn; // ECN field of the outer IP header
};

static __always_inline int count(enum weir_decap_result result, __u32 bytes, int verdict) {
	__u32 key = result;
	struct weir_decap_counter *counter = bpf_map_lookup_elem(&weir_decap_counters, &key);

	if (counter) {
		counter->packets++;
		counter->bytes += bytes;
	}
	return verdict;
}

// Converts a length to host order. The verifier of Linux 6.1 accepts a packet offset only if its
// upper bound is known, and assumes no bound for the result of bpf_ntohs. Therefore the length is
// masked to 16 bits. The mask is written in assembly, because clang would remove a mask that does
// not change the value.
static __always_inline __u32 length_of(__be16 word) {
	__u64 length = bpf_ntohs(word);

	asm volatile("%0 &= 0xffff" : "+r"(length));
	return length;
}

static __always_inline bool is_ours(__u8 family, const void *address, __u32 bytes) {
	struct weir_decap_address key = {.family = family};

	__builtin_memcpy(key.address, address, bytes);
	return bpf_map_lookup_elem(&weir_decap_addresses, &key) != NULL;
}

static __always_inline bool may_send(__u8 family, const void *address, __u32 bytes) {
	struct weir_decap_prefix key = {.bits = 8 + bytes * 8, .family = family};

	if (!check_sources) {
		return true;
	}
	__builtin_memcpy(key.address, address, bytes);
	return bpf_map_lookup_elem(&weir_decap_sources, &key) != NULL;
}

// Stores the source of a refused packet for user space, because tcpdump cannot capture packets that
// an XDP program drops.
static __always_inline int refuse(__u8 family, const void *address, __u32 bytes) {
	struct weir_decap_address source = {.family = family};
	__u32 key = 0;
	struct weir_decap_refused *refused = bpf_map_lookup_elem(&weir_decap_refused, &key);

	if (refused) {
		__builtin_memcpy(source.address, address, bytes);
		refused->source = source;
		refused->time_ns = bpf_ktime_get_ns();
	}
	return WEIR_DECAP_SOURCE;
}

// Returns true if the checksum of an IPv4 header is correct. Returns false if the checksum is
// wrong, or if the frame ends inside the header.
static __always_inline bool ipv4_checksum_holds(const struct iphdr *ip, void *end) {
	const __u16 *word = (const void *)ip;
	__u32 words = ip->ihl * 2, sum = 0;

	for (__u32 i = 0; i < 30; i++, word++) {
		if (i >= words) {
			break;
		}
		// Without this line, clang would do arithmetic on `end`, which the verifier
		// rejects.
		asm volatile("" : "+r"(word));
		if ((void *)(word + 1) > end) {
			return false;
		}
		sum += *word;
	}
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff;
}

static __always_inline bool is_gre(const struct gre_header *gre, void *end) {
	return (void *)(gre + 1) <= end && !(gre->flags & ~(GRE_KEY | GRE_IGNORED)) &&
	       (gre->type == bpf_htons(ETH_P_IP) || gre->type == bpf_htons(ETH_P_IPV6));
}

// Returns true if a packet has the outer headers of an accepted mode. protocol: protocol of the
// outer IP header. next: the header after the outer IP header.
static __always_inline bool is_tunnel(__u8 protocol, void *next, void *end) {
	const struct udphdr *udp = next;

	switch (protocol) {
	case IPPROTO_IPIP:
	case IPPROTO_IPV6:
		return accept_ipip;
	case IPPROTO_UDP:
		return gue_port && (void *)(udp + 1) <= end && udp->dest == bpf_htons(gue_port);
	case IPPROTO_GRE:
		return accept_gre && is_gre(next, end);
	}
	return false;
}

// The functions parse_* and set_inner_* return the action for a packet. WEIR_DECAP_DECAPSULATED =
// continue with the decapsulation. NOT_OURS = pass the packet to the kernel. WEIR_DECAP_GRE_KEY =
// pass the packet to the kernel, and count the result. Any other result = drop the packet, and
// count the result.
#define NOT_OURS (-1)

// Parses a UDP header and a GUE header. A UDP checksum is not verified, because the time would grow
// with the length of the packet. The balancers send the checksum 0 (RFC 6935), so a packet with
// another checksum is dropped.
static __always_inline int parse_gue(struct tunnel *tunnel, void *end) {
	const struct gue_header *gue = tunnel->inner;
	__u32 bytes;

	if ((void *)(gue + 1) > end) {
		return WEIR_DECAP_OUTER;
	}
	bytes = length_of(gue->udp.len);
	if (bytes < sizeof(*gue) || bytes > tunnel->payload_bytes) {
		return WEIR_DECAP_OUTER;
	}
	if (gue->udp.check) {
		return WEIR_DECAP_UDP_CHECKSUM;
	}
	// The GUE draft requires a receiver to drop packets with an unknown version, flag or
	// control message.
	if (gue->first || gue->flags ||
		(gue->protocol != IPPROTO_IPIP && gue->protocol != IPPROTO_IPV6)) {
		return WEIR_DECAP_GUE_HEADER;
	}
	tunnel->inner += sizeof(*gue);
	tunnel->header_bytes += sizeof(*gue);
	tunnel->payload_bytes = bytes - sizeof(*gue);
	tunnel->protocol = gue->protocol;
	return WEIR_DECAP_DECAPSULATED;
}

static __always_inline int parse_gre(struct tunnel *tunnel, void *end) {
	const struct gre_header *gre = tunnel->inner;
	__u32 bytes = sizeof(*gre);

	if ((void *)(gre + 1) >
		end) { // checked in is_gre already, but the verifier requires it here too
		return WEIR_DECAP_OUTER;
	}
	if (gre->flags & GRE_KEY) {
		bytes += sizeof(gre->key[0]);
		if ((void *)(gre->key + 1) > end) {
			return WEIR_DECAP_OUTER;
		}
		if (gre_key && gre->key[0] != bpf_htonl(gre_key)) {
			return WEIR_DECAP_GRE_KEY;
		}
	} else if (gre_key) {
		return WEIR_DECAP_GRE_KEY;
	}
	if (tunnel->payload_bytes < bytes) {
		return WEIR_DECAP_OUTER;
	}
	tunnel->inner += bytes;
	tunnel->header_bytes += bytes;
	tunnel->payload_bytes -= bytes;
	tunnel->protocol = gre->type == bpf_htons(ETH_P_IP) ? IPPROTO_IPIP : IPPROTO_IPV6;
	return WEIR_DECAP_DECAPSULATED;
}

// Parses the headers between the outer IP header and the inner packet, and stores the results in
// *tunnel.
static __always_inline int parse_between(struct tunnel *tunnel, void *end) {
	switch (tunnel->mode) {
	case IPPROTO_UDP:
		return parse_gue(tunnel, end);
	case IPPROTO_GRE:
		return parse_gre(tunnel, end);
	}
	tunnel->protocol = tunnel->mode;
	return WEIR_DECAP_DECAPSULATED;
}

// Returns true if an IPv4 packet has the outer headers of an accepted mode, and is addressed to
// this host. If a UDP or GRE packet is fragmented, only the first fragment has the header that
// identifies a tunnel. Therefore the function returns false for all later fragments of such a
// packet. These fragments go to the kernel, which cannot reassemble the packet if this program
// drops the first fragment.
static __always_inline bool is_ipv4_tunnel(const struct iphdr *ip, void *end) {
	if (ip->protocol != IPPROTO_IPIP && ip->protocol != IPPROTO_IPV6 &&
		(ip->frag_off & IPV4_OFFSET)) {
		return false;
	}
	return is_tunnel(ip->protocol, (void *)ip + ip->ihl * 4, end) && is_ours(4, &ip->daddr, 4);
}

static __always_inline int parse_outer_ipv4(void *at, void *end, struct tunnel *tunnel) {
	struct iphdr *ip = at;
	__u32 total, header;
	int result;

	if ((void *)(ip + 1) > end || !is_ipv4_tunnel(ip, end)) {
		return NOT_OURS;
	}
	header = ip->ihl * 4;
	total = length_of(ip->tot_len);
	if (ip->version != 4 || header < sizeof(*ip) || total < header || at + total > end) {
		return WEIR_DECAP_OUTER;
	}
	if (!ipv4_checksum_holds(ip, end)) {
		return WEIR_DECAP_CHECKSUM;
	}
	tunnel->inner = at + header;
	tunnel->header_bytes = header;
	tunnel->payload_bytes = total - header;
	tunnel->mode = ip->protocol;
	tunnel->ecn = ip->tos & ECN_MASK;
	result = parse_between(tunnel, end);
	if (result == WEIR_DECAP_GRE_KEY) {
		return result;
	}
	if (!may_send(4, &ip->saddr, 4)) {
		return refuse(4, &ip->saddr, 4);
	}
	return ip->frag_off & IPV4_FRAGMENT ? WEIR_DECAP_FRAGMENT : result;
}

static __always_inline int parse_outer_ipv6(void *at, void *end, struct tunnel *tunnel) {
	struct ipv6hdr *ip = at;
	__u32 payload;
	int result;

	if ((void *)(ip + 1) > end || !is_tunnel(ip->nexthdr, ip + 1, end) ||
		!is_ours(6, &ip->daddr, 16)) {
		return NOT_OURS;
	}
	payload = length_of(ip->payload_len);
	if (ip->version != 6 || (void *)(ip + 1) + payload > end) {
		return WEIR_DECAP_OUTER;
	}
	tunnel->inner = ip + 1;
	tunnel->header_bytes = sizeof(*ip);
	tunnel->payload_bytes = payload;
	tunnel->mode = ip->nexthdr;
	tunnel->ecn = ip->flow_lbl[0] >> 4 & ECN_MASK;
	result = parse_between(tunnel, end);
	if (result == WEIR_DECAP_GRE_KEY) {
		return result;
	}
	return may_send(6, &ip->saddr, 16) ? result : refuse(6, &ip->saddr, 16);
}

// Combines the ECN fields of the inner and the outer header (RFC 6040, figure 4). Returns the ECN
// field of the packet to pass on, or -1 if the packet must be dropped.
static __always_inline int ecn_of(__u8 inner, __u8 outer) {
	if (outer == ECN_CE) {
		return inner == ECN_NOT_ECT ? -1 : ECN_CE;
	}
	return outer == ECN_ECT1 && inner == ECN_ECT0 ? ECN_ECT1 : inner;
}

static __always_inline int set_inner_ipv4(const struct tunnel *tunnel, void *end, bool *marked) {
	struct iphdr *ip = tunnel->inner;
	__u32 total, sum;
	int ecn;

	if ((void *)(ip + 1) > end || ip->version != 4 || ip->ihl < 5) {
		return WEIR_DECAP_INNER;
	}
	total = bpf_ntohs(ip->tot_len);
	if (total < ip->ihl * 4u || total > tunnel->payload_bytes) {
		return WEIR_DECAP_INNER;
	}
	ecn = ecn_of(ip->tos & ECN_MASK, tunnel->ecn);
	if (ecn < 0) {
		return WEIR_DECAP_ECN;
	}
	if (ecn != (ip->tos & ECN_MASK)) {
		__u8 tos = (ip->tos & ~ECN_MASK) | ecn;

		// Update the checksum as in RFC 1624: HC' = ~(~HC + ~m + m'). The changed word m
		// holds version, header length and TOS. Only its low byte, the TOS, changes, so the
		// high byte can be 0 in both m and m'.
		sum = (__u16)~ip->check + (__u16)~bpf_htons(ip->tos) + bpf_htons(tos);
		sum = (sum & 0xffff) + (sum >> 16);
		sum = (sum & 0xffff) + (sum >> 16);
		ip->check = ~sum;
		ip->tos = tos;
		*marked = ecn == ECN_CE;
	}
	return WEIR_DECAP_DECAPSULATED;
}

static __always_inline int set_inner_ipv6(const struct tunnel *tunnel, void *end, bool *marked) {
	struct ipv6hdr *ip = tunnel->inner;
	int ecn, was;

	if ((void *)(ip + 1) > end || ip->version != 6 ||
		sizeof(*ip) + bpf_ntohs(ip->payload_len) > tunnel->payload_bytes) {
		return WEIR_DECAP_INNER;
	}
	was = ip->flow_lbl[0] >> 4 & ECN_MASK;
	ecn = ecn_of(was, tunnel->ecn);
	if (ecn < 0) {
		return WEIR_DECAP_ECN;
	}
	if (ecn != was) {
		ip->flow_lbl[0] = (ip->flow_lbl[0] & 0xcf) | ecn << 4;
		*marked = ecn == ECN_CE;
	}
	return WEIR_DECAP_DECAPSULATED;
}

// Moves the Ethernet header and the VLAN tags directly in front of the inner packet. l2_bytes: the
// length of the Ethernet header and the VLAN tags; each caller passes a constant. header_bytes: the
// length of the outer headers to remove. type: the EtherType of the inner packet, in network order.
// Returns false if the kernel could not remove the outer headers.
static __always_inline bool remove_header(
	struct xdp_md *ctx, __u32 l2_bytes, __u32 header_bytes, __be16 type) {
	void *data = (void *)(long)ctx->data;
	__u8 l2[L2_BYTES_MAX];

	if (data + l2_bytes > (void *)(long)ctx->data_end) {
		return false;
	}
	__builtin_memcpy(l2, data, l2_bytes);
	if (bpf_xdp_adjust_head(ctx, header_bytes)) {
		return false;
	}
	data = (void *)(long)ctx->data;
	if (data + l2_bytes > (void *)(long)ctx->data_end) {
		return false;
	}
	__builtin_memcpy(data, l2, l2_bytes);
	*(__be16 *)(data + l2_bytes - sizeof(type)) = type;
	return true;
}

static __always_inline bool remove_outer(
	struct xdp_md *ctx, __u32 l2_bytes, struct tunnel *tunnel) {
	__be16 type = bpf_htons(tunnel->protocol == IPPROTO_IPIP ? ETH_P_IP : ETH_P_IPV6);

	switch (l2_bytes) {
	case ETH_HLEN:
		return remove_header(ctx, ETH_HLEN, tunnel->header_bytes, type);
	case ETH_HLEN + 4:
		return remove_header(ctx, ETH_HLEN + 4, tunnel->header_bytes, type);
	default:
		return remove_header(ctx, ETH_HLEN + 8, tunnel->header_bytes, type);
	}
}

// Counts a decapsulated packet: in WEIR_DECAP_DECAPSULATED, in the counter of its forwarding mode
// (GUE and GRE only), and, if `marked` is set, in WEIR_DECAP_MARKED. mode: protocol of the outer IP
// header. bytes: length of the outer IP packet. Returns the XDP action for the packet.
static __always_inline int count_decapsulated(__u8 mode, bool marked, __u32 bytes) {
	if (mode == IPPROTO_UDP) {
		count(WEIR_DECAP_GUE, bytes, XDP_PASS);
	} else if (mode == IPPROTO_GRE) {
		count(WEIR_DECAP_GRE, bytes, XDP_PASS);
	}
	if (marked) {
		count(WEIR_DECAP_MARKED, bytes, XDP_PASS);
	}
	return count(WEIR_DECAP_DECAPSULATED, bytes, XDP_PASS);
}

SEC("xdp")
int weir_decap(struct xdp_md *ctx) {
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	struct tunnel tunnel = {0};
	void *at = data;
	int result = NOT_OURS;
	bool marked = false;
	__u32 l2_bytes, bytes;

	switch (skip_ethernet(&at, end)) {
	case bpf_htons(ETH_P_IP):
		result = parse_outer_ipv4(at, end, &tunnel);
		break;
	case bpf_htons(ETH_P_IPV6):
		result = parse_outer_ipv6(at, end, &tunnel);
		break;
	}
	if (result == NOT_OURS) {
		return XDP_PASS;
	}
	l2_bytes = at - data;
	bytes = end - at;
	if (result == WEIR_DECAP_DECAPSULATED) {
		bytes = tunnel.header_bytes + tunnel.payload_bytes;
		result = tunnel.protocol == IPPROTO_IPIP ? set_inner_ipv4(&tunnel, end, &marked)
							 : set_inner_ipv6(&tunnel, end, &marked);
	}
	if (result == WEIR_DECAP_DECAPSULATED && !remove_outer(ctx, l2_bytes, &tunnel)) {
		result = WEIR_DECAP_FAILED;
	}
	if (result != WEIR_DECAP_DECAPSULATED) {
		return count(result, bytes, result == WEIR_DECAP_GRE_KEY ? XDP_PASS : XDP_DROP);
	}
	return count_decapsulated(tunnel.mode, marked, bytes);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
