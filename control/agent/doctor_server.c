// SPDX-License-Identifier: BSD-3-Clause
//
// Checks the server on the backend, and the running weir-agent.
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent_keys.h"
#include "agent_message.h"
#include "doctor_checks.h"
#include "duration.h"
#include "listeners.h"
#include "local_socket.h"
#include "plural.h"
#include "processes.h"
#include "saved_state.h"
#include "status.h"
#include "tree.h"
#include "watched_ports.h"

#define ACCEPT_QUEUE_LEAST 512
#define SYN_QUEUE_LEAST 1024
// The file must belong to the group of weir-agent run, because weir-agent reads the file again
// after it has dropped root privileges.
#define COPY_KEYS "scp BALANCER:/etc/weir/agent.keys %s && chgrp weir %s && chmod 0640 %s"

void weir_agent_doctor_check_keys(struct weir_agent_doctor *doctor) {
	const char *file = doctor->options->key_file;
	struct weir_agent_keys keys = {0};
	char why[256] = "";
	int r = weir_agent_crypto_start();

	r = r ? r : weir_agent_keys_read(file, geteuid(), &keys, why, sizeof(why));
	weir_agent_keys_wipe(&keys);
	if (r == 0) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, file, "is valid");
	} else if (r == -ENOENT) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_NOTICE, file,
			"does not exist (needed by weir-agent run only); copy it from the "
			"balancers");
		weir_findings_cure(&doctor->findings, COPY_KEYS, file, file, file);
	} else if (r == -EACCES && geteuid() != 0) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_NOTICE, file,
			"not checked: %s; run as root", strerror(-r));
		weir_findings_cure(
			&doctor->findings, "sudo weir-agent doctor %s", doctor->options->interface);
	} else if (r == -EPERM) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, file, "%s", why);
		weir_findings_cure(&doctor->findings, "chown root %s && chmod 0640 %s", file, file);
	} else {
		weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, file, "%s",
			why[0] ? why : strerror(-r));
		weir_findings_cure(&doctor->findings, COPY_KEYS, file, file, file);
	}
}

// Report a running process `weir-agent run` if it does not respond, if only root can connect to it,
// or if it has another run directory. Returns whether there is such a process.
static bool report_running(struct weir_agent_doctor *doctor) {
	const struct weir_agent_options *options = doctor->options;
	const struct weir_processes found =
		weir_processes_find("", WEIR_PROGRAM_AGENT, options->run_dir);
	struct weir_findings *findings = &doctor->findings;
	char why[320];

	if (found.here != 0 && geteuid() != 0) {
		weir_findings_add(findings, WEIR_FINDING_NOTICE, options->run_dir,
			"weir-agent run (pid %d) is running; only root can connect to it",
			(int)found.here);
		weir_findings_cure(findings, "sudo weir-agent doctor %s --run-dir %s",
			options->interface, options->run_dir);
		return true;
	}
	if (!weir_processes_explain(
		    &found, WEIR_PROGRAM_AGENT, options->run_dir, why, sizeof(why))) {
		return false;
	}
	if (found.here != 0) {
		weir_findings_add(findings, WEIR_FINDING_WARNING, options->run_dir,
			"weir-agent run (pid %d) is running, but does not respond: it is "
			"starting, stopping or hung, or its run directory was replaced",
			(int)found.here);
		weir_findings_cure(findings, "systemctl restart weir-agent");
		return true;
	}
	weir_findings_add(findings, WEIR_FINDING_NOTICE, options->run_dir, "%s", why);
	weir_findings_cure(findings, "weir-agent doctor %s --run-dir %s", options->interface,
		found.elsewhere.run_dir[0] ? found.elsewhere.run_dir : "DIR");
	return true;
}

// Returns whether the reason for this refusal can be that the sender and the agent have different
// keys.
static bool is_of_key(enum weir_agent_refusal refusal) {
	return refusal == WEIR_AGENT_REFUSAL_KEY || refusal == WEIR_AGENT_REFUSAL_MAC;
}

static void cure_keys(struct weir_agent_doctor *doctor) {
	weir_findings_cure(&doctor->findings,
		"sha256sum %s; ssh BALANCER sha256sum /etc/weir/agent.keys # if they differ, copy "
		"the file of the balancers; then reload the file on both hosts: systemctl reload "
		"weir-agent (or SIGHUP), and weirctl config reload on BALANCER",
		doctor->options->key_file);
}

static void report_no_balancer(struct weir_agent_doctor *doctor) {
	struct weir_findings *findings = &doctor->findings;
	char age[WEIR_DURATION_BYTES];
	const uint64_t other_key = weir_status_other_key(doctor->status, age);

	if (other_key == 0) {
		weir_findings_add(findings, WEIR_FINDING_WARNING, "weir-agent run",
			"no balancer probes this agent: \"agent\" is missing in the service, "
			"weir-control has no key file, or a firewall drops UDP");
		weir_findings_cure(findings, "timeout 15 tcpdump -n -c 1 -i %s udp port %u",
			doctor->options->interface, doctor->options->udp_port);
		return;
	}
	weir_findings_add(findings, WEIR_FINDING_WARNING, "weir-agent run",
		"no balancer probes this agent with a key of its key file: %" PRIu64
		" datagram%s with another key, the last %s ago. The key files differ, or a "
		"process has not reloaded its key file after a change",
		other_key, weir_plural(other_key), age);
	cure_keys(doctor);
}

static void report_refusal(
	struct weir_agent_doctor *doctor, enum weir_agent_refusal refusal, uint64_t count) {
	struct weir_findings *findings = &doctor->findings;

	weir_findings_add(findings, WEIR_FINDING_NOTICE, "weir-agent run",
		"refused %" PRIu64 " datagram%s since its start, reason %s: %s", count,
		weir_plural(count), weir_agent_refusal_name(refusal),
		is_of_key(refusal)
			? "the key file of a balancer differed, or the datagrams are forged"
			: weir_agent_refusal_meaning(refusal));
	if (is_of_key(refusal)) {
		cure_keys(doctor);
	} else {
		weir_findings_cure(
			findings, "weir-agent status --run-dir %s", doctor->options->run_dir);
	}
}

// Report the refused datagrams. probed: a balancer probes this agent. If no balancer probes the
// agent because the keys differ, datagrams with another key are left out: report_no_balancer() has
// already reported them.
static void report_refused(struct weir_agent_doctor *doctor, bool probed) {
	const json_t *datagrams = json_object_get(doctor->status, "datagrams");
	const json_t *refused = json_object_get(datagrams, "refused");
	char age[WEIR_DURATION_BYTES];
	const bool explained = !probed && weir_status_other_key(doctor->status, age) > 0;

	for (enum weir_agent_refusal i = 1; i < WEIR_AGENT_REFUSAL_COUNT; i++) {
		const json_t *count = json_object_get(refused, weir_agent_refusal_name(i));

		if (count != NULL && !(explained && is_of_key(i))) {
			report_refusal(doctor, i, (uint64_t)json_integer_value(count));
		}
	}
}

// Returns whether an agent that used this run directory has crashed, or could not start. Without
// permission to read the saved state, returns whether the socket of the agent still exists.
static bool has_died(const char *run_dir) {
	char path[PATH_MAX];
	int left = weir_saved_state_is_left(run_dir);

	snprintf(path, sizeof(path), "%s/%s", run_dir, WEIR_LOCAL_SOCKET);
	return left >= 0 ? left == 1 : access(path, F_OK) == 0;
}

static void report_absent(struct weir_agent_doctor *doctor) {
	const char *run_dir = doctor->options->run_dir;

	if (has_died(run_dir)) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_WARNING, run_dir,
			"the weir-agent with this run directory has crashed, or could not start: "
			"balancers get no load reports or drain notices");
	} else {
		weir_findings_add(&doctor->findings, WEIR_FINDING_NOTICE, run_dir,
			"weir-agent is not responding: balancers get no load reports or drain "
			"notices");
	}
	weir_findings_cure(&doctor->findings, "systemctl enable --now weir-agent");
}

void weir_agent_doctor_check_balancers(struct weir_agent_doctor *doctor) {
	const size_t balancers = json_array_size(json_object_get(doctor->status, "balancers"));
	struct weir_findings *findings = &doctor->findings;

	if (doctor->status == NULL && report_running(doctor)) {
		return;
	}
	if (doctor->status == NULL) {
		report_absent(doctor);
		return;
	}
	if (balancers == 0) {
		report_no_balancer(doctor);
	} else {
		weir_findings_add(findings, WEIR_FINDING_OK, "weir-agent run",
			"balancers that probe this agent: %zu", balancers);
	}
	report_refused(doctor, balancers > 0);
}

void weir_agent_doctor_check_steal(struct weir_agent_doctor *doctor) {
	const json_t *steals = json_object_get(doctor->status, "steals");
	const char *problem = json_string_value(json_object_get(steals, "problem"));

	if (!json_is_true(json_object_get(steals, "allowed"))) {
		return;
	}
	if (problem == NULL) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, "weir-agent run",
			"no errors while removing half-open connections");
		return;
	}
	weir_findings_add(&doctor->findings, WEIR_FINDING_WARNING, "weir-agent run", "%s", problem);
	weir_findings_cure(&doctor->findings, "grep INET_DIAG_DESTROY=y /boot/config-$(uname -r) "
					      "&& systemctl restart weir-agent");
}

// --- ports that the agent watches ------------------------------------------------------------

static void look_at_watched(struct weir_findings *findings, const json_t *port) {
	const char *state = json_string_value(json_object_get(port, "state"));
	json_int_t deaths = json_integer_value(json_object_get(port, "deaths"));
	char subject[32], age[WEIR_DURATION_BYTES];

	snprintf(subject, sizeof(subject), "%s port %u",
		json_string_value(json_object_get(port, "protocol")),
		(unsigned int)json_integer_value(json_object_get(port, "port")));
	weir_duration_text((uint64_t)json_integer_value(json_object_get(port, "for_ms")), age);
	if (state == NULL || strcmp(state, weir_port_state_name(WEIR_PORT_OPEN)) == 0) {
		weir_findings_add(findings, WEIR_FINDING_OK, subject, "watched, listening");
		return;
	}
	if (strcmp(state, weir_port_state_name(WEIR_PORT_CLOSED)) == 0) {
		weir_findings_add(findings, WEIR_FINDING_FAULT, subject,
			"announced as down: no listening socket for %s", age);
	} else if (strcmp(state, weir_port_state_name(WEIR_PORT_HELD)) == 0) {
		weir_findings_add(findings, WEIR_FINDING_WARNING, subject,
			"announced as down: a socket listens again, but the port was closed "
			"%" JSON_INTEGER_FORMAT " time%s, so it is held down",
			deaths, weir_plural(deaths));
	} else {
		weir_findings_add(findings, WEIR_FINDING_WARNING, subject,
			"unknown: no listening socket in the agent's network namespace since the "
			"agent started; a server that stops in another namespace is not announced "
			"as down");
	}
	weir_findings_cure(findings, "ss -ltnup");
}

void weir_agent_doctor_check_ports(struct weir_agent_doctor *doctor) {
	static const char *const names[] = {"tcp_error", "udp_error"};
	const json_t *watch = json_object_get(doctor->status, "watch"), *port;
	const char *problem = json_string_value(json_object_get(watch, "problem"));
	size_t i;

	json_array_foreach (json_object_get(doctor->status, "ports"), i, port) {
		look_at_watched(&doctor->findings, port);
	}
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *error = json_string_value(json_object_get(watch, names[i]));

		if (error != NULL) {
			weir_findings_add(&doctor->findings, WEIR_FINDING_WARNING, "weir-agent run",
				"cannot list %s sockets: %s", i == 0 ? "TCP" : "UDP", error);
			weir_findings_cure(&doctor->findings, "ss -l%cn", i == 0 ? 't' : 'u');
		}
	}
	if (problem != NULL) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_NOTICE, "weir-agent run",
			"cannot monitor listening sockets by events, so a server that stops is "
			"announced as down up to 0.1 s late: %s",
			problem);
	}
}

// --- the server ---------------------------------------------------------------------------

// Report how to increase the limit of the accept queue. The kernel limits the queue to the backlog
// that the server passes to listen(), or to net.core.somaxconn at that time, whichever is smaller.
// somaxconn: the current value.
static void cure_backlog(struct weir_agent_doctor *doctor, uint16_t port, int64_t somaxconn) {
	weir_findings_cure(&doctor->findings,
		"%sss -ltnp sport = :%u # set the backlog of this server to 4096 (nginx: listen %u "
		"backlog=4096; Apache: ListenBacklog 4096; HAProxy: backlog 4096), and restart it",
		somaxconn < 4096 ? "sysctl -w net.core.somaxconn=4096 && " : "", port, port);
}

static void look_at_port(struct weir_agent_doctor *doctor, int fd, uint16_t port) {
	struct weir_listeners_queue queue = {0};
	int64_t most = 4096;
	char subject[32];

	(void)weir_tree_number("", &most, "/proc/sys/net/core/somaxconn");
	snprintf(subject, sizeof(subject), "tcp port %u", port);
	if (weir_listeners_queue(fd, &port, 1, &queue) < 0) {
		return;
	}
	if (queue.sockets == 0) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, subject,
			"no socket listens in this network namespace");
		weir_findings_cure(&doctor->findings, "ss -ltnp");
	} else if (queue.limit < ACCEPT_QUEUE_LEAST) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_WARNING, subject,
			"the accept queue is limited to %u connection%s %s: further connections of "
			"a burst are dropped",
			queue.limit, weir_plural(queue.limit),
			queue.limit >= most ? "by net.core.somaxconn"
					    : "by the server's listen() backlog");
		cure_backlog(doctor, port, most);
	} else {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, subject,
			"accept queue: %u of %u", queue.length, queue.limit);
	}
}

static void look_at_udp_port(struct weir_agent_doctor *doctor, int fd, uint16_t port) {
	uint32_t count = 0;
	char subject[32];

	snprintf(subject, sizeof(subject), "udp port %u", port);
	if (weir_listeners_count(fd, IPPROTO_UDP, &port, 1, &count) < 0) {
		return;
	}
	if (count == 0) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, subject,
			"no socket is bound in this network namespace");
		weir_findings_cure(&doctor->findings, "ss -lunp");
	} else {
		weir_findings_add(
			&doctor->findings, WEIR_FINDING_OK, subject, "bound sockets: %u", count);
	}
}

void weir_agent_doctor_check_listeners(struct weir_agent_doctor *doctor) {
	int fd = weir_socket_diag_open();

	if (fd < 0) {
		return;
	}
	for (uint32_t i = 0; i < doctor->options->port_count; i++) {
		look_at_port(doctor, fd, doctor->options->ports[i]);
	}
	for (uint32_t i = 0; i < doctor->options->port_udp_count; i++) {
		look_at_udp_port(doctor, fd, doctor->options->ports_udp[i]);
	}
	close(fd);
}

void weir_agent_doctor_check_syn_queue(struct weir_agent_doctor *doctor) {
	struct weir_findings *findings = &doctor->findings;
	int64_t cookies = 1, backlog = SYN_QUEUE_LEAST;

	(void)weir_tree_number("", &cookies, "/proc/sys/net/ipv4/tcp_syncookies");
	(void)weir_tree_number("", &backlog, "/proc/sys/net/ipv4/tcp_max_syn_backlog");
	if (cookies == 0) {
		weir_findings_add(findings, WEIR_FINDING_WARNING, "net.ipv4.tcp_syncookies",
			"0 (no SYN cookies): clients cannot connect during a SYN flood");
		weir_findings_cure(findings, "sysctl -w net.ipv4.tcp_syncookies=1");
	}
	if (backlog < SYN_QUEUE_LEAST) {
		weir_findings_add(findings, WEIR_FINDING_NOTICE, "net.ipv4.tcp_max_syn_backlog",
			"%" PRId64
			" half-open connection%s at most: above this limit, SYN cookies are sent",
			backlog, weir_plural((uint64_t)backlog));
		weir_findings_cure(findings, "sysctl -w net.ipv4.tcp_max_syn_backlog=8192");
	}
	if (cookies != 0 && backlog >= SYN_QUEUE_LEAST) {
		weir_findings_add(findings, WEIR_FINDING_OK, "net.ipv4.tcp_max_syn_backlog",
			"%" PRId64 ", tcp_syncookies %" PRId64, backlog, cookies);
	}
}

void weir_agent_doctor_check_btf(struct weir_agent_doctor *doctor) {
	if (weir_tree_has("", "/sys/kernel/btf/vmlinux")) {
		weir_findings_add(
			&doctor->findings, WEIR_FINDING_OK, "/sys/kernel/btf/vmlinux", "present");
	} else {
		weir_findings_add(&doctor->findings, WEIR_FINDING_NOTICE, "/sys/kernel/btf/vmlinux",
			"missing (CONFIG_DEBUG_INFO_BTF): requests, errors and service times are "
			"not measured; the application can report them with ORCA");
	}
}
