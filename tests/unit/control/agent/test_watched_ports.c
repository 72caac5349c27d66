// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "health_state.h"
#include "test.h"
#include "watched_ports.h"

static struct weir_watched_ports ports;

static void watch(uint32_t grace_ms) {
	weir_watched_ports_init(&ports, grace_ms);
	assert_int_equal(weir_watched_ports_add(&ports, 80, IPPROTO_TCP), 0);
	assert_int_equal(weir_watched_ports_add(&ports, 53, IPPROTO_UDP), 0);
}

// Report that port 80 has this number of listeners.
static bool look(uint32_t listeners, uint64_t now_ms) {
	return weir_watched_ports_take(&ports, 0, listeners, now_ms);
}

static void expect(enum weir_port_state state, uint32_t deaths) {
	assert_string_equal(weir_port_state_name(ports.port[0].state), weir_port_state_name(state));
	assert_int_equal(ports.port[0].deaths, deaths);
}

// Close the listener of port 80, and open another listener at once. Returns how long the port is
// then held down, in ms.
static uint64_t restart(uint64_t now_ms) {
	assert_int_equal(ports.port[0].state, WEIR_PORT_OPEN);
	assert_true(look(0, now_ms));
	(void)look(1, now_ms);
	return weir_watched_port_left_ms(&ports.port[0], now_ms);
}

TEST(watched_port_is_added_once) {
	watch(0);
	assert_int_equal(weir_watched_ports_add(&ports, 80, IPPROTO_TCP), 0);
	assert_int_equal(ports.count, 2);
	assert_int_equal(weir_watched_ports_add(&ports, 80, IPPROTO_UDP), 0);
	assert_int_equal(ports.count, 3);
	for (uint16_t i = 1; ports.count < WEIR_WATCHED_PORTS_MAX; i++) {
		assert_int_equal(weir_watched_ports_add(&ports, 1000 + i, IPPROTO_TCP), 0);
	}
	assert_int_equal(weir_watched_ports_add(&ports, 1, IPPROTO_TCP), -ENOSPC);
}

TEST(watched_port_without_a_listener_yet_is_not_down) {
	watch(0);
	assert_false(look(0, 1000));
	expect(WEIR_PORT_UNKNOWN, 0);
	assert_false(look(0, 100000000));
	expect(WEIR_PORT_UNKNOWN, 0);
	assert_false(look(2, 100000001));
	expect(WEIR_PORT_OPEN, 0);
	assert_int_equal(ports.port[0].since_ms, 100000001);
	assert_int_equal(weir_watched_ports_down(&ports), 0);
	assert_int_equal(weir_watched_ports_next_ms(&ports), WEIR_WATCHED_NEVER);
}

TEST(watched_port_is_down_with_its_last_listener) {
	watch(0);
	assert_false(look(3, 1000));
	assert_false(look(1, 1001));
	assert_true(look(0, 1002));
	expect(WEIR_PORT_CLOSED, 1);
	assert_int_equal(weir_watched_ports_down(&ports), 1);
	assert_false(look(0, 1003));
	assert_true(look(1, 1004));
	expect(WEIR_PORT_OPEN, 1);
	assert_false(look(2, 1005));
	assert_int_equal(weir_watched_ports_down(&ports), 0);
}

TEST(watched_port_that_had_a_listener_before_is_down) {
	watch(0);
	weir_watched_ports_had_listener(&ports, 80, IPPROTO_TCP);
	weir_watched_ports_had_listener(&ports, 53, IPPROTO_TCP); // port 53 is watched for UDP only
	weir_watched_ports_had_listener(&ports, 81, IPPROTO_TCP);
	// Before the first reading of the sockets, the state of ports is not known.
	assert_int_equal(weir_watched_ports_down(&ports), 0);
	assert_int_equal(weir_watched_ports_next_ms(&ports), WEIR_WATCHED_NEVER);
	assert_true(look(0, 1000));
	expect(WEIR_PORT_CLOSED, 0);
	assert_int_equal(weir_watched_ports_down(&ports), 1);
	assert_int_equal(ports.port[0].since_ms, 1000);
	assert_true(look(1, 1001));
	expect(WEIR_PORT_OPEN, 0);
	watch(0);
	weir_watched_ports_had_listener(&ports, 80, IPPROTO_TCP);
	assert_false(look(1, 1000)); // the port has a listener again
	weir_watched_ports_had_listener(&ports, 80, IPPROTO_TCP);
	expect(WEIR_PORT_OPEN, 0);
}

TEST(watched_port_that_had_a_listener_before_has_the_grace) {
	watch(5000);
	weir_watched_ports_had_listener(&ports, 80, IPPROTO_TCP);
	assert_false(look(0, 1000));
	assert_int_equal(weir_watched_ports_next_ms(&ports), 6000);
	assert_false(look(0, 5999));
	expect(WEIR_PORT_UNKNOWN, 0);
	assert_true(look(0, 6000));
	expect(WEIR_PORT_CLOSED, 0);
	watch(5000);
	weir_watched_ports_had_listener(&ports, 80, IPPROTO_TCP);
	assert_false(look(0, 1000));
	assert_false(look(1, 2000));
	// the delay begins again, because the port had a listener meanwhile
	assert_false(look(0, 5000));
	expect(WEIR_PORT_OPEN, 0);
	assert_int_equal(weir_watched_ports_next_ms(&ports), 10000);
}

TEST(watched_port_has_a_grace) {
	watch(500);
	look(1, 1000);
	assert_false(look(0, 2000));
	expect(WEIR_PORT_OPEN, 0);
	assert_int_equal(weir_watched_ports_next_ms(&ports), 2500);
	assert_false(look(0, 2499));
	assert_false(look(1, 2499)); // a listener within the delay
	assert_int_equal(weir_watched_ports_next_ms(&ports), WEIR_WATCHED_NEVER);
	assert_false(look(0, 2600));
	assert_false(look(0, 3099));
	assert_true(look(0, 3100));
	expect(WEIR_PORT_CLOSED, 1);
	assert_true(look(1, 3101));
	expect(WEIR_PORT_OPEN, 1);
}

TEST(watched_port_of_a_crash_loop_is_held_down_longer_and_longer) {
	static const uint64_t holds_ms[] = {
		0, 0, 1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000};
	uint64_t now_ms = 1000;

	watch(0);
	look(1, now_ms);
	for (size_t i = 0; i < sizeof(holds_ms) / sizeof(holds_ms[0]); i++) {
		uint64_t hold_ms = restart(now_ms);

		assert_int_equal(hold_ms, holds_ms[i]);
		expect(hold_ms > 0 ? WEIR_PORT_HELD : WEIR_PORT_OPEN, (uint32_t)i + 1);
		if (hold_ms > 0) {
			assert_int_equal(weir_watched_ports_next_ms(&ports), now_ms + hold_ms);
			assert_false(look(1, now_ms + hold_ms - 1));
			assert_true(look(1, now_ms + hold_ms));
		}
		now_ms += hold_ms + 10;
	}
}

TEST(watched_port_that_dies_while_held_down_stays_down) {
	watch(0);
	look(1, 1000);
	assert_int_equal(restart(1000), 0);
	assert_int_equal(restart(1001), 0);
	assert_int_equal(restart(1002), 1000);
	assert_false(look(0, 1500)); // no change of the port's state
	expect(WEIR_PORT_CLOSED, 4);
	assert_false(look(1, 1600));
	expect(WEIR_PORT_HELD, 4);
	assert_int_equal(weir_watched_port_left_ms(&ports.port[0], 1700), 1900);
	assert_true(look(1, 3600));
	expect(WEIR_PORT_OPEN, 4);
}

TEST(watched_port_that_is_held_down_has_the_grace) {
	watch(500);
	look(1, 1000);
	for (uint64_t now_ms = 2000; now_ms <= 4000; now_ms += 1000) {
		look(0, now_ms);
		look(0, now_ms + 500);
		look(1, now_ms + 600);
	}
	expect(WEIR_PORT_HELD, 3);
	assert_false(look(0, 5000)); // held down until 5600
	assert_int_equal(weir_watched_ports_next_ms(&ports), 5500);
	assert_false(look(1, 5400));
	expect(WEIR_PORT_HELD, 3);
	assert_int_equal(weir_watched_ports_next_ms(&ports), 5600);
	assert_false(look(0, 5500));
	// the hold time is over, but the port does not open without a listening socket
	assert_false(look(0, 5600));
	expect(WEIR_PORT_HELD, 3);
	assert_int_equal(weir_watched_ports_next_ms(&ports), 6000);
	assert_false(look(0, 6000));
	expect(WEIR_PORT_CLOSED, 4);
}

TEST(watched_port_forgets_deaths_in_quiet_minutes) {
	uint64_t now_ms = 1000;

	watch(0);
	look(1, now_ms);
	for (int i = 0; i < 5; i++) {
		now_ms += restart(now_ms);
		look(1, now_ms);
	}
	now_ms = ports.port[0].level_ms;
	// The delay was 4000 ms. It is halved for each of three quiet minutes, and doubled by this
	// restart.
	assert_int_equal(restart(now_ms + 3 * WEIR_WATCHED_QUIET_MS), 1000);
	now_ms += 3 * WEIR_WATCHED_QUIET_MS;
	look(1, now_ms + 1000);
	assert_int_equal(restart(now_ms + WEIR_WATCHED_QUIET_MS - 1), 2000);
	now_ms += WEIR_WATCHED_QUIET_MS - 1;
	look(1, now_ms + 2000);
	assert_int_equal(restart(now_ms + 3600000), 0);
}

static struct weir_agent_answer fill(uint32_t wants, enum weir_health_word word) {
	struct weir_agent_answer answer = {
		.word = (uint8_t)word, .why = "started", .given = WEIR_REPORT(ACTIVE)};

	weir_watched_ports_fill(&ports, wants | WEIR_REPORT(QUEUE), &answer);
	assert_true(weir_port_words_are_valid(answer.port_words, answer.port_word_count));
	assert_int_equal(answer.given, WEIR_REPORT(ACTIVE) | (wants & WEIR_AGENT_PORT_WORDS));
	return answer;
}

TEST(watched_ports_that_are_down_have_words) {
	const uint32_t wants = WEIR_AGENT_PORT_WORDS;
	struct weir_agent_answer answer;

	watch(0);
	look(1, 1000);
	weir_watched_ports_take(&ports, 1, 1, 1000);
	assert_int_equal(fill(wants, WEIR_HEALTH_WORD_READY).port_word_count, 0);
	weir_watched_ports_take(&ports, 1, 0, 1001);
	answer = fill(wants, WEIR_HEALTH_WORD_READY);
	assert_int_equal(answer.port_word_count, 1);
	assert_int_equal(answer.port_words[0].port, 53);
	assert_int_equal(answer.port_words[0].protocol, IPPROTO_UDP);
	assert_int_equal(answer.port_words[0].word, WEIR_HEALTH_WORD_DOWN);
	assert_int_equal(answer.port_words[0].reason, WEIR_PORT_REASON_NO_LISTENER);
	assert_int_equal(answer.word, WEIR_HEALTH_WORD_READY);
	for (uint64_t now_ms = 1002; now_ms < 1005; now_ms++) {
		restart(now_ms);
	}
	expect(WEIR_PORT_HELD, 3);
	answer = fill(wants, WEIR_HEALTH_WORD_LAME_DUCK);
	assert_int_equal(answer.port_word_count, 2);
	assert_int_equal(answer.port_words[0].port, 80);
	assert_int_equal(answer.port_words[0].word, WEIR_HEALTH_WORD_DOWN);
	assert_int_equal(answer.port_words[0].reason, WEIR_PORT_REASON_HELD_DOWN);
	assert_int_equal(answer.word, WEIR_HEALTH_WORD_LAME_DUCK);
}

TEST(watched_ports_beyond_those_of_an_answer_take_the_host_down) {
	const uint32_t wants = WEIR_AGENT_PORT_WORDS;

	watch(0);
	look(1, 1000);
	for (uint16_t i = 0; i < WEIR_PORT_WORDS_MOST; i++) {
		assert_int_equal(weir_watched_ports_add(&ports, 1000 + i, IPPROTO_TCP), 0);
		weir_watched_ports_had_listener(&ports, 1000 + i, IPPROTO_TCP);
		weir_watched_ports_take(&ports, 2 + i, 0, 1000);
	}
	assert_int_equal(fill(wants, WEIR_HEALTH_WORD_READY).port_word_count, 12);
	assert_int_equal(fill(wants, WEIR_HEALTH_WORD_READY).word, WEIR_HEALTH_WORD_READY);
	weir_watched_ports_had_listener(&ports, 53, IPPROTO_UDP);
	weir_watched_ports_take(&ports, 1, 0, 1000);
	assert_int_equal(fill(wants, WEIR_HEALTH_WORD_READY).port_word_count, 0);
	assert_int_equal(fill(wants, WEIR_HEALTH_WORD_READY).word, WEIR_HEALTH_WORD_DOWN);
	assert_string_equal(
		fill(wants, WEIR_HEALTH_WORD_READY).why, "13 ports: no listening socket");
	assert_int_equal(fill(wants, WEIR_HEALTH_WORD_LAME_DUCK).word, WEIR_HEALTH_WORD_LAME_DUCK);
	assert_int_equal(fill(0, WEIR_HEALTH_WORD_READY).word, WEIR_HEALTH_WORD_READY);
}

TEST(watched_ports_that_are_all_down_take_the_host_of_an_old_balancer_down) {
	weir_watched_ports_init(&ports, 0);
	assert_int_equal(weir_watched_ports_add(&ports, 80, IPPROTO_TCP), 0);
	assert_int_equal(fill(0, WEIR_HEALTH_WORD_READY).word, WEIR_HEALTH_WORD_READY);
	look(1, 1000);
	look(0, 1001);
	assert_int_equal(fill(0, WEIR_HEALTH_WORD_READY).word, WEIR_HEALTH_WORD_DOWN);
	assert_string_equal(fill(0, WEIR_HEALTH_WORD_READY).why, "1 port: no listening socket");
	assert_int_equal(fill(0, WEIR_HEALTH_WORD_STARTING).word, WEIR_HEALTH_WORD_STARTING);
	assert_int_equal(fill(0, WEIR_HEALTH_WORD_LAME_DUCK).word, WEIR_HEALTH_WORD_LAME_DUCK);
	assert_string_equal(fill(0, WEIR_HEALTH_WORD_LAME_DUCK).why, "started");
	look(1, 1002);
	assert_int_equal(fill(0, WEIR_HEALTH_WORD_READY).word, WEIR_HEALTH_WORD_READY);
}

// --- states announced by applications ---

static bool set_word(enum weir_health_word word) {
	return weir_watched_ports_set_word(&ports, 80, IPPROTO_TCP, word);
}

static void expect_word(enum weir_health_word word, enum weir_port_reason reason) {
	struct weir_port_word found = weir_watched_port_word(&ports.port[0]);

	assert_string_equal(weir_health_word_name((enum weir_health_word)found.word),
		weir_health_word_name(word));
	assert_int_equal(found.reason, reason);
}

TEST(watched_port_has_the_word_of_its_application) {
	struct weir_agent_answer answer;

	watch(0);
	look(1, 1000);
	assert_false(set_word(WEIR_HEALTH_WORD_READY));
	expect_word(WEIR_HEALTH_WORD_NONE, WEIR_PORT_REASON_NONE);
	assert_true(set_word(WEIR_HEALTH_WORD_LAME_DUCK));
	assert_false(set_word(WEIR_HEALTH_WORD_LAME_DUCK));
	expect_word(WEIR_HEALTH_WORD_LAME_DUCK, WEIR_PORT_REASON_APPLICATION);
	answer = fill(WEIR_AGENT_PORT_WORDS, WEIR_HEALTH_WORD_READY);
	assert_int_equal(answer.port_word_count, 1);
	assert_int_equal(answer.port_words[0].port, 80);
	assert_int_equal(answer.port_words[0].word, WEIR_HEALTH_WORD_LAME_DUCK);
	assert_int_equal(answer.word, WEIR_HEALTH_WORD_READY);
	assert_true(set_word(WEIR_HEALTH_WORD_READY));
	expect_word(WEIR_HEALTH_WORD_NONE, WEIR_PORT_REASON_NONE);
	assert_false(weir_watched_ports_set_word(
		&ports, 81, IPPROTO_TCP, WEIR_HEALTH_WORD_DOWN)); // a port that is not watched
	assert_false(weir_watched_ports_set_word(&ports, 80, IPPROTO_UDP, WEIR_HEALTH_WORD_DOWN));
}

TEST(watched_port_is_down_whatever_its_application_announces) {
	watch(0);
	look(1, 1000);
	set_word(WEIR_HEALTH_WORD_LAME_DUCK);
	assert_true(look(0, 1001));
	expect_word(WEIR_HEALTH_WORD_DOWN, WEIR_PORT_REASON_NO_LISTENER);
	assert_false(set_word(WEIR_HEALTH_WORD_READY));
	assert_false(set_word(WEIR_HEALTH_WORD_STARTING));
	expect_word(WEIR_HEALTH_WORD_DOWN, WEIR_PORT_REASON_NO_LISTENER);
}

TEST(watched_port_word_ends_when_another_process_listens) {
	const enum weir_health_word words[] = {WEIR_HEALTH_WORD_LAME_DUCK, WEIR_HEALTH_WORD_DOWN};

	// the state is announced before or after the socket is closed
	for (int said_late = 0; said_late < 2; said_late++) {
		for (size_t i = 0; i < 2; i++) {
			watch(0);
			look(1, 1000);
			if (!said_late) {
				set_word(words[i]);
			}
			look(0, 1001);
			set_word(words[i]);
			assert_true(look(1, 1002));
			expect_word(WEIR_HEALTH_WORD_NONE, WEIR_PORT_REASON_NONE);
		}
	}
}

TEST(watched_port_word_ends_when_another_process_listens_within_the_grace) {
	watch(500);
	look(1, 1000);
	set_word(WEIR_HEALTH_WORD_LAME_DUCK);
	assert_false(look(0, 1001));
	expect_word(WEIR_HEALTH_WORD_LAME_DUCK, WEIR_PORT_REASON_APPLICATION);
	assert_true(look(1, 1100));
	expect_word(WEIR_HEALTH_WORD_NONE, WEIR_PORT_REASON_NONE);
	expect(WEIR_PORT_OPEN, 0);
}

TEST(watched_port_stays_while_one_of_its_sockets_is_left) {
	watch(0);
	look(2, 1000);
	set_word(WEIR_HEALTH_WORD_LAME_DUCK);
	assert_false(look(1, 1001));
	assert_false(look(2, 1002));
	expect_word(WEIR_HEALTH_WORD_LAME_DUCK, WEIR_PORT_REASON_APPLICATION);
}

TEST(watched_port_is_starting_when_its_socket_comes) {
	watch(0);
	look(0, 1000);
	assert_true(set_word(WEIR_HEALTH_WORD_STARTING));
	assert_false(look(1, 1001));
	expect_word(WEIR_HEALTH_WORD_STARTING, WEIR_PORT_REASON_APPLICATION);
	assert_true(look(0, 1002)); // the listener was closed
	assert_true(look(1, 1003));
	expect_word(WEIR_HEALTH_WORD_NONE, WEIR_PORT_REASON_NONE);
}

TEST(watched_port_has_the_word_from_before_the_first_look) {
	watch(0);
	set_word(WEIR_HEALTH_WORD_LAME_DUCK);
	assert_false(look(1, 1000));
	expect_word(WEIR_HEALTH_WORD_LAME_DUCK, WEIR_PORT_REASON_APPLICATION);
}

TEST(watched_ports_words_of_applications_give_way_to_dead_ports) {
	struct weir_agent_answer answer;

	weir_watched_ports_init(&ports, 0);
	for (uint16_t i = 0; i < 2 * WEIR_PORT_WORDS_MOST; i++) {
		assert_int_equal(weir_watched_ports_add(&ports, 1000 + i, IPPROTO_TCP), 0);
		if (i >= WEIR_PORT_WORDS_MOST + 2) {
			weir_watched_ports_had_listener(&ports, 1000 + i, IPPROTO_TCP);
			weir_watched_ports_take(&ports, i, 0, 1000);
		} else if (i < WEIR_PORT_WORDS_MOST) {
			weir_watched_ports_set_word(
				&ports, 1000 + i, IPPROTO_TCP, WEIR_HEALTH_WORD_DOWN);
		}
	}
	answer = fill(WEIR_AGENT_PORT_WORDS, WEIR_HEALTH_WORD_READY);
	// applications announce states of ports, not of the host
	assert_int_equal(answer.word, WEIR_HEALTH_WORD_READY);
	assert_int_equal(answer.port_word_count, 12);
	for (uint16_t i = 0; i < WEIR_PORT_WORDS_MOST; i++) {
		const bool dead = i < WEIR_PORT_WORDS_MOST - 2;

		assert_int_equal(
			answer.port_words[i].port, dead ? 1000 + WEIR_PORT_WORDS_MOST + 2 + i
							: 1000 + i - (WEIR_PORT_WORDS_MOST - 2));
	}
}

TEST(watched_ports_that_all_have_words_change_the_host_of_an_old_balancer) {
	struct weir_agent_answer answer;

	watch(0);
	look(1, 1000);
	weir_watched_ports_take(&ports, 1, 1, 1000);
	set_word(WEIR_HEALTH_WORD_DOWN);
	assert_int_equal(fill(0, WEIR_HEALTH_WORD_READY).word, WEIR_HEALTH_WORD_READY);
	weir_watched_ports_set_word(&ports, 53, IPPROTO_UDP, WEIR_HEALTH_WORD_LAME_DUCK);
	answer = fill(0, WEIR_HEALTH_WORD_READY);
	// all ports have an announced state, so the host gets the least severe of these states
	assert_int_equal(answer.word, WEIR_HEALTH_WORD_LAME_DUCK);
	assert_string_equal(answer.why, "2 ports: by the application");
	assert_int_equal(fill(0, WEIR_HEALTH_WORD_STARTING).word, WEIR_HEALTH_WORD_STARTING);
}

TEST(watched_port_has_a_name) {
	char text[WEIR_WATCHED_NAME_BYTES];

	watch(0);
	assert_string_equal(weir_watched_port_name(&ports.port[0], text), "port 80");
	assert_string_equal(weir_watched_port_name(&ports.port[1], text), "port 53/udp");
}
