// SPDX-License-Identifier: BSD-3-Clause
#include "oracle.h"

#include "fuzz.h"

#define TTL 64

struct packet { // an IP packet in a frame
	const uint8_t *ip;
	uint32_t bytes; // as its header says
	uint32_t l3; // its offset in the frame
	uint8_t family;
};

static uint16_t get16(const uint8_t *at) {
	return (uint16_t)(at[0] << 8 | at[1]);
}

static void put16(uint8_t *at, uint16_t value) {
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

static uint16_t sum(const uint8_t *at, uint32_t bytes, uint32_t start) {
	for (uint32_t i = 0; i < bytes; i++) {
		start += i % 2 == 0 ? (uint32_t)at[i] << 8 : at[i];
		start = (start & 0xffff) + (start >> 16);
	}
	return (uint16_t)((start & 0xffff) + (start >> 16));
}

// Find the IP packet; false when there is none, or its length is wrong.
static bool find_packet(const struct oracle_frame *frame, struct packet *ret) {
	uint32_t at = 12;
	uint16_t type = 0;

	for (unsigned int tags = 0; tags <= 2; tags++, at += 4) {
		if (frame->n < at + 2) {
			return false;
		}
		type = get16(frame->bytes + at);
		if (type != 0x8100 && type != 0x88a8 && type != 0x9100) {
			break;
		}
	}
	at += 2;
	ret->ip = frame->bytes + at;
	ret->l3 = at;
	if (type == 0x0800 && frame->n >= at + 20) {
		ret->family = 4;
		ret->bytes = get16(ret->ip + 2);
		return ret->bytes >= 20 && ret->bytes <= frame->n - at && ret->ip[0] >> 4 == 4;
	}
	if (type == 0x86dd && frame->n >= at + 40) {
		ret->family = 6;
		ret->bytes = 40u + get16(ret->ip + 4);
		return ret->bytes <= frame->n - at && ret->ip[0] >> 4 == 6;
	}
	return false;
}

static uint8_t tos_of(const struct packet *packet) {
	return packet->family == 4 ? packet->ip[1] : (uint8_t)(get16(packet->ip) >> 4);
}

// Offset of what follows the IP header, its extension headers and options.
static uint32_t l4_offset(const struct packet *packet, uint8_t *ret_protocol) {
	uint32_t at = 40;
	uint8_t next = packet->ip[6];

	if (packet->family == 4) {
		*ret_protocol = packet->ip[9];
		return (packet->ip[0] & 0x0fu) * 4;
	}
	while ((next == 0 || next == 43 || next == 44 || next == 51 || next == 60) &&
		at + 8 <= packet->bytes) {
		const uint8_t *header = packet->ip + at;

		at += next == 44 ? 8 : next == 51 ? (header[1] + 2u) * 4 : (header[1] + 1u) * 8;
		next = header[0];
	}
	*ret_protocol = next;
	return at;
}

static uint16_t icmp_sum(const struct packet *packet, uint32_t at) {
	uint32_t bytes = packet->bytes - at;
	uint32_t pseudo = packet->family == 4 ? 0 : sum(packet->ip + 8, 32, bytes + 58);

	return sum(packet->ip + at, bytes, pseudo);
}

// --- forwarded ------------------------------------------------------------------------------

// divisible: routers may fragment it.
static void check_outer4(
	const struct packet *in, const uint8_t *outer, const uint8_t *row, bool divisible) {
	REQUIRE(outer[0] == 0x45);
	REQUIRE(outer[1] == tos_of(in));
	REQUIRE(get16(outer + 2) == 20 + in->bytes);
	REQUIRE(divisible || get16(outer + 4) == 0);
	REQUIRE(get16(outer + 6) == (divisible ? 0 : 0x4000));
	REQUIRE(outer[8] == TTL);
	REQUIRE(outer[9] == (in->family == 4 ? 4 : 41));
	REQUIRE(sum(outer, 20, 0) == 0xffff);
	REQUIRE(memcmp(outer + 12, row + 12, 8) == 0);
}

static void check_outer6(const struct packet *in, const uint8_t *outer, const uint8_t *row) {
	REQUIRE(outer[0] >> 4 == 6);
	REQUIRE((uint8_t)(get16(outer) >> 4) == tos_of(in));
	REQUIRE((outer[1] & 0x0f) != 0 || get16(outer + 2) != 0); // a flow label
	REQUIRE(get16(outer + 4) == in->bytes);
	REQUIRE(outer[6] == (in->family == 4 ? 4 : 41));
	REQUIRE(outer[7] == TTL);
	REQUIRE(memcmp(outer + 8, row + 8, 32) == 0);
}

void oracle_forwarded(const struct oracle_frame *in, const struct oracle_frame *out,
	const struct weir_backend_row *row) {
	const uint8_t *outer = out->bytes + row->l2_bytes;
	bool fits = out->n - row->l2_bytes <= row->mtu;
	struct packet packet;

	REQUIRE(find_packet(in, &packet));
	REQUIRE(out->n == row->header_bytes + packet.bytes);
	// IPv6 of 1,280 bytes is not refused.
	REQUIRE(fits || (row->outer_family == 4 && packet.family == 6 && packet.bytes <= 1280));
	REQUIRE(memcmp(out->bytes, row->header, row->l2_bytes) == 0);
	if (row->outer_family == 4) {
		check_outer4(&packet, outer, row->header + row->l2_bytes, !fits);
	} else {
		check_outer6(&packet, outer, row->header + row->l2_bytes);
	}
	REQUIRE(memcmp(out->bytes + row->header_bytes, packet.ip, packet.bytes) == 0);
}

// --- replies --------------------------------------------------------------------------------

static void check_reply_l2(
	const struct oracle_frame *in, const struct oracle_frame *out, uint16_t tag) {
	struct packet packet;
	uint32_t at = 12;

	REQUIRE(find_packet(in, &packet));
	REQUIRE(((out->bytes[0] | out->bytes[6]) & 1) == 0); // neither to all hosts nor from them
	REQUIRE(memcmp(out->bytes, in->bytes + 6, 6) == 0);
	REQUIRE(memcmp(out->bytes + 6, in->bytes, 6) == 0);
	if (tag != 0) {
		REQUIRE(get16(out->bytes + 12) == 0x8100 && get16(out->bytes + 14) == tag);
		at = 16;
	}
	REQUIRE(memcmp(out->bytes + at, in->bytes + 12, packet.l3 - 12) == 0);
}

static void check_too_big(const struct packet *in, const struct packet *out) {
	uint32_t at = out->family == 4 ? 20 : 40;
	const uint8_t *icmp = out->ip + at;
	uint32_t quoted = out->bytes - at - 8;

	REQUIRE(out->bytes >= at + 8 && out->bytes <= (out->family == 4 ? 576 : 1280));
	REQUIRE(icmp[0] == (out->family == 4 ? 3 : 2) && icmp[1] == (out->family == 4 ? 4 : 0));
	REQUIRE(quoted > 0 && quoted <= in->bytes);
	REQUIRE(memcmp(icmp + 8, in->ip, quoted) == 0);
	REQUIRE(get16(icmp + 6) < in->bytes && get16(icmp + 6) >= 1280 - 40);
}

static void check_echo(const struct packet *in, const struct packet *out) {
	uint32_t at = out->family == 4 ? 20 : 40;
	uint8_t protocol;
	uint32_t from = l4_offset(in, &protocol);

	REQUIRE(protocol == (in->family == 4 ? 1 : 58));
	REQUIRE(in->ip[from] == (in->family == 4 ? 8 : 128));
	REQUIRE(out->ip[at] == (in->family == 4 ? 0 : 129));
	REQUIRE(out->bytes - at == in->bytes - from);
	REQUIRE(memcmp(out->ip + at + 4, in->ip + from + 4, in->bytes - from - 4) == 0);
}

static void check_reset(const struct packet *in, const struct packet *out) {
	uint32_t at = out->family == 4 ? 20 : 40;
	const uint8_t *tcp = out->ip + at;
	const uint8_t *asked;
	uint8_t protocol;

	asked = in->ip + l4_offset(in, &protocol);
	REQUIRE(protocol == 6 && (asked[13] & 0x04) == 0); // no answer to an RST
	REQUIRE(out->bytes == at + 20 && tcp[12] == 0x50);
	REQUIRE(get16(tcp) == get16(asked + 2) && get16(tcp + 2) == get16(asked));
	if (asked[13] & 0x10) {
		REQUIRE(tcp[13] == 0x04 && memcmp(tcp + 4, asked + 8, 4) == 0);
	} else {
		REQUIRE(tcp[13] == 0x14 && get16(tcp + 4) == 0 && get16(tcp + 6) == 0);
	}
	REQUIRE(sum(tcp, 20,
			sum(out->ip + (out->family == 4 ? 12 : 8), out->family == 4 ? 8 : 32,
				26)) == 0xffff);
}

// The reply comes from the address that was asked, and is right in itself.
static void check_reply_ip(const struct packet *in, const struct packet *out, uint8_t protocol) {
	REQUIRE(out->family == in->family);
	if (in->family == 4) {
		REQUIRE(out->ip[0] == 0x45 && out->ip[8] == TTL && out->ip[9] == protocol);
		REQUIRE(sum(out->ip, 20, 0) == 0xffff);
		REQUIRE(memcmp(out->ip + 12, in->ip + 16, 4) == 0);
		REQUIRE(memcmp(out->ip + 16, in->ip + 12, 4) == 0);
	} else {
		REQUIRE(out->ip[6] == (protocol == 1 ? 58 : protocol) && out->ip[7] == TTL);
		REQUIRE(memcmp(out->ip + 8, in->ip + 24, 16) == 0);
		REQUIRE(memcmp(out->ip + 24, in->ip + 8, 16) == 0);
	}
	REQUIRE(protocol != 1 || icmp_sum(out, in->family == 4 ? 20 : 40) == 0xffff);
}

// Nothing but padding is behind the reply.
static void check_end(const struct oracle_frame *out, uint32_t end) {
	REQUIRE(out->n == end || (end < 60 && out->n == 60));
	for (uint32_t i = end; i < out->n; i++) {
		REQUIRE(out->bytes[i] == 0);
	}
}

void oracle_replied(const struct oracle_frame *in, const struct oracle_frame *out,
	enum oracle_reply kind, uint16_t tag) {
	struct packet asked, reply;

	REQUIRE(find_packet(in, &asked));
	check_reply_l2(in, out, tag);
	if (tag == 0) {
		REQUIRE(find_packet(out, &reply));
	} else { // with the tag put back there may be three
		struct oracle_frame untagged = {.n = out->n - 4};

		memcpy(untagged.bytes, out->bytes, 12);
		memcpy(untagged.bytes + 12, out->bytes + 16, out->n - 16);
		REQUIRE(find_packet(&untagged, &reply));
		reply.ip = out->bytes + reply.l3 + 4;
		reply.l3 += 4;
	}
	check_end(out, reply.l3 + reply.bytes);
	check_reply_ip(&asked, &reply, kind == ORACLE_RESET ? 6 : 1);
	switch (kind) {
	case ORACLE_ECHO:
		check_echo(&asked, &reply);
		break;
	case ORACLE_TOO_BIG:
		check_too_big(&asked, &reply);
		break;
	case ORACLE_RESET:
		check_reset(&asked, &reply);
		break;
	}
}

// --- repairs --------------------------------------------------------------------------------

// Like find_packet, whatever the length in the header says.
static bool find_any(const struct oracle_frame *frame, struct packet *ret) {
	find_packet(frame, ret);
	if (frame->n < 14 + 20 || ret->l3 + 20 > frame->n) {
		return false;
	}
	ret->bytes = frame->n - ret->l3;
	return get16(frame->bytes + ret->l3 - 2) == 0x0800 || ret->bytes >= 40;
}

void oracle_fix_length(struct oracle_frame *frame) {
	struct packet packet = {0};

	if (find_any(frame, &packet)) {
		uint8_t *ip = frame->bytes + packet.l3;

		if (ip[0] >> 4 == 4) {
			put16(ip + 2, (uint16_t)packet.bytes);
		} else if (packet.bytes >= 40) {
			put16(ip + 4, (uint16_t)(packet.bytes - 40));
		}
	}
}

void oracle_fix_ipv4(struct oracle_frame *frame) {
	struct packet packet = {0};

	if (find_any(frame, &packet) && packet.ip[0] >> 4 == 4) {
		uint32_t bytes = (packet.ip[0] & 0x0fu) * 4;
		uint8_t *ip = frame->bytes + packet.l3;

		if (bytes >= 20 && bytes <= packet.bytes) {
			put16(ip + 10, 0);
			put16(ip + 10, (uint16_t)~sum(ip, bytes, 0));
		}
	}
}

void oracle_fix_icmp(struct oracle_frame *frame) {
	struct packet packet = {0};
	uint8_t protocol;
	uint32_t at;

	if (!find_packet(frame, &packet)) {
		return;
	}
	at = l4_offset(&packet, &protocol);
	if (protocol == (packet.family == 4 ? 1 : 58) && at + 8 <= packet.bytes) {
		uint8_t *icmp = frame->bytes + packet.l3 + at;

		put16(icmp + 2, 0);
		put16(icmp + 2, (uint16_t)~icmp_sum(&packet, at));
	}
}
