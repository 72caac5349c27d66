// SPDX-License-Identifier: BSD-3-Clause
//
// Tests the command status: whether the instance should get traffic, in all states that
// weir-control detects.
#include "daemon_web.h"

#include <signal.h>
#include <unistd.h>

TEST_GROUP(lab_own_network);
TEST_EACH(web_start, web_stop);

static json_t *status_of(const struct web *web, const char *service) {
	return service == NULL
		? lab_result(&web->lab, JSON({"command": "status"}))
			  : lab_result(&web->lab, "{\"command\": \"status\", \"service\": \"%s\"}",
				    service);
}

// Check the level of the status, and its only reason. reason "": the status has no reasons.
static void expect(
	const struct web *web, const char *service, const char *level, const char *reason) {
	json_t *status = status_of(web, service), *reasons = json_object_get(status, "reasons");
	const char *text = json_string_value(json_object_get(json_array_get(reasons, 0), "text"));

	assert_string_equal(json_string_value(json_object_get(status, "level")), level);
	assert_int_equal(json_array_size(reasons), reason[0] != '\0');
	if (reason[0] != '\0' && strstr(text, reason) == NULL) {
		fail_msg("\"%s\" is not in \"%s\"", reason, text);
	}
	json_decref(status);
}

static void set_admin(
	const struct web *web, const char *verb, const char *service, const char *name) {
	json_decref(lab_result(&web->lab,
		"{\"command\": \"backend.%s\", \"service\": \"%s\", \"backend\": \"%s\"}", verb,
		service, name));
}

TEST(status_is_ok_with_all_backends) {
	struct web *web = *state;
	json_t *status = status_of(web, NULL);

	expect(web, NULL, "ok", "");
	assert_int_equal(json_integer_value(json_object_get(status, "services")), 2);
	assert_int_equal(json_integer_value(json_object_get(status, "backends")), 3);
	assert_int_equal(json_integer_value(json_object_get(status, "eligible")), 3);
	json_decref(status);
	assert_string_equal(
		lab_code(&web->lab, JSON({"command": "status", "service": "x"})), "not-found");
}

TEST(status_counts_services_without_an_eligible_backend) {
	struct web *web = *state;

	set_admin(web, "maintenance", "dns", "w-1");
	expect(web, NULL, "warning", "no eligible backend in 1 of 2 services: dns");
	expect(web, "dns", "critical", "no eligible backend in the service: dns");
	expect(web, "web", "ok", "");
	set_admin(web, "maintenance", "web", "w-1");
	set_admin(web, "maintenance", "web", "w-2");
	expect(web, NULL, "critical", "no eligible backend in any service: ");
	set_admin(web, "ready", "web", "w-2");
	expect(web, NULL, "warning", "no eligible backend in 1 of 2 services: dns");
}

// DPDK controls the device of the port, so the kernel has no interface for it. Its link state
// is in the segment.
TEST(a_port_without_a_link_is_critical) {
	struct web *web = *state;
	struct weir_port_counters *counters =
		&lab_dataplane_segment(web->dataplane)->port_counters[0];

	counters->link = WEIR_DEVICE_LINK_DOWN;
	expect(web, NULL, "critical", "port wan has no link: its device is up without a carrier");
	counters->link = WEIR_DEVICE_LINK_UP;
	expect(web, NULL, "ok", "");
}

static void set_service(const struct web *web, const char *verb, const char *service) {
	json_decref(lab_result(
		&web->lab, "{\"command\": \"bind.%s\", \"service\": \"%s\"}", verb, service));
}

static void set_vip(const struct web *web, const char *verb, const char *address) {
	json_decref(lab_result(
		&web->lab, "{\"command\": \"bind.%s\", \"address\": \"%s\"}", verb, address));
}

static void set_open_flows(const struct web *web, uint64_t flows) {
	struct weir_segment *segment = lab_dataplane_segment(web->dataplane);

	for (uint32_t id = 0; id < 3; id++) {
		weir_segment_backend_counters(segment, 0, id)->open_flows = flows;
	}
}

static bool is_level(const struct web *web, const char *level) {
	json_t *status = status_of(web, NULL);
	bool is = strcmp(json_string_value(json_object_get(status, "level")), level) == 0;

	json_decref(status);
	return is;
}

static bool has_reason(const struct web *web, const char *reason) {
	json_t *status = status_of(web, NULL);
	const char *text = json_string_value(
		json_object_get(json_array_get(json_object_get(status, "reasons"), 0), "text"));
	bool has = text != NULL && strstr(text, reason) != NULL;

	json_decref(status);
	return has;
}

// A drained service is not a fault, whatever the states of its backends. But as long as it has
// flows, routes to it must stay.
TEST(status_of_drained_services) {
	struct web *web = *state;
	json_t *status;

	set_service(web, "drain", "dns");
	LAB_UNTIL(has_reason(web, "1 of 2 services drained: dns"));
	expect(web, NULL, "ok", "1 of 2 services drained: dns");
	expect(web, "dns", "critical", "drained by an operator: the service dns");
	expect(web, "web", "ok", "");
	set_admin(web, "maintenance", "dns", "w-1");
	expect(web, NULL, "ok", "1 of 2 services drained: dns");
	set_open_flows(web, 1);
	set_service(web, "drain", "web");
	set_service(web, "drain", "dns");
	expect(web, NULL, "ok", "2 of 2 services drained, existing flows continue: ");
	expect(web, "dns", "ok", "1 of 1 service drained, existing flows continue: dns");
	set_open_flows(web, 0);
	LAB_UNTIL(has_reason(web, "drained by an operator"));
	expect(web, NULL, "critical", "drained by an operator: all services: ");
	status = status_of(web, NULL);
	assert_int_equal(json_array_size(json_object_get(status, "drained")), 2);
	assert_int_equal(json_array_size(json_object_get(status, "not_eligible")), 0);
	json_decref(status);
	set_service(web, "ready", "web");
	set_service(web, "ready", "dns");
	expect(web, NULL, "warning", "no eligible backend in 1 of 2 services: dns");
	// One service is drained and the other has a fault. So no service is usable.
	set_service(web, "drain", "web");
	LAB_UNTIL(has_reason(web, "no eligible backend in 1 of 2 services: dns"));
	LAB_UNTIL(is_level(web, "critical"));
	set_service(web, "ready", "web");
	set_admin(web, "ready", "dns", "w-1");
	expect(web, NULL, "ok", "");
}

// A service with a drained VIP serves the others. It is not in `drained`.
TEST(status_names_services_with_some_drained_binds) {
	struct web *web = *state;
	json_t *status;

	set_vip(web, "drain", "2001:db8::11");
	expect(web, NULL, "ok", "some binds drained in 1 of 2 services: dns");
	expect(web, "dns", "ok", "some binds drained in 1 of 1 service: dns");
	expect(web, "web", "ok", "");
	status = status_of(web, NULL);
	assert_int_equal(json_array_size(json_object_get(status, "drained")), 0);
	json_decref(status);
	set_vip(web, "ready", "2001:db8::11");
	expect(web, NULL, "ok", "");
}

TEST(status_is_critical_while_workers_hang) {
	struct web *web = *state;
	json_t *workers;

	lab_dataplane_hang(web->dataplane, true);
	LAB_UNTIL(lab_log_has(&web->lab, "weir-dataplane stalled for 1."));
	expect(web, NULL, "critical", "weir-dataplane has been stalled for ");
	workers = lab_result(&web->lab, JSON({"command": "worker.show"}));
	assert_true(json_is_false(json_object_get(json_array_get(workers, 1), "alive")));
	json_decref(workers);
	lab_dataplane_hang(web->dataplane, false);
	LAB_UNTIL(lab_log_has(&web->lab, "weir-dataplane runs again after "));
	expect(web, NULL, "ok", "");
}

TEST(status_is_critical_without_a_dataplane) {
	struct web *web = *state;
	json_t *status;

	lab_dataplane_stop(web->dataplane);
	LAB_UNTIL(!lab_attached(&web->lab));
	expect(web, NULL, "critical",
		"weir-dataplane is not running, or weir-control cannot attach");
	status = status_of(web, NULL);
	assert_true(json_is_null(json_object_get(json_object_get(status, "dataplane"), "workers")));
	json_decref(status);
	web->dataplane = lab_dataplane_start(&web->lab, 2);
	LAB_UNTIL(lab_attached(&web->lab));
	expect(web, NULL, "ok", "");
}

static void reload(const struct web *web) {
	json_decref(lab_result(&web->lab, JSON({"command": "config.reload"})));
}

// All backends are healthy, but their next hops are unknown. They get no packets, so no service is
// usable.
TEST(status_is_critical_without_next_hops) {
	struct web *web = *state;
	json_t *status;

	lab_write(web->lab.config, "{\"ports\": [{\"name\": \"wan\", \"device\": \"net_null0\"}],\n"
				   " \"workers\": {\"cores\": [0, 1]}, \"services\": [" WEB_SERVICES
				   ", " DNS_SERVICE "]}\n");
	reload(web);
	LAB_UNTIL(is_level(web, "critical"));
	expect(web, NULL, "critical", "no backend with a next hop in any service: ");
	expect(web, "dns", "critical", "no backend with a next hop in the service: dns");
	status = status_of(web, "dns");
	assert_int_equal(json_integer_value(json_object_get(status, "eligible")), 1);
	assert_int_equal(json_array_size(json_object_get(status, "unreachable")), 1);
	json_decref(status);
	lab_write_config(&web->lab, WEB_SERVICES ", " DNS_SERVICE);
	reload(web);
	LAB_UNTIL(is_level(web, "ok"));
}

// A removed service stays as long as it has flows. This is not a fault.
TEST(status_leaves_out_removed_services) {
	struct web *web = *state;
	json_t *status;

	set_open_flows(web, 1);
	lab_write_config(&web->lab, WEB_SERVICES);
	reload(web);
	status = status_of(web, NULL);
	assert_string_equal(json_string_value(json_object_get(status, "level")), "ok");
	assert_int_equal(json_integer_value(json_object_get(status, "services")), 1);
	json_decref(status);
	assert_string_equal(
		lab_code(&web->lab, JSON({"command": "status", "service": "dns"})), "not-found");
}

// The state after a boot at which the dataplane failed to start.
TEST(status_of_a_service_before_the_first_dataplane) {
	struct web *web = *state;

	lab_dataplane_stop(web->dataplane);
	lab_kill(&web->lab);
	lab_start(&web->lab);
	expect(web, NULL, "critical", "weir-dataplane is not running, or weir-control cannot");
	expect(web, "web", "critical", "weir-dataplane is not running, or weir-control cannot");
	assert_string_equal(
		lab_code(&web->lab, JSON({"command": "status", "service": "x"})), "not-found");
	web->dataplane = lab_dataplane_start(&web->lab, 2);
	LAB_UNTIL(lab_attached(&web->lab));
	expect(web, "web", "ok", "");
}

static void expect_agent(const struct web *web, const char *state) {
	json_t *holder = NULL, *row = lab_backend(&web->lab, &holder, "web", "w-1");

	assert_string_equal(json_string_value(json_object_get(row, "agent")), state);
	json_decref(holder);
}

// Returns a value in metrics.show.
static const json_t *value_of(
	const json_t *result, const char *kind, const char *name, const char *column) {
	const json_t *columns = json_object_get(json_object_get(result, "columns"), kind), *row;
	size_t at[2] = {0}, i, c;

	for (int k = 0; k < 2; k++) {
		for (c = 0; c < json_array_size(columns); c++) {
			if (strcmp(json_string_value(json_array_get(columns, c)),
				    k == 0 ? kind : column) == 0) {
				at[k] = c;
			}
		}
	}
	json_array_foreach (json_object_get(result, "rows"), i, row) {
		const char *text = json_string_value(json_array_get(row, at[0]));

		if (strcmp(json_string_value(json_array_get(row, 0)), kind) == 0 && text != NULL &&
			strcmp(text, name) == 0) {
			return json_array_get(row, at[1]);
		}
	}
	return NULL;
}

// Check whether w-1's agent_silent has a value. It is null if the agent is not probed.
static void expect_silence(const struct web *web, bool known) {
	json_t *result = lab_result(&web->lab, JSON({"command": "metrics.show"}));
	const json_t *value = value_of(result, "backend", "w-1", "agent_silent");

	assert_non_null(value);
	assert_int_equal(json_is_null(value), !known);
	json_decref(result);
}

static void expect_warning(const struct web *web, const char *one, const char *another) {
	char text[512];

	web_reload_warning(web, text);
	if (strstr(text, one) == NULL || strstr(text, another) == NULL) {
		fail_msg("\"%s\" and \"%s\" are not in \"%s\"", one, another, text);
	}
}

TEST(status_warns_while_no_agent_is_probed_for_lack_of_keys) {
	struct web *web = *state;
	char text[512];

	web_write_agents(web);
	expect_warning(web, web->lab.dir, "keys: No such file or directory; no agent is");
	expect(web, NULL, "warning", "no agent is probed, because there are no keys: ");
	expect(web, "web", "warning", "/keys: No such file or directory");
	expect(web, "dns", "ok", "");
	expect_agent(web, "no-keys");
	expect_silence(web, false);
	web_write_keys(web, KEY_1 KEY_1, 0640);
	expect_warning(web, "key id 1 is already used on line 1", "; no agent is probed");
	expect(web, NULL, "warning", "key id 1 is already used on line 1");
	web_write_keys(web, KEY_1, 0640);
	assert_string_equal(web_reload_warning(web, text), "");
	expect(web, NULL, "ok", "");
	expect_agent(web, "starting");
	expect_silence(web, true);
	// weir-control keeps the previous keys, so it still probes the agents
	web_write_keys(web, KEY_1, 0644);
	expect_warning(web, "mode 0644 is too permissive", "; the previous keys stay in use");
	expect(web, NULL, "ok", "");
	expect_agent(web, "starting");
	lab_write_config(&web->lab, WEB_SERVICES ", " DNS_SERVICE); // services without agents
	assert_string_equal(web_reload_warning(web, text), "");
}

// Check the numbers of keys in the answer to a reload. new < 0: the answer must have no
// "agent_keys".
static void expect_keys(const struct web *web, int read, int new, int removed) {
	json_t *result = lab_result(&web->lab, "{\"command\": \"config.reload\"}");
	const json_t *keys = json_object_get(result, "agent_keys");

	assert_int_equal(keys != NULL, new >= 0);
	if (keys != NULL) {
		assert_int_equal(json_integer_value(json_object_get(keys, "read")), read);
		assert_int_equal(json_integer_value(json_object_get(keys, "new")), new);
		assert_int_equal(json_integer_value(json_object_get(keys, "removed")), removed);
	}
	json_decref(result);
}

TEST(reload_says_that_it_read_other_keys) {
	struct web *web = *state;

	web_write_agents(web);
	web_write_keys(web, KEY_1, 0640);
	json_decref(lab_result(&web->lab, "{\"command\": \"config.reload\"}"));
	expect_keys(web, 0, -1, 0); // the file has the same keys
	web_write_keys(web,
		"2 3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d\n" KEY_1, 0640);
	expect_keys(web, 2, 1, 0);
	assert_true(lab_log_has(&web->lab, "agent keys: 2 read (1 new, 0 removed)"));
	expect_keys(web, 0, -1, 0);
	web_write_keys(web, KEY_1, 0640);
	expect_keys(web, 1, 0, 1);
	lab_write_config(&web->lab, WEB_SERVICES ", " DNS_SERVICE); // services without agents
	expect_keys(web, 0, -1, 0);
}

TEST(reload_without_a_dataplane_warns_of_keys) {
	struct web *web = *state;
	char text[512];

	lab_dataplane_stop(web->dataplane);
	LAB_UNTIL(!lab_attached(&web->lab));
	web_write_agents(web);
	expect_warning(web, "keys: No such file or directory", "; no agent is probed");
	web_write_keys(web, KEY_1, 0640);
	assert_string_equal(web_reload_warning(web, text), "");
	web->dataplane = lab_dataplane_start(&web->lab, 2);
}

// No service is left, so no traffic should be routed here, although flows of removed services may
// continue for a moment.
TEST(without_services_no_traffic_is_wanted) {
	struct web *web = *state;

	lab_write_config(&web->lab, "");
	json_decref(lab_result(&web->lab, JSON({"command": "config.reload"})));
	LAB_UNTIL(is_level(web, "critical"));
	expect(web, NULL, "critical", "no service is configured");
}

// The configuration of the other tests, but w-2 of web is a backup.
#define WITH_BACKUP \
	"{\"name\": \"web\", \"binds\": [{\"address\": \"198.51.100.10\", " \
	"\"protocol\": \"tcp\", \"port\": 80}], \"table_size\": 1009, \"backends\": [" \
	"{\"name\": \"w-1\", \"address\": \"10.0.1.11\"}, " \
	"{\"name\": \"w-2\", \"address\": \"10.0.1.12\", \"backup\": true}]}"

static json_t *first_of(const struct web *web, const char *request) {
	json_t *rows = lab_result(&web->lab, "%s", request);
	json_t *first = json_incref(json_array_get(rows, 0));

	json_decref(rows);
	return first;
}

// While the only primary backend is drained, its backup has the flows. This is a warning of status,
// of the drain and of service.show.
TEST(a_service_that_runs_on_its_backups_is_a_warning) {
	struct web *web = *state;
	json_t *result, *service;

	lab_write_config(&web->lab, WITH_BACKUP ", " DNS_SERVICE);
	json_decref(lab_result(&web->lab, "{\"command\": \"config.reload\"}"));
	expect(web, NULL, "ok", "");
	assert_string_equal(lab_code(&web->lab,
		JSON({"command": "canary.start", "service": "web",
					    "backend": "w-2"})), "refused");
	result = lab_result(
		&web->lab, JSON({"command": "backend.drain", "service": "web",
					       "backend": "w-1"}));
	assert_non_null(
		strstr(json_string_value(json_array_get(json_object_get(result, "warnings"), 0)),
			"service web runs on its backups: 0 of 1 primary backend eligible"));
	json_decref(result);
	expect(web, NULL, "warning", "1 of 2 services on backups: web");
	expect(web, "dns", "ok", "");
	result = status_of(web, NULL);
	assert_string_equal(
		json_string_value(json_array_get(json_object_get(result, "on_backups"), 0)), "web");
	json_decref(result);
	service = first_of(web, JSON({"command": "service.show", "service": "web"}));
	assert_true(json_is_true(json_object_get(service, "on_backups")));
	assert_int_equal(json_integer_value(json_object_get(service, "backups")), 1);
	json_decref(service);
	set_admin(web, "ready", "web", "w-1");
	expect(web, NULL, "ok", "");
	service = first_of(web, JSON({"command": "service.show", "service": "web"}));
	assert_true(json_is_false(json_object_get(service, "on_backups")));
	json_decref(service);
	lab_write_config(&web->lab, WEB_SERVICES ", " DNS_SERVICE);
	json_decref(lab_result(&web->lab, "{\"command\": \"config.reload\"}"));
}

static bool is_counted(const struct web *web, json_int_t eligible, json_int_t counted, bool up) {
	json_t *service = first_of(web, JSON({"command": "service.show", "service": "web"}));
	bool is = json_integer_value(json_object_get(service, "eligible")) == eligible &&
		  json_integer_value(json_object_get(service, "quorum_eligible")) == counted &&
		  json_is_true(json_object_get(service, "up")) == up;

	json_decref(service);
	return is;
}

// A backup that gets no new flows does not count: without one of the two primary backends, the
// quorum of 2 is lost, although two backends are eligible.
TEST(an_unused_backup_does_not_count_towards_the_quorum) {
	struct web *web = *state;

	lab_write_config(&web->lab,
		"{\"name\": \"web\", \"binds\": [{\"address\": \"198.51.100.10\", "
		"\"protocol\": \"tcp\", \"port\": 80}], \"table_size\": 1009, \"quorum\": 2, "
		"\"backends\": [{\"name\": \"w-1\", \"address\": \"10.0.1.11\"}, "
		"{\"name\": \"w-2\", \"address\": \"10.0.1.12\"}, "
		"{\"name\": \"sorry\", \"address\": \"10.0.1.14\", \"backup\": "
		"true}]}, " DNS_SERVICE);
	json_decref(lab_result(&web->lab, "{\"command\": \"config.reload\"}"));
	LAB_UNTIL(is_counted(web, 3, 2, true));
	expect(web, NULL, "ok", "");
	set_admin(web, "maintenance", "web", "w-1");
	LAB_UNTIL(is_counted(web, 2, 1, false));
	expect(web, "web", "critical", "fewer eligible backends than the quorum in the service");
	set_admin(web, "ready", "web", "w-1");
	LAB_UNTIL(is_counted(web, 3, 2, true));
	lab_write_config(&web->lab, WEB_SERVICES ", " DNS_SERVICE);
	json_decref(lab_result(&web->lab, "{\"command\": \"config.reload\"}"));
}

#define ANY_PORT \
	"{\"ports\": [{\"name\": \"wan\", \"device\": \"net_null0\", \"gateway_mac\": " \
	"\"02:00:00:00:00:01\", \"source_ipv4\": \"192.0.2.1\"}], "

static bool has_late_programs(const struct web *web, const char *service) {
	json_t *status = status_of(web, service);
	bool has = json_is_string(json_object_get(status, "programs"));

	json_decref(status);
	return has;
}

// The process that runs programs is a child of weir-control.
static void kill_programs(const struct web *web) {
	char command[96];
	FILE *output;
	int pid = 0;

	snprintf(command, sizeof(command), "pgrep -P %d -x weir-programs", (int)web->lab.control);
	output = popen(command, "r");
	assert_non_null(output);
	assert_int_equal(fscanf(output, "%d", &pid), 1);
	pclose(output);
	assert_true(pid > 1);
	assert_int_equal(kill(pid, SIGKILL), 0);
}

TEST(programs_that_do_not_run_are_a_warning) {
	static const char why[] = "programs of the configuration do not run: the process that runs "
				  "programs has exited; restart weir-control";
	struct web *web = *state;
	json_t *status;

	lab_write(web->lab.config,
		ANY_PORT "\"notify\": {\"command\": [\"/bin/true\"]}, \"services\": [" WEB_SERVICES
			 ", " DNS_SERVICE "]}");
	json_decref(lab_result(&web->lab, "{\"command\": \"config.reload\"}"));
	expect(web, NULL, "ok", "");
	status = status_of(web, NULL);
	assert_true(json_is_null(json_object_get(status, "programs")));
	json_decref(status);
	kill_programs(web);
	LAB_UNTIL(is_level(web, "warning"));
	expect(web, NULL, "warning", why);
	expect(web, "web", "ok", ""); // it has no program
	status = status_of(web, NULL);
	assert_string_equal(json_string_value(json_object_get(status, "programs")), why);
	json_decref(status);
	lab_write_config(&web->lab, WEB_SERVICES ", " DNS_SERVICE);
	json_decref(lab_result(&web->lab, "{\"command\": \"config.reload\"}"));
	expect(web, NULL, "ok", ""); // the process is not needed
	lab_stop(&web->lab);
	lab_start(&web->lab);
	LAB_UNTIL(lab_attached(&web->lab));
}

#define WITH_EXEC(name, vip, seconds, interval) \
	"{\"name\": \"" name "\", \"binds\": [{\"address\": \"" vip "\", \"protocol\": " \
	"\"tcp\", \"port\": 80}], \"table_size\": 251, \"health_check\": {\"type\": " \
	"\"exec\", \"command\": [\"/bin/sleep\", \"" seconds "\"], \"interval_ms\": " interval \
	"}, \"backends\": [%s{\"name\": \"last\", \"address\": \"10.0.3.1\"}]}"

// Checks of service slow wait, because at most 32 programs run at the same time.
TEST(late_programs_are_those_of_the_service) {
	struct web *web = *state;
	char backends[8192] = "";
	size_t used = 0;

	for (int i = 0; i < 100; i++) {
		used += (size_t)snprintf(backends + used, sizeof(backends) - used,
			"{\"name\": \"s-%d\", \"address\": \"10.0.2.%d\"}, ", i, i);
	}
	lab_write(web->lab.config,
		ANY_PORT "\"services\": [" WITH_EXEC("slow", "198.51.100.10", "1",
			"500") ", " WITH_EXEC("fast", "198.51.100.11", "0", "3600000") "]}",
		backends, "");
	json_decref(lab_result(&web->lab, "{\"command\": \"config.reload\"}"));
	LAB_UNTIL(has_late_programs(web, NULL));
	// the first programs of "fast" may also be late on a busy machine
	LAB_UNTIL(has_late_programs(web, "slow") && !has_late_programs(web, "fast"));
	lab_write_config(&web->lab, WEB_SERVICES ", " DNS_SERVICE);
	json_decref(lab_result(&web->lab, "{\"command\": \"config.reload\"}"));
}

// With more services than the segment has room for, and no stored configuration, the last one has
// no id.
TEST(status_of_a_service_without_an_id_is_critical) {
	struct web *web = *state;
	char services[32768], stored[128];
	size_t used = 0;

	lab_stop(&web->lab);
	snprintf(stored, sizeof(stored), "%s/control/applied.json", web->lab.run_dir);
	unlink(stored);
	for (int i = 0; i <= 64; i++) {
		used += (size_t)snprintf(services + used, sizeof(services) - used,
			"%s{\"name\": \"s%d\", \"binds\": [{\"address\": \"198.51.100.%d\", "
			"\"protocol\": \"tcp\", \"port\": 80}], \"table_size\": 251, "
			"\"backends\": [{\"name\": \"b\", \"address\": \"10.0.1.11\"}]}",
			i > 0 ? ", " : "", i, 100 + i);
	}
	lab_write_config(&web->lab, services);
	lab_start(&web->lab);
	LAB_UNTIL(lab_attached(&web->lab));
	LAB_UNTIL(has_reason(web, "not published"));
	json_decref(status_of(web, "s64"));
	assert_true(lab_attached(&web->lab)); // weir-control still runs
}
