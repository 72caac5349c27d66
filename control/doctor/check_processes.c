// SPDX-License-Identifier: BSD-3-Clause
//
// Checks required kernel features, the permissions of files, and the running processes of Weir.
#include <arpa/inet.h>
#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent_keys.h"
#include "device.h"
#include "doctor.h"
#include "duration.h"
#include "kernel.h"
#include "plural.h"
#include "readable.h"
#include "tree.h"

#define USER_BYTES 64
#define AGENT_KEYS "/etc/weir/agent.keys" // default key file of weir-agent

void weir_doctor_check_kernel(struct weir_doctor *doctor) {
	struct weir_findings *findings = &doctor->findings;
	char protocols[8192];
	int64_t jit;
	bool af_xdp = false;

	for (uint32_t i = 0; doctor->config != NULL && i < doctor->config->port_count; i++) {
		af_xdp |= weir_doctor_device_of(&doctor->config->ports[i]).af_xdp;
	}
	if (!af_xdp) {
		return;
	}
	if (weir_tree_text(doctor->root, protocols, sizeof(protocols), "/proc/net/protocols") <=
		0) {
		weir_findings_add(findings, WEIR_FINDING_NOTICE, "AF_XDP",
			"was not checked: cannot read /proc/net/protocols");
		weir_findings_cure(findings, "cat /proc/net/protocols");
	} else if (strstr(protocols, "\nXDP ") == NULL) {
		weir_findings_add(findings, WEIR_FINDING_FAULT, "AF_XDP",
			"the kernel lacks CONFIG_XDP_SOCKETS: use net_af_packet, or a NIC that is "
			"bound to DPDK");
		weir_findings_cure(findings, "editor %s", doctor->config_path);
	} else {
		weir_findings_add(findings, WEIR_FINDING_OK, "AF_XDP", "supported by the kernel");
	}
	if (weir_tree_number(doctor->root, &jit, "/proc/sys/net/core/bpf_jit_enable") == 0) {
		weir_findings_add(findings, jit > 0 ? WEIR_FINDING_OK : WEIR_FINDING_WARNING,
			"net.core.bpf_jit_enable",
			jit > 0 ? "%" PRId64
				: "%" PRId64
				  ": the kernel interprets the XDP program for each packet",
			jit);
		if (jit == 0) {
			weir_findings_cure(findings, "sysctl -w net.core.bpf_jit_enable=1");
		}
	}
}

static int compare_addresses(const void *a, const void *b) {
	return memcmp(a, b, sizeof(struct weir_address));
}

// Returns the number of different next hops of a family to the backends. In a copy of another
// machine's files (--root), whose routes are unknown, each backend is a next hop.
static uint64_t count_next_hops(const struct weir_doctor *doctor, uint8_t family) {
	const struct weir_config *config = doctor->config;
	struct weir_address *list;
	size_t most = 0, count = 0, different = 0;

	for (uint32_t i = 0; config != NULL && i < config->service_count; i++) {
		most += config->services[i].backend_count;
	}
	list = calloc(most + 1, sizeof(*list));
	for (uint32_t i = 0; list != NULL && config != NULL && i < config->service_count; i++) {
		const struct weir_config_service *service = &config->services[i];

		for (uint32_t k = 0; k < service->backend_count; k++) {
			struct weir_kernel_route route;

			list[count] = service->backends[k].address;
			if (doctor->root[0] == '\0' &&
				weir_kernel_route(&service->backends[k].address, &route) == 0) {
				list[count] = route.next_hop;
			}
			count += list[count].family == family;
		}
	}
	if (list != NULL) {
		qsort(list, count, sizeof(*list), compare_addresses);
	}
	for (size_t i = 0; i < count; i++) {
		different += i == 0 || compare_addresses(&list[i - 1], &list[i]) != 0;
	}
	free(list);
	return different;
}

void weir_doctor_check_neighbour_table(struct weir_doctor *doctor) {
	for (int version = 4; version <= 6; version += 2) {
		const uint64_t hops = count_next_hops(doctor, (uint8_t)version);
		char subject[64], limit[96] = "";
		int64_t most, limited = 0;

		if (hops == 0 || weir_tree_number(doctor->root, &most,
					 "/proc/sys/net/ipv%d/neigh/default/gc_thresh2", version)) {
			continue;
		}
		snprintf(subject, sizeof(subject), "net.ipv%d.neigh.default", version);
		if ((uint64_t)most >= 2 * hops) {
			weir_findings_add(&doctor->findings, WEIR_FINDING_OK, subject,
				"gc_thresh2 is %" PRId64 ", next hops of backends: %" PRIu64, most,
				hops);
			continue;
		}
		weir_findings_add(&doctor->findings, WEIR_FINDING_WARNING, subject,
			"gc_thresh2 is %" PRId64 ", next hops of backends: %" PRIu64
			": the kernel can remove neighbour entries that are in use",
			most, hops);
		(void)weir_tree_number(doctor->root, &limited,
			"/proc/sys/net/ipv%d/neigh/default/gc_thresh3", version);
		if ((uint64_t)limited < 4 * hops) {
			snprintf(limit, sizeof(limit),
				" net.ipv%d.neigh.default.gc_thresh3=%" PRIu64, version, 4 * hops);
		}
		weir_findings_cure(&doctor->findings,
			"sysctl -w%s net.ipv%d.neigh.default.gc_thresh2=%" PRIu64, limit, version,
			2 * hops);
	}
}

// --- access -------------------------------------------------------------------------------

// Returns true if the mode of a file grants no permissions beyond `wanted`. Otherwise adds a
// finding and returns false.
static bool is_strict(
	struct weir_doctor *doctor, const char *path, const struct stat *status, mode_t wanted) {
	const mode_t mode = status->st_mode & 07777;

	if ((mode & ~wanted) == 0) {
		return true;
	}
	weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, path,
		"mode %04o is too permissive: use at most %04o", mode, wanted);
	weir_findings_cure(&doctor->findings, "chmod %04o %s", mode & wanted, path);
	return false;
}

// Checks that the mode of a file or directory is not wider than `wanted`. Does nothing if the path
// does not exist.
static void check_mode(struct weir_doctor *doctor, const char *path, mode_t wanted) {
	char full[WEIR_TREE_PATH_BYTES];
	struct stat status;

	if (lstat(weir_tree_path(doctor->root, path, full), &status) == 0 &&
		is_strict(doctor, path, &status, wanted)) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, path, "mode %04o",
			status.st_mode & 07777);
	}
}

static void check_directory(struct weir_doctor *doctor) {
	char full[WEIR_TREE_PATH_BYTES];
	struct stat status;

	if (lstat(weir_tree_path(doctor->root, doctor->run_dir, full), &status) < 0) {
		if (errno == ENOENT && doctor->root[0] == '\0') {
			weir_findings_add(&doctor->findings, WEIR_FINDING_NOTICE, doctor->run_dir,
				"does not exist: use the --run-dir of weir-dataplane and "
				"weir-control");
		}
		return;
	}
	if ((status.st_mode & 0022) != 0) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, doctor->run_dir,
			"mode %04o: other users can replace the sockets in this directory",
			status.st_mode & 07777);
		weir_findings_cure(&doctor->findings, "chmod go-w %s", doctor->run_dir);
	} else {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, doctor->run_dir, "mode %04o",
			status.st_mode & 07777);
	}
}

// Returns a backend of a service that uses agents, or NULL if there is none.
static const struct weir_config_backend *find_agent(const struct weir_config *config) {
	for (uint32_t i = 0; config != NULL && i < config->service_count; i++) {
		const struct weir_config_service *service = &config->services[i];

		if (service->agent.port != 0 && service->backend_count > 0) {
			return &service->backends[0];
		}
	}
	return NULL;
}

// Returns the user who, besides root, may own the key file: the user of the running weir-control,
// else the user weir, else the user of this process. In a copy of another machine's files (--root),
// any user may own the file.
static uid_t owner_of_keys(const struct weir_doctor *doctor, const struct stat *file) {
	const struct passwd *weir;
	struct stat process;
	char path[64];

	if (doctor->root[0] != '\0') {
		return file->st_uid;
	}
	snprintf(path, sizeof(path), "/proc/%d", (int)doctor->control);
	if (doctor->control != 0 && stat(path, &process) == 0) {
		return process.st_uid;
	}
	weir = getpwnam("weir");
	return weir != NULL ? weir->pw_uid : geteuid();
}

static void check_contents(
	struct weir_doctor *doctor, const char *full, const struct stat *status) {
	const char *file = doctor->config->agents.key_file;
	struct weir_findings *findings = &doctor->findings;
	struct weir_agent_keys keys = {0};
	char why[512] = "";
	int r = weir_agent_crypto_start();

	r = r ? r
	      : weir_agent_keys_read(full, owner_of_keys(doctor, status), &keys, why, sizeof(why));
	if (r == 0) {
		weir_findings_add(findings, WEIR_FINDING_OK, file, "mode %04o, %u key%s",
			status->st_mode & 07777, keys.count, weir_plural(keys.count));
	} else if (r == -EACCES && geteuid() != 0) {
		weir_findings_add(findings, WEIR_FINDING_NOTICE, file,
			"not checked: %s; run weirctl as root", strerror(-r));
		weir_findings_cure(findings, "sudo weirctl doctor");
	} else if (r == -EPERM) {
		weir_findings_add(findings, WEIR_FINDING_FAULT, file, "%s", why);
		weir_findings_cure(findings, "chown root %s && weirctl config reload", file);
	} else {
		weir_findings_add(
			findings, WEIR_FINDING_FAULT, file, "%s", why[0] ? why : strerror(-r));
		weir_findings_cure(findings, "editor %s && weirctl config reload", file);
	}
	weir_agent_keys_wipe(&keys);
}

// Checks whether the running weir-control has permission to read a file. If not, adds a fault with
// the permissions of the file. effect: the consequence of the missing permission, for the text of
// the fault. then: a command to run after the permissions are granted; "" = none. user: gets the
// user of weir-control, unless the result is WEIR_READABLE_UNKNOWN.
static enum weir_readable check_readable(struct weir_doctor *doctor, const char *path,
	const char *effect, const char *then, char user[USER_BYTES]) {
	char found[WEIR_READABLE_FOUND_BYTES], cure[WEIR_READABLE_CURE_BYTES];
	enum weir_readable readable;
	struct weir_reader_ids ids;

	if (doctor->root[0] != '\0' || doctor->control == 0 ||
		!weir_readable_ids(doctor->control, &ids)) {
		return WEIR_READABLE_UNKNOWN;
	}
	weir_user_name(ids.uid, user, USER_BYTES);
	readable = weir_readable_by(&ids, path, found, cure);
	if (readable == WEIR_READABLE_NO) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, path,
			"weir-control (user %s) cannot read the file, so %s: %s", user, effect,
			found);
		weir_findings_cure(&doctor->findings, "%s%s", cure, cure[0] != '\0' ? then : "");
	}
	return readable;
}

// Checks whether the running weir-control has permission to read the configuration file, which a
// reload needs. At startup, weir-control reads the file before it drops root privileges, so a
// missing permission causes an error only at the next reload.
static void check_configuration(struct weir_doctor *doctor) {
	char user[USER_BYTES];

	if (check_readable(doctor, doctor->config_path, "reloads fail", "", user) ==
		WEIR_READABLE_YES) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, doctor->config_path,
			"weir-control (user %s) can read the file", user);
	}
}

// Returns false and adds a fault if the running weir-control has no permission to read the key
// file, which weir-control reads in each reload.
static bool can_read_keys(struct weir_doctor *doctor) {
	char user[USER_BYTES];

	return check_readable(doctor, doctor->config->agents.key_file,
		       "it uses the previous keys, or none", " && weirctl config reload",
		       user) != WEIR_READABLE_NO;
}

// Checks the key file. If it is missing, the remedy copies the key file of a backend, because the
// agents of the backends have the same key. If the backend has no key file, the remedy runs
// "weir-agent key generate" on the backend, because the balancer may have no weir-agent.
static void check_keys(struct weir_doctor *doctor, const struct weir_config_backend *backend) {
	const char *file = doctor->config->agents.key_file;
	char address[INET6_ADDRSTRLEN], full[WEIR_TREE_PATH_BYTES];
	struct stat status;

	if (stat(weir_tree_path(doctor->root, file, full), &status) == 0) {
		if (is_strict(doctor, file, &status, 0640) && can_read_keys(doctor)) {
			check_contents(doctor, full, &status);
		}
	} else if (errno == ENOENT) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, file,
			"does not exist: weir-control cannot probe the agents of the backends");
		weir_findings_cure(&doctor->findings,
			"(umask 027 && ssh %s 'cat " AGENT_KEYS
			" || weir-agent key generate' > %s) && chgrp weir %s",
			weir_address_format(&backend->address, address, sizeof(address)), file,
			file);
	}
}

void weir_doctor_check_access(struct weir_doctor *doctor) {
	static const char *const sockets[] = {"dataplane.sock", "control/control.sock"};
	const struct weir_config_backend *agent = find_agent(doctor->config);
	char path[WEIR_TREE_PATH_BYTES];

	check_directory(doctor);
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%s", doctor->run_dir, sockets[i]);
		check_mode(doctor, path, 0660);
	}
	check_configuration(doctor);
	if (agent != NULL) {
		check_keys(doctor, agent);
	}
}

// --- processes ----------------------------------------------------------------------------

// Returns a soft limit from /proc/PID/limits. INT64_MAX = no limit; -1 = unknown.
static int64_t read_limit(const struct weir_doctor *doctor, pid_t pid, const char *name) {
	char text[4096], *at;

	if (pid == 0 || weir_tree_text(doctor->root, text, sizeof(text), "/proc/%d/limits",
				(int)pid) <= 0) {
		return -1;
	}
	at = strstr(text, name);
	if (at == NULL) {
		return -1;
	}
	at += strlen(name);
	at += strspn(at, " ");
	return strncmp(at, "unlimited", strlen("unlimited")) == 0 ? INT64_MAX
								  : strtoll(at, NULL, 10);
}

// Returns whether a port may need locked memory: a port with AF_XDP, or with a device that is not
// virtual, because VFIO may pass it to DPDK. Returns true if config is NULL.
static bool locks_memory(const struct weir_config *config) {
	for (uint32_t i = 0; config != NULL && i < config->port_count; i++) {
		const char *device = config->ports[i].device;
		const bool is_virtual = strncmp(device, "net_", strlen("net_")) == 0 ||
					strncmp(device, "virtio_user", strlen("virtio_user")) == 0;

		if (!is_virtual || weir_doctor_device_of(&config->ports[i]).af_xdp) {
			return true;
		}
	}
	return config == NULL;
}

void weir_doctor_check_limits(struct weir_doctor *doctor) {
	const int64_t locked = read_limit(doctor, doctor->dataplane, "Max locked memory");
	const int64_t files = read_limit(doctor, doctor->control, "Max open files");
	// File descriptors that weir-control needs: 256 for sockets of checks, clients of the API
	// and timers, and one for each backend.
	int64_t need = 256;

	for (uint32_t i = 0; doctor->config != NULL && i < doctor->config->service_count; i++) {
		need += doctor->config->services[i].backend_count;
	}
	if (locked >= 0 && locked < INT64_MAX && !locks_memory(doctor->config)) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, "weir-dataplane",
			"locked memory: %" PRId64 " bytes; its ports do not need locked memory",
			locked);
	} else if (locked >= 0 && locked < INT64_MAX) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_NOTICE, "weir-dataplane",
			"can lock %" PRId64 " bytes of memory: AF_XDP and VFIO need more unless "
			"the process has CAP_IPC_LOCK",
			locked);
		weir_findings_cure(&doctor->findings, "prlimit --pid %d --memlock=unlimited",
			(int)doctor->dataplane);
	} else if (locked >= 0) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, "weir-dataplane",
			"locked memory: unlimited");
	}
	if (files >= 0 && files < need) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_WARNING, "weir-control",
			"can open %" PRId64
			" files, but the health checks of all backends need %" PRId64,
			files, need);
		weir_findings_cure(&doctor->findings, "prlimit --pid %d --nofile=%" PRId64,
			(int)doctor->control, need * 2);
	} else if (files >= 0) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, "weir-control",
			"limit of open files: %" PRId64 ", needed: %" PRId64, files, need);
	}
}

void weir_doctor_cure_elsewhere(struct weir_doctor *doctor, const struct weir_process *process) {
	if (process->run_dir[0] != '\0') {
		weir_findings_cure(&doctor->findings, "weirctl doctor%s%s --run-dir %s",
			doctor->root[0] ? " --root " : "", doctor->root, process->run_dir);
	} else {
		weir_findings_cure(&doctor->findings, "tr '\\0' ' ' < %s/proc/%d/cmdline",
			doctor->root, (int)process->pid);
	}
}

static void check_program(struct weir_doctor *doctor, const char *name, pid_t pid,
	const struct weir_process *elsewhere) {
	char link[WEIR_TREE_PATH_BYTES], path[64], target[WEIR_TREE_PATH_BYTES];
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	length = pid != 0 ? readlink(weir_tree_path(doctor->root, path, link), target,
				    sizeof(target) - 1)
			  : -1;
	if (pid == 0 && elsewhere->pid != 0) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_NOTICE, name,
			"pid %d runs in %s, not in %.100s, the run directory that is checked",
			(int)elsewhere->pid,
			elsewhere->run_dir[0] ? elsewhere->run_dir : "another directory",
			doctor->run_dir);
		weir_doctor_cure_elsewhere(doctor, elsewhere);
		return;
	}
	if (length < 0) {
		return;
	}
	target[length] = '\0';
	if (strstr(target, " (deleted)") != NULL) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_NOTICE, name,
			"runs an old version: its program file was replaced");
		weir_findings_cure(&doctor->findings, "systemctl restart %s", name);
	} else {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, name, "runs %s", target);
	}
}

void weir_doctor_check_program(struct weir_doctor *doctor) {
	check_program(
		doctor, "weir-dataplane", doctor->dataplane, &doctor->found_dataplane.elsewhere);
	check_program(doctor, "weir-control", doctor->control, &doctor->found_control.elsewhere);
}

void weir_doctor_check_watchdog(struct weir_doctor *doctor) {
	char environment[8192], cgroup[512], after[WEIR_DURATION_BYTES];
	int length, at = 0;

	if (doctor->dataplane == 0 ||
		weir_tree_text(doctor->root, cgroup, sizeof(cgroup), "/proc/%d/cgroup",
			(int)doctor->dataplane) <= 0 ||
		strstr(cgroup, "weir-dataplane.service") == NULL) {
		return;
	}
	length = weir_tree_text(doctor->root, environment, sizeof(environment), "/proc/%d/environ",
		(int)doctor->dataplane);
	if (length <= 0) {
		return;
	}
	while (at < length) { // each variable ends with NUL
		if (strncmp(environment + at, "WATCHDOG_USEC=", strlen("WATCHDOG_USEC=")) == 0) {
			weir_findings_add(&doctor->findings, WEIR_FINDING_OK,
				"weir-dataplane.service", "watchdog after %s",
				weir_duration_text(
					strtoull(environment + at + strlen("WATCHDOG_USEC="), NULL,
						10) /
						1000,
					after));
			return;
		}
		at += (int)strlen(environment + at) + 1;
	}
	weir_findings_add(&doctor->findings, WEIR_FINDING_WARNING, "weir-dataplane.service",
		"has no watchdog: systemd does not restart it when a worker stalls");
	weir_findings_cure(&doctor->findings,
		"systemctl cat weir-dataplane # remove WatchdogSec=0, then: systemctl "
		"daemon-reload && systemctl restart weir-dataplane");
}
