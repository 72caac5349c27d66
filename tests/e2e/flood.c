// SPDX-License-Identifier: BSD-3-Clause
//
// Flood: sends packets of many flows, or forged packets from random sources, as fast as a packet
// socket accepts them. For scenarios_hostile.py. TCP checksums are 0: the balancer does not check
// them, and the backends' kernels drop such packets early, so that most CPU time is left for the
// balancer.
//
// usage: flood DEVICE MAC VIP PORT flows syn|ack|data FIRST COUNT [PER_SECOND]
//            one packet for each of COUNT flows from number FIRST on, as fast as possible, or
//            evenly at PER_SECOND packets per second
//        flood DEVICE MAC VIP PORT hot SECONDS PER_SECOND FLOW...
//            data packets of these flows in turn, PER_SECOND packets per second in total
//        flood DEVICE MAC VIP PORT syn|ack|rst|fin|data|udp|fragment|icmp SECONDS
// Prints the number of packets sent.
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BATCH 64u
#define FRAME_MAX 128u
#define ETHERNET_BYTES 14u
#define IPV4_BYTES 20u
#define TCP_SYN 0x02
#define TCP_ACK 0x10
#define TCP_RST 0x04
#define TCP_FIN 0x01
#define TCP_PSH 0x08
#define PAYLOAD_BYTES 20u

#ifndef PACKET_QDISC_BYPASS
#define PACKET_QDISC_BYPASS 20
#endif

enum kind { SYN, ACK, RST, FIN, DATA, UDP, FRAGMENT, ICMP, KINDS };
static const char *const kind_names[KINDS] = {
	"syn", "ack", "rst", "fin", "data", "udp", "fragment", "icmp"};
static const uint8_t tcp_flags[KINDS] = {
	TCP_SYN, TCP_ACK, TCP_RST | TCP_ACK, TCP_FIN | TCP_ACK, TCP_ACK | TCP_PSH};

struct flood {
	int fd;
	uint8_t destination_mac[6], source_mac[6];
	uint32_t vip; // network order
	uint16_t port;
	uint64_t random, sent;
	uint32_t count; // number of frames in the batch
	struct frame {
		uint8_t bytes[FRAME_MAX];
		uint32_t n;
	} frames[BATCH];
};

static uint64_t next_random(struct flood *flood) {
	uint64_t x = flood->random += 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

static uint64_t now_ns(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

// --- packets ------------------------------------------------------------------------------------

static uint8_t *put16(uint8_t *at, uint32_t value) {
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
	return at + 2;
}

static uint8_t *put32(uint8_t *at, uint32_t value) {
	return put16(put16(at, value >> 16), value & 0xffff);
}

static uint16_t checksum(const uint8_t *at, uint32_t bytes) {
	uint32_t sum = 0;

	for (uint32_t i = 0; i < bytes; i += 2) {
		sum += (uint32_t)at[i] << 8 | at[i + 1];
	}
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~((sum & 0xffff) + (sum >> 16));
}

// Addresses are in host order. Returns the position after the header.
static uint8_t *put_ipv4(uint8_t *at, uint32_t from, uint32_t to, uint8_t protocol,
	uint32_t payload, uint32_t fragment, uint32_t id) {
	uint8_t *header = at;

	at = put16(at, 0x4500);
	at = put16(at, IPV4_BYTES + payload);
	at = put16(at, id);
	at = put16(at, fragment);
	*at++ = 64;
	*at++ = protocol;
	at = put16(at, 0);
	at = put32(at, from);
	at = put32(at, to);
	put16(header + 10, checksum(header, IPV4_BYTES));
	return at;
}

static uint8_t *put_tcp(uint8_t *at, uint32_t from, uint32_t to, uint8_t flags, uint32_t sequence) {
	at = put16(at, from);
	at = put16(at, to);
	at = put32(at, sequence);
	at = put32(at, (flags & TCP_ACK) != 0 ? sequence ^ 0x5a5a5a5a : 0);
	*at++ = 5 << 4;
	*at++ = flags;
	at = put16(at, 65535);
	return put32(at, 0); // checksum, urgent pointer
}

static uint8_t *begin_frame(struct flood *flood) {
	uint8_t *at = flood->frames[flood->count].bytes;

	memcpy(at, flood->destination_mac, 6);
	memcpy(at + 6, flood->source_mac, 6);
	put16(at + 12, ETHERTYPE_IP);
	return at + ETHERNET_BYTES;
}

static void end_frame(struct flood *flood, const uint8_t *end) {
	struct frame *frame = &flood->frames[flood->count++];

	frame->n = (uint32_t)(end - frame->bytes);
	while (frame->n < 60) {
		frame->bytes[frame->n++] = 0;
	}
}

static void put_tcp_frame(
	struct flood *flood, uint32_t source, uint32_t port, uint8_t flags, uint32_t sequence) {
	uint32_t payload = (flags & TCP_PSH) != 0 ? PAYLOAD_BYTES : 0;
	uint8_t *at = begin_frame(flood);

	at = put_ipv4(at, source, ntohl(flood->vip), IPPROTO_TCP, 20 + payload, 0x4000, 0);
	at = put_tcp(at, port, flood->port, flags, sequence);
	memset(at, 'x', payload);
	end_frame(flood, at + payload);
}

// Returns the source address of a flow, in 10.192.0.0/10. Four flows share an address.
static uint32_t flow_source(uint32_t flow) {
	return 0x0ac00000u + 256 + flow / 4;
}

static void put_flow(struct flood *flood, uint32_t flow, enum kind kind) {
	put_tcp_frame(flood, flow_source(flow), 20000 + flow % 4, tcp_flags[kind], flow);
}

static void put_udp(struct flood *flood, uint32_t source, uint64_t random, bool fragment) {
	uint32_t offset = fragment ? (uint32_t)(random >> 40) % 180 : 0;
	uint32_t bits = fragment ? ((random >> 60 & 1) << 13 | offset) : 0;
	uint8_t *at = begin_frame(flood);

	at = put_ipv4(at, source, ntohl(flood->vip), IPPROTO_UDP, 8 + PAYLOAD_BYTES + 4, bits,
		(uint32_t)random & 0xffff);
	at = put16(at, (uint32_t)random & 0xffff);
	at = put16(at, flood->port);
	at = put16(at, 8 + PAYLOAD_BYTES + 4);
	at = put16(at, 0);
	memset(at, 'x', PAYLOAD_BYTES + 4);
	end_frame(flood, at + PAYLOAD_BYTES + 4);
}

// "Fragmentation needed", about a packet from the VIP to a random client.
static void put_icmp(struct flood *flood, uint32_t source, uint64_t random) {
	uint8_t *at = begin_frame(flood), *icmp;

	icmp = put_ipv4(at, source, ntohl(flood->vip), IPPROTO_ICMP, 8 + IPV4_BYTES + 8, 0, 0);
	icmp[0] = 3;
	icmp[1] = 4;
	put16(icmp + 2, 0);
	put16(icmp + 4, 0);
	put16(icmp + 6, 68 + (uint32_t)(random >> 50) % 1400);
	at = put_ipv4(icmp + 8, ntohl(flood->vip), source, IPPROTO_TCP, 40, 0x4000, 0);
	at = put16(at, flood->port);
	at = put16(at, (uint32_t)random & 0xffff);
	at = put32(at, (uint32_t)(random >> 16));
	put16(icmp + 2, checksum(icmp, 8 + IPV4_BYTES + 8));
	end_frame(flood, at);
}

static void put_forged(struct flood *flood, enum kind kind) {
	uint64_t random = next_random(flood);
	// Sources 1.0.0.0 to 9.255.255.255 are not martian addresses, and no flow uses them.
	uint32_t source =
		(1 + (uint32_t)(random >> 32) % 9) << 24 | (uint32_t)(random >> 8 & 0xffffff);

	switch (kind) {
	case UDP:
	case FRAGMENT:
		put_udp(flood, source, next_random(flood), kind == FRAGMENT);
		break;
	case ICMP:
		put_icmp(flood, source, next_random(flood));
		break;
	default:
		random = next_random(flood);
		put_tcp_frame(flood, source, 1024 + (uint32_t)random % 60000, tcp_flags[kind],
			(uint32_t)(random >> 32));
	}
}

// --- sending ------------------------------------------------------------------------------------

static void wait_until(uint64_t ns) {
	struct timespec until = {
		.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
	}
}

static bool send_batch(struct flood *flood) {
	struct mmsghdr messages[BATCH];
	struct iovec vectors[BATCH];
	uint32_t done = 0;

	memset(messages, 0, sizeof(messages));
	for (uint32_t i = 0; i < flood->count; i++) {
		vectors[i] = (struct iovec){flood->frames[i].bytes, flood->frames[i].n};
		messages[i].msg_hdr.msg_iov = &vectors[i];
		messages[i].msg_hdr.msg_iovlen = 1;
	}
	while (done < flood->count) {
		int n = sendmmsg(flood->fd, messages + done, flood->count - done, 0);

		if (n > 0) {
			done += (uint32_t)n;
		} else if (errno != ENOBUFS && errno != EAGAIN && errno != EINTR) {
			perror("flood: cannot send");
			return false;
		}
	}
	flood->sent += done;
	flood->count = 0;
	return true;
}

// per_second: 0 = as fast as possible.
static bool send_flows(
	struct flood *flood, enum kind kind, uint32_t first, uint32_t count, uint32_t per_second) {
	uint64_t begin = now_ns();

	for (uint32_t i = 0; i < count; i++) {
		if (per_second > 0) {
			wait_until(begin + i * UINT64_C(1000000000) / per_second);
		}
		put_flow(flood, first + i, kind);
		if ((flood->count == BATCH || per_second > 0) && !send_batch(flood)) {
			return false;
		}
	}
	return send_batch(flood);
}

// Send data of the given flows in turn: per_second / 1000 packets each millisecond.
static bool send_hot(struct flood *flood, uint32_t seconds, uint32_t per_second,
	const char *const *flows, uint32_t count) {
	uint64_t begin = now_ns(), packets = (uint64_t)seconds * per_second;

	for (uint64_t i = 0; i < packets; i++) {
		put_flow(flood, (uint32_t)strtoul(flows[i % count], NULL, 10), DATA);
		if (flood->count == BATCH && !send_batch(flood)) {
			return false;
		}
		if (i % (per_second / 1000) == 0) {
			if (!send_batch(flood)) {
				return false;
			}
			wait_until(begin + i * UINT64_C(1000000000) / per_second);
		}
	}
	return send_batch(flood);
}

static bool send_forged(struct flood *flood, enum kind kind, uint32_t seconds) {
	uint64_t end = now_ns() + seconds * 1000000000ull;

	while (now_ns() < end) {
		while (flood->count < BATCH) {
			put_forged(flood, kind);
		}
		if (!send_batch(flood)) {
			return false;
		}
	}
	return true;
}

// --- start --------------------------------------------------------------------------------------

static bool open_socket(struct flood *flood, const char *device) {
	struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = 0};
	int bypass = 1;

	address.sll_ifindex = (int)if_nametoindex(device);
	flood->fd = socket(AF_PACKET, SOCK_RAW, 0);
	if (address.sll_ifindex == 0 || flood->fd < 0 ||
		bind(flood->fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		perror(device);
		return false;
	}
	setsockopt(flood->fd, SOL_PACKET, PACKET_QDISC_BYPASS, &bypass, sizeof(bypass));
	return true;
}

static bool read_mac(const char *text, uint8_t mac[6]) {
	return sscanf(text, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &mac[0], &mac[1], &mac[2], &mac[3],
		       &mac[4], &mac[5]) == 6;
}

static bool read_kind(const char *text, enum kind *ret) {
	for (int kind = 0; kind < KINDS; kind++) {
		if (strcmp(text, kind_names[kind]) == 0) {
			*ret = (enum kind)kind;
			return true;
		}
	}
	return false;
}

int main(int argc, char **argv) {
	static struct flood flood = {.source_mac = {2, 0, 0, 0, 0, 0xf1}, .random = 1};
	bool flows = (argc == 9 || argc == 10) && strcmp(argv[5], "flows") == 0;
	bool hot = argc >= 9 && strcmp(argv[5], "hot") == 0;
	enum kind kind = DATA;
	bool ok;

	if ((argc != 7 && !flows && !hot) || !read_mac(argv[2], flood.destination_mac) ||
		inet_pton(AF_INET, argv[3], &flood.vip) != 1 ||
		(hot ? strtoul(argv[7], NULL, 10) < 1000
		     : !read_kind(argv[flows ? 6 : 5], &kind))) {
		fprintf(stderr, "usage: flood DEVICE MAC VIP PORT flows syn|ack|data FIRST COUNT "
				"[PER_SECOND]\n"
				"       flood DEVICE MAC VIP PORT hot SECONDS PER_SECOND FLOW...\n"
				"       flood DEVICE MAC VIP PORT KIND SECONDS\n");
		return 2;
	}
	flood.port = (uint16_t)strtoul(argv[4], NULL, 10);
	if (!open_socket(&flood, argv[1])) {
		return 1;
	}
	if (flows) {
		prctl(PR_SET_TIMERSLACK, 1000);
		ok = send_flows(&flood, kind, (uint32_t)strtoul(argv[7], NULL, 10),
			(uint32_t)strtoul(argv[8], NULL, 10),
			argc == 10 ? (uint32_t)strtoul(argv[9], NULL, 10) : 0);
	} else if (hot) {
		prctl(PR_SET_TIMERSLACK, 1000);
		ok = send_hot(&flood, (uint32_t)strtoul(argv[6], NULL, 10),
			(uint32_t)strtoul(argv[7], NULL, 10), (const char *const *)argv + 8,
			(uint32_t)argc - 8);
	} else {
		ok = send_forged(&flood, kind, (uint32_t)strtoul(argv[6], NULL, 10));
	}
	printf("%" PRIu64 "\n", flood.sent);
	close(flood.fd);
	return ok ? 0 : 1;
}
