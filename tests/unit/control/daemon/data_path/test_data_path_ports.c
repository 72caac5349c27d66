// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <stdbool.h>

#include "data_path_ports.h"
#include "test.h"

#define FIRST 63487

TEST(ports_are_each_given_once_until_none_is_left) {
	static bool seen[WEIR_DATA_PATH_PORTS];
	struct weir_data_path_ports ports;

	weir_data_path_ports_init(&ports, FIRST);
	for (uint32_t i = 0; i < WEIR_DATA_PATH_PORTS; i++) {
		int port = weir_data_path_ports_take(&ports);

		assert_in_range(port, FIRST, 65534);
		assert_false(seen[port - FIRST]);
		seen[port - FIRST] = true;
	}
	assert_int_equal(weir_data_path_ports_take(&ports), -EADDRNOTAVAIL);
	weir_data_path_ports_give(&ports, FIRST + 7);
	assert_int_equal(weir_data_path_ports_take(&ports), FIRST + 7);
	assert_int_equal(weir_data_path_ports_take(&ports), -EADDRNOTAVAIL);
}

// A port that becomes free is used again after all other ports. So late packets of its connection
// do not reach a new connection.
TEST(ports_are_reused_last) {
	struct weir_data_path_ports ports;
	int first;

	weir_data_path_ports_init(&ports, FIRST);
	for (int round = 0; round < 3; round++) {
		first = weir_data_path_ports_take(&ports);
		weir_data_path_ports_give(&ports, (uint16_t)first);
		for (uint32_t i = 1; i < WEIR_DATA_PATH_PORTS; i++) {
			int port = weir_data_path_ports_take(&ports);

			assert_int_not_equal(port, first);
			weir_data_path_ports_give(&ports, (uint16_t)port);
		}
		assert_int_equal(weir_data_path_ports_take(&ports), first);
		weir_data_path_ports_give(&ports, (uint16_t)first);
	}
}

TEST(ports_are_outside_the_range_of_the_kernel) {
	static const struct {
		uint16_t low, high;
		unsigned int place;
		int first;
	} cases[] = {
		{32768, 60999, 0, 63487}, // the default range of Linux
		{32768, 60999, 1, 61439},
		{32768, 60999, 2, 30719},
		{32768, 63487, 0, 30719},
		{32768, 65535, 0, 30719},
		{10000, 65535, 0, 6143},
		{1024, 65535, 0, -EADDRINUSE},
		{4095, 65535, 0, 2047},
		{4095, 65535, 1, -EADDRINUSE},
		{2047, 61438, 0, 63487},
		{2047, 61438, 1, 61439},
		{2047, 61438, 2, -EADDRINUSE},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(
			weir_data_path_ports_block(cases[i].low, cases[i].high, cases[i].place),
			cases[i].first);
	}
}
