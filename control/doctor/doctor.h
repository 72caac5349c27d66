// SPDX-License-Identifier: BSD-3-Clause
//
// Doctor: checks the settings that Weir needs on the balancer's machine, and reports commands that
// fix problems. Changes no settings. WEIR_DOCTOR_CHECKS and WEIR_DOCTOR_LIVE_CHECKS have a row for
// each check; a test compares the rows with the table of docs/reference/doctor.md.
//
// Called by weirctl. Threads: one. Blocks while backends are probed (echo.h).
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "config.h"
#include "findings.h"
#include "processes.h"

// The input that a check needs. Without this input, the check reports nothing, and
// weir_doctor.skipped lists the check.
enum weir_doctor_need {
	WEIR_DOCTOR_NEEDS_NOTHING,
	WEIR_DOCTOR_NEEDS_FILE, // a valid configuration file
	WEIR_DOCTOR_NEEDS_CONFIG, // a valid file, or the running configuration
	WEIR_DOCTOR_NEEDS_SERVICES, // services of the file or the running configuration
};

// Checks that can also run on a copy of another machine's files (--root). X(FUNCTION, need, name,
// description)
#define WEIR_DOCTOR_CHECKS(X) \
	X(config, NOTHING, "config", "the configuration: errors, warnings, and probable mistakes") \
	X(restart, FILE, "restart", \
		"changes that need a restart of weir-dataplane, and whether weir-dataplane would " \
		"start") \
	X(cores, CONFIG, "cores", "CPUs of workers.cores exist") \
	X(isolation, CONFIG, "isolation", \
		"with idle poll: no other tasks are scheduled on the workers' CPUs") \
	X(pinned, CONFIG, "pinned-threads", "other processes bound to the workers' CPUs") \
	X(interrupts, CONFIG, "interrupts", \
		"with idle poll: interrupts served by the workers' CPUs") \
	X(smt, CONFIG, "smt", "workers that share a core as SMT siblings") \
	X(governor, CONFIG, "governor", "with idle poll: governor of the CPU frequency") \
	X(clocksource, NOTHING, "clocksource", "clock source of the kernel") \
	X(huge_pages, CONFIG, "huge-pages", "enough free huge pages for the configuration") \
	X(huge_nodes, CONFIG, "huge-page-nodes", "huge pages on the NUMA nodes of the workers") \
	X(transparent, CONFIG, "transparent-huge-pages", \
		"with idle poll: the setting of transparent huge pages") \
	X(swap, NOTHING, "swap", "memory of the running processes that is swapped out") \
	X(interface, CONFIG, "interface", "interfaces of the ports exist and are up") \
	X(mtu, CONFIG, "port-mtu", "MTU of each interface is at least ports[].mtu") \
	X(queues, CONFIG, "queues", \
		"AF_XDP: each interface has as many queues as there are workers") \
	X(numa, CONFIG, "numa", "NICs and workers are on the same NUMA node") \
	X(kernel, CONFIG, "kernel", "kernel support for AF_XDP and the BPF JIT compiler") \
	X(redirects, CONFIG, "redirects", \
		"ICMP redirects and router advertisements that the host accepts") \
	X(neighbour_table, SERVICES, "neighbour-table", \
		"the kernel's neighbour table is large enough for the next hops of backends") \
	X(access, NOTHING, "access", \
		"permissions of the run directory, its sockets and the key file; weir-control " \
		"can read the configuration and the key file") \
	X(limits, NOTHING, "limits", "locked memory and open files of the running processes") \
	X(program, NOTHING, "program", \
		"running processes whose program file was replaced, or that use another run " \
		"directory") \
	X(watchdog, NOTHING, "watchdog", "systemd restarts weir-dataplane if a worker stalls")
// Checks that query the kernel, so they run only on this machine. X(FUNCTION, need, name,
// description)
#define WEIR_DOCTOR_LIVE_CHECKS(X) \
	X(control, NOTHING, "control", \
		"weir-control responds, is attached to weir-dataplane, and has the version of " \
		"weirctl") \
	X(dataplane, NOTHING, "dataplane", \
		"weir-dataplane runs, none of its workers is stalled, and the flow table was not " \
		"full in the last minute") \
	X(services, NOTHING, "services", \
		"each service has a usable backend, and enough eligible backends for its " \
		"quorum; no panic mode, no use of backups, no rejected flows") \
	X(health, NOTHING, "health", \
		"backends in the states refusing, ejected, lame-duck, drain or maintenance") \
	X(checks, NOTHING, "checks", \
		"this host can run the health checks of each backend and the configured " \
		"programs; no check waits longer than its interval for a program to start") \
	X(agents, NOTHING, "agents", "weir-control has keys, and each weir-agent answers") \
	X(clock, NOTHING, "clock", "the clock is synchronised") \
	X(offloads, CONFIG, "offloads", \
		"receive offloads that merge packets (LRO, GRO); checksum offload on veth") \
	X(vips, SERVICES, "vips", \
		"VIPs are not addresses of this host, and cause no routing loops or, with " \
		"AF_PACKET, ICMP errors") \
	X(rp_filter, SERVICES, "rp-filter", \
		"reverse path filter (rp_filter) accepts replies from the VIPs, on the " \
		"interfaces of the kernel's routes to their backends") \
	X(backends, SERVICES, "backends", "route, neighbour, tunnel, VIP and MTU of each backend")

struct weir_doctor {
	const char *root; // directory that contains /proc, /sys and /run; "" = this machine
	const char *config_path;
	// config_path is the default and does not exist, and weir-control, which may use another
	// file, did not answer.
	bool path_unknown;
	const struct weir_config *file; // NULL = the file is missing, unreadable or invalid
	// The running configuration: the configuration file, but with the dataplane settings that
	// weir-dataplane uses now. Without a valid file, `runs` has only the dataplane settings,
	// and the services if runs_services is set. NULL = unknown. Set by the caller;
	// weir_doctor_run sets `runs` to NULL if weir-dataplane does not run.
	const struct weir_config *runs;
	bool runs_services; // `runs` contains services, from the file or from weir-control
	bool candidate; // --config was given: the checks use the file if it is valid
	const struct weir_config
		// set by weir_doctor_run: `runs`, or `file` if `runs` is NULL or `candidate` is set
		*config;
	// Set by weir_doctor_run: the names of the checks that are skipped because there is no
	// valid file.
	char skipped[320];
	const json_t *waiting; // reply of weir-control to "config.waiting"; NULL = no reply
	const struct weir_config_errors *errors;
	const char *run_dir;
	const char *usual_run_dir; // run directory of weirctl in this shell without --run-dir
	const json_t *version; // reply of weir-control to "version"; NULL = no reply
	const json_t *status; // result of weirctl status; NULL if root is not ""
	const json_t *backends; // reply of weir-control to "backend.show"; NULL = no reply
	// Replies of weir-control to "service.show" and "audit.show"; NULL = no reply.
	const json_t *services, *audit;
	const char *unreachable; // error of the connection to weir-control, or why it refuses
	int error; // negative errno of `unreachable`; 0 = weir-control refuses
	const char *own_version; // version of weirctl
	pid_t dataplane, control; // processes of this run directory; 0 = not running
	struct weir_processes found_dataplane,
		found_control; // zeroed if the pid is known without a search
	// Set by the check "restart": weir-dataplane runs, but would not start with the current
	// file. If true, commands that restart weir-dataplane are left out.
	bool restart_fails;
	struct weir_findings findings;
};

// Adds the command for a finding about a process that runs with another run directory.
void weir_doctor_cure_elsewhere(struct weir_doctor *doctor, const struct weir_process *process);

// Reports a backend whose route uses an interface that is no port. name: of the backend. address:
// of the backend, as text.
void weir_doctor_report_no_port(
	struct weir_doctor *doctor, const char *name, const char *interface, const char *address);

// Reports services with drained binds as notices. Returns whether there are such services.
bool weir_doctor_report_drained(struct weir_doctor *doctor);

// Run all checks. Sets the members dataplane, control, found_dataplane, found_control, config,
// skipped, restart_fails and findings. Clears `runs` if weir-dataplane does not run, and
// `candidate` if there is no valid file.
void weir_doctor_run(struct weir_doctor *doctor);

#define X(function, need, name, text) void weir_doctor_check_##function(struct weir_doctor *doctor);
WEIR_DOCTOR_CHECKS(X)
WEIR_DOCTOR_LIVE_CHECKS(X)
#undef X
