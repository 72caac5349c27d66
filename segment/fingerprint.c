// SPDX-License-Identifier: BSD-3-Clause
//
// The list of all fields and enumerations of the layout. A unit test compares this list with the
// declarations, to find missing entries.
#include "fingerprint.h"

#include <stddef.h>

#include "capture_layout.h"
#include "flow_state.h"
#include "layout.h"
#include "mailbox.h"

struct fact {
	const char *name;
	uint64_t value; // for a field: offset and size
};

#define FIELD(type, field) \
	{#type "." #field, (uint64_t)offsetof(struct type, field) << 32 | \
				   sizeof(((const struct type *)NULL)->field)},
#define TYPE(type) {#type, sizeof(struct type)},
#define VALUE(name) {#name, (uint64_t)(name)},

// clang-format off
static const struct fact facts[] = {
	// Limits and special values.
	VALUE(WEIR_WORKERS_MAX) VALUE(WEIR_PORTS_MAX) VALUE(WEIR_SERVICES_MAX)
	VALUE(WEIR_BACKENDS_MAX) VALUE(WEIR_BACKEND_NONE) VALUE(WEIR_SERVICE_NONE)
	VALUE(WEIR_NAME_BYTES) VALUE(WEIR_TABLE_SLOTS_MAX) VALUE(WEIR_OUTER_HEADER_BYTES)
	VALUE(WEIR_OUTER_IPV4_BYTES) VALUE(WEIR_OUTER_IPV6_BYTES)
	VALUE(WEIR_SOURCE_BITS_MAX) VALUE(WEIR_BIND_DRAINED) VALUE(WEIR_BIND_ENDED)
	VALUE(WEIR_BIND_REMOVED)
	VALUE(WEIR_IDENTITY_USED) VALUE(WEIR_POLICY_UNSET) VALUE(WEIR_WEIGHT_UNSET)
	VALUE(WEIR_PORT_XSTATS) VALUE(WEIR_UPDATES) VALUE(WEIR_SAMPLES) VALUE(WEIR_MAILBOX_MESSAGES)
	VALUE(WEIR_SAMPLE_TICK_NS)
	VALUE(WEIR_MESSAGE_BYTES) VALUE(WEIR_DROP_REASON_SLOTS)
	VALUE(WEIR_BUCKETS) VALUE(WEIR_BUCKET_ANSWER_SLOTS)
	VALUE(WEIR_CAPTURE_RING_BYTES) VALUE(WEIR_CAPTURE_NONE) VALUE(WEIR_CAPTURE_NO_BUCKET)
	VALUE(WEIR_FLOW_PAGES) VALUE(WEIR_FLOW_PAGE_FLOWS) VALUE(WEIR_LIST_LINES)
	VALUE(WEIR_SOURCE_LINE) VALUE(WEIR_SOURCE_PAGE)
	VALUE(WEIR_NEEDS_SLOTS) VALUE(WEIR_NEEDS_ROUNDS) VALUE(WEIR_NEEDS_ERRORS)
	VALUE(WEIR_POLICY_PART_ONE) VALUE(WEIR_POLICY_TURNS_ONE)
	VALUE(WEIR_NEEDS_COST) VALUE(WEIR_NEEDS_PROBES) VALUE(WEIR_NEEDS_OF_POLICY)
	VALUE(WEIR_NEEDS_TIMES) VALUE(WEIR_NEEDS_RESULTS) VALUE(WEIR_NEEDS_HALF_OPEN)

	// Enumerations.
	VALUE(WEIR_BLOB_SERVICES) VALUE(WEIR_BLOB_SELECTION)
	VALUE(WEIR_BIND_EXACT) VALUE(WEIR_BIND_RANGES) VALUE(WEIR_BIND_ADDRESS)
	VALUE(WEIR_BACKEND_PRESENT) VALUE(WEIR_BACKEND_RESOLVED)
	VALUE(WEIR_BACKEND_CLOSED) VALUE(WEIR_BACKEND_DOWN)
	VALUE(WEIR_BACKEND_REHASH) VALUE(WEIR_BACKEND_RESET) VALUE(WEIR_BACKEND_AT_LIMIT)
	VALUE(WEIR_BACKEND_OUTSIDE)
	VALUE(WEIR_UPDATE_SERVICES) VALUE(WEIR_UPDATE_SELECTION) VALUE(WEIR_UPDATE_ROW)
	VALUE(WEIR_MESSAGE_FLOW_LOOKUP) VALUE(WEIR_MESSAGE_STEAL)
	VALUE(WEIR_DEVICE_LINK_UNKNOWN) VALUE(WEIR_DEVICE_LINK_DOWN) VALUE(WEIR_DEVICE_LINK_UP)
#define X(name, text) {"bucketing " #name, WEIR_BUCKETING_##name},
	WEIR_BUCKETING(X)
#undef X
#define X(name, text) {"stealing " text, WEIR_STEALING_##name},
	WEIR_STEALING(X)
#undef X
#define X(name, key, text) {"bucket answer " key, WEIR_BUCKET_##name},
	WEIR_BUCKET_ANSWERS(X)
#undef X
	VALUE(WEIR_MESSAGE_FLOW_WAITING) VALUE(WEIR_MESSAGE_FLOW_MOVE)
	VALUE(WEIR_MESSAGE_FLOW_LIST) VALUE(WEIR_MESSAGE_FLOW_DELETE)
	VALUE(WEIR_MESSAGE_SOURCE_LOOKUP) VALUE(WEIR_MESSAGE_SOURCE_DELETE)
	VALUE(WEIR_MESSAGE_SOURCE_WALK)
	VALUE(WEIR_SOURCE_ENTRY_NONE) VALUE(WEIR_SOURCE_ENTRY_NO_TABLE)
	VALUE(WEIR_SOURCE_ENTRY_KNOWN) VALUE(WEIR_SOURCE_ENTRY_STALE)
	VALUE(WEIR_WAITING_BACKENDS) VALUE(WEIR_WAITING_LINES)
	VALUE(WEIR_WAITING_FLOWS4) VALUE(WEIR_WAITING_FLOWS6) VALUE(WEIR_WAITED_MS)
#define X(name, key, text) {"move " key, WEIR_MOVE_##name},
	WEIR_MOVE_ANSWERS(X)
#undef X
#define X(name) {"closed ports " #name, WEIR_CLOSED_PORTS_##name},
	WEIR_CLOSED_PORTS(X)
#undef X
#define X(name, key) {"admin " key, WEIR_ADMIN_##name},
	WEIR_ADMIN_STATES(X)
#undef X
#define X(name, key) {"drain " key, WEIR_DRAIN_##name},
	WEIR_DRAIN_PHASES(X)
#undef X
#define X(name, key) {"health " key, WEIR_HEALTH_##name},
	WEIR_HEALTH_STATES(X)
#undef X
#define X(name, key) {"flow " key, WEIR_FLOW_##name},
	WEIR_FLOW_STATES(X)
#undef X
#define X(name, key) {"action " key, WEIR_ACTION_##name},
	WEIR_ACTIONS(X)
#undef X
#define X(name, key) {"choice " key, WEIR_CHOICE_##name},
	WEIR_CHOICES(X)
#undef X
#define X(name, key) {"packet " key, WEIR_PACKET_##name},
	WEIR_PACKET_KINDS(X)
#undef X
#define X(name, key) {"event " key, WEIR_FLOW_EVENT_##name},
	WEIR_FLOW_EVENT_LIST(X)
#undef X
#define X(name, key) {"path " key, WEIR_CAPTURE_PATH_##name},
	WEIR_CAPTURE_PATHS(X)
#undef X
#define X(name, key, text) {"drop " key, WEIR_DROP_##name},
	WEIR_DROP_REASONS(X)
#undef X
#define X(name, key, needs) {"policy " key, (uint64_t)(needs) << 32 | WEIR_POLICY_##name},
	WEIR_POLICIES(X)
#undef X
#define X(name, key) {"exhausted " key, WEIR_EXHAUSTED_##name},
	WEIR_WHEN_EXHAUSTED(X)
#undef X

	// Statistics.
	TYPE(weir_segment_header)
	FIELD(weir_segment_header, magic) FIELD(weir_segment_header, abi)
	FIELD(weir_segment_header, header_bytes) FIELD(weir_segment_header, fingerprint)
	FIELD(weir_segment_header, epoch) FIELD(weir_segment_header, tsc_hz)
	FIELD(weir_segment_header, hash_seed) FIELD(weir_segment_header, dataplane_pid)
	FIELD(weir_segment_header, workers) FIELD(weir_segment_header, ports)
	FIELD(weir_segment_header, max_services) FIELD(weir_segment_header, max_backends)
	FIELD(weir_segment_header, reserved0) FIELD(weir_segment_header, statistics_bytes)
	FIELD(weir_segment_header, quiescence_off) FIELD(weir_segment_header, refusals_off)
	FIELD(weir_segment_header, worker_counters_off)
	FIELD(weir_segment_header, worker_boxes_off)
	FIELD(weir_segment_header, service_counters_off)
	FIELD(weir_segment_header, backend_counters_off)
	FIELD(weir_segment_header, tables_bytes) FIELD(weir_segment_header, news_off)
	FIELD(weir_segment_header, roots_off) FIELD(weir_segment_header, control_boxes_off)
	FIELD(weir_segment_header, identity_services_off)
	FIELD(weir_segment_header, identity_backends_off)
	FIELD(weir_segment_header, service_bases_off)
	FIELD(weir_segment_header, backend_bases_off) FIELD(weir_segment_header, rows_off)
	FIELD(weir_segment_header, costs_off) FIELD(weir_segment_header, heap_off)
	FIELD(weir_segment_header, heap_bytes) FIELD(weir_segment_header, port) FIELD(weir_segment_header, port_counters_off)
	FIELD(weir_segment_header, bucket_packets_off)
	FIELD(weir_segment_header, bucket_owners_off)
	FIELD(weir_segment_header, steal_counters_off)
	FIELD(weir_segment_header, bucketing) FIELD(weir_segment_header, reserved1)
	FIELD(weir_segment_header, flow_pages_off)
	FIELD(weir_segment_header, capture_rings_off)
	FIELD(weir_segment_header, capture_control_off)
	FIELD(weir_segment_header, limit_words_off)
	TYPE(weir_port_info)
	FIELD(weir_port_info, name) FIELD(weir_port_info, kernel_interface)
	FIELD(weir_port_info, kernel_ifindex) FIELD(weir_port_info, mtu)
	FIELD(weir_port_info, vlan) FIELD(weir_port_info, mac) FIELD(weir_port_info, steered)
	FIELD(weir_port_info, reserved)
	TYPE(weir_quiescence) FIELD(weir_quiescence, token)
	TYPE(weir_refusals)
	FIELD(weir_refusals, services) FIELD(weir_refusals, selections) FIELD(weir_refusals, rows)
	FIELD(weir_refusals, refused) FIELD(weir_refusals, change)
	FIELD(weir_refusals, reserved0) FIELD(weir_refusals, ref) FIELD(weir_refusals, reserved)
	TYPE(weir_worker_counters)
#define X(field, unit, metric, text) FIELD(weir_worker_counters, field)
	WEIR_WORKER_FIGURES(X)
#undef X
	FIELD(weir_worker_counters, heartbeat_ns) FIELD(weir_worker_counters, drops)
	FIELD(weir_worker_counters, reserved)
	TYPE(weir_share_counters)
#define X(field, unit, metric, text) FIELD(weir_share_counters, field)
	WEIR_SHARE_FIGURES(X)
#undef X
	FIELD(weir_share_counters, established) FIELD(weir_share_counters, half_open)
	TYPE(weir_port_xstat)
	FIELD(weir_port_xstat, name) FIELD(weir_port_xstat, value)
	TYPE(weir_port_counters)
#define X(field, unit, metric, text) FIELD(weir_port_counters, field)
	WEIR_PORT_COUNTERS(X)
#undef X
	FIELD(weir_port_counters, read_ns) FIELD(weir_port_counters, xstats)
	FIELD(weir_port_counters, link) FIELD(weir_port_counters, reserved)
	FIELD(weir_port_counters, xstat)
	TYPE(weir_bucket_packets) FIELD(weir_bucket_packets, packets)
	TYPE(weir_bucket_owners) FIELD(weir_bucket_owners, owner)
	TYPE(weir_steal_counters)
#define X(field, unit, metric, text) FIELD(weir_steal_counters, field)
	WEIR_STEAL_COUNTERS(X)
#undef X
	FIELD(weir_steal_counters, answers) FIELD(weir_steal_counters, reserved)
	TYPE(weir_listed_flow)
	FIELD(weir_listed_flow, source) FIELD(weir_listed_flow, destination)
	FIELD(weir_listed_flow, source_port) FIELD(weir_listed_flow, destination_port)
	FIELD(weir_listed_flow, idle_ms) FIELD(weir_listed_flow, backend)
	FIELD(weir_listed_flow, family) FIELD(weir_listed_flow, protocol)
	FIELD(weir_listed_flow, state) FIELD(weir_listed_flow, reserved)
	TYPE(weir_limit_word)
	FIELD(weir_limit_word, held) FIELD(weir_limit_word, reserved)
	TYPE(weir_flow_pages) FIELD(weir_flow_pages, flow) FIELD(weir_flow_pages, source)
	TYPE(weir_capture_record)
	FIELD(weir_capture_record, time_ns)
	FIELD(weir_capture_record, number)
	FIELD(weir_capture_record, hash)
	FIELD(weir_capture_record, tables)
	FIELD(weir_capture_record, bytes)
	FIELD(weir_capture_record, length)
	FIELD(weir_capture_record, bucket)
	FIELD(weir_capture_record, saved)
	FIELD(weir_capture_record, service)
	FIELD(weir_capture_record, backend)
	FIELD(weir_capture_record, port)
	FIELD(weir_capture_record, out_port)
	FIELD(weir_capture_record, action)
	FIELD(weir_capture_record, reason)
	FIELD(weir_capture_record, choice)
	FIELD(weir_capture_record, kind)
	FIELD(weir_capture_record, event)
	FIELD(weir_capture_record, path)
	FIELD(weir_capture_record, flow_state)
	FIELD(weir_capture_record, reserved)
	TYPE(weir_capture_ring)
	FIELD(weir_capture_ring, tail) FIELD(weir_capture_ring, number)
	FIELD(weir_capture_ring, lost) FIELD(weir_capture_ring, limited)
	FIELD(weir_capture_ring, data)
	TYPE(weir_sample)
	FIELD(weir_sample, service_ns) FIELD(weir_sample, backend) FIELD(weir_sample, reserved)
	FIELD(weir_sample, end)
	TYPE(weir_sample_ring)
	FIELD(weir_sample_ring, tail) FIELD(weir_sample_ring, lost) FIELD(weir_sample_ring, sample)
	TYPE(weir_ring_position) FIELD(weir_ring_position, head)
	TYPE(weir_mailbox_ring)
	FIELD(weir_mailbox_ring, tail) FIELD(weir_mailbox_ring, message)
	TYPE(weir_worker_box)
	FIELD(weir_worker_box, response) FIELD(weir_worker_box, request)
	FIELD(weir_worker_box, samples)
	TYPE(weir_message)
	FIELD(weir_message, sequence) FIELD(weir_message, kind) FIELD(weir_message, reserved)
	FIELD(weir_message, flow) FIELD(weir_message, bytes)
	FIELD(weir_message, flow.source) FIELD(weir_message, flow.destination)
	FIELD(weir_message, flow.source_port) FIELD(weir_message, flow.destination_port)
	FIELD(weir_message, flow.family) FIELD(weir_message, flow.protocol)
	FIELD(weir_message, flow.found) FIELD(weir_message, flow.state)
	FIELD(weir_message, flow.backend) FIELD(weir_message, flow.chosen)
	FIELD(weir_message, flow.service) FIELD(weir_message, flow.entry)
	FIELD(weir_message, flow.reserved)
	FIELD(weir_message, flow.slot) FIELD(weir_message, flow.idle_ms)
	FIELD(weir_message, flow.hash)
	FIELD(weir_message, steal) FIELD(weir_message, steal.deadline_ns)
	FIELD(weir_message, steal.bucket) FIELD(weir_message, steal.thief)
	FIELD(weir_message, steal.answer) FIELD(weir_message, steal.reserved)
	FIELD(weir_message, waiting) FIELD(weir_message, move)
	FIELD(weir_message, waiting.first) FIELD(weir_message, waiting.last)
	FIELD(weir_message, waiting.idle_ms) FIELD(weir_message, waiting.backend)
	FIELD(weir_message, waiting.answered) FIELD(weir_message, waiting.family)
	FIELD(weir_message, waiting.count) FIELD(weir_message, waiting.waited)
	FIELD(weir_message, waiting.next) FIELD(weir_message, waiting.lines)
	FIELD(weir_message, waiting.flow4) FIELD(weir_message, waiting.flow6)
	FIELD(weir_message, move.source) FIELD(weir_message, move.destination)
	FIELD(weir_message, move.source_port) FIELD(weir_message, move.destination_port)
	FIELD(weir_message, move.family) FIELD(weir_message, move.answer)
	FIELD(weir_message, move.to) FIELD(weir_message, move.stamp)
	FIELD(weir_message, move.reserved) FIELD(weir_message, move.deadline_ns)
	FIELD(weir_message, list)
	FIELD(weir_message, list.first) FIELD(weir_message, list.last)
	FIELD(weir_message, list.backend) FIELD(weir_message, list.service)
	FIELD(weir_message, list.states) FIELD(weir_message, list.family)
	FIELD(weir_message, list.client_bits) FIELD(weir_message, list.protocol)
	FIELD(weir_message, list.client) FIELD(weir_message, list.page)
	FIELD(weir_message, list.end) FIELD(weir_message, list.answered)
	FIELD(weir_message, list.reserved) FIELD(weir_message, list.count)
	FIELD(weir_message, list.next) FIELD(weir_message, list.lines)
	FIELD(weir_message, source) FIELD(weir_message, source.address)
	FIELD(weir_message, source.family) FIELD(weir_message, source.answered)
	FIELD(weir_message, source.found) FIELD(weir_message, source.entry)
	FIELD(weir_message, source.service) FIELD(weir_message, source.backend)
	FIELD(weir_message, source.chosen) FIELD(weir_message, source.proven)
	FIELD(weir_message, source.reserved) FIELD(weir_message, source.left_ms)
	FIELD(weir_message, source.slot) FIELD(weir_message, source.reserved1)
	FIELD(weir_message, source.hash) FIELD(weir_message, walk)
	FIELD(weir_message, walk.first) FIELD(weir_message, walk.last)
	FIELD(weir_message, walk.backend) FIELD(weir_message, walk.service)
	FIELD(weir_message, walk.page) FIELD(weir_message, walk.remove)
	FIELD(weir_message, walk.answered) FIELD(weir_message, walk.reserved)
	FIELD(weir_message, walk.proven) FIELD(weir_message, walk.others)
	FIELD(weir_message, walk.next) FIELD(weir_message, walk.lines)
	TYPE(weir_waiting_flow4) FIELD(weir_waiting_flow4, source)
	FIELD(weir_waiting_flow4, destination) FIELD(weir_waiting_flow4, source_port)
	FIELD(weir_waiting_flow4, destination_port) FIELD(weir_waiting_flow4, stamp)
	TYPE(weir_waiting_flow6) FIELD(weir_waiting_flow6, source)
	FIELD(weir_waiting_flow6, destination) FIELD(weir_waiting_flow6, source_port)
	FIELD(weir_waiting_flow6, destination_port) FIELD(weir_waiting_flow6, stamp)

	// Tables.
	TYPE(weir_news) FIELD(weir_news, updates) FIELD(weir_news, token)
	FIELD(weir_news, stealing) FIELD(weir_news, capture) FIELD(weir_news, reserved)
	TYPE(weir_capture_terms)
	FIELD(weir_capture_terms, number)
	FIELD(weir_capture_terms, interval_ns)
	FIELD(weir_capture_terms, reasons)
	FIELD(weir_capture_terms, snap_bytes)
	FIELD(weir_capture_terms, actions)
	FIELD(weir_capture_terms, service)
	FIELD(weir_capture_terms, backend)
	FIELD(weir_capture_terms, source_port)
	FIELD(weir_capture_terms, destination_port)
	FIELD(weir_capture_terms, protocol)
	FIELD(weir_capture_terms, client_family)
	FIELD(weir_capture_terms, client_bits)
	FIELD(weir_capture_terms, destination_family)
	FIELD(weir_capture_terms, reserved)
	FIELD(weir_capture_terms, client)
	FIELD(weir_capture_terms, destination)
	TYPE(weir_capture_control)
	FIELD(weir_capture_control, version) FIELD(weir_capture_control, deadline_ns)
	FIELD(weir_capture_control, reserved) FIELD(weir_capture_control, terms)
	FIELD(weir_capture_control, read)
	TYPE(weir_notes)
	FIELD(weir_notes, control_pid) FIELD(weir_notes, publications)
	FIELD(weir_notes, generation) FIELD(weir_notes, heap_used) FIELD(weir_notes, service_ids)
	FIELD(weir_notes, backend_ids) FIELD(weir_notes, stealing) FIELD(weir_notes, reserved)
	TYPE(weir_update_log) FIELD(weir_update_log, update)
	TYPE(weir_roots)
	FIELD(weir_roots, services) FIELD(weir_roots, reserved)
	{"weir_roots.selection", offsetof(struct weir_roots, selection)},
	TYPE(weir_control_box)
	FIELD(weir_control_box, request) FIELD(weir_control_box, response)
	FIELD(weir_control_box, samples)
	TYPE(weir_identity_service)
	FIELD(weir_identity_service, state) FIELD(weir_identity_service, policies)
	FIELD(weir_identity_service, error_window_ms) FIELD(weir_identity_service, down_flags)
	FIELD(weir_identity_service, drain_until_ns) FIELD(weir_identity_service, drain)
	FIELD(weir_identity_service, removed_ms) FIELD(weir_identity_service, removal_until_ns)
	FIELD(weir_identity_service, removal) FIELD(weir_identity_service, reserved)
	FIELD(weir_identity_service, name)
	TYPE(weir_identity_backend)
	FIELD(weir_identity_backend, state) FIELD(weir_identity_backend, configured_weight)
	FIELD(weir_identity_backend, runtime_weight) FIELD(weir_identity_backend, reported_weight)
	FIELD(weir_identity_backend, address) FIELD(weir_identity_backend, family)
	FIELD(weir_identity_backend, reserved0) FIELD(weir_identity_backend, service)
	FIELD(weir_identity_backend, reserved1) FIELD(weir_identity_backend, drain_until_ns)
	FIELD(weir_identity_backend, slow_start_ms)
	FIELD(weir_identity_backend, reserved2) FIELD(weir_identity_backend, name)
	TYPE(weir_blob)
	FIELD(weir_blob, generation) FIELD(weir_blob, kind) FIELD(weir_blob, lines)
	TYPE(weir_service_table)
	FIELD(weir_service_table, blob) FIELD(weir_service_table, buckets)
	FIELD(weir_service_table, ranges) FIELD(weir_service_table, buckets_off)
	FIELD(weir_service_table, ranges_off) FIELD(weir_service_table, hash_seed)
	FIELD(weir_service_table, ended) FIELD(weir_service_table, reserved)
	TYPE(weir_bind)
	FIELD(weir_bind, address) FIELD(weir_bind, family) FIELD(weir_bind, protocol)
	FIELD(weir_bind, kind) FIELD(weir_bind, closed) FIELD(weir_bind, port)
	FIELD(weir_bind, service) FIELD(weir_bind, first) FIELD(weir_bind, count)
	TYPE(weir_bind_range)
	FIELD(weir_bind_range, first) FIELD(weir_bind_range, last)
	FIELD(weir_bind_range, service) FIELD(weir_bind_range, reserved)
	TYPE(weir_backend_row)
	FIELD(weir_backend_row, flags) FIELD(weir_backend_row, port)
	FIELD(weir_backend_row, outer_family) FIELD(weir_backend_row, l2_bytes)
	FIELD(weir_backend_row, header_bytes) FIELD(weir_backend_row, source_bits)
	FIELD(weir_backend_row, mtu) FIELD(weir_backend_row, service)
	FIELD(weir_backend_row, checksum_base) FIELD(weir_backend_row, max_active_flows)
	FIELD(weir_backend_row, forwarding) FIELD(weir_backend_row, tail_bytes)
	FIELD(weir_backend_row, inner_at) FIELD(weir_backend_row, udp_at)
	FIELD(weir_backend_row, inner4) FIELD(weir_backend_row, inner6)
	FIELD(weir_backend_row, header)
	TYPE(weir_row_pair)
	FIELD(weir_row_pair, version) FIELD(weir_row_pair, share)
	FIELD(weir_row_pair, reserved0) FIELD(weir_row_pair, reserved) FIELD(weir_row_pair, row)
	TYPE(weir_selection_subset)
	FIELD(weir_selection_subset, candidates) FIELD(weir_selection_subset, slots)
	FIELD(weir_selection_subset, rounds) FIELD(weir_selection_subset, affinity_ms)
	FIELD(weir_selection_subset, candidates_off)
	FIELD(weir_selection_subset, slots_off) FIELD(weir_selection_subset, rounds_off)
	TYPE(weir_selection)
	FIELD(weir_selection, blob) FIELD(weir_selection, service) FIELD(weir_selection, subsets)
	FIELD(weir_selection, others_off) FIELD(weir_selection, settings)
	FIELD(weir_selection, first)
	TYPE(weir_policy_settings)
	FIELD(weir_policy_settings, policy) FIELD(weir_policy_settings, needs)
	FIELD(weir_policy_settings, when_exhausted) FIELD(weir_policy_settings, rounds)
	FIELD(weir_policy_settings, max_active_flows)
	FIELD(weir_policy_settings, error_window_ms) FIELD(weir_policy_settings, sharers)
	FIELD(weir_policy_settings, hash4) FIELD(weir_policy_settings, hash6)
	TYPE(weir_policy_share)
	FIELD(weir_policy_share, part) FIELD(weir_policy_share, turns)
	TYPE(weir_candidate)
	FIELD(weir_candidate, id) FIELD(weir_candidate, stride) FIELD(weir_candidate, weight)
	TYPE(weir_round) FIELD(weir_round, weight) FIELD(weir_round, first)
};
// clang-format on

// Adds a byte to an FNV-1a hash. Returns the new hash.
static uint64_t mix(uint64_t hash, uint8_t byte) {
	return (hash ^ byte) * UINT64_C(0x100000001b3);
}

uint64_t weir_layout_fingerprint(void) {
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++) {
		for (const char *c = facts[i].name; *c != '\0'; c++) {
			hash = mix(hash, (uint8_t)*c);
		}
		for (unsigned int shift = 0; shift < 64; shift += 8) {
			hash = mix(hash, (uint8_t)(facts[i].value >> shift));
		}
	}
	return hash | 1;
}

struct layout {
	uint32_t abi;
	uint32_t header_bytes;
	uint64_t fingerprint;
};

// Previous layouts that control also supports; the last element is 0. This layout may add fields to
// these layouts, but no region, because weir_segment_attach refuses a segment that lacks a region.
// The facts of a previous layout are in tests/unit/segment/layouts/ABI.txt; check_formers.py
// compares them with the facts of this layout. An older dataplane may refuse an added field or
// value. Therefore control checks weir_segment.abi before it uses such a field or value.
static const struct layout formers[] = {{0, 0, 0}};

static const struct layout *find_former(uint32_t abi) {
	const struct layout *former = formers;

	while (former->abi != 0 && former->abi != abi) {
		former++;
	}
	return former;
}

bool weir_layout_served(uint32_t abi, uint64_t fingerprint) {
	if (abi == WEIR_SEGMENT_ABI) {
		return fingerprint == weir_layout_fingerprint();
	}
	return fingerprint != 0 && find_former(abi)->fingerprint == fingerprint;
}

uint32_t weir_layout_header_bytes(uint32_t abi) {
	return abi == WEIR_SEGMENT_ABI ? sizeof(struct weir_segment_header)
				       : find_former(abi)->header_bytes;
}
