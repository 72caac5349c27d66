// SPDX-License-Identifier: BSD-3-Clause
#include "path_mtu.h"

#include <netinet/in.h>

#include "tunnel_filter.h"

#define ICMP4_UNREACHABLE 3
#define ICMP4_FRAGMENTATION_NEEDED 4
#define ICMP6_TOO_BIG 2
#define IP4_BYTES 20
#define IP6_BYTES 40

bool weir_path_mtu_parse4(const uint8_t *packet, size_t bytes, struct weir_path_mtu_report *ret) {
	size_t header = bytes >= IP4_BYTES ? (size_t)(packet[0] & 0x0f) * 4 : 0;
	const uint8_t *icmp = packet + header, *quoted = icmp + WEIR_ICMP_BYTES;

	if (header < IP4_BYTES || bytes < header + WEIR_ICMP_BYTES + IP4_BYTES ||
		icmp[0] != ICMP4_UNREACHABLE || icmp[1] != ICMP4_FRAGMENTATION_NEEDED ||
		!weir_icmp_checksum_good(icmp, bytes - header)) {
		return false;
	}
	if (quoted[0] != 0x45 ||
		!weir_tunnel_protocol(quoted[9])) { // tunnel packets have no options
		return false;
	}
	*ret = (struct weir_path_mtu_report){.backend = weir_address_of(4, quoted + 16),
		.source = weir_address_of(4, quoted + 12),
		.mtu = weir_icmp_get16(icmp + 6)};
	return true;
}

bool weir_path_mtu_parse6(const uint8_t *icmp, size_t bytes, struct weir_path_mtu_report *ret) {
	const uint8_t *quoted = icmp + WEIR_ICMP_BYTES;
	uint8_t next;

	if (bytes < WEIR_ICMP_BYTES + IP6_BYTES + 1 || icmp[0] != ICMP6_TOO_BIG ||
		quoted[0] >> 4 != 6) {
		return false;
	}
	next = quoted[6] == IPPROTO_FRAGMENT ? quoted[IP6_BYTES] : quoted[6];
	if (!weir_tunnel_protocol(next)) {
		return false;
	}
	*ret = (struct weir_path_mtu_report){.backend = weir_address_of(6, quoted + 24),
		.source = weir_address_of(6, quoted + 8),
		.mtu = weir_icmp_get32(icmp + 4)};
	return true;
}

uint16_t weir_path_mtu_next(const struct weir_path_mtu_report *report, uint16_t now) {
	static const uint16_t common[] = {8166, 4352, 2002, 1492, 1400, 1280, 1006, 576};
	uint16_t least = report->backend.family == 4 ? WEIR_PATH_MTU_MIN4 : WEIR_PATH_MTU_MIN6;
	uint32_t mtu = report->mtu;

	for (size_t i = 0; mtu == 0 && i < sizeof(common) / sizeof(common[0]); i++) {
		mtu = common[i] < now ? common[i] : 0;
	}
	if (mtu < least) {
		mtu = least;
	}
	return mtu < now ? (uint16_t)mtu : now;
}

// --- sockets ------------------------------------------------------------------------------

// Filter instruction that refuses a message, unless the previous jump skips the instruction.
#define REFUSE BPF_STMT(BPF_RET | BPF_K, 0)

// Beginning of each filter: refuses all messages except "fragmentation needed" (IPv4) or "packet
// too big" (IPv6). Afterwards, register A contains the protocol of the quoted packet. In the IPv4
// filter, X contains the length of the IPv4 header.
static const struct sock_filter head4[] = {
	BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 0),
	BPF_STMT(BPF_LD | BPF_H | BPF_IND, 0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ICMP4_UNREACHABLE << 8 | ICMP4_FRAGMENTATION_NEEDED, 1,
		0),
	REFUSE,
	BPF_STMT(BPF_LD | BPF_B | BPF_IND, WEIR_ICMP_BYTES + 9),
};

static const struct sock_filter head6[] = {
	BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ICMP6_TOO_BIG, 1, 0),
	REFUSE,
	BPF_STMT(BPF_LD | BPF_B | BPF_ABS, WEIR_ICMP_BYTES + 6),
};

int weir_path_mtu_open(struct weir_icmp_sockets *ret) {
	struct weir_tunnel_filter ipv4, ipv6;

	weir_tunnel_filter_make(head4, sizeof(head4) / sizeof(head4[0]), IPPROTO_IPIP, NULL, &ipv4);
	weir_tunnel_filter_make(
		head6, sizeof(head6) / sizeof(head6[0]), IPPROTO_FRAGMENT, NULL, &ipv6);
	return weir_tunnel_filter_open(&ipv4, &ipv6, ret);
}

bool weir_path_mtu_receive(const struct weir_icmp_sockets *sockets, unsigned int budget[2],
	struct weir_path_mtu_report *ret) {
	struct weir_icmp_message message;

	while (weir_icmp_receive(sockets, budget, &message)) {
		if (message.family == 4 ? weir_path_mtu_parse4(message.data, message.bytes, ret)
					: weir_path_mtu_parse6(message.data, message.bytes, ret)) {
			return true;
		}
	}
	return false;
}
