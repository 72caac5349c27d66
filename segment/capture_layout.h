// SPDX-License-Identifier: BSD-3-Clause
//
// Layout of the data of captures in the segment, a part of layout.h: the order, which control
// writes (tables), and the rings of records, which workers write (statistics). capture.h
// describes their use.
#pragma once

#include "flow_state.h"
#include "layout.h"
#include "packet_facts.h"

#define WEIR_CAPTURE_RING_BYTES (256u << 10) // power of two, per worker
#define WEIR_CAPTURE_NONE 0xffu // value of a byte of a record: unknown or none
#define WEIR_CAPTURE_NO_BUCKET 0xffffffffu

// The path of a packet through the pipeline. X(NAME, "name")
#define WEIR_CAPTURE_PATHS(X) X(FAST, "fast") X(SLOW, "slow")

enum weir_capture_path {
#define X(name, key) WEIR_CAPTURE_PATH_##name,
	WEIR_CAPTURE_PATHS(X)
#undef X
};

// Which packets to copy, and how many bytes of each. A packet must match all terms that are set.
// IPv4 addresses are in the first 4 bytes.
struct weir_capture_terms { // 80 bytes, [control]
	uint64_t number; // number of the order, never 0
	uint64_t interval_ns; // minimum average time between two records of a worker
	uint64_t reasons; // one bit per enum weir_drop_reason; 0 = any packet, dropped or not
	uint32_t snap_bytes; // maximum number of bytes to copy from a frame
	// One bit per enum weir_action; 0 = all except OFFER, which another worker records
	uint32_t actions;
	uint16_t service; // WEIR_SERVICE_NONE = packets of any or no service
	uint16_t backend; // WEIR_BACKEND_NONE = packets of any or no backend
	uint16_t source_port; // host order; 0 = any
	uint16_t destination_port;
	uint8_t protocol; // TCP, UDP or WEIR_CAPTURE_ICMP; 0 = any
	uint8_t client_family; // family of the source: 4 or 6; 0 = any address
	uint8_t client_bits; // number of bits of client[] that are compared
	uint8_t destination_family; // 4 or 6; 0 = any address
	uint8_t reserved[4];
	uint8_t client[16];
	uint8_t destination[16];
};
_Static_assert(sizeof(struct weir_capture_terms) == 80, "segment ABI");

struct weir_capture_control { // [control]
	uint64_t version; // odd while the terms are written
	uint64_t deadline_ns; // CLOCK_MONOTONIC; workers ignore the order after this time
	uint64_t reserved[2];
	struct weir_capture_terms terms;
	struct weir_ring_position read[WEIR_WORKERS_MAX]; // read position in each ring, bytes
} __attribute__((aligned(64)));
_Static_assert(offsetof(struct weir_capture_control, read) == 128, "segment ABI");

struct weir_capture_record { // 64 bytes, [worker]; the first `saved` bytes of the frame follow
	uint64_t time_ns; // time (CLOCK_MONOTONIC) of the iteration that received the packet
	uint64_t number; // number of the order
	uint64_t hash; // hash of the flow; 0 = unknown
	uint64_t tables; // position in the update log; the worker had applied all earlier changes
	uint32_t bytes; // size of the record with the frame's bytes, a multiple of 8
	uint32_t length; // length of the frame
	uint32_t bucket; // bucket of the flow, or WEIR_CAPTURE_NO_BUCKET
	uint16_t saved;
	uint16_t service; // WEIR_SERVICE_NONE = none
	uint16_t backend; // WEIR_BACKEND_NONE = none
	// Index of the ingress port. In this field and the following fields, WEIR_CAPTURE_NONE =
	// none. `action` and `choice` are never none.
	uint8_t port;
	uint8_t out_port; // index of the egress port
	uint8_t action; // enum weir_action; DROP if the packet could not be sent
	uint8_t reason; // enum weir_drop_reason
	uint8_t choice; // enum weir_choice
	uint8_t kind; // enum weir_packet_kind
	uint8_t event; // enum weir_flow_event
	uint8_t path; // enum weir_capture_path
	uint8_t flow_state; // enum weir_flow_state, after the packet
	uint8_t reserved[5];
};
_Static_assert(sizeof(struct weir_capture_record) == 64, "segment ABI");

struct weir_capture_ring { // [worker]
	uint64_t tail __attribute__((aligned(64))); // total number of bytes written to the ring
	// Number of the order that `lost` and `limited` belong to; 0 = they are being cleared
	uint64_t number;
	uint64_t lost; // records lost because the ring was full
	uint64_t limited; // records omitted because of the rate limit
	uint8_t data[WEIR_CAPTURE_RING_BYTES] __attribute__((aligned(64))); // the records
};
