// SPDX-License-Identifier: BSD-3-Clause
//
// Tests of commands from the host to weir-agent: what the commands change, and which commands are
// refused.
#include <stdlib.h>
#include <unistd.h>

#include "commands.h"
#include "log.h"
#include "test.h"

struct fixture {
	uv_loop_t loop;
	struct weir_log log;
	struct weir_balancers balancers;
	struct weir_announcement announcement;
	struct weir_commands commands;
};

static void notify(void *context, const struct weir_balancer *balancer) {
	(void)context, (void)balancer;
}

static void connections(void *context, uint32_t *ret_open, uint32_t *ret_half_open) {
	(void)context;
	*ret_open = *ret_half_open = 0;
}

static void drained(void *context) {
	(void)context;
}

static json_t *status(void *context) {
	const struct fixture *f = context;

	return json_pack("{s:i}", "word", (int)f->announcement.word);
}

static int setup(void **state) {
	struct fixture *f = calloc(1, sizeof(*f));
	const struct weir_announcement_params params = {
		.log = &f->log,
		.balancers = &f->balancers,
		.saved = -1,
		.notify = notify,
		.connections = connections,
		.drained = drained,
	};

	*state = f;
	f->log = (struct weir_log){.fd = STDERR_FILENO, .level = WEIR_LOG_ERROR};
	assert_int_equal(uv_loop_init(&f->loop), 0);
	assert_int_equal(weir_announcement_start(&f->loop, &params, false, &f->announcement), 0);
	f->commands = (struct weir_commands){
		.announcement = &f->announcement, .status = status, .context = f};
	return 0;
}

static int teardown(void **state) {
	struct fixture *f = *state;

	weir_announcement_stop(&f->announcement);
	uv_run(&f->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&f->loop), 0);
	free(f);
	return 0;
}

TEST_EACH(setup, teardown);

// Execute a request, which must succeed. Returns the announced state in the reply.
static int word_after(struct fixture *f, const char *request) {
	json_t *sent = json_loads(request, 0, NULL);
	json_t *reply = weir_commands_answer(&f->commands, sent);
	int word = (int)json_integer_value(json_object_get(reply, "word"));

	assert_non_null(json_object_get(reply, "word"));
	assert_int_equal(word, f->announcement.word);
	json_decref(sent);
	json_decref(reply);
	return word;
}

static void assert_refused(struct fixture *f, const char *request, const char *error) {
	enum weir_health_word before = f->announcement.word;
	json_t *sent = json_loads(request, 0, NULL);
	json_t *reply = weir_commands_answer(&f->commands, sent);

	assert_string_equal(json_string_value(json_object_get(reply, "error")), error);
	assert_int_equal(f->announcement.word, before);
	json_decref(sent);
	json_decref(reply);
}

TEST(commands_change_the_announced_state) {
	struct fixture *f = *state;

	assert_int_equal(word_after(f, "{\"command\": \"status\"}"), WEIR_HEALTH_WORD_READY);
	assert_int_equal(word_after(f, "{\"command\": \"lame-duck\", \"interval_ms\": 86400000}"),
		WEIR_HEALTH_WORD_LAME_DUCK);
	assert_int_equal(f->announcement.drain.deadline_ms, uv_now(&f->loop) + 86400000);
	assert_int_equal(word_after(f, "{\"command\": \"ready\"}"), WEIR_HEALTH_WORD_READY);
	assert_int_equal(f->announcement.drain.state, WEIR_DRAIN_NONE);
}

TEST(command_with_a_bad_interval_or_name_is_refused) {
	struct fixture *f = *state;

	assert_refused(f, "{\"command\": \"lame-duck\", \"interval_ms\": -1}",
		"interval_ms must be an integer from 0 to 86400000");
	assert_refused(f, "{\"command\": \"lame-duck\", \"interval_ms\": 86400001}",
		"interval_ms must be an integer from 0 to 86400000");
	assert_refused(f, "{\"command\": \"lame-duck\", \"interval_ms\": \"30000\"}",
		"interval_ms must be an integer from 0 to 86400000");
	assert_refused(f, "{\"command\": \"lame-duck\"}",
		"interval_ms must be an integer from 0 to 86400000");
	assert_refused(f, "{\"command\": \"sleep\"}", "unknown command");
	assert_refused(f, "{}", "unknown command");
}

TEST(commands_of_an_ending_agent_change_nothing) {
	struct fixture *f = *state;

	weir_announcement_is_final(&f->announcement);
	assert_refused(f, "{\"command\": \"lame-duck\", \"interval_ms\": 1}",
		"the agent is stopping and already draining");
	assert_refused(f, "{\"command\": \"ready\"}", "the agent is stopping");
	assert_int_equal(word_after(f, "{\"command\": \"status\"}"), WEIR_HEALTH_WORD_READY);
}
