// SPDX-License-Identifier: BSD-3-Clause
#include <sched.h>

#include "doctor.h"
#include "shell.h"
#include "watch_lab.h"

static struct weir_doctor look(const char *text) {
	struct weir_doctor doctor = {.root = "", .config_path = "weir.json"};
	struct weir_config_errors errors;
	struct weir_config *config = NULL;

	assert_int_equal(weir_config_parse(text, strlen(text), &config, &errors), 0);
	weir_config_errors_fini(&errors);
	doctor.config = config;
	weir_doctor_check_backends(&doctor);
	weir_config_free(config);
	return doctor;
}

#define CONFIG(ports) \
	"{\"instance\": {\"name\": \"lb\"}, \"ports\": [" ports "], \"services\": [{\"name\": " \
	"\"web\", \"binds\": [{\"address\": \"192.0.2.1\", \"protocol\": \"tcp\", \"port\": " \
	"80}], \"backends\": [{\"name\": \"web-1\", \"address\": \"10.0.0.11\"}]}]}"

TEST_GROUP(watch_lab_enter);

TEST(backend_without_a_source_address_is_not_probed) {
	struct weir_doctor doctor;

	SHELL("ip link add lb0 type veth peer name other0 &&"
	      "ip link set lb0 up && ip link set other0 up &&"
	      "ip route add 10.0.0.0/24 via inet6 fe80::1 dev lb0");
	doctor = look(CONFIG("{\"name\": \"wan\", \"device\": \"net_af_xdp0,iface=lb0\"}"));
	assert_int_equal(doctor.findings.count, 1);
	assert_int_equal(doctor.findings.list[0].level, WEIR_FINDING_NOTICE);
	assert_string_equal(doctor.findings.list[0].subject, "web/web-1");
	assert_string_equal(doctor.findings.list[0].found,
		"was not probed, because this host has no IPv4 address for the route to 10.0.0.11");
	weir_findings_fini(&doctor.findings);
}

// The directories stand for the port lb0 in a bridge, and a VLAN interface of the bridge.
TEST(vlan_on_a_bridge_belongs_to_the_port_in_the_bridge) {
	struct weir_doctor doctor;

	SHELL("ip link del lb0 && ip link add br0.20 type veth peer name other1 &&"
	      "ip link set br0.20 up && ip addr add 10.0.0.2/24 dev br0.20");
	assert_int_equal(unshare(CLONE_NEWNS), 0);
	SHELL("mount --make-rprivate / && mount -t tmpfs none /sys &&"
	      "mkdir -p /sys/class/net/lb0/master/upper_br0.20");
	doctor = look(
		CONFIG("{\"name\": \"wan\", \"device\": \"net_af_xdp0,iface=lb0\", \"vlan\": 20}"));
	assert_int_equal(doctor.findings.count, 1);
	assert_non_null(strstr(doctor.findings.list[0].found, "next hop 10.0.0.11 does not"));
	weir_findings_fini(&doctor.findings);
}
