#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Check that limits and times in documents and help texts agree with the source.

usage: check_doc_figures.py SOURCE_ROOT

A row of FIGURES has a document, a sentence from it in which {} stands for a number, and the source
of this number: a file, the name of a constant, and the factor from the constant's unit to the
sentence's unit.
"""
import re
import sys

SECOND = 1e-3  # factor for constants in milliseconds
KIB, MIB = 2 ** -10, 2 ** -20

FIGURES = (
    # control socket
    ("docs/reference/control-api.md", "A request line is limited to {} KiB", "control/daemon/api/api.h",
     "WEIR_API_LINE_BYTES", KIB),
    ("docs/reference/control-api.md", "does not read its reply within {} s", "control/daemon/api/api.h",
     "WEIR_API_ANSWER_MS", SECOND),
    ("docs/reference/control-api.md", "At most {} connections are served", "control/daemon/api/api.h",
     "WEIR_API_CLIENTS", 1),
    ("docs/reference/control-api.md", "even if {} others are busy", "control/daemon/api/api.h",
     "WEIR_API_CLIENTS", 1),
    ("docs/reference/control-api.md", "omitted` | flows beyond {} |", "control/daemon/compare/comparison.h",
     "WEIR_COMPARISON_FLOWS", 1),
    ("docs/reference/control-api.md", "for_ms? ({} to", "control/daemon/compare/comparison.h",
     "WEIR_COMPARISON_MS_LEAST", 1),
    ("docs/reference/control-api.md", "to {}, default 60000)", "control/daemon/compare/comparison.h",
     "WEIR_COMPARISON_MS_MOST", 1),
    ("docs/reference/control-api.md", "for_ms? (100 to 600000, default {})", "control/daemon/api/api_compare.c",
     "FOR_MS", 1),
    ("docs/reference/control-api.md", "a page of the flows in the flow tables, of about {} flows",
     "control/daemon/requests/flow_lists.h", "WEIR_FLOW_LISTS_PAGE", 1),
    ("docs/reference/control-api.md", "or what was found within {} ms", "control/daemon/requests/flow_lists.h",
     "WEIR_FLOW_LISTS_SLICE_MS", 1),
    ("docs/reference/control-api.md", "a worker did not answer within {} ms", "control/daemon/requests/flow_lookup.h",
     "WEIR_LOOKUP_MS", 1),
    ("docs/reference/control-api.md", "an array of the last {} requests", "control/daemon/steal/flow_steals.h",
     "WEIR_FLOW_STEALS_RECENT", 1),
    ("docs/reference/control-api.md", "at most {} changes of state", "control/daemon/backends/changes.h",
     "WEIR_STATES_HISTORY", 1),
    ("docs/reference/control-api.md", "the last {} changes and the last", "control/daemon/process/audit.h",
     "WEIR_AUDIT_CHANGES", 1),
    ("docs/reference/control-api.md", "and the last {} refusals", "control/daemon/process/audit.h",
     "WEIR_AUDIT_REFUSALS", 1),
    ("docs/reference/control-api.md", "as many as fit into {} bytes", "control/daemon/process/audit.h",
     "WEIR_AUDIT_VALUE_BYTES", 1),
    ("docs/reference/control-api.md", "At most {} in all subsets together", "control/daemon/api/api_subset.c",
     "MEMBERS_MAX", 1),
    ("docs/reference/control-api.md", "With more than {} pairs", "control/tables/tables.h",
     "WEIR_SUBSET_PAIRS_MAX", 1),
    ("docs/reference/control-api.md", "{} times the configured interval", "control/daemon/health/health.h",
     "WEIR_HEALTH_FAR_INTERVALS", 1),
    # weirctl
    ("docs/reference/cli.md", "was started: at most {} changes", "control/daemon/backends/changes.h",
     "WEIR_STATES_HISTORY", 1),
    ("control/cli/commands.c", "has at most {} changes", "control/daemon/backends/changes.h",
     "WEIR_STATES_HISTORY", 1),
    ("docs/reference/cli.md", "who was refused: the last {} changes", "control/daemon/process/audit.h",
     "WEIR_AUDIT_CHANGES", 1),
    ("docs/reference/cli.md", "changes and the last {} refusals", "control/daemon/process/audit.h",
     "WEIR_AUDIT_REFUSALS", 1),
    ("control/cli/commands.c", "Shows the last {} changes and", "control/daemon/process/audit.h",
     "WEIR_AUDIT_CHANGES", 1),
    ("control/cli/commands.c", "the last {} refused requests", "control/daemon/process/audit.h",
     "WEIR_AUDIT_REFUSALS", 1),
    ("docs/reference/cli.md", "The last {} requests follow", "control/daemon/steal/flow_steals.h",
     "WEIR_FLOW_STEALS_RECENT", 1),
    ("docs/reference/cli.md", "Of more than {} backends the", "control/cli/waste.c", "SHOWN", 1),
    ("docs/reference/cli.md", "backends the {} most used", "control/cli/waste.c", "SHOWN", 0.5),
    ("docs/reference/cli.md", "or for {} minutes after each call", "control/daemon/backends/probed_agents.c", "REQUEST_MS",
     SECOND / 60),
    ("docs/reference/cli.md", "Of more than {} backends those are shown", "control/cli/compare.c",
     "BACKENDS_SHOWN", 1),
    ("docs/reference/cli.md", "Beyond {} members only the count", "control/daemon/api/api_subset.c",
     "MEMBERS_MAX", 1),
    ("docs/reference/cli.md", "it is omitted beyond {} pairs", "control/tables/tables.h",
     "WEIR_SUBSET_PAIRS_MAX", 1),
    ("docs/reference/cli.md", "a worker did not answer within {} ms", "control/daemon/requests/flow_lookup.h",
     "WEIR_LOOKUP_MS", 1),
    ("docs/reference/cli.md", "so that backends keep {} lines", "control/cli/top_view.c", "BACKEND_LINES",
     3 / 4),
    # captures
    ("docs/reference/control-api.md", "If its client does not read for {} s", "control/daemon/requests/captures.h",
     "WEIR_CAPTURES_UNREAD_MS", SECOND),
    ("docs/reference/control-api.md", "`capture.read` has at most {} packets", "control/daemon/requests/captures.h",
     "WEIR_CAPTURES_PACKETS", 1),
    ("docs/reference/control-api.md", "worker's ring ({} KiB) full", "segment/capture_layout.h",
     "WEIR_CAPTURE_RING_BYTES", KIB),
    ("docs/reference/cli.md", "waits in a ring of {} KiB", "segment/capture_layout.h",
     "WEIR_CAPTURE_RING_BYTES", KIB),
    ("docs/reference/cli.md", "weirctl is suspended for more than {} seconds", "control/daemon/requests/captures.h",
     "WEIR_CAPTURES_UNREAD_MS", SECOND),
    ("docs/reference/cli.md", "A flow without packets is reported after {} seconds", "control/cli/trace.c",
     "SILENT_MS", SECOND),
    ("docs/design/threat-model.md", "copies at most {} bytes of a packet", "segment/capture.h",
     "WEIR_CAPTURE_SNAP_MOST", 1),
    # stealing between backends
    ("docs/reference/policies.md", "No answer within {} ms means no", "control/daemon/steal/flow_steals.h",
     "WEIR_FLOW_STEALS_ANSWER_MS", 1),
    ("docs/reference/policies.md", "Rounds are at least {} ms apart", "control/daemon/steal/round_times.h",
     "WEIR_ROUND_MS", 1),
    ("docs/reference/policies.md", "with at most {} requests, 20 of them", "control/daemon/steal/flow_steals.h",
     "WEIR_FLOW_STEALS_AT_ONCE", 1),
    ("docs/reference/policies.md", "requests, {} of them about one backend", "control/daemon/steal/flow_steals.h",
     "WEIR_FLOW_STEALS_OF_AGENT", 1),
    ("docs/reference/policies.md", "A round relieves up to {} backends", "segment/mailbox.h",
     "WEIR_WAITING_BACKENDS", 1),
    ("docs/reference/policies.md", "of its limit, in the last {} s", "control/daemon/steal/steal_service.c",
     "REPORT_FRESH_MS", SECOND),
    ("docs/reference/policies.md", "which do not reach the server: {} connections of", "control/daemon/steal/steal_costs.h",
     "WEIR_STEAL_QUEUE", 1),
    ("docs/reference/policies.md", "gets no request for a second, then for two, up to {}",
     "control/daemon/steal/steal_service.c", "PAUSES_MOST", 64 / 6),
    ("docs/reference/policies.md", "the first four, each at most every {} minutes",
     "control/daemon/steal/steal_service.c", "REPEAT_LOG_MS", SECOND / 60),
    ("docs/reference/policies.md", "gets no request about them for {} seconds", "control/daemon/steal/refused_places.h",
     "WEIR_REFUSED_PLACE_MS", SECOND),
    ("docs/reference/policies.md", "is passed over for {} s", "control/daemon/steal/steal_service.c", "REFUSED_MS",
     SECOND),
    ("docs/reference/policies.md", "looks at them every {} ms", "control/daemon/steal/round_times.h",
     "WEIR_ROUND_MS", 1),
    ("docs/reference/policies.md", "services times workers are {} or more", "control/daemon/steal/steal_service.c",
     "COUNTERS_MOST", 1),
    ("docs/reference/policies.md", "is relieved when {} evaluations in a row", "policy/stalling.h",
     "WEIR_STALLING_LOOKS", 1),
    ("docs/reference/policies.md", "it has {} half-open flows more than", "policy/stalling.h",
     "WEIR_STALLING_LEAST", 1),
    ("docs/reference/policies.md", "without {} of them at the others", "policy/stalling.h",
     "WEIR_STALLING_LEAST", 1),
    ("docs/reference/policies.md", "flows more than {} times as many", "policy/stalling.h",
     "WEIR_STALLING_TIMES", 1),
    ("docs/reference/policies.md", "no more than {} as many as expected", "policy/stalling.h",
     "WEIR_STALLING_TIMES", 1 / 2),
    # stealing between workers
    ("docs/guide/operations.md", "with more than {} times the mean load", "control/daemon/load/bucket_moves.h",
     "WEIR_BUCKET_TRIGGER", 1),
    ("docs/guide/operations.md", "while all are less than {} % busy", "control/daemon/load/bucket_moves.h",
     "WEIR_BUCKET_SPARE", 100),
    ("docs/guide/operations.md", "requests at most {} buckets in a tenth",
     "control/daemon/load/bucket_moves.h", "WEIR_BUCKET_MOVES", 1),
    ("docs/guide/operations.md", "so at most {} in a second", "control/daemon/load/bucket_moves.h",
     "WEIR_BUCKET_MOVES", 10),
    ("docs/guide/operations.md", "one that has moved alone for {} s", "control/daemon/load/bucket_moves.h",
     "WEIR_BUCKET_REST_S", 1),
    ("docs/guide/operations.md", "again after {} minutes at the earliest",
     "control/daemon/load/bucket_moves.h", "WEIR_BUCKET_REPORT_S", 1 / 60),
    ("docs/design/architecture.md", "or after {} ms when a device is stuck", "dataplane/worker_moves.c",
     "STUCK_NS", 1e-6),
    ("docs/design/architecture.md", "nothing in the last {} turns", "dataplane/port/transmit.h",
     "WEIR_STUCK_TURNS", 1),
    ("docs/design/architecture.md", "the victim waits for another {} µs", "dataplane/worker_moves.c",
     "UNREPORTED_NS", 1e-3),
    ("docs/design/architecture.md", "In all it waits at most {} ms", "dataplane/worker_moves.c",
     "DEPARTURE_NS", 1e-6),
    ("docs/design/architecture.md", "all had one worker, the *owner*, for {} s", "dataplane/queue_tables.h",
     "WEIR_QUEUE_TABLES_SETTLED_NS", 1e-9),
    ("docs/design/architecture.md", "(or has received {} packets", "dataplane/port/distributor.h",
     "WEIR_DISTRIBUTOR_DRAIN", 1),
    ("docs/design/architecture.md", "and the shift is requested again after {} s", "dataplane/queue_tables.h",
     "WEIR_QUEUE_TABLES_RETRY_NS", 1e-9),
    # operations
    ("docs/guide/operations.md", "written {} times within ten seconds", "common/log_limit.h",
     "WEIR_LOG_BURST", 1),
    ("docs/guide/operations.md", "written five times within {} seconds", "common/log_limit.h",
     "WEIR_LOG_WINDOW_MS", SECOND),
    ("docs/guide/operations.md", "all of them strings. At most {} bytes", "common/log_line.h",
     "WEIR_LOG_LINE_BYTES", 1),
    ("docs/guide/operations.md", "again and again is one line in {} seconds", "control/daemon/process/audit.h",
     "WEIR_AUDIT_REPEAT_MS", SECOND),
    ("docs/guide/operations.md", "logged after {} second; the systemd watchdog", "dataplane/watchdog.h",
     "WEIR_WATCHDOG_LIMIT_MS", SECOND),
    ("docs/guide/troubleshooting.md", "More than {} clients per second and worker",
     "dataplane/packet/pipeline_setup.h", "WEIR_RESETS_PER_SECOND", 1),
    ("docs/guide/troubleshooting.md", "a ring has {} packets", "dataplane/port/distributor.h",
     "WEIR_DISTRIBUTOR_RING", 1),
    ("docs/guide/operations.md", "had a packet within the last {} seconds", "dataplane/flow/flow_table.h",
     "WEIR_FLOW_IN_USE_MS", SECOND),
    ("docs/guide/operations.md", "and table {}, which lead", "control/daemon/data_path/data_path_tunnel.h",
     "WEIR_DATA_PATH_TABLE", 1),
    ("docs/guide/operations.md", "ip rule show priority {}", "control/daemon/data_path/data_path_rules.c",
     "PRIORITY", 1),
    ("docs/guide/operations.md", "The VIP map has {} entries", "bpf/steer.h", "WEIR_STEER_VIPS_MAX", 1),
    ("docs/guide/troubleshooting.md", "a map holds {} entries", "bpf/steer.h", "WEIR_STEER_VIPS_MAX", 1),
    ("docs/guide/operations.md", "A range of more than {} ports takes", "bpf/steer.h",
     "WEIR_STEER_WIDE_RANGE", 1),
    ("docs/guide/operations.md", "one of more than {} ports takes few", "bpf/steer.h",
     "WEIR_STEER_SHORT_RANGE", 1),
    # metrics
    ("docs/reference/metrics.md", "A request has at most {} KiB", "control/metrics/server.h",
     "WEIR_SERVER_REQUEST_BYTES", KIB),
    ("docs/reference/metrics.md", "KiB; {} connections are served", "control/metrics/server.h",
     "WEIR_SERVER_CONNECTIONS", 1),
    ("docs/reference/metrics.md", "each for at most {} s", "control/metrics/server.h",
     "WEIR_SERVER_CONNECTION_MS", SECOND),
    ("docs/reference/metrics.md", "may be repeated, up to {}", "control/metrics/metrics_options.h",
     "WEIR_METRICS_HOSTS_MAX", 1),
    ("docs/reference/metrics.md", "Tables have {} services or backends at most", "control/metrics/page/page.js", "ROWS_MAX", 1),
    ("docs/reference/metrics.md", "It polls every {} seconds", "control/metrics/page/page.js", "PERIOD_MS",
     SECOND),
    ("docs/reference/metrics.md", "sample for the plots every {} s", "control/metrics/history.h",
     "WEIR_HISTORY_MS", SECOND),
    ("docs/reference/metrics.md", "in slices of {} backends", "control/daemon/api/api.c", "ROWS_PER_TURN", 1),
    # doctor
    ("docs/reference/doctor.md", "At most {} backends are probed", "control/doctor/check_backends.c",
     "TARGETS_MOST", 1),
    ("docs/reference/doctor.md", "as long as a client's packet of {} bytes", "control/doctor/check_backends.c",
     "CLIENT_BYTES", 1),
    # threat model
    ("docs/design/threat-model.md", "their repetitions, in bursts of {} and", "control/daemon/agents/agents_prober.c",
     "WORDS_AT_ONCE", 1),
    ("docs/design/threat-model.md", "not after its deadline of at most {} s", "control/report/agent_message.h",
     "WEIR_AGENT_STEAL_AHEAD_MS", SECOND),
    ("docs/design/threat-model.md", "that had a packet within the last {} seconds",
     "dataplane/flow/flow_table.h", "WEIR_FLOW_IN_USE_MS", SECOND),
    ("docs/design/threat-model.md", "place is bounded: {} flows are checked",
     "dataplane/flow/flow_insert.c", "MOVES_MAX", 1),
    ("docs/design/threat-model.md", "with at most {} buckets of its table", "segment/mailbox.h",
     "WEIR_LIST_LINES", 1),
    ("docs/design/threat-model.md", "buckets of its table and {} flows", "segment/layout.h",
     "WEIR_FLOW_PAGE_FLOWS", 1),
    ("docs/design/threat-model.md", "with RSS | {} packets per second", "dataplane/packet/offer.h",
     "WEIR_OFFERS_PER_SECOND", 1),
    ("docs/design/threat-model.md", "others get at most {} per second", "dataplane/packet/offer.h",
     "WEIR_OFFERED_PER_SECOND", 1),
    ("docs/design/threat-model.md", "lowers a backend's MTU for {} minutes",
     "control/daemon/network/neighbours.h", "WEIR_NEIGHBOURS_PATH_MTU_MS", SECOND / 60),
    ("docs/design/threat-model.md", "not below {} or 1,280 bytes", "control/daemon/network/path_mtu.h",
     "WEIR_PATH_MTU_MIN4", 1),
    ("docs/design/threat-model.md", "reads at most {} MiB from a server", "control/daemon/health/health_relay.h",
     "WEIR_HEALTH_RECEIVED_MOST", MIB),
)

WORDS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "ten": 10, "twenty": 20,
         "twice": 2}


def read(root, path):
    with open(f"{root}/{path}", encoding="utf-8") as file:
        return file.read()


def constant(source, name):
    """Returns the value of a #define of C or a const of JavaScript: a number, or digits <<
    digits."""
    found = re.search(rf"^(?:#define|const) {name} (?:= )?\(?([\d.]+)u?(?:l*)(?: << (\d+))?\)?(?!\w)",
                      source, re.M)
    return found and float(found[1]) * 2 ** int(found[2] or 0)


def figures_in(document, sentence):
    """Yields the numbers at each occurrence of the sentence in the document."""
    pattern = re.escape(sentence).replace(r"\{\}", r"([\d,]*\d(?:\.\d+)?|[a-z]+)").replace(r"\ ", r"\s+")
    for figure in re.findall(pattern, document):
        yield WORDS.get(figure) or (float(figure.replace(",", "")) if figure[0].isdigit() else None)


def main(root):
    problems = []
    for path, sentence, source, name, unit in FIGURES:
        value = constant(read(root, source), name)
        figures = list(figures_in(read(root, path), sentence))
        if value is None:
            problems.append(f"{source} has no constant {name}")
        elif not figures:
            problems.append(f"{path} does not say \"{sentence}\": mend FIGURES")
        elif any(figure is None or abs(figure - value * unit) > 1e-9 for figure in figures):
            problems.append(f"{path}: \"{sentence}\" with {figures}, but {name} is {value * unit:g}")
    for problem in problems:
        print(problem)
    print(f"{len(FIGURES)} figures, {len(problems)} problems")
    return 1 if problems or len(FIGURES) < 60 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
