// SPDX-License-Identifier: BSD-3-Clause
//
// Packet facts: properties and decisions of the dataplane about a packet that are reported to
// control (capture.h). One list for each set: source of the enumeration and the names in JSON.
// Append only: the order is part of the segment's ABI.
#pragma once

// The action for a packet. X(NAME, "name")
#define WEIR_ACTIONS(X) \
	X(FORWARD, "forward") /* rewritten; send on verdict.port */ \
	X(REPLY, "reply") /* rewritten into an ICMP reply or an RST; send on verdict.port (where \
			     it came from) */ \
	X(KERNEL, "kernel") /* untouched; hand to the kernel of the port it came from */ \
	X(DROP, "drop") /* free; reason in verdict.reason, already counted */ \
	X(OFFER, "offer") /* untouched; hand to the next worker (weir_pipeline_offer_to) */

enum weir_action {
#define X(name, key) WEIR_ACTION_##name,
	WEIR_ACTIONS(X)
#undef X
};

// How the backend of a packet was chosen; for verdicts, never on the fast path. X(NAME, "name")
#define WEIR_CHOICES(X) \
	X(NONE, "none") \
	X(FLOW, "flow") /* that of the flow in the table */ \
	X(NEW, "new") /* new flow, from the selection */ \
	X(UNTRACKED, "untracked") /* from the selection, not entered (table full, or mid-flow) */ \
	X(REPLACED, "replaced") /* its backend was gone, down or took no new flows: another one */

enum weir_choice {
#define X(name, key) WEIR_CHOICE_##name,
	WEIR_CHOICES(X)
#undef X
};

// The kind of a packet, as determined without any table. X(NAME, "name")
#define WEIR_PACKET_KINDS(X) \
	X(FLOW, "flow") /* TCP or UDP, valid: key, hash and event are set */ \
	X(ECHO, "echo") /* ICMP or ICMPv6 echo request */ \
	X(ICMP_ERROR, "icmp-error") /* ICMP or ICMPv6 error message */ \
	X(OTHER, "other") /* no service can own it: for the kernel */ \
	X(SUSPECT, "suspect") /* verdict.reason holds, but only if the destination is a VIP */ \
	X(BROKEN, "broken") /* verdict.reason holds, whatever the destination */ \
	X(FRAGMENT_FIRST, "fragment-first") /* of TCP or UDP: key, hash and event are set */ \
	X(FRAGMENT, "fragment") /* a later one: the key has no ports */ \
	X(OFFERED, "offered") /* a first fragment that has its verdict: the next worker's */

enum weir_packet_kind {
#define X(name, key) WEIR_PACKET_##name,
	WEIR_PACKET_KINDS(X)
#undef X
};

// The event of a packet for its flow. With direct server return (DSR) only the client's half is
// visible, and the states are correct with that half alone:
//   SYN        -> SYN seen (a new flow; also from closing: the client reuses its port)
//   DATA       SYN seen, young -> established; after RST -> established (the RST was not real)
//   ACK        the same without a payload: SYN seen -> young, the rest like DATA
//   FIN        -> closing; further DATA keeps it there and refreshes it (half-closed download)
//   RST        finished, but the flow stays for the timeout of its state: an RST is easily forged
//   DATAGRAM   the second one: UDP seen -> UDP; then it refreshes
// Code that does not check the payload may report DATA for an established flow: only the slow path
// distinguishes the two. X(NAME, "name")
#define WEIR_FLOW_EVENT_LIST(X) \
	X(SYN, "syn") \
	X(DATA, "data") X(FIN, "fin") X(RST, "rst") X(DATAGRAM, "datagram") X(ACK, "ack")

enum weir_flow_event {
#define X(name, key) WEIR_FLOW_EVENT_##name,
	WEIR_FLOW_EVENT_LIST(X)
#undef X
};

// Number of elements of each set. Not enumerators of the sets, because every switch would have to
// handle them.
#define X(name, key) +1
enum {
	WEIR_ACTION_COUNT = 0 WEIR_ACTIONS(X),
	WEIR_CHOICE_COUNT = 0 WEIR_CHOICES(X),
	WEIR_PACKET_KIND_COUNT = 0 WEIR_PACKET_KINDS(X),
	WEIR_FLOW_EVENT_COUNT = 0 WEIR_FLOW_EVENT_LIST(X),
};
#undef X
