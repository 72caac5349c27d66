// SPDX-License-Identifier: BSD-3-Clause
#include "output.h"

#define TTL 64
#define DF 0x4000
#define MF 0x2000
#define PIECE_ROOM OUTPUT_FRAME_MIN // buffers of fragments have room for padding

// --- to a backend -----------------------------------------------------------------------------

// Returns the length of the outer IP header.
static uint32_t header_bytes(const struct weir_backend_path *path) {
	return path->forwarding.mode == WEIR_FORWARDING_L2 ? 0 : path->family == 4 ? 20 : 40;
}

// Returns the number of bytes between the outer IP header and the packet.
static uint32_t tail_bytes(const struct weir_backend_path *path) {
	switch ((enum weir_forwarding_mode)path->forwarding.mode) {
	case WEIR_FORWARDING_GUE:
		return 8 + 4;
	case WEIR_FORWARDING_GRE:
		return path->forwarding.gre_key != 0 ? 8 : 4;
	default:
		return 0;
	}
}

uint32_t output_outer_bytes(const struct weir_backend_path *path) {
	return header_bytes(path) + tail_bytes(path);
}

uint32_t output_l2_bytes(const struct weir_backend_path *path) {
	return path->vlan != 0 ? 18 : 14;
}

static uint32_t put_l2(uint8_t *to, const struct view *view, const struct weir_backend_path *path) {
	const bool l2 = path->forwarding.mode == WEIR_FORWARDING_L2;
	uint32_t at = 12;

	memcpy(to, path->next_hop_mac, 6);
	memcpy(to + 6, path->port_mac, 6);
	if (path->vlan != 0) {
		put16(to + at, 0x8100);
		put16(to + at + 2, path->vlan);
		at += 4;
	}
	put16(to + at, (l2 ? view->key.family : path->family) == 4 ? 0x0800 : 0x86dd);
	return at + 2;
}

// Writes what is between the outer IP header and an inner packet of `bytes` bytes. Returns its
// length.
static uint32_t put_tail(
	uint8_t *to, const struct view *view, const struct output_path *output, uint32_t bytes) {
	const struct weir_forwarding *forwarding = &output->path->forwarding;
	const bool v4 = view->key.family == 4;

	switch ((enum weir_forwarding_mode)forwarding->mode) {
	case WEIR_FORWARDING_GUE:
		// Source port: bits 16 to 29 of the flow's hash, in the dynamic range
		put16(to, 0xc000 | (uint32_t)(output->hash >> 16 & 0x3fff));
		put16(to + 2, forwarding->gue_port);
		put16(to + 4, 12 + bytes);
		put16(to + 6, 0); // no checksum
		put32(to + 8, (v4 ? 4u : 41u) << 16); // version 0, no options, the protocol
		break;
	case WEIR_FORWARDING_GRE:
		put16(to, forwarding->gre_key != 0 ? 0x2000 : 0);
		put16(to + 2, v4 ? 0x0800 : 0x86dd);
		if (forwarding->gre_key != 0) {
			put32(to + 4, forwarding->gre_key);
		}
		break;
	default:
		break;
	}
	return tail_bytes(output->path);
}

// Protocol of the outer IP header.
static uint8_t protocol_of(const struct view *view, const struct weir_backend_path *path) {
	return path->forwarding.mode == WEIR_FORWARDING_GUE   ? 17
	       : path->forwarding.mode == WEIR_FORWARDING_GRE ? 47
	       : view->key.family == 4                        ? 4
							      : 41;
}

// Writes the outer IP header for a payload of `bytes` bytes; nothing if the mode has no such
// header.
static void put_outer(uint8_t *to, const struct view *view, const struct output_path *output,
	uint32_t bytes, uint32_t fragment, uint32_t id) {
	const struct weir_backend_path *path = output->path;
	uint8_t protocol = protocol_of(view, path);
	uint32_t low, label = (uint32_t)(output->hash >> 12) & 0xfffff;

	memset(to, 0, header_bytes(path));
	if (header_bytes(path) == 0) {
		return;
	}
	if (path->family == 6) {
		put32(to, 6u << 28 | (uint32_t)view->tos << 20 | (label == 0 ? 1 : label));
		put16(to + 4, bytes);
		to[6] = protocol;
		to[7] = TTL;
		memcpy(to + 8, path->source, 16);
		memcpy(to + 24, path->address, 16);
		return;
	}
	to[0] = 0x45;
	to[1] = view->tos;
	put16(to + 2, 20 + bytes);
	put16(to + 4, id);
	put16(to + 6, fragment);
	to[8] = TTL;
	to[9] = protocol;
	memcpy(to + 12, path->source, 4);
	memcpy(to + 16, path->address, 4);
	// The low bits of the source address come from bits 16 to 31 of the flow's hash, with the
	// two bytes swapped.
	low = (uint32_t)(output->hash >> 16 & 0xff) << 8 | (uint32_t)(output->hash >> 24 & 0xff);
	put16(to + 14, get16(to + 14) | (low & ((1u << path->source_bits) - 1)));
	put16(to + 10, (uint16_t)~sum16(to, 20, 0));
}

// Writes all headers in front of an inner packet of `bytes` bytes. Returns their length.
static uint32_t put_headers(
	uint8_t *to, const struct view *view, const struct output_path *output, uint32_t bytes) {
	const struct weir_backend_path *path = output->path;
	uint32_t at = put_l2(to, view, path);

	put_outer(to + at, view, output, tail_bytes(path) + bytes, DF, 0);
	at += header_bytes(path);
	return at + put_tail(to + at, view, output, bytes);
}

static uint32_t inner_header(const struct view *view) {
	return (view->ip[0] & 15u) * 4;
}

// Write the IPv4 header of a fragment other than the first. It has only the options that are copied
// to all fragments (RFC 791, 3.1). Returns the length of the header.
static uint32_t later_header(const struct view *view, uint8_t *to) {
	uint32_t header = inner_header(view), n = 20, at = 20;
	const uint8_t *ip = view->ip;

	memcpy(to, ip, 20);
	while (at < header && ip[at] != 0) {
		uint32_t size = 1;

		if (ip[at] != 1) {
			if (at + 1 == header || ip[at + 1] < 2 || at + ip[at + 1] > header) {
				break;
			}
			size = ip[at + 1];
		}
		for (uint32_t i = 0; i < size && ip[at] >= 0x80; i++) {
			to[n++] = ip[at + i];
		}
		at += size;
	}
	while (n % 4 != 0) {
		to[n++] = 0;
	}
	to[0] = (uint8_t)(0x40 | n / 4);
	return n;
}

static uint32_t pieces_of(uint32_t data, uint32_t first, uint32_t part) {
	return data <= first ? 1 : 1 + (data - first + part - 1) / part;
}

void output_plan(const struct plan *plan, const struct view *view, uint16_t backend, uint64_t hash,
	uint32_t room, struct output_path *ret) {
	const struct weir_backend_path *path = &plan->backends[backend].path;
	uint32_t max = path->mtu - output_outer_bytes(path);
	uint8_t header[60];

	*ret = (struct output_path){.path = path, .hash = hash, .pieces = 1, .room = room};
	if (view->ip_bytes <= max) {
		return;
	}
	if (view->key.family == 4) {
		uint32_t first = (max - inner_header(view)) & ~7u;
		uint32_t part = (max - later_header(view, header)) & ~7u;

		ret->pieces = (get16(view->ip + 6) & DF) != 0
				      ? 0
				      : pieces_of(view->ip_bytes - inner_header(view), first, part);
		ret->tiny = first == 0;
	} else if (view->ip_bytes <= 1280 && path->forwarding.mode != WEIR_FORWARDING_L2) {
		// Routers can fragment the outer packet, even if it fits the MTU of the port.
		bool v4 = path->family == 4;
		uint32_t payload = tail_bytes(path) + view->ip_bytes, part;

		ret->outer = true;
		ret->outer_max = v4 ? plan->port_mtu[path->port] : path->mtu;
		part = (ret->outer_max - (v4 ? 20 : 48)) & ~7u;
		ret->pieces =
			v4 && payload + 20 <= ret->outer_max ? 1 : pieces_of(payload, part, part);
	} else {
		ret->pieces = 0;
	}
}

uint32_t output_id_at(const struct output_path *output, uint32_t *ret_bytes) {
	uint32_t l2 = output_l2_bytes(output->path);

	*ret_bytes = output->path->family == 4 ? 2 : 4;
	return l2 + (output->path->family == 4 ? 4 : 44);
}

// Writes a fragment of the outer packet. Returns its length.
static uint32_t outer_piece(const struct view *view, const struct output_path *output,
	uint32_t piece, uint32_t id, uint8_t *to) {
	bool v4 = output->path->family == 4, last = piece + 1 == output->pieces;
	uint32_t extra = v4 ? 0 : 8;
	uint32_t part = (output->outer_max - header_bytes(output->path) - extra) & ~7u;
	uint8_t payload[12 + 1280];
	uint32_t tail = put_tail(payload, view, output, view->ip_bytes), from = piece * part;
	uint32_t bytes = last ? tail + view->ip_bytes - from : part;
	uint32_t at = put_l2(to, view, output->path);

	memcpy(payload + tail, view->ip, view->ip_bytes);

	put_outer(to + at, view, output, extra + bytes, v4 ? (last ? 0 : MF) | from / 8 : 0, id);
	if (!v4) {
		uint8_t *header = to + at + 40;

		header[0] = to[at + 6];
		header[1] = 0;
		put16(header + 2, from | !last);
		put32(header + 4, id);
		to[at + 6] = 44;
	}
	at += header_bytes(output->path) + extra;
	memcpy(to + at, payload + from, bytes);
	return at + bytes;
}

// Writes a fragment of the inner packet. Returns its length.
static uint32_t inner_piece(
	const struct view *view, const struct output_path *output, uint32_t piece, uint8_t *to) {
	uint32_t max = output->path->mtu - output_outer_bytes(output->path);
	uint32_t first_header = inner_header(view), header = first_header, from = 0, bytes;
	uint32_t first = (max - first_header) & ~7u, data = view->ip_bytes - first_header;
	uint32_t fragment = get16(view->ip + 6);
	uint8_t *ip = to + output_l2_bytes(output->path) + output_outer_bytes(output->path);

	if (piece == 0) {
		memcpy(ip, view->ip, header);
		bytes = first;
	} else {
		header = later_header(view, ip);
		bytes = (max - header) & ~7u;
		from = first + (piece - 1) * bytes;
	}
	if (piece + 1 == output->pieces) {
		bytes = data - from;
	} else {
		fragment |= MF;
	}
	put16(ip + 2, header + bytes);
	put16(ip + 6, (fragment & MF) | ((fragment & 0x1fff) + from / 8));
	put16(ip + 10, 0);
	put16(ip + 10, (uint16_t)~sum16(ip, header, 0));
	memcpy(ip + header, view->ip + first_header + from, bytes);
	return put_headers(to, view, output, header + bytes) + header + bytes;
}

// Pads a frame of n bytes. room: bytes behind it. Returns its length.
static uint32_t pad(uint32_t room, uint8_t *to, uint32_t n) {
	if (n >= OUTPUT_FRAME_MIN || n + room < OUTPUT_FRAME_MIN) {
		return n;
	}
	memset(to + n, 0, OUTPUT_FRAME_MIN - n);
	return OUTPUT_FRAME_MIN;
}

uint32_t output_piece(const struct view *view, const struct output_path *output, uint32_t piece,
	uint32_t id, uint8_t *to) {
	uint32_t at;

	if (output->outer) {
		return pad(PIECE_ROOM, to, outer_piece(view, output, piece, id, to));
	}
	if (output->pieces > 1) {
		return pad(PIECE_ROOM, to, inner_piece(view, output, piece, to));
	}
	at = put_headers(to, view, output, view->ip_bytes);
	memcpy(to + at, view->ip, view->ip_bytes);
	return pad(output->room, to, at + view->ip_bytes);
}

// --- replies ----------------------------------------------------------------------------------

static uint32_t put_reply_l2(
	const struct frame *frame, const struct view *view, uint16_t tag, uint8_t *to) {
	uint32_t at = 12;

	memcpy(to, frame->bytes + 6, 6);
	memcpy(to + 6, frame->bytes, 6);
	if (tag != 0) {
		put16(to + at, 0x8100);
		put16(to + at + 2, tag);
		at += 4;
	}
	memcpy(to + at, frame->bytes + 12, view->l3 - 12);
	return at + view->l3 - 12;
}

// Writes the IP header of a reply from the VIP to the sender, with `bytes` bytes of payload.
// Returns the length of the header.
static uint32_t put_reply_ip(
	uint8_t *ip, const struct view *view, uint8_t tos, uint8_t protocol, uint32_t bytes) {
	if (view->key.family == 4) {
		memset(ip, 0, 20);
		ip[0] = 0x45;
		ip[1] = tos;
		put16(ip + 2, 20 + bytes);
		put16(ip + 6, DF);
		ip[8] = TTL;
		ip[9] = protocol;
		memcpy(ip + 12, view->ip + 16, 4);
		memcpy(ip + 16, view->ip + 12, 4);
		put16(ip + 10, (uint16_t)~sum16(ip, 20, 0));
		return 20;
	}
	memset(ip, 0, 40);
	ip[0] = 0x60;
	put16(ip + 4, bytes);
	ip[6] = protocol;
	ip[7] = TTL;
	memcpy(ip + 8, view->ip + 24, 16);
	memcpy(ip + 24, view->ip + 8, 16);
	return 40;
}

// Writes an echo reply: the request's IP header, with no options and no extension headers, and the
// ICMP message.
static uint32_t put_echo(uint8_t *ip, const struct view *view) {
	bool v4 = view->key.family == 4;
	uint32_t bytes = view->ip_bytes - view->l4;
	uint32_t header = put_reply_ip(ip, view, view->tos, v4 ? 1 : 58, bytes);
	uint8_t *icmp = ip + header;

	if (v4) { // copy identification and fragment fields from the request
		memcpy(ip + 4, view->ip + 4, 4);
		put16(ip + 10, 0);
		put16(ip + 10, (uint16_t)~sum16(ip, 20, 0));
	} else {
		memcpy(ip, view->ip, 4);
	}
	memcpy(icmp, view->ip + view->l4, bytes);
	icmp[0] = v4 ? 0 : 129;
	put16(icmp + 2, 0);
	put16(icmp + 2, (uint16_t)~sum16(icmp, bytes, v4 ? 0 : pseudo_sum(ip, bytes, 58)));
	return header + bytes;
}

// Returns the number of bytes of the packet that an ICMP error quotes.
static uint32_t quoted_bytes(const struct frame *frame, const struct view *view) {
	uint32_t most = view->key.family == 4 ? 576 - 28 : 1280 - 48;
	uint32_t bytes = view->ip_bytes, readable = frame->readable - view->l3;

	bytes = bytes < readable ? bytes : readable;
	return bytes < most ? bytes : most;
}

static uint32_t put_error(
	uint8_t *ip, const struct view *view, bool too_big, uint32_t mtu, uint32_t quoted) {
	bool v4 = view->key.family == 4;
	uint32_t header = put_reply_ip(ip, view, 0xc0, v4 ? 1 : 58, 8 + quoted);
	uint8_t *icmp = ip + header;

	memset(icmp, 0, 8);
	icmp[0] = v4 ? 3 : too_big ? 2 : 1;
	icmp[1] = v4 ? (too_big ? 4 : 3) : too_big ? 0 : 4;
	put32(icmp + 4, mtu); // ICMPv4: the upper 16 bits are 0
	memcpy(icmp + 8, view->ip, quoted);
	put16(icmp + 2,
		(uint16_t)~sum16(icmp, 8 + quoted, v4 ? 0 : pseudo_sum(ip, 8 + quoted, 58)));
	return header + 8 + quoted;
}

// Writes an RST (RFC 9293, 3.10.7.1) or a challenge ACK. Returns its length.
static uint32_t put_segment(uint8_t *ip, const struct view *view, bool challenge) {
	const uint8_t *tcp = view->ip + view->l4;
	uint32_t header = put_reply_ip(ip, view, 0, 6, 20);
	uint32_t bytes = view->ip_bytes - view->l4 - (tcp[12] >> 4) * 4u;
	uint8_t *segment = ip + header;

	memset(segment, 0, 20);
	memcpy(segment, tcp + 2, 2);
	memcpy(segment + 2, tcp, 2);
	segment[12] = 0x50;
	if (challenge) {
		memcpy(segment + 8, tcp + 4, 4);
		segment[13] = 0x10;
	} else if ((tcp[13] & 0x10) != 0) {
		memcpy(segment + 4, tcp + 8, 4);
		segment[13] = 0x04;
	} else {
		bytes += (tcp[13] & 0x01) + (uint32_t)(tcp[13] >> 1 & 1);
		put32(segment + 8, get32(tcp + 4) + bytes);
		segment[13] = 0x14;
	}
	put16(segment + 16, (uint16_t)~sum16(segment, 20, pseudo_sum(ip, 20, 6)));
	return header + 20;
}

uint32_t output_reply(const struct frame *frame, const struct view *view, enum output_kind kind,
	uint16_t tag, uint32_t mtu, uint8_t *to, uint32_t *ret_end) {
	uint32_t at = put_reply_l2(frame, view, tag, to), quoted;

	switch (kind) {
	case OUTPUT_ECHO:
		*ret_end = view->l3 + view->ip_bytes;
		return at + put_echo(to + at, view);
	case OUTPUT_RESET:
	case OUTPUT_CHALLENGE:
		*ret_end = view->l3 + (view->key.family == 4 ? 40 : 60);
		return at + put_segment(to + at, view, kind == OUTPUT_CHALLENGE);
	case OUTPUT_TOO_BIG:
	case OUTPUT_UNREACHABLE:
		break;
	}
	quoted = quoted_bytes(frame, view);
	*ret_end = view->l3 + quoted;
	return at + put_error(to + at, view, kind == OUTPUT_TOO_BIG, mtu, quoted);
}
