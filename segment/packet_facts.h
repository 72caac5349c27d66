// SPDX-License-Identifier: BSD-3-Clause
//
// Packet facts: properties of a packet and decisions of the dataplane about it, which are
// reported to control (capture.h). Each set of values has one list, which generates the enumeration
// and the names in JSON. Only append to a list: its order is part of the segment's ABI.
#pragma once

// The action for a packet. X(NAME, "name")
#define WEIR_ACTIONS(X) \
	X(FORWARD, "forward") /* packet rewritten; send on verdict.port */ \
	X(REPLY, "reply") /* rewritten into an ICMP message, RST or ACK; send on verdict.port */ \
	X(KERNEL, "kernel") /* packet unchanged; pass to the ingress port's exception device */ \
	X(DROP, "drop") /* free the packet; reason in verdict.reason, already counted */ \
	X(OFFER, "offer") /* packet unchanged; hand to the next worker (weir_pipeline_offer_to) */

enum weir_action {
#define X(name, key) WEIR_ACTION_##name,
	WEIR_ACTIONS(X)
#undef X
};

// How the backend of a packet was chosen. The choice is part of verdicts; the fast path does not
// use it. X(NAME, "name")
#define WEIR_CHOICES(X) \
	X(NONE, "none") \
	X(FLOW, "flow") /* backend of the flow in the flow table */ \
	X(NEW, "new") /* new flow: backend from the selection */ \
	X(UNTRACKED, "untracked") /* like NEW, flow not inserted (table full, or mid-flow) */ \
	X(REPLACED, "replaced") /* replacement of a backend that is removed, down or closed */ \
	X(DATAGRAM, "datagram") /* datagram of a service without UDP flows: from the selection */

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
	X(OTHER, "other") /* packet that cannot belong to a service: for the kernel */ \
	X(SUSPECT, "suspect") /* dropped for verdict.reason if the destination is a VIP */ \
	X(BROKEN, "broken") /* dropped for verdict.reason, for any destination */ \
	X(FRAGMENT_FIRST, "fragment-first") /* first fragment of TCP or UDP: fields as for FLOW */ \
	X(FRAGMENT, "fragment") /* later fragment: the key has no ports */ \
	X(OFFERED, "offered") /* first fragment that already has a verdict: for the next worker */

enum weir_packet_kind {
#define X(name, key) WEIR_PACKET_##name,
	WEIR_PACKET_KINDS(X)
#undef X
};

// The event that a packet causes in its flow. With direct server return (DSR) only the client's
// packets are visible; the flow states do not need other packets:
//   SYN        -> SYN seen (a new flow; also from closing and after RST: the client reuses its
//              port)
//   DATA       SYN seen, young -> established; after RST -> established (the RST was forged)
//   ACK        packet without a payload: SYN seen -> young, also if an RST came before; other
//              states as for DATA
//   FIN        -> closing; further DATA refreshes the closing flow (half-closed download)
//   RST        finished, but the flow stays for the timeout of its state: an RST is easily forged
//   DATAGRAM   second datagram: UDP seen -> UDP; further datagrams refresh the flow
// Only the slow path distinguishes DATA and ACK. Code that does not check the payload can report
// DATA for an ACK of an established flow. X(NAME, "name")
#define WEIR_FLOW_EVENT_LIST(X) \
	X(SYN, "syn") \
	X(DATA, "data") X(FIN, "fin") X(RST, "rst") X(DATAGRAM, "datagram") X(ACK, "ack")

enum weir_flow_event {
#define X(name, key) WEIR_FLOW_EVENT_##name,
	WEIR_FLOW_EVENT_LIST(X)
#undef X
};

// Number of elements of each set. These numbers are not enumerators of the sets, because every
// switch over a set would then have to handle its number.
#define X(name, key) +1
enum {
	WEIR_ACTION_COUNT = 0 WEIR_ACTIONS(X),
	WEIR_CHOICE_COUNT = 0 WEIR_CHOICES(X),
	WEIR_PACKET_KIND_COUNT = 0 WEIR_PACKET_KINDS(X),
	WEIR_FLOW_EVENT_COUNT = 0 WEIR_FLOW_EVENT_LIST(X),
};
#undef X
