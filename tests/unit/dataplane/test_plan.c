// SPDX-License-Identifier: BSD-3-Clause
#include "options.h"
#include "plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device_lab.h"
#include "flow_table.h"
#include "pipeline_setup.h"
#include "test.h"

// Returns a configuration with these ports and this many workers.
static struct weir_config *parse(const char *ports, unsigned int workers) {
	struct weir_config_errors errors;
	struct weir_config *config = NULL;
	char text[2048], cores[256] = "0";

	for (unsigned int i = 1; i < workers; i++) {
		strcat(cores, ",0");
	}
	snprintf(text, sizeof(text),
		JSON({"ports":[%s],"workers":{"cores":[%s]},"services":[]}), ports, cores);
	if (weir_config_parse(text, strlen(text), &config, &errors) < 0) {
		fail_msg("%s: %s", errors.error[0].path, errors.error[0].reason);
	}
	weir_config_errors_fini(&errors);
	return config;
}

static int make(const char *ports, unsigned int workers, const char *steer, struct weir_plan *ret,
	char *why) {
	struct weir_config *config = parse(ports, workers);
	int r = weir_plan_make(config, steer, ret, why, 512);

	weir_config_free(config);
	return r;
}

TEST_GROUP(device_lab_eal);

TEST(ports_come_first_then_exception_devices) {
	struct weir_plan plan;
	char why[512];

	assert_int_equal(
		make("{\"name\":\"a\",\"device\":\"net_null0\",\"exception\":\"net_tap0\"},"
		     "{\"name\":\"b\",\"device\":\"0000:01:00.0\"},"
		     "{\"name\":\"c\",\"device\":\"net_null1\",\"queues\":3,"
		     "\"exception\":\"net_tap1,iface=weir-c\"}",
			4, "none", &plan, why),
		0);
	assert_int_equal(plan.devices, 5);
	assert_string_equal(plan.device[0].devargs.name, "net_null0");
	assert_int_equal(plan.device[0].queues, 1);
	assert_int_equal(plan.device[1].queues, 4);
	assert_int_equal(plan.device[2].queues, 3);
	assert_string_equal(plan.device[3].devargs.name, "net_tap0");
	assert_true(plan.device[3].exception);
	assert_int_equal(plan.device[3].port, 0);
	assert_int_equal(plan.device[4].port, 2);
	assert_int_equal(plan.device[4].queues, 1);
	assert_string_equal(plan.device[4].interface, "weir-c");
}

TEST(memory_grows_with_what_is_configured) {
	struct weir_plan one, four, jumbo;
	char why[512];

	assert_int_equal(make(JSON({"name":"a","device":"net_null0"}), 1, "none", &one, why), 0);
	assert_int_equal(make(JSON({"name":"a","device":"net_null0"}), 4, "none", &four, why), 0);
	assert_int_equal(make("{\"name\":\"a\",\"device\":\"net_null0\",\"mtu\":9000},"
			      "{\"name\":\"b\",\"device\":\"net_null1\"}",
				 1, "none", &jumbo, why),
		0);
	assert_int_equal(one.flow_bytes, weir_flow_table_bytes(1048576, 25));
	// memory of four separate tables, or of one shared table with the same total size and its
	// parcels
	assert_in_range(four.flow_bytes, 4 * one.flow_bytes, 4 * one.flow_bytes * 105 / 100);
	assert_true(four.buffer_bytes > one.buffer_bytes);
	assert_true(one.total_bytes > one.flow_bytes + one.buffer_bytes);
	assert_int_equal(jumbo.pools, 2);
	assert_true(jumbo.pool[0].room >= 9000 + 128 + 26);
	assert_int_equal(jumbo.pool[1].room, RTE_MBUF_DEFAULT_BUF_SIZE);
	assert_true(jumbo.pool[0].buffers > 2048 && jumbo.pool[1].buffers > 2048);
}

// Check the values in docs/guide/operations.md, "Memory", and docs/design/performance.md.
TEST(memory_is_as_documented) {
	uint64_t base = weir_pipeline_bytes(0, 0);

	assert_int_equal((weir_flow_table_bytes(1048576, 25) + 524288) / 1048576, 46);
	assert_int_equal((weir_pipeline_bytes(0, 16384) - base) / 16384, 241);
	assert_int_equal(((weir_pipeline_bytes(1024, 0) - base) * 10 + 524288) / 1048576, 11);
	assert_int_equal((weir_pipeline_bytes(1024, 16384) * 10 + 524288) / 1048576, 49);
}

TEST(af_xdp_gets_all_queues_and_the_steer_program) {
	const char *port = JSON({"name":"a","device":"net_af_xdp0,iface=pl0"});
	struct weir_plan plan;
	char why[512], value[64];

	device_lab_need_root();
	SHELL("ip link add pl0 type veth peer name pl1");
	assert_int_equal(make(port, 1, "/bin/true", &plan, why), 0);
	assert_true(weir_devargs_get(&plan.device[0].devargs, "queue_count", value, sizeof(value)));
	assert_string_equal(value, "1");
	assert_true(weir_devargs_get(&plan.device[0].devargs, "xdp_prog", value, sizeof(value)));
	assert_string_equal(value, "/bin/true");
	assert_int_equal(make(port, 1, WEIR_STEER_OBJECT_NONE, &plan, why), 0);
	assert_false(weir_devargs_get(&plan.device[0].devargs, "xdp_prog", value, sizeof(value)));
	assert_int_equal(make(JSON({"name":"a","device":"net_af_xdp0,iface=pl0,xdp_prog=/own"}), 1,
		"/bin/true", &plan, why),
		0);
	assert_true(weir_devargs_get(&plan.device[0].devargs, "xdp_prog", value, sizeof(value)));
	assert_string_equal(value, "/own");
	SHELL("ip link del pl0");
}

TEST(impossible_plans_are_refused_with_their_key) {
	struct weir_plan plan = {.devices = 77};
	char why[512], path[1024];

	assert_int_equal(make(JSON({"name":"a","device":"12:3"}), 1, "none", &plan, why), -EINVAL);
	assert_non_null(strstr(why, "port a"));
	assert_int_equal(make(JSON({"name":"a","device":"net_null0","exception":"net_af_xdp0"}), 1,
		"none", &plan, why),
		-EINVAL);
	assert_non_null(strstr(why, "iface="));
	assert_int_equal(make(
		JSON({"name":"a","device":"net_af_xdp0,iface=no-such-if"}), 1, "none", &plan, why),
		-ENODEV);
	assert_non_null(strstr(why, "no-such-if"));
	assert_int_equal(make(JSON({"name":"a","device":"net_af_xdp0,iface=lo","queues":2}), 1,
		"none", &plan, why),
		-EINVAL);
	assert_non_null(strstr(why, "2 queues requested, but interface lo has 1;"));
	assert_int_equal(make(JSON({"name":"a","device":"net_af_xdp0,iface=lo,start_queue=1"}), 1,
		"none", &plan, why),
		-EINVAL);
	assert_non_null(
		strstr(why, "1 queue requested, but interface lo has 0 from start_queue on"));
	assert_int_equal(make(JSON({"name":"a","device":"net_af_xdp0,iface=lo"}), 1,
		"/no/such/steer.o", &plan, why),
		-ENOENT);
	assert_non_null(strstr(why, "--steer-object"));
	snprintf(path, sizeof(path), "%1000sbin/true", "");
	for (char *at = path; (at = strchr(at, ' ')) != NULL;) {
		*at = '/';
	}
	assert_int_equal(
		make(JSON({"name":"a","device":"net_af_xdp0,iface=lo"}), 1, path, &plan, why),
			-ENAMETOOLONG);
	assert_non_null(strstr(why, "port a: the path of --steer-object is too long: /"));
	assert_int_equal(plan.devices, 77);
}
