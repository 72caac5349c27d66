// SPDX-License-Identifier: BSD-3-Clause
#include "read.h"

#define ETHERNET 14
#define CHAIN_MAX 8

static void broken(struct view *view, enum weir_drop_reason reason) {
	view->kind = VIEW_BROKEN;
	view->reasons = 1ull << reason;
}

static void suspect(struct view *view, uint64_t reasons) {
	view->kind = VIEW_SUSPECT;
	view->reasons |= reasons;
}

// --- TCP, UDP, ICMP ---------------------------------------------------------------------------

// Valid combinations are SYN, SYN ACK, ACK, FIN ACK, RST, each with PSH, URG, ECE, CWR.
static bool flags_valid(uint8_t flags) {
	switch (flags & 0x17) { // FIN, SYN, RST, ACK
	case 0x02:
	case 0x12:
	case 0x10:
	case 0x11:
	case 0x04:
	case 0x14:
		return true;
	default:
		return false;
	}
}

static enum view_event tcp_event(uint8_t flags, bool payload) {
	return (flags & 0x04) != 0      ? EVENT_RST
	       : (flags & 0x01) != 0    ? EVENT_FIN
	       : (flags & 0x12) == 0x02 ? EVENT_SYN
	       : payload                ? EVENT_DATA
					: EVENT_ACK;
}

static void view_tcp(struct view *view, uint32_t readable) {
	const uint8_t *tcp = view->ip + view->l4;
	uint32_t bytes = view->ip_bytes - view->l4, header;

	if (readable < view->l4 + 20) {
		suspect(view, view->whole ? REASON(TCP_TRUNCATED) : REASON(FRAGMENT_TINY));
		return;
	}
	header = (uint32_t)(tcp[12] >> 4) * 4;
	if (header < 20) {
		suspect(view, REASON(TCP_HEADER_LENGTH));
	} else if (header > bytes) {
		suspect(view, view->whole ? REASON(TCP_HEADER_LENGTH) : REASON(FRAGMENT_TINY));
	}
	if (!flags_valid(tcp[13])) {
		suspect(view, REASON(TCP_FLAGS));
	}
	view->event = tcp_event(tcp[13], bytes > header);
	view->may_join = (tcp[13] & 0x17) == 0x10;
}

static void view_udp(struct view *view, uint32_t readable) {
	const uint8_t *udp = view->ip + view->l4;
	uint32_t bytes = view->ip_bytes - view->l4;

	if (readable < view->l4 + 8) {
		suspect(view, view->whole ? REASON(UDP_TRUNCATED) : REASON(FRAGMENT_TINY));
		return;
	}
	if (get16(udp + 4) < 8 || (view->whole && get16(udp + 4) > bytes)) {
		suspect(view, REASON(UDP_LENGTH));
	}
	view->event = EVENT_DATAGRAM;
}

static uint32_t chain(
	const uint8_t *ip, uint32_t bytes, uint8_t *ret_protocol, uint32_t *ret_fragment);

// Reads the key of the flow that an ICMP error is about, or the reason why the error is invalid.
static void view_quoted(struct view *view, uint32_t readable) {
	const uint8_t *quoted = view->ip + view->l4 + 8;
	uint32_t bytes = readable - view->l4 - 8, l4 = 0, fragment = 0;
	bool v4 = view->key.family == 4, later = false;
	struct key key = {.family = view->key.family};
	uint32_t size = v4 ? 4 : 16, at = v4 ? 12 : 8;

	if (bytes < (v4 ? 20u : 40u) || quoted[0] >> 4 != view->key.family) {
		suspect(view, REASON(ICMP_TRUNCATED));
		return;
	}
	if (v4) {
		l4 = (quoted[0] & 15u) * 4;
		key.protocol = quoted[9];
		later = (get16(quoted + 6) & 0x1fff) != 0;
		l4 = l4 < 20 || get16(quoted + 2) < l4 ? 0 : l4;
	} else {
		l4 = chain(quoted, bytes, &key.protocol, &fragment);
		later = l4 != 0 && fragment != 0 && (get16(quoted + fragment + 2) & 0xfff8) != 0;
	}
	if (l4 == 0) {
		suspect(view, REASON(ICMP_TRUNCATED));
		return;
	}
	memcpy(key.source, quoted + at + size, size);
	memcpy(key.destination, quoted + at, size);
	if (later || (key.protocol != 6 && key.protocol != 17) ||
		memcmp(key.destination, view->key.destination, 16) != 0) {
		suspect(view, REASON(ICMP_UNMATCHED));
	}
	if (bytes < l4 + 8) {
		suspect(view, REASON(ICMP_TRUNCATED));
	}
	if (view->kind == VIEW_ERROR) {
		memcpy(key.ports, quoted + l4 + 2, 2);
		memcpy(key.ports + 2, quoted + l4, 2);
		view->key = key;
	}
}

static void view_icmp(struct view *view, uint32_t readable) {
	const uint8_t *icmp = view->ip + view->l4;
	bool v4 = view->key.family == 4;
	uint8_t type;

	if (readable < view->l4 + 8) {
		suspect(view, REASON(ICMP_TRUNCATED));
		return;
	}
	type = icmp[0];
	if (type == (v4 ? 8 : 128)) {
		view->kind = VIEW_ECHO;
	} else if (v4 ? type == 3 || type == 11 || type == 12 : type >= 1 && type <= 4) {
		view->kind = VIEW_ERROR;
		if (view->reasons == 0) {
			view_quoted(view, readable);
		}
	} else {
		view->kind = VIEW_OTHER;
	}
}

static bool is_extension(uint8_t next) {
	return next == 0 || next == 43 || next == 44 || next == 51 || next == 60;
}

// --- fragments --------------------------------------------------------------------------------

// Reads a fragment with `bytes` bytes of data at `offset` units of 8 bytes. IPv6: only the Next
// Header field of the fragment at offset 0 counts (RFC 8200, 4.5). This field names the first
// header of the fragmentable part. The protocol of a later fragment is therefore not known.
static void view_fragment(struct view *view, uint32_t offset, uint32_t bytes) {
	bool nameless = view->key.family == 6 && offset > 0;
	bool flow = view->key.protocol == 6 || view->key.protocol == 17;

	view->whole = false;
	view->from = offset;
	view->to = offset + (bytes + 7) / 8;
	view->alone = flow || is_extension(view->key.protocol) ? REASON(FRAGMENT_FIRST_MISSING)
							       : REASON(FRAGMENT);
	if (!flow && !nameless) {
		suspect(view, REASON(FRAGMENT));
		return;
	}
	if (bytes == 0 || (!view->last && bytes % 8 != 0) ||
		(offset == 1 && view->key.protocol == 6)) {
		suspect(view, REASON(FRAGMENT_TINY));
	}
	if (view->to > 8192) {
		suspect(view, REASON(FRAGMENT_OVERLAP));
	}
	if (view->reasons != 0) {
		view->reasons |= view->alone & REASON(FRAGMENT);
	}
}

// Reads the data after the IP header and the fragment fields.
static void view_l4(struct view *view, uint32_t readable) {
	uint8_t protocol = view->key.protocol;
	bool flow = protocol == 6 || protocol == 17;

	if (!view->whole && view->from > 0) {
		view->kind = view->reasons != 0 ? VIEW_SUSPECT : VIEW_LATER;
		return;
	}
	if (protocol == 6) {
		view_tcp(view, readable);
	} else if (protocol == 17) {
		view_udp(view, readable);
	} else if (view->whole && protocol == (view->key.family == 4 ? 1 : 58)) {
		view_icmp(view, readable);
	}
	if (view->reasons != 0) {
		view->kind = VIEW_SUSPECT;
	} else if (flow) {
		view->kind = VIEW_FLOW;
		memcpy(view->key.ports, view->ip + view->l4, 4);
	}
}

// --- IP ---------------------------------------------------------------------------------------

static bool martian(const struct view *view) {
	const uint8_t *from = view->key.source;
	static const uint8_t none[16], local[16] = {[15] = 1}, mapped[12] = {[10] = 0xff, 0xff};

	if (memcmp(from, view->key.destination, 16) == 0) {
		return true;
	}
	if (view->key.family == 4) {
		return from[0] == 0 || from[0] == 127 || (from[0] >= 224 && from[0] < 240) ||
		       get32(from) == 0xffffffff;
	}
	return from[0] == 0xff || memcmp(from, none, 16) == 0 || memcmp(from, local, 16) == 0 ||
	       memcmp(from, mapped, 12) == 0;
}

static void view_ipv4(struct view *view, const struct frame *frame) {
	const uint8_t *ip = view->ip;
	uint32_t have = frame->n - view->l3, readable = frame->readable - view->l3, fragment;

	if (readable < 20) {
		broken(view, WEIR_DROP_IPV4_TRUNCATED);
		return;
	}
	view->l4 = (ip[0] & 15u) * 4;
	view->ip_bytes = get16(ip + 2);
	if (ip[0] >> 4 != 4) {
		broken(view, WEIR_DROP_IPV4_VERSION);
	} else if (view->l4 < 20 || view->l4 > readable) {
		broken(view, WEIR_DROP_IPV4_HEADER_LENGTH);
	} else if (view->ip_bytes < view->l4 || view->ip_bytes > have) {
		broken(view, WEIR_DROP_IPV4_TOTAL_LENGTH);
	} else if (!frame->checked && sum16(ip, view->l4, 0) != 0xffff) {
		broken(view, WEIR_DROP_IPV4_CHECKSUM);
	}
	if (view->kind == VIEW_BROKEN) {
		return;
	}
	readable = readable < view->ip_bytes ? readable : view->ip_bytes;
	view->tos = ip[1];
	view->key.family = 4;
	view->key.protocol = ip[9];
	memcpy(view->key.source, ip + 12, 4);
	memcpy(view->key.destination, ip + 16, 4);
	view->reasons |= martian(view) ? REASON(SOURCE_ADDRESS) : 0;
	view->reasons |= ip[8] == 0 ? REASON(TTL_EXPIRED) : 0;
	fragment = get16(ip + 6) & 0x3fff;
	if (fragment != 0) {
		view->id = get16(ip + 4);
		view->last = (fragment & 0x2000) == 0;
		view_fragment(view, fragment & 0x1fff, view->ip_bytes - view->l4);
	}
	view_l4(view, readable);
}

// Walk the extension headers of an IPv6 packet. Returns the offset of the data after them, 0 if
// they are invalid. *ret_fragment: offset of the fragment header, or 0 if the packet is not a
// fragment.
static uint32_t chain(
	const uint8_t *ip, uint32_t bytes, uint8_t *ret_protocol, uint32_t *ret_fragment) {
	uint32_t at = 40, n = 0;
	uint8_t next = ip[6];

	*ret_fragment = 0;
	while (is_extension(next)) {
		uint32_t size;

		if (n == CHAIN_MAX || at + 8 > bytes || (next == 0 && n > 0)) {
			return 0;
		}
		n++;
		size = next == 44 ? 8 : next == 51 ? (ip[at + 1] + 2u) * 4 : (ip[at + 1] + 1u) * 8;
		if (at + size > bytes) {
			return 0;
		}
		if (next == 44 && (get16(ip + at + 2) & 0xfff9) != 0) {
			if (*ret_fragment != 0) {
				return 0;
			}
			*ret_fragment = at;
		}
		next = ip[at];
		at += size;
		if (*ret_fragment + size == at && (get16(ip + *ret_fragment + 2) & 0xfff8) != 0) {
			break; // the data of a later fragment follows, not a header
		}
	}
	*ret_protocol = next;
	return at;
}

static void view_ipv6(struct view *view, const struct frame *frame) {
	const uint8_t *ip = view->ip;
	uint32_t have = frame->n - view->l3, readable = frame->readable - view->l3, at;

	if (readable < 40) {
		broken(view, WEIR_DROP_IPV6_TRUNCATED);
		return;
	}
	view->ip_bytes = 40u + get16(ip + 4);
	if (ip[0] >> 4 != 6) {
		broken(view, WEIR_DROP_IPV6_VERSION);
		return;
	}
	if (view->ip_bytes > have) {
		broken(view, WEIR_DROP_IPV6_PAYLOAD_LENGTH);
		return;
	}
	readable = readable < view->ip_bytes ? readable : view->ip_bytes;
	view->tos = (uint8_t)(get16(ip) >> 4);
	view->key.family = 6;
	memcpy(view->key.source, ip + 8, 32);
	view->reasons |= martian(view) ? REASON(SOURCE_ADDRESS) : 0;
	view->reasons |= ip[7] == 0 ? REASON(TTL_EXPIRED) : 0;
	view->l4 = chain(ip, readable, &view->key.protocol, &at);
	if (view->l4 == 0) {
		suspect(view, REASON(IPV6_EXTENSION));
		return;
	}
	if (at != 0) {
		view->id = get32(ip + at + 4);
		view->last = (ip[at + 3] & 1) == 0;
		view_fragment(view, get16(ip + at + 2) >> 3, view->ip_bytes - at - 8);
	}
	view_l4(view, readable);
}

// --- frames -----------------------------------------------------------------------------------

static void view_packet(const struct frame *frame, struct view *view) {
	uint32_t at = 12, tags = 0;
	uint16_t type = get16(frame->bytes + at);

	while (type == 0x8100 || type == 0x88a8 || type == 0x9100) {
		if (++tags > 2) {
			broken(view, WEIR_DROP_VLAN_TOO_DEEP);
			return;
		}
		at += 4;
		if (frame->readable < at + 2) {
			broken(view, WEIR_DROP_VLAN_TRUNCATED);
			return;
		}
		type = get16(frame->bytes + at);
	}
	view->l3 = at + 2;
	view->ip = frame->bytes + view->l3;
	if (type == 0x0800) {
		view_ipv4(view, frame);
	} else if (type == 0x86dd) {
		view_ipv6(view, frame);
	}
}

void view_frame(const struct plan *plan, const struct frame *frame, struct view *ret) {
	static const uint8_t own[6] = PLAN_MAC;

	memset(ret, 0, sizeof(*ret));
	ret->kind = VIEW_OTHER;
	ret->whole = true;
	ret->vip = -1;
	if (frame->readable < ETHERNET) {
		broken(ret, WEIR_DROP_FRAME_TOO_SHORT);
		return;
	}
	view_packet(frame, ret);
	if (ret->kind != VIEW_BROKEN && ret->key.family != 0) {
		ret->vip = plan_vip_of(plan, ret->key.destination, ret->key.family);
	}
	if (memcmp(frame->bytes, own, 6) == 0) {
		ret->to_vip = ret->vip >= 0;
	} else if ((frame->bytes[0] & 1) == 0) {
		broken(ret, WEIR_DROP_OTHER_MAC);
	} else if (ret->vip >= 0) {
		ret->kind = VIEW_SUSPECT;
		ret->reasons = REASON(OTHER_MAC);
		ret->to_vip = true;
	}
	if (!ret->whole && ret->kind != VIEW_BROKEN && plan->fragment_entries == 0) {
		suspect(ret, REASON(FRAGMENT));
	}
}

// --- sums and hashes --------------------------------------------------------------------------

bool view_l4_sum_good(const struct frame *frame, const struct view *view) {
	const uint8_t *l4 = view->ip + view->l4;
	uint32_t bytes = view->ip_bytes - view->l4, have = frame->n - view->l3 - view->l4;
	uint32_t start = 0;

	if (view->key.protocol == 17) {
		if (get16(l4 + 6) == 0) {
			return view->key.family == 4;
		}
		bytes = get16(l4 + 4); // the length field of UDP
	}
	if (view->key.protocol != 1) {
		start = pseudo_sum(view->ip, bytes, view->key.protocol);
	}
	return sum16(l4, bytes < have ? bytes : have, start) == 0xffff;
}

static uint64_t fold128(unsigned __int128 product) {
	return (uint64_t)(product >> 64) ^ (uint64_t)product;
}

static uint64_t little64(const uint8_t *at) {
	uint64_t value = 0;

	for (int i = 7; i >= 0; i--) {
		value = value << 8 | at[i];
	}
	return value;
}

uint64_t key_hash(const struct key *key) {
	const uint64_t seed = PLAN_SEED, turned = seed << 32 | seed >> 32;
	uint64_t ports = key->ports[0] | (uint64_t)key->ports[1] << 8 |
			 (uint64_t)key->ports[2] << 16 | (uint64_t)key->ports[3] << 24;
	uint64_t rest = ports | (uint64_t)key->protocol << 32;
	unsigned __int128 from, to;
	uint64_t mixed;

	if (key->family == 4) {
		uint64_t addresses =
			(little64(key->source) & 0xffffffff) | little64(key->destination) << 32;

		mixed = fold128((unsigned __int128)(addresses ^ 0x9e3779b97f4a7c15ull ^ seed) *
				(rest ^ 0xd1342543de82ef95ull));
		return fold128((unsigned __int128)(mixed ^ seed) * (0xa0761d6478bd642full ^ rest));
	}
	from = (unsigned __int128)(little64(key->source) ^ 0x9e3779b97f4a7c15ull ^ seed) *
	       (little64(key->source + 8) ^ 0xd1342543de82ef95ull ^ turned);
	to = (unsigned __int128)(little64(key->destination) ^ 0x8ebc6af09c88c6e3ull ^ seed) *
	     (little64(key->destination + 8) ^ 0x589965cc75374cc3ull ^ turned ^ rest);
	return fold128((unsigned __int128)((uint64_t)from ^ (uint64_t)(to >> 64)) *
		       ((uint64_t)(from >> 64) ^ (uint64_t)to ^ 0xa0761d6478bd642full ^ rest));
}

// --- the plan ---------------------------------------------------------------------------------

int plan_vip_of(const struct plan *plan, const uint8_t *address, uint8_t family) {
	for (int i = 0; i < PLAN_VIPS; i++) {
		if (plan->vips[i].family == family &&
			memcmp(plan->vips[i].address, address, 16) == 0) {
			return i;
		}
	}
	return -1;
}

int plan_service_of(const struct plan *plan, const struct key *key) {
	int vip = plan_vip_of(plan, key->destination, key->family), best = -1;
	uint32_t port = get16(key->ports + 2), width = UINT32_MAX;

	for (uint32_t i = 0; i < plan->bind_count && vip >= 0; i++) {
		const struct plan_bind *bind = &plan->binds[i];

		if (bind->service >= 0 && bind->vip == vip && bind->protocol == key->protocol &&
			port >= bind->first && port <= bind->last &&
			(uint32_t)(bind->last - bind->first) < width) {
			width = (uint32_t)(bind->last - bind->first);
			best = bind->service;
		}
	}
	return best;
}
