// SPDX-License-Identifier: BSD-3-Clause
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit.h"
#include "test.h"

static uint64_t test_ms; // the clock of these tests

static uint64_t test_clock(void) {
	return test_ms;
}

struct lab {
	FILE *file;
	struct weir_log log;
	struct weir_audit *audit;
	const struct weir_audit_entry *entries[WEIR_AUDIT_ENTRIES];
	char text[1 << 18];
};

static int setup(void **state) {
	struct lab *lab = calloc(1, sizeof(*lab));

	lab->file = tmpfile();
	test_ms = 100000;
	*state = lab;
	lab->log = (struct weir_log){.fd = fileno(lab->file), .level = WEIR_LOG_ERROR};
	return weir_audit_create(&lab->log, test_clock, &lab->audit);
}

static int teardown(void **state) {
	struct lab *lab = *state;

	weir_audit_free(lab->audit);
	fclose(lab->file);
	free(lab);
	return 0;
}

static const char *written(struct lab *lab) {
	ssize_t n = pread(fileno(lab->file), lab->text, sizeof(lab->text) - 1, 0);

	lab->text[n > 0 ? n : 0] = '\0';
	return lab->text;
}

static unsigned int lines(struct lab *lab) {
	unsigned int count = 0;

	for (const char *c = written(lab); *c != '\0'; c++) {
		count += *c == '\n';
	}
	return count;
}

static void add_change(struct lab *lab, uint32_t n) {
	char weight[16];
	struct weir_audit_event event = {.who = {.known = true, .uid = 7, .gid = 8, .pid = 9},
		.command = "weight.set",
		.object = "web/web-1",
		.before = "0",
		.after = weight};

	snprintf(weight, sizeof(weight), "%u", n);
	weir_audit_add(lab->audit, &event);
}

static void refuse_object(
	struct lab *lab, uid_t uid, const char *command, const char *object, const char *why) {
	struct weir_audit_event event = {.who = {.known = true, .uid = uid, .gid = 8, .pid = 9},
		.command = command,
		.object = object,
		.before = "0",
		.after = "",
		.code = "forbidden",
		.why = why};

	weir_audit_add(lab->audit, &event);
}

static void refuse(struct lab *lab, uid_t uid, const char *command, const char *why) {
	refuse_object(lab, uid, command, "web/web-1", why);
}

static void add_refusal(struct lab *lab, uid_t uid, const char *command) {
	refuse(lab, uid, command, "may only read");
}

// The log level of this test is error.
TEST(audit_is_in_the_log_at_any_level, setup, teardown) {
	struct lab *lab = *state;

	add_change(lab, 5);
	add_refusal(lab, 4, "backend.drain");
	assert_non_null(strstr(
		written(lab), "info  audit: weight.set web/web-1: 0 -> 5 (uid 7, gid 8, pid 9)\n"));
	assert_non_null(strstr(written(lab), "warn  audit: backend.drain web/web-1: forbidden: "
					     "may only read (uid 4, gid 8, pid 9)\n"));
}

TEST(audit_keeps_the_newest_changes_in_order, setup, teardown) {
	struct lab *lab = *state;
	uint32_t count;

	for (uint32_t i = 0; i < WEIR_AUDIT_CHANGES + 10; i++) {
		add_change(lab, i);
	}
	count = weir_audit_list(lab->audit, lab->entries);
	assert_int_equal(count, WEIR_AUDIT_CHANGES);
	for (uint32_t i = 0; i < count; i++) {
		assert_int_equal(atoi(lab->entries[i]->after), (int)i + 10);
	}
	assert_int_equal(lines(lab), WEIR_AUDIT_CHANGES + 10); // no line is suppressed
}

// A read-only user is refused 10,000 times. Then 1,000 other users are refused once each.
TEST(refusals_displace_no_change_and_do_not_flood_the_log, setup, teardown) {
	struct lab *lab = *state;
	unsigned int before;
	uint32_t count;

	add_change(lab, 1);
	before = lines(lab);
	for (int i = 0; i < 10000; i++) {
		add_refusal(lab, 4, "backend.drain");
	}
	assert_int_equal(lines(lab), before + 1);
	assert_int_equal(weir_audit_list(lab->audit, lab->entries), 2);
	assert_int_equal(lab->entries[1]->times, 10000);
	test_ms += WEIR_AUDIT_REPEAT_MS;
	add_refusal(lab, 4, "backend.drain");
	assert_int_equal(lines(lab), before + 2);
	assert_non_null(strstr(written(lab), ", 10000 refusals since the last log line\n"));
	for (uid_t uid = 0; uid < 1000; uid++) {
		add_refusal(lab, 1000 + uid, "backend.drain");
	}
	count = weir_audit_list(lab->audit, lab->entries);
	assert_int_equal(count, 1 + WEIR_AUDIT_REFUSALS);
	assert_string_equal(lab->entries[0]->command, "weight.set");
	assert_int_equal(lab->entries[count - 1]->who.uid, 1999);
}

TEST(requested_names_cannot_forge_a_line, setup, teardown) {
	struct lab *lab = *state;
	struct weir_audit_event event = {.command = "backend.drain",
		.object = "x\n2026-01-01T00:00:00.000Z info  audit: all is well\x1b[2J",
		.before = "",
		.after = "",
		.code = "not-found",
		.why = "\n\n"};

	weir_audit_add(lab->audit, &event);
	assert_int_equal(lines(lab), 1);
	assert_null(strchr(written(lab), '\x1b'));
}

TEST(long_lists_of_changes_are_truncated_between_changes) {
	struct weir_change changes[100];
	struct weir_difference difference = {.change = changes, .count = 100};
	char what[] = "service web backend web-1 weight", one[] = "1", two[] = "2";
	char text[128], whole[256];

	for (uint32_t i = 0; i < 100; i++) {
		changes[i] = (struct weir_change){
			.kind = WEIR_CHANGE_CHANGE, .what = what, .from = one, .to = two};
	}
	weir_audit_difference(&difference, text, sizeof(text));
	assert_string_equal(text, "100 changes: change service web backend web-1 weight: 1 -> 2; "
				  "and 99 more");
	difference.count = 2;
	weir_audit_difference(&difference, whole, sizeof(whole));
	assert_string_equal(whole, "2 changes: change service web backend web-1 weight: 1 -> 2; "
				   "change service web backend web-1 weight: 1 -> 2");
	difference.count = 0;
	assert_string_equal(weir_audit_difference(&difference, text, sizeof(text)), "0 changes");
}

TEST(refusals_for_different_reasons_are_separate, setup, teardown) {
	struct lab *lab = *state;

	refuse(lab, 4, "weight.set", "weight 70000 is above 65535");
	refuse(lab, 4, "weight.set", "no such backend: \"web/web-9\"");
	refuse(lab, 4, "weight.set", "weight 70000 is above 65535");
	assert_int_equal(weir_audit_list(lab->audit, lab->entries), 2);
	assert_string_equal(lab->entries[0]->why, "no such backend: \"web/web-9\"");
	assert_int_equal(lab->entries[0]->times, 1);
	assert_int_equal(lab->entries[1]->times, 2);
	assert_int_equal(lines(lab), 2);
}

TEST(refusals_about_different_objects_are_separate, setup, teardown) {
	struct lab *lab = *state;

	refuse_object(lab, 4, "backend.drain", "web/web-1", "may only read");
	refuse_object(lab, 4, "backend.drain", "web/web-2", "may only read");
	refuse_object(lab, 4, "backend.drain", "web/web-1", "may only read");
	assert_int_equal(weir_audit_list(lab->audit, lab->entries), 2);
	assert_string_equal(lab->entries[0]->object, "web/web-2");
	assert_string_equal(lab->entries[1]->object, "web/web-1");
	assert_int_equal(lab->entries[1]->times, 2);
	assert_int_equal(lines(lab), 2);
}

// The reason of a refused reload ends with the remedy.
TEST(long_reason_is_complete, setup, teardown) {
	static const char remedy[] = "restart weir-dataplane, then weir-control reloads the file";
	struct lab *lab = *state;
	char why[640] = "";
	size_t used = sizeof(why) - sizeof(remedy);

	memset(why, 'x', used);
	memcpy(why + used, remedy, sizeof(remedy));
	refuse(lab, 4, "config.reload", why);
	assert_int_equal(weir_audit_list(lab->audit, lab->entries), 1);
	assert_string_equal(lab->entries[0]->why, why);
	assert_non_null(
		strstr(written(lab), "then weir-control reloads the file (uid 4, gid 8, pid 9)\n"));
}

// A reason may contain a name that the user has chosen. So one user can cause many different
// reasons.
TEST(reasons_of_a_user_neither_displace_others_nor_flood_the_log, setup, teardown) {
	struct lab *lab = *state;
	char why[WEIR_AUDIT_WHY_BYTES + 50];
	uint32_t count;

	add_refusal(lab, 5, "backend.drain");
	for (int i = 0; i < 1000; i++) {
		snprintf(why, sizeof(why), "no such backend: \"%d\"", i);
		refuse(lab, 4, "backend.drain", why);
	}
	count = weir_audit_list(lab->audit, lab->entries);
	assert_int_equal(count, 1 + WEIR_AUDIT_REASONS);
	assert_int_equal(lab->entries[0]->who.uid, 5);
	assert_string_equal(lab->entries[count - 1]->why, "no such backend: \"999\"");
	assert_int_equal(lab->entries[count - 1]->times, 1);
	assert_int_equal(lines(lab), 1 + WEIR_AUDIT_REASONS);
	test_ms += WEIR_AUDIT_REPEAT_MS;
	memset(why, 'x', sizeof(why) - 1); // two reasons that are equal once they are truncated
	why[sizeof(why) - 1] = '\0';
	refuse(lab, 4, "backend.drain", why);
	refuse(lab, 4, "backend.drain", why);
	assert_int_equal(lines(lab), 2 + WEIR_AUDIT_REASONS);
	assert_non_null(strstr(written(lab), ", 125 refusals since the last log line\n"));
	count = weir_audit_list(lab->audit, lab->entries);
	assert_int_equal(lab->entries[count - 1]->times, 2);
}
