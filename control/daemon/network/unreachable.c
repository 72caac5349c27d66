// SPDX-License-Identifier: BSD-3-Clause
#include "unreachable.h"

#include <netinet/in.h>
#include <string.h>

#include "forwarding.h"
#include "tunnel_filter.h"

#define ICMP4_UNREACHABLE 3
#define ICMP4_FRAGMENTATION_NEEDED 4
#define ICMP6_UNREACHABLE 1
#define ICMP6_PARAMETER_PROBLEM 4
#define ICMP6_UNKNOWN_NEXT_HEADER 1
#define IP4_BYTES 20
#define IP4_PROTOCOL 9 // offset of the protocol in the IPv4 header
#define IP6_BYTES 40
#define IP6_NEXT_HEADER 6
#define PORTS_BYTES 4
#define GUE_PROTOCOL 9 // offset of the protocol in UDP and GUE headers
// Mask of the fragment offset in the IPv4 header. The offset is 0 only in the first fragment.
#define OTHER_FRAGMENT 0x1fff

// --- parsing --------------------------------------------------------------------------------

// The bytes of a message that were not parsed yet.
struct rest {
	const uint8_t *at;
	size_t bytes;
};

static bool skip(struct rest *rest, size_t bytes) {
	if (rest->bytes < bytes) {
		return false;
	}
	rest->at += bytes;
	rest->bytes -= bytes;
	return true;
}

// Values of an IP header: addresses, length and next protocol.
struct header {
	struct weir_address source, destination;
	uint32_t bytes; // length of the packet, including the header
	uint8_t protocol;
};

// Parses an IPv4 header, and removes it from the front of the remaining bytes. Returns false if the
// header is not valid, or if the packet is a fragment other than the first.
static bool take_ip4(struct rest *rest, struct header *ret) {
	const uint8_t *at = rest->at;
	size_t header;

	if (rest->bytes < IP4_BYTES || at[0] >> 4 != 4) {
		return false;
	}
	header = (size_t)(at[0] & 0x0f) * 4;
	if (header < IP4_BYTES || (weir_icmp_get16(at + 6) & OTHER_FRAGMENT) != 0) {
		return false;
	}
	*ret = (struct header){.source = weir_address_of(4, at + 12),
		.destination = weir_address_of(4, at + 16),
		.bytes = weir_icmp_get16(at + 2),
		.protocol = at[IP4_PROTOCOL]};
	return skip(rest, header);
}

static bool take_ip6(struct rest *rest, struct header *ret) {
	const uint8_t *at = rest->at;

	if (rest->bytes < IP6_BYTES || at[0] >> 4 != 6) {
		return false;
	}
	*ret = (struct header){.source = weir_address_of(6, at + 8),
		.destination = weir_address_of(6, at + 24),
		.bytes = IP6_BYTES + (uint32_t)weir_icmp_get16(at + 4),
		.protocol = at[IP6_NEXT_HEADER]};
	return skip(rest, IP6_BYTES);
}

static bool kind4(uint8_t code, uint8_t *ret) {
	switch (code) {
	case 0: // network unreachable
	case 1: // host unreachable
		*ret = WEIR_UNREACHABLE_HOST;
		return true;
	case 2:
		*ret = WEIR_UNREACHABLE_PROTOCOL;
		return true;
	case 3:
		*ret = WEIR_UNREACHABLE_PORT;
		return true;
	case 9: // network administratively prohibited
	case 10: // host administratively prohibited
	case 13: // communication administratively prohibited
		*ret = WEIR_UNREACHABLE_PROHIBITED;
		return true;
	default:
		return false;
	}
}

static bool kind6(const uint8_t *icmp, uint8_t *ret) {
	if (icmp[0] == ICMP6_PARAMETER_PROBLEM) {
		*ret = WEIR_UNREACHABLE_PROTOCOL;
		return icmp[1] == ICMP6_UNKNOWN_NEXT_HEADER &&
		       weir_icmp_get32(icmp + 4) == IP6_NEXT_HEADER;
	}
	switch (icmp[1]) {
	case 0: // no route to destination
	case 3: // address unreachable
		*ret = WEIR_UNREACHABLE_HOST;
		break;
	case 4:
		*ret = WEIR_UNREACHABLE_PORT;
		break;
	case 1: // communication administratively prohibited
	case 5: // source address failed ingress/egress policy
	case 6: // reject route to destination
		*ret = WEIR_UNREACHABLE_PROHIBITED;
		break;
	default:
		return false;
	}
	return icmp[0] == ICMP6_UNREACHABLE;
}

// Parse the quoted packet. Returns false unless it is a tunnel packet to `host` that contains a
// packet of a flow.
static bool parse_quoted(struct rest *rest, uint8_t family, const struct weir_address *host,
	struct weir_unreachable_report *ret) {
	struct header outer, inner;
	uint8_t protocol;
	int before;

	if (!(family == 4 ? take_ip4(rest, &outer) : take_ip6(rest, &outer)) ||
		!weir_address_equal(&outer.destination, host)) {
		return false;
	}
	before = weir_forwarding_find(
		outer.protocol, rest->at, rest->bytes, &ret->forwarding, &protocol);
	if (before < 0 || !skip(rest, (size_t)before) ||
		!(protocol == IPPROTO_IPIP ? take_ip4(rest, &inner) : take_ip6(rest, &inner)) ||
		(inner.protocol != IPPROTO_TCP && inner.protocol != IPPROTO_UDP) ||
		rest->bytes < PORTS_BYTES) {
		return false;
	}
	ret->host = *host;
	ret->source = outer.source;
	ret->bytes = outer.bytes;
	ret->protocol = inner.protocol;
	ret->client = inner.source;
	ret->vip = inner.destination;
	ret->client_port = weir_icmp_get16(rest->at);
	ret->vip_port = weir_icmp_get16(rest->at + 2);
	return true;
}

static bool parse4(struct rest *rest, struct weir_unreachable_report *ret) {
	struct header ip;
	const uint8_t *icmp;

	if (!take_ip4(rest, &ip) || ip.protocol != IPPROTO_ICMP) {
		return false;
	}
	icmp = rest->at;
	if (rest->bytes < WEIR_ICMP_BYTES || icmp[0] != ICMP4_UNREACHABLE ||
		!kind4(icmp[1], &ret->kind) || !weir_icmp_checksum_good(icmp, rest->bytes)) {
		return false;
	}
	return skip(rest, WEIR_ICMP_BYTES) && parse_quoted(rest, 4, &ip.source, ret);
}

static bool parse6(
	struct rest *rest, const struct weir_address *from, struct weir_unreachable_report *ret) {
	if (rest->bytes < WEIR_ICMP_BYTES || !kind6(rest->at, &ret->kind)) {
		return false;
	}
	return skip(rest, WEIR_ICMP_BYTES) && parse_quoted(rest, 6, from, ret);
}

bool weir_unreachable_parse(
	const struct weir_icmp_message *message, struct weir_unreachable_report *ret) {
	struct rest rest = {message->data, message->bytes};
	struct weir_unreachable_report report = {0};

	if (!(message->family == 4 ? parse4(&rest, &report)
				   : parse6(&rest, &message->from, &report))) {
		return false;
	}
	*ret = report;
	return true;
}

static uint32_t add_bytes(uint32_t hash, const void *data, size_t bytes) {
	const uint8_t *at = data;

	for (size_t i = 0; i < bytes; i++) {
		hash = (hash ^ at[i]) * 16777619u; // FNV-1a
	}
	return hash;
}

uint32_t weir_unreachable_flow(const struct weir_unreachable_report *report) {
	uint32_t hash = add_bytes(2166136261u, report->client.bytes, sizeof(report->client.bytes));

	hash = add_bytes(hash, report->vip.bytes, sizeof(report->vip.bytes));
	hash = add_bytes(hash, &report->client_port, sizeof(report->client_port));
	hash = add_bytes(hash, &report->vip_port, sizeof(report->vip_port));
	return add_bytes(hash, &report->protocol, sizeof(report->protocol));
}

const char *weir_unreachable_text(enum weir_unreachable_kind kind) {
	static const char *const texts[] = {
#define X(name, text) [WEIR_UNREACHABLE_##name] = text,
		WEIR_UNREACHABLE_KINDS(X)
#undef X
	};

	return texts[kind];
}

// --- sockets --------------------------------------------------------------------------------

// Filter instruction that refuses a message, unless the previous jump skips the instruction.
#define REFUSE BPF_STMT(BPF_RET | BPF_K, 0)

// Beginning of the IPv4 filter: refuses all messages except "destination unreachable", and refuses
// "fragmentation needed". Afterwards, register A contains the protocol of the quoted packet, and X
// the length of the IPv4 header.
static const struct sock_filter head4[] = {
	BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 0),
	BPF_STMT(BPF_LD | BPF_B | BPF_IND, 0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ICMP4_UNREACHABLE, 1, 0),
	REFUSE,
	BPF_STMT(BPF_LD | BPF_B | BPF_IND, 1),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ICMP4_FRAGMENTATION_NEEDED, 0, 1),
	REFUSE,
	BPF_STMT(BPF_LD | BPF_B | BPF_IND, WEIR_ICMP_BYTES + IP4_PROTOCOL),
};

// Beginning of the IPv6 filter: refuses all messages except "destination unreachable" and
// "parameter problem". Afterwards, register A contains the protocol of the quoted packet.
static const struct sock_filter head6[] = {
	BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ICMP6_UNREACHABLE, 2, 0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ICMP6_PARAMETER_PROBLEM, 1, 0),
	REFUSE,
	BPF_STMT(BPF_LD | BPF_B | BPF_ABS, WEIR_ICMP_BYTES + IP6_NEXT_HEADER),
};

// Instructions that load the protocol in a GUE header after the quoted IP and UDP headers. Outer
// headers have no options, so the offset is constant.
static const struct sock_filter gue4 =
	BPF_STMT(BPF_LD | BPF_B | BPF_IND, WEIR_ICMP_BYTES + IP4_BYTES + GUE_PROTOCOL);
static const struct sock_filter gue6 =
	BPF_STMT(BPF_LD | BPF_B | BPF_ABS, WEIR_ICMP_BYTES + IP6_BYTES + GUE_PROTOCOL);

int weir_unreachable_open(struct weir_icmp_sockets *ret) {
	struct weir_tunnel_filter ipv4, ipv6;

	weir_tunnel_filter_make(
		head4, sizeof(head4) / sizeof(head4[0]), IPPROTO_IPIP, &gue4, &ipv4);
	weir_tunnel_filter_make(
		head6, sizeof(head6) / sizeof(head6[0]), IPPROTO_IPIP, &gue6, &ipv6);
	return weir_tunnel_filter_open(&ipv4, &ipv6, ret);
}

bool weir_unreachable_receive(const struct weir_icmp_sockets *sockets, unsigned int budget[2],
	struct weir_unreachable_report *ret) {
	struct weir_icmp_message message;

	while (weir_icmp_receive(sockets, budget, &message)) {
		if (weir_unreachable_parse(&message, ret)) {
			return true;
		}
	}
	return false;
}
