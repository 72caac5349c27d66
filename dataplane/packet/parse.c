// SPDX-License-Identifier: BSD-3-Clause
#include "parse.h"

#include <errno.h>

#include "ipv6_chain.h"

#define VLAN_TAGS_MAX 2

#define NO WEIR_TCP_INVALID
#define SYN WEIR_FLOW_EVENT_SYN
#define FIN WEIR_FLOW_EVENT_FIN
#define RST WEIR_FLOW_EVENT_RST
#define DAT WEIR_FLOW_EVENT_DATA

// Table of the events of all combinations of TCP flags. Valid combinations are SYN, SYN ACK, RST,
// RST ACK, ACK and FIN ACK, each with or without PSH and URG. No TCP implementation sends other
// combinations, for instance a segment without flags, a FIN without ACK, data without ACK, or a
// segment with two of the flags SYN, FIN and RST.

// clang-format off
#define FLAGS \
	/*            FIN  SYN  S+F  RST  R+F  R+S  RSF */ \
	/*         */ NO,  NO,  SYN, NO,  RST, NO,  NO,  NO, \
	/* PSH     */ NO,  NO,  SYN, NO,  RST, NO,  NO,  NO, \
	/* ACK     */ DAT, FIN, DAT, NO,  RST, NO,  NO,  NO, \
	/* ACK PSH */ DAT, FIN, DAT, NO,  RST, NO,  NO,  NO, \
	/* URG     */ NO,  NO,  SYN, NO,  RST, NO,  NO,  NO, \
	/* URG PSH */ NO,  NO,  SYN, NO,  RST, NO,  NO,  NO, \
	/* URG ACK */ DAT, FIN, DAT, NO,  RST, NO,  NO,  NO, \
	/* all     */ DAT, FIN, DAT, NO,  RST, NO,  NO,  NO,
// clang-format on

const struct weir_parse_tables weir_parse_tables = {
	// The highest two bits are ECE and CWR (ECN).
	.tcp_event = {FLAGS FLAGS FLAGS FLAGS},
	// IPv4 sources that may be martian: 0.x, 127.x, and 224.x or higher.
	.martian_source4 = {[0] = WEIR_PARSE_REFUSED,
		[127] = WEIR_PARSE_REFUSED,
		[224 ... 255] = WEIR_PARSE_REFUSED},
	// IPv6 sources that may be martian: unspecified, loopback and IPv4-mapped addresses begin
	// with byte 0, multicast addresses with byte 255.
	.martian_source6 = {[0] = WEIR_PARSE_REFUSED, [255] = WEIR_PARSE_REFUSED},
};

#undef FLAGS
#undef NO
#undef SYN
#undef FIN
#undef RST
#undef DAT

// --- verdicts -------------------------------------------------------------------------------

static void broken(struct weir_descriptor *d, enum weir_drop_reason reason) {
	d->kind = WEIR_PACKET_BROKEN;
	d->verdict.reason = (uint8_t)reason;
}

static void suspect(struct weir_descriptor *d, enum weir_drop_reason reason) {
	d->kind = WEIR_PACKET_SUSPECT;
	d->verdict.reason = (uint8_t)reason;
}

// --- L4 -------------------------------------------------------------------------------------

// An IP packet: pointer to its first byte, number of readable bytes, and length.
struct ip_packet {
	const uint8_t *data;
	uint32_t readable;
	uint32_t bytes;
};

// A first fragment must contain the complete header, so that no later fragment can change the
// header (RFC 1858).
static void truncated(struct weir_descriptor *d, bool fragment, enum weir_drop_reason reason) {
	suspect(d, fragment ? WEIR_DROP_FRAGMENT_TINY : reason);
}

static void parse_tcp(
	struct weir_descriptor *d, const struct ip_packet *ip, uint32_t l4_bytes, bool fragment) {
	const uint8_t *tcp = ip->data + d->l4_offset;
	uint32_t header_bytes;

	if (ip->readable < (uint32_t)d->l4_offset + WEIR_TCP_BYTES) {
		truncated(d, fragment, WEIR_DROP_TCP_TRUNCATED);
		return;
	}
	header_bytes = (uint32_t)(tcp[12] >> 4) * 4;
	if (header_bytes < WEIR_TCP_BYTES || header_bytes > l4_bytes) {
		truncated(
			d, fragment && header_bytes >= WEIR_TCP_BYTES, WEIR_DROP_TCP_HEADER_LENGTH);
		return;
	}
	d->event = weir_parse_tables.tcp_event[tcp[13]];
	if (d->event == WEIR_TCP_INVALID) {
		suspect(d, WEIR_DROP_TCP_FLAGS);
		return;
	}
	d->kind = WEIR_PACKET_FLOW;
}

static void parse_udp(
	struct weir_descriptor *d, const struct ip_packet *ip, uint32_t l4_bytes, bool fragment) {
	const uint8_t *udp = ip->data + d->l4_offset;
	uint32_t udp_bytes;

	if (ip->readable < (uint32_t)d->l4_offset + WEIR_UDP_BYTES) {
		truncated(d, fragment, WEIR_DROP_UDP_TRUNCATED);
		return;
	}
	udp_bytes = rte_be_to_cpu_16(weir_load16(udp + 4));
	if (udp_bytes < WEIR_UDP_BYTES || (udp_bytes > l4_bytes && !fragment)) {
		suspect(d, WEIR_DROP_UDP_LENGTH);
		return;
	}
	d->event = WEIR_FLOW_EVENT_DATAGRAM;
	d->kind = WEIR_PACKET_FLOW;
}

static enum weir_packet_kind icmp4_kind(uint8_t type) {
	switch (type) {
	case 8:
		return WEIR_PACKET_ECHO;
	case 3: // destination unreachable, fragmentation needed
	case 11: // time exceeded
	case 12: // parameter problem
		return WEIR_PACKET_ICMP_ERROR;
	default:
		return WEIR_PACKET_OTHER;
	}
}

static enum weir_packet_kind icmp6_kind(uint8_t type) {
	if (type == 128) {
		return WEIR_PACKET_ECHO;
	}
	// Types 1 to 4: unreachable, too big, time exceeded, parameter problem.
	return type >= 1 && type <= 4 ? WEIR_PACKET_ICMP_ERROR : WEIR_PACKET_OTHER;
}

static void parse_icmp(struct weir_descriptor *d, const struct ip_packet *ip) {
	const uint8_t *icmp = ip->data + d->l4_offset;

	if (ip->readable < (uint32_t)d->l4_offset + WEIR_ICMP_BYTES) {
		suspect(d, WEIR_DROP_ICMP_TRUNCATED);
		return;
	}
	d->kind = (uint8_t)(d->key.family == 4 ? icmp4_kind(icmp[0]) : icmp6_kind(icmp[0]));
}

// fragment: the packet is a first fragment.
static void parse_l4(
	struct weir_descriptor *d, const struct ip_packet *ip, uint64_t seed, bool fragment) {
	uint32_t l4_bytes = ip->bytes - d->l4_offset;

	switch (d->key.protocol) {
	case WEIR_PROTOCOL_TCP:
		parse_tcp(d, ip, l4_bytes, fragment);
		break;
	case WEIR_PROTOCOL_UDP:
		parse_udp(d, ip, l4_bytes, fragment);
		break;
	case WEIR_PROTOCOL_ICMP:
	case WEIR_PROTOCOL_ICMPV6:
		// ICMP in IPv6 and ICMPv6 in IPv4 are not valid: the packet stays
		// WEIR_PACKET_OTHER.
		if ((d->key.protocol == WEIR_PROTOCOL_ICMP) == (d->key.family == 4)) {
			parse_icmp(d, ip);
		}
		break;
	default:
		break;
	}
	if (d->kind == WEIR_PACKET_FLOW) {
		memcpy(&d->key.source_port, ip->data + d->l4_offset, 4); // both ports
		d->hash = weir_parse_hash(&d->key, seed);
		if (fragment) {
			d->kind = WEIR_PACKET_FRAGMENT_FIRST;
		}
	}
}

// Only fragments of TCP and UDP are processed. A later IPv6 fragment is accepted here with any
// protocol, because its Next Header field may name an extension header of the datagram instead of
// TCP or UDP.
static void parse_fragment(
	struct weir_descriptor *d, const struct ip_packet *ip, uint64_t seed, bool first) {
	if (!first && d->key.family == 6) {
		d->kind = WEIR_PACKET_FRAGMENT;
	} else if (d->key.protocol != WEIR_PROTOCOL_TCP && d->key.protocol != WEIR_PROTOCOL_UDP) {
		suspect(d, WEIR_DROP_FRAGMENT);
	} else if (first) {
		parse_l4(d, ip, seed, true);
	} else {
		d->kind = WEIR_PACKET_FRAGMENT;
	}
}

// --- martian sources ------------------------------------------------------------------------

// Returns true if the source is multicast, broadcast, loopback, "this network" or the destination
// itself. source and destination are in network byte order, as loaded from the packet.
static bool is_martian_source4(uint32_t source, uint32_t destination) {
	uint8_t first = (uint8_t)source; // little endian: the first byte in the packet
	unsigned int bad = first == 0;

	bad |= first == 127;
	bad |= (first & 0xf0) == 0xe0;
	bad |= source == 0xffffffff;
	bad |= source == destination;
	return bad != 0;
}

// Returns true if the source is multicast, unspecified, loopback, IPv4-mapped or the destination
// itself. No host sends IPv6 packets from an IPv4-mapped address.
static bool is_martian_source6(const uint8_t *source, const uint8_t *destination) {
	uint64_t high = weir_load64(source);
	uint64_t low = weir_load64(source + 8);
	uint64_t low_number = rte_be_to_cpu_64(low);
	unsigned int bad = (uint8_t)high == 0xff;

	bad |= (high | (low_number & ~1ull)) == 0;
	bad |= (high | (low_number >> 32 ^ 0xffff)) == 0;
	bad |= ((high ^ weir_load64(destination)) | (low ^ weir_load64(destination + 8))) == 0;
	return bad != 0;
}

// --- L3 -------------------------------------------------------------------------------------

static bool ipv4_checksum_good(const struct rte_mbuf *m, const uint8_t *ip, uint32_t bytes) {
	uint64_t sum = 0;

	if ((m->ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK) == RTE_MBUF_F_RX_IP_CKSUM_GOOD) {
		return true;
	}
	for (uint32_t i = 0; i < bytes; i += 4) {
		sum += weir_load32(ip + i);
	}
	return weir_checksum_fold(sum) == 0xffff;
}

// bytes: length of the frame from the IP header on. readable: number of these bytes that may be
// read.
static void parse_ipv4(const struct rte_mbuf *m, const uint8_t *ip, uint32_t readable,
	uint32_t bytes, uint64_t seed, struct weir_descriptor *d) {
	struct ip_packet packet = {.data = ip};
	uint32_t header_bytes;

	if (readable < WEIR_IPV4_BYTES) {
		broken(d, WEIR_DROP_IPV4_TRUNCATED);
		return;
	}
	if (ip[0] >> 4 != 4) {
		broken(d, WEIR_DROP_IPV4_VERSION);
		return;
	}
	header_bytes = (uint32_t)(ip[0] & 0x0f) * 4;
	if (header_bytes < WEIR_IPV4_BYTES || header_bytes > readable) {
		broken(d, WEIR_DROP_IPV4_HEADER_LENGTH);
		return;
	}
	packet.bytes = rte_be_to_cpu_16(weir_load16(ip + 2));
	if (packet.bytes < header_bytes || packet.bytes > bytes) {
		broken(d, WEIR_DROP_IPV4_TOTAL_LENGTH);
		return;
	}
	if (!ipv4_checksum_good(m, ip, header_bytes)) {
		broken(d, WEIR_DROP_IPV4_CHECKSUM);
		return;
	}
	packet.readable = RTE_MIN(readable, packet.bytes);
	memcpy(d->key.source, ip + 12, 4);
	memcpy(d->key.destination, ip + 16, 4);
	d->key.family = 4;
	d->key.protocol = ip[9];
	d->tos = ip[1];
	d->ip_bytes = packet.bytes;
	d->l4_offset = (uint16_t)header_bytes;
	if (is_martian_source4(weir_load32(ip + 12), weir_load32(ip + 16))) {
		suspect(d, WEIR_DROP_SOURCE_ADDRESS);
	} else if (ip[8] == 0) {
		suspect(d, WEIR_DROP_TTL_EXPIRED);
	} else if ((weir_load16(ip + 6) & RTE_BE16(0x3fff)) != 0) { // offset, or more fragments
		parse_fragment(d, &packet, seed, (weir_load16(ip + 6) & RTE_BE16(0x1fff)) == 0);
	} else {
		parse_l4(d, &packet, seed, false);
	}
}

int weir_parse_ipv6_chain(const uint8_t *ip, uint32_t bytes, struct weir_ipv6_chain *ret) {
	struct weir_ipv6_chain chain = {.protocol = ip[6], .offset = WEIR_IPV6_BYTES};
	uint32_t offset = WEIR_IPV6_BYTES;

	for (unsigned int n = 0; weir_ipv6_is_extension(chain.protocol); n++) {
		const uint8_t *header = ip + offset;
		uint32_t left = bytes - offset, header_bytes, part;

		if (n == WEIR_IPV6_EXTENSIONS_MAX || left < WEIR_IPV6_EXTENSION_MIN ||
			!weir_ipv6_extension_may_be(chain.protocol, n)) {
			return -EPROTO;
		}
		header_bytes = weir_ipv6_extension_bytes(chain.protocol, header[1]);
		if (header_bytes > left) {
			return -EPROTO;
		}
		part = rte_be_to_cpu_16(weir_load16(header + 2));
		if (chain.protocol == WEIR_IPV6_FRAGMENT && (part & WEIR_IPV6_FRAGMENT_PART) != 0) {
			if (chain.fragment) {
				return -EPROTO;
			}
			chain.fragment = true;
			chain.fragment_offset = (uint16_t)offset;
			chain.later = (part & WEIR_IPV6_FRAGMENT_OFFSET) != 0;
		}
		chain.protocol = header[0];
		offset += header_bytes;
		if (chain.later) {
			break;
		}
	}
	chain.offset = (uint16_t)offset;
	*ret = chain;
	return 0;
}

static void parse_ipv6(const uint8_t *ip, uint32_t readable, uint32_t bytes, uint64_t seed,
	struct weir_descriptor *d) {
	struct ip_packet packet = {.data = ip};
	struct weir_ipv6_chain chain;

	if (readable < WEIR_IPV6_BYTES) {
		broken(d, WEIR_DROP_IPV6_TRUNCATED);
		return;
	}
	if (ip[0] >> 4 != 6) {
		broken(d, WEIR_DROP_IPV6_VERSION);
		return;
	}
	packet.bytes = WEIR_IPV6_BYTES + (uint32_t)rte_be_to_cpu_16(weir_load16(ip + 4));
	if (packet.bytes > bytes) {
		broken(d, WEIR_DROP_IPV6_PAYLOAD_LENGTH);
		return;
	}
	packet.readable = RTE_MIN(readable, packet.bytes);
	memcpy(d->key.source, ip + 8, 16);
	memcpy(d->key.destination, ip + 24, 16);
	d->key.family = 6;
	d->tos = (uint8_t)(rte_be_to_cpu_32(weir_load32(ip)) >> 20);
	d->ip_bytes = packet.bytes;
	if (is_martian_source6(ip + 8, ip + 24)) {
		suspect(d, WEIR_DROP_SOURCE_ADDRESS);
		return;
	}
	if (ip[7] == 0) {
		suspect(d, WEIR_DROP_TTL_EXPIRED);
		return;
	}
	if (weir_parse_ipv6_chain(ip, packet.readable, &chain) < 0) {
		suspect(d, WEIR_DROP_IPV6_EXTENSION);
		return;
	}
	d->key.protocol = chain.protocol;
	d->l4_offset = chain.offset;
	if (chain.fragment) {
		parse_fragment(d, &packet, seed, !chain.later);
		return;
	}
	parse_l4(d, &packet, seed, false);
}

// --- L2 -------------------------------------------------------------------------------------

static bool is_vlan_type(uint16_t type) {
	return type == 0x8100 || type == 0x88a8 || type == 0x9100;
}

struct weir_parse_mac weir_parse_mac_of(const uint8_t *mac, bool any) {
	struct weir_parse_mac unicast = {.mask = 1}; // the group bit
	struct weir_parse_mac own = {.mask = UINT64_MAX >> 16};

	memcpy(&own.address, mac, 6);
	return any || own.address == 0 ? unicast : own;
}

void weir_parse_other_mac(const uint8_t *frame, struct weir_descriptor *d) {
	if ((frame[0] & 1) == 0) {
		broken(d, WEIR_DROP_OTHER_MAC);
	} else if (d->kind != WEIR_PACKET_BROKEN) {
		suspect(d, WEIR_DROP_OTHER_MAC);
	}
}

void weir_parse_slow(const struct rte_mbuf *m, uint64_t seed, struct weir_descriptor *ret) {
	const uint8_t *frame = rte_pktmbuf_mtod(m, const uint8_t *);
	uint32_t readable = m->data_len;
	uint32_t bytes = RTE_MAX(m->pkt_len, readable);
	uint32_t offset = WEIR_ETHERNET_BYTES;
	uint16_t type;

	memset(ret, 0, sizeof(*ret));
	ret->kind = WEIR_PACKET_OTHER;
	// Later stages require 4 or 6, so set a valid value until the family is known.
	ret->key.family = 4;
	weir_descriptor_undecided(ret);
	if (readable < WEIR_ETHERNET_BYTES) {
		broken(ret, WEIR_DROP_FRAME_TOO_SHORT);
		return;
	}
	type = rte_be_to_cpu_16(weir_load16(frame + 12));
	for (unsigned int tags = 0; is_vlan_type(type); tags++) {
		if (tags == VLAN_TAGS_MAX) {
			broken(ret, WEIR_DROP_VLAN_TOO_DEEP);
			return;
		}
		if (readable < offset + WEIR_VLAN_BYTES) {
			broken(ret, WEIR_DROP_VLAN_TRUNCATED);
			return;
		}
		type = rte_be_to_cpu_16(weir_load16(frame + offset + 2));
		offset += WEIR_VLAN_BYTES;
	}
	ret->l3_offset = (uint8_t)offset;
	if (type == WEIR_ETHERTYPE_IPV4) {
		parse_ipv4(m, frame + offset, readable - offset, bytes - offset, seed, ret);
	} else if (type == WEIR_ETHERTYPE_IPV6) {
		parse_ipv6(frame + offset, readable - offset, bytes - offset, seed, ret);
	}
}

// --- fast path ------------------------------------------------------------------------------

// Returns true if the UDP length field is at least the length of a UDP header and at most l4_bytes.
static __rte_always_inline bool udp_length_fits(const uint8_t *udp, uint32_t l4_bytes) {
	uint32_t udp_bytes = rte_be_to_cpu_16(weir_load16(udp + 4));

	return likely(udp_bytes >= WEIR_UDP_BYTES) && likely(udp_bytes <= l4_bytes);
}

static bool fast_udp4(const uint8_t *ip, uint32_t readable, const struct weir_hash_keys *keys,
	struct weir_summary *s) {
	uint32_t total = rte_be_to_cpu_16(weir_load16(ip + 2));

	return likely(total >= WEIR_IPV4_BYTES + WEIR_UDP_BYTES) && likely(total <= readable) &&
	       likely(udp_length_fits(ip + WEIR_IPV4_BYTES, total - WEIR_IPV4_BYTES)) &&
	       weir_parse_fast_rest4(
		       ip, total, WEIR_PROTOCOL_UDP, WEIR_FLOW_EVENT_DATAGRAM, keys, s);
}

static bool fast_udp6(const uint8_t *ip, uint32_t readable, const struct weir_hash_keys *keys,
	struct weir_summary *s) {
	uint32_t payload = rte_be_to_cpu_16(weir_load16(ip + 4));

	return likely(payload >= WEIR_UDP_BYTES) && likely(payload + WEIR_IPV6_BYTES <= readable) &&
	       likely(udp_length_fits(ip + WEIR_IPV6_BYTES, payload)) &&
	       weir_parse_fast_rest6(
		       ip, payload, WEIR_PROTOCOL_UDP, WEIR_FLOW_EVENT_DATAGRAM, keys, s);
}

static bool fast_tagged(const uint8_t *ip, uint32_t readable, const struct weir_hash_keys *keys,
	struct weir_summary *s) {
	if (readable < WEIR_VLAN_BYTES + WEIR_IPV4_BYTES + WEIR_TCP_BYTES) {
		return false;
	}
	ip += WEIR_VLAN_BYTES;
	readable -= WEIR_VLAN_BYTES;
	if (weir_parse_fast_head(ip, 4, WEIR_PROTOCOL_TCP)) {
		return weir_parse_fast_tcp4(ip, readable, keys, s);
	}
	if (weir_parse_fast_head(ip, 6, WEIR_PROTOCOL_TCP)) {
		return weir_parse_fast_tcp6(ip, readable, keys, s);
	}
	if (weir_parse_fast_head(ip, 4, WEIR_PROTOCOL_UDP)) {
		return fast_udp4(ip, readable, keys, s);
	}
	return weir_parse_fast_head(ip, 6, WEIR_PROTOCOL_UDP) && fast_udp6(ip, readable, keys, s);
}

bool weir_parse_fast_other(const uint8_t *ip, uint32_t readable, const struct weir_hash_keys *keys,
	struct weir_summary *s) {
	if (likely(weir_parse_fast_head(ip, 4, WEIR_PROTOCOL_UDP))) {
		return fast_udp4(ip, readable, keys, s);
	}
	if (weir_load16(ip - 2) == RTE_BE16(WEIR_ETHERTYPE_VLAN)) {
		return fast_tagged(ip, readable, keys, s);
	}
	return weir_parse_fast_head(ip, 6, WEIR_PROTOCOL_UDP) && fast_udp6(ip, readable, keys, s);
}

// --- packets in several segments --------------------------------------------------------------

void weir_parse_gather(struct rte_mbuf *m) {
	uint32_t want = RTE_MIN(m->pkt_len, (uint32_t)WEIR_HEADERS_BYTES);

	for (struct rte_mbuf *from = m->next; from != NULL && m->data_len < want;
		from = from->next) {
		uint32_t bytes = RTE_MIN(want - m->data_len, (uint32_t)from->data_len);

		bytes = RTE_MIN(bytes, (uint32_t)rte_pktmbuf_tailroom(m));
		memcpy(rte_pktmbuf_mtod_offset(m, uint8_t *, m->data_len),
			rte_pktmbuf_mtod(from, uint8_t *), bytes);
		m->data_len = (uint16_t)(m->data_len + bytes);
		from->data_len = (uint16_t)(from->data_len - bytes);
		from->data_off = (uint16_t)(from->data_off + bytes);
		if (from->data_len > 0) { // the first segment is full
			break;
		}
	}
}
