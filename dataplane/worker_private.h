// SPDX-License-Identifier: BSD-3-Clause
//
// Worker, private: shared by worker.c, worker_process.c, worker_moves.c and worker_idle.c.
//   worker_process.c a burst: the pipeline, and the actions of its verdicts
//   worker_moves.c    buckets that move to or from this worker (moves.h)
//   worker_idle.c     pauses of a worker without packets
//   worker.c          sources, distribution, iterations, set-up
//
// Threads: only the worker.
#pragma once

#include "packet_capture.h"
#include "probes.h"
#include "segment.h"
#include "worker.h"

// Packets of a burst that go to one device, with pointers to their verdicts, or to one worker.
struct batch {
	uint16_t count;
	struct rte_mbuf *pkts[WEIR_BURST];
	const struct weir_verdict *verdict[WEIR_BURST];
};

// The data that a worker needs to pause when it has no work.
struct weir_idle {
	enum weir_config_idle mode;
	uint32_t turns; // iterations since the last iteration with work
	int epoll; // idle mode `sleep`: descriptor for the events of queues; -1 = none
	bool not_woken; // the worker polls a source that does not wake the worker
	bool armed; // the interrupts of the queues are enabled
	uint16_t interrupts;
	struct {
		uint16_t device; // DPDK's port id
		uint16_t queue;
	} interrupt[WEIR_SOURCES_MAX];
};

// State of the packets to one device that were sent before a part is released.
struct leaving {
	uint64_t put; // total number of packets put into the path before the release
	bool given; // all of these packets were passed to the device
	bool departed; // all of these packets have left the device, according to its driver
	uint64_t until_ns; // time at which the wait for transmission ends
};

struct weir_worker {
	const struct weir_segment *segment;
	struct weir_worker_counters *counters;
	struct weir_pipeline *pipeline;
	// Number of the capture order of control; 0 = no packet is captured.
	const uint64_t *capture_wanted;
	struct weir_packet_capture *capture;
	bool capturing; // packets of the current burst are captured
	struct weir_transmit *transmit;
	const struct weir_port *ports;
	uint32_t ports_count;
	uint32_t index;
	struct weir_idle idle;
	bool stop; // the worker must end its loop; written by another thread
	struct weir_clock clock;
	uint64_t now_ns;
	uint16_t sources;
	uint16_t outlets;
	struct weir_source source[WEIR_SOURCES_MAX];
	struct weir_outlet *outlet[WEIR_DEVICES_MAX * WEIR_WORKERS_MAX];
	struct weir_verdict verdicts[WEIR_BURST];
	struct rte_ring *next; // ring to the next worker; NULL = no packet is offered
	struct weir_moves *moves; // NULL if flows are not in buckets
	struct weir_mover *mover; // NULL if flows are not in buckets
	struct weir_steal_counters *steals;
	// The part that is being released.
	struct {
		bool begun, done;
		uint64_t until_ns; // time after which the move does not wait for stuck devices
		struct leaving leaving[WEIR_DEVICES_MAX];
	} release;
	uint64_t held_until_ns; // time after which held packets do not wait for stuck devices
	// time after which held packets of shifting buckets do not wait for stuck devices
	uint64_t shift_until_ns;
	// 1 + number of packets of the path that a device had sent when a move stopped waiting for
	// the device; 0 = no move has stopped waiting.
	uint64_t given_up[WEIR_DEVICES_MAX];
	struct batch to_device[WEIR_DEVICES_MAX];
	struct batch to_worker[WEIR_WORKERS_MAX];
};

// --- counting -----------------------------------------------------------------------------

// Count received packets that this worker does not pass to its pipeline. The pipeline counts all
// other packets.
static inline void weir_worker_count_received(
	struct weir_worker *worker, uint32_t packets, uint64_t bytes) {
	weir_counter_add(&worker->counters->rx_packets, packets);
	weir_counter_add(&worker->counters->rx_bytes, bytes);
}

// Returns true if packets are being captured.
static inline bool weir_worker_captures(const struct weir_worker *worker) {
	return unlikely(__atomic_load_n(worker->capture_wanted, __ATOMIC_RELAXED) != 0);
}

// Count packets as dropped for this reason. port: ingress port, or WEIR_PROBE_NO_PORT. The caller
// still owns the packets.
static inline void weir_worker_count_dropped(struct weir_worker *worker,
	enum weir_drop_reason reason, struct rte_mbuf *const *pkts, uint32_t packets,
	uint8_t port) {
	for (uint32_t i = 0; i < packets; i++) {
		WEIR_PROBE_DROP((int)reason, port, WEIR_SERVICE_NONE,
			rte_pktmbuf_mtod(pkts[i], const uint8_t *), pkts[i]->pkt_len, NULL);
	}
	weir_counter_add(&worker->counters->dropped, packets);
	weir_counter_add(&worker->counters->drops[reason], packets);
	if (weir_worker_captures(worker)) {
		weir_packet_capture_dropped(
			worker->capture, pkts, packets, port, reason, worker->now_ns);
	}
}

static inline uint64_t weir_worker_bytes(struct rte_mbuf *const *pkts, uint32_t n) {
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < n; i++) {
		bytes += pkts[i]->pkt_len;
	}
	return bytes;
}

static inline void weir_worker_count_sent(
	struct weir_worker *worker, uint32_t packets, uint64_t bytes) {
	weir_counter_add(&worker->counters->tx_packets, packets);
	weir_counter_add(&worker->counters->tx_bytes, bytes);
}

static inline struct weir_path *weir_worker_path(const struct weir_worker *worker, uint8_t device) {
	return &worker->transmit->path[device][worker->index];
}

// --- worker_process.c ---------------------------------------------------------------------------

// Process a burst of n packets, at most WEIR_BURST, that port in_port has received, and send the
// packets. Takes ownership of the packets.
void weir_worker_process(
	struct weir_worker *worker, struct rte_mbuf **pkts, uint16_t n, uint8_t in_port);
// Process a burst of n packets that another worker has offered, and send the packets. Any ports may
// have received the packets. Takes ownership of the packets.
void weir_worker_process_offered(struct weir_worker *worker, struct rte_mbuf **pkts, uint16_t n);

// --- worker_idle.c ------------------------------------------------------------------------------

void weir_idle_init(struct weir_idle *idle, enum weir_config_idle mode);
void weir_idle_fini(struct weir_idle *idle);
// Pauses the worker as its idle mode specifies. Call after an iteration without work.
void weir_idle_pause(struct weir_idle *idle);
void weir_idle_end_slow(struct weir_idle *idle);

// Ends a series of pauses: the next pause is short again. Call after an iteration with work.
static inline void weir_idle_end(struct weir_idle *idle) {
	idle->turns = 0;
	if (unlikely(idle->armed)) {
		weir_idle_end_slow(idle);
	}
}

// --- worker_moves.c -----------------------------------------------------------------------------

// Slow path of weir_worker_hold, for a worker to which a bucket is moving.
uint16_t weir_worker_hold_slow(
	struct weir_worker *worker, struct rte_mbuf **pkts, uint16_t n, uint8_t in_port);

// Hold packets of a bucket that is moving to this worker. pkts: n packets taken from a ring, or
// from this worker's queue. Returns how many packets may be processed now; they are the first
// packets in pkts. Holds the other packets, or drops them if the hold queue is full.
static inline uint16_t weir_worker_hold(
	struct weir_worker *worker, struct rte_mbuf **pkts, uint16_t n, uint8_t in_port) {
	return likely(worker->mover == NULL || !weir_mover_is_taking(worker->mover))
		       ? n
		       : weir_worker_hold_slow(worker, pkts, n, in_port);
}

// Slow path of weir_worker_hold_shift, for a worker to which buckets shift.
uint16_t weir_worker_hold_shift_slow(struct weir_worker *worker,
	const struct weir_distributor *distributor, struct rte_mbuf **pkts, uint16_t n,
	uint8_t in_port);

// Hold packets of buckets that shift to the queue of a distributor. pkts: n packets of this worker,
// received from this queue. Returns how many packets may be processed now; they are the first
// packets in pkts. Holds the other packets, or drops them if the hold queue is full.
static inline uint16_t weir_worker_hold_shift(struct weir_worker *worker,
	const struct weir_distributor *distributor, struct rte_mbuf **pkts, uint16_t n,
	uint8_t in_port) {
	return likely(worker->mover == NULL || !weir_mover_is_shifting(worker->mover))
		       ? n
		       : weir_worker_hold_shift_slow(worker, distributor, pkts, n, in_port);
}

// Answer a request to give a bucket to another worker. The move of the bucket begins if the answer
// is WEIR_BUCKET_CONFIRMED.
enum weir_bucket_answer weir_worker_give(
	struct weir_worker *worker, uint32_t bucket, uint32_t thief, uint64_t deadline_ns);
// Take the request of a distributor, if there is one, and do one step of each move from or to this
// worker and of a shift. Call once per iteration, between bursts.
void weir_worker_move_buckets(struct weir_worker *worker);
