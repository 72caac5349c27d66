// SPDX-License-Identifier: BSD-3-Clause
//
// Tests of change_vips.h with two services s0 (TCP) and s1 (UDP), which have one bind each. The
// tests add further binds to s0.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "change_rig.h"
#include "change_vips.h"

static int setup(void **state) {
	struct rig *rig = change_rig_open();

	rig->from->services[0].health_check.type = WEIR_CHECK_TCP;
	rig->from->services[0].health_check.via = WEIR_VIA_DATA_PATH;
	rig->to->services[0].health_check = rig->from->services[0].health_check;
	*state = rig;
	return 0;
}

TEST_EACH(setup, change_rig_close);

// Gives service s0 of the new configuration a bind.
static void add_bind(struct rig *rig, const char *address, uint8_t protocol, uint16_t port) {
	struct weir_config_service *service = &rig->to->services[0];
	struct weir_config_bind *binds =
		realloc(service->binds, (service->bind_count + 1) * sizeof(*binds));

	assert_non_null(binds);
	service->binds = binds;
	binds[service->bind_count] = (struct weir_config_bind){
		.protocol = protocol, .port_first = port, .port_last = port};
	assert_int_equal(weir_address_parse(address, &binds[service->bind_count].address), 0);
	service->bind_count++;
}

static void assert_warning(const struct rig *rig, const char *reason) {
	struct weir_config_errors errors = {0};

	assert_int_equal(weir_change_vips_warn(rig->from, rig->to, &errors), 0);
	assert_int_equal(errors.warning_count, reason != NULL ? 1 : 0);
	if (reason != NULL) {
		assert_string_equal(errors.warning[0].path, "services[0].binds");
		assert_string_equal(errors.warning[0].reason, reason);
	}
	weir_config_errors_fini(&errors);
}

TEST(further_vips_of_checks_are_warned_of) {
	struct rig *rig = *state;
	const uint16_t port = rig->to->services[0].binds[0].port_first;

	assert_warning(rig, NULL);
	add_bind(rig, "203.0.113.13", IPPROTO_TCP, port);
	assert_warning(rig,
		"checks via the data path will cover 203.0.113.13, too: a backend without this "
		"address fails its checks for all VIPs of the service; see weirctl doctor");
	rig->to->services[0].on_backend_down = WEIR_ON_BACKEND_DOWN_RESET;
	assert_warning(rig,
		"checks via the data path will cover 203.0.113.13, too: a backend without this "
		"address fails its checks for all VIPs of the service, and its flows are reset; "
		"see weirctl doctor");
	add_bind(rig, "2001:db8:ffff:ffff:ffff:ffff:ffff:fff0", IPPROTO_TCP, port);
	add_bind(rig, "2001:db8:ffff:ffff:ffff:ffff:ffff:fff1", IPPROTO_TCP, port);
	add_bind(rig, "2001:db8:ffff:ffff:ffff:ffff:ffff:fff2", IPPROTO_TCP, port);
	assert_warning(rig,
		"checks via the data path will cover 203.0.113.13, "
		"2001:db8:ffff:ffff:ffff:ffff:ffff:fff0 and 2 more VIPs, too: a backend without "
		"these addresses fails its checks for all VIPs of the service, and its flows are "
		"reset; see weirctl doctor");
	// A service that is new has no clients yet.
	snprintf(rig->to->services[0].name, WEIR_CONFIG_NAME_BYTES, "other");
	assert_warning(rig, NULL);
}

TEST(vips_that_no_check_covers_are_not_warned_of) {
	struct rig *rig = *state;
	const uint16_t port = rig->to->services[0].binds[0].port_first;

	add_bind(rig, "203.0.113.13", IPPROTO_UDP, port);
	add_bind(rig, "203.0.113.14", IPPROTO_TCP, (uint16_t)(port + 1));
	assert_warning(rig, NULL);
	add_bind(rig, "203.0.113.15", IPPROTO_TCP, port);
	rig->to->services[0].health_check.via = WEIR_VIA_DIRECT;
	assert_warning(rig, NULL);
	rig->to->services[0].health_check.via = WEIR_VIA_DATA_PATH;
	rig->to->services[0].health_check.type = WEIR_CHECK_NONE;
	assert_warning(rig, NULL);
}

// If checks change to the data path, they check VIPs that no check has used before.
TEST(checks_that_change_to_the_data_path_are_warned_of) {
	struct rig *rig = *state;
	char address[INET6_ADDRSTRLEN], reason[320];

	rig->from->services[0].health_check.via = WEIR_VIA_DIRECT;
	snprintf(reason, sizeof(reason),
		"checks via the data path will cover %s: a backend without this address fails its "
		"checks for all VIPs of the service; see weirctl doctor",
		weir_address_format(
			&rig->to->services[0].binds[0].address, address, sizeof(address)));
	assert_warning(rig, reason);
}

// Checks with the same port cover the same VIPs, which are listed once.
TEST(own_checks_of_many_backends_are_fast) {
	enum { MANY = 20000 };
	struct rig *rig = *state;
	struct weir_config_service *service = &rig->to->services[0];
	const struct weir_config_service before = *service;
	const uint16_t port = service->binds[0].port_first;
	struct weir_config_backend *backends = calloc(MANY, sizeof(*backends));
	struct weir_config_health_check other = service->health_check;
	clock_t start;

	assert_non_null(backends);
	for (unsigned int i = 1; i < WEIR_CONFIG_BINDS_MAX; i++) {
		char address[32];

		snprintf(address, sizeof(address), "203.0.113.%u", i);
		add_bind(rig, address, IPPROTO_TCP, i == 1 ? 99 : port);
	}
	other.port = 99;
	for (uint32_t i = 0; i < MANY; i++) {
		backends[i].health_check = i == MANY - 1 ? &other : &service->health_check;
	}
	service->backends = backends;
	service->backend_count = MANY;
	start = clock();
	assert_warning(rig,
		"checks via the data path will cover 203.0.113.2, 203.0.113.3 and 253 more VIPs, "
		"too: a backend without these addresses fails its checks for all VIPs of the "
		"service; see weirctl doctor");
	assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 1.0);
	service->backends = before.backends;
	service->backend_count = before.backend_count;
	free(backends);
}
