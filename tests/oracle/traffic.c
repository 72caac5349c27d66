// SPDX-License-Identifier: BSD-3-Clause
#include "traffic.h"

static const uint8_t own_mac[6] = PLAN_MAC;
static const uint8_t client_mac[6] = {2, 0, 0, 0, 0, 1};

void traffic_start(struct traffic *traffic, const struct plan *plan, uint64_t seed) {
	memset(traffic, 0, sizeof(*traffic));
	traffic->random.state = seed | 1;
	traffic->plan = plan;
	traffic->mutated_percent = 10 + random_below(&traffic->random, 40);
}

// --- clients -----------------------------------------------------------------------------------

// In most cases, returns a port of a service. second: use the ports of the second pair of VIPs.
static uint16_t draw_port(struct random *r, uint8_t protocol, bool second) {
	static const uint16_t ports[2][2][8] = {
		{{80, 80, 8000, 8099, 8100, 443, 443, 25}, {53, 53, 500, 600, 601, 499, 4500, 0}},
		{{22, 22, 9000, 9150, 9999, 9100, 9200, 443}, {53, 53, 500, 600, 601, 55, 560, 53}},
	};

	return ports[second][protocol == 17][random_below(r, 8)];
}

static void draw_address(struct random *r, uint8_t family, uint8_t *to) {
	memset(to, 0, 16);
	if (family == 4) {
		put32(to, 0xcb007100 | random_below(r, 40)); // clients are in 203.0.113.0/24
	} else {
		put32(to, 0x20010db8);
		put32(to + 12, random_below(r, 40));
	}
}

static struct tuple draw_tuple(struct traffic *traffic, uint8_t protocol) {
	struct random *r = &traffic->random;
	const struct plan_vip *vip = &traffic->plan->vips[random_below(r, PLAN_VIPS)];
	struct tuple tuple = {.family = vip->family, .protocol = protocol};

	draw_address(r, vip->family, tuple.source);
	memcpy(tuple.destination, vip->address, 16);
	if (chance(r, 2)) {
		// a destination that is not a VIP
		tuple.destination[vip->family == 4 ? 3 : 15] ^= 0x40;
	}
	if (chance(r, 1)) {
		memcpy(tuple.source, traffic->plan->vips[(vip - traffic->plan->vips) ^ 2].address,
			16);
	}
	// an IPv4-mapped address, or a similar address
	if (vip->family == 6 && chance(r, 1)) {
		memset(tuple.source, 0, 12);
		put32(tuple.source + 8, 0xffffu << 8 * random_below(r, 3));
	}
	tuple.source_port = (uint16_t)(1024 + random_below(r, 12));
	tuple.destination_port = draw_port(r, protocol, vip - traffic->plan->vips >= 2);
	return tuple;
}

static struct tuple pick_tuple(struct traffic *traffic, uint8_t protocol) {
	struct random *r = &traffic->random;

	if (traffic->recent_count > 0 && chance(r, 80)) {
		const struct tuple *tuple =
			&traffic->recent[random_below(r, traffic->recent_count)];

		if (tuple->protocol == protocol) {
			return *tuple;
		}
	}
	return draw_tuple(traffic, protocol);
}

static void remember(struct traffic *traffic, const struct tuple *tuple) {
	uint32_t i = traffic->recent_count < RECENT_MAX
			     ? traffic->recent_count++
			     : random_below(&traffic->random, RECENT_MAX * 8);

	if (i < RECENT_MAX) {
		traffic->recent[i] = *tuple;
	}
}

// --- parts of a frame ---------------------------------------------------------------------------

static uint32_t draw_payload(struct random *r) {
	uint32_t kind = random_below(r, 100);

	if (kind < 45) {
		return 0;
	}
	if (kind < 80) {
		return random_below(r, 64);
	}
	if (kind < 97) { // lengths near the MTUs
		static const uint16_t sizes[] = {1480, 1400, 1280, 1240, 1260, 1500, 576, 536};

		return sizes[random_below(r, 8)] - 60 + random_below(r, 64);
	}
	return random_below(r, 4000);
}

static uint32_t put_ethernet(struct random *r, uint8_t *to, uint16_t type) {
	static const uint16_t types[] = {0x8100, 0x88a8, 0x9100};
	uint32_t tags = chance(r, 80) ? 0 : 1 + random_below(r, 2), at = 12;

	if (chance(r, 1)) {
		tags = 3;
	}
	memcpy(to, own_mac, 6);
	memcpy(to + 6, client_mac, 6);
	if (chance(r, 3)) { // another destination MAC address
		memset(to, 0xff, 6);
		to[0] = chance(r, 50) ? 0xff : (uint8_t)random_below(r, 256);
	}
	if (chance(r, 1)) {
		to[6] |= 1;
	}
	while (tags-- > 0) {
		put16(to + at, types[random_below(r, 3)]);
		put16(to + at + 2, random_below(r, 4096));
		at += 4;
	}
	put16(to + at, type);
	return at + 2;
}

static uint32_t put_options(struct random *r, uint8_t *to) {
	static const uint8_t types[] = {0, 1, 7, 68, 130, 136, 148, 255};
	uint32_t bytes = 4 + random_below(r, 10) * 4, at = 0;

	memset(to, 0, bytes);
	while (at < bytes) {
		uint32_t size = 2 + random_below(r, 10);

		to[at] = types[random_below(r, 8)];
		if (to[at] <= 1) {
			at++;
			continue;
		}
		if (at + 1 < bytes) {
			to[at + 1] = (uint8_t)size;
		}
		for (uint32_t i = 2; i < size && at + i < bytes; i++) {
			to[at + i] = (uint8_t)random64(r);
		}
		at += size;
	}
	return bytes;
}

// Write an extension header of this type with Next Header `next`.
static uint32_t put_extension(struct random *r, uint8_t *to, uint8_t type, uint8_t next) {
	uint32_t units = type == 44 ? 0 : random_below(r, 3);
	uint32_t bytes = type == 51 ? (units + 2) * 4 : (units + 1) * 8;

	memset(to, 0, bytes);
	to[0] = next;
	to[1] = (uint8_t)units;
	if (type == 44) {
		put32(to + 4, (uint32_t)random64(r)); // an atomic fragment
	}
	return bytes;
}

struct fragment_field {
	bool present, more;
	uint32_t id, offset; // offset: in units of 8 bytes
	uint8_t next; // IPv6: the first header of the fragmentable part
};

static uint32_t put_ipv4(struct random *r, uint8_t *ip, const struct tuple *tuple,
	const struct fragment_field *fragment) {
	uint32_t header = 20;

	ip[1] = (uint8_t)random_below(r, 256);
	put16(ip + 4, fragment->present ? fragment->id : random_below(r, 65536));
	put16(ip + 6, fragment->present ? fragment->offset | (fragment->more ? 0x2000u : 0)
					: (chance(r, 60) ? 0x4000u : 0));
	if (fragment->present && chance(r, 5)) {
		ip[6] |= 0x40;
	}
	ip[8] = chance(r, 1) ? 0 : (uint8_t)(1 + random_below(r, 255));
	ip[9] = tuple->protocol;
	memcpy(ip + 12, tuple->source, 4);
	memcpy(ip + 16, tuple->destination, 4);
	if (chance(r, 8)) {
		header += put_options(r, ip + 20);
	}
	ip[0] = (uint8_t)(0x40 | header / 4);
	return header;
}

static uint32_t put_ipv6(struct random *r, uint8_t *ip, const struct tuple *tuple,
	const struct fragment_field *fragment) {
	static const uint8_t types[] = {0, 43, 60, 51, 44};
	uint8_t chain[4];
	uint32_t n = chance(r, 10) ? 1 + random_below(r, 3) : 0, at = 40;

	for (uint32_t i = 0; i < n; i++) {
		chain[i] = types[i == 0 ? random_below(r, 5) : 1 + random_below(r, 4)];
	}
	put32(ip, 6u << 28 | (uint32_t)(random64(r) & 0x0fffffff));
	ip[7] = chance(r, 1) ? 0 : (uint8_t)(1 + random_below(r, 255));
	memcpy(ip + 8, tuple->source, 16);
	memcpy(ip + 24, tuple->destination, 16);
	if (fragment->present) {
		n = n > 1 ? 1 : n;
	}
	ip[6] = n > 0 ? chain[0] : fragment->present ? 44 : tuple->protocol;
	for (uint32_t i = 0; i < n; i++) {
		at += put_extension(r, ip + at, chain[i],
			i + 1 < n           ? chain[i + 1]
			: fragment->present ? 44
					    : tuple->protocol);
	}
	if (fragment->present) {
		ip[at] = fragment->next;
		ip[at + 1] = 0;
		put16(ip + at + 2, fragment->offset << 3 | fragment->more);
		put32(ip + at + 4, fragment->id);
		at += 8;
	}
	return at;
}

static uint32_t put_ip(struct random *r, uint8_t *ip, const struct tuple *tuple,
	const struct fragment_field *fragment) {
	return tuple->family == 4 ? put_ipv4(r, ip, tuple, fragment)
				  : put_ipv6(r, ip, tuple, fragment);
}

// Set lengths and header checksum of an IP packet with a total length of `bytes`.
static void finish_ip(uint8_t *ip, uint32_t bytes) {
	if (ip[0] >> 4 == 4) {
		put16(ip + 2, bytes);
		put16(ip + 10, 0);
		put16(ip + 10, (uint16_t)~sum16(ip, (ip[0] & 15u) * 4, 0));
	} else {
		put16(ip + 4, bytes - 40);
	}
}

static void fill(struct random *r, uint8_t *to, uint32_t bytes) {
	uint64_t word = random64(r);

	for (uint32_t i = 0; i + 8 <= bytes; i += 8) {
		memcpy(to + i, &word, 8);
		word = word * 0x5851f42d4c957f2dull + 1;
	}
	memset(to + (bytes & ~7u), (int)word, bytes & 7);
}

static uint8_t draw_flags(struct random *r) {
	uint32_t kind = random_below(r, 100);
	uint8_t flags = kind < 25   ? 0x02
			: kind < 70 ? 0x10
			: kind < 80 ? 0x11
			: kind < 88 ? 0x04
			: kind < 92 ? 0x14
			: kind < 95 ? 0x12
				    : (uint8_t)random_below(r, 256);

	return chance(r, 30) ? flags | (uint8_t)(random64(r) & 0xe8) : flags;
}

static void put_l4_sum(uint8_t *ip, uint8_t *l4, uint32_t bytes, uint8_t protocol) {
	uint32_t at = protocol == 6 ? 16 : protocol == 17 ? 6 : 2;

	put16(l4 + at, 0);
	put16(l4 + at,
		(uint16_t)~sum16(l4, bytes, protocol == 1 ? 0 : pseudo_sum(ip, bytes, protocol)));
}

// Writes a TCP or UDP header and its payload. Returns their length.
static uint32_t put_l4(struct random *r, uint8_t *l4, const struct tuple *tuple, uint32_t payload) {
	uint32_t header = 8;

	put16(l4, tuple->source_port);
	put16(l4 + 2, tuple->destination_port);
	if (tuple->protocol == 6) {
		header = chance(r, 70) ? 20 : 20 + 4 * random_below(r, 11);
		fill(r, l4 + 4, header - 4);
		l4[12] = (uint8_t)(header / 4 << 4);
		l4[13] = draw_flags(r);
	} else {
		put16(l4 + 4, header + payload);
		put16(l4 + 6, 0);
	}
	fill(r, l4 + header, payload);
	return header + payload;
}

// --- frames -------------------------------------------------------------------------------------

static uint32_t flow_frame(struct traffic *traffic, uint8_t *frame, uint8_t protocol) {
	struct random *r = &traffic->random;
	const struct fragment_field whole = {.present = false};
	struct tuple tuple = pick_tuple(traffic, protocol);
	uint32_t l3 = put_ethernet(r, frame, tuple.family == 4 ? 0x0800 : 0x86dd);
	uint8_t *ip = frame + l3;
	uint32_t header = put_ip(r, ip, &tuple, &whole);
	uint32_t bytes = put_l4(r, ip + header, &tuple, draw_payload(r));

	remember(traffic, &tuple);
	finish_ip(ip, header + bytes);
	if (protocol == 6 || chance(r, 80)) {
		put_l4_sum(ip, ip + header, bytes, protocol);
	}
	return l3 + header + bytes;
}

static uint32_t echo_frame(struct traffic *traffic, uint8_t *frame) {
	struct random *r = &traffic->random;
	const struct fragment_field whole = {.present = false};
	struct tuple tuple = draw_tuple(traffic, 1);
	uint32_t l3, header, bytes = 8 + draw_payload(r);
	uint8_t *ip;

	tuple.protocol = tuple.family == 4 ? 1 : 58;
	l3 = put_ethernet(r, frame, tuple.family == 4 ? 0x0800 : 0x86dd);
	ip = frame + l3;
	header = put_ip(r, ip, &tuple, &whole);
	if (chance(r, 5)) {
		memset(ip + header, 0, bytes);
	} else {
		fill(r, ip + header, bytes);
	}
	ip[header] = chance(r, 90) ? (tuple.family == 4 ? 8 : 128) : (uint8_t)random_below(r, 256);
	ip[header + 1] = 0;
	finish_ip(ip, header + bytes);
	put_l4_sum(ip, ip + header, bytes, tuple.protocol);
	return l3 + header + bytes;
}

// Writes an ICMP error from a router about a packet that a VIP sent to a client.
static uint32_t error_frame(struct traffic *traffic, uint8_t *frame) {
	static const uint8_t types4[] = {3, 3, 11, 12, 5}, types6[] = {1, 2, 3, 4, 5};
	struct random *r = &traffic->random;
	const struct fragment_field whole = {.present = false};
	struct tuple tuple = pick_tuple(traffic, chance(r, 60) ? 6 : 17), quoted = tuple, router;
	bool v4 = tuple.family == 4;
	uint32_t l3 = put_ethernet(r, frame, v4 ? 0x0800 : 0x86dd), header, inner, bytes;
	uint8_t *ip = frame + l3, *icmp;

	memcpy(quoted.source, tuple.destination, 16);
	memcpy(quoted.destination, tuple.source, 16);
	quoted.source_port = tuple.destination_port;
	quoted.destination_port = tuple.source_port;
	router = tuple;
	router.protocol = v4 ? 1 : 58;
	draw_address(r, tuple.family, router.source);
	header = put_ip(r, ip, &router, &whole);
	icmp = ip + header;
	memset(icmp, 0, 8);
	icmp[0] = v4 ? types4[random_below(r, 5)] : types6[random_below(r, 5)];
	icmp[1] = (uint8_t)random_below(r, 6);
	inner = put_ip(r, icmp + 8, &quoted, &whole);
	bytes = put_l4(r, icmp + 8 + inner, &quoted, draw_payload(r));
	finish_ip(icmp + 8, inner + bytes);
	if (chance(r, 60)) { // quote about as many bytes as required
		bytes = 8 + random_below(r, 30) - (chance(r, 10) ? 5 : 0);
	}
	bytes += 8 + inner;
	finish_ip(ip, header + bytes);
	put_l4_sum(ip, icmp, bytes, router.protocol);
	return l3 + header + bytes;
}

static struct sent_datagram *pick_datagram(struct traffic *traffic) {
	static const uint8_t types[] = {43, 51, 60};
	struct random *r = &traffic->random;
	struct sent_datagram *sent = &traffic->sent[random_below(r, DATAGRAMS_SENT)];

	if (sent->units == 0 || sent->next >= sent->units || chance(r, 3)) {
		uint32_t protocol = random_below(r, 100);

		sent->tuple = pick_tuple(traffic, protocol < 70 ? 17 : 6);
		if (protocol == 99) {
			sent->tuple.protocol = 1;
		}
		sent->id = random_below(r, chance(r, 50) ? 8 : 65536);
		sent->units = (uint16_t)(2 + random_below(r, chance(r, 90) ? 40 : 400));
		sent->piece = (uint16_t)(1 + random_below(r, 20) + (chance(r, 10) ? 170 : 0));
		if (sent->piece < 3 && chance(r, 70)) {
			sent->piece = 3;
		}
		sent->next = 0;
		sent->chained = sent->tuple.family == 6 && chance(r, 50)
					? (uint8_t)(1 + random_below(r, 2))
					: 0;
		for (uint32_t i = 0; i < sent->chained; i++) {
			sent->chain[i] = chance(r, 3) ? 44 : types[random_below(r, 3)];
		}
	}
	return sent;
}

// Returns the Next Header of a fragment. In most cases it is the same in all fragments of a
// datagram, as hosts send them. Sometimes later fragments have any other value, as RFC 8200
// permits.
static uint8_t next_header(struct random *r, const struct sent_datagram *sent, uint32_t from) {
	static const uint8_t any[] = {6, 17, 58, 59, 60, 43, 0, 44, 51, 50, 255};

	if (from > 0 && chance(r, 10)) {
		return any[random_below(r, sizeof(any))];
	}
	return sent->chained > 0 ? sent->chain[0] : sent->tuple.protocol;
}

// Write the start of the data of a first fragment. Returns the number of bytes.
static uint32_t put_first_data(struct random *r, uint8_t *to, const struct sent_datagram *sent) {
	uint32_t at = 0;

	for (uint32_t i = 0; i < sent->chained; i++) {
		at += put_extension(r, to + at, sent->chain[i],
			i + 1u < sent->chained ? sent->chain[i + 1] : sent->tuple.protocol);
	}
	put_l4(r, to + at, &sent->tuple, 0);
	if (sent->tuple.protocol == 17) {
		put16(to + at + 4, sent->units * 8u - at);
	}
	return at + 64;
}

static uint32_t fragment_frame(struct traffic *traffic, uint8_t *frame) {
	struct random *r = &traffic->random;
	struct sent_datagram *sent = pick_datagram(traffic);
	uint32_t from = sent->next, to = from + sent->piece, l3, header, bytes;
	struct fragment_field fragment = {.present = true, .id = sent->id};
	uint8_t *ip;

	sent->next = (uint16_t)to;
	if (from > 0 && chance(r, 10)) { // send fragments out of order, repeated, or overlapping
		from = random_below(r, sent->units);
		to = from + 1 + random_below(r, sent->piece);
	}
	fragment.offset = from;
	fragment.next = next_header(r, sent, from);
	fragment.more = to < sent->units;
	bytes = (fragment.more ? to - from : sent->units > from ? sent->units - from : 1) * 8;
	if (!fragment.more || chance(r, 3)) {
		bytes -= random_below(r, 8);
	}
	l3 = put_ethernet(r, frame, sent->tuple.family == 4 ? 0x0800 : 0x86dd);
	ip = frame + l3;
	header = put_ip(r, ip, &sent->tuple, &fragment);
	if (from == 0) {
		uint8_t whole[128];
		uint32_t first;

		fill(r, whole, sizeof(whole));
		first = put_first_data(r, whole, sent);
		fill(r, ip + header, bytes);
		memcpy(ip + header, whole, bytes < first ? bytes : first);
	} else {
		fill(r, ip + header, bytes);
	}
	finish_ip(ip, header + bytes);
	return l3 + header + bytes;
}

static uint32_t other_frame(struct traffic *traffic, uint8_t *frame) {
	static const uint8_t protocols[] = {47, 50, 132, 41, 4, 58, 1, 2};
	struct random *r = &traffic->random;
	const struct fragment_field whole = {.present = false};
	struct tuple tuple = draw_tuple(traffic, protocols[random_below(r, 8)]);
	uint32_t l3, header, bytes = random_below(r, 100);

	if (chance(r, 25)) { // a frame that is not IP
		l3 = put_ethernet(r, frame, random_below(r, 65536));
		fill(r, frame + l3, bytes);
		return l3 + bytes;
	}
	l3 = put_ethernet(r, frame, tuple.family == 4 ? 0x0800 : 0x86dd);
	header = put_ip(r, frame + l3, &tuple, &whole);
	fill(r, frame + l3 + header, bytes);
	finish_ip(frame + l3, header + bytes);
	return l3 + header + bytes;
}

// --- mutations ----------------------------------------------------------------------------------

static void mutate(struct random *r, uint8_t *frame, uint32_t *n) {
	static const uint8_t special[] = {
		0, 1, 4, 6, 8, 17, 44, 58, 0x40, 0x45, 0x60, 0x7f, 0x80, 0xff};
	uint32_t near = *n < 100 ? *n : 100, at = near > 0 ? random_below(r, near) : 0;

	if (near == 0) {
		return;
	}
	switch (random_below(r, 9)) {
	case 0:
	case 1:
	case 2:
		frame[at] ^= (uint8_t)(1u << random_below(r, 8));
		break;
	case 3:
		frame[at] = special[random_below(r, sizeof(special))];
		break;
	case 4:
		frame[at] = (uint8_t)random64(r);
		break;
	case 5: // change a 16-bit number by at most 8
		if (at + 2 <= *n) {
			put16(frame + at, get16(frame + at) + random_below(r, 17) - 8);
		}
		break;
	case 6:
		*n = chance(r, 70) ? random_below(r, near + 1) : random_below(r, *n + 1);
		break;
	case 7: // add padding
		if (*n + 64 < TRAFFIC_FRAME_MAX) {
			uint32_t more = random_below(r, 64);

			fill(r, frame + *n, more);
			*n += more;
		}
		break;
	default: // copy bytes from another position
		if (at + 4 <= *n) {
			memmove(frame + at, frame + random_below(r, *n - 3), 4);
		}
	}
}

// Correct the lengths or checksums of a mutated frame, so that only other fields are wrong.
static void mend(struct random *r, uint8_t *frame, uint32_t n) {
	uint32_t at = after_tags(frame, n, 3), header;
	uint8_t *ip = frame + at;

	if (at + 40 > n) {
		return;
	}
	header = (ip[0] & 15u) * 4;
	if (ip[0] >> 4 == 4 && header >= 20 && at + header <= n) {
		if (chance(r, 30)) {
			put16(ip + 2, n - at);
		}
		put16(ip + 10, 0);
		put16(ip + 10, (uint16_t)~sum16(ip, header, 0));
	} else if (ip[0] >> 4 == 6 && chance(r, 30)) {
		put16(ip + 4, n - at - 40);
	} else {
		return;
	}
	if (chance(r, 30)) {
		uint32_t bytes = ip[0] >> 4 == 4 ? get16(ip + 2) : 40u + get16(ip + 4);
		uint8_t protocol = ip[0] >> 4 == 4 ? ip[9] : ip[6];

		header = ip[0] >> 4 == 4 ? header : 40;
		if ((protocol == 1 || protocol == 6 || protocol == 17 || protocol == 58) &&
			bytes <= n - at && bytes >= header + 20) {
			put_l4_sum(ip, ip + header, bytes - header, protocol);
		}
	}
}

static void receive(struct random *r, uint32_t n, struct reception *ret) {
	*ret = (struct reception){.headroom = 128, .tailroom = 64};
	if (chance(r, 5)) {
		ret->headroom = (uint16_t)random_below(r, 80);
	}
	if (chance(r, 30)) {
		ret->tailroom = 0;
	}
	if (chance(r, 5) && n > 1) {
		ret->first =
			(uint16_t)(1 + random_below(r, chance(r, 80) && n > 100 ? 100 : n - 1));
		ret->tailroom = 256;
	}
	if (chance(r, 3)) {
		ret->tag = 100;
	}
	ret->checked = chance(r, 2);
}

uint32_t traffic_frame(struct traffic *traffic, uint8_t *frame, struct reception *ret) {
	struct random *r = &traffic->random;
	uint32_t kind = random_below(r, 100), n;

	n = kind < 46   ? flow_frame(traffic, frame, 6)
	    : kind < 66 ? flow_frame(traffic, frame, 17)
	    : kind < 71 ? echo_frame(traffic, frame)
	    : kind < 79 ? error_frame(traffic, frame)
	    : kind < 95 ? fragment_frame(traffic, frame)
			: other_frame(traffic, frame);
	if (n < 60 && chance(r, 50)) {
		memset(frame + n, 0, 60 - n);
		n = 60;
	}
	if (chance(r, traffic->mutated_percent)) {
		uint32_t times = 1 + random_below(r, 3);

		for (uint32_t i = 0; i < times; i++) {
			mutate(r, frame, &n);
		}
		if (chance(r, 75)) {
			mend(r, frame, n);
		}
	}
	receive(r, n, ret);
	return n;
}
