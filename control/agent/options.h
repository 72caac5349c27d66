// SPDX-License-Identifier: BSD-3-Clause
//
// Command line of weir-agent. Prints nothing, never exits.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent_message.h"
#include "config.h"
#include "cpu_usage.h"
#include "forwarding_mode.h"
#include "log.h"
#include "named_services.h"

#define WEIR_AGENT_LIST_MAX 64
#define WEIR_AGENT_PORTS_MAX 64
#define WEIR_AGENT_KEY_FILE "/etc/weir/agent.keys"

enum weir_agent_command {
	WEIR_AGENT_DECAP,
	WEIR_AGENT_STATS,
	WEIR_AGENT_RUN,
	WEIR_AGENT_LAME_DUCK,
	WEIR_AGENT_READY,
	WEIR_AGENT_ANNOUNCE,
	WEIR_AGENT_EXEC,
	WEIR_AGENT_STATUS,
	WEIR_AGENT_KEY,
	WEIR_AGENT_DOCTOR,
	WEIR_AGENT_CAPACITY,
};
enum weir_agent_mode { WEIR_AGENT_MODE_ANY, WEIR_AGENT_MODE_NATIVE, WEIR_AGENT_MODE_SKB };

struct weir_prefix {
	struct weir_address address; // bits beyond the prefix are 0
	uint32_t bits;
};

struct weir_agent_options { // strings point into argv
	enum weir_agent_command command;
	const char *interface;
	// outer destinations; empty: the addresses of the interface
	struct weir_address addresses[WEIR_AGENT_LIST_MAX];
	uint32_t address_count;
	struct weir_prefix sources[WEIR_AGENT_LIST_MAX]; // outer sources; empty: any source
	uint32_t source_count;
	struct weir_address vips[WEIR_AGENT_LIST_MAX]; // VIPs that doctor checks on this host
	uint32_t vip_count;
	uint32_t forwardings; // bits of weir_agent_forwarding; 0: --forwarding was not given
	const char *unknown_forwarding; // value of --forwarding that is not a mode; NULL: none
	uint16_t gue_port;
	uint32_t gre_key; // 0: packets with any key, or without a key
	enum weir_agent_mode mode;
	bool detach;
	bool stats;
	bool measure;
	bool json;
	bool allow_steal;
	bool shed_idle;
	bool starting; // exec: announce starting until READY=1
	bool help;
	bool version;

	uint16_t ports[WEIR_AGENT_PORTS_MAX]; // TCP ports of the service, without duplicates
	uint32_t port_count;
	uint16_t ports_udp[WEIR_AGENT_PORTS_MAX];
	uint32_t port_udp_count;
	struct weir_named_services services; // their ports are also in the lists of ports
	// values of --allow-user, USER=NAME; pointers into argv
	const char *allowed[WEIR_NAMED_SERVICES_MAX];
	uint32_t allowed_count;
	uint32_t grace_ms; // time without a listening socket after which a port is down
	uint16_t udp_port;
	uint16_t key_id; // ID of the new key; 0: the smallest ID that is not used in the key file
	const char *cgroups[WEIR_CPU_CGROUPS_MAX];
	uint32_t cgroup_count;
	const char *key_file, *run_dir;
	const char *user; // NULL: the default user
	const char *orca_url; // NULL: none
	uint32_t orca_interval_ms;
	uint64_t interval_ms; // maximum duration of a drain
	const char *warm_up, *then, *shed_hook; // commands; NULL: none
	uint32_t max_active_flows; // 0: no limit
	uint32_t connections; // maximum number of open connections to measure; 0: the default
	enum weir_log_level log_level;
	enum weir_log_format log_format;
	// announce, exec: name of the service; NULL: the only service that the user may announce
	// for
	const char *service;
	const char *word; // announce: the argument WORD
	char **program; // exec: the program with its arguments, in argv; ends with NULL
	// exec: minimum time until the server gets the signal, unless a second signal arrives
	uint32_t delay_ms;
	// exec: maximum time until the server gets the signal, unless delay_ms is longer
	uint64_t drain_timeout_ms;
	int stop_signal; // exec: signal that begins the drain
	int help_of; // enum weir_agent_command: the command whose help is shown; -1 = all commands
};

// Parse the command line. Returns 0, or -EINVAL with one line in why, and only help_of in *ret.
int weir_agent_options_parse(
	int argc, char **argv, struct weir_agent_options *ret, char *why, size_t why_bytes);

// Returns the bit of a forwarding mode in `forwardings`.
static inline uint32_t weir_agent_forwarding(enum weir_forwarding_mode mode) {
	return 1u << mode;
}

// Returns the method by which the agent ends connections when a balancer orders this (shed.h).
enum weir_agent_shed_method weir_agent_options_shed(const struct weir_agent_options *options);

// Parse "10.0.0.0/24", "2001:db8::/64", or a single address. Returns 0 or -EINVAL.
int weir_prefix_parse(const char *text, struct weir_prefix *ret);

// Write the command line that prints the help of a command, such as "weir-agent run --help".
// command: as for weir_agent_help. Returns buffer.
const char *weir_agent_help_words(int command, char *buffer, size_t bytes);

// Write the text of --help. command: enum weir_agent_command; -1: all commands. buffer: has
// WEIR_HELP_BYTES bytes. Returns buffer.
const char *weir_agent_help(int command, char *buffer, size_t bytes);
