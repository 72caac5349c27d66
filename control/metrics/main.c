// SPDX-License-Identifier: BSD-3-Clause
//
// weir-metrics: serves metrics of weir-control and weir-dataplane over HTTP, and a page that
// displays them.
#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <unistd.h>

#include "accounts.h"
#include "clocks.h"
#include "daemon_options.h"
#include "family_list.h"
#include "help_text.h"
#include "history.h"
#include "metrics_options.h"
#include "server.h"
#include "standard_output.h"
#include "weir_version.h"

#define EXIT_USAGE 2
#define WHY_BYTES 320
#define BACKLOG 64
#define SAVE_S 60 // interval between two saves of the history, in seconds

static int open_socket(const struct weir_metrics_options *options, struct weir_log *log) {
	const struct sockaddr *address = (const struct sockaddr *)&options->listen.address;
	int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
		bind(fd, address, options->listen.bytes) < 0 || listen(fd, BACKLOG) < 0) {
		int r = -errno;

		weir_log_write(log, WEIR_LOG_ERROR, "cannot listen on %s: %s", options->listen_text,
			strerror(-r));
		if (fd >= 0) {
			close(fd);
		}
		return r;
	}
	return fd;
}

// If started as root, changes to an unprivileged user, which drops all capabilities, and to a group
// that has read access to weir-control. An HTTP server needs no capabilities.
static int drop_privileges(const struct weir_metrics_options *options, struct weir_log *log) {
	char why[WHY_BYTES] = "";
	uid_t uid;
	gid_t gid;
	int r;

	if (geteuid() == 0) {
		r = weir_account_user(
			"user", options->user, WEIR_METRICS_USER_DEFAULT, &uid, why, sizeof(why));
		if (r == 0 && uid == (uid_t)-1) {
			r = weir_account_user("user", NULL, "nobody", &uid, why, sizeof(why));
		}
		if (r == 0) {
			r = weir_account_group("group", options->group, WEIR_GROUP_DEFAULT, &gid,
				why, sizeof(why));
		}
		if (r == 0 && gid == (gid_t)-1) {
			snprintf(why, sizeof(why),
				"there is no group " WEIR_GROUP_DEFAULT
				": create it (groupadd --system " WEIR_GROUP_DEFAULT
				"), or set --group to the group of weir-control");
			r = -ENOENT;
		} else if (r == 0 && (uid == (uid_t)-1 || uid == 0)) {
			snprintf(why, sizeof(why),
				"weir-metrics must not keep running as root: set --user to another "
				"user");
			r = -EINVAL;
		}
		if (r == 0 && (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 ||
				      setresuid(uid, uid, uid) < 0)) {
			r = -errno;
			snprintf(why, sizeof(why), "cannot change the user: %s", strerror(-r));
		}
	} else {
		r = options->user != NULL || options->group != NULL ? -EPERM : 0;
		snprintf(why, sizeof(why),
			"--user and --group require root: start weir-metrics as root, or omit "
			"them");
	}
	if (r == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
		r = -errno;
		snprintf(why, sizeof(why), "cannot set no_new_privs: %s", strerror(-r));
	}
	if (r < 0) {
		weir_log_write(log, WEIR_LOG_ERROR, "%s", why);
	}
	return r;
}

static time_t now_s(void) {
	return (time_t)(weir_monotonic_ms() / 1000);
}

// Takes samples, saves the history and closes old connections, until a signal in `signals` arrives.
static void wait_for_end(
	struct weir_server *server, struct weir_documents *documents, const sigset_t *signals) {
	const struct timespec second = {.tv_sec = 1};
	time_t sampled = 0, saved = now_s();

	do {
		if (now_s() - sampled >= WEIR_HISTORY_MS / 1000) {
			sampled = now_s();
			weir_documents_sample(documents);
		}
		if (now_s() - saved >= SAVE_S) {
			saved = now_s();
			weir_documents_save(documents);
		}
		weir_server_second(server);
	} while (sigtimedwait(signals, NULL, &second) < 0);
	weir_documents_save(documents);
}

static int serve(const struct weir_metrics_options *options, int fd, struct weir_log *log,
	const sigset_t *signals) {
	struct weir_server_params params = {
		.fd = fd, .hosts = options->hosts, .host_count = options->host_count, .log = log};
	struct weir_documents *documents;
	struct weir_server *server;
	int r = weir_documents_create(
		options->run_dir, options->timeout_ms, options->ipvs_names, log, &documents);

	if (r < 0) {
		weir_log_write(log, WEIR_LOG_ERROR, "cannot serve: %s", strerror(-r));
		close(fd);
		return r;
	}
	if (options->state_dir != NULL) {
		weir_documents_keep(documents, options->state_dir);
	}
	params.documents = documents;
	r = weir_server_create(&params, &server);
	if (r < 0) {
		weir_log_write(log, WEIR_LOG_ERROR, "cannot serve: %s", strerror(-r));
		goto free_documents;
	}
	weir_log_write(log, WEIR_LOG_INFO, "weir-metrics %s (pid %d, uid %u): http://%s/metrics",
		WEIR_VERSION, (int)getpid(), (unsigned int)geteuid(), options->listen_text);
	sd_notifyf(0, "READY=1\nSTATUS=http://%s/metrics", options->listen_text);
	wait_for_end(server, documents, signals);
	sd_notify(0, "STOPPING=1");
	weir_server_free(server);
free_documents:
	weir_documents_free(documents);
	return r;
}

static int finish_output(void) {
	return weir_standard_output_finish("weir-metrics", stdout, stderr) ? EXIT_SUCCESS
									   : EXIT_FAILURE;
}

static int print_families(void) {
	struct weir_text text = {0};

	weir_families_markdown(&text);
	fwrite(text.data, 1, text.bytes, stdout);
	free(text.data);
	return text.failed ? EXIT_FAILURE : finish_output();
}

int main(int argc, char **argv) {
	struct weir_metrics_options options;
	char why[WHY_BYTES], text[WEIR_HELP_BYTES];
	unsigned int lost_lines = 0;
	struct weir_log log = {.fd = STDERR_FILENO, .lost = &lost_lines};
	sigset_t signals;
	int fd, r;

	weir_standard_output_claim();
	signal(SIGPIPE, SIG_IGN); // the process that reads the log from a pipe may exit first
	if (weir_metrics_options_parse(argc, argv, &options, why, sizeof(why)) < 0) {
		fprintf(stderr, "weir-metrics: %s\nTry: weir-metrics --help\n", why);
		return EXIT_USAGE;
	}
	if (options.help || options.version) {
		fputs(options.help ? weir_metrics_help(text, sizeof(text))
				   : "weir-metrics " WEIR_VERSION "\n",
			stdout);
		return finish_output();
	}
	if (options.families) {
		return print_families();
	}
	log.level = options.log_level;
	weir_log_open(&log, options.log_format);
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigprocmask(SIG_BLOCK, &signals, NULL); // new threads inherit the mask
	fd = open_socket(&options, &log);
	r = fd < 0 ? fd : drop_privileges(&options, &log);
	if (r == 0) {
		r = serve(&options, fd, &log, &signals);
	} else if (fd >= 0) {
		close(fd);
	}
	weir_log_close(&log);
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
