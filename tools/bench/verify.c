// SPDX-License-Identifier: BSD-3-Clause
#include "verify.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "packets.h"

#define ETHERNET_BYTES 14u
#define VLAN_BYTES 4u
#define IPV4_BYTES 20u
#define IPV6_BYTES 40u
#define GUE_BYTES 12u // UDP header and GUE header
#define GRE_BYTES 4u

struct complaint {
	char *why;
	size_t why_bytes;
};

static int wrong(const struct complaint *complaint, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static int wrong(const struct complaint *complaint, const char *format, ...) {
	va_list args;

	va_start(args, format);
	vsnprintf(complaint->why, complaint->why_bytes, format, args);
	va_end(args);
	return -EBADMSG;
}

static uint32_t get16(const uint8_t *at) {
	return (uint32_t)at[0] << 8 | at[1];
}

static int check_verdict(const struct weir_bench_options *options,
	const struct weir_bench_expectation *expected, const struct weir_verdict *verdict,
	const struct complaint *complaint) {
	struct weir_bench_share share = weir_bench_backends_of(options, expected->service);

	if (verdict->action != WEIR_ACTION_FORWARD) {
		return wrong(complaint, "not forwarded: action %s, reason %s",
			weir_action_name((enum weir_action)verdict->action),
			verdict->reason < WEIR_DROP_REASON_COUNT
				? weir_drop_reason_name((enum weir_drop_reason)verdict->reason)
				: "none");
	}
	if (verdict->port != 0) {
		return wrong(complaint, "egress port %u instead of 0", verdict->port);
	}
	if (verdict->service != expected->service) {
		return wrong(
			complaint, "service %u instead of %u", verdict->service, expected->service);
	}
	if (verdict->backend < share.first || verdict->backend >= share.first + share.count) {
		return wrong(complaint, "backend %u does not belong to service %u",
			verdict->backend, expected->service);
	}
	if (expected->backend != WEIR_BACKEND_NONE && verdict->backend != expected->backend) {
		return wrong(
			complaint, "backend %u instead of %u", verdict->backend, expected->backend);
	}
	if ((expected->choices >> verdict->choice & 1) == 0) {
		return wrong(complaint, "unexpected selection method \"%s\"",
			weir_choice_name((enum weir_choice)verdict->choice));
	}
	return 0;
}

static int check_ethernet(
	const struct weir_bench_way *way, const uint8_t *at, const struct complaint *complaint) {
	uint32_t type = way->family == 4 ? 0x0800 : 0x86dd;

	if (memcmp(at, way->next_hop_mac, 6) != 0) {
		return wrong(complaint, "wrong destination MAC address");
	}
	if (memcmp(at + 6, way->port_mac, 6) != 0) {
		return wrong(complaint, "wrong source MAC address");
	}
	if (way->vlan != 0) {
		if (get16(at + 12) != 0x8100 || (get16(at + 14) & 0xfff) != way->vlan) {
			return wrong(complaint, "wrong VLAN tag");
		}
		at += VLAN_BYTES;
	}
	return get16(at + 12) == type ? 0
				      : wrong(complaint, "wrong EtherType 0x%04x", get16(at + 12));
}

// Returns the length of the outer IP header; 0 with forwarding l2.
static uint32_t outer_bytes(const struct weir_bench_way *way) {
	return way->forwarding.mode == WEIR_FORWARDING_L2 ? 0
	       : way->family == 4                         ? IPV4_BYTES
							  : IPV6_BYTES;
}

// Returns the length of the headers between the outer IP header and the packet.
static uint32_t tail_bytes(const struct weir_bench_way *way) {
	return way->forwarding.mode == WEIR_FORWARDING_GUE   ? GUE_BYTES
	       : way->forwarding.mode == WEIR_FORWARDING_GRE ? GRE_BYTES
							     : 0;
}

// Returns the expected protocol of the outer IP header.
static uint32_t protocol_of(
	const struct weir_bench_expectation *expected, const struct weir_bench_way *way) {
	return way->forwarding.mode == WEIR_FORWARDING_GUE   ? 17
	       : way->forwarding.mode == WEIR_FORWARDING_GRE ? 47
	       : expected->family == 4                       ? 4
							     : 41;
}

static int check_ipv4(const struct weir_bench_expectation *expected,
	const struct weir_bench_way *way, const uint8_t *ip, const struct complaint *complaint) {
	uint32_t bytes = expected->ip_bytes + tail_bytes(way) + IPV4_BYTES;

	if (ip[0] != 0x45 || ip[1] != expected->tos) {
		return wrong(complaint, "outer header: wrong version, length or DSCP: %02x %02x",
			ip[0], ip[1]);
	}
	if (get16(ip + 2) != bytes) {
		return wrong(complaint, "outer header: total length %u instead of %u",
			get16(ip + 2), bytes);
	}
	if (get16(ip + 6) != 0x4000 || ip[8] != 64) {
		return wrong(complaint, "outer header: wrong fragment field 0x%04x or TTL %u",
			get16(ip + 6), ip[8]);
	}
	if (ip[9] != protocol_of(expected, way)) {
		return wrong(complaint, "outer header: wrong protocol %u", ip[9]);
	}
	if (weir_bench_sum(ip, IPV4_BYTES, 0) != 0xffff) {
		return wrong(complaint, "outer header: checksum 0x%04x is wrong", get16(ip + 10));
	}
	if (memcmp(ip + 12, way->source, 4) != 0 || memcmp(ip + 16, way->address, 4) != 0) {
		return wrong(complaint, "outer header: wrong address");
	}
	return 0;
}

static int check_ipv6(const struct weir_bench_expectation *expected,
	const struct weir_bench_way *way, const uint8_t *ip, const struct complaint *complaint) {
	uint32_t bytes = expected->ip_bytes + tail_bytes(way);

	if (ip[0] >> 4 != 6 || ((get16(ip) >> 4) & 0xff) != expected->tos) {
		return wrong(complaint, "outer header: wrong version or traffic class: %02x %02x",
			ip[0], ip[1]);
	}
	if (get16(ip + 4) != bytes) {
		return wrong(complaint, "outer header: payload length %u instead of %u",
			get16(ip + 4), bytes);
	}
	if (ip[6] != protocol_of(expected, way) || ip[7] != 64) {
		return wrong(complaint, "outer header: wrong next header %u or hop limit %u", ip[6],
			ip[7]);
	}
	if (memcmp(ip + 8, way->source, 16) != 0 || memcmp(ip + 24, way->address, 16) != 0) {
		return wrong(complaint, "outer header: wrong address");
	}
	return 0;
}

static int check_gue(const struct weir_bench_expectation *expected,
	const struct weir_bench_way *way, const uint8_t *udp, const struct complaint *complaint) {
	const uint8_t *gue = udp + 8;

	if (get16(udp) < 0xc000 || get16(udp + 2) != way->forwarding.gue_port) {
		return wrong(complaint, "GUE: wrong port: %u to %u", get16(udp), get16(udp + 2));
	}
	if (get16(udp + 4) != expected->ip_bytes + GUE_BYTES || get16(udp + 6) != 0) {
		return wrong(complaint, "GUE: wrong UDP length %u or checksum 0x%04x",
			get16(udp + 4), get16(udp + 6));
	}
	if (gue[0] != 0 || gue[1] != (expected->family == 4 ? 4 : 41) || get16(gue + 2) != 0) {
		return wrong(complaint, "GUE: wrong version, protocol or flags: %02x %02x %04x",
			gue[0], gue[1], get16(gue + 2));
	}
	return 0;
}

static int check_gre(const struct weir_bench_expectation *expected, const uint8_t *gre,
	const struct complaint *complaint) {
	if (get16(gre) != 0 || get16(gre + 2) != (expected->family == 4 ? 0x0800 : 0x86dd)) {
		return wrong(complaint, "GRE: wrong flags 0x%04x or EtherType 0x%04x", get16(gre),
			get16(gre + 2));
	}
	return 0;
}

// Checks the outer IP header, and the headers between the outer IP header and the packet.
static int check_outer(const struct weir_bench_expectation *expected,
	const struct weir_bench_way *way, const uint8_t *at, const struct complaint *complaint) {
	const uint8_t *tail = at + outer_bytes(way);
	int r = 0;

	if (outer_bytes(way) > 0) {
		r = way->family == 4 ? check_ipv4(expected, way, at, complaint)
				     : check_ipv6(expected, way, at, complaint);
	}
	if (r == 0 && way->forwarding.mode == WEIR_FORWARDING_GUE) {
		r = check_gue(expected, way, tail, complaint);
	} else if (r == 0 && way->forwarding.mode == WEIR_FORWARDING_GRE) {
		r = check_gre(expected, tail, complaint);
	}
	return r;
}

int weir_bench_verify(const struct weir_bench_options *options,
	const struct weir_bench_expectation *expected, const struct weir_verdict *verdict,
	const struct rte_mbuf *m, char *why, size_t why_bytes) {
	const uint8_t *at = rte_pktmbuf_mtod(m, const uint8_t *);
	const struct complaint complaint = {why, why_bytes};
	int r = check_verdict(options, expected, verdict, &complaint);
	struct weir_bench_way way;
	uint32_t l2, outer;

	if (r < 0) {
		return r;
	}
	weir_bench_way(options, verdict->backend, &way);
	l2 = ETHERNET_BYTES + (way.vlan != 0 ? VLAN_BYTES : 0);
	outer = outer_bytes(&way) + tail_bytes(&way);
	if (m->nb_segs != 1 || m->data_len != m->pkt_len ||
		m->pkt_len != l2 + outer + expected->ip_bytes) {
		return wrong(&complaint,
			"frame has %u bytes in %u segments, not %u bytes in 1 segment", m->pkt_len,
			m->nb_segs, l2 + outer + expected->ip_bytes);
	}
	r = check_ethernet(&way, at, &complaint);
	if (r == 0) {
		r = check_outer(expected, &way, at + l2, &complaint);
	}
	if (r < 0) {
		return r;
	}
	// No mode changes the packet or its TTL.
	if (memcmp(at + l2 + outer, expected->frame + expected->l3_offset, expected->ip_bytes) !=
		0) {
		return wrong(&complaint, "the inner packet was changed");
	}
	return 0;
}
