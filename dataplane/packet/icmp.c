// SPDX-License-Identifier: BSD-3-Clause
#include "icmp.h"

#include <errno.h>

#include <rte_ip.h>

#include "encap.h"
#include "parse.h"

#define REPLY_TTL 64
#define SECOND_NS 1000000000ull

#define ICMP4_BYTES_MAX 576 // RFC 1812, 4.3.2.3: maximum length of an error message
#define ICMP6_BYTES_MAX 1280 // RFC 4443, 3.2: the minimum IPv6 MTU
#define ICMP4_TOS 0xc0 // IP precedence of ICMP errors: internetwork control (RFC 1812, 4.3.2.5)

#define ICMP4_ECHO_REPLY 0
#define ICMP6_ECHO_REPLY 129
#define ICMP4_UNREACHABLE 3
#define ICMP4_FRAGMENTATION_NEEDED 4
#define ICMP4_PORT_UNREACHABLE 3
#define ICMP6_UNREACHABLE 1
#define ICMP6_TOO_BIG 2
#define ICMP6_PORT_UNREACHABLE 4

// --- rate -----------------------------------------------------------------------------------

void weir_icmp_limit_init(struct weir_icmp_limit *limit, uint32_t replies_per_second) {
	limit->cost_ns = replies_per_second == 0 ? UINT64_MAX : SECOND_NS / replies_per_second;
	limit->credit_ns = SECOND_NS;
	limit->last_ns = 0;
}

bool weir_icmp_limit_ready(struct weir_icmp_limit *limit, uint64_t now_ns) {
	limit->credit_ns += RTE_MIN(now_ns - limit->last_ns, SECOND_NS);
	limit->credit_ns = RTE_MIN(limit->credit_ns, SECOND_NS);
	limit->last_ns = now_ns;
	return limit->credit_ns >= limit->cost_ns;
}

void weir_icmp_limit_take(struct weir_icmp_limit *limit) {
	limit->credit_ns -= limit->cost_ns;
}

// --- the packet that an error quotes --------------------------------------------------------

static int quoted_ipv4(
	const uint8_t *ip, uint32_t bytes, struct weir_flow_key *key, uint32_t *ret_l4_offset) {
	uint32_t header_bytes;

	if (bytes < WEIR_IPV4_BYTES || ip[0] >> 4 != 4) {
		return -EBADMSG;
	}
	header_bytes = (uint32_t)(ip[0] & 0x0f) * 4;
	if (header_bytes < WEIR_IPV4_BYTES ||
		rte_be_to_cpu_16(weir_load16(ip + 2)) < header_bytes) {
		return -EBADMSG;
	}
	// A fragment other than the first contains no ports.
	if ((weir_load16(ip + 6) & RTE_BE16(0x1fff)) != 0) {
		return -ENOENT;
	}
	memcpy(key->source, ip + 16, 4);
	memcpy(key->destination, ip + 12, 4);
	key->protocol = ip[9];
	*ret_l4_offset = header_bytes;
	return 0;
}

static int quoted_ipv6(
	const uint8_t *ip, uint32_t bytes, struct weir_flow_key *key, uint32_t *ret_l4_offset) {
	struct weir_ipv6_chain chain;

	if (bytes < WEIR_IPV6_BYTES || ip[0] >> 4 != 6 ||
		weir_parse_ipv6_chain(ip, bytes, &chain) < 0) {
		return -EBADMSG;
	}
	if (chain.later) {
		return -ENOENT;
	}
	memcpy(key->source, ip + 24, 16);
	memcpy(key->destination, ip + 8, 16);
	key->protocol = chain.protocol;
	*ret_l4_offset = chain.offset;
	return 0;
}

int weir_icmp_error_flow(
	const struct rte_mbuf *m, const struct weir_descriptor *d, struct weir_flow_key *ret) {
	struct weir_flow_key key = {.family = d->key.family};
	uint32_t start = (uint32_t)d->l4_offset + WEIR_ICMP_BYTES;
	uint32_t readable = RTE_MIN((uint32_t)m->data_len - d->l3_offset, d->ip_bytes);
	const uint8_t *ip = rte_pktmbuf_mtod_offset(m, const uint8_t *, d->l3_offset + start);
	uint32_t bytes = readable - start; // parse.c has checked that the ICMP header is complete
	uint32_t l4_offset;
	int r;

	r = key.family == 4 ? quoted_ipv4(ip, bytes, &key, &l4_offset)
			    : quoted_ipv6(ip, bytes, &key, &l4_offset);
	if (r < 0) {
		return r;
	}
	if ((key.protocol != WEIR_PROTOCOL_TCP && key.protocol != WEIR_PROTOCOL_UDP) ||
		memcmp(key.destination, d->key.destination, sizeof(key.destination)) != 0) {
		return -ENOENT;
	}
	if (bytes < l4_offset + 8) { // an error must quote 8 bytes after the IP header (RFC 792)
		return -EBADMSG;
	}
	key.source_port = weir_load16(ip + l4_offset + 2);
	key.destination_port = weir_load16(ip + l4_offset);
	*ret = key;
	return 0;
}

// --- replies --------------------------------------------------------------------------------

static void swap_bytes(uint8_t *a, uint8_t *b, size_t bytes) {
	uint8_t saved[16];

	memcpy(saved, a, bytes);
	memcpy(a, b, bytes);
	memcpy(b, saved, bytes);
}

// Returns the bytes of headroom that are needed to restore a tag that the NIC stripped, or 0.
uint32_t weir_icmp_reply_headroom(const struct rte_mbuf *m) {
	return (m->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED) != 0 ? WEIR_VLAN_BYTES : 0;
}

// Same as rte_pktmbuf_prepend, but the caller must have checked the headroom.
static uint8_t *prepend(struct rte_mbuf *m, uint32_t bytes) {
	m->data_off = (uint16_t)(m->data_off - bytes);
	m->data_len = (uint16_t)(m->data_len + bytes);
	m->pkt_len += bytes;
	return rte_pktmbuf_mtod(m, uint8_t *);
}

// Swap the MAC addresses, so that the frame goes to the sender of the packet. The packet must have
// headroom for a stripped tag.
void weir_icmp_reply_l2(struct rte_mbuf *m) {
	uint8_t *frame = rte_pktmbuf_mtod(m, uint8_t *);

	swap_bytes(frame, frame + 6, 6);
	if (weir_icmp_reply_headroom(m) > 0) {
		frame = prepend(m, WEIR_VLAN_BYTES);
		memmove(frame, frame + WEIR_VLAN_BYTES, 12);
		weir_store16(frame + 12, RTE_BE16(WEIR_ETHERTYPE_VLAN));
		weir_store16(frame + 14, rte_cpu_to_be_16(m->vlan_tci));
		m->ol_flags &= ~(uint64_t)(RTE_MBUF_F_RX_VLAN | RTE_MBUF_F_RX_VLAN_STRIPPED);
	}
	weir_encap_pad(m);
}

// Returns the sum of a pseudo-header. addresses: source and destination, adjacent.
static uint32_t pseudo_sum_of(
	const uint8_t *addresses, uint32_t address_bytes, uint32_t bytes, uint8_t protocol) {
	uint32_t sum = rte_raw_cksum(addresses, address_bytes);

	return sum + rte_cpu_to_be_16((uint16_t)bytes) + rte_cpu_to_be_16(protocol);
}

// Returns the sum of the pseudo-header of ICMPv6.
static uint32_t pseudo_sum(const uint8_t *addresses, uint32_t bytes) {
	return pseudo_sum_of(addresses, 32, bytes, WEIR_PROTOCOL_ICMPV6);
}

// Returns the sum of the packet's bytes [offset, offset + bytes), which must exist, over all its
// segments. (rte_raw_cksum_mbuf of DPDK 22.11 loses carries when a segment begins at an odd byte.)
static uint32_t packet_sum(const struct rte_mbuf *m, uint32_t offset, uint32_t bytes) {
	uint32_t sum = 0, done = 0;

	for (; m != NULL && done < bytes; m = m->next) {
		uint32_t n =
			RTE_MIN(m->data_len - RTE_MIN(offset, (uint32_t)m->data_len), bytes - done);
		uint16_t part;

		if (n > 0) {
			part = rte_raw_cksum(rte_pktmbuf_mtod_offset(m, const void *, offset), n);
			sum += done % 2 == 0 ? part : rte_bswap16(part);
		}
		offset -= RTE_MIN(offset, (uint32_t)m->data_len);
		done += n;
	}
	return sum;
}

bool weir_icmp_l4_checksum_good(const struct rte_mbuf *m, const struct weir_descriptor *d) {
	uint32_t offset = (uint32_t)d->l3_offset + d->l4_offset;
	uint32_t bytes = d->ip_bytes - d->l4_offset;
	const uint8_t *ip = rte_pktmbuf_mtod_offset(m, const uint8_t *, d->l3_offset);
	uint8_t protocol = d->key.protocol;
	uint64_t sum = 0;

	if (protocol == WEIR_PROTOCOL_UDP) {
		if (weir_load16(ip + d->l4_offset + 6) == 0) {
			return d->key.family == 4;
		}
		bytes = rte_be_to_cpu_16(weir_load16(ip + d->l4_offset + 4));
	}
	if (protocol != WEIR_PROTOCOL_ICMP) {
		sum = d->key.family == 6 ? pseudo_sum_of(ip + 8, 32, bytes, protocol)
					 : pseudo_sum_of(ip + 12, 8, bytes, protocol);
	}

	return weir_checksum_fold(sum + packet_sum(m, offset, bytes)) == 0xffff;
}

static void echo_type(uint8_t *icmp, uint8_t type) {
	uint16_t before = weir_load16(icmp);

	icmp[0] = type;
	weir_store16(
		icmp + 2, weir_checksum_update(weir_load16(icmp + 2), before, weir_load16(icmp)));
}

// If all bits of a message except its checksum are 0, the sum is 0 and the checksum must be 0xffff.
// The incremental update gives the checksum 0 instead: it computes the sum 0xffff, the other
// representation of zero in one's complement.
static void correct_zero_sum(struct rte_mbuf *m, uint32_t offset, uint32_t bytes) {
	uint8_t *icmp = rte_pktmbuf_mtod_offset(m, uint8_t *, offset);

	if (unlikely(weir_load16(icmp + 2) == 0) && packet_sum(m, offset, bytes) == 0) {
		weir_store16(icmp + 2, 0xffff);
	}
}

int weir_icmp_echo_reply(struct rte_mbuf *m, const struct weir_descriptor *d) {
	uint32_t header_bytes = d->key.family == 4 ? WEIR_IPV4_BYTES : WEIR_IPV6_BYTES;
	uint32_t extra = d->l4_offset - header_bytes; // options or extension headers
	uint32_t l3_bytes = d->ip_bytes - extra;
	uint8_t *ip;

	if (!weir_icmp_l4_checksum_good(m, d)) {
		return -EBADMSG;
	}
	if (rte_pktmbuf_headroom(m) + extra < weir_icmp_reply_headroom(m)) {
		return -ENOBUFS;
	}
	if (extra > 0) {
		uint8_t *frame = rte_pktmbuf_mtod(m, uint8_t *);

		memmove(frame + extra, frame, d->l3_offset + header_bytes);
		rte_pktmbuf_adj(m, (uint16_t)extra);
	}
	weir_encap_cut(m, d->l3_offset + l3_bytes);
	ip = rte_pktmbuf_mtod_offset(m, uint8_t *, d->l3_offset);
	// Swapping the addresses does not change checksums that include both addresses.
	if (d->key.family == 4) {
		swap_bytes(ip + 12, ip + 16, 4);
		ip[0] = 0x45;
		weir_store16(ip + 2, rte_cpu_to_be_16((uint16_t)l3_bytes));
		ip[8] = REPLY_TTL;
		weir_store16(ip + 10, 0);
		weir_store16(ip + 10, (uint16_t)~weir_checksum_ipv4(ip));
		echo_type(ip + header_bytes, ICMP4_ECHO_REPLY);
		correct_zero_sum(m, d->l3_offset + header_bytes, l3_bytes - header_bytes);
	} else {
		swap_bytes(ip + 8, ip + 24, 16);
		weir_store16(ip + 4, rte_cpu_to_be_16((uint16_t)(l3_bytes - WEIR_IPV6_BYTES)));
		ip[6] = WEIR_PROTOCOL_ICMPV6;
		ip[7] = REPLY_TTL;
		echo_type(ip + header_bytes, ICMP6_ECHO_REPLY);
	}
	weir_icmp_reply_l2(m);
	return 0;
}

// An ICMP error message to write. type4 (ICMP), type6 (ICMPv6): the type in the upper byte, the
// code in the lower byte. mtu: MTU of the next hop, or 0.
struct error {
	uint16_t type4, type6;
	uint16_t mtu;
};

// Write the IPv4 and ICMP headers of an error at ip, in front of the quoted packet.
static void error_ipv4(
	uint8_t *ip, const uint8_t *quoted, uint32_t quoted_bytes, const struct error *error) {
	uint8_t *icmp = ip + WEIR_IPV4_BYTES;
	uint32_t bytes = WEIR_IPV4_BYTES + WEIR_ICMP_BYTES + quoted_bytes;

	memset(ip, 0, WEIR_IPV4_BYTES + WEIR_ICMP_BYTES);
	ip[0] = 0x45;
	ip[1] = ICMP4_TOS;
	weir_store16(ip + 2, rte_cpu_to_be_16((uint16_t)bytes));
	weir_store16(ip + 6, RTE_BE16(0x4000)); // with DF, the identification may be 0
	ip[8] = REPLY_TTL;
	ip[9] = WEIR_PROTOCOL_ICMP;
	memcpy(ip + 12, quoted + 16, 4);
	memcpy(ip + 16, quoted + 12, 4);
	weir_store16(ip + 10, (uint16_t)~weir_checksum_ipv4(ip));
	weir_store16(icmp, rte_cpu_to_be_16(error->type4));
	weir_store16(icmp + 6, rte_cpu_to_be_16(error->mtu));
	weir_store16(icmp + 2, (uint16_t)~rte_raw_cksum(icmp, WEIR_ICMP_BYTES + quoted_bytes));
}

static void error_ipv6(
	uint8_t *ip, const uint8_t *quoted, uint32_t quoted_bytes, const struct error *error) {
	uint8_t *icmp = ip + WEIR_IPV6_BYTES;
	uint32_t bytes = WEIR_ICMP_BYTES + quoted_bytes;
	uint64_t sum;

	memset(ip, 0, WEIR_IPV6_BYTES + WEIR_ICMP_BYTES);
	ip[0] = 0x60;
	weir_store16(ip + 4, rte_cpu_to_be_16((uint16_t)bytes));
	ip[6] = WEIR_PROTOCOL_ICMPV6;
	ip[7] = REPLY_TTL;
	memcpy(ip + 8, quoted + 24, 16);
	memcpy(ip + 24, quoted + 8, 16);
	weir_store16(icmp, rte_cpu_to_be_16(error->type6));
	weir_store32(icmp + 4, rte_cpu_to_be_32(error->mtu));
	sum = (uint64_t)pseudo_sum(ip + 8, bytes) + rte_raw_cksum(icmp, bytes);
	weir_store16(icmp + 2, (uint16_t)~weir_checksum_fold(sum));
}

static int make_error(
	struct rte_mbuf *m, const struct weir_descriptor *d, const struct error *error) {
	bool ipv4 = d->key.family == 4;
	uint32_t head = (ipv4 ? WEIR_IPV4_BYTES : WEIR_IPV6_BYTES) + WEIR_ICMP_BYTES;
	uint32_t quoted = RTE_MIN(d->ip_bytes, (uint32_t)m->data_len - d->l3_offset);
	uint8_t *frame = rte_pktmbuf_mtod(m, uint8_t *);

	quoted = RTE_MIN(quoted, (ipv4 ? ICMP4_BYTES_MAX : ICMP6_BYTES_MAX) - head);
	if (rte_pktmbuf_headroom(m) < head + weir_icmp_reply_headroom(m)) {
		return -ENOBUFS;
	}
	weir_encap_cut(m, d->l3_offset + quoted);
	memmove(prepend(m, head), frame, d->l3_offset);
	if (ipv4) {
		error_ipv4(frame + d->l3_offset - head, frame + d->l3_offset, quoted, error);
	} else {
		error_ipv6(frame + d->l3_offset - head, frame + d->l3_offset, quoted, error);
	}
	weir_icmp_reply_l2(m);
	return 0;
}

int weir_icmp_too_big(struct rte_mbuf *m, const struct weir_descriptor *d, uint16_t mtu) {
	const struct error error = {.type4 = ICMP4_UNREACHABLE << 8 | ICMP4_FRAGMENTATION_NEEDED,
		.type6 = ICMP6_TOO_BIG << 8,
		.mtu = mtu};

	return make_error(m, d, &error);
}

int weir_icmp_port_unreachable(struct rte_mbuf *m, const struct weir_descriptor *d) {
	const struct error error = {.type4 = ICMP4_UNREACHABLE << 8 | ICMP4_PORT_UNREACHABLE,
		.type6 = ICMP6_UNREACHABLE << 8 | ICMP6_PORT_UNREACHABLE};

	return make_error(m, d, &error);
}
