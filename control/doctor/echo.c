// SPDX-License-Identifier: BSD-3-Clause
#include "echo.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PACKET_MOST 9216
#define SMALL_BYTES 32 // of the payload
#define AGAIN_MS 200
#define ECHO4 8
#define ECHO6 128
#define REPLY4 0
#define REPLY6 129
#define UNREACHABLE4 3
#define TOO_BIG6 2
#define IPV4_BYTES 20
#define IPV6_BYTES 40
#define ICMP_BYTES 8

static void put16(uint8_t *at, uint32_t value) {
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

static uint32_t get16(const uint8_t *at) {
	return (uint32_t)at[0] << 8 | at[1];
}

static uint32_t sum(const uint8_t *at, size_t bytes, uint32_t start) {
	for (size_t i = 0; i + 1 < bytes; i += 2) {
		start += get16(at + i);
	}
	start += bytes % 2 ? (uint32_t)at[bytes - 1] << 8 : 0;
	return start;
}

static uint32_t fold(uint32_t value) {
	value = (value & 0xffff) + (value >> 16);
	return ~((value & 0xffff) + (value >> 16)) & 0xffff;
}

static size_t header_bytes(const struct weir_address *address) {
	return address->family == 4 ? IPV4_BYTES : IPV6_BYTES;
}

static void write_header(uint8_t *at, const struct weir_address *source,
	const struct weir_address *destination, uint8_t protocol, size_t payload_bytes) {
	memset(at, 0, header_bytes(destination));
	if (destination->family == 4) {
		at[0] = 0x45;
		put16(at + 2, (uint32_t)(IPV4_BYTES + payload_bytes));
		put16(at + 6, 0x4000); // DF
		at[8] = 64;
		at[9] = protocol;
		memcpy(at + 12, source->bytes, 4);
		memcpy(at + 16, destination->bytes, 4);
		put16(at + 10, fold(sum(at, IPV4_BYTES, 0)));
	} else {
		at[0] = 0x60;
		put16(at + 4, (uint32_t)payload_bytes);
		at[6] = protocol;
		at[7] = 64;
		memcpy(at + 8, source->bytes, 16);
		memcpy(at + 24, destination->bytes, 16);
	}
}

static void write_echo(uint8_t *at, size_t bytes, const struct weir_address *source,
	const struct weir_address *destination, uint32_t number) {
	uint32_t start = 0;

	memset(at, 0, bytes);
	at[0] = destination->family == 4 ? ECHO4 : ECHO6;
	put16(at + 4, (uint32_t)getpid());
	put16(at + 6, number);
	if (destination->family == 6) {
		start = sum(source->bytes, 16, sum(destination->bytes, 16, IPPROTO_ICMPV6));
		start += (uint32_t)bytes;
	}
	put16(at + 2, fold(sum(at, bytes, start)));
}

// Returns its length.
static size_t write_packet(const struct weir_echo *probe, uint32_t number, uint8_t *packet) {
	const bool direct = probe->kind == WEIR_ECHO_DIRECT;
	const struct weir_address *source = direct ? &probe->source : &probe->inner_source;
	const struct weir_address *destination = direct ? &probe->backend : &probe->inner;
	const size_t outer = direct ? 0 : header_bytes(&probe->backend);
	const size_t inner = header_bytes(destination);
	size_t bytes = outer + inner + ICMP_BYTES + SMALL_BYTES;

	if (probe->bytes > bytes && probe->bytes <= PACKET_MOST) {
		bytes = probe->bytes;
	}
	if (!direct) {
		write_header(packet, &probe->source, &probe->backend,
			probe->inner.family == 4 ? IPPROTO_IPIP : IPPROTO_IPV6, bytes - outer);
	}
	write_header(packet + outer, source, destination,
		destination->family == 4 ? IPPROTO_ICMP : IPPROTO_ICMPV6, bytes - outer - inner);
	write_echo(packet + outer + inner, bytes - outer - inner, source, destination, number);
	return bytes;
}

static void send_probe(
	const struct weir_echo_sockets *sockets, struct weir_echo *probe, uint32_t number) {
	union {
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
		struct sockaddr any;
	} to = {0};
	uint8_t packet[PACKET_MOST];
	const size_t bytes = write_packet(probe, number, packet);
	const bool four = probe->backend.family == 4;

	to.any.sa_family = four ? AF_INET : AF_INET6;
	if (four) {
		memcpy(&to.in.sin_addr, probe->backend.bytes, 4);
	} else {
		memcpy(&to.in6.sin6_addr, probe->backend.bytes, 16);
	}
	probe->error = sendto(four ? sockets->out4 : sockets->out6, packet, bytes, 0, &to.any,
			       four ? sizeof(to.in) : sizeof(to.in6)) < 0
			       ? -errno
			       : 0;
}

// --- answers ------------------------------------------------------------------------------

static void take_reply(const uint8_t *icmp, const struct weir_address *from,
	struct weir_echo *probes, uint32_t count) {
	const uint32_t number = get16(icmp + 6);
	const struct weir_address *wanted;

	if (get16(icmp + 4) != ((uint32_t)getpid() & 0xffff) || number >= count) {
		return;
	}
	wanted = probes[number].kind == WEIR_ECHO_DIRECT ? &probes[number].backend
							 : &probes[number].inner;
	probes[number].answered |= memcmp(wanted, from, sizeof(*from)) == 0;
}

// A router's "too big" about a packet to a backend. Of a forged one nothing but a finding comes.
static void take_error(
	const struct weir_address *to, uint32_t mtu, struct weir_echo *probes, uint32_t count) {
	for (uint32_t i = 0; i < count; i++) {
		if (probes[i].bytes > mtu && memcmp(&probes[i].backend, to, sizeof(*to)) == 0) {
			probes[i].told_mtu = mtu;
		}
	}
}

static void take4(const uint8_t *packet, size_t bytes, struct weir_echo *probes, uint32_t count) {
	const size_t header = bytes > 0 ? (size_t)(packet[0] & 0x0f) * 4 : 0;
	const uint8_t *icmp = packet + header;

	if (header < IPV4_BYTES || bytes < header + ICMP_BYTES) {
		return;
	}
	if (icmp[0] == REPLY4) {
		const struct weir_address from = weir_address_of(4, packet + 12);

		take_reply(icmp, &from, probes, count);
	} else if (icmp[0] == UNREACHABLE4 && icmp[1] == 4 &&
		   bytes >= header + ICMP_BYTES + IPV4_BYTES) {
		const struct weir_address to = weir_address_of(4, icmp + ICMP_BYTES + 16);

		take_error(&to, get16(icmp + 6), probes, count);
	}
}

static void take6(const uint8_t *icmp, size_t bytes, const struct sockaddr_in6 *peer,
	struct weir_echo *probes, uint32_t count) {
	if (bytes >= ICMP_BYTES && icmp[0] == REPLY6) {
		const struct weir_address from =
			weir_address_of(6, (const uint8_t *)&peer->sin6_addr);

		take_reply(icmp, &from, probes, count);
	} else if (bytes >= ICMP_BYTES + IPV6_BYTES && icmp[0] == TOO_BIG6) {
		const struct weir_address to = weir_address_of(6, icmp + ICMP_BYTES + 24);

		take_error(&to, get16(icmp + 6), probes, count);
	}
}

static void receive(
	const struct weir_echo_sockets *sockets, struct weir_echo *probes, uint32_t count) {
	uint8_t packet[PACKET_MOST + IPV6_BYTES];
	ssize_t got;

	while ((got = recv(sockets->in4, packet, sizeof(packet), MSG_DONTWAIT)) >= 0) {
		take4(packet, (size_t)got, probes, count);
	}
	for (;;) {
		struct sockaddr_in6 peer = {0};
		socklen_t length = sizeof(peer);

		got = recvfrom(sockets->in6, packet, sizeof(packet), MSG_DONTWAIT,
			(struct sockaddr *)&peer, &length);
		if (got < 0) {
			break;
		}
		take6(packet, (size_t)got, &peer, probes, count);
	}
}

// --- rounds -------------------------------------------------------------------------------

static int64_t now_ms(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool is_done(const struct weir_echo *probes, uint32_t count) {
	for (uint32_t i = 0; i < count; i++) {
		if (!probes[i].answered && probes[i].told_mtu == 0 && probes[i].error == 0) {
			return false;
		}
	}
	return true;
}

void weir_echo_round(const struct weir_echo_sockets *sockets, struct weir_echo *probes,
	uint32_t count, int deadline_ms) {
	struct pollfd waiting[2] = {
		{.fd = sockets->in4, .events = POLLIN}, {.fd = sockets->in6, .events = POLLIN}};
	const int64_t end = now_ms() + deadline_ms;
	int64_t now = now_ms(), again = now;

	do {
		if (now >= again) {
			for (uint32_t i = 0; i < count; i++) {
				if (!probes[i].answered) {
					send_probe(sockets, &probes[i], i);
				}
			}
			again = now + AGAIN_MS;
		}
		if (poll(waiting, 2, (int)(again < end ? again - now : end - now)) > 0) {
			receive(sockets, probes, count);
		}
		now = now_ms();
	} while (now < end && !is_done(probes, count));
}

int weir_echo_open(struct weir_echo_sockets *ret) {
	const int type = SOCK_RAW | SOCK_CLOEXEC;
	struct weir_echo_sockets sockets = {
		.out4 = socket(AF_INET, type, IPPROTO_RAW),
		.in4 = socket(AF_INET, type, IPPROTO_ICMP),
		.out6 = socket(AF_INET6, type, IPPROTO_RAW),
		.in6 = socket(AF_INET6, type, IPPROTO_ICMPV6), // -1 without IPv6
	};
	int r = -errno;

	if (sockets.out4 < 0 || sockets.in4 < 0) {
		weir_echo_close(&sockets);
		return r < 0 ? r : -EPERM;
	}
	*ret = sockets;
	return 0;
}

void weir_echo_close(struct weir_echo_sockets *sockets) {
	int *fds[] = {&sockets->out4, &sockets->out6, &sockets->in4, &sockets->in6};

	for (int i = 0; i < 4; i++) {
		if (*fds[i] >= 0) {
			close(*fds[i]);
		}
		*fds[i] = -1;
	}
}
