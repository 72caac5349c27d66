// SPDX-License-Identifier: BSD-3-Clause
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <unistd.h>

#include "agent_keys.h"
#include "capacity_command.h"
#include "decap_loader.h"
#include "doctor_checks.h"
#include "exec.h"
#include "hints.h"
#include "local_client.h"
#include "run.h"
#include "service.h"

#define INTERFACE_ADDRESSES_MAX WEIR_DECAP_ADDRESSES_MAX

struct address_list {
	struct weir_address address[INTERFACE_ADDRESSES_MAX];
	uint32_t count;
	int error; // negative errno of the last check of the interface, or 0
};

static void print_stats(const char *interface, const struct weir_decap_stats *stats) {
	char text[WEIR_DECAP_SOURCES_BYTES];
	struct weir_decap_sources refused;

	for (uint32_t i = 0; i < WEIR_DECAP_RESULT_COUNT; i++) {
		printf("%-18s %12" PRIu64 " packets %14" PRIu64 " bytes  %s\n",
			weir_decap_result_name(i), (uint64_t)stats->result[i].packets,
			(uint64_t)stats->result[i].bytes, weir_decap_result_text(i));
	}
	(void)weir_decap_refused_of(interface, &refused);
	if (refused.count > 0) {
		printf("last refused: %s\n", weir_decap_sources_text(&refused, text));
	}
	fflush(stdout);
}

static void print_stats_json(const char *interface, const struct weir_decap_stats *stats) {
	char text[INET6_ADDRSTRLEN];
	struct weir_decap_sources refused;

	printf("{\"interface\": \"%s\"", interface);
	for (uint32_t i = 0; i < WEIR_DECAP_RESULT_COUNT; i++) {
		printf(", \"%s\": {\"packets\": %" PRIu64 ", \"bytes\": %" PRIu64 "}",
			weir_decap_result_name(i), (uint64_t)stats->result[i].packets,
			(uint64_t)stats->result[i].bytes);
	}
	(void)weir_decap_refused_of(interface, &refused);
	printf(", \"last_refused\": [");
	for (uint32_t i = 0; i < refused.count; i++) {
		printf("%s\"%s\"", i > 0 ? ", " : "",
			weir_address_format(&refused.source[i], text, sizeof(text)));
	}
	printf("]}\n");
}

static enum weir_agent_exit refuse(int error, const char *why) {
	fprintf(stderr, "weir-agent: %s\n", why);
	return error == -ENOENT ? WEIR_AGENT_ABSENT : WEIR_AGENT_REFUSED;
}

static enum weir_agent_exit show(const struct weir_agent_options *options) {
	struct weir_decap_stats stats;
	char why[256] = "";
	int r = weir_decap_stats_of(options->interface, &stats, why, sizeof(why));

	if (r) {
		return refuse(r, why);
	}
	if (options->json) {
		print_stats_json(options->interface, &stats);
	} else {
		print_stats(options->interface, &stats);
	}
	return WEIR_AGENT_DONE;
}

static enum weir_agent_exit detach(const struct weir_agent_options *options) {
	char why[256] = "";
	int r = weir_decap_remove(options->interface, why, sizeof(why));

	if (r) {
		return refuse(r, why);
	}
	printf("decap: removed from %s\n", options->interface);
	return WEIR_AGENT_DONE;
}

// --- decap --------------------------------------------------------------------------------

static void print_addresses(const char *interface, const struct address_list *list) {
	char text[INET6_ADDRSTRLEN];

	printf("decap: %s accepts packets to", interface);
	for (uint32_t i = 0; i < list->count; i++) {
		printf("%s %s", i > 0 ? "," : "",
			weir_address_format(&list->address[i], text, sizeof(text)));
	}
	printf("%s\n", list->count > 0 ? "" : " no address: the interface has no address yet");
	fflush(stdout);
}

static int list_addresses(
	const struct weir_agent_options *options, const char *interface, struct address_list *ret) {
	int count;

	memset(ret, 0, sizeof(*ret)); // zeroed, because lists are compared with memcmp
	if (options->address_count > 0) {
		memcpy(ret->address, options->addresses,
			options->address_count * sizeof(ret->address[0]));
		ret->count = options->address_count;
		return 0;
	}
	count = weir_decap_interface_addresses(interface, ret->address, INTERFACE_ADDRESSES_MAX);
	ret->count = count > 0 ? (uint32_t)count : 0;
	return count < 0 ? count : 0;
}

// Update the address map of the decap program after the addresses of the interface have changed
// (DHCP, router advertisements).
static int follow_addresses(const struct weir_agent_options *options, const char *interface,
	struct weir_decap *decap, struct address_list *list) {
	static const char failed[] = "cannot update the BPF map of accepted addresses: ";
	struct address_list now;
	int r = list_addresses(options, interface, &now);

	if (r < 0) { // keep the addresses in the map: without them no packet is decapsulated
		if (r != list->error) {
			fprintf(stderr, "weir-agent: cannot list the addresses of %s: %s\n",
				interface, strerror(-r));
		}
		list->error = r;
		return list->count == UINT32_MAX ? r : 0;
	}
	list->error = 0;
	if (now.count == list->count &&
		memcmp(now.address, list->address, sizeof(now.address)) == 0) {
		return 0;
	}
	r = weir_decap_set_addresses(decap, now.address, now.count);
	if (r) {
		fprintf(stderr, "weir-agent: %s%s\n", failed, strerror(-r));
		return r;
	}
	*list = now;
	print_addresses(interface, list);
	return 0;
}

static void follow_stats(
	const char *interface, const struct weir_decap *decap, struct weir_decap_stats *shown) {
	struct weir_decap_stats now;

	if (weir_decap_stats(decap, &now) == 0 && memcmp(&now, shown, sizeof(now)) != 0) {
		print_stats(interface, &now);
		*shown = now;
	}
}

static enum weir_agent_exit serve(const struct weir_agent_options *options,
	struct weir_decap *decap, const sigset_t *signals) {
	const struct timespec turn = {.tv_sec = 1};
	struct weir_decap_stats shown = {0};
	struct address_list list = {.count = UINT32_MAX};
	char interface[IF_NAMESIZE]; // the present name: an interface may be renamed
	bool ready = false;

	snprintf(interface, sizeof(interface), "%s", options->interface);
	for (;;) {
		if (!weir_decap_is_attached(decap, interface)) {
			return refuse(-ENODEV, "the interface was removed");
		}
		if (follow_addresses(options, interface, decap, &list)) {
			return WEIR_AGENT_REFUSED;
		}
		if (!ready) {
			sd_notify(0, "READY=1");
			ready = true;
		}
		if (sigtimedwait(signals, NULL, &turn) > 0) {
			break;
		}
		if (options->stats) {
			follow_stats(interface, decap, &shown);
		}
	}
	if (options->stats) {
		follow_stats(interface, decap, &shown);
	}
	printf("decap: detached from %s\n", interface);
	return WEIR_AGENT_DONE;
}

static bool accepts(const struct weir_agent_options *options, enum weir_forwarding_mode mode) {
	return options->forwardings == 0 ||
	       (options->forwardings & weir_agent_forwarding(mode)) != 0;
}

static enum weir_agent_exit decapsulate(const struct weir_agent_options *options) {
	const struct weir_decap_params params = {
		.interface = options->interface,
		.sources = options->sources,
		.source_count = options->source_count,
		.modes = {.ipip = accepts(options, WEIR_FORWARDING_IPIP),
			.gre = accepts(options, WEIR_FORWARDING_GRE),
			.gue_port = accepts(options, WEIR_FORWARDING_GUE) ? options->gue_port : 0,
			.gre_key = options->gre_key},
		.mode = options->mode,
	};
	struct weir_decap *decap;
	enum weir_agent_exit status;
	char why[256] = "", modes[WEIR_DECAP_MODES_BYTES];
	sigset_t signals;
	int r;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN); // decapsulation continues if the reader of the output exits
	r = weir_decap_attach(&params, &decap, why, sizeof(why));
	if (r) {
		return refuse(r, why);
	}
	printf("decap: attached to %s in %s mode, accepts packets of %s from %s\n",
		options->interface, weir_decap_is_native(decap) ? "native" : "skb",
		weir_decap_modes_text(&params.modes, modes),
		options->source_count > 0 ? "the balancers given by --from"
					  : "any source (see --from)");
	weir_hints_write(options, stdout);
	fflush(stdout);
	status = serve(options, decap, &signals);
	weir_decap_free(decap);
	return status;
}

// --- run ----------------------------------------------------------------------------------

static enum weir_agent_exit serve_balancers(const struct weir_agent_options *options) {
	unsigned int lost_lines = 0;
	struct weir_log log = {
		.fd = STDERR_FILENO, .level = options->log_level, .lost = &lost_lines};
	struct weir_log_limit *limit;
	enum weir_agent_exit status = WEIR_AGENT_REFUSED;

	signal(SIGPIPE, SIG_IGN); // the reader of the log may close the pipe
	weir_log_open(&log, options->log_format);
	if (weir_log_limit_create(&log, NULL, &limit) < 0) {
		weir_log_plain(&log, "weir-agent: out of memory");
	} else {
		status = weir_service_run(options, &log, limit);
		weir_log_limit_free(limit);
	}
	weir_log_close(&log);
	return status;
}

// Returns the smallest id that the key file does not have. Returns 1 if there is no key file, or if
// the ids in the file are unknown.
static uint16_t choose_key_id(const struct weir_agent_options *options) {
	const char *file = options->key_file;
	struct weir_agent_keys keys;
	struct stat status = {0};
	char why[512];
	uint16_t id = 1;

	if (stat(file, &status) == 0 ? status.st_size == 0 : errno == ENOENT) {
		return id; // no key file, or an empty file that a shell created for the output
	}
	// Any owner is accepted here: the programs that use the keys check the owner.
	if (weir_agent_keys_read(file, status.st_uid, &keys, why, sizeof(why)) < 0) {
		fprintf(stderr,
			"weir-agent: warning: the new key has ID 1, because the IDs in use are "
			"unknown (%s); to choose another ID, use --id N\n",
			why);
		return id;
	}
	while (weir_agent_keys_find(&keys, id) != NULL) {
		id++; // a file has fewer keys than there are ids
	}
	weir_agent_keys_wipe(&keys);
	return id;
}

static enum weir_agent_exit generate_key(const struct weir_agent_options *options) {
	char line[WEIR_AGENT_KEY_LINE_BYTES];
	int r = weir_agent_crypto_start();

	if (r) {
		return refuse(r, "libsodium could not be initialised");
	}
	weir_agent_key_generate(
		options->key_id != 0 ? options->key_id : choose_key_id(options), line);
	fputs(line, stdout);
	return WEIR_AGENT_DONE;
}

enum weir_agent_exit weir_agent_run(const struct weir_agent_options *options) {
	switch (options->command) {
	case WEIR_AGENT_DECAP:
		return options->detach ? detach(options) : decapsulate(options);
	case WEIR_AGENT_STATS:
		return show(options);
	case WEIR_AGENT_RUN:
		return serve_balancers(options);
	case WEIR_AGENT_LAME_DUCK:
		return weir_local_lame_duck(options);
	case WEIR_AGENT_READY:
		return weir_local_ready(options);
	case WEIR_AGENT_ANNOUNCE:
		return (enum weir_agent_exit)weir_announce_run(options);
	case WEIR_AGENT_EXEC:
		return (enum weir_agent_exit)weir_exec_run(options);
	case WEIR_AGENT_STATUS:
		return weir_local_status(options);
	case WEIR_AGENT_KEY:
		return generate_key(options);
	case WEIR_AGENT_CAPACITY:
		return weir_capacity_command(options);
	case WEIR_AGENT_DOCTOR:
		return (enum weir_agent_exit)weir_agent_doctor_run(options);
	}
	return WEIR_AGENT_USAGE;
}
