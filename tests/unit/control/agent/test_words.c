// SPDX-License-Identifier: BSD-3-Clause
//
// Tests of names of services (named_services.h), and of lines that announce states (word_line.h).
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "exec_notify.h"
#include "named_services.h"
#include "test.h"
#include "word_line.h"

static struct weir_named_services services;
static char why[160];

static int add(const char *value) {
	why[0] = '\0';
	return weir_named_services_add(&services, value, why, sizeof(why));
}

static int allow(const char *value) {
	why[0] = '\0';
	return weir_named_services_allow(&services, value, why, sizeof(why));
}

static void expect_refused(int r, const char *text) {
	assert_int_equal(r, -EINVAL);
	assert_string_equal(why, text);
}

TEST(words_services_have_ports) {
	services = (struct weir_named_services){0};
	assert_int_equal(add("web=80,443/tcp"), 0);
	assert_int_equal(add("dns=53,53/udp"), 0);
	assert_int_equal(services.count, 2);
	assert_string_equal(services.service[0].name, "web");
	assert_int_equal(services.service[0].port_count, 2);
	assert_int_equal(services.service[0].port[1].port, 443);
	assert_int_equal(services.service[0].port[1].protocol, IPPROTO_TCP);
	assert_int_equal(services.service[1].port[1].protocol, IPPROTO_UDP);
	assert_int_equal(allow("nginx=web"), 0);
	assert_string_equal(services.service[0].user, "nginx");
	assert_string_equal(services.service[1].user, "");
}

TEST(words_services_share_no_port) {
	services = (struct weir_named_services){0};
	assert_int_equal(add("web=80"), 0);
	expect_refused(add("other=443,80"),
		"has port 80, which is already a port of service web; use each port once");
	expect_refused(add("other=443,443"),
		"has port 443, which is already a port of service other; use each port once");
	expect_refused(add("web=443"), "is a second service with this name; use each name once");
	assert_int_equal(services.count, 1);
	assert_int_equal(add("other=443,80/udp"), 0);
	expect_refused(allow("nginx=dns"),
		"names an unknown service; add the service with --service NAME=PORT");
	assert_int_equal(allow("nginx=web"), 0);
	expect_refused(allow("bind=web"), "is a second user of service web; use one user");
}

TEST(words_services_fit_into_an_answer) {
	services = (struct weir_named_services){0};
	assert_int_equal(add("a=1,2,3,4,5,6,7,8,9,10,11"), 0);
	expect_refused(
		add("b=12,13"), "has too many ports; use at most 12 in all services together");
	assert_int_equal(add("b=12"), 0);
}

TEST(words_services_have_strict_names) {
	static const char *const bad[] = {"", "=80", "web", "web=", "web=80,", "web=,80", "web=0",
		"web=65536", "web=80/sctp", "web=-1", "web= 80", "../web=80", "a/b=80", ".web=80",
		"-web=80", "we b=80", "w\xc3\xa9=80", "web=80=443", "web=99999999999999999999",
		"abcdefghijklmnopqrstuvwxyz012345=80"};
	static const char *const bad_users[] = {"", "nginx", "=web",
		"nginx=", "0123456789012345678901234567890123456789012345678901234567890123=web"};

	services = (struct weir_named_services){0};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(add(bad[i]), -EINVAL);
		assert_string_not_equal(why, "");
	}
	assert_int_equal(services.count, 0);
	assert_int_equal(add("abcdefghijklmnopqrstuvwxyz01234=80"), 0);
	assert_int_equal(add("web_2.b-c=65535"), 0);
	for (size_t i = 0; i < sizeof(bad_users) / sizeof(bad_users[0]); i++) {
		assert_int_equal(allow(bad_users[i]), -EINVAL);
	}
}

static int read_lines(const char *text, enum weir_health_word *ret) {
	return weir_word_lines_read(text, strlen(text), ret);
}

static void expect_word(const char *text, enum weir_health_word word) {
	enum weir_health_word found = WEIR_HEALTH_WORD_COUNT;

	assert_int_equal(read_lines(text, &found), 0);
	assert_int_equal(found, word);
}

TEST(words_lines_have_a_word) {
	expect_word("lame-duck\n", WEIR_HEALTH_WORD_LAME_DUCK);
	expect_word("lame-duck", WEIR_HEALTH_WORD_LAME_DUCK);
	expect_word("ready\r\n", WEIR_HEALTH_WORD_READY);
	expect_word("starting \n", WEIR_HEALTH_WORD_STARTING);
	expect_word("down\n", WEIR_HEALTH_WORD_DOWN);
	expect_word("status\n", WEIR_HEALTH_WORD_NONE);
	expect_word("\n", WEIR_HEALTH_WORD_NONE);
	expect_word("", WEIR_HEALTH_WORD_NONE);
	expect_word("READY=1", WEIR_HEALTH_WORD_READY);
	expect_word("STATUS=lame-duck\nSTOPPING=1\nMAINPID=3\n", WEIR_HEALTH_WORD_LAME_DUCK);
	expect_word("RELOADING=1\n", WEIR_HEALTH_WORD_NONE);
	expect_word("lame-duck\nstatus\nready\n\n", WEIR_HEALTH_WORD_READY); // the last line
}

TEST(words_lines_are_refused_as_a_whole) {
	static const char *const bad[] = {"lame", "lame-ducks\n", "Ready\n", " ready\n",
		"ready now\n", "ready\nx\n", "1A=1\n", "=1\n", "stopping=1\n", "lame-duck web\n"};
	enum weir_health_word word = WEIR_HEALTH_WORD_COUNT;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(read_lines(bad[i], &word), -EINVAL);
	}
	assert_int_equal(weir_word_lines_read("ready\0\n", 7, &word), -EINVAL);
	assert_int_equal(word, WEIR_HEALTH_WORD_COUNT); // unchanged
}

// Compare field by field, because the padding between fields may differ.
static void assert_same_reply(
	const struct weir_word_reply *found, const struct weir_word_reply *wanted) {
	assert_int_equal(found->word, wanted->word);
	assert_int_equal(found->balancers, wanted->balancers);
	assert_int_equal(found->pending, wanted->pending);
	assert_int_equal(found->port_count, wanted->port_count);
	for (uint32_t i = 0; i < wanted->port_count; i++) {
		assert_int_equal(found->port[i].port, wanted->port[i].port);
		assert_int_equal(found->port[i].protocol, wanted->port[i].protocol);
	}
}

TEST(words_reply_is_read_as_it_was_written) {
	struct weir_word_reply reply = {.word = WEIR_HEALTH_WORD_LAME_DUCK,
		.balancers = 64,
		.pending = 3,
		.port = {{80, IPPROTO_TCP}, {53, IPPROTO_UDP}},
		.port_count = 2};
	struct weir_word_reply found = {0};
	char text[WEIR_WORD_REPLY_BYTES];

	assert_string_equal(weir_word_reply_write("web", &reply, text),
		"web: lame-duck, balancers 64, pending 3, ports 80 53/udp\n");
	assert_int_equal(weir_word_reply_read(text, &found), 0);
	assert_same_reply(&found, &reply);
	reply.port_count = WEIR_PORT_WORDS_MOST;
	for (uint16_t i = 0; i < WEIR_PORT_WORDS_MOST; i++) {
		reply.port[i] = (struct weir_service_port){65000 + i, IPPROTO_UDP};
	}
	reply.balancers = reply.pending = 999999999;
	assert_int_equal(
		weir_word_reply_read(
			weir_word_reply_write("abcdefghijklmnopqrstuvwxyz01234", &reply, text),
			&found),
		0); // the longest reply
	assert_same_reply(&found, &reply);
}

TEST(words_reply_that_is_none_is_refused) {
	static const char *const bad[] = {"", "\n",
		"error: user 7 may not announce for service web\n",
		"web: lame-duck, balancers 1, pending 0, ports 80", // a truncated reply
		"web: lame-duck, balancers 1, pending 0, ports 80\nmore",
		"web: lame-duck, balancers 1, pending 0, port 80\n",
		"web: lame-duck, balancers 1, pending 0, ports 80x\n",
		"web: lame-duck, balancers 1, pending 0, ports 1 2 3 4 5 6 7 8 9 10 11 12 13\n",
		"web: lame-duck, balancers 9999999999, pending 0, ports 80\n",
		"web: lame-duck, balancers 2, pending -1, ports 80\n",
		"web: asleep, balancers 1, pending 0, ports 80\n",
		"web: nothing, balancers 1, pending 0, ports 80\n",
		"a b: ready, balancers 1, pending 0, ports 80\n"};
	struct weir_word_reply reply;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(weir_word_reply_read(bad[i], &reply), -EINVAL);
	}
}

TEST(words_notification_goes_on_without_ids_and_descriptors) {
	char to[WEIR_EXEC_MESSAGE_BYTES];

	assert_string_equal(weir_exec_notify_filter("READY=1\nMAINPID=7\nSTATUS=up\n", to),
		"READY=1\nSTATUS=up");
	assert_string_equal(weir_exec_notify_filter("BARRIER=1", to), "");
	assert_string_equal(
		weir_exec_notify_filter("FDSTORE=1\nFDNAME=a\n\nWATCHDOG=1", to), "WATCHDOG=1");
	assert_string_equal(weir_exec_notify_filter("", to), "");
}
