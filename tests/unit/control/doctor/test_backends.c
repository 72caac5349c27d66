// SPDX-License-Identifier: BSD-3-Clause
#include <sched.h>
#include <unistd.h>

#include "doctor.h"
#include "shell.h"
#include "watch_lab.h"

static struct weir_doctor look_with(void (*check)(struct weir_doctor *doctor), const char *text) {
	struct weir_doctor doctor = {.root = "", .config_path = "weir.json"};
	struct weir_config_errors errors;
	struct weir_config *config = NULL;

	assert_int_equal(weir_config_parse(text, strlen(text), &config, &errors), 0);
	weir_config_errors_fini(&errors);
	doctor.config = config;
	check(&doctor);
	weir_config_free(config);
	return doctor;
}

static struct weir_doctor look(const char *text) {
	return look_with(weir_doctor_check_backends, text);
}

#define CONFIG(ports) \
	"{\"instance\": {\"name\": \"lb\"}, \"ports\": [" ports "], \"services\": [{\"name\": " \
	"\"web\", \"binds\": [{\"address\": \"192.0.2.1\", \"protocol\": \"tcp\", \"port\": " \
	"80}], \"backends\": [{\"name\": \"web-1\", \"address\": \"10.0.0.11\"}]}]}"

#define PORTS \
	"\"instance\": {\"name\": \"lb\"}, \"ports\": [{\"name\": \"wan\", \"device\": " \
	"\"net_af_xdp0,iface=lb2\"}], "
#define PEER(forwarding) \
	"{" PORTS "\"services\": [{\"name\": \"web\", \"forwarding\": \"" forwarding "\", " \
	"\"binds\": [{\"address\": \"192.0.2.1\", \"protocol\": \"tcp\", \"port\": 80}], " \
	"\"backends\": [{\"name\": \"web-1\", \"address\": \"10.3.0.11\"}]}]}"

static pid_t peer;

// Makes the interface lb2, and a peer that answers at 10.3.0.11.
static void make_peer(void) {
	static const char *const words[] = {"unshare", "--net", "sleep", "600", NULL};

	peer = watch_lab_start(words);
	SHELL("for i in $(seq 500); do [ \"$(readlink /proc/%d/ns/net)\" != "
	      "\"$(readlink /proc/%d/ns/net)\" ] && exit; sleep 0.01; done; exit 1",
		peer, getpid());
	SHELL("sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 &&"
	      "ip link add lb2 type veth peer name eth0 netns %d && ip link set lb2 up &&"
	      "ip addr add 10.3.0.2/24 dev lb2 && ip addr add 10.3.0.5/24 dev lb2 &&"
	      "nsenter -t %d -n sh -c 'ip link set lo up && ip link set eth0 up && "
	      "ip addr add 10.3.0.11/24 dev eth0'",
		peer, peer);
}

static void expect(
	const char *text, enum weir_finding_level level, const char *found, const char *cure) {
	struct weir_doctor doctor = look(text);

	assert_int_equal(doctor.findings.count, 1);
	assert_int_equal(doctor.findings.list[0].level, level);
	// With connection tracking, the text also mentions firewalls.
	assert_memory_equal(doctor.findings.list[0].found, found, strlen(found));
	assert_string_equal(doctor.findings.list[0].cure, cure);
	weir_findings_fini(&doctor.findings);
}

TEST_GROUP(watch_lab_enter);

// An MTU that has room for the direct request only stands for a firewall of this host.
TEST(tunnel_is_not_probed_if_the_kernel_does_not_send) {
	make_peer();
	SHELL("ip link set lb2 mtu 68");
	expect(PEER("ipip"), WEIR_FINDING_NOTICE,
		"10.3.0.11 answers, but was not probed through the tunnel: the kernel does not "
		"send ipip packets: Message too long",
		"ip route get 10.3.0.11; nft list ruleset # find the rule that drops packets to "
		"this address");
	SHELL("ip link set lb2 mtu 1500");
}

// Else the backend would answer ARP requests for the VIP.
TEST(vip_is_added_after_arp_is_restricted) {
	expect(PEER("l2"), WEIR_FINDING_FAULT,
		"answers, but VIP 192.0.2.1 does not answer: the VIP is not configured on the "
		"backend",
		"ssh 10.3.0.11 'sysctl -w net.ipv4.conf.all.arp_ignore=1 "
		"net.ipv4.conf.all.arp_announce=2 && ip addr add 192.0.2.1/32 dev lo'");
}

TEST(route_with_another_mtu_keeps_the_source_address) {
	SHELL("nsenter -t %d -n ip addr add 192.0.2.1/32 dev lo &&"
	      "nsenter -t %d -n ip link set eth0 mtu 996 &&"
	      "ip route replace 10.3.0.0/24 dev lb2 src 10.3.0.5",
		peer, peer);
	expect(PEER("l2"), WEIR_FINDING_FAULT,
		"packets of more than 1000 bytes are lost on the path to 10.3.0.11, without an "
		"ICMP \"too big\" message",
		"ip route replace 10.3.0.11/32 dev lb2 src 10.3.0.5 mtu 1000");
	SHELL("ip link del lb2");
	watch_lab_stop(peer);
}

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

static void expect_route(const char *text, const char *found, const char *cure) {
	struct weir_doctor doctor = look(text);

	assert_int_equal(doctor.findings.count, 1);
	assert_int_equal(doctor.findings.list[0].level, WEIR_FINDING_FAULT);
	if (strstr(doctor.findings.list[0].found, found) == NULL) {
		fail_msg("%s", doctor.findings.list[0].found);
	}
	if (cure != NULL) {
		assert_string_equal(doctor.findings.list[0].cure, cure);
	}
	weir_findings_fini(&doctor.findings);
}

#define LB0 "\"name\": \"wan\", \"device\": \"net_af_xdp0,iface=lb0\""
#define TAGGED CONFIG("{" LB0 ", \"vlan\": 20}")

// The directories stand for the port lb0 in a bridge, and a VLAN interface of the bridge. The files
// in /proc/net/vlan stand for VLAN interfaces, which not each kernel has.
TEST(vlan_on_a_bridge_belongs_to_the_port_in_the_bridge) {
	SHELL("ip link del lb0 && ip link add br0.20 type veth peer name other1 &&"
	      "ip link set br0.20 up && ip addr add 10.0.0.2/24 dev br0.20");
	assert_int_equal(unshare(CLONE_NEWNS), 0);
	SHELL("mount --make-rprivate / && mount -t tmpfs none /sys && mount -t tmpfs none /proc &&"
	      "mkdir -p /sys/class/net/lb0/master/upper_br0.20 /proc/net/vlan &&"
	      "echo 'br0.20  VID: 20\t REORDER_HDR: 1  dev->priv_flags: 1021' "
	      ">/proc/net/vlan/br0.20");
	expect_route(TAGGED, "next hop 10.0.0.11 does not", NULL);
}

// The directory stands for the file, which only root can read: the tag may be that of the port.
TEST(vlan_with_an_unreadable_tag_belongs_to_the_port_with_a_tag) {
	SHELL("mv /proc/net/vlan/br0.20 /proc/net/vlan/file && mkdir /proc/net/vlan/br0.20");
	expect_route(TAGGED, "next hop 10.0.0.11 does not", NULL);
	expect_route(CONFIG("{" LB0 "}"),
		"egress interface br0.20 of its route has a VLAN tag, but port wan sends without "
		"a tag",
		"editor weir.json");
	SHELL("rmdir /proc/net/vlan/br0.20 && mv /proc/net/vlan/file /proc/net/vlan/br0.20");
}

TEST(route_with_another_vlan_tag_is_explained) {
	expect_route(CONFIG("{" LB0 "}"),
		"egress interface br0.20 of its route has VLAN tag 20, but port wan sends without "
		"a tag",
		"editor weir.json");
	SHELL("sed -i s/20/30/g /proc/net/vlan/br0.20");
	expect_route(TAGGED,
		"egress interface br0.20 of its route has VLAN tag 30, but port wan sends with "
		"VLAN tag 20: the route must use a VLAN interface with this tag",
		"ip link add link lb0 name lb0.20 type vlan id 20 && ip link set lb0.20 up # then "
		"move the addresses and routes of lb0 to it, or remove \"vlan\" of the port");
	SHELL("rm /proc/net/vlan/br0.20");
	expect_route(TAGGED, "egress interface br0.20 of its route has no VLAN tag", NULL);
	SHELL("mkdir /sys/class/net/br0.20.20");
	expect_route(TAGGED, "egress interface br0.20 of its route has no VLAN tag",
		"ip addr show dev br0.20; ip route show dev br0.20 # move them to br0.20.20");
	SHELL("rm -r /sys/class/net/lb0");
	expect_route(TAGGED, "egress interface br0.20 of the route to 10.0.0.11 is not a dataplane",
		"ip route get 10.0.0.11");
}

// The tap is the interface of a port whose device belongs to DPDK.
TEST(port_has_the_interface_of_its_exception_device) {
	SHELL("ip link add weir-wan type veth peer name other2 && ip link set weir-wan up &&"
	      "ip addr flush dev br0.20 && ip addr add 10.0.0.2/24 dev weir-wan");
	expect_route(CONFIG("{\"name\": \"wan\", \"device\": \"0000:01:00.0\", \"gateway_mac\": "
			    "\"02:00:00:00:00:01\", \"exception\": \"net_tap0,iface=weir-wan\"}, "
			    "{\"name\": \"lan\", \"device\": \"net_af_xdp1,iface=lb1\"}"),
		"next hop 10.0.0.11 does not", NULL);
	SHELL("ip link del weir-wan && ip addr add 10.0.0.2/24 dev br0.20 && umount /proc");
}

#define SERVICE(name, vip, backend) \
	"{\"name\": \"" name "\", \"forwarding\": \"l2\", \"binds\": [{\"address\": \"" vip \
	"\", \"protocol\": \"tcp\", \"port\": 80}], \"health_check\": {\"type\": \"tcp\"%s}, " \
	"\"backends\": [{\"name\": \"a\", \"address\": \"" backend "\"}]}"

// Replies arrive on the interface to the backends. The files stand for a setting of lb3.
TEST(reverse_path_filter_concerns_interfaces_to_the_backends) {
	static const char *const data_path = ", \"via\": \"data-path\"";
	struct weir_doctor doctor;
	char text[2048];

	SHELL("mount -t tmpfs none /proc && mkdir -p /proc/sys/net/ipv4/conf/lb3 &&"
	      "echo 2 >/proc/sys/net/ipv4/conf/lb3/rp_filter &&"
	      "ip link add lb3 type veth peer name other3 && ip link set lb3 up &&"
	      "ip addr add 10.4.0.2/24 dev lb3 && ip addr add 10.5.0.2/24 dev br0.20");
	snprintf(text, sizeof(text),
		"{\"instance\": {\"name\": \"lb\"}, \"ports\": [{" LB0 "}, "
		"{\"name\": \"lan\", \"device\": \"net_af_xdp1,iface=lb3\"}], \"services\": "
		"[" SERVICE("web", "192.0.2.1", "10.4.0.11") ", " SERVICE("dns", "192.0.2.2",
			"10.5.0.11") ", " SERVICE("api", "192.0.2.3", "10.4.0.12") "]}",
		data_path, data_path, "");
	doctor = look_with(weir_doctor_check_rp_filter, text);
	assert_int_equal(doctor.findings.count, 3);
	assert_string_equal(doctor.findings.list[0].subject, "192.0.2.1");
	assert_int_equal(doctor.findings.list[0].level, WEIR_FINDING_FAULT);
	assert_string_equal(doctor.findings.list[0].found,
		"rp_filter drops replies from this VIP on lb3: health checks via the data path get "
		"no result, and weirctl cannot probe the backends");
	assert_string_equal(doctor.findings.list[1].subject, "192.0.2.2");
	assert_string_equal(
		doctor.findings.list[1].found, "rp_filter accepts replies from this VIP on br0.20");
	assert_int_equal(doctor.findings.list[2].level, WEIR_FINDING_NOTICE);
	assert_non_null(strstr(doctor.findings.list[2].found, "would get no result"));
	weir_findings_fini(&doctor.findings);
	SHELL("umount /proc && ip link del lb3");
}

TEST(vip_that_only_a_route_makes_local_has_its_own_cure) {
	struct weir_doctor doctor;

	SHELL("ip route add local 192.0.2.0/24 dev lo");
	doctor = look_with(weir_doctor_check_vips, PEER("ipip"));
	assert_int_equal(doctor.findings.list[0].level, WEIR_FINDING_FAULT);
	assert_string_equal(doctor.findings.list[0].cure,
		"ip route show table local match 192.0.2.1 # delete this route");
	weir_findings_fini(&doctor.findings);
	SHELL("ip addr add 192.0.2.1/32 dev lo");
	doctor = look_with(weir_doctor_check_vips, PEER("ipip"));
	assert_non_null(strstr(doctor.findings.list[0].cure, "ip addr del"));
	weir_findings_fini(&doctor.findings);
}

// The files stand for settings of the first network namespace, which others do not have.
TEST(neighbour_table_has_room_for_gateways_only) {
	struct weir_doctor doctor;

	SHELL("ip route add 10.3.0.0/24 via 10.0.0.1 &&"
	      "mount -t tmpfs none /proc/sys/net/ipv4/neigh &&"
	      "mkdir /proc/sys/net/ipv4/neigh/default &&"
	      "echo 2 >/proc/sys/net/ipv4/neigh/default/gc_thresh2");
	doctor = look_with(weir_doctor_check_neighbour_table,
		"{" PORTS "\"services\": [{\"name\": \"web\", "
		"\"binds\": [{\"address\": \"192.0.2.1\", \"protocol\": \"tcp\", \"port\": 80}], "
		"\"backends\": [{\"name\": \"web-1\", \"address\": \"10.3.0.11\"}, "
		"{\"name\": \"web-2\", \"address\": \"10.3.0.12\"}]}]}");
	assert_int_equal(doctor.findings.count, 1);
	assert_string_equal(
		doctor.findings.list[0].found, "gc_thresh2 is 2, next hops of backends: 1");
	weir_findings_fini(&doctor.findings);
}
