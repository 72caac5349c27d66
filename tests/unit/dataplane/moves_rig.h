// SPDX-License-Identifier: BSD-3-Clause
//
// Moves rig, for tests that move buckets between workers. It has three workers with real pipelines
// on a bucketed segment, three ports, and the simulated network on both sides. Each port has one
// transmit queue; the outgoing port may have several. Each packet carries its number within its
// flow. The rig checks the order and the backend of the packets that arrive.
#pragma once

#include <pthread.h>

#include "device_lab.h"
#include "distribution.h"
#include "flow_memory.h"
#include "flow_parts.h"
#include "nic_model.h"
#include "pipeline_lab.h"
#include "pipeline_parts.h"
#include "queue_tables.h"
#include "worker.h"

#define WORKERS 3u
#define IN_PORTS 2u // ports 0 and 1 receive packets; packets of service 0 leave by port 2
#define OUT 2u
#define VICTIM 1u // tests without worker threads move buckets away from this worker
#define FLOWS 3000u
#define HOT 24u // number of flows that get most of the packets: 12 on each port
#define UNDER_WAY 600u // maximum number of packets in flight, which must fit in a ring
#define RSS_QUEUES WORKERS
#define RSS_ENTRIES 1024u // entries of port 0's RETA; port 1 has half as many
#define SYN 2
#define ACK 0x10

struct seen {
	uint32_t sent, received; // number of packets
	uint16_t backend; // 1 + id of the backend; 0 = no packet received yet
};

struct rig {
	struct lab *lab; // the lab has no pipeline
	struct weir_plan plan;
	struct weir_buffers buffers;
	uint16_t out_queues; // queues of port OUT; queue 0 belongs to worker 2, queue 1 to worker 0
	struct ring_device ring[LAB_PORTS];
	struct weir_device device[LAB_PORTS];
	struct weir_port port[LAB_PORTS];
	struct weir_transmit *transmit;
	struct weir_distribution distribution;
	struct weir_flow_memory *memory;
	struct weir_flow_parcel *parcel[WORKERS];
	struct weir_pipeline *pipeline[WORKERS];
	struct weir_worker *worker[WORKERS];
	pthread_t thread[WORKERS];
	struct seen flow[FLOWS];
	uint64_t sent, received;
	uint64_t random, sequence;
	uint64_t answers[WEIR_BUCKET_ANSWER_COUNT];
	// How the devices of receiving ports distribute packets.
	bool rss;
	struct weir_rss_key key;
	struct weir_spreading spreading;
	struct nic_model nic[IN_PORTS];
	struct weir_config config;
	struct weir_config_port config_port[LAB_PORTS]; // ports of `config`
	struct weir_log log;
	struct weir_queue_tables *tables;
	pthread_t main;
	bool stop_main; // relaxed
};

uint64_t moves_rig_next_random(struct rig *rig);
uint64_t moves_rig_clock_ns(void);

// Make a rig whose workers run in threads. number: part of the device names, different for each
// rig.
struct rig *moves_rig_make(unsigned int number);
// Workers do not run as threads: the test runs their iterations.
struct rig *moves_rig_make_still(unsigned int number);
// queues: transmit queues of port OUT
struct rig *moves_rig_make_queues(unsigned int number, uint16_t queues);
// Ports 0 and 1 are models of NICs with a queue for each worker. Workers do not run as threads.
struct rig *moves_rig_make_rss(unsigned int number);
void moves_rig_start(struct rig *rig); // starts the workers, in threads
// Start the main thread of a dataplane, which updates the redirection tables (RETA) of the devices
// as soon as buckets have moved. Stop it before the workers.
void moves_rig_start_main(struct rig *rig);
void moves_rig_stop_main(struct rig *rig);
void moves_rig_stop(struct rig *rig); // stops the workers
void moves_rig_unmake(struct rig *rig); // checks that no packet buffer is left
void moves_rig_set_stealing(struct rig *rig, enum weir_stealing stealing);

// Send the next packet of a flow on the flow's port. The TCP sequence number is the packet's number
// within the flow.
void moves_rig_send_packet(struct rig *rig, uint32_t flow);
// Receive and check the packets that have arrived.
void moves_rig_receive_all(struct rig *rig);
// Receive and check at most n packets from one queue of port OUT.
void moves_rig_receive(struct rig *rig, uint16_t queue, uint32_t n);
// Send a few more packets, mostly of hot flows.
void moves_rig_pump(struct rig *rig);
// Wait until all sent packets have arrived.
void moves_rig_settle(struct rig *rig);
// Send two packets of each flow.
void moves_rig_begin_flows(struct rig *rig);

// Act as control. moves_rig_ask requests a bucket from a worker, moves_rig_answered polls for the
// answer, and moves_rig_answer_of waits for the answer.
void moves_rig_ask(
	struct rig *rig, uint32_t victim, uint32_t bucket, uint32_t thief, uint64_t deadline_ns);
bool moves_rig_answered(struct rig *rig, uint32_t victim, enum weir_bucket_answer *ret);
enum weir_bucket_answer moves_rig_answer_of(struct rig *rig, uint32_t victim);

// For workers without threads: run this many iterations of each worker.
void moves_rig_turn_all(struct rig *rig, unsigned int turns);
// For workers without threads: find the first flow on port 0 whose bucket belongs to VICTIM, among
// the flows with numbers from `first`, and start it. Returns the number of the flow.
uint32_t moves_rig_begin_from(struct rig *rig, uint32_t first, uint32_t *ret_bucket);

// Check that each worker's gauges are consistent, and that the sums of all workers agree with the
// existing flows. To be called when no packet is in flight.
void moves_rig_check_gauges(const struct rig *rig);
// Check that no packet was dropped or counted twice, and that no flow started a second time.
void moves_rig_check_packets(const struct rig *rig);
// Check that segment, pipelines and distributors agree on the owner of each bucket.
void moves_rig_check_owners(const struct rig *rig);
