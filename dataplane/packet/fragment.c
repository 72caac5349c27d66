// SPDX-License-Identifier: BSD-3-Clause
#include "fragment.h"

#include <errno.h>

#include "ipv6_chain.h"
#include "offer.h"
#include "slow_path.h"

#define IPV4_MF 0x2000
#define IPV4_OFFSET 0x1fff
#define DATAGRAM_UNITS 8192u // maximum length of a datagram, in units of 8 bytes
// Marks an entry that the distributor uses: a flag in the `family` of the entry's key.
#define DISTRIBUTED 0x80

// A fragment as described by its IP header.
struct piece {
	uint32_t id;
	uint32_t offset; // offset in the datagram, in units of 8 bytes
	uint32_t bytes; // bytes of data
	bool last;
};

static struct piece read_ipv4(const uint8_t *ip, uint32_t ip_bytes) {
	uint32_t fragment = rte_be_to_cpu_16(weir_load16(ip + 6));

	return (struct piece){.id = weir_load16(ip + 4),
		.offset = fragment & IPV4_OFFSET,
		.bytes = ip_bytes - (uint32_t)(ip[0] & 0x0f) * 4,
		.last = (fragment & IPV4_MF) == 0};
}

// Does not check the extension headers: parse.c has already checked them.
static struct piece read_ipv6(const uint8_t *ip, uint32_t ip_bytes, uint32_t readable) {
	struct weir_ipv6_chain chain = {.offset = 0};
	const uint8_t *header;
	uint32_t fragment;

	weir_parse_ipv6_chain(ip, readable, &chain);
	header = ip + chain.fragment_offset;
	fragment = rte_be_to_cpu_16(weir_load16(header + 2));
	return (struct piece){.id = weir_load32(header + 4),
		.offset = fragment >> 3,
		.bytes = ip_bytes - chain.fragment_offset - WEIR_FRAGMENT_BYTES,
		.last = (fragment & 1) == 0};
}

static struct piece read_piece(const struct rte_mbuf *m, const struct weir_descriptor *d) {
	const uint8_t *ip = rte_pktmbuf_mtod_offset(m, const uint8_t *, d->l3_offset);
	uint32_t readable = RTE_MIN((uint32_t)m->data_len - d->l3_offset, d->ip_bytes);

	return d->key.family == 4 ? read_ipv4(ip, d->ip_bytes)
				  : read_ipv6(ip, d->ip_bytes, readable);
}

// Returns whether the fragment may be part of a valid datagram. If not, sets *ret_reason. The
// parser has already checked the headers in first fragments. A TCP fragment at offset 1 is not
// valid, because it would overwrite the flags of the first fragment (RFC 3128).
static bool is_sound(const struct weir_descriptor *d, const struct piece *piece,
	enum weir_drop_reason *ret_reason) {
	uint32_t units = (piece->bytes + 7) / 8;

	if (piece->bytes == 0 || (!piece->last && piece->bytes % 8 != 0) ||
		(piece->offset == 1 && d->key.protocol == WEIR_PROTOCOL_TCP)) {
		*ret_reason = WEIR_DROP_FRAGMENT_TINY;
		return false;
	}
	if (piece->offset + units > DATAGRAM_UNITS) {
		*ret_reason = WEIR_DROP_FRAGMENT_OVERLAP;
		return false;
	}
	return true;
}

static struct weir_fragment_part part_of(const struct piece *piece) {
	return (struct weir_fragment_part){.from = (uint16_t)piece->offset,
		.to = (uint16_t)(piece->offset + (piece->bytes + 7) / 8),
		.last = piece->last};
}

static void suspect(struct weir_descriptor *d, enum weir_drop_reason reason) {
	d->kind = WEIR_PACKET_SUSPECT;
	d->verdict.reason = (uint8_t)reason;
}

static enum weir_drop_reason reason_of(int error) {
	return error == -ENOSPC ? WEIR_DROP_FRAGMENT_TABLE : WEIR_DROP_FRAGMENT_OVERLAP;
}

// Returns the drop reason of a later fragment without a first fragment. If the Next Header is an
// extension header, the protocol is unknown.
static enum weir_drop_reason reason_alone(const struct weir_descriptor *d) {
	uint8_t protocol = d->key.protocol;

	return protocol == WEIR_PROTOCOL_TCP || protocol == WEIR_PROTOCOL_UDP ||
			       weir_ipv6_is_extension(protocol)
		       ? WEIR_DROP_FRAGMENT_FIRST_MISSING
		       : WEIR_DROP_FRAGMENT;
}

static bool is_to_vip(const struct weir_services_view *services, const struct weir_descriptor *d) {
	return services->buckets != NULL &&
	       weir_service_is_vip(services, d->key.destination, d->key.family);
}

// --- first fragments ------------------------------------------------------------------------

// Returns whether no worker has a flow of this key, because its service has no UDP flows.
static bool is_alone(const struct weir_burst *b, const struct weir_flow_key *key) {
	return key->protocol == WEIR_PROTOCOL_UDP &&
	       weir_burst_by_datagram(b->pipeline, weir_burst_service(b, key));
}

// Offers a first fragment to the next worker if this worker does not have the flow. Another worker
// may have the flow, because the NIC spreads fragments by addresses only.
static bool offer_first(struct weir_burst *b, unsigned int i) {
	const struct weir_descriptor *d = &b->pipeline->descriptors[i];

	return b->pipeline->offer_workers > 1 && !is_alone(b, &d->key) &&
	       weir_flow_lookup_owned(b->pipeline->flows, &d->key, weir_burst_table_hash(b, d, i),
		       b->now_ns) < 0 &&
	       weir_offer(b, i);
}

static void note_first(
	struct weir_burst *b, unsigned int i, uint32_t id, const struct weir_fragment_part *part) {
	struct weir_descriptor *d = &b->pipeline->descriptors[i];
	struct weir_fragment_entry *entry;
	int r;

	// The distributor passes fragments to the owner of their flow. A worker that is not the
	// owner must not insert the flow.
	if (unlikely(!weir_flow_owns_key(
		    b->pipeline->flows, &d->key, weir_burst_table_hash(b, d, i)))) {
		suspect(d, WEIR_DROP_FRAGMENT_OVERLAP);
		return;
	}
	entry = weir_fragment_enter(b->pipeline->fragments, &d->key, id, b->now_ns);
	r = weir_fragment_cover(entry, part);
	if (r < 0) {
		suspect(d, reason_of(r));
		return;
	}
	d->kind = WEIR_PACKET_FLOW;
	if (offer_first(b, i)) {
		d->kind = WEIR_PACKET_OFFERED;
		entry->fate = WEIR_FRAGMENT_OFFER;
	}
}

void weir_fragment_note(struct weir_burst *b, unsigned int i) {
	struct weir_pipeline *pipeline = b->pipeline;
	struct weir_descriptor *d = &pipeline->descriptors[i];
	struct weir_fragment *fragment = &pipeline->fragment[b->fragment_count];
	bool first = d->kind == WEIR_PACKET_FRAGMENT_FIRST;
	enum weir_drop_reason reason;
	struct piece piece;

	if (!is_to_vip(b->services, d)) {
		d->kind = WEIR_PACKET_OTHER;
		return;
	}
	if (pipeline->fragments == NULL) {
		suspect(d, WEIR_DROP_FRAGMENT);
		return;
	}
	piece = read_piece(b->pkts[i], d);
	if (!is_sound(d, &piece, &reason)) {
		suspect(d, reason_alone(d) == WEIR_DROP_FRAGMENT ? WEIR_DROP_FRAGMENT : reason);
		return;
	}
	*fragment = (struct weir_fragment){
		.id = piece.id, .part = part_of(&piece), .packet = (uint8_t)i, .first = first};
	if (first) {
		note_first(b, i, piece.id, &fragment->part);
		if (d->kind != WEIR_PACKET_FLOW) {
			return;
		}
	} else {
		// The pipeline counts this fragment as a hit without a lookup. Undo this:
		// weir_fragment_finish counts a hit if the fragment has a flow.
		pipeline->pending.flow_hits--;
	}
	b->fragment_count++;
}

// --- later fragments ------------------------------------------------------------------------

// Store the verdict of a first fragment.
static void settle(struct weir_burst *b, const struct weir_fragment *fragment) {
	const struct weir_descriptor *d = &b->pipeline->descriptors[fragment->packet];
	const struct weir_verdict *verdict = &b->verdicts[fragment->packet];
	struct weir_fragment_entry *entry =
		weir_fragment_find(b->pipeline->fragments, &d->key, fragment->id, b->now_ns);

	if (entry == NULL || entry->fate == WEIR_FRAGMENT_DROP) {
		return;
	}
	if (verdict->action == WEIR_ACTION_REPLY && verdict->backend == WEIR_BACKEND_NONE) {
		entry->fate = WEIR_FRAGMENT_DROP; // the port of the datagram is closed
		entry->reason = WEIR_DROP_CLOSED_PORT;
		return;
	}
	switch ((enum weir_action)verdict->action) {
	case WEIR_ACTION_FORWARD:
	case WEIR_ACTION_REPLY: // the first fragment was too big; later fragments may fit
		entry->fate = verdict->choice == WEIR_CHOICE_DATAGRAM ? WEIR_FRAGMENT_DATAGRAM
								      : WEIR_FRAGMENT_FORWARD;
		entry->backend = verdict->backend;
		break;
	case WEIR_ACTION_KERNEL:
		entry->fate = WEIR_FRAGMENT_KERNEL;
		break;
	case WEIR_ACTION_DROP:
		entry->fate = WEIR_FRAGMENT_DROP;
		entry->reason = verdict->reason;
		break;
	case WEIR_ACTION_OFFER: // does not occur: settle is not called for offered fragments
		break;
	}
}

// Forward packet i, a later fragment, to the backend of the first fragment.
static void forward(struct weir_burst *b, const struct weir_fragment_entry *entry, unsigned int i) {
	struct weir_pipeline *pipeline = b->pipeline;
	struct weir_descriptor *d = &pipeline->descriptors[i];
	const bool alone = entry->fate == WEIR_FRAGMENT_DATAGRAM;

	memcpy(&d->key.source_port, &entry->ports, 4); // both ports
	d->hash = weir_parse_hash(&d->key, pipeline->hash_keys.seed);
	d->verdict.backend = entry->backend;
	d->verdict.choice = alone ? WEIR_CHOICE_DATAGRAM : WEIR_CHOICE_FLOW;
	pipeline->pending.flow_hits += !alone;
	weir_slow_path_rewrite(b, i);
}

// Give packet i, a later fragment, the verdict of the first fragment of its datagram.
static void follow(struct weir_burst *b, const struct weir_fragment *fragment, unsigned int i) {
	struct weir_pipeline *pipeline = b->pipeline;
	struct weir_descriptor *d = &pipeline->descriptors[i];
	struct weir_fragment_entry *entry =
		weir_fragment_find(pipeline->fragments, &d->key, fragment->id, b->now_ns);
	int r = entry == NULL ? -ENOENT : weir_fragment_cover(entry, &fragment->part);

	if (r < 0) {
		weir_burst_drop(b, d, r == -ENOENT ? reason_alone(d) : reason_of(r));
		return;
	}
	d->key.protocol = entry->protocol;
	switch ((enum weir_fragment_fate)entry->fate) {
	case WEIR_FRAGMENT_FORWARD:
	case WEIR_FRAGMENT_DATAGRAM:
		forward(b, entry, i);
		break;
	case WEIR_FRAGMENT_KERNEL:
		weir_burst_to_kernel(b, d);
		break;
	case WEIR_FRAGMENT_DROP:
		weir_burst_drop(b, d, (enum weir_drop_reason)entry->reason);
		break;
	case WEIR_FRAGMENT_OFFER:
		if (!weir_offer(b, i)) {
			weir_burst_drop(b, d, WEIR_DROP_FRAGMENT_FIRST_MISSING);
		}
		break;
	case WEIR_FRAGMENT_UNDECIDED: // impossible: first fragments have final verdicts
		weir_burst_drop(b, d, WEIR_DROP_FRAGMENT_FIRST_MISSING);
		break;
	}
}

void weir_fragment_finish(struct weir_burst *b) {
	const struct weir_fragment *fragment = b->pipeline->fragment;

	for (unsigned int k = 0; k < b->fragment_count; k++) {
		if (fragment[k].first) {
			settle(b, &fragment[k]);
		}
	}
	for (unsigned int k = 0; k < b->fragment_count; k++) {
		if (!fragment[k].first) {
			follow(b, &fragment[k], fragment[k].packet);
			weir_burst_report(b, fragment[k].packet);
		}
	}
}

// --- distribution ---------------------------------------------------------------------------

// Finds or makes the distributor's entry of a datagram, and marks the fragment as seen. The
// distributor passes the fragments on, but must also detect when the datagram is complete:
// clients reuse identifications, and the next fragment may belong to a new datagram.
static struct weir_fragment_entry *distributed(struct weir_pipeline *pipeline,
	const struct weir_descriptor *d, const struct piece *piece) {
	struct weir_fragment_part part = part_of(piece);
	struct weir_flow_key key = d->key;
	struct weir_fragment_entry *entry;

	key.family |= DISTRIBUTED;
	entry = d->kind == WEIR_PACKET_FRAGMENT
			? weir_fragment_find(pipeline->fragments, &key, piece->id, pipeline->now_ns)
			: weir_fragment_enter(
				  pipeline->fragments, &key, piece->id, pipeline->now_ns);
	if (entry != NULL) {
		// Ignore errors: the worker that owns the flow detects them.
		(void)weir_fragment_cover(entry, &part);
	}
	return entry;
}

uint64_t weir_fragment_hash(
	struct weir_pipeline *pipeline, const struct rte_mbuf *m, struct weir_descriptor *d) {
	struct weir_fragment_entry *entry = NULL;
	enum weir_drop_reason reason;
	struct piece piece;

	if (pipeline->fragments != NULL && is_to_vip(weir_reader_services(&pipeline->reader), d)) {
		piece = read_piece(m, d);
		if (is_sound(d, &piece, &reason)) {
			entry = distributed(pipeline, d, &piece);
		}
	}
	// A later fragment gets the ports of its first fragment from the entry. A first fragment
	// keeps its own ports, even if an earlier fragment with this identification had other
	// ports.
	if (entry != NULL && d->kind == WEIR_PACKET_FRAGMENT) {
		d->key.protocol = entry->protocol;
		memcpy(&d->key.source_port, &entry->ports, 4);
	}
	return weir_parse_hash(&d->key, pipeline->hash_keys.seed);
}
