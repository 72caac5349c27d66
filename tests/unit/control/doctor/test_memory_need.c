// SPDX-License-Identifier: BSD-3-Clause
//
// Compares doctor's estimate of memory with the plan of weir-dataplane.
#include "memory_need.h"

#include <stdio.h>
#include <string.h>

#include "device_lab.h"
#include "memory.h"
#include "plan.h"
#include "test.h"

#define MIB (UINT64_C(1) << 20)

static struct weir_config *parse(
	const char *ports, unsigned int workers, unsigned int flows, unsigned int backends) {
	struct weir_config_errors errors;
	struct weir_config *config = NULL;
	char text[2048], cores[256] = "0";

	for (unsigned int i = 1; i < workers; i++) {
		strcat(cores, ",0");
	}
	snprintf(text, sizeof(text),
		JSON({"ports":[%s],"workers":{"cores":[%s]},"flow_table":{"flows_per_worker":%u},
			"segment":{"max_backends":%u},"services":[]}),
								    ports, cores, flows, backends);
	if (weir_config_parse(text, strlen(text), &config, &errors) < 0) {
		fail_msg("%s: %s", errors.error[0].path, errors.error[0].reason);
	}
	weir_config_errors_fini(&errors);
	return config;
}

static void compare(
	const char *ports, unsigned int workers, unsigned int flows, unsigned int backends) {
	struct weir_config *config = parse(ports, workers, flows, backends);
	const uint64_t need = weir_memory_need("", config);
	struct weir_plan plan;
	char why[512];

	if (weir_plan_make(config, "none", &plan, why, sizeof(why)) < 0) {
		fail_msg("%s", why);
	}
	if (need < plan.total_bytes ||
		need > plan.total_bytes + plan.total_bytes / 10 + workers * 2 * MIB) {
		fail_msg("%s, %u workers, %u flows, %u backends: estimate %.1f MiB, plan %.1f MiB "
			 "(flows %.1f, buffers %.1f)",
			ports, workers, flows, backends, (double)need / MIB,
			(double)plan.total_bytes / MIB, (double)plan.flow_bytes / MIB,
			(double)plan.buffer_bytes / MIB);
	}
	weir_config_free(config);
}

TEST_GROUP(device_lab_eal);

TEST(the_estimate_follows_the_plan) {
	static const char *const ports[] = {
		JSON({"name":"a","device":"net_af_packet0,iface=lo"}),
			JSON({"name":"a","device":"net_af_packet0,iface=lo","queues":4}),
				JSON({"name":"a","device":"net_af_xdp0,iface=lo"}),
					JSON({"name":"a","device":"0000:01:00.0","mtu":9000}),
						JSON({"name":"a","device":"0000:01:00.0","exception":"net_tap0,iface=weir0"}),
							JSON({"name":"a","device":"net_null0","mtu":3400}) "," JSON({"name":"b","device":"net_null1","mtu":1600,"exception":"net_tap0"}),
							};
	static const unsigned int flows[] = {1024, 65536, 262144, 1048576, 4194304};

	for (size_t i = 0; i < sizeof(ports) / sizeof(ports[0]); i++) {
		for (unsigned int workers = 1; workers <= 16; workers *= 2) {
			for (size_t f = 0; f < sizeof(flows) / sizeof(flows[0]); f++) {
				compare(ports[i], workers, flows[f], 16384);
				compare(ports[i], workers, flows[f], 65535);
			}
		}
	}
}

TEST(pages_are_those_of_the_dataplane) {
	static const uint64_t pages[] = {64 << 10, 2 * MIB, 512 * MIB, 1024 * MIB};

	for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
		const struct weir_plan plan = {.total_bytes = 61 * MIB + 1};
		const uint64_t bytes = weir_memory_pages(plan.total_bytes, pages[i]) * pages[i];
		struct weir_memory_facts facts = {.page_bytes = pages[i],
			.huge_free_bytes = bytes,
			.available_bytes = UINT64_MAX};
		struct weir_memory memory;
		char why[512];

		assert_int_equal(weir_memory_choose(&plan, &facts, &memory, why, sizeof(why)), 0);
		assert_true(memory.huge_pages);
		facts.huge_free_bytes--;
		assert_int_equal(weir_memory_choose(&plan, &facts, &memory, why, sizeof(why)), 0);
		assert_false(memory.huge_pages);
	}
}
