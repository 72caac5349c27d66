// SPDX-License-Identifier: BSD-3-Clause
#include "status.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <string.h>

#include "plural.h"

// maximum probe interval: services[].agent.inactive_interval_ms in the configuration of balancers
#define PROBE_INTERVAL_MOST_MS 3600000

//--- as JSON ------------------------------------------------------------------------------

static void set_number(json_t *object, const char *name, uint64_t value) {
	json_object_set_new(object, name, json_integer((json_int_t)value));
}

static json_t *make_wants(uint32_t wants) {
	json_t *list = json_array();

	for (uint32_t i = 0; i < WEIR_REPORT_FIELD_COUNT; i++) {
		if (wants >> i & 1) {
			json_array_append_new(list, json_string(weir_report_field_name(i)));
		}
	}
	if ((wants & WEIR_AGENT_TCP_FIGURES) != 0) {
		json_array_append_new(list, json_string("tcp"));
	}
	return list;
}

static json_t *make_balancer(
	const struct weir_status_parts *parts, const struct weir_balancer *balancer) {
	const struct sockaddr_storage *peer = &balancer->path.peer;
	char address[INET6_ADDRSTRLEN] = "?";

	if (peer->ss_family == AF_INET) {
		inet_ntop(AF_INET, &((const struct sockaddr_in *)peer)->sin_addr, address,
			sizeof(address));
	} else {
		inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)peer)->sin6_addr, address,
			sizeof(address));
	}
	return json_pack("{s:s, s:b, s:I, s:I, s:o}", "address", address, "heard",
		balancer->acknowledged >= parts->announcement->serial, "interval_ms",
		(json_int_t)balancer->interval_ms, "age_ms",
		(json_int_t)(parts->now_ms - balancer->seen_ms), "wants",
		make_wants(balancer->wants));
}

static json_t *make_balancers(const struct weir_status_parts *parts) {
	json_t *list = json_array();

	for (uint32_t i = 0; i < WEIR_BALANCERS_MAX; i++) {
		if (parts->balancers->entry[i].id != 0) {
			json_array_append_new(
				list, make_balancer(parts, &parts->balancers->entry[i]));
		}
	}
	return list;
}

static json_t *make_drain(const struct weir_drain *drain, uint64_t now_ms) {
	json_t *object = json_object();

	json_object_set_new(object, "state", json_string(weir_drain_state_name(drain->state)));
	if (drain->state != WEIR_DRAIN_NONE) {
		set_number(object, "left_ms",
			drain->deadline_ms > now_ms ? drain->deadline_ms - now_ms : 0);
		set_number(object, "unheard", drain->pending);
		json_object_set_new(object, "notified", json_boolean(drain->notified));
		if (drain->connections != UINT32_MAX) { // known
			set_number(object, "connections", drain->connections);
		}
	}
	return object;
}

// Makes an object with the values that this agent reports to balancers now.
static json_t *make_values(const struct weir_status_parts *parts) {
	uint32_t wants = weir_balancers_wants(parts->balancers);
	struct weir_agent_answer answer = {0};
	json_t *object = json_object();

	weir_load_fill(parts->load, wants, parts->now_ms, &answer);
#define GIVEN(bit, field) \
	if ((answer.given & WEIR_REPORT(bit)) != 0) { \
		set_number(object, #field, answer.field); \
	}
	GIVEN(SERVICE_TIME, service_sum_us)
	GIVEN(SERVICE_TIME, service_count)
	GIVEN(SERVICE_MEDIAN, service_median_us)
	GIVEN(BUSY_TIME, busy_sum_us)
	GIVEN(BUSY_TIME, busy_count)
	GIVEN(REQUESTS, requests_milli_per_s)
	GIVEN(ERRORS, errors_milli_per_s)
	GIVEN(UTILIZATION, utilization_ppm)
	GIVEN(ACTIVE, active)
	GIVEN(QUEUE, accept_queue)
	GIVEN(QUEUE_LIMIT, accept_queue_limit)
	GIVEN(CPUS, cpu_milli)
	GIVEN(CPU_MHZ, cpu_mhz)
	GIVEN(GCU, gcu_milli)
	GIVEN(MAX_ACTIVE, max_active_flows)
#undef GIVEN
	return object;
}

static json_t *make_meter(const struct weir_status_parts *parts) {
	struct weir_meter_counts counts;
	json_t *object = json_object();

	json_object_set_new(object, "loaded", json_boolean(parts->meter != NULL));
	if (parts->meter != NULL) {
		weir_meter_read(parts->meter, &counts);
		for (uint32_t i = 0; i < WEIR_METER_COUNTER_COUNT; i++) {
			set_number(object, weir_meter_counter_name(i), counts.counter[i]);
		}
		set_number(object, "active", weir_meter_active(&counts));
	}
	return object;
}

static json_t *make_port(const struct weir_watched_port *port, uint64_t now_ms) {
	json_t *object = json_pack("{s:i, s:s, s:s, s:I, s:I, s:I}", "port", (int)port->port,
		"protocol", port->protocol == IPPROTO_UDP ? "udp" : "tcp", "state",
		weir_port_state_name(port->state), "for_ms", (json_int_t)(now_ms - port->since_ms),
		"listeners", (json_int_t)port->listeners, "deaths", (json_int_t)port->deaths);

	if (port->state == WEIR_PORT_HELD) {
		set_number(object, "left_ms", weir_watched_port_left_ms(port, now_ms));
	}
	if (port->word != WEIR_HEALTH_WORD_NONE) {
		json_object_set_new(object, "word",
			json_string(weir_health_word_name((enum weir_health_word)port->word)));
	}
	return object;
}

// Add the state of the port watch, with its errors.
static void set_watch(json_t *status, const struct weir_status_parts *parts) {
	const struct weir_port_watch *watch = parts->watch;
	json_t *ports = json_array(), *object = json_object();

	for (uint32_t i = 0; i < watch->ports.count; i++) {
		json_array_append_new(ports, make_port(&watch->ports.port[i], parts->now_ms));
	}
	json_object_set_new(status, "ports", ports);
	json_object_set_new(object, "events", json_boolean(watch->reader != NULL));
	for (int udp = 0; udp < 2; udp++) {
		if (watch->blind[udp][0] != '\0') {
			json_object_set_new(object, udp ? "udp_error" : "tcp_error",
				json_string(watch->blind[udp]));
		}
	}
	if (watch->problem[0] != '\0') {
		json_object_set_new(object, "problem", json_string(watch->problem));
	}
	json_object_set_new(status, "watch", object);
}

static json_t *make_datagrams(const struct weir_status_parts *parts) {
	json_t *object = json_object(), *refused = json_object();

	set_number(object, "answered", parts->probes->answered);
	set_number(object, "told", parts->probes->notices);
	set_number(object, "tcp", parts->probes->tcp);
	if (parts->probes->other_key_ms != 0) {
		set_number(object, "other_key_age_ms", parts->now_ms - parts->probes->other_key_ms);
	}
	for (uint32_t i = 1; i < WEIR_AGENT_REFUSAL_COUNT; i++) {
		if (parts->probes->refused[i] > 0) {
			set_number(refused, weir_agent_refusal_name(i), parts->probes->refused[i]);
		}
	}
	json_object_set_new(object, "refused", refused);
	return object;
}

static json_t *make_steals(const struct weir_status_parts *parts) {
	json_t *object = json_object();

	json_object_set_new(object, "allowed", json_boolean(parts->steals->params.allowed));
	if (parts->steals->problem[0] != '\0') {
		json_object_set_new(object, "problem", json_string(parts->steals->problem));
	}
	for (uint32_t i = 1; i < WEIR_AGENT_STEAL_RESULT_COUNT; i++) {
		if (parts->steals->answered[i] > 0) {
			set_number(object, weir_agent_steal_result_name(i),
				parts->steals->answered[i]);
		}
	}
	return object;
}

json_t *weir_status_make(const struct weir_status_parts *parts) {
	const struct weir_announcement *announcement = parts->announcement;
	json_t *status =
		json_pack("{s:s, s:s, s:I, s:I}", "word", weir_health_word_name(announcement->word),
			"why", announcement->why, "serial", (json_int_t)announcement->serial,
			"uptime_ms", (json_int_t)(parts->now_ms - parts->started_ms));

	if (status == NULL) {
		return NULL;
	}
	json_object_set_new(status, "drain", make_drain(&announcement->drain, parts->now_ms));
	set_watch(status, parts);
	json_object_set_new(status, "services", weir_words_status(parts->words));
	json_object_set_new(status, "balancers", make_balancers(parts));
	json_object_set_new(status, "values", make_values(parts));
	json_object_set_new(status, "capacity", weir_capacity_demand_status(parts->capacity));
	json_object_set_new(status, "meter", make_meter(parts));
	json_object_set_new(status, "tcp", weir_tcp_looks_status(parts->tcp));
	json_object_set_new(status, "datagrams", make_datagrams(parts));
	json_object_set_new(status, "steals", make_steals(parts));
	json_object_set_new(status, "shed", weir_shed_status(parts->shed));
	if (parts->orca != NULL) {
		json_object_set_new(status, "orca", json_string(weir_orca_poll_state(parts->orca)));
	}
	return status;
}

//--- as text ------------------------------------------------------------------------------

static const char *text_of(const json_t *object, const char *name) {
	const char *text = json_string_value(json_object_get(object, name));

	return text != NULL ? text : "";
}

static json_int_t number_of(const json_t *object, const char *name) {
	return json_integer_value(json_object_get(object, name));
}

const char *weir_status_connections(const json_t *drain, char text[WEIR_DRAIN_COUNT_BYTES]) {
	const json_t *count = json_object_get(drain, "connections");

	return weir_drain_count_text(
		json_is_integer(count) ? (uint32_t)json_integer_value(count) : UINT32_MAX, text);
}

static void write_drain(const json_t *drain, FILE *out) {
	char connections[WEIR_DRAIN_COUNT_BYTES], left[WEIR_DURATION_BYTES];
	const json_int_t left_ms = number_of(drain, "left_ms");
	const char *state = text_of(drain, "state");

	if (strcmp(state, "deadline") == 0) {
		fprintf(out, "drain      ended at its deadline, %s left\n",
			weir_status_connections(drain, connections));
	} else if (strcmp(state, "none") != 0) {
		fprintf(out,
			"drain      %s, %" JSON_INTEGER_FORMAT
			" balancer%s not yet notified, %s, %s left\n",
			state, number_of(drain, "unheard"),
			weir_plural((uint64_t)number_of(drain, "unheard")),
			weir_status_connections(drain, connections),
			weir_duration_text(left_ms > 0 ? (uint64_t)left_ms : 0, left));
	}
}

static void write_ports(const json_t *ports, FILE *out) {
	char age[WEIR_DURATION_BYTES], left[WEIR_DURATION_BYTES];
	const json_t *port;
	size_t i;

	json_array_foreach (ports, i, port) {
		fprintf(out,
			"port       %" JSON_INTEGER_FORMAT "/%s %s for %s, %" JSON_INTEGER_FORMAT
			" listening socket%s, closed %" JSON_INTEGER_FORMAT " time%s",
			number_of(port, "port"), text_of(port, "protocol"), text_of(port, "state"),
			weir_duration_text((uint64_t)number_of(port, "for_ms"), age),
			number_of(port, "listeners"), weir_plural(number_of(port, "listeners")),
			number_of(port, "deaths"), weir_plural(number_of(port, "deaths")));
		if (json_object_get(port, "left_ms") != NULL) {
			fprintf(out, ", held down for %s",
				weir_duration_text((uint64_t)number_of(port, "left_ms"), left));
		}
		if (json_object_get(port, "word") != NULL) {
			fprintf(out, ", announced %s by its application", text_of(port, "word"));
		}
		fprintf(out, "\n");
	}
}

static void write_watch(const json_t *watch, FILE *out) {
	static const char *const names[] = {"problem", "tcp_error", "udp_error"};
	static const char *const labels[] = {"cannot monitor listening sockets by events",
		"cannot list TCP sockets", "cannot list UDP sockets"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (json_object_get(watch, names[i]) != NULL) {
			fprintf(out, "watch      %s: %s\n", labels[i], text_of(watch, names[i]));
		}
	}
}

uint64_t weir_status_other_key(const json_t *status, char age[WEIR_DURATION_BYTES]) {
	const json_t *datagrams = json_object_get(status, "datagrams");
	const json_t *refused = json_object_get(datagrams, "refused");
	const json_t *age_ms = json_object_get(datagrams, "other_key_age_ms");

	if (!json_is_integer(age_ms) || json_integer_value(age_ms) > PROBE_INTERVAL_MOST_MS) {
		return 0;
	}
	weir_duration_text((uint64_t)json_integer_value(age_ms), age);
	return (uint64_t)(number_of(refused, weir_agent_refusal_name(WEIR_AGENT_REFUSAL_KEY)) +
			  number_of(refused, weir_agent_refusal_name(WEIR_AGENT_REFUSAL_MAC)));
}

static void write_no_balancer(const json_t *status, FILE *out) {
	char age[WEIR_DURATION_BYTES];
	const uint64_t other_key = weir_status_other_key(status, age);

	if (other_key == 0) {
		fprintf(out, "balancers  none has probed this agent\n");
		return;
	}
	fprintf(out,
		"balancers  none: %" PRIu64
		" datagram%s with another key, the last %s ago: compare the key files\n",
		other_key, weir_plural(other_key), age);
}

static void write_balancers(const json_t *status, FILE *out) {
	const json_t *balancers = json_object_get(status, "balancers"), *balancer, *want;
	size_t i, j;

	if (json_array_size(balancers) == 0) {
		write_no_balancer(status, out);
	}
	json_array_foreach (balancers, i, balancer) {
		fprintf(out, "balancer   %s, every %" JSON_INTEGER_FORMAT " ms, %s; requests",
			text_of(balancer, "address"), number_of(balancer, "interval_ms"),
			json_is_true(json_object_get(balancer, "heard")) ? "notified"
									 : "not yet notified");
		json_array_foreach (json_object_get(balancer, "wants"), j, want) {
			fprintf(out, " %s", json_string_value(want));
		}
		fprintf(out, "%s\n", j == 0 ? " nothing" : "");
	}
}

static void write_numbers(const char *label, const json_t *object, FILE *out) {
	const char *name;
	json_t *value;

	json_object_foreach ((json_t *)(uintptr_t)object, name, value) {
		if (json_is_integer(value)) {
			fprintf(out, "%-10s %-22s %" JSON_INTEGER_FORMAT "\n", label, name,
				json_integer_value(value));
		}
	}
}

static void write_capacity(const json_t *capacity, FILE *out) {
	const double gcu = json_number_value(json_object_get(capacity, "gcu"));

	fprintf(out, "capacity   ");
	if (gcu > 0) {
		fprintf(out, "%.2f GCU for one CPU, ", gcu);
	}
	fprintf(out, "%s (%s)\n", text_of(capacity, "state"), text_of(capacity, "cpu"));
}

static void write_steals(const json_t *steals, FILE *out) {
	if (json_object_get(steals, "problem") != NULL) {
		fprintf(out, "steals     %s\n", text_of(steals, "problem"));
	}
	write_numbers("steals", steals, out);
}

static void write_shed(const json_t *shed, FILE *out) {
	if (strcmp(text_of(shed, "method"), "none") == 0) {
		return;
	}
	fprintf(out,
		"shed       %s, %" JSON_INTEGER_FORMAT " order%s, %" JSON_INTEGER_FORMAT
		" connection%s\n",
		text_of(shed, "method"), number_of(shed, "orders"),
		weir_plural((uint64_t)number_of(shed, "orders")), number_of(shed, "ended"),
		weir_plural((uint64_t)number_of(shed, "ended")));
	if (json_object_get(shed, "problem") != NULL) {
		fprintf(out, "shed       %s\n", text_of(shed, "problem"));
	}
}

// Write the TCP statistics. Writes nothing while no balancer requests them.
static void write_tcp(const json_t *tcp, FILE *out) {
	if (json_object_get(tcp, "problem") != NULL) {
		fprintf(out, "tcp        cannot list connections: %s\n", text_of(tcp, "problem"));
	}
	write_numbers("tcp", tcp, out);
}

void weir_status_write(const json_t *status, FILE *out) {
	const json_t *datagrams = json_object_get(status, "datagrams");

	fprintf(out, "state      %s: %s\n", text_of(status, "word"), text_of(status, "why"));
	write_drain(json_object_get(status, "drain"), out);
	write_ports(json_object_get(status, "ports"), out);
	write_watch(json_object_get(status, "watch"), out);
	weir_words_status_write(json_object_get(status, "services"), out);
	write_balancers(status, out);
	write_numbers("reports", json_object_get(status, "values"), out);
	write_capacity(json_object_get(status, "capacity"), out);
	write_numbers("meter", json_object_get(status, "meter"), out);
	write_tcp(json_object_get(status, "tcp"), out);
	if (json_object_get(status, "orca") != NULL) {
		fprintf(out, "orca       %s\n", text_of(status, "orca"));
	}
	write_steals(json_object_get(status, "steals"), out);
	write_shed(json_object_get(status, "shed"), out);
	write_numbers("datagrams", datagrams, out);
	write_numbers("refused", json_object_get(datagrams, "refused"), out);
}
