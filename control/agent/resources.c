// SPDX-License-Identifier: BSD-3-Clause
#include "resources.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "capacity_cache.h"
#include "local_socket.h"
#include "meter_helper.h"
#include "privileges.h"
#include "saved_state.h"
#include "shed_helper.h"
#include "steal_helper.h"

static void open_capacity_cache(
	const char *run_dir, struct weir_log *log, struct weir_agent_resources *resources) {
	resources->capacity_cache = weir_capacity_cache_open(run_dir, WEIR_CAPACITY_CACHE_CREATE);
	if (resources->capacity_cache < 0) {
		weir_log_write(log, WEIR_LOG_WARN,
			"%s/%s: %s; the speed of the CPUs is measured at each start", run_dir,
			WEIR_CAPACITY_CACHE, strerror(-resources->capacity_cache));
	}
}

static int open_sockets(const struct weir_agent_options *options, struct weir_log *log,
	struct weir_agent_resources *resources, char *why, size_t why_bytes) {
	int r = weir_datagrams_open(options->udp_port, &resources->datagrams);

	if (r == -EADDRINUSE) {
		snprintf(why, why_bytes,
			"UDP port %u is in use, maybe by another weir-agent: stop that process, "
			"or use another --udp-port",
			options->udp_port);
	} else if (r) {
		snprintf(why, why_bytes, "cannot listen on UDP port %u: %s", options->udp_port,
			strerror(-r));
	}
	if (r == 0) {
		resources->local_fd = weir_local_socket_open(options->run_dir, log, why, why_bytes);
		r = resources->local_fd < 0 ? resources->local_fd : 0;
	}
	if (r == 0) {
		r = weir_words_open(options->run_dir, &options->services, &resources->listeners,
			why, why_bytes);
	}
	if (r == 0) {
		resources->saved = weir_saved_state_open(options->run_dir, log);
		open_capacity_cache(options->run_dir, log, resources);
	}
	return r;
}

static int start_helper(const struct weir_agent_options *options,
	struct weir_agent_resources *resources, char *why, size_t why_bytes) {
	const struct weir_meter_params params = {
		.ports = options->ports,
		.port_count = options->port_count,
		.connections = options->connections,
	};
	int r;

	if (params.port_count == 0) {
		return 0; // nothing to measure
	}
	r = weir_meter_helper_start(&params, &resources->meter_helper);
	if (r) {
		snprintf(why, why_bytes, "cannot start the helper process for BPF programs: %s",
			strerror(-r));
	}
	return r;
}

static int start_steal_helper(const struct weir_agent_options *options,
	const struct weir_run_as *run_as, struct weir_agent_resources *resources, char *why,
	size_t why_bytes) {
	const struct weir_steal_helper_params params = {
		.ports = options->ports,
		.port_count = options->port_count,
		.user = run_as,
	};
	int r;

	if (!options->allow_steal) {
		return 0;
	}
	if (!weir_privileges_has(CAP_NET_ADMIN)) {
		snprintf(why, why_bytes,
			"--allow-steal needs CAP_NET_ADMIN; run as root, or with "
			"config/systemd/weir-agent-steal.conf");
		return -EPERM;
	}
	r = weir_steal_helper_start(&params, &resources->steal_helper);
	if (r) {
		snprintf(why, why_bytes, "cannot start the helper process for --allow-steal: %s",
			strerror(-r));
	}
	return r;
}

static int start_shed_helper(const struct weir_agent_options *options,
	const struct weir_run_as *run_as, struct weir_agent_resources *resources, char *why,
	size_t why_bytes) {
	const enum weir_agent_shed_method method = weir_agent_options_shed(options);
	const struct weir_shed_helper_params params = {
		.ports = options->ports,
		.port_count = options->port_count,
		.user = run_as,
		.hook = method == WEIR_AGENT_SHED_HOOK,
	};
	int r;

	if (method == WEIR_AGENT_SHED_NO_METHOD) {
		return 0;
	}
	if (method == WEIR_AGENT_SHED_IDLE && !weir_privileges_has(CAP_NET_ADMIN)) {
		snprintf(why, why_bytes,
			"--shed-idle needs CAP_NET_ADMIN; run as root, or with "
			"config/systemd/weir-agent-shed.conf");
		return -EPERM;
	}
	r = weir_shed_helper_start(&params, &resources->shed_helper);
	if (r) {
		snprintf(why, why_bytes,
			"cannot start the helper process for shedding connections: %s",
			strerror(-r));
	}
	return r;
}

static void close_fd(int fd) {
	if (fd >= 0) {
		close(fd);
	}
}

void weir_agent_resources_close(struct weir_agent_resources *resources) {
	weir_datagrams_close(&resources->datagrams);
	close_fd(resources->local_fd);
	weir_words_close(&resources->listeners);
	close_fd(resources->meter_helper);
	close_fd(resources->steal_helper);
	close_fd(resources->shed_helper);
	close_fd(resources->saved);
	close_fd(resources->capacity_cache);
	weir_agent_keys_wipe(&resources->keys);
}

int weir_agent_resources_open(const struct weir_agent_options *options, struct weir_log *log,
	struct weir_agent_resources *ret, char *why, size_t why_bytes) {
	struct weir_run_as run_as;
	int r = weir_privileges_resolve(options->user, NULL, NULL, &run_as, why, why_bytes);

	*ret = (struct weir_agent_resources){.datagrams = {.fd = {-1, -1}}};
	ret->meter_helper = ret->steal_helper = ret->shed_helper = -1;
	ret->local_fd = ret->saved = ret->capacity_cache = -1;
	// Start the helpers before sockets are opened and keys are read. A helper inherits the
	// memory of this process and, on kernels without close_range(2), its sockets.
	if (r == 0) {
		r = start_helper(options, ret, why, why_bytes);
	}
	if (r == 0) {
		r = start_steal_helper(options, &run_as, ret, why, why_bytes);
	}
	if (r == 0) {
		r = start_shed_helper(options, &run_as, ret, why, why_bytes);
	}
	if (r == 0) {
		ret->key_owner = geteuid();
		r = weir_agent_keys_read(
			options->key_file, ret->key_owner, &ret->keys, why, why_bytes);
		if (r == -ENOENT) {
			snprintf(why, why_bytes,
				"--key-file: %s does not exist; copy it from the balancers, or "
				"create it: weir-agent key generate",
				options->key_file);
		}
	}
	if (r == 0) {
		r = open_sockets(options, log, ret, why, why_bytes);
	}
	if (r == 0) {
		r = weir_privileges_drop(&run_as);
		if (r) {
			snprintf(why, why_bytes, "cannot drop privileges: %s", strerror(-r));
		}
	}
	if (r) {
		weir_agent_resources_close(ret);
	}
	return r;
}
