// SPDX-License-Identifier: BSD-3-Clause
#include "offline_lab.h"

#include <string.h>

static const char text[] =
	"{\"instance\": {\"name\": \"lb-0\"},\n"
	" \"ports\": [{\"name\": \"wan\", \"device\": \"net_null0\", \"mtu\": 1500},\n"
	"  {\"name\": \"lan\", \"device\": \"net_null1\", \"mtu\": 9000, \"vlan\": 7,\n"
	"   \"gateway_mac\": \"02:11:22:33:44:55\"}],\n"
	" \"workers\": {\"cores\": [0]},\n"
	" \"flow_table\": {\"flows_per_worker\": 4096},\n"
	" \"services\": [{\"name\": \"web\", \"forwarding\": \"ipip\", \"table_size\": 251,\n"
	"   \"binds\": [{\"address\": \"198.51.100.10\", \"protocol\": \"tcp\", \"port\": 80}],\n"
	"   \"health_check\": {\"type\": \"tcp\"},\n"
	"   \"backends\": [{\"name\": \"b-1\", \"address\": \"10.0.0.11\"},\n"
	"    {\"name\": \"b-2\", \"address\": \"2001:db8:1::2\"}]},\n"
	"  {\"name\": \"gone\", \"forwarding\": \"ipip\", \"table_size\": 251,\n"
	"   \"binds\": [{\"address\": \"198.51.100.10\", \"protocol\": \"tcp\", \"port\": 81}],\n"
	"   \"backends\": [{\"name\": \"b-1\", \"address\": \"10.0.0.11\", \"weight\": 0}]}]}\n";

struct weir_config *lab_config_of(const char *json) {
	struct weir_config_errors errors;
	struct weir_config *config = NULL;

	if (weir_config_parse(json, strlen(json), &config, &errors) < 0) {
		fail_msg("%d: %s: %s", errors.error[0].line, errors.error[0].path,
			errors.error[0].reason);
	}
	weir_config_errors_fini(&errors);
	return config;
}

struct weir_config *lab_config(void) {
	return lab_config_of(text);
}

int lab_start(void **unused) {
	char why[256];
	int r = weir_offline_start("test", 4096, why, sizeof(why));

	(void)unused;
	if (r < 0) {
		print_error("%s\n", why);
	}
	return r;
}

static void put16(uint8_t *at, uint32_t value) {
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

struct weir_capture_frame lab_tcp(
	uint16_t source_port, uint16_t port, uint8_t flags, uint32_t payload) {
	static uint8_t frame[65535 + 14];
	uint8_t *ip = frame + 14, *tcp = ip + 20;
	uint32_t sum = 0;

	memset(frame, 0, sizeof(frame));
	memcpy(frame, (uint8_t[14]){2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0}, 14);
	ip[0] = 0x45;
	put16(ip + 2, 40 + payload);
	ip[6] = 0x40; // set DF
	ip[8] = 64;
	ip[9] = 6;
	memcpy(ip + 12, (uint8_t[8]){203, 0, 113, 1, 198, 51, 100, 10}, 8);
	for (int i = 0; i < 20; i += 2) {
		sum += (uint32_t)ip[i] << 8 | ip[i + 1];
	}
	sum = (sum & 0xffff) + (sum >> 16);
	put16(ip + 10, ~((sum & 0xffff) + (sum >> 16)));
	put16(tcp, source_port);
	put16(tcp + 2, port);
	tcp[12] = 0x50;
	tcp[13] = flags;
	memset(tcp + 20, 0x42, payload);
	return (struct weir_capture_frame){.data = frame,
		.captured_bytes = 54 + payload,
		.bytes = 54 + payload,
		.time_ns = 1000000000};
}
