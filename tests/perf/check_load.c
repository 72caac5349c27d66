// SPDX-License-Identifier: BSD-3-Clause
//
// Measures health checks of many backends. One process simulates servers on addresses of 127/8;
// another process runs the health module of weir-control, which checks each server every second.
// Prints CPU time and memory of the checking process, and the delay of checks. Fails if no check
// passed. With --strict it also fails if a check failed or started more than 100 ms late; this
// requires otherwise idle CPUs.
//
// usage: check_load BACKENDS SECONDS tcp|http|agent-check HANGING [--strict]
//        check_load BACKENDS SECONDS tcp|http direct|data-path WEIR-AGENT
//
// The first HANGING servers accept connections and never answer.
//
// The second form (root only) compares the direct path of a check with the data path. The server is
// in a separate network namespace behind a veth, and WEIR-AGENT decapsulates packets there. Each
// backend has a separate VIP, so that connections of two backends do not collide in the server.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "health.h"
#include "shell.h"

#define LATE_MS 100 // with --strict, a check that starts later counts as failed
#define LATE_MOST 10000u
#define TIMEOUT_MS 500

#define SERVER "10.0.0.11" // address of the server in the second form
#define VIPS "198.18.0.0/15"
#define SERVER_PORT 8080

struct load {
	uv_loop_t loop;
	uv_timer_t sample;
	struct weir_health *health;
	uint32_t backends, hanging, seconds, elapsed;
	bool strict;
	uint64_t begun[LATE_MOST + 1]; // number of checks by delay in ms
	double cpu_at_first; // CPU time of the process when the measurement begins, after 2 s
};

static uint32_t address_of(uint32_t backend) {
	return htonl(0x7f010000u + backend);
}

// --- the servers ----------------------------------------------------------------------------

static void serve_one(int fd, bool http, uint32_t hanging) {
	static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
			  line[] = "up\n";
	struct sockaddr_in own = {0};
	socklen_t bytes = sizeof(own);
	char request[1024];

	getsockname(fd, (struct sockaddr *)&own, &bytes);
	if (ntohl(own.sin_addr.s_addr) - 0x7f010000u < hanging) {
		return; // never answer; the client closes the connection
	}
	if (http && recv(fd, request, sizeof(request), MSG_DONTWAIT) < 0) {
		return; // the socket was closed, or epoll returned too early
	}
	if (write(fd, http ? answer : line, http ? sizeof(answer) - 1 : sizeof(line) - 1) < 0) {
		return;
	}
}

// Serves connections; closes a socket after the client has closed it.
static void serve(int listener, bool http, uint32_t hanging) {
	int set = epoll_create1(0);
	struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, events[256];

	epoll_ctl(set, EPOLL_CTL_ADD, listener, &event);
	for (;;) {
		int n = epoll_wait(set, events, 256, -1), fd;

		for (int i = 0; i < n; i++) {
			fd = events[i].data.fd;
			if (fd == listener) {
				while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
					event = (struct epoll_event){
						.events = EPOLLIN | EPOLLRDHUP | EPOLLET,
						.data.fd = fd};
					epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
					if (!http) {
						serve_one(fd, http, hanging);
					}
				}
			} else if (events[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
				close(fd);
			} else if (http) {
				serve_one(fd, http, hanging);
			}
		}
	}
}

static pid_t start_servers(bool http, uint32_t hanging, uint16_t *ret_port) {
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(*ret_port)};
	socklen_t bytes = sizeof(any);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	pid_t pid;

	if (bind(listener, (struct sockaddr *)&any, sizeof(any)) < 0 ||
		listen(listener, 4096) < 0 ||
		getsockname(listener, (struct sockaddr *)&any, &bytes) < 0) {
		perror("server");
		exit(1);
	}
	*ret_port = ntohs(any.sin_port);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		signal(SIGPIPE, SIG_IGN);
		serve(listener, http, hanging);
	}
	close(listener);
	return pid;
}

// --- a server behind a veth ------------------------------------------------------------------

static void decapsulate(const char *agent) {
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(STDERR_FILENO, STDOUT_FILENO);
		execl(agent, agent, "decap", "eth0", NULL);
		perror(agent);
		_exit(127);
	}
}

// This process enters a separate network namespace; its child, the server, enters a second one.
static pid_t start_far_server(bool http, const char *agent) {
	char go = 0;
	int pipes[2];
	pid_t pid;

	if (unshare(CLONE_NEWNET) < 0 || pipe(pipes) < 0 || (pid = fork()) < 0) {
		perror("namespace (root?)");
		exit(1);
	}
	if (pid == 0) {
		uint16_t port = SERVER_PORT;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (unshare(CLONE_NEWNET) < 0 || write(pipes[1], "n", 1) != 1 ||
			raise(SIGSTOP) != 0) {
			_exit(1);
		}
		decapsulate(agent);
		start_servers(http, 0, &port);
		for (;;) {
			pause();
		}
	}
	if (read(pipes[0], &go, 1) != 1 || waitpid(pid, NULL, WUNTRACED) != pid) {
		exit(1);
	}
	if (!shell_runs("ip link set lo up && ip link add ours type veth peer name eth0 netns %d",
		    (int)pid) ||
		!shell_runs("ip addr add 10.0.0.2/24 dev ours && ip link set ours up && ethtool -K "
			    "ours tx off >/dev/null") ||
		!shell_runs("nsenter -t %d -n sh -c 'ip link set lo up && ip addr add " SERVER
			    "/24 dev eth0 && ip link set eth0 up && ip route add local " VIPS
			    " dev lo'",
			(int)pid) ||
		!shell_runs("ip route add default via " SERVER)) {
		exit(1);
	}
	kill(pid, SIGCONT);
	sleep(2); // time for the agent and the listener to start
	return pid;
}

// --- the checks -----------------------------------------------------------------------------

static void on_health(
	void *context, uint16_t backend, enum weir_health_verdict verdict, const char *detail) {
	const struct load *load = context;

	if (verdict == WEIR_HEALTH_VERDICT_FAILING && backend >= load->hanging) {
		fprintf(stderr, "backend %u: %s\n", backend, detail);
	}
}

static void on_report(
	void *context, uint16_t backend, const struct weir_report *report, const char *source) {
	(void)context;
	(void)backend;
	(void)report;
	(void)source;
}

static double cpu_seconds(void) {
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

// Every second, record the last start of each check.
static void on_sample(uv_timer_t *timer) {
	struct load *load = timer->data;

	load->elapsed++;
	if (load->elapsed == 2) {
		load->cpu_at_first = cpu_seconds();
	}
	for (uint32_t i = 0; i < load->backends && load->elapsed > 2; i++) {
		struct weir_health_status status;

		if (weir_health_status(load->health, (uint16_t)i, false, &status) == 0) {
			load->begun[status.late_ms < LATE_MOST ? status.late_ms : LATE_MOST]++;
		}
	}
	if (load->elapsed >= load->seconds + 2) {
		uv_stop(&load->loop);
	}
}

static uint32_t percentile(const struct load *load, double share) {
	uint64_t all = 0, below = 0;

	for (uint32_t i = 0; i <= LATE_MOST; i++) {
		all += load->begun[i];
	}
	for (uint32_t i = 0; i <= LATE_MOST; i++) {
		below += load->begun[i];
		if ((double)below >= share * (double)all) {
			return i;
		}
	}
	return LATE_MOST;
}

static int print(const struct load *load) {
	uint64_t passes = 0, fails = 0;
	struct rusage usage;

	for (uint32_t i = 0; i < load->backends; i++) {
		struct weir_health_status status;

		if (weir_health_status(load->health, (uint16_t)i, false, &status) == 0) {
			passes += status.passes;
			fails += i >= load->hanging ? status.fails : 0;
		}
	}
	getrusage(RUSAGE_SELF, &usage);
	printf("backends %u hanging %u passed %llu failed %llu cpu %.1f %% memory %.1f MB\n",
		load->backends, load->hanging, (unsigned long long)passes,
		(unsigned long long)fails,
		100 * (cpu_seconds() - load->cpu_at_first) / load->seconds,
		(double)usage.ru_maxrss / 1024);
	printf("late ms: median %u p90 %u p99 %u p99.9 %u most %u\n", percentile(load, 0.5),
		percentile(load, 0.9), percentile(load, 0.99), percentile(load, 0.999),
		percentile(load, 1));
	return passes == 0 || (load->strict && (percentile(load, 1) > LATE_MS || fails > 0));
}

static void on_lost(void *context, const char *device) {
	(void)context;
	fprintf(stderr, "%s is gone\n", device);
}

static void open_data_path(struct load *load) {
	struct weir_data_path_tunnel tunnel;
	char why[256] = "";

	if (weir_data_path_tunnel_open(geteuid(), &tunnel, why, sizeof(why)) < 0 ||
		weir_health_set_data_path(load->health, &tunnel, on_lost) < 0) {
		fprintf(stderr, "data path: %s\n", why);
		exit(1);
	}
}

static void configure(
	struct load *load, const struct weir_config_health_check *check, uint16_t port, bool far) {
	struct weir_health_target *targets = calloc(load->backends, sizeof(*targets));
	struct weir_address *vips = calloc(load->backends, sizeof(*vips));
	int r;

	for (uint32_t i = 0; i < load->backends; i++) {
		uint32_t address = address_of(i);

		targets[i] = (struct weir_health_target){.backend = (uint16_t)i,
			.port = port,
			.address = {.family = 4},
			.check = check,
			.initial = WEIR_HEALTH_VERDICT_UNKNOWN};
		memcpy(targets[i].address.bytes, &address, sizeof(address));
		if (far) {
			weir_address_parse(SERVER, &targets[i].address);
		}
		if (check->via == WEIR_VIA_DATA_PATH) {
			uint32_t vip = htonl(0xc6120000u + i);

			vips[i].family = 4;
			memcpy(vips[i].bytes, &vip, sizeof(vip));
			targets[i].vips = &vips[i];
			targets[i].vip_count = 1;
		}
	}
	r = weir_health_configure(load->health, targets, load->backends);
	if (r < 0) {
		fprintf(stderr, "configure: %s\n", strerror(-r));
		exit(1);
	}
	free(vips);
	free(targets);
}

static void raise_limit(void) {
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char **argv) {
	struct weir_config_health_check check = {.url.path = "/",
		.url.status_first = 200,
		.url.status_last = 399,
		.interval_ms = 1000,
		.timeout_ms = TIMEOUT_MS,
		.rise = 2,
		.fall = 3};
	static struct load load;
	bool direct, data_path;
	uint16_t port = 0;
	pid_t servers;
	int r;

	if (argc < 5) {
		fprintf(stderr,
			"usage: %s BACKENDS SECONDS tcp|http|agent-check HANGING [--strict]\n"
			"       %s BACKENDS SECONDS tcp|http direct|data-path WEIR-AGENT\n",
			argv[0], argv[0]);
		return 2;
	}
	raise_limit();
	load.backends = (uint32_t)atoi(argv[1]);
	load.seconds = (uint32_t)atoi(argv[2]);
	load.hanging = (uint32_t)atoi(argv[4]);
	load.strict = argc > 5 && strcmp(argv[5], "--strict") == 0;
	check.type = strcmp(argv[3], "tcp") == 0    ? WEIR_CHECK_TCP
		     : strcmp(argv[3], "http") == 0 ? WEIR_CHECK_HTTP
						    : WEIR_CHECK_AGENT_CHECK;
	direct = argc > 5 && strcmp(argv[4], "direct") == 0;
	data_path = argc > 5 && strcmp(argv[4], "data-path") == 0;
	if (direct || data_path) {
		check.via = data_path ? WEIR_VIA_DATA_PATH : WEIR_VIA_DIRECT;
		port = SERVER_PORT;
		servers = start_far_server(check.type == WEIR_CHECK_HTTP, argv[5]);
	} else {
		servers = start_servers(check.type == WEIR_CHECK_HTTP, load.hanging, &port);
	}
	uv_loop_init(&load.loop);
	if (weir_health_create(&load.loop, on_health, on_report, &load, &load.health) < 0) {
		return 1;
	}
	if (data_path) {
		open_data_path(&load);
	}
	configure(&load, &check, port, direct || data_path);
	uv_timer_init(&load.loop, &load.sample);
	load.sample.data = &load;
	uv_timer_start(&load.sample, on_sample, 1000, 1000);
	uv_run(&load.loop, UV_RUN_DEFAULT);
	r = print(&load);
	weir_health_free(load.health);
	uv_close((uv_handle_t *)&load.sample, NULL);
	uv_run(&load.loop, UV_RUN_DEFAULT);
	kill(servers, SIGKILL);
	waitpid(servers, NULL, 0);
	return r;
}
