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

// Function, name, what it checks. Also on a copy of a machine's files:
#define WEIR_DOCTOR_CHECKS(X) \
	X(config, "config", "the configuration: errors, warnings, and probable mistakes") \
	X(restart, "restart", \
		"changes that wait for a restart of weir-dataplane, and whether it would start") \
	X(cores, "cores", "CPUs of workers.cores exist") \
	X(isolation, "isolation", \
		"with idle poll: nothing else is scheduled on the workers' CPUs") \
	X(pinned, "pinned-threads", "other processes bound to the workers' CPUs") \
	X(interrupts, "interrupts", "with idle poll: interrupts served by the workers' CPUs") \
	X(smt, "smt", "workers that share a core as SMT siblings") \
	X(governor, "governor", "with idle poll: governor of the CPU frequency") \
	X(clocksource, "clocksource", "clock source of the kernel") \
	X(huge_pages, "huge-pages", "free huge pages against what the configuration needs") \
	X(huge_nodes, "huge-page-nodes", "huge pages on the NUMA nodes of the workers") \
	X(transparent, "transparent-huge-pages", "transparent huge pages while workers poll") \
	X(swap, "swap", "memory of the running processes that is swapped out") \
	X(interface, "interface", "interfaces of the ports exist and are up") \
	X(mtu, "port-mtu", "MTU of the interfaces against ports[].mtu") \
	X(queues, "queues", "AF_XDP: queues of the interface against the workers") \
	X(numa, "numa", "NUMA node of each NIC against those of the workers") \
	X(kernel, "kernel", "kernel support for AF_XDP and the BPF JIT compiler") \
	X(redirects, "redirects", \
		"ICMP redirects and router advertisements that the host accepts") \
	X(neighbour_table, "neighbour-table", \
		"size of the kernel's neighbour table against the backends") \
	X(access, "access", \
		"modes of the run directory, its sockets and the key file, which is valid") \
	X(limits, "limits", "locked memory and open files of the running processes") \
	X(program, "program", \
		"replaced program files and other run directories of running processes") \
	X(watchdog, "watchdog", "the watchdog of systemd")
// On this machine only, because they query the kernel:
#define WEIR_DOCTOR_LIVE_CHECKS(X) \
	X(control, "control", \
		"weir-control responds, has the dataplane, and matches weirctl's version") \
	X(dataplane, "dataplane", "weir-dataplane runs, and none of its workers is stalled") \
	X(services, "services", \
		"each service has a usable backend; no panic mode, no rejected flows") \
	X(health, "health", \
		"backends that are refusing, ejected, lame ducks, drained or in maintenance") \
	X(checks, "checks", "this host can run the health checks of each backend") \
	X(agents, "agents", "weir-control has keys, and each weir-agent answers") \
	X(clock, "clock", "the clock is synchronised") \
	X(offloads, "offloads", "receive offloads that merge packets; checksums of veth") \
	X(vips, "vips", \
		"VIPs are not addresses of this host, and are not routed back to a router") \
	X(rp_filter, "rp-filter", "reverse path filter against replies from the VIPs") \
	X(backends, "backends", "route, neighbour, tunnel, VIP and MTU of each backend")

struct weir_doctor {
	const char *root; // of /proc, /sys and /run: "" = this machine
	const char *config_path;
	const struct weir_config *file; // NULL: it could not be read
	// The file with the values that weir-dataplane runs with; NULL: they are unknown. Set by
	// the caller, and to NULL by weir_doctor_run if it does not run.
	const struct weir_config *runs;
	bool candidate; // the file was named: check the values that it would run with
	const struct weir_config *config; // set by weir_doctor_run: runs, or else file
	const json_t *waiting; // weir-control's answer to "config.waiting"; NULL: none
	const struct weir_config_errors *errors;
	const char *run_dir;
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

// Run every check. Sets dataplane, control and config.
void weir_doctor_run(struct weir_doctor *doctor);

#define X(function, name, text) void weir_doctor_check_##function(struct weir_doctor *doctor);
WEIR_DOCTOR_CHECKS(X)
WEIR_DOCTOR_LIVE_CHECKS(X)
#undef X
