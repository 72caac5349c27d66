// SPDX-License-Identifier: BSD-3-Clause
#include "netdev.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device_lab.h"

static void interfaces_are_described(void **state) {
	(void)state;
	device_lab_need_root();
	device_lab_run(
		"ip link add nd0 mtu 1400 numrxqueues 1 type veth peer name nd1 numrxqueues 1");
	device_lab_run("ip link set nd0 up");
	assert_int_equal(weir_netdev_queues("nd0"), 1);
	assert_false(weir_netdev_spreads("nd0"));
	assert_int_equal(weir_netdev_mtu("nd0"), 1400);
	assert_true(weir_netdev_is_up("nd0"));
	assert_false(weir_netdev_is_up("nd1"));
	assert_int_equal(weir_netdev_set_mtu("nd0", 1450), 0);
	assert_int_equal(weir_netdev_mtu("nd0"), 1450);
	device_lab_run("ip link del nd0");
}

static void receive_queues_that_are_no_pairs_are_told(void **state) {
	(void)state;
	device_lab_need_root();
	device_lab_run("ip link add nd0 numrxqueues 2 numtxqueues 2 type veth peer name nd1 "
		       "numrxqueues 2 numtxqueues 2");
	device_lab_run("ethtool -L nd0 rx 2 tx 2");
	assert_int_equal(weir_netdev_queues("nd0"), -EMLINK);
	device_lab_run("ethtool -L nd0 rx 1");
	assert_int_equal(weir_netdev_queues("nd0"), 1);
	device_lab_run("ip link del nd0");
}

static void missing_interfaces_are_told(void **state) {
	(void)state;
	assert_int_equal(weir_netdev_queues("no-such-if"), -ENODEV);
	assert_int_equal(weir_netdev_mtu("no-such-if"), -ENODEV);
	assert_false(weir_netdev_is_up("no-such-if"));
	assert_false(weir_netdev_spreads("no-such-if"));
	assert_true(weir_netdev_set_mtu("no-such-if", 1500) < 0);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(interfaces_are_described),
		cmocka_unit_test(receive_queues_that_are_no_pairs_are_told),
		cmocka_unit_test(missing_interfaces_are_told),
	};

	return cmocka_run_group_tests(tests, device_lab_eal, NULL);
}
