// SPDX-License-Identifier: BSD-3-Clause
//
// Tests weirctl import: persistence of IPVS and keepalived becomes affinity, and schedulers that
// hash addresses get hash_fields.
#include "import_lab.h"

struct stay { // settings of persistence
	const char *text; // options of ipvsadm -A, or statements of a virtual_server
	json_int_t ipv4_prefix, ipv6_prefix, timeout_ms; // 0 = not in the result
	const char *policy;
	const char *fields; // NULL = none
	const char *note; // a note in addition to the notes about the scheduler; NULL = none
};

#define FORGETS "an affinity entry expires timeout_ms after the beginning of the client's last flow"
#define HASHES "with policy maglev, affinity has no timeout"
#define SPREADS \
	"also hashes the client address: the clients of a VIP go to different servers, not all " \
	"to one"
#define MAXIMUM "above the maximum of Weir; using 432000 s"

static const struct stay of_ipvs[] = {
	{"-s rr", 0, 0, 0, "round-robin", NULL, NULL},
	{"-s rr -p", 0, 0, 300000, "round-robin", NULL, FORGETS},
	{"-s rr -p 50", 0, 0, 50000, "round-robin", NULL, FORGETS},
	{"-s wlc -p 432000", 0, 0, 432000000, "least-loaded", NULL, FORGETS},
	{"-s rr -p 432001", 0, 0, 432000000, "round-robin", NULL, MAXIMUM},
	{"-s rr -p 2678400", 0, 0, 432000000, "round-robin", NULL, MAXIMUM},
	{"-s rr -p 50 -M 255.255.255.0", 24, 0, 50000, "round-robin", NULL, FORGETS},
	{"-s rr -p 50 -M 128.0.0.0", 1, 0, 50000, "round-robin", NULL, FORGETS},
	{"-s rr -p 50 -M 255.255.255.255", 0, 0, 50000, "round-robin", NULL, FORGETS},
	{"-s rr -p 50 -M 255.255.0.255", 16, 0, 50000, "round-robin", NULL,
		"not a prefix: using its leading 1 bits, ipv4_prefix 16"},
	{"-s rr -p 50 -M 24", 0, 0, 50000, "round-robin", NULL, "no leading 1 bits"},
	{"-s rr -p 50 -M 0.0.0.0", 0, 0, 50000, "round-robin", NULL, "no leading 1 bits"},
	{"-s rr -M 255.255.255.0", 0, 0, 0, "round-robin", NULL, "without persistence"},
	{"-s rr -p 50 --pe sip", 0, 0, 50000, "round-robin", NULL, "does not inspect payload"},
	{"-s sh", 0, 0, 0, "maglev", "source", NULL},
	{"-s sh -b sh-fallback", 0, 0, 0, "maglev", "source", NULL},
	{"-s sh -b sh-fallback,sh-port", 0, 0, 0, "maglev", NULL, NULL},
	{"-s sh -b flag-2", 0, 0, 0, "maglev", NULL, NULL},
	{"-s mh", 0, 0, 0, "maglev", "source", NULL},
	{"-s mh -b mh-fallback,mh-port", 0, 0, 0, "maglev", NULL, NULL},
	{"-s dh", 0, 0, 0, "maglev", "source-destination", SPREADS},
	{"-s lblc", 0, 0, 0, "maglev", "source-destination", SPREADS},
	{"-s lblcr", 0, 0, 0, "maglev", "source-destination", SPREADS},
	{"-s sh -p 60", 0, 0, 60000, "maglev", NULL, HASHES},
	{"-s sh -b sh-port -p 60", 0, 0, 60000, "maglev", NULL, HASHES},
	{"-s dh -p 60", 0, 0, 60000, "maglev", NULL, SPREADS},
	{"-s mh -p 60 -M 255.0.0.0", 8, 0, 60000, "maglev", NULL, HASHES},
};

static const struct stay of_ipvs6[] = {
	{"-s rr -p 50 -M 64", 0, 64, 50000, "round-robin", NULL, FORGETS},
	{"-s rr -p 50 -M 128", 0, 0, 50000, "round-robin", NULL, FORGETS},
	{"-s rr -p 50", 0, 0, 50000, "round-robin", NULL, FORGETS},
};

#define RR "lb_algo rr\n "

static const struct stay of_keepalived[] = {
	{RR "persistence_timeout", 0, 0, 360000, "round-robin", NULL, FORGETS},
	{RR "persistence_timeout 50", 0, 0, 50000, "round-robin", NULL, FORGETS},
	{RR "persistence_timeout 50\n persistence_timeout 70", 0, 0, 70000, "round-robin", NULL,
		FORGETS},
	{RR "persistence_timeout 0", 0, 0, 0, "round-robin", NULL, NULL},
	{RR "persistence_timeout x", 0, 0, 0, "round-robin", NULL, "use a number from 1"},
	{RR "persistence_timeout 2678400", 0, 0, 432000000, "round-robin", NULL, MAXIMUM},
	{RR "persistence_granularity 255.255.255.0", 24, 0, 360000, "round-robin", NULL, FORGETS},
	{RR "persistence_granularity 255.255.255.0\n persistence_timeout 9", 24, 0, 9000,
		"round-robin", NULL, FORGETS},
	{RR "persistence_timeout 9\n persistence_granularity 255.0.255.0", 8, 0, 9000,
		"round-robin", NULL, "not a prefix"},
	{RR "persistence_granularity x", 0, 0, 0, "round-robin", NULL,
		"ignore this statement: use a netmask such as 255.255.255.0"},
	{RR "persistence_timeout 9\n persistence_engine sip", 0, 0, 9000, "round-robin", NULL,
		"does not inspect payload"},
	{"lb_algo sh", 0, 0, 0, "maglev", "source", NULL},
	{"lb_algo sh\n sh-port", 0, 0, 0, "maglev", NULL, NULL},
	{"flag-2\n lb_algo sh", 0, 0, 0, "maglev", NULL, NULL},
	{"lb_algo mh\n mh-fallback", 0, 0, 0, "maglev", "source", NULL},
	{"lb_algo mh\n flag-1\n flag-3\n mh-port", 0, 0, 0, "maglev", NULL, NULL},
	{"lb_algo dh", 0, 0, 0, "maglev", "source-destination", SPREADS},
	{"lb_algo sh\n persistence_timeout 2678400", 0, 0, 432000000, "maglev", NULL, HASHES},
};

static const struct stay of_keepalived6[] = {
	{RR "persistence_granularity 56", 0, 56, 360000, "round-robin", NULL, FORGETS},
	{RR "persistence_granularity 255.255.255.0", 0, 0, 0, "round-robin", NULL,
		"use a prefix length from 1 to 128"},
	{RR "persistence_granularity 129", 0, 0, 0, "round-robin", NULL, "use a prefix length"},
};

// The notes of the service are in line 1 (ipvsadm), or in one of its first lines.
static bool has_note(const struct lab *lab, const char *part) {
	for (int line = 1; line <= 6; line++) {
		if (has_row(lab->import.notes, "why", line, part)) {
			return true;
		}
	}
	return false;
}

static void expect(const struct lab *lab, const struct stay *stay) {
	static const char *const all[] = {FORGETS, HASHES, SPREADS, MAXIMUM, "prefix", "leading"};
	const json_t *affinity = json_object_get(service(lab, 0), "affinity");
	const char *fields = text_in(service(lab, 0), "hash_fields");
	bool right = number_in(affinity, "ipv4_prefix") == stay->ipv4_prefix &&
		     number_in(affinity, "ipv6_prefix") == stay->ipv6_prefix &&
		     number_in(affinity, "timeout_ms") == stay->timeout_ms &&
		     (affinity != NULL) == (stay->timeout_ms > 0) &&
		     strcmp(policy(lab, 0), stay->policy) == 0 &&
		     (fields == NULL) == (stay->fields == NULL) &&
		     (fields == NULL || strcmp(fields, stay->fields) == 0) &&
		     (stay->note == NULL || has_note(lab, stay->note));

	for (size_t i = 0; stay->note == NULL && i < sizeof(all) / sizeof(all[0]); i++) {
		right &= !has_note(lab, all[i]);
	}
	if (!right) {
		fail_msg("%s: %s\n%s", stay->text, lab->text,
			json_dumps(lab->import.notes, JSON_INDENT(1)));
	}
}

static void expect_all(const struct stay *rows, size_t count, const char *format, bool keepalived) {
	for (size_t i = 0; i < count; i++) {
		char text[512];
		struct lab lab;

		snprintf(text, sizeof(text), format, rows[i].text);
		lab = import(text, keepalived, NULL);
		assert_int_equal(json_array_size(lab.import.errors), 0);
		expect(&lab, &rows[i]);
		done(&lab);
	}
}

#define ROWS(rows) rows, sizeof(rows) / sizeof((rows)[0])

TEST(persistence_of_ipvs_becomes_affinity) {
	expect_all(ROWS(of_ipvs), "-A -t 192.0.2.1:80 %s\n-a -t 192.0.2.1:80 -r 10.0.0.1:80 -i\n",
		false);
	expect_all(ROWS(of_ipvs6),
		"-A -t [2001:db8::1]:80 %s\n-a -t [2001:db8::1]:80 -r [2001:db8::2]:80 -i\n",
		false);
}

TEST(persistence_of_keepalived_becomes_affinity) {
	expect_all(ROWS(of_keepalived),
		"virtual_server 192.0.2.1 80 {\n %s\n lb_kind TUN\n protocol TCP\n"
		" real_server 10.0.0.1 80 {\n }\n}\n",
		true);
	expect_all(ROWS(of_keepalived6),
		"virtual_server 2001:db8::1 80 {\n %s\n lb_kind TUN\n protocol TCP\n"
		" real_server 10.0.0.1 80 {\n }\n}\n",
		true);
}

// A group can have addresses of both families. keepalived then reads a netmask or a prefix length.
TEST(granularity_of_a_group_is_of_the_family_of_its_text) {
	static const char format[] =
		"virtual_server_group g {\n 192.0.2.1 80\n 2001:db8::1 80\n}\n"
		"virtual_server group g {\n lb_algo rr\n lb_kind TUN\n protocol TCP\n"
		" persistence_granularity %s\n real_server 10.0.0.1 80 {\n }\n}\n";
	static const struct stay rows[] = {
		{"255.255.255.0", 24, 0, 360000, "round-robin", NULL, NULL},
		{"48", 0, 48, 360000, "round-robin", NULL, NULL}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char text[512];
		struct lab lab;

		snprintf(text, sizeof(text), format, rows[i].text);
		lab = import(text, true, NULL);
		expect(&lab, &rows[i]);
		expect_note(&lab, 9, FORGETS);
		done(&lab);
	}
}

// IPVS requires persistence for services of every port.
TEST(service_of_every_port_has_affinity) {
	struct lab lab = import("virtual_server 192.0.2.1 {\n lb_algo rr\n lb_kind TUN\n"
				" protocol TCP\n real_server 10.0.0.1 {\n }\n}\n",
		true, NULL);

	assert_int_equal(
		number_in(json_object_get(service(&lab, 0), "affinity"), "timeout_ms"), 360000);
	expect_note(&lab, 1, "every port (persistence_timeout 360)");
	done(&lab);
}

// The timeout has no effect with policy maglev, so there is no note about its maximum.
TEST(clipped_timeout_without_effect_has_no_note) {
	struct lab lab = import("-A -t 192.0.2.1:80 -s sh -p 2678400\n"
				"-a -t 192.0.2.1:80 -r 10.0.0.1:80 -i\n",
		false, NULL);

	assert_false(has_note(&lab, MAXIMUM));
	assert_int_equal(json_array_size(lab.import.notes), IPVS_NOTES + 1);
	done(&lab);
}

// sh sends a client to the same server in all services that have the same servers with the same
// weights in the same order. With sh-port the server also depends on the port of the client.
TEST(services_with_the_same_servers_choose_independently) {
	static const struct {
		const char *first, *second; // options of the services
		int weight; // weight of the second server in the second service
		bool noted;
	} rows[] = {{"-s sh", "-s sh", 2, true}, {"-s sh", "-s sh -p 60", 2, true},
		{"-s sh", "-s sh", 3, false}, {"-s sh", "-s sh -b sh-port", 2, false},
		{"-s sh -b sh-port", "-s sh", 2, false}, {"-s mh", "-s mh", 2, false}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char text[512];
		struct lab lab;

		snprintf(text, sizeof(text),
			"-A -t 192.0.2.1:80 %s\n-a -t 192.0.2.1:80 -r 10.0.0.1:80 -i -w 1\n"
			"-a -t 192.0.2.1:80 -r 10.0.0.2:80 -i -w 2\n"
			"-A -t 192.0.2.1:443 %s\n-a -t 192.0.2.1:443 -r 10.0.0.1:443 -i -w 1\n"
			"-a -t 192.0.2.1:443 -r 10.0.0.2:443 -i -w %d\n",
			rows[i].first, rows[i].second, rows[i].weight);
		lab = import(text, false, NULL);
		assert_int_equal(has_row(lab.import.notes, "why", 4,
					 "another server than in the service of line 1"),
			rows[i].noted);
		assert_false(has_row(lab.import.notes, "why", 1, "another server"));
		done(&lab);
	}
}
