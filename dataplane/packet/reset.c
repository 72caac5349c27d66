// SPDX-License-Identifier: BSD-3-Clause
#include "reset.h"

#include <errno.h>

#include <rte_ip.h>

#include "encap.h"
#include "icmp.h"
#include "parse.h"

#define RESET_TTL 64
#define TCP_ACK 0x10

// Fields of the received packet and of the reply, in network byte order.
struct refused {
	uint8_t addresses[32]; // source and destination
	uint16_t source_port, destination_port;
	uint32_t sequence, acknowledged; // sequence and ack number of the reply
	uint8_t flags; // flags of the reply
};

static void read_refused(const uint8_t *ip, const struct weir_descriptor *d, struct refused *ret) {
	const uint8_t *tcp = ip + d->l4_offset;
	uint32_t header_bytes = (uint32_t)(tcp[12] >> 4) * 4;
	uint32_t bytes = d->ip_bytes - d->l4_offset - header_bytes;

	memset(ret, 0, sizeof(*ret));
	memcpy(ret->addresses, d->key.family == 4 ? ip + 12 : ip + 8, d->key.family == 4 ? 8 : 32);
	ret->source_port = weir_load16(tcp);
	ret->destination_port = weir_load16(tcp + 2);
	ret->flags = WEIR_TCP_RST;
	if ((tcp[13] & TCP_ACK) != 0) {
		ret->sequence = weir_load32(tcp + 8);
		return;
	}
	bytes += (tcp[13] & WEIR_TCP_SYN) != 0;
	bytes += (tcp[13] & WEIR_TCP_FIN) != 0;
	ret->acknowledged = rte_cpu_to_be_32(rte_be_to_cpu_32(weir_load32(tcp + 4)) + bytes);
	ret->flags |= TCP_ACK;
}

static void write_tcp(uint8_t *tcp, const struct refused *refused) {
	memset(tcp, 0, WEIR_TCP_BYTES);
	weir_store16(tcp, refused->destination_port);
	weir_store16(tcp + 2, refused->source_port);
	weir_store32(tcp + 4, refused->sequence);
	weir_store32(tcp + 8, refused->acknowledged);
	tcp[12] = WEIR_TCP_BYTES / 4 << 4;
	tcp[13] = refused->flags;
}

// Write the checksum of the TCP header. addresses: the addresses of the pseudo-header, in any
// order.
static void write_checksum(uint8_t *tcp, const uint8_t *addresses, uint32_t bytes) {
	uint64_t sum = rte_raw_cksum(addresses, bytes);

	sum += RTE_BE16(WEIR_TCP_BYTES) + RTE_BE16(WEIR_PROTOCOL_TCP);
	sum += rte_raw_cksum(tcp, WEIR_TCP_BYTES);
	weir_store16(tcp + 16, (uint16_t)~weir_checksum_fold(sum));
}

static void write_ipv4(uint8_t *ip, const struct refused *refused) {
	memset(ip, 0, WEIR_IPV4_BYTES);
	ip[0] = 0x45;
	weir_store16(ip + 2, RTE_BE16(WEIR_IPV4_BYTES + WEIR_TCP_BYTES));
	weir_store16(ip + 6, RTE_BE16(0x4000)); // with DF, the identification may be 0
	ip[8] = RESET_TTL;
	ip[9] = WEIR_PROTOCOL_TCP;
	memcpy(ip + 12, refused->addresses + 4, 4);
	memcpy(ip + 16, refused->addresses, 4);
	weir_store16(ip + 10, (uint16_t)~weir_checksum_ipv4(ip));
	write_tcp(ip + WEIR_IPV4_BYTES, refused);
	write_checksum(ip + WEIR_IPV4_BYTES, refused->addresses, 8);
}

static void write_ipv6(uint8_t *ip, const struct refused *refused) {
	memset(ip, 0, WEIR_IPV6_BYTES);
	ip[0] = 0x60;
	weir_store16(ip + 4, RTE_BE16(WEIR_TCP_BYTES));
	ip[6] = WEIR_PROTOCOL_TCP;
	ip[7] = RESET_TTL;
	memcpy(ip + 8, refused->addresses + 16, 16);
	memcpy(ip + 24, refused->addresses, 16);
	write_tcp(ip + WEIR_IPV6_BYTES, refused);
	write_checksum(ip + WEIR_IPV6_BYTES, refused->addresses, 32);
}

static int reply(
	struct rte_mbuf *m, const struct weir_descriptor *d, const struct refused *refused) {
	uint32_t head = d->key.family == 4 ? WEIR_IPV4_BYTES : WEIR_IPV6_BYTES;
	uint8_t *ip = rte_pktmbuf_mtod_offset(m, uint8_t *, d->l3_offset);

	if (!weir_icmp_l4_checksum_good(m, d)) {
		return -EBADMSG;
	}
	if (rte_pktmbuf_headroom(m) < weir_icmp_reply_headroom(m)) {
		return -ENOBUFS;
	}
	// The headers of the packet are in the first segment, and are at least as long as the new
	// headers.
	weir_encap_cut(m, d->l3_offset + head + WEIR_TCP_BYTES);
	if (d->key.family == 4) {
		write_ipv4(ip, refused);
	} else {
		write_ipv6(ip, refused);
	}
	weir_icmp_reply_l2(m);
	return 0;
}

int weir_reset(struct rte_mbuf *m, const struct weir_descriptor *d) {
	struct refused refused;

	read_refused(rte_pktmbuf_mtod_offset(m, const uint8_t *, d->l3_offset), d, &refused);
	return reply(m, d, &refused);
}

int weir_reset_challenge(struct rte_mbuf *m, const struct weir_descriptor *d) {
	const uint8_t *ip = rte_pktmbuf_mtod_offset(m, const uint8_t *, d->l3_offset);
	struct refused refused;

	read_refused(ip, d, &refused);
	refused.sequence = 0;
	refused.acknowledged = weir_load32(ip + d->l4_offset + 4);
	refused.flags = TCP_ACK;
	return reply(m, d, &refused);
}
