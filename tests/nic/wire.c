// SPDX-License-Identifier: BSD-3-Clause
#include "wire.h"

#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <rte_byteorder.h>
#include <rte_cycles.h>
#include <rte_ip.h>
#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>
#include <rte_ring.h>
#include <rte_thash.h>

#include "judge.h"

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif

#define BATCH 32u
#define SEGMENTS_MAX 8u
#define SOCKET_BYTES (64 << 20)
#define IDLE_NS 20000

// Packets removed from a transmit queue.
struct outgoing {
	struct rte_mbuf *packet[BATCH];
	uint32_t first, count;
};

struct wire {
	struct wire_params params;
	struct judge *judge;
	int fd;
	bool stop; // relaxed
	pthread_t thread;
	uint64_t received; // number of received packets; every fourth packet gets no hash
	struct rte_mbuf *ready[BATCH]; // received packets that are not in their queue yet
	uint32_t ready_count;
	struct outgoing outgoing[NIC_QUEUES_MAX];
	// Number of sent packets of each transmit queue; read by workers
	uint32_t departed[NIC_QUEUES_MAX];
};

// --- hash -----------------------------------------------------------------------------------

static uint32_t hash_addresses(const struct weir_rss_key *key, const uint8_t *at, uint32_t words) {
	uint32_t tuple[8];

	memcpy(tuple, at, words * sizeof(tuple[0]));
	for (uint32_t i = 0; i < words; i++) {
		tuple[i] = rte_be_to_cpu_32(tuple[i]);
	}
	return rte_softrss(tuple, words, key->bytes);
}

static uint32_t hash_flow(const struct weir_rss_key *rss, uint8_t family, uint8_t protocol,
	const uint8_t *addresses, const uint8_t *ports) {
	const size_t bytes = family == 4 ? 4 : 16;
	struct weir_flow_key key = {.family = family, .protocol = protocol};

	memcpy(key.source, addresses, bytes);
	memcpy(key.destination, addresses + bytes, bytes);
	memcpy(&key.source_port, ports, 2);
	memcpy(&key.destination_port, ports + 2, 2);
	return weir_rss_hash(rss, &key);
}

static bool has_ports(uint8_t protocol) {
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP;
}

// Returns false if the frame has no IP packet; the device then computes no hash.
static bool hash_of(
	const struct weir_rss_key *key, const uint8_t *frame, uint32_t n, uint32_t *ret) {
	const uint8_t *at = frame + ETHER_HDR_LEN;
	uint16_t type;

	if (n < ETHER_HDR_LEN + 40) {
		return false;
	}
	memcpy(&type, frame + 12, sizeof(type));
	if (type == rte_cpu_to_be_16(ETHERTYPE_IP)) {
		uint32_t header = (at[0] & 0xfu) * 4;
		bool fragment = (at[6] & 0x3f) != 0 || at[7] != 0;

		*ret = has_ports(at[9]) && !fragment && n >= ETHER_HDR_LEN + header + 4
			       ? hash_flow(key, 4, at[9], at + 12, at + header)
			       : hash_addresses(key, at + 12, 2);
		return true;
	}
	if (type == rte_cpu_to_be_16(ETHERTYPE_IPV6)) {
		*ret = has_ports(at[6]) && n >= ETHER_HDR_LEN + 44
			       ? hash_flow(key, 6, at[6], at + 8, at + 40)
			       : hash_addresses(key, at + 8, 8);
		return true;
	}
	return false;
}

// --- from the wire --------------------------------------------------------------------------

// Leaves out the hash of every fourth frame.
static void receive_frame(struct wire *wire, struct rte_mbuf *m) {
	struct nic_state *state = wire->params.state;
	uint16_t queue = 0;
	uint32_t hash = 0;
	bool hashed, taken;

	judge_arrival(wire->judge, rte_pktmbuf_mtod(m, uint8_t *), m->pkt_len);
	hashed = hash_of(
		&wire->params.model->key, rte_pktmbuf_mtod(m, uint8_t *), m->pkt_len, &hash);
	if (hashed && wire->received++ % 4 != 0) {
		m->hash.rss = hash;
		m->ol_flags |= RTE_MBUF_F_RX_RSS_HASH;
	}
	nic_model_lock(wire->params.model);
	if (hashed) {
		queue = nic_model_queue(wire->params.model, hash);
	}
	taken = queue < wire->params.queues && rte_ring_enqueue(wire->params.rx[queue], m) == 0;
	nic_model_unlock(wire->params.model);
	if (!taken) {
		rte_pktmbuf_free(m);
		nic_add(&state->missed, 1);
		return;
	}
	nic_add(&state->received, 1);
	nic_add(&state->queue_received[queue], 1);
}

static bool make_ready(struct wire *wire) {
	uint32_t missing = BATCH - wire->ready_count;

	if (missing == 0 || rte_pktmbuf_alloc_bulk(wire->params.pool,
				    wire->ready + wire->ready_count, missing) == 0) {
		wire->ready_count = BATCH;
	}
	return wire->ready_count == BATCH;
}

static uint32_t receive(struct wire *wire) {
	struct mmsghdr messages[BATCH];
	struct iovec vectors[BATCH];
	int n;

	if (!make_ready(wire)) {
		return 0;
	}
	memset(messages, 0, sizeof(messages));
	for (uint32_t i = 0; i < BATCH; i++) {
		vectors[i] = (struct iovec){rte_pktmbuf_mtod(wire->ready[i], void *),
			rte_pktmbuf_tailroom(wire->ready[i])};
		messages[i].msg_hdr.msg_iov = &vectors[i];
		messages[i].msg_hdr.msg_iovlen = 1;
	}
	n = recvmmsg(wire->fd, messages, BATCH, MSG_DONTWAIT, NULL);
	for (int i = 0; i < n; i++) {
		(void)rte_pktmbuf_append(wire->ready[i], (uint16_t)messages[i].msg_len);
		receive_frame(wire, wire->ready[i]);
	}
	if (n <= 0) {
		return 0;
	}
	wire->ready_count -= (uint32_t)n;
	memmove(wire->ready, wire->ready + n, wire->ready_count * sizeof(wire->ready[0]));
	return (uint32_t)n;
}

// --- to the wire ----------------------------------------------------------------------------

static uint32_t segments_of(const struct rte_mbuf *m, struct iovec *vectors) {
	uint32_t n = 0;

	for (; m != NULL && n < SEGMENTS_MAX; m = m->next) {
		vectors[n++] = (struct iovec){rte_pktmbuf_mtod(m, void *), m->data_len};
	}
	return n;
}

// Retries packets that the socket refuses. (A veth silently drops packets if its queue is full.)
static void send_frames(struct wire *wire, struct rte_mbuf **pkts, uint32_t n) {
	struct iovec vectors[BATCH][SEGMENTS_MAX];
	struct mmsghdr messages[BATCH];
	uint32_t done = 0;

	memset(messages, 0, sizeof(messages));
	for (uint32_t i = 0; i < n; i++) {
		judge_departure(
			wire->judge, rte_pktmbuf_mtod(pkts[i], uint8_t *), pkts[i]->data_len);
		messages[i].msg_hdr.msg_iov = vectors[i];
		messages[i].msg_hdr.msg_iovlen = segments_of(pkts[i], vectors[i]);
	}
	for (unsigned int tries = 0; done < n && tries < 100; tries++) {
		int r = sendmmsg(wire->fd, messages + done, n - done, MSG_DONTWAIT);

		if (r > 0) {
			done += (uint32_t)r;
		} else {
			(void)poll(&(struct pollfd){.fd = wire->fd, .events = POLLOUT}, 1, 1);
		}
	}
	nic_add(&wire->params.state->sent, done);
	nic_add(&wire->params.state->unsent, n - done);
	rte_pktmbuf_free_bulk(pkts, n);
}

// Fills the batch of a queue if it is empty. Returns true if there are new packets.
static bool refill(struct wire *wire, uint16_t queue) {
	struct outgoing *outgoing = &wire->outgoing[queue];

	if (outgoing->first < outgoing->count) {
		return false;
	}
	outgoing->first = 0;
	outgoing->count = rte_ring_sc_dequeue_burst(
		wire->params.tx[queue], (void **)outgoing->packet, BATCH, NULL);
	return outgoing->count > 0;
}

// Fills the batches of all queues. Repeats until a pass over the empty queues finds no new packets.
// Then every packet that was queued before a packet of a batch is in a batch itself.
static void refill_all(struct wire *wire) {
	bool more = true;

	while (more) {
		more = false;
		for (uint16_t q = 0; q < wire->params.queues; q++) {
			more = refill(wire, q) || more;
		}
	}
}

static uint64_t place_of(const struct wire *wire, const struct outgoing *outgoing) {
	return *RTE_MBUF_DYNFIELD(
		outgoing->packet[outgoing->first], wire->params.place_offset, uint64_t *);
}

// Takes the packet that was queued before all other waiting packets. Returns NULL if there is none.
static struct rte_mbuf *take_first(struct wire *wire) {
	struct outgoing *best = NULL;

	refill_all(wire);
	for (uint16_t q = 0; q < wire->params.queues; q++) {
		struct outgoing *outgoing = &wire->outgoing[q];

		if (outgoing->first < outgoing->count &&
			(best == NULL || place_of(wire, outgoing) < place_of(wire, best))) {
			best = outgoing;
		}
	}
	return best != NULL ? best->packet[best->first++] : NULL;
}

static uint32_t transmit_in_order(struct wire *wire) {
	struct rte_mbuf *pkts[BATCH];
	uint32_t n = 0;

	while (n < BATCH && (pkts[n] = take_first(wire)) != NULL) {
		n++;
	}
	if (n > 0) {
		send_frames(wire, pkts, n);
	}
	return n;
}

static uint32_t transmit_apart(struct wire *wire, uint64_t pause_us) {
	uint64_t pause = pause_us * rte_get_tsc_hz() / 1000000;
	uint64_t pausing = rte_rdtsc() / pause % wire->params.queues;
	uint32_t moved = 0;

	for (uint16_t q = 0; q < wire->params.queues; q++) {
		struct outgoing *outgoing = &wire->outgoing[q];
		uint32_t n;

		if (q == pausing) {
			continue;
		}
		(void)refill(wire, q);
		n = outgoing->count - outgoing->first;
		if (n > 0) {
			send_frames(wire, outgoing->packet + outgoing->first, n);
			outgoing->first = outgoing->count;
			moved += n;
		}
	}
	return moved;
}

static uint32_t transmit(struct wire *wire) {
	uint64_t apart = __atomic_load_n(&wire->params.state->apart, __ATOMIC_RELAXED);
	uint32_t moved = apart != 0 ? transmit_apart(wire, apart) : transmit_in_order(wire);

	for (uint16_t q = 0; q < wire->params.queues && moved > 0; q++) {
		const struct outgoing *outgoing = &wire->outgoing[q];

		__atomic_store_n(&wire->departed[q],
			wire->params.tx[q]->cons.tail - (outgoing->count - outgoing->first),
			__ATOMIC_RELEASE);
	}
	return moved;
}

uint32_t wire_departed(const struct wire *wire, uint16_t queue) {
	return __atomic_load_n(&wire->departed[queue], __ATOMIC_ACQUIRE);
}

// --- the thread -----------------------------------------------------------------------------

static void show_table(struct wire *wire) {
	for (uint32_t e = 0; e < wire->params.model->entries; e++) {
		__atomic_store_n(&wire->params.state->table[e],
			nic_model_queue(wire->params.model, e), __ATOMIC_RELAXED);
	}
}

static void *run(void *context) {
	const struct timespec idle = {.tv_nsec = IDLE_NS};
	struct wire *wire = context;
	struct nic_state *state = wire->params.state;

	prctl(PR_SET_NAME, "nic-wire");
	prctl(PR_SET_TIMERSLACK, 1000);
	while (!__atomic_load_n(&wire->stop, __ATOMIC_RELAXED)) {
		unsigned int updates =
			__atomic_load_n(&wire->params.model->updates, __ATOMIC_RELAXED);
		uint32_t moved = receive(wire);

		if (updates != state->updates) {
			show_table(wire);
			__atomic_store_n(&state->updates, updates, __ATOMIC_RELAXED);
		}
		moved += transmit(wire);
		if (moved == 0) {
			nanosleep(&idle, NULL);
		}
	}
	rte_pktmbuf_free_bulk(wire->ready, wire->ready_count);
	for (uint16_t q = 0; q < wire->params.queues; q++) {
		struct outgoing *outgoing = &wire->outgoing[q];

		rte_pktmbuf_free_bulk(
			outgoing->packet + outgoing->first, outgoing->count - outgoing->first);
	}
	return NULL;
}

static int open_socket(const char *interface) {
	struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	int on = 1, bytes = SOCKET_BYTES;

	address.sll_ifindex = (int)if_nametoindex(interface);
	if (fd < 0 || address.sll_ifindex == 0 ||
		setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on)) < 0 ||
		setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) < 0 ||
		bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		int error = errno != 0 ? errno : ENODEV;

		if (fd >= 0) {
			close(fd);
		}
		return -error;
	}
	return fd;
}

int wire_start(const struct wire_params *params, struct wire **ret) {
	struct wire *wire = calloc(1, sizeof(*wire));
	int r = -ENOMEM;

	if (wire == NULL) {
		return r;
	}
	wire->params = *params;
	wire->judge = judge_create(params->state);
	if (wire->judge == NULL) {
		goto free_wire;
	}
	wire->fd = open_socket(params->interface);
	if (wire->fd < 0) {
		r = wire->fd;
		goto free_judge;
	}
	show_table(wire);
	r = -pthread_create(&wire->thread, NULL, run, wire);
	if (r < 0) {
		goto close_socket;
	}
	*ret = wire;
	return 0;

close_socket:
	close(wire->fd);
free_judge:
	judge_free(wire->judge);
free_wire:
	free(wire);
	return r;
}

void wire_stop(struct wire *wire) {
	if (wire == NULL) {
		return;
	}
	__atomic_store_n(&wire->stop, true, __ATOMIC_RELAXED);
	pthread_join(wire->thread, NULL);
	close(wire->fd);
	judge_free(wire->judge);
	free(wire);
}
