// SPDX-License-Identifier: BSD-3-Clause
#include "echo.h"

#include <net/if.h> // before linux/icmp.h, which defines the same names

#include <errno.h>
#include <linux/icmp.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend_row.h"
#include "clocks.h"
#include "kernel.h"
#include "socket_buffers.h"

#define PACKET_MOST 9216
#define SMALL_BYTES 32 // payload of small requests
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
// Maximum number of requests sent before replies are read. The replies to more requests could
// overflow the socket buffers.
#define SENT_MOST 64
#define RECEIVED_MOST 256 // maximum number of datagrams that receive() reads from a socket

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

// Write an IP header. id: identification of an IPv4 header, or flow label of an IPv6 header.
static void write_header(uint8_t *at, const struct weir_address *source,
	const struct weir_address *destination, uint8_t protocol, size_t payload_bytes,
	uint32_t id) {
	memset(at, 0, header_bytes(destination));
	if (destination->family == 4) {
		at[0] = 0x45;
		put16(at + 2, (uint32_t)(IPV4_BYTES + payload_bytes));
		put16(at + 4, id);
		put16(at + 6, 0x4000); // DF
		at[8] = 64;
		at[9] = protocol;
		memcpy(at + 12, source->bytes, 4);
		memcpy(at + 16, destination->bytes, 4);
		put16(at + 10, fold(sum(at, IPV4_BYTES, 0)));
	} else {
		at[0] = 0x60;
		put16(at + 2, id);
		put16(at + 4, (uint32_t)payload_bytes);
		at[6] = protocol;
		at[7] = 64;
		memcpy(at + 8, source->bytes, 16);
		memcpy(at + 24, destination->bytes, 16);
	}
}

static void write_echo(uint8_t *at, size_t bytes, const struct weir_address *source,
	const struct weir_address *destination, const uint8_t *token, uint32_t number) {
	uint32_t start = 0;

	memset(at, 0, bytes);
	at[0] = destination->family == 4 ? ECHO4 : ECHO6;
	put16(at + 4, get16(token));
	put16(at + 6, number);
	memcpy(at + ICMP_BYTES, token, WEIR_ECHO_TOKEN_BYTES);
	if (destination->family == 6) {
		start = sum(source->bytes, 16, sum(destination->bytes, 16, IPPROTO_ICMPV6));
		start += (uint32_t)bytes;
	}
	put16(at + 2, fold(sum(at, bytes, start)));
}

// Returns the identification for the outer header. An ICMP error from a router quotes this header,
// so the identification shows that a packet of these probes caused the error. The identification of
// an IPv4 header is not 0, because the kernel would replace 0. For IPv6, returns 0: the
// identification would be the flow label, and a flow label can influence the route.
static uint32_t outer_id(const struct weir_echo *probe, const uint8_t *token) {
	return probe->backend.family == 4 ? get16(token + 2) | 1 : 0;
}

// Writes to ret the outer headers that the dataplane writes in front of the packet, but with an
// identification. Returns the length of the headers. If ret is NULL, writes nothing.
static size_t write_outer(const struct weir_echo *probe, const uint8_t *token,
	const uint8_t *packet, size_t bytes, uint8_t *ret) {
	struct weir_backend_path path = {
		.family = probe->backend.family, .forwarding = probe->forwarding};
	uint8_t header[WEIR_OUTER_HEADER_BYTES];
	struct weir_backend_row row;
	size_t outer;

	memcpy(path.address, probe->backend.bytes, sizeof(path.address));
	memcpy(path.source, probe->source.bytes, sizeof(path.source));
	weir_backend_row_build(&path, &row);
	outer = (size_t)row.header_bytes - row.l2_bytes;
	if (ret != NULL && outer > 0) {
		weir_backend_row_fill(&row, packet, bytes, 0, header);
		memcpy(ret, header + row.l2_bytes, outer);
		if (row.outer_family == 4) {
			put16(ret + 4, outer_id(probe, token));
			put16(ret + 10, 0);
			put16(ret + 10, fold(sum(ret, IPV4_BYTES, 0)));
		} else {
			put16(ret + 2, outer_id(probe, token));
		}
	}
	return outer;
}

// Write the packet of a probe, with all headers. number: sequence number of the echo request.
// Returns the length of the packet.
static size_t write_packet(
	const struct weir_echo *probe, const uint8_t *token, uint32_t number, uint8_t *packet) {
	const bool direct = probe->kind == WEIR_ECHO_DIRECT;
	const struct weir_address *source = direct ? &probe->source : &probe->inner_source;
	const struct weir_address *destination = direct ? &probe->backend : &probe->inner;
	const size_t outer = direct ? 0 : write_outer(probe, token, NULL, 0, NULL);
	const size_t inner = header_bytes(destination);
	size_t bytes = outer + inner + ICMP_BYTES + SMALL_BYTES;

	if (probe->bytes > bytes && probe->bytes <= PACKET_MOST) {
		bytes = probe->bytes;
	}
	write_header(packet + outer, source, destination,
		destination->family == 4 ? IPPROTO_ICMP : IPPROTO_ICMPV6, bytes - outer - inner,
		direct ? outer_id(probe, token) : get16(token + 4) | 1);
	write_echo(
		packet + outer + inner, bytes - outer - inner, source, destination, token, number);
	if (!direct) {
		write_outer(probe, token, packet + outer, bytes - outer, packet);
	}
	return bytes;
}

// Sends a packet in a frame to the MAC address of the backend. Sends nothing and returns 0 while
// the kernel has not resolved this address; the direct request makes the kernel resolve the
// address.
static int send_link(const struct weir_echo_sockets *sockets, const struct weir_echo *probe,
	const uint8_t *packet, size_t bytes) {
	struct sockaddr_ll to = {.sll_family = AF_PACKET,
		.sll_protocol = htons(probe->inner.family == 4 ? ETH_P_IP : ETH_P_IPV6),
		.sll_ifindex = (int)probe->interface,
		.sll_halen = ETH_ALEN};
	static const uint8_t none[ETH_ALEN];

	if (weir_kernel_neighbour(&probe->backend, probe->interface, to.sll_addr) < 0 ||
		memcmp(to.sll_addr, none, sizeof(none)) == 0) {
		return 0;
	}
	return sendto(sockets->link, packet, bytes, 0, (struct sockaddr *)&to, sizeof(to)) < 0
		       ? -errno
		       : 0;
}

static void send_probe(
	const struct weir_echo_sockets *sockets, struct weir_echo *probe, uint32_t number) {
	union {
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
		struct sockaddr any;
	} to = {0};
	uint8_t packet[PACKET_MOST];
	const size_t bytes = write_packet(probe, sockets->token, number, packet);
	const bool four = probe->backend.family == 4;

	if (probe->kind != WEIR_ECHO_DIRECT && probe->forwarding.mode == WEIR_FORWARDING_L2) {
		probe->error = send_link(sockets, probe, packet, bytes);
		return;
	}
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

// --- replies --------------------------------------------------------------------------------

struct taking {
	const uint8_t *token;
	struct weir_echo *probes;
	uint32_t count;
};

static void take_reply(const struct taking *taking, const uint8_t *icmp, size_t bytes,
	const struct weir_address *from) {
	const uint32_t number = get16(icmp + 6);
	const struct weir_address *wanted;
	struct weir_echo *probe;

	if (bytes < ICMP_BYTES + WEIR_ECHO_TOKEN_BYTES || number >= taking->count ||
		memcmp(icmp + ICMP_BYTES, taking->token, WEIR_ECHO_TOKEN_BYTES) != 0) {
		return;
	}
	probe = &taking->probes[number];
	wanted = probe->kind == WEIR_ECHO_DIRECT ? &probe->backend : &probe->inner;
	probe->answered |= memcmp(wanted, from, sizeof(*from)) == 0;
}

// Returns whether an ICMP error quotes the packet of this probe. Ignores header fields that routers
// change: overwrites these fields in `quote`. Compares only the quoted part: IPv4 routers may quote
// only 8 bytes after the IP header.
static bool is_quoted(
	const struct weir_echo *probe, uint8_t *packet, uint8_t *quote, size_t quote_bytes) {
	static const uint8_t changed4[] = {1, 8, 10, 11}, changed6[] = {0, 1, 7};
	const bool four = probe->backend.family == 4;
	const uint8_t *changed = four ? changed4 : changed6;
	const size_t count = four ? sizeof(changed4) : sizeof(changed6);
	const size_t least =
		four ? IPV4_BYTES + 8 : 2 * IPV6_BYTES + ICMP_BYTES + WEIR_ECHO_TOKEN_BYTES;

	if (quote_bytes < least) {
		return false;
	}
	for (size_t i = 0; i < count; i++) {
		quote[changed[i]] = packet[changed[i]];
	}
	return memcmp(packet, quote, quote_bytes < probe->bytes ? quote_bytes : probe->bytes) == 0;
}

// Handles a "too big" message that a router sent because of a packet to a backend.
static void take_error(
	const struct taking *taking, uint8_t family, uint8_t *quote, size_t bytes, uint32_t mtu) {
	uint8_t packet[PACKET_MOST];

	for (uint32_t i = 0; i < taking->count; i++) {
		struct weir_echo *probe = &taking->probes[i];

		if (probe->bytes > mtu && probe->backend.family == family &&
			write_packet(probe, taking->token, i, packet) == probe->bytes &&
			is_quoted(probe, packet, quote, bytes)) {
			probe->advertised_mtu = mtu;
		}
	}
}

static void take4(const struct taking *taking, uint8_t *packet, size_t bytes) {
	const size_t header = bytes > 0 ? (size_t)(packet[0] & 0x0f) * 4 : 0;
	uint8_t *icmp = packet + header;

	if (header < IPV4_BYTES || bytes < header + ICMP_BYTES) {
		return;
	}
	if (icmp[0] == REPLY4) {
		const struct weir_address from = weir_address_of(4, packet + 12);

		take_reply(taking, icmp, bytes - header, &from);
	} else if (icmp[0] == UNREACHABLE4 && icmp[1] == 4) {
		take_error(
			taking, 4, icmp + ICMP_BYTES, bytes - header - ICMP_BYTES, get16(icmp + 6));
	}
}

static void take6(
	const struct taking *taking, uint8_t *icmp, size_t bytes, const struct sockaddr_in6 *peer) {
	if (bytes < ICMP_BYTES) {
		return;
	}
	if (icmp[0] == REPLY6) {
		const struct weir_address from =
			weir_address_of(6, (const uint8_t *)&peer->sin6_addr);

		take_reply(taking, icmp, bytes, &from);
	} else if (icmp[0] == TOO_BIG6) {
		take_error(taking, 6, icmp + ICMP_BYTES, bytes - ICMP_BYTES, get16(icmp + 6));
	}
}

// Reads the replies that have arrived, at most RECEIVED_MOST datagrams from each socket, so that a
// fast sender cannot delay the check of the deadline.
static void receive(
	const struct weir_echo_sockets *sockets, struct weir_echo *probes, uint32_t count) {
	const struct taking taking = {sockets->token, probes, count};
	uint8_t packet[PACKET_MOST + IPV6_BYTES];

	for (int i = 0; i < RECEIVED_MOST; i++) {
		ssize_t got = recv(sockets->in4, packet, sizeof(packet), MSG_DONTWAIT);

		if (got < 0) {
			break;
		}
		take4(&taking, packet, (size_t)got);
	}
	for (int i = 0; i < RECEIVED_MOST; i++) {
		struct sockaddr_in6 peer = {0};
		socklen_t length = sizeof(peer);
		ssize_t got = recvfrom(sockets->in6, packet, sizeof(packet), MSG_DONTWAIT,
			(struct sockaddr *)&peer, &length);

		if (got < 0) {
			break;
		}
		take6(&taking, packet, (size_t)got, &peer);
	}
}

// --- rounds -------------------------------------------------------------------------------

static bool is_done(const struct weir_echo *probes, uint32_t count) {
	for (uint32_t i = 0; i < count; i++) {
		if (!probes[i].answered && probes[i].advertised_mtu == 0 && probes[i].error == 0) {
			return false;
		}
	}
	return true;
}

void weir_echo_round(const struct weir_echo_sockets *sockets, struct weir_echo *probes,
	uint32_t count, int deadline_ms) {
	struct pollfd waiting[2] = {
		{.fd = sockets->in4, .events = POLLIN}, {.fd = sockets->in6, .events = POLLIN}};
	const int64_t end = weir_monotonic_ms() + deadline_ms;
	int64_t now = weir_monotonic_ms(), again = now;

	do {
		if (now >= again) {
			for (uint32_t i = 0; i < count; i++) {
				if (!probes[i].answered) {
					send_probe(sockets, &probes[i], i);
				}
				if (i % SENT_MOST == SENT_MOST - 1) {
					receive(sockets, probes, count);
				}
			}
			again = now + AGAIN_MS;
		}
		if (!is_done(probes, count) &&
			poll(waiting, 2, (int)(again < end ? again - now : end - now)) > 0) {
			receive(sockets, probes, count);
		}
		now = weir_monotonic_ms();
	} while (now < end && !is_done(probes, count));
}

// Installs socket filters that accept only echo replies, "destination unreachable" (IPv4) and
// "packet too big" (IPv6). Without the filters, requests from other hosts could fill the receive
// buffers.
static void take_answers_only(const struct weir_echo_sockets *sockets) {
	const struct icmp_filter only4 = {.data = ~(1u << REPLY4 | 1u << UNREACHABLE4)};
	struct icmp6_filter only6;

	ICMP6_FILTER_SETBLOCKALL(&only6);
	ICMP6_FILTER_SETPASS(REPLY6, &only6);
	ICMP6_FILTER_SETPASS(TOO_BIG6, &only6);
	(void)setsockopt(sockets->in4, SOL_RAW, ICMP_FILTER, &only4, sizeof(only4));
	(void)setsockopt(sockets->in6, IPPROTO_ICMPV6, ICMP6_FILTER, &only6, sizeof(only6));
}

int weir_echo_open(struct weir_echo_sockets *ret) {
	const int type = SOCK_RAW | SOCK_CLOEXEC;
	struct weir_echo_sockets sockets = {
		.out4 = socket(AF_INET, type, IPPROTO_RAW),
		.in4 = socket(AF_INET, type, IPPROTO_ICMP),
		.out6 = socket(AF_INET6, type, IPPROTO_RAW),
		.in6 = socket(AF_INET6, type, IPPROTO_ICMPV6), // -1 on a kernel without IPv6
		.link = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0),
	};
	int r = -errno;

	if (sockets.out4 < 0 || sockets.in4 < 0 || sockets.link < 0) {
		weir_echo_close(&sockets);
		return r < 0 ? r : -EPERM;
	}
	if (getrandom(sockets.token, sizeof(sockets.token), 0) != (ssize_t)sizeof(sockets.token)) {
		r = -errno;
		weir_echo_close(&sockets);
		return r < 0 ? r : -EIO;
	}
	weir_socket_send_buffer(sockets.out4, WEIR_SEND_BUFFER_BYTES);
	weir_socket_send_buffer(sockets.out6, WEIR_SEND_BUFFER_BYTES);
	take_answers_only(&sockets);
	*ret = sockets;
	return 0;
}

void weir_echo_close(struct weir_echo_sockets *sockets) {
	int *fds[] = {&sockets->out4, &sockets->out6, &sockets->in4, &sockets->in6, &sockets->link};

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (*fds[i] >= 0) {
			close(*fds[i]);
		}
		*fds[i] = -1;
	}
}
