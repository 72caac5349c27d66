// SPDX-License-Identifier: BSD-3-Clause
//
// Probes: static tracepoints (USDT) for bpftrace, perf and SystemTap. A probe is one nop and a note
// in the program's ELF file until a tracer attaches to it; its arguments are values that the code
// has already computed. docs/guide/operations.md lists the probes, and a test compares the list
// with the programs.
//
// Threads: any. Probes of the packet path fire in workers; each comment below names the process
// or thread.
#pragma once

#include <sys/sdt.h>

// Fires when a flow was inserted into the flow table, or moved to another backend (counted in
// new_flows). [worker] key: struct weir_flow_key.
#define WEIR_PROBE_FLOW_BEGIN(worker, service, backend, key) \
	DTRACE_PROBE4(weir, flow_begin, worker, service, backend, key)

// Fires just before a flow is removed from the flow table, moved away from its backend, or replaced
// by a new flow with the same key. [worker] cause: enum weir_flow_end; entry: the flow's word in
// its line of the flow table (flow_bucket.h); the word and the flow's key are still valid.
#define WEIR_PROBE_FLOW_END(cause, backend, entry) \
	DTRACE_PROBE3(weir, flow_end, cause, backend, entry)

// Fires when a packet was counted as dropped. [worker] reason: enum weir_drop_reason; port:
// index, WEIR_PROBE_NO_PORT = unknown; frame: pointer to the frame's first byte; bytes: the
// frame's length; key: struct weir_flow_key (family 0: the packet was not parsed), or NULL.
#define WEIR_PROBE_DROP(reason, port, service, frame, bytes, key) \
	DTRACE_PROBE6(weir, drop, reason, port, service, frame, bytes, key)
#define WEIR_PROBE_NO_PORT 255

// Fires just before a change is published. [control] number: position in the update log; kind: enum
// weir_update_kind; id: id of the service or backend.
#define WEIR_PROBE_PUBLICATION(number, kind, id) DTRACE_PROBE3(weir, publication, number, kind, id)

// Fires when a worker has applied all changes with a lower number than `number`. [worker]
#define WEIR_PROBE_ADOPTION(worker, number) DTRACE_PROBE2(weir, adoption, worker, number)
