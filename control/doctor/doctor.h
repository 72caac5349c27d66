// SPDX-License-Identifier: BSD-3-Clause
//
// Doctor: checks the settings of the balancer's machine that Weir needs, and prints the command
// that fixes each problem. Changes nothing. One row per check: the code and the table of
// docs/reference/doctor.md come from it, and a test compares them.
//
// Called by weirctl. Threads: one; blocks, for the time of the probes of backends (echo.h).
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "config.h"
#include "findings.h"
#include "processes.h"

// What a check needs; without it, it is skipped.
enum weir_doctor_need {
	WEIR_DOCTOR_NEEDS_NOTHING,
	WEIR_DOCTOR_NEEDS_FILE, // a valid file
	WEIR_DOCTOR_NEEDS_CONFIG, // that, or else what runs
	WEIR_DOCTOR_NEEDS_SERVICES, // of either
};

// Function, what it needs, name, what it checks. Also on a copy of a machine's files:
#define WEIR_DOCTOR_CHECKS(X) \
	X(config, NOTHING, "config", "the configuration: errors, warnings, and probable mistakes") \
	X(restart, FILE, "restart", \
		"changes that wait for a restart of weir-dataplane, and whether it would start") \
	X(cores, CONFIG, "cores", "CPUs of workers.cores exist") \
	X(isolation, CONFIG, "isolation", \
		"with idle poll: nothing else is scheduled on the workers' CPUs") \
	X(pinned, CONFIG, "pinned-threads", "other processes bound to the workers' CPUs") \
	X(interrupts, CONFIG, "interrupts", \
		"with idle poll: interrupts served by the workers' CPUs") \
	X(smt, CONFIG, "smt", "workers that share a core as SMT siblings") \
	X(governor, CONFIG, "governor", "with idle poll: governor of the CPU frequency") \
	X(clocksource, NOTHING, "clocksource", "clock source of the kernel") \
	X(huge_pages, CONFIG, "huge-pages", \
		"free huge pages against what the configuration needs") \
	X(huge_nodes, CONFIG, "huge-page-nodes", "huge pages on the NUMA nodes of the workers") \
	X(transparent, CONFIG, "transparent-huge-pages", \
		"transparent huge pages while workers poll") \
	X(swap, NOTHING, "swap", "memory of the running processes that is swapped out") \
	X(interface, CONFIG, "interface", "interfaces of the ports exist and are up") \
	X(mtu, CONFIG, "port-mtu", "MTU of the interfaces against ports[].mtu") \
	X(queues, CONFIG, "queues", "AF_XDP: queues of the interface against the workers") \
	X(numa, CONFIG, "numa", "NUMA node of each NIC against those of the workers") \
	X(kernel, CONFIG, "kernel", "kernel support for AF_XDP and the BPF JIT compiler") \
	X(redirects, CONFIG, "redirects", \
		"ICMP redirects and router advertisements that the host accepts") \
	X(neighbour_table, SERVICES, "neighbour-table", \
		"size of the kernel's neighbour table against the backends") \
	X(access, NOTHING, "access", \
		"modes of the run directory, its sockets and the key file, which is valid") \
	X(limits, NOTHING, "limits", "locked memory and open files of the running processes") \
	X(program, NOTHING, "program", \
		"replaced program files and other run directories of running processes") \
	X(watchdog, NOTHING, "watchdog", "the watchdog of systemd")
// On this machine only, because they query the kernel:
#define WEIR_DOCTOR_LIVE_CHECKS(X) \
	X(control, NOTHING, "control", \
		"weir-control responds, has the dataplane, and matches weirctl's version") \
	X(dataplane, NOTHING, "dataplane", \
		"weir-dataplane runs, and none of its workers is stalled") \
	X(services, NOTHING, "services", \
		"each service has a usable backend; no panic mode, no rejected flows") \
	X(health, NOTHING, "health", \
		"backends that are refusing, ejected, lame ducks, drained or in maintenance") \
	X(checks, NOTHING, "checks", "this host can run the health checks of each backend") \
	X(agents, NOTHING, "agents", "weir-control has keys, and each weir-agent answers") \
	X(clock, NOTHING, "clock", "the clock is synchronised") \
	X(offloads, CONFIG, "offloads", "receive offloads that merge packets; checksums of veth") \
	X(vips, SERVICES, "vips", \
		"VIPs are not addresses of this host, and are not routed back to a router") \
	X(rp_filter, SERVICES, "rp-filter", "reverse path filter against replies from the VIPs") \
	X(backends, SERVICES, "backends", "route, neighbour, tunnel, VIP and MTU of each backend")

struct weir_doctor {
	const char *root; // of /proc, /sys and /run: "" = this machine
	const char *config_path;
	const struct weir_config *file; // NULL: it could not be read
	// The file with the values that weir-dataplane runs with; NULL: they are unknown. Without a
	// file, what runs. Set by the caller, and to NULL by weir_doctor_run if it does not run.
	const struct weir_config *runs;
	bool runs_services; // it has the services: from the file, or else from weir-control
	bool candidate; // the file was named: check the values that it would run with
	const struct weir_config *config; // set by weir_doctor_run: runs, or else file
	// Set by weir_doctor_run: the names of the checks that are skipped because there is no
	// valid file.
	char skipped[320];
	const json_t *waiting; // weir-control's answer to "config.waiting"; NULL: none
	const struct weir_config_errors *errors;
	const char *run_dir;
	const char *usual_run_dir; // of a weirctl without the option, started by the same shell
	const json_t *version; // weir-control's answer to "version"; NULL: no answer
	const json_t *status; // as weirctl status; NULL on a copy
	const json_t *backends; // weir-control's answer to "backend.show"; NULL: no answer
	// Its answers to "service.show" and "audit.show"; NULL: no answer.
	const json_t *services, *audit;
	const char *unreachable; // the error
	int error; // negative errno of that
	const char *own_version; // of weirctl
	pid_t dataplane, control; // of this run directory; 0: not running
	struct weir_processes found_dataplane, found_control; // zeroed if the pid was known already
	// Set by the check "restart": weir-dataplane runs, and would not start with the file as it
	// is. No cure restarts it then.
	bool restart_fails;
	struct weir_findings findings;
};

// The cure of a finding about a process of another run directory.
void weir_doctor_cure_elsewhere(struct weir_doctor *doctor, const struct weir_process *process);

// Report the services with drained binds, as notices. Returns whether there are any.
bool weir_doctor_report_drained(struct weir_doctor *doctor);

// Run every check. Sets dataplane, control, config and skipped.
void weir_doctor_run(struct weir_doctor *doctor);

#define X(function, need, name, text) void weir_doctor_check_##function(struct weir_doctor *doctor);
WEIR_DOCTOR_CHECKS(X)
WEIR_DOCTOR_LIVE_CHECKS(X)
#undef X
