// SPDX-License-Identifier: BSD-3-Clause
#include "closed_port.h"

#include <errno.h>

#include "reset.h"

// Reply like a host without a listener (RFC 1122, 4.1.3.1; RFC 9293, 3.10.7.1; RFC 4443, 3.1). No
// reply is sent to an RST, to a packet with a wrong checksum, a group MAC address or a VIP as
// (forged) source, or above the rate limit.
static void reject(struct weir_burst *b, unsigned int i) {
	struct weir_descriptor *d = &b->pipeline->descriptors[i];
	struct weir_icmp_limit *limit = &b->pipeline->unreachable_limit;
	bool tcp = d->key.protocol == WEIR_PROTOCOL_TCP;
	int r;

	if (d->event == WEIR_FLOW_EVENT_RST) {
		weir_burst_drop(b, d, WEIR_DROP_CLOSED_PORT);
		return;
	}
	if (!weir_burst_may_reply(b, i, limit, WEIR_DROP_ICMP_RATE)) {
		return;
	}
	if (!tcp && !weir_icmp_l4_checksum_good(b->pkts[i], d)) {
		r = -EBADMSG;
	} else {
		r = tcp ? weir_reset(b->pkts[i], d) : weir_icmp_port_unreachable(b->pkts[i], d);
	}
	if (r < 0) {
		weir_burst_drop(b, d, r == -EBADMSG ? WEIR_DROP_CLOSED_PORT : WEIR_DROP_HEADROOM);
		return;
	}
	weir_burst_count_drop(b, d, WEIR_DROP_CLOSED_PORT);
	weir_burst_reply(b, d, limit);
}

static bool is_drained(const struct weir_burst *b, const struct weir_flow_key *key) {
	return weir_bind_is_drained(weir_service_lookup(b->services, key->destination, key->family,
		key->protocol, rte_be_to_cpu_16(key->destination_port)));
}

void weir_closed_port(struct weir_burst *b, unsigned int i) {
	struct weir_descriptor *d = &b->pipeline->descriptors[i];
	enum weir_closed_ports how =
		weir_service_closed_ports(b->services, d->key.destination, d->key.family);

	// A packet to a drained bind does not go to the kernel: the host has no listener on ports
	// of services, and with AF_XDP the kernel would not receive the packet.
	if (how == WEIR_CLOSED_PORTS_KERNEL && is_drained(b, &d->key)) {
		how = WEIR_CLOSED_PORTS_REJECT;
	}
	switch (how) {
	case WEIR_CLOSED_PORTS_KERNEL:
		weir_burst_to_kernel(b, d);
		break;
	case WEIR_CLOSED_PORTS_DROP:
		weir_burst_drop(b, d, WEIR_DROP_CLOSED_PORT);
		break;
	case WEIR_CLOSED_PORTS_REJECT:
		reject(b, i);
		break;
	}
}
