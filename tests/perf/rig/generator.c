// SPDX-License-Identifier: BSD-3-Clause
//
// rig-generator: sends flows to a dataplane in another process over shared memory, and receives the
// returned packets. It reads commands from standard input, one per line, executes them in order,
// and writes one line of JSON for each to standard output. tests/perf/rig/run controls it.
//
// usage: rig-generator EAL-ARGUMENT... -- SEND-PORT RECEIVE-PORT (ipip|plain)
//
// Ports are names of DPDK devices. A line is a verb, followed by words KEY=VALUE:
//   link seconds=S                        wait until the link of both ports is up
//   traffic protocol=tcp|udp frame=BYTES flows=N vip=A.B.C.D port=P mac=DESTINATION
//   trial number=N seconds=S rate=PPS packets=N burst=N kind=syn|data order=random|turn verify=0|1
//   distance cpu=N                        round trip of a cache line to that CPU
//   quit
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>

#include "distance.h"
#include "engine.h"

#define BUFFERS 4095u
#define CACHE 256u
#define DESCRIPTORS 1024u
#define WORDS_MAX 16

struct generator {
	uint16_t port[2]; // the ports for sending and receiving
	struct rte_mempool *receive_pool;
	struct rte_mempool *send_pool;
	struct rig_engine *engine;
	struct rig_result result;
};

static const struct rte_ether_addr zero_mac;

// --- ports --------------------------------------------------------------------------------

static int open_port(struct generator *generator, uint16_t port) {
	struct rte_eth_conf conf = {0};
	uint16_t rx = DESCRIPTORS, tx = DESCRIPTORS;
	int socket = rte_eth_dev_socket_id(port);
	int r = rte_eth_dev_configure(port, 1, 1, &conf);

	if (r == 0) {
		r = rte_eth_dev_adjust_nb_rx_tx_desc(port, &rx, &tx);
	}
	if (r == 0) {
		r = rte_eth_rx_queue_setup(
			port, 0, rx, (unsigned int)socket, NULL, generator->receive_pool);
	}
	if (r == 0) {
		r = rte_eth_tx_queue_setup(port, 0, tx, (unsigned int)socket, NULL);
	}
	return r == 0 ? rte_eth_dev_start(port) : r;
}

static int open_ports(struct generator *generator, char **names) {
	int r;

	generator->receive_pool = rte_pktmbuf_pool_create(
		"receive", BUFFERS, CACHE, 0, RTE_MBUF_DEFAULT_BUF_SIZE, (int)rte_socket_id());
	generator->send_pool = rte_pktmbuf_pool_create(
		"send", BUFFERS, CACHE, 0, RTE_MBUF_DEFAULT_BUF_SIZE, (int)rte_socket_id());
	if (generator->receive_pool == NULL || generator->send_pool == NULL) {
		fprintf(stderr, "rig-generator: no memory for packet buffers\n");
		return -ENOMEM;
	}
	for (int i = 0; i < 2; i++) {
		r = rte_eth_dev_get_port_by_name(names[i], &generator->port[i]);
		if (r == 0 && (i == 0 || generator->port[1] != generator->port[0])) {
			r = open_port(generator, generator->port[i]);
		}
		if (r < 0) {
			fprintf(stderr, "rig-generator: port %s: %s\n", names[i], strerror(-r));
			return r;
		}
	}
	return 0;
}

static void close_ports(struct generator *generator) {
	for (int i = 0; i < 2; i++) {
		if (i == 0 || generator->port[1] != generator->port[0]) {
			rte_eth_dev_stop(generator->port[i]);
			rte_eth_dev_close(generator->port[i]);
		}
	}
}

// --- lines --------------------------------------------------------------------------------

struct line {
	int count;
	char *word[WORDS_MAX];
};

static void split(char *text, struct line *line) {
	char *rest = NULL;

	line->count = 0;
	for (char *word = strtok_r(text, " \n", &rest); word != NULL && line->count < WORDS_MAX;
		word = strtok_r(NULL, " \n", &rest)) {
		line->word[line->count++] = word;
	}
}

static const char *value_of(const struct line *line, const char *key, const char *otherwise) {
	size_t length = strlen(key);

	for (int i = 1; i < line->count; i++) {
		if (strncmp(line->word[i], key, length) == 0 && line->word[i][length] == '=') {
			return line->word[i] + length + 1;
		}
	}
	return otherwise;
}

static double number_of(const struct line *line, const char *key, double otherwise) {
	const char *value = value_of(line, key, NULL);

	return value != NULL ? strtod(value, NULL) : otherwise;
}

static void answer_error(const char *what, int error) {
	printf("{\"error\": \"%s: %s\"}\n", what, strerror(-error));
}

// --- verbs --------------------------------------------------------------------------------

static void wait_for_link(struct generator *generator, const struct line *line) {
	uint64_t deadline =
		rte_rdtsc() + (uint64_t)(number_of(line, "seconds", 10) * (double)rte_get_tsc_hz());
	struct rte_eth_link link;
	int up = 0;

	while (up < 2 && rte_rdtsc() < deadline) {
		up = 0;
		for (int i = 0; i < 2; i++) {
			up += rte_eth_link_get_nowait(generator->port[i], &link) == 0 &&
			      link.link_status == RTE_ETH_LINK_UP;
		}
		rte_delay_us_sleep(1000);
	}
	if (up < 2) {
		answer_error("link", -ENETDOWN);
		return;
	}
	printf("{\"link\": true, \"tsc_hz\": %" PRIu64 "}\n", rte_get_tsc_hz());
}

static void set_traffic(struct generator *generator, const struct line *line) {
	struct rig_traffic_params params = {
		.protocol = strcmp(value_of(line, "protocol", "tcp"), "udp") == 0 ? IPPROTO_UDP
										  : IPPROTO_TCP,
		.frame_bytes = (uint16_t)number_of(line, "frame", RIG_FRAME_MIN),
		.flows = (uint32_t)number_of(line, "flows", 1),
		.vip = ntohl(inet_addr(value_of(line, "vip", "198.51.100.10"))),
		.port = (uint16_t)number_of(line, "port", 80),
	};
	struct rte_ether_addr mac = zero_mac;
	int r;

	(void)rte_eth_macaddr_get(generator->port[0], &mac);
	memcpy(params.source_mac, mac.addr_bytes, 6);
	r = rte_ether_unformat_addr(value_of(line, "mac", "02:00:00:00:00:b0"), &mac);
	memcpy(params.destination_mac, mac.addr_bytes, 6);
	if (r == 0) {
		r = rig_engine_set_traffic(generator->engine, &params);
	}
	if (r < 0) {
		answer_error("traffic", r);
		return;
	}
	printf("{\"traffic\": true}\n");
}

static void measure_distance(const struct line *line) {
	double ns;
	int r = rig_distance((unsigned int)number_of(line, "cpu", 1), &ns);

	if (r == 0) {
		printf("{\"distance_ns\": %.0f}\n", ns);
	} else if (r == -EAGAIN) {
		printf("{\"distance_ns\": null}\n");
	} else {
		answer_error("distance", r);
	}
}

static void print_array(const char *name, const uint64_t *value, uint32_t n) {
	printf(", \"%s\": [", name);
	for (uint32_t i = 0; i < n; i++) {
		printf("%s%" PRIu64, i > 0 ? ", " : "", value[i]);
	}
	printf("]");
}

static void print_latency(const struct rig_latency *latency) {
	static const struct {
		const char *name;
		double share;
	} quantiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}, {"max", 1}};
	double ns = 1e9 / (double)rte_get_tsc_hz();

	printf(", \"latency_ns\": {\"count\": %" PRIu64 ", \"mean\": %.0f", latency->count,
		latency->count > 0 ? (double)latency->sum / (double)latency->count * ns : 0);
	for (unsigned int i = 0; i < RTE_DIM(quantiles); i++) {
		printf(", \"%s\": %.0f", quantiles[i].name,
			(double)rig_latency_quantile(latency, quantiles[i].share) * ns);
	}
	printf("}");
}

static void run_trial(struct generator *generator, const struct line *line) {
	struct rig_trial_params params = {
		.rate_pps = number_of(line, "rate", 0),
		.seconds = number_of(line, "seconds", 1),
		.packets = (uint64_t)number_of(line, "packets", 0),
		.burst = (uint32_t)number_of(line, "burst", 32),
		.trial = (uint32_t)number_of(line, "number", 1),
		.kind = strcmp(value_of(line, "kind", "data"), "syn") == 0 ? RIG_SYN : RIG_DATA,
		.in_order = strcmp(value_of(line, "order", "random"), "turn") == 0,
		.verify = number_of(line, "verify", 0) > 0,
	};
	struct rig_result *result = &generator->result;
	int r;

	params.burst = RTE_MIN(RTE_MAX(params.burst, 1u), RIG_BURST_MAX);
	r = rig_engine_run(generator->engine, &params, result);
	if (r < 0) {
		answer_error("trial", r);
		return;
	}
	printf("{\"seconds\": %.6f, \"offered\": %" PRIu64 ", \"sent\": %" PRIu64
	       ", \"refused\": %" PRIu64 ", \"skipped\": %" PRIu64 ", \"received\": %" PRIu64
	       ", \"received_in_time\": %" PRIu64 ", \"stragglers\": %" PRIu64
	       ", \"unexpected\": %" PRIu64 ", \"broken\": %" PRIu64 ", \"moved\": %" PRIu64
	       ", \"polls\": %" PRIu64 ", \"polls_with\": %" PRIu64 ", \"away_ns\": %" PRIu64
	       ", \"away_max_ns\": %" PRIu64,
		result->seconds, result->offered, result->sent, result->refused, result->skipped,
		result->received, result->received_in_time, result->stragglers, result->unexpected,
		result->broken, result->moved, result->polls, result->polls_with, result->away_ns,
		result->away_max_ns);
	printf(", \"disturbed_slices\": %" PRIu64 ", \"slices\": %u, \"quiet_offered\": %" PRIu64
	       ", \"quiet_refused\": %" PRIu64,
		result->disturbed_slices, RIG_SLICES, result->quiet_offered, result->quiet_refused);
	print_array("windows", result->window, RIG_WINDOWS);
	print_array("burst_sizes", result->burst_sizes, RIG_BURST_MAX + 1);
	print_latency(rig_engine_latency(generator->engine));
	printf("}\n");
}

static void obey(struct generator *generator) {
	char text[1024];
	struct line line;

	while (fgets(text, sizeof(text), stdin) != NULL) {
		split(text, &line);
		if (line.count == 0) {
			continue;
		}
		if (strcmp(line.word[0], "quit") == 0) {
			return;
		}
		if (strcmp(line.word[0], "link") == 0) {
			wait_for_link(generator, &line);
		} else if (strcmp(line.word[0], "traffic") == 0) {
			set_traffic(generator, &line);
		} else if (strcmp(line.word[0], "trial") == 0) {
			run_trial(generator, &line);
		} else if (strcmp(line.word[0], "distance") == 0) {
			measure_distance(&line);
		} else {
			answer_error(line.word[0], -EINVAL);
		}
		fflush(stdout);
	}
}

int main(int argc, char **argv) {
	struct generator generator = {0};
	struct rig_engine_params params;
	int used = rte_eal_init(argc, argv);
	int status = EXIT_FAILURE;

	if (used < 0) {
		return EXIT_FAILURE;
	}
	argc -= used;
	argv += used;
	if (argc != 4 || (strcmp(argv[3], "ipip") != 0 && strcmp(argv[3], "plain") != 0)) {
		fprintf(stderr, "usage: rig-generator EAL-ARGUMENT... -- SEND-PORT RECEIVE-PORT "
				"(ipip|plain)\n");
		goto fini;
	}
	if (open_ports(&generator, argv + 1) < 0) {
		goto fini;
	}
	params = (struct rig_engine_params){.send_port = generator.port[0],
		.receive_port = generator.port[1],
		.pool = generator.send_pool,
		.encapsulated = strcmp(argv[3], "ipip") == 0};
	if (rig_engine_create(&params, &generator.engine) == 0) {
		obey(&generator);
		rig_engine_free(generator.engine);
		status = EXIT_SUCCESS;
	}
	close_ports(&generator);
fini:
	rte_eal_cleanup();
	return status;
}
