// SPDX-License-Identifier: BSD-3-Clause
#include "path_mtu.h"

#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ICMP4_UNREACHABLE 3
#define ICMP4_FRAGMENTATION_NEEDED 4
#define ICMP6_TOO_BIG 2
#define IP4_BYTES 20
#define IP6_BYTES 40
#define ICMP_BYTES 8
#define RECEIVE_BYTES (4 << 20) // of a socket: holds the messages of a flood during a tick

static uint32_t get16(const uint8_t *at) {
	return (uint32_t)at[0] << 8 | at[1];
}

static uint32_t get32(const uint8_t *at) {
	return get16(at) << 16 | get16(at + 2);
}

static bool checksum_good(const uint8_t *at, size_t bytes) {
	uint32_t sum = bytes % 2 != 0 ? (uint32_t)at[bytes - 1] << 8 : 0;

	for (size_t i = 0; i + 1 < bytes; i += 2) {
		sum += get16(at + i);
	}
	sum = (sum & 0xffff) + (sum >> 16);
	return ((sum + (sum >> 16)) & 0xffff) == 0xffff;
}

static bool is_tunnel(uint8_t protocol) {
	return protocol == IPPROTO_IPIP || protocol == IPPROTO_IPV6;
}

bool weir_path_mtu_parse4(const uint8_t *packet, size_t bytes, struct weir_path_mtu_report *ret) {
	size_t header = bytes >= IP4_BYTES ? (size_t)(packet[0] & 0x0f) * 4 : 0;
	const uint8_t *icmp = packet + header, *quoted = icmp + ICMP_BYTES;

	if (header < IP4_BYTES || bytes < header + ICMP_BYTES + IP4_BYTES ||
		icmp[0] != ICMP4_UNREACHABLE || icmp[1] != ICMP4_FRAGMENTATION_NEEDED ||
		!checksum_good(icmp, bytes - header)) {
		return false;
	}
	if (quoted[0] != 0x45 || !is_tunnel(quoted[9])) { // tunnel packets have no options
		return false;
	}
	*ret = (struct weir_path_mtu_report){.backend = weir_address_of(4, quoted + 16),
		.source = weir_address_of(4, quoted + 12),
		.mtu = get16(icmp + 6)};
	return true;
}

bool weir_path_mtu_parse6(const uint8_t *icmp, size_t bytes, struct weir_path_mtu_report *ret) {
	const uint8_t *quoted = icmp + ICMP_BYTES;
	uint8_t next;

	if (bytes < ICMP_BYTES + IP6_BYTES + 1 || icmp[0] != ICMP6_TOO_BIG || quoted[0] >> 4 != 6) {
		return false;
	}
	next = quoted[6] == IPPROTO_FRAGMENT ? quoted[IP6_BYTES] : quoted[6];
	if (!is_tunnel(next)) {
		return false;
	}
	*ret = (struct weir_path_mtu_report){.backend = weir_address_of(6, quoted + 24),
		.source = weir_address_of(6, quoted + 8),
		.mtu = get32(icmp + 4)};
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

// Common end of both filters: the protocol of the quoted packet, and the verdicts.
#define IS_TUNNEL(extra) \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_IPIP, 2, 0), \
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_IPV6, 1, 0), \
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, extra, 0, 1), \
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX), BPF_STMT(BPF_RET | BPF_K, 0)

// "Fragmentation needed" that quotes a tunnel packet. X: bytes of the IPv4 header.
static const struct sock_filter filter4[] = {
	BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 0),
	BPF_STMT(BPF_LD | BPF_H | BPF_IND, 0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ICMP4_UNREACHABLE << 8 | ICMP4_FRAGMENTATION_NEEDED, 0,
		5),
	BPF_STMT(BPF_LD | BPF_B | BPF_IND, ICMP_BYTES + 9),
	IS_TUNNEL(IPPROTO_IPIP),
};

// "Packet too big" that quotes a tunnel packet.
static const struct sock_filter filter6[] = {
	BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ICMP6_TOO_BIG, 0, 5),
	BPF_STMT(BPF_LD | BPF_B | BPF_ABS, ICMP_BYTES + 6),
	IS_TUNNEL(IPPROTO_FRAGMENT),
};

// Filter messages in the kernel, so that unrelated ones take no buffer space.
static int prepare(int fd, const struct sock_filter *filter, size_t instructions) {
	struct sock_fprog program = {.len = (unsigned short)instructions,
		.filter = (struct sock_filter *)(uintptr_t)filter};
	int bytes = RECEIVE_BYTES;

	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) < 0) {
		return -errno;
	}
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) < 0) {
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	}
	return 0;
}

int weir_path_mtu_open(struct weir_path_mtu_sockets *ret) {
	struct weir_path_mtu_sockets sockets = {.ipv4 = -1, .ipv6 = -1};
	int r;

	sockets.ipv4 = socket(AF_INET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_ICMP);
	if (sockets.ipv4 < 0) {
		return -errno;
	}
	r = prepare(sockets.ipv4, filter4, sizeof(filter4) / sizeof(filter4[0]));
	if (r < 0) {
		goto close_sockets;
	}
	sockets.ipv6 = socket(AF_INET6, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_ICMPV6);
	if (sockets.ipv6 < 0 && errno != EAFNOSUPPORT) {
		r = -errno;
		goto close_sockets;
	}
	if (sockets.ipv6 >= 0) {
		r = prepare(sockets.ipv6, filter6, sizeof(filter6) / sizeof(filter6[0]));
	}
	if (r < 0) {
		goto close_sockets;
	}
	*ret = sockets;
	return 0;

close_sockets:
	weir_path_mtu_close(&sockets);
	return r;
}

void weir_path_mtu_close(struct weir_path_mtu_sockets *sockets) {
	if (sockets->ipv4 >= 0) {
		close(sockets->ipv4);
	}
	if (sockets->ipv6 >= 0) {
		close(sockets->ipv6);
	}
	*sockets = (struct weir_path_mtu_sockets){.ipv4 = -1, .ipv6 = -1};
}

static bool receive(int fd, bool ipv4, unsigned int *budget, struct weir_path_mtu_report *ret) {
	uint8_t message[2048]; // the checksum of ICMPv4 covers the whole message; the kernel
			       // verifies that of ICMPv6

	while (fd >= 0 && *budget > 0) {
		ssize_t got = recv(fd, message, sizeof(message), 0);

		if (got < 0) {
			return false;
		}
		(*budget)--;
		if (ipv4 ? weir_path_mtu_parse4(message, (size_t)got, ret)
			 : weir_path_mtu_parse6(message, (size_t)got, ret)) {
			return true;
		}
	}
	return false;
}

bool weir_path_mtu_receive(const struct weir_path_mtu_sockets *sockets, unsigned int budget[2],
	struct weir_path_mtu_report *ret) {
	return receive(sockets->ipv4, true, &budget[0], ret) ||
	       receive(sockets->ipv6, false, &budget[1], ret);
}
