// SPDX-License-Identifier: BSD-3-Clause
#include "devargs.h"
#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TEST(name_driver_and_arguments_are_distinguished) {
	static const struct {
		const char *device, *name, *driver, *text;
		bool pci;
	} table[] = {
		{"net_af_xdp0,iface=lb0", "net_af_xdp0", "net_af_xdp", "net_af_xdp0,iface=lb0",
			false},
		{"vdev:net_tap12,iface=x", "net_tap12", "net_tap", "net_tap12,iface=x", false},
		{"net_null", "net_null", "net_null", "net_null", false},
		{"virtio_user3,path=/dev/vhost-net", "virtio_user3", "net_virtio_user",
			"virtio_user3,path=/dev/vhost-net", false},
		{"0000:01:00.1", "0000:01:00.1", "", "0000:01:00.1", true},
		{"01:00.1,arg=1", "0000:01:00.1", "", "0000:01:00.1,arg=1", true},
		{"pci:8f:1e.7", "0000:8f:1e.7", "", "0000:8f:1e.7", true},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct weir_devargs devargs;

		assert_int_equal(weir_devargs_parse(table[i].device, &devargs), 0);
		assert_string_equal(devargs.name, table[i].name);
		assert_string_equal(devargs.driver, table[i].driver);
		assert_string_equal(devargs.text, table[i].text);
		assert_int_equal(devargs.pci, table[i].pci);
	}
}

TEST(text_without_a_device_is_refused) {
	static const char *const bad[] = {"", ",iface=x", "123", "vdev:", "0000:01:00", "-tap0"};
	struct weir_devargs devargs = {.name = "before"};
	char text[WEIR_DEVARGS_BYTES];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(weir_devargs_parse(bad[i], &devargs), -EINVAL);
	}
	memset(text, 'a', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(weir_devargs_parse(text, &devargs), -ENAMETOOLONG);
	assert_string_equal(devargs.name, "before");
}

TEST(arguments_are_found_by_their_whole_key) {
	struct weir_devargs devargs;
	char value[16] = "before";

	assert_int_equal(
		weir_devargs_parse("net_pcap0,rx_iface=a,iface=lb0,empty=,tail=end", &devargs), 0);
	assert_true(weir_devargs_get(&devargs, "iface", value, sizeof(value)));
	assert_string_equal(value, "lb0");
	assert_true(weir_devargs_get(&devargs, "tail", value, sizeof(value)));
	assert_string_equal(value, "end");
	assert_true(weir_devargs_get(&devargs, "empty", value, sizeof(value)));
	assert_string_equal(value, "");
	assert_false(weir_devargs_get(&devargs, "ifac", value, sizeof(value)));
	assert_false(weir_devargs_get(&devargs, "net_pcap0", value, sizeof(value)));
	assert_false(weir_devargs_get(&devargs, "iface", value, 3));
	assert_true(weir_devargs_is(&devargs, "net_pcap"));
	assert_false(weir_devargs_is(&devargs, "net_pca"));
}

TEST(arguments_are_appended_up_to_the_limit) {
	struct weir_devargs devargs;
	char value[900];

	assert_int_equal(weir_devargs_parse("net_af_xdp0", &devargs), 0);
	assert_int_equal(weir_devargs_append(&devargs, "queue_count", "2"), 0);
	assert_string_equal(devargs.text, "net_af_xdp0,queue_count=2");
	memset(value, 'p', sizeof(value) - 1);
	value[sizeof(value) - 1] = '\0';
	assert_int_equal(weir_devargs_append(&devargs, "a", value), 0);
	assert_int_equal(weir_devargs_append(&devargs, "b", value), -ENAMETOOLONG);
	assert_null(strstr(devargs.text, ",b="));
}
