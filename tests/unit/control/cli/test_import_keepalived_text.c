// SPDX-License-Identifier: BSD-3-Clause
//
// Tests weirctl import keepalived: how its text is read. Comments, conditions, blocks that are not
// closed, repetitions, definitions, and lines that are too long.
#include "keepalived_lab.h"

TEST(conditions_depend_on_the_id) {
	static const char text[] = "virtual_server 192.0.2.1 80 {\n@a lb_algo rr\n@b lb_algo wrr\n"
				   "@a protocol TCP\n@^a protocol UDP\n" REAL "}\n";
	struct lab lab = import(text, true, "a");
	const json_t *bind;

	bind = json_array_get(json_object_get(service(&lab, 0), "binds"), 0);
	assert_string_equal(policy(&lab, 0), "round-robin");
	assert_string_equal(json_string_value(json_object_get(bind, "protocol")), "tcp");
	expect_note(&lab, 3, "@b");
	done(&lab);
	lab = import(text, true, NULL);
	bind = json_array_get(json_object_get(service(&lab, 0), "binds"), 0);
	assert_string_equal(policy(&lab, 0), "least-loaded");
	assert_string_equal(json_string_value(json_object_get(bind, "protocol")), "udp");
	done(&lab);
}

TEST(text_of_keepalived_is_read_like_keepalived) {
	struct lab lab = import("$VIP=192.0.2.1\n! a comment { that opens nothing\n"
				"virtual_server ${VIP} 80 # and a trailing one\n{\n"
				" lb_algo \"r\"\"r\" lb_kind ! cut off\n"
				" real_server 10.0.0.1 80 { weight 3 }\n"
				" real_server 10.0.0.2 80 {\n  weight 4 }}\n",
		true, NULL);

	assert_int_equal(json_array_size(lab.import.errors), 0);
	assert_string_equal(policy(&lab, 0), "round-robin");
	assert_int_equal(json_array_size(json_object_get(service(&lab, 0), "backends")), 2);
	done(&lab);
}

TEST(a_comment_is_not_of_the_definition_before_it) {
	struct lab lab = import("$VIP=192.0.2.1 # the address\n$NAME=\"a # b\" ! a router\n"
				"$SERVER= \\\n real_server 10.0.0.1 $PORT { # first \\\n"
				"  # weight 5 \\\n  weight 7 \\\n }\n$PORT=80 ! plain\n"
				"virtual_server $VIP $PORT {\n $SERVER\n}\n",
		true, NULL);
	const json_t *bind = json_array_get(json_object_get(service(&lab, 0), "binds"), 0);
	const json_t *server = json_array_get(json_object_get(service(&lab, 0), "backends"), 0);

	assert_string_equal(json_string_value(json_object_get(bind, "address")), "192.0.2.1");
	assert_int_equal(json_integer_value(json_object_get(bind, "port")), 80);
	assert_int_equal(json_integer_value(json_object_get(server, "weight")), 7);
	done(&lab);
}

// If the "}" of a service is missing, the services after it are still imported as separate
// services.
TEST(services_behind_a_block_that_is_not_closed_are_imported) {
	struct lab lab = import("virtual_server 192.0.2.1 80 {\n real_server 10.0.0.1 80 {\n"
				"  weight 2\nvirtual_server 192.0.2.2 80 {\n"
				" real_server 10.0.0.2 80 {\n  weight 3\n }\n}\n"
				"virtual_server 192.0.2.3 80\n{\n real_server 10.0.0.3 80 {\n",
		true, NULL);

	assert_int_equal(json_array_size(lab.import.errors), 0);
	assert_int_equal(json_array_size(json_object_get(lab.config, "services")), 3);
	expect_note(&lab, 1, "the block has no \"}\"");
	expect_note(&lab, 2, "before the next virtual_server");
	expect_note(&lab, 11, "at the end of the file");
	for (unsigned int i = 0; i < 3; i++) {
		const json_t *servers = json_object_get(service(&lab, i), "backends");

		assert_int_equal(json_array_size(servers), 1);
		assert_int_equal(
			json_integer_value(json_object_get(json_array_get(servers, 0), "weight")),
			i == 2 ? 1 : i + 2);
	}
	done(&lab);
}

// One line has hundreds of words, such as a payload of UDP_CHECK. Another line exceeds the maximum
// length.
TEST(long_lines_are_left_out) {
	char *text;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);
	struct lab lab;

	fprintf(out, "virtual_server 192.0.2.1 53 {\n protocol UDP\n real_server 10.0.0.1 53 {\n"
		     " UDP_CHECK {\n payload");
	for (int i = 0; i < 600; i++) {
		fprintf(out, " %02x", i % 256);
	}
	fprintf(out, "\n }\n }\n}\n# ");
	for (int i = 0; i < 9000; i++) {
		fputc('x', out);
	}
	fprintf(out, "\n" GOOD);
	fclose(out);
	lab = import(text, true, NULL);
	assert_int_equal(json_array_size(json_object_get(lab.config, "services")), 2);
	expect_note(&lab, 5, "only the first 256 words");
	expect_note(&lab, 9, "longer than");
	done(&lab);
	free(text);
}

// --- repetitions and definitions ------------------------------------------------------------

// A sequence gives the same number of servers, with the same addresses, as in keepalived.
TEST(sequences_have_the_numbers_of_keepalived) {
	static const struct {
		const char *text, *first, *last;
		size_t servers;
	} rows[] = {
		{"~SEQ(A, 3) real_server 10.0.0.$A 80 ", "10.0.0.1", "10.0.0.3", 3},
		{"~SEQ(A, 5, 3) real_server 10.0.0.$A 80", "10.0.0.5", "10.0.0.3", 3},
		{"~SEQ(A, 0x9, 0xb) real_server 10.0.0.$A 80", "10.0.0.9", "10.0.0.11", 3},
		{"~SEQ(A, 010, 2, 12) real_server 10.0.0.$A 80", "10.0.0.8", "10.0.0.12", 3},
		{"~SEQx(A, 9, 0xb) real_server fd00::$A 80", "fd00::9", "fd00::b", 3},
		{"~SEQx (A, 144,16,160) real_server fd00::$A 80", "fd00::90", "fd00::a0", 2},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char text[256];
		struct lab lab;
		const json_t *servers;

		snprintf(text, sizeof(text), "virtual_server 192.0.2.1 80 {\n %s\n}\n",
			rows[i].text);
		lab = import(text, true, NULL);
		servers = json_object_get(service(&lab, 0), "backends");
		assert_int_equal(json_array_size(servers), rows[i].servers);
		assert_string_equal(
			json_string_value(json_object_get(json_array_get(servers, 0), "address")),
			rows[i].first);
		assert_string_equal(
			json_string_value(json_object_get(
				json_array_get(servers, rows[i].servers - 1), "address")),
			rows[i].last);
		done(&lab);
	}
}

TEST(random_numbers_are_the_least_ones) {
	struct lab lab = import("virtual_server 192.0.2.1 80 {\n delay_loop ${_RANDOM 7 9}\n"
				" real_server 10.0.0.1 80 {\n  weight ${_RANDOM 1 10}\n"
				"  TCP_CHECK {\n  }\n }\n}\n",
		true, NULL);
	const json_t *server = json_array_get(json_object_get(service(&lab, 0), "backends"), 0);

	assert_int_equal(json_integer_value(json_object_get(server, "weight")), 1);
	assert_int_equal(json_integer_value(json_object_get(
				 json_object_get(service(&lab, 0), "health_check"), "interval_ms")),
		7000);
	done(&lab);
}

TEST(definitions_have_several_lines) {
	static const char text[] =
		"$CHECK=TCP_CHECK { \\\n"
		"   connect_timeout $TIMEOUT \\\n"
		"   # a comment \\\n"
		" }\n"
		"$TIMEOUT=2\n"
		"$SERVICE= \\\n"
		"virtual_server ${NET}.$N 80 { \\\n"
		" protocol TCP \\\n"
		" ~SEQ(R, 1, 3) $SERVER \\\n"
		"}\n"
		"$SERVER=real_server 10.0.0.$R 80 { \\\n"
		" $CHECK \\\n"
		" }\n"
		"$NET=192.0.2\n"
		"$LAST=20\n"
		"~SEQ(N, 10, 5, ${LAST}) $SERVICE\n"
		"vrrp_script X {\n script \"${_PWD}/x ${OTHER} ${_RANDOM 1 9}\"\n}\n";
	struct lab lab = import(text, true, NULL);
	const json_t *last = service(&lab, 2);

	assert_int_equal(json_array_size(lab.import.errors), 0);
	assert_int_equal(json_array_size(json_object_get(lab.config, "services")), 3);
	assert_int_equal(json_array_size(json_object_get(last, "backends")), 3);
	assert_int_equal(number_in(json_object_get(last, "health_check"), "timeout_ms"), 2000);
	assert_string_equal(text_in(json_array_get(json_object_get(last, "binds"), 0), "address"),
		"192.0.2.20");
	done(&lab);
}

TEST(definition_that_contains_itself_ends) {
	struct lab lab = import("$A= \\\n x $A \\\n y $A \\\n z $A\n$A\n" GOOD, true, NULL);

	done(&lab); // the import must end, with or without an error
}

// A definition has 3,000 lines, and each line uses another definition of 3,000 lines. Together
// these are 9,000,000 lines.
TEST(definitions_that_multiply_end) {
	char *text = malloc(100000);
	size_t used = 0;
	struct lab lab;

	for (unsigned int n = 0; n < 2; n++) {
		used += (size_t)sprintf(text + used, n == 0 ? "$A=x" : "$B=x");
		for (unsigned int i = 0; i < 3000; i++) {
			used += (size_t)sprintf(text + used, n == 0 ? " \\\nx" : " \\\n$A");
		}
		used += (size_t)sprintf(text + used, "\n");
	}
	sprintf(text + used, "$B\n");
	lab = import(text, true, NULL);
	assert_null(lab.text);
	assert_true(has_row(lab.import.errors, "reason", 6003, "100001 lines use definitions"));
	assert_true(json_array_size(lab.import.notes) < 110000);
	done(&lab);
	free(text);
}

// A sequence at the limit of definitions has no name for its numbers.
TEST(sequence_without_a_free_definition_is_refused) {
	char *text = malloc(100000);
	size_t used = 0;
	struct lab lab;

	for (unsigned int i = 0; i < 1024; i++) {
		used += (size_t)sprintf(text + used, "$A%u=x\n", i);
	}
	sprintf(text + used, "~SEQ(B, 3) $B\n" GOOD);
	lab = import(text, true, NULL);
	assert_int_equal(json_array_size(lab.import.errors), 1);
	assert_true(has_row(lab.import.errors, "reason", 1025, "the limit is 1024 definitions"));
	done(&lab);
	free(text);
}

TEST(long_definitions_that_multiply_end) {
	char *text = malloc(10000);
	struct lab lab;

	sprintf(text, "$A=%08000d\n~SEQ(B, 99999) $A\n", 0);
	lab = import(text, true, NULL);
	assert_true(has_row(lab.import.errors, "reason", 2, "more than 256 MiB of memory"));
	done(&lab);
	free(text);
}

TEST(built_in_definitions_are_replaced) {
	struct lab lab =
		import("virtual_server 192.0.2.1 8${_RANDOM 1 9} {\n protocol TCP\n"
		       " virtualhost ${_PWD}.example\n"
		       " real_server 10.0.0.1 80 {\n HTTP_GET { url {\n path /\n } }\n }\n}\n",
			true, NULL);

	assert_string_equal(
		text_in(json_object_get(service(&lab, 0), "health_check"), "host"), "..example");
	done(&lab);
}
