// SPDX-License-Identifier: BSD-3-Clause
#include "http_lab.h"

#include <stdio.h>
#include <stdlib.h>

static pid_t start_socat(uint16_t port, const char *command) {
	char listen[64], action[128];
	const char *words[] = {"socat", listen, action, NULL};

	snprintf(listen, sizeof(listen), "TCP4-LISTEN:%u,fork,reuseaddr", port);
	snprintf(action, sizeof(action), "SYSTEM:%s", command);
	return watch_lab_start(words);
}

// The first certificate of a port is used for clients that send no server name or an unknown name.
static void print_tls_server(FILE *file, const char *dir, uint16_t port, const char *name,
	const char *certificate, int status) {
	fprintf(file,
		"	server {\n"
		"		listen 127.0.0.1:%u ssl; listen [::1]:%u ssl; server_name %s;\n"
		"		ssl_certificate %s/%s.pem; ssl_certificate_key %s/%s.key;\n"
		"		return %d;\n"
		"	}\n",
		port, port, name, dir, certificate, dir, certificate, status);
}

// Create name.pem and name.key, signed by ca.pem.
static void make_certificate(const char *dir, const char *name, const char *subject, int days) {
	SHELL("cd %s && { openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "
	      "-subj /CN=%s -addext subjectAltName=%s -keyout %s.key -out %s.csr && "
	      "openssl x509 -req -in %s.csr -copy_extensions copyall -CA ca.pem -CAkey ca.key "
	      "-CAcreateserial -days %d -out %s.pem; } >/dev/null 2>&1",
		dir, name, subject, name, name, name, days, name);
}

static void make_certificates(const char *dir) {
	static const char *const signed_by_itself[] = {"ca", "self", "other"};

	for (int i = 0; i < 3; i++) {
		SHELL("cd %s && openssl req -x509 -newkey ec -pkeyopt "
		      "ec_paramgen_curve:P-256 -nodes -subj /CN=%s -days 2 -keyout %s.key "
		      "-out %s.pem 2>/dev/null",
			dir, signed_by_itself[i], signed_by_itself[i], signed_by_itself[i]);
	}
	make_certificate(dir, "web", "DNS:web.example", 2);
	make_certificate(dir, "old", "DNS:web.example", 0); // expires in the second of its creation
	make_certificate(dir, "address", "IP:127.0.0.1", 2);
	SHELL("cd %s && cat other.pem ca.pem > both.pem", dir);
}

static pid_t start_group_server(const char *dir) {
	char port[8], certificate[128], key[128];
	const char *words[] = {"openssl", "s_server", "-accept", port, "-tls1_2", "-cipher",
		"DHE-RSA-AES128-GCM-SHA256", "-cert", certificate, "-key", key, "-www", "-quiet",
		NULL};

	SHELL("cd %s && openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=group -days 2 "
	      "-keyout group.key -out group.pem 2>/dev/null",
		dir);
	snprintf(port, sizeof(port), "%u", GROUP_PORT);
	snprintf(certificate, sizeof(certificate), "%s/group.pem", dir);
	snprintf(key, sizeof(key), "%s/group.key", dir);
	return watch_lab_start(words);
}

static pid_t start_nginx(const char *dir) {
	char path[128];
	const char *words[] = {"nginx", "-p", dir, "-c", path, "-e", "stderr", NULL};
	FILE *file;

	snprintf(path, sizeof(path), "%s/nginx.conf", dir);
	file = fopen(path, "w");
	assert_non_null(file);
	fprintf(file,
		"daemon off; master_process off; pid %s/nginx.pid; user root;\n"
		"events { worker_connections 1024; }\n"
		"http {\n"
		"	access_log off; error_log stderr crit;\n"
		"	server {\n"
		"		listen 127.0.0.1:%d backlog=1024; listen [::1]:%d backlog=1024;\n"
		"		location /healthz { return 200 ok; }\n"
		"		location /broken { return 503; }\n"
		"		location /lame {\n"
		"			add_header X-Weir-State lame-duck always;\n"
		"			return 503;\n"
		"		}\n"
		"		location /loaded {\n"
		"			add_header X-Weir-State drain;\n"
		"			add_header endpoint-load-metrics \"TEXT "
		"rps_fractional=5\";\n"
		"			return 200;\n"
		"		}\n"
		"		location /moved { return 301 /healthz; }\n"
		"		location /host {\n"
		"			if ($http_host = web.example) { return 204; }\n"
		"			return 421;\n"
		"		}\n"
		"		location /large { root %s; limit_rate 100k; }\n"
		"		location /method {\n"
		"			if ($request_method = HEAD) { return 204; }\n"
		"			if ($request_method = OPTIONS) { return 206; }\n"
		"			return 405;\n"
		"		}\n"
		"	}\n",
		dir, NGINX_PORT, NGINX_PORT, dir);
	print_tls_server(file, dir, TLS_PORT, "other.example", "self", 201);
	print_tls_server(file, dir, TLS_PORT, "web.example", "web", 200);
	print_tls_server(file, dir, TLS_PORT, "alias.example", "web", 202);
	print_tls_server(file, dir, OLD_PORT, "_", "old", 204);
	print_tls_server(file, dir, ADDRESS_PORT, "_", "address", 204);
	fprintf(file, "}\n");
	fclose(file);
	SHELL("truncate -s 8000000 %s/large", dir);
	return watch_lab_start(words);
}

int http_lab_start(void **state) {
	static const uint16_t ports[] = {
		NGINX_PORT, TALKER_PORT, SILENT_PORT, CLOSER_PORT, GROUP_PORT};
	struct lab *lab = calloc(1, sizeof(*lab));

	if (watch_lab_enter(state)) {
		free(lab);
		return -1;
	}
	watch_lab_make_hole();
	strcpy(lab->dir, "/tmp/weir-health-XXXXXX");
	assert_non_null(mkdtemp(lab->dir));
	make_certificates(lab->dir);
	lab->pids[0] = start_nginx(lab->dir);
	lab->pids[1] = start_socat(TALKER_PORT, "echo SSH-2.0; sleep 1");
	lab->pids[2] = start_socat(SILENT_PORT, "sleep 5");
	lab->pids[3] = start_socat(CLOSER_PORT, "true");
	lab->pids[4] = start_group_server(lab->dir);
	for (int i = 0; i < 5; i++) {
		SHELL("for i in $(seq 500); do ss -Htln sport = :%u | grep -q . && exit;"
		      "sleep 0.01; done; exit 1",
			ports[i]);
	}
	*state = lab;
	return 0;
}

int http_lab_stop(void **state) {
	struct lab *lab = *state;

	for (int i = 0; i < 5; i++) {
		watch_lab_stop(lab->pids[i]);
	}
	SHELL("rm -r %s", lab->dir);
	free(lab);
	return 0;
}
