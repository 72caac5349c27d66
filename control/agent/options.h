// SPDX-License-Identifier: BSD-3-Clause
//
// Command line of weir-agent. Pure: prints nothing, never exits.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "cpu_usage.h"
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
	struct weir_address addresses[WEIR_AGENT_LIST_MAX]; // empty: those of the interface
	uint32_t address_count;
	struct weir_prefix sources[WEIR_AGENT_LIST_MAX]; // empty: any
	uint32_t source_count;
	struct weir_address vips[WEIR_AGENT_LIST_MAX]; // expected by doctor
	uint32_t vip_count;
	enum weir_agent_mode mode;
	bool detach;
	bool stats;
	bool measure;
	bool json;
	bool allow_steal;
	bool starting; // of exec: until READY=1
	bool help;
	bool version;

	uint16_t ports[WEIR_AGENT_PORTS_MAX]; // of the service, TCP; each once
	uint32_t port_count;
	uint16_t ports_udp[WEIR_AGENT_PORTS_MAX];
	uint32_t port_udp_count;
	struct weir_named_services services; // their ports are in those above
	const char *allowed[WEIR_NAMED_SERVICES_MAX]; // USER=NAME, as given
	uint32_t allowed_count;
	uint32_t grace_ms; // without a listening socket
	uint16_t udp_port;
	uint16_t key_id; // 0: the smallest that is not used in the key file
	const char *cgroups[WEIR_CPU_CGROUPS_MAX];
	uint32_t cgroup_count;
	const char *key_file, *run_dir;
	const char *user; // NULL: the default
	const char *orca_url; // NULL: none
	uint32_t orca_interval_ms;
	uint64_t interval_ms; // of a drain
	const char *warm_up, *then; // commands; NULL: none
	uint32_t max_active_flows; // 0: no limit
	uint32_t connections; // to measure at the same time; 0: the default
	enum weir_log_level log_level;
	enum weir_log_format log_format;
	const char *service; // of announce and exec; NULL: the only one of the user
	const char *word; // of announce
	char **program; // of exec, with its arguments, in argv; ends with NULL
	uint32_t delay_ms; // of exec, at least, from the signal to the server's
	uint64_t drain_timeout_ms; // of exec
	int stop_signal; // of exec: begins the drain
	int help_of; // enum weir_agent_command: --help is about this one; -1 = about all
};

// Returns 0, or -EINVAL and one line in why.
int weir_agent_options_parse(
	int argc, char **argv, struct weir_agent_options *ret, char *why, size_t why_bytes);

// Parse "10.0.0.0/24", "2001:db8::/64", or a single address. Returns 0 or -EINVAL.
int weir_prefix_parse(const char *text, struct weir_prefix *ret);

// Text of --help about a command; -1: about all. Returns buffer, of WEIR_HELP_BYTES.
const char *weir_agent_help(int command, char *buffer, size_t bytes);
