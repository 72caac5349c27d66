// SPDX-License-Identifier: BSD-3-Clause
//
// Tests that findings of several services about one fault are merged.
#include "findings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "test.h"

static void add(
	struct weir_findings *findings, const char *subject, const char *found, const char *cure) {
	weir_findings_add(findings, WEIR_FINDING_WARNING, subject, "%s", found);
	weir_findings_cure(findings, "%s", cure);
}

static void expect(
	const struct weir_findings *findings, uint32_t i, const char *subject, const char *found) {
	assert_true(i < findings->count);
	assert_string_equal(findings->list[i].subject, subject);
	assert_string_equal(findings->list[i].found, found);
}

TEST(one_fault_of_several_services_is_one_finding) {
	struct weir_findings findings = {.check = "agents"};

	add(&findings, "early/a", "is silent", "ssh 10.0.0.1 status");
	add(&findings, "web/a", "is silent for 12.4s", "ssh 10.0.0.1 status");
	add(&findings, "web/b", "is silent for 12.4s", "ssh 10.0.0.2 status");
	add(&findings, "dns/a", "is silent for 1m02s", "ssh 10.0.0.1 status");
	add(&findings, "dns/b", "has no VIP", "ssh 10.0.0.2 status");
	add(&findings, "mail/a", "is silent for 900ms", "ssh 10.0.0.1 status");
	add(&findings, "web/c", "is fine", "");
	add(&findings, "dns/c", "is fine", "");
	weir_findings_group(&findings, 1); // not the first finding, which is of an earlier check
	assert_int_equal(findings.count, 6);
	expect(&findings, 0, "early/a", "is silent");
	expect(&findings, 1, "web/a", "is silent for 12.4s; also: dns/a, mail/a");
	expect(&findings, 2, "web/b", "is silent for 12.4s");
	expect(&findings, 3, "dns/b", "has no VIP");
	expect(&findings, 4, "web/c", "is fine");
	expect(&findings, 5, "dns/c", "is fine");
	weir_findings_group(&findings, 6);
	assert_int_equal(findings.count, 6);
	weir_findings_fini(&findings);
	weir_findings_group(&findings, 0);
}

TEST(services_that_do_not_fit_are_counted) {
	struct weir_findings findings = {.check = "agents"};
	const char *found;

	for (int i = 0; i < 100; i++) {
		char subject[96];

		snprintf(subject, sizeof(subject), "a-service-with-a-long-name-%02d/web-1", i);
		add(&findings, subject, "is silent", "ssh 10.0.0.1 status");
	}
	weir_findings_group(&findings, 0);
	assert_int_equal(findings.count, 1);
	found = findings.list[0].found;
	assert_true(strlen(found) < sizeof(findings.list[0].found) - 1);
	assert_non_null(strstr(found, "is silent; also: a-service-with-a-long-name-01/web-1, "));
	assert_string_equal(strstr(found, ", and "), ", and 83 more");
	weir_findings_fini(&findings);
}

// 1,000 hosts that are down must not hide other findings.
TEST(findings_of_one_kind_are_limited) {
	struct weir_findings findings = {.check = "backends"};
	char subject[32], found[64];

	add(&findings, "early", "10.0.0.1 does not answer", "");
	for (int i = 0; i < 1000; i++) {
		snprintf(subject, sizeof(subject), "web/web-%d", i);
		snprintf(found, sizeof(found),
			i % 2 ? "10.0.1.%d does not answer" : "fd00::a%d does not answer", i);
		add(&findings, subject, found, "");
		weir_findings_add(&findings, WEIR_FINDING_OK, subject, "answers");
	}
	add(&findings, "web/vip", "10.0.1.9 answers, but not through the tunnel", "");
	weir_findings_limit(&findings, 1);
	assert_int_equal(findings.count, 1 + 32 + 1000 + 1 + 1);
	expect(&findings, 1, "web/web-0", "fd00::a0 does not answer");
	expect(&findings, findings.count - 2, "web/vip",
		"10.0.1.9 answers, but not through the tunnel");
	expect(&findings, findings.count - 1, "backends", "968 more like that of web/web-0");
	assert_int_equal(findings.list[findings.count - 1].level, WEIR_FINDING_WARNING);
	weir_findings_limit(&findings, findings.count);
	weir_findings_fini(&findings);
	weir_findings_limit(&findings, 0);
}

// Two backends whose names begin alike must not get one subject.
TEST(subject_has_room_for_the_longest_names) {
	struct weir_findings findings = {.check = "health"};
	char subject[2 * WEIR_CONFIG_NAME_BYTES];

	memset(subject, 'a', sizeof(subject));
	subject[sizeof(subject) - 1] = '\0';
	add(&findings, subject, "is silent", "");
	assert_string_equal(findings.list[0].subject, subject);
	weir_findings_fini(&findings);
}

static long left; // allocations of jansson before one that fails

static void *allocate(size_t bytes) {
	return left-- != 0 ? malloc(bytes) : NULL;
}

TEST(json_is_complete_or_out_of_memory) {
	struct weir_findings findings = {.check = "agents"};
	json_t *whole, *json = NULL;

	add(&findings, "web/a", "is silent", "ssh 10.0.0.1 status");
	add(&findings, "web/b", "\xff is not UTF-8", "");
	whole = weir_findings_json(&findings);
	json_set_alloc_funcs(allocate, free);
	for (long n = 0; json == NULL; n++) {
		left = n;
		json = weir_findings_json(&findings);
		assert_true(json != NULL || weir_findings_exit(&findings) == 2);
		findings.out_of_memory = false;
	}
	json_set_alloc_funcs(malloc, free);
	assert_true(json_equal(json, whole));
	json_decref(json);
	json_decref(whole);
	weir_findings_fini(&findings);
}
