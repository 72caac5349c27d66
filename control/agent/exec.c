// SPDX-License-Identifier: BSD-3-Clause
#include "exec.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "clocks.h"
#include "drain.h"
#include "exec_child.h"
#include "exec_notify.h"
#include "listeners.h"
#include "plural.h"
#include "run.h"
#include "word_client.h"

#define REPLY_MS 200 // maximum wait for a reply from the agent
#define RETRY_MS 1000 // time between two attempts to announce a state
// Maximum time without a reply from an agent that replied earlier: it may be restarting.
#define PATIENCE_MS 2000
// During a drain, the stop timeout of systemd is extended to the maximum duration of the drain plus
// this time.
#define STOP_EXTRA_MS 5000

enum state { SERVING, DRAINING, STOPPING };

struct exec {
	const struct weir_agent_options *options;
	struct weir_exec_notify notify;
	int signals; // signalfd
	int listeners; // netlink socket; negative = not open yet
	pid_t server; // 0 = not started yet
	bool ended;
	int status; // status of the server, from waitpid()
	enum state state;
	enum weir_health_word word;
	bool announced; // the state in `word` is announced
	bool complained; // the message that the state cannot be announced was printed
	uint64_t next_ms; // time of the next announcement
	struct weir_word_reply reply; // the last reply
	uint64_t reply_ms; // time of the last reply; 0 = no reply yet
	uint64_t begun_ms; // start of the drain
	struct weir_drain drain;
};

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void say(const char *format, ...) {
	va_list values;

	va_start(values, format);
	fprintf(stderr, "weir-agent exec: ");
	vfprintf(stderr, format, values);
	fprintf(stderr, "\n");
	va_end(values);
}

// --- announcements through the agent ------------------------------------------------------

// Announces the state exec->word through weir-agent run, and stores the reply in exec->reply. If
// this state is already announced, the agent only sends a new reply. why: gets the error; has
// WEIR_WORD_WHY_BYTES bytes. Returns 0 or negative errno.
static int exchange(struct exec *exec, char *why) {
	const struct weir_agent_options *options = exec->options;
	char path[WEIR_WORD_PATH_BYTES], request[32], text[WEIR_WORD_REPLY_BYTES];
	int r = weir_word_path(options->run_dir, options->service, path);

	snprintf(request, sizeof(request), "%s\n", weir_health_word_name(exec->word));
	if (r == 0) {
		r = weir_word_exchange(path, request, REPLY_MS, text);
	}
	if (r) {
		weir_word_explain(r, options->run_dir, options->service, why);
		return r;
	}
	if (weir_word_reply_read(text, &exec->reply)) {
		snprintf(why, WEIR_WORD_WHY_BYTES, "%.*s", (int)strcspn(text, "\n"), text);
		return -EPROTO;
	}
	exec->reply_ms = weir_monotonic_ms();
	return 0;
}

// Returns the activity of the server as a verb for messages.
static const char *activity(const struct exec *exec) {
	if (exec->state != SERVING) {
		return "stops";
	}
	return exec->server > 0 ? "runs" : "will be started";
}

static int announce(struct exec *exec) {
	char why[WEIR_WORD_WHY_BYTES] = "";
	int r = exchange(exec, why);

	exec->next_ms = weir_monotonic_ms() + RETRY_MS;
	exec->announced = r == 0;
	if (r && !exec->complained) {
		say("the server %s, but the state %s cannot be announced: %s", activity(exec),
			weir_health_word_name(exec->word), why);
	} else if (r == 0 && exec->complained) {
		say("announced %s", weir_health_word_name(exec->word));
	}
	exec->complained = r != 0;
	return r;
}

static void set_word(struct exec *exec, enum weir_health_word word) {
	if (exec->word != word) {
		exec->word = word;
		(void)announce(exec);
	}
}

// --- drain --------------------------------------------------------------------------------

static void stop_server(struct exec *exec, const char *reason) {
	say("%s: sending SIG%s to the server", reason, sigabbrev_np(exec->options->stop_signal));
	exec->state = STOPPING;
	(void)kill(exec->server, exec->options->stop_signal);
}

static void begin_drain(struct exec *exec) {
	const struct weir_agent_options *options = exec->options;
	const uint64_t timeout_ms = options->drain_timeout_ms > options->delay_ms
					    ? options->drain_timeout_ms
					    : options->delay_ms;

	exec->state = DRAINING;
	exec->begun_ms = weir_monotonic_ms();
	weir_drain_begin(&exec->drain, exec->begun_ms, timeout_ms, false);
	sd_notifyf(0, "STOPPING=1\nSTATUS=lame-duck\nEXTEND_TIMEOUT_USEC=%llu",
		(unsigned long long)(timeout_ms + STOP_EXTRA_MS) * 1000);
	exec->word = WEIR_HEALTH_WORD_LAME_DUCK;
	exec->next_ms = 0;
}

// Count the TCP connections of the service.
static void count_connections(struct exec *exec, uint32_t *ret_open, uint32_t *ret_half_open) {
	struct weir_listeners_connections connections = {.open = UINT32_MAX};
	uint16_t ports[WEIR_PORT_WORDS_MOST];
	uint32_t count = 0;

	for (uint32_t i = 0; i < exec->reply.port_count; i++) {
		if (exec->reply.port[i].protocol == IPPROTO_TCP) {
			ports[count++] = exec->reply.port[i].port;
		}
	}
	if (exec->listeners < 0) {
		exec->listeners = weir_socket_diag_open();
	}
	if (count == 0) {
		connections.open = 0;
	} else if (exec->listeners >= 0) {
		(void)weir_listeners_connections(exec->listeners, ports, count, &connections);
	}
	*ret_open = connections.open;
	*ret_half_open = connections.half_open;
}

// Returns the number of balancers that have not acknowledged the state. If the state is not
// announced yet, returns a number above 0.
static uint32_t pending(const struct exec *exec) {
	const struct weir_word_reply *reply = &exec->reply;

	return exec->announced && !weir_health_word_is_worse(exec->word, reply->word)
		       ? reply->pending
		       : reply->balancers + 1;
}

static void drain_step(struct exec *exec) {
	bool delayed = weir_monotonic_ms() - exec->begun_ms < exec->options->delay_ms;
	uint64_t since_ms = exec->reply_ms > exec->begun_ms ? exec->reply_ms : exec->begun_ms;
	enum weir_drain_state state;
	uint32_t open, half_open;
	char reason[160], connections[WEIR_DRAIN_COUNT_BYTES];
	const uint64_t start_ns = weir_thread_cpu_ns();
	int r = announce(exec);

	if (r && !delayed &&
		(exec->reply_ms == 0 || weir_monotonic_ms() - since_ms >= PATIENCE_MS)) {
		stop_server(exec, "cannot announce the drain through weir-agent run");
		return;
	}
	count_connections(exec, &open, &half_open);
	state = weir_drain_step(&exec->drain, weir_monotonic_ms(), pending(exec), open, half_open);
	exec->next_ms = weir_monotonic_ms();
	exec->next_ms +=
		weir_drain_pause_ms(&exec->drain, exec->next_ms, weir_thread_cpu_ns() - start_ns);
	if ((state == WEIR_DRAIN_DONE && !delayed) ||
		weir_monotonic_ms() >= exec->drain.deadline_ms) {
		snprintf(reason, sizeof(reason), "%s, acknowledged by %u of %u balancer%s, %s left",
			state == WEIR_DRAIN_DONE ? "drained" : "drain timed out",
			exec->reply.balancers - (exec->drain.pending < exec->reply.balancers
								? exec->drain.pending
								: exec->reply.balancers),
			exec->reply.balancers, weir_plural(exec->reply.balancers),
			weir_drain_count_text(exec->drain.connections, connections));
		stop_server(exec, reason);
	}
}

// --- events -------------------------------------------------------------------------------

static void reap(struct exec *exec) {
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == exec->server) {
			exec->status = status;
			exec->ended = true;
		}
	}
}

// Returns whether the kernel has already sent this signal to the server. The kernel sends the
// signals of terminal keys, such as ^C, to all processes in the foreground. The kernel sends a
// hangup only to the leader of the session, which may be this process.
static bool has_server(const struct signalfd_siginfo *signal) {
	return signal->ssi_code == SI_KERNEL &&
	       !(signal->ssi_signo == SIGHUP && getsid(0) == getpid());
}

static void take_signal(struct exec *exec) {
	struct signalfd_siginfo signal;
	int number;

	if (read(exec->signals, &signal, sizeof(signal)) != sizeof(signal)) {
		return;
	}
	number = (int)signal.ssi_signo;
	if (number == SIGCHLD) {
		reap(exec);
	} else if (number == exec->options->stop_signal && exec->state == SERVING) {
		begin_drain(exec);
	} else if (number == exec->options->stop_signal && exec->state == DRAINING) {
		stop_server(exec, "a second signal ends the drain");
	} else if (!has_server(&signal)) {
		(void)kill(exec->server, number);
	}
}

static void take_notification(struct exec *exec) {
	enum weir_health_word word = weir_exec_notify_take(&exec->notify, exec->server);

	if (word == WEIR_HEALTH_WORD_LAME_DUCK ||
		(word == WEIR_HEALTH_WORD_READY && exec->state == SERVING)) {
		set_word(exec, word);
	}
}

static int left_ms(const struct exec *exec) {
	uint64_t now = weir_monotonic_ms();

	if (exec->state != DRAINING && exec->announced) {
		return -1;
	}
	return exec->next_ms > now ? (int)(exec->next_ms - now) : 0;
}

static void turn(struct exec *exec) {
	struct pollfd events[] = {
		{.fd = exec->signals, .events = POLLIN}, {.fd = exec->notify.fd, .events = POLLIN}};

	if (poll(events, 2, left_ms(exec)) > 0) {
		if (events[0].revents != 0) {
			take_signal(exec);
		}
		if (events[1].revents != 0) {
			take_notification(exec);
		}
	}
	if (exec->ended || left_ms(exec) != 0) {
		return;
	}
	if (exec->state == DRAINING) {
		drain_step(exec);
	} else {
		(void)announce(exec);
	}
}

int weir_exec_run(const struct weir_agent_options *options) {
	struct exec exec = {.options = options, .listeners = -1};
	sigset_t before;
	int r;

	exec.signals = weir_exec_block_signals(&before);
	r = exec.signals < 0 ? exec.signals : weir_exec_notify_open(&exec.notify);
	if (r) {
		say("cannot start: %s", strerror(-r));
		return WEIR_AGENT_REFUSED;
	}
	exec.word = options->starting ? WEIR_HEALTH_WORD_STARTING : WEIR_HEALTH_WORD_READY;
	(void)announce(&exec); // replaces the state that an earlier process announced
	exec.server = weir_exec_spawn(options->program, exec.notify.name, &before);
	if (exec.server < 0) {
		say("cannot start the server: %s", strerror(errno));
		return WEIR_AGENT_REFUSED;
	}
	while (!exec.ended) {
		turn(&exec);
	}
	weir_exec_notify_close(&exec.notify);
	return weir_exec_end_like(exec.status, &before);
}

// --- announce -----------------------------------------------------------------------------

int weir_announce_run(const struct weir_agent_options *options) {
	char path[WEIR_WORD_PATH_BYTES], request[64], reply[WEIR_WORD_REPLY_BYTES];
	char why[WEIR_WORD_WHY_BYTES];
	int r = weir_word_path(options->run_dir, options->service, path);

	snprintf(request, sizeof(request), "%.60s\n", options->word);
	if (r == 0) {
		r = weir_word_exchange(path, request, 5000, reply);
	}
	if (r) {
		fprintf(stderr, "weir-agent: %s\n",
			weir_word_explain(r, options->run_dir, options->service, why));
		return r == -EACCES || r == -E2BIG ? WEIR_AGENT_REFUSED : WEIR_AGENT_ABSENT;
	}
	if (strncmp(reply, "error: ", 7) == 0) {
		fprintf(stderr, "weir-agent: %s", reply + 7);
		return WEIR_AGENT_REFUSED;
	}
	fputs(reply, stdout);
	return WEIR_AGENT_DONE;
}
