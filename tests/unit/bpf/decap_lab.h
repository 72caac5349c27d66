// SPDX-License-Identifier: BSD-3-Clause
//
// Runs decap.bpf.c in the kernel on frames of tunnel packets, for the tests of its forwarding
// modes: checks each resulting frame byte by byte, and which counters of results the program
// increments. Needs CAP_BPF and CAP_NET_ADMIN.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "decap.h"
#include "forwarding_mode.h"
#include "frame.h"

#define OWN4 "10.0.0.11"
#define OWN6 "2001:db8:a::11"
#define BALANCER4 "10.0.0.2"
#define BALANCER6 "2001:db8:a::2"
#define STRANGER4 "10.0.1.2"
#define STRANGER6 "2001:db8:b::2"

enum { NOT_ECT = 0, ECT1 = 1, ECT0 = 2, CE = 3 };
#define PASSED (-1) // the program must neither change nor count the frame

// A case sets only the fields that it needs.
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

struct decap_case {
	const char *name;
	int outer, inner; // outer and inner address family, 4 or 6
	int result; // enum weir_decap_result or PASSED
	enum weir_forwarding_mode mode;
	uint32_t gre_key; // 0 = no key
	int tags;
	uint32_t outer_options, inner_options;
	uint8_t outer_ecn, inner_ecn, expect_ecn;
	bool marked; // whether the frame is also counted as congestion_marked
	const char *source, *destination; // outer addresses; NULL = the balancer, this host
	uint16_t fragment; // outer IPv4 frag_off
	// The following bytes are overwritten after lengths and checksums were computed. Offset -1
	// means byte 0.
	int offset; // byte of the outer IP header
	uint8_t value; // new value of this byte
	int between_offset; // byte of the headers between the IP headers
	uint8_t between_value;
	int inner_offset; // byte of the inner header
	uint8_t inner_value;
	int protocol; // protocol of the outer header; 0 = the correct protocol
	uint32_t padding; // bytes after the packet
	uint32_t cut; // truncate the outer packet to this length; 0 = not truncated
};

struct decap_settings {
	bool check_sources, no_ipip, no_gre;
	uint16_t gue_port; // 0 = not accepted
	uint32_t gre_key; // 0 = any
};

struct decap_lab;

// Load the program. Addresses of this host: OWN4, OWN6. Allowed sources: 10.0.0.0/24, BALANCER6.
// Returns 0, or -1 after a message.
int decap_lab_load(const struct decap_settings *settings, struct decap_lab **ret);
void decap_lab_free(struct decap_lab *lab);

// Build the frame of a case.
void decap_lab_build(struct frame *frame, const struct decap_case *test);
// Returns the verdict (XDP_PASS, ...).
int decap_lab_run(const struct decap_lab *lab, const struct frame *in, struct frame *out);
struct weir_decap_counter decap_lab_counter(const struct decap_lab *lab, uint32_t result);

// Run each case, print those that fail, and assert that there is none.
void decap_lab_check(struct decap_lab *lab, const struct decap_case *cases, size_t count);
#define DECAP_LAB_CHECK(lab, cases) decap_lab_check(lab, cases, sizeof(cases) / sizeof((cases)[0]))
