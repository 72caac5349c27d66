// SPDX-License-Identifier: BSD-3-Clause
//
// Fuzz target: bursts of any bytes as frames, through a pipeline with real tables. The input is a
// list of steps, each one byte and what belongs to it:
//
//   0x00..0x7f  a burst of (low 3 bits) + 1 frames, received on port (bits 3 and 4) % 3
//   0x80..0xbf  other tables are published: (low 2 bits) of enum balancer_tables
//   0xc0..0xdf  10 ms << (low 3 bits) pass
//   0xe0..0xff  a question: the next 38 bytes are addresses, ports, family, protocol
//
// A frame is a byte of flags (enum frame_flag), its length (2 bytes, little endian), its bytes.
//
// Checked: the identities that pipeline.h promises of the counters; everything that is sent, by
// oracle.c; what goes to the kernel is untouched; both parsers agree; a flow in the table stays
// with its backend (S6); no buffer is lost.
#include <rte_malloc.h>

#include "balancer.h"
#include "flow_query.h"
#include "fuzz.h"
#include "oracle.h"
#include "parse.h"

#define STEPS_MAX 24
#define BURST_MAX 8
#define KNOWN_MAX 128
#define TAG 100
#define FRAME_BYTES_MAX 1600 // beyond the MTU; with the outer header below ORACLE_FRAME_MAX

enum frame_flag {
	FIX_IPV4 = 0x01, // make the checksum right
	FIX_ICMP = 0x02,
	FIX_LENGTH = 0x04, // the IP packet ends with the frame
	CHECKED = 0x08, // the NIC says that the IPv4 checksum is good
	STRIPPED = 0x10, // the NIC took a VLAN tag off
	LITTLE_HEADROOM = 0x20, // the first byte of the frame says how much
	SPLIT = 0x40, // in two segments, the first of (second byte of the frame) bytes
	TAILROOM = 0x80, // the first segment has room for more
};

struct known { // a flow and its backend
	struct weir_flow_key key;
	uint16_t backend; // WEIR_BACKEND_NONE: not known
};

struct packet {
	struct oracle_frame frame;
	struct rte_mbuf *m;
	struct weir_descriptor parsed;
	uint8_t flags;
};

struct world {
	struct balancer balancer;
	struct known known[KNOWN_MAX];
	unsigned int known_count;
	uint64_t packets, bytes, forwarded, replied, to_kernel, dropped;
	uint64_t drops[WEIR_DROP_REASON_COUNT];
};

// --- before the pipeline ----------------------------------------------------------------------

static void take_frame(struct fuzz_input *input, struct packet *ret) {
	uint8_t headroom = RTE_PKTMBUF_HEADROOM, first = 0;
	const uint8_t *data;
	size_t n;

	ret->flags = fuzz_take8(input);
	n = fuzz_take16(input);
	data = fuzz_take(input, n < FRAME_BYTES_MAX ? n : FRAME_BYTES_MAX, &n);
	ret->frame.n = (uint32_t)n;
	if (n > 0) {
		memcpy(ret->frame.bytes, data, n);
	}
	if ((ret->flags & LITTLE_HEADROOM) && n > 0) {
		headroom = data[0];
	}
	if ((ret->flags & SPLIT) && n > 1) {
		first = data[1];
	}
	if (ret->flags & FIX_LENGTH) {
		oracle_fix_length(&ret->frame);
	}
	if (ret->flags & FIX_IPV4) {
		oracle_fix_ipv4(&ret->frame);
	}
	if (ret->flags & FIX_ICMP) {
		oracle_fix_icmp(&ret->frame);
	}
	ret->m = buffer_make(ret->frame.bytes, ret->frame.n, headroom, first,
		(ret->flags & (SPLIT | TAILROOM)) == (SPLIT | TAILROOM) ? WEIR_HEADERS_BYTES : 0);
	if (ret->flags & CHECKED) {
		ret->m->ol_flags |= RTE_MBUF_F_RX_IP_CKSUM_GOOD;
	}
	if (ret->flags & STRIPPED) {
		ret->m->ol_flags |= RTE_MBUF_F_RX_VLAN | RTE_MBUF_F_RX_VLAN_STRIPPED;
		ret->m->vlan_tci = TAG;
	}
}

// Both parsers, on a buffer that ends where the frame's first segment does.
static void parse_both(struct packet *packet) {
	struct rte_mbuf *m = packet->m;
	struct weir_descriptor whole;

	if (m->nb_segs > 1) {
		weir_parse_gather(m);
	}
	memset(&packet->parsed, 0, sizeof(packet->parsed));
	weir_parse(m, BALANCER_SEED, &packet->parsed);
	weir_parse_slow(m, BALANCER_SEED, &whole);
	REQUIRE(memcmp(&packet->parsed, &whole, sizeof(whole)) == 0);
	if (whole.kind == WEIR_PACKET_FLOW) {
		REQUIRE(weir_pipeline_distribution_hash(m, BALANCER_SEED) == whole.hash);
	} else {
		weir_pipeline_distribution_hash(m, BALANCER_SEED);
	}
}

// --- behind it --------------------------------------------------------------------------------

static void read_back(const struct rte_mbuf *m, struct oracle_frame *ret) {
	unsigned int segments = 0;
	uint32_t n = 0;

	REQUIRE(m->pkt_len <= sizeof(ret->bytes));
	for (const struct rte_mbuf *part = m; part != NULL; part = part->next) {
		REQUIRE(n + part->data_len <= m->pkt_len);
		REQUIRE(part->data_off + part->data_len <= part->buf_len);
		memcpy(ret->bytes + n, rte_pktmbuf_mtod(part, uint8_t *), part->data_len);
		n += part->data_len;
		segments++;
	}
	REQUIRE(n == m->pkt_len && segments == m->nb_segs);
	ret->n = n;
}

// Only frames to the port's own address are answered and forwarded; the kernel gets those to groups
// as well.
static void check_destination(const struct packet *packet, enum weir_action action) {
	static const uint8_t own[6] = BALANCER_MAC;
	bool ours = packet->frame.n >= 6 && memcmp(packet->frame.bytes, own, 6) == 0;
	bool group = packet->frame.n >= 6 && (packet->frame.bytes[0] & 1) != 0;

	REQUIRE(ours || action == WEIR_ACTION_DROP || (group && action == WEIR_ACTION_KERNEL));
}

static void check_packet(struct world *world, const struct packet *packet,
	const struct weir_verdict *verdict, uint8_t in_port) {
	struct oracle_frame out;

	REQUIRE(verdict->backend == WEIR_BACKEND_NONE || verdict->backend < BALANCER_BACKENDS);
	REQUIRE(verdict->service == WEIR_SERVICE_NONE || verdict->service < BALANCER_SERVICES);
	REQUIRE(verdict->choice <= WEIR_CHOICE_REPLACED);
	check_destination(packet, (enum weir_action)verdict->action);
	switch ((enum weir_action)verdict->action) {
	case WEIR_ACTION_FORWARD:
		REQUIRE(verdict->reason == WEIR_REASON_NONE);
		REQUIRE(verdict->backend != WEIR_BACKEND_NONE &&
			verdict->choice != WEIR_CHOICE_NONE);
		REQUIRE(verdict->port == world->balancer.rows[verdict->backend].port);
		REQUIRE(verdict->service == world->balancer.rows[verdict->backend].service);
		read_back(packet->m, &out);
		oracle_forwarded(&packet->frame, &out, &world->balancer.rows[verdict->backend]);
		world->forwarded++;
		break;
	case WEIR_ACTION_REPLY:
		REQUIRE(verdict->port == in_port);
		REQUIRE(verdict->reason == WEIR_REASON_NONE ||
			verdict->reason == WEIR_DROP_MTU_EXCEEDED ||
			verdict->reason == WEIR_DROP_CLOSED_PORT);
		read_back(packet->m, &out);
		oracle_replied(&packet->frame, &out,
			verdict->reason == WEIR_DROP_MTU_EXCEEDED  ? ORACLE_TOO_BIG
			: verdict->reason == WEIR_DROP_CLOSED_PORT ? ORACLE_RESET
								   : ORACLE_ECHO,
			packet->flags & STRIPPED ? TAG : 0);
		if (verdict->reason == WEIR_REASON_NONE) {
			world->replied++;
		} else {
			world->dropped++;
			world->drops[verdict->reason]++;
		}
		break;
	case WEIR_ACTION_KERNEL:
		REQUIRE(verdict->reason == WEIR_REASON_NONE);
		read_back(packet->m, &out);
		REQUIRE(out.n == packet->frame.n &&
			memcmp(out.bytes, packet->frame.bytes, out.n) == 0);
		world->to_kernel++;
		break;
	case WEIR_ACTION_DROP:
		REQUIRE(verdict->reason < WEIR_DROP_REASON_COUNT);
		world->dropped++;
		world->drops[verdict->reason]++;
		break;
	default:
		REQUIRE(!"an action");
	}
}

static struct known *find_known(struct world *world, const struct weir_flow_key *key) {
	for (unsigned int i = 0; i < world->known_count; i++) {
		if (memcmp(&world->known[i].key, key, sizeof(*key)) == 0) {
			return &world->known[i];
		}
	}
	return NULL;
}

// Whether this backend is one that a packet of the same flow was given in this burst: lookups come
// before insertions, so the order inside a burst does not tell who was first.
static bool given_in_burst(const struct packet *packets, const struct weir_verdict *verdicts,
	unsigned int n, unsigned int one) {
	for (unsigned int i = 0; i < n; i++) {
		if (i != one && packets[i].parsed.kind == WEIR_PACKET_FLOW &&
			verdicts[i].backend == verdicts[one].backend &&
			memcmp(&packets[i].parsed.key, &packets[one].parsed.key,
				sizeof(packets[i].parsed.key)) == 0) {
			return true;
		}
	}
	return false;
}

static void check_flows(struct world *world, const struct packet *packets,
	const struct weir_verdict *verdicts, unsigned int n) {
	for (unsigned int i = 0; i < n; i++) {
		const struct known *known = find_known(world, &packets[i].parsed.key);

		if (packets[i].parsed.kind == WEIR_PACKET_FLOW &&
			verdicts[i].choice == WEIR_CHOICE_FLOW &&
			verdicts[i].backend != WEIR_BACKEND_NONE && known != NULL &&
			known->backend != WEIR_BACKEND_NONE) {
			REQUIRE(verdicts[i].backend == known->backend ||
				given_in_burst(packets, verdicts, n, i));
		}
	}
	for (unsigned int i = 0; i < n; i++) {
		struct known *known = find_known(world, &packets[i].parsed.key);

		if (packets[i].parsed.kind != WEIR_PACKET_FLOW) {
			continue;
		}
		if (known == NULL && world->known_count < KNOWN_MAX) {
			known = &world->known[world->known_count++];
			known->key = packets[i].parsed.key;
		}
		if (known != NULL) {
			known->backend = verdicts[i].backend;
		}
	}
}

static void check_counters(const struct world *world) {
	const struct weir_segment *segment = world->balancer.segment;
	const struct weir_worker_counters *c = &segment->worker_counters[0];
	uint64_t forwarded = 0, active = 0, by_backend = 0;

	REQUIRE(c->rx_packets == world->packets && c->rx_bytes == world->bytes);
	REQUIRE(c->rx_packets == c->forwarded + c->replied + c->to_kernel + c->dropped);
	REQUIRE(c->forwarded == world->forwarded && c->replied == world->replied);
	REQUIRE(c->to_kernel == world->to_kernel && c->dropped == world->dropped);
	for (unsigned int i = 0; i < WEIR_DROP_REASON_COUNT; i++) {
		REQUIRE(c->drops[i] == world->drops[i]);
	}
	for (uint32_t i = 0; i < BALANCER_SERVICES; i++) {
		const struct weir_share_counters *s = weir_segment_service_counters(segment, 0, i);

		forwarded += s->packets;
		active += s->active_flows;
	}
	REQUIRE(forwarded == c->forwarded && active == c->flows);
	for (uint32_t i = 0; i < BALANCER_BACKENDS; i++) {
		const struct weir_share_counters *s = weir_segment_backend_counters(segment, 0, i);

		by_backend += s->packets;
		active -= s->active_flows;
	}
	REQUIRE(by_backend == c->forwarded && active == 0);
}

// --- steps ------------------------------------------------------------------------------------

static void burst(struct world *world, struct fuzz_input *input, uint8_t step) {
	struct balancer *balancer = &world->balancer;
	uint16_t n = (uint16_t)((step & 7) + 1);
	uint8_t in_port = (step >> 3 & 3) % BALANCER_PORTS;
	struct packet packets[BURST_MAX];
	struct weir_verdict verdicts[BURST_MAX];
	struct rte_mbuf *pkts[BURST_MAX];

	for (uint16_t i = 0; i < n; i++) {
		take_frame(input, &packets[i]);
		parse_both(&packets[i]);
		pkts[i] = packets[i].m;
		world->packets++;
		world->bytes += packets[i].frame.n;
	}
	weir_pipeline_process(balancer->pipeline, pkts, n, in_port, balancer->now_ns, verdicts);
	weir_pipeline_maintain(balancer->pipeline, balancer->now_ns);
	for (uint16_t i = 0; i < n; i++) {
		check_packet(world, &packets[i], &verdicts[i], in_port);
	}
	check_flows(world, packets, verdicts, n);
	check_counters(world);
	for (uint16_t i = 0; i < n; i++) {
		buffer_free(packets[i].m);
	}
}

static void ask(struct world *world, struct fuzz_input *input) {
	struct weir_message message = {.sequence = 7, .kind = WEIR_MESSAGE_FLOW_LOOKUP};
	const uint8_t *data;
	size_t n;

	data = fuzz_take(input, offsetof(__typeof__(message.flow), found), &n);
	if (n > 0) {
		memcpy(&message.flow, data, n);
	}
	weir_flow_query_respond(world->balancer.pipeline, &message, world->balancer.now_ns);
	REQUIRE(message.sequence == 7);
	REQUIRE(message.flow.backend == WEIR_BACKEND_NONE ||
		message.flow.backend < BALANCER_BACKENDS);
	REQUIRE(message.flow.chosen == WEIR_BACKEND_NONE ||
		message.flow.chosen < BALANCER_BACKENDS);
	REQUIRE(message.flow.service == WEIR_SERVICE_NONE || message.flow.service < 2);
	REQUIRE((message.flow.backend != WEIR_BACKEND_NONE) == (message.flow.found != 0));
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
	(void)argc;
	(void)argv;
	balancer_start();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	struct fuzz_input input = {data, bytes};
	struct world world = {.known_count = 0};

	balancer_init(&world.balancer);
	balancer_publish(&world.balancer, BALANCER_USUAL);
	for (unsigned int steps = 0; steps < STEPS_MAX && input.bytes > 0; steps++) {
		uint8_t step = fuzz_take8(&input);

		if (step < 0x80) {
			burst(&world, &input, step);
		} else if (step < 0xc0) {
			balancer_publish(
				&world.balancer, (enum balancer_tables)(step % BALANCER_VARIANTS));
		} else if (step < 0xe0) {
			balancer_wait(&world.balancer, 10u << (step & 7));
		} else {
			ask(&world, &input);
		}
	}
	balancer_fini(&world.balancer);
	buffer_check_leaks();
	return 0;
}
