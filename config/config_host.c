// SPDX-License-Identifier: BSD-3-Clause
#include "config_host.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <jansson.h>
#include <limits.h>
#include <netinet/in.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plural.h"
#include "trusted_file.h"

#define SHOWN_MOST 8u // maximum names in a warning
#define QUEUES_MOST 1024u // maximum number of queues that are counted
#define CA_READ_MOST (1l << 20) // bytes of a CA file in which the first certificate must begin
#define NAMES_BYTES (SHOWN_MOST * (IF_NAMESIZE + 2) + 32)

bool weir_config_device_opens_interface(const char *device) {
	return strncmp(device, "net_af_xdp", strlen("net_af_xdp")) == 0 ||
	       strncmp(device, "net_af_packet", strlen("net_af_packet")) == 0;
}

bool weir_config_device_interface(const char *device, char ret[IF_NAMESIZE]) {
	const char *at = strchr(device, ',');

	ret[0] = '\0';
	if (!weir_config_device_opens_interface(device)) {
		return false;
	}
	for (; at != NULL; at = strchr(at, ',')) {
		at++;
		if (strncmp(at, "iface=", strlen("iface=")) == 0) {
			at += strlen("iface=");
			if (strcspn(at, ",") < IF_NAMESIZE) {
				snprintf(ret, IF_NAMESIZE, "%.*s", (int)strcspn(at, ","), at);
			}
			break;
		}
	}
	return ret[0] != '\0';
}

// Returns true if a name is `word`, or `word` followed by digits.
static bool is_numbered(const char *name, const char *word) {
	const size_t length = strlen(word);

	return strncmp(name, word, length) == 0 &&
	       strspn(name + length, "0123456789") == strlen(name + length);
}

bool weir_config_is_own_interface(const char *name) {
	return is_numbered(name, WEIR_CHECK_DEVICE) || is_numbered(name, "dtap") ||
	       is_numbered(name, "weir");
}

// List interfaces as "eth0, eth1", and the number of interfaces that are not listed. Leaves out lo
// and the interfaces that Weir creates.
static void list_names(const struct if_nameindex *interfaces, char text[NAMES_BYTES]) {
	uint32_t count = 0;
	size_t used = 0;

	text[0] = '\0';
	for (const struct if_nameindex *one = interfaces; one->if_index != 0; one++) {
		if (strcmp(one->if_name, "lo") == 0 || weir_config_is_own_interface(one->if_name)) {
			continue;
		}
		if (count++ < SHOWN_MOST) {
			used += (size_t)snprintf(text + used, NAMES_BYTES - used, "%s%.15s",
				used > 0 ? ", " : "", one->if_name);
		}
	}
	if (count > SHOWN_MOST) {
		snprintf(text + used, NAMES_BYTES - used, " and %u more", count - SHOWN_MOST);
	} else if (count == 0) {
		snprintf(text, NAMES_BYTES, "none");
	}
}

static bool exists(const struct if_nameindex *interfaces, const char *name) {
	for (const struct if_nameindex *one = interfaces; one->if_index != 0; one++) {
		if (strcmp(one->if_name, name) == 0) {
			return true;
		}
	}
	return false;
}

uint32_t weir_config_count_queues(const char *root, const char *interface) {
	char path[PATH_MAX];
	uint32_t count = 0;

	do {
		snprintf(path, sizeof(path), "%s/sys/class/net/%.15s/queues/rx-%u", root, interface,
			count);
	} while (access(path, F_OK) == 0 && ++count < QUEUES_MOST);
	return count;
}

bool weir_config_lacks_queues(const struct weir_config_port *port, uint32_t queues) {
	return port->queues > queues && queues > 0 && strstr(port->device, "queue_count=") == NULL;
}

int weir_config_add_warning(
	struct weir_config_errors *errors, const struct weir_config_error *warning) {
	struct weir_config_error *grown = realloc(
		errors->warning, ((size_t)errors->warning_count + 1) * sizeof(errors->warning[0]));

	if (grown == NULL) {
		return -ENOMEM;
	}
	errors->warning = grown;
	errors->warning[errors->warning_count++] = *warning;
	return 0;
}

int weir_config_warn_interfaces(
	const struct weir_config *config, struct weir_config_errors *errors) {
	struct if_nameindex *interfaces = if_nameindex();
	char name[IF_NAMESIZE], names[NAMES_BYTES];
	int r = 0;

	if (interfaces == NULL) {
		// Out of memory is an error. After any other error there is no list of interfaces,
		// so no warning is possible.
		return errno == ENOMEM || errno == ENOBUFS ? -ENOMEM : 0;
	}
	for (uint32_t i = 0; r == 0 && i < config->port_count; i++) {
		const struct weir_config_port *port = &config->ports[i];
		struct weir_config_error warning = {.line = port->line};
		uint32_t queues;

		if (!weir_config_device_interface(port->device, name)) {
			continue;
		}
		queues = weir_config_count_queues("", name);
		if (!exists(interfaces, name)) {
			list_names(interfaces, names);
			snprintf(warning.path, sizeof(warning.path), "ports[%u].device", i);
			snprintf(warning.reason, sizeof(warning.reason),
				"interface %s does not exist on this host, and weir-dataplane "
				"would not start; interfaces: %s",
				name, names);
		} else if (weir_config_lacks_queues(port, queues)) {
			snprintf(warning.path, sizeof(warning.path), "ports[%u].queues", i);
			snprintf(warning.reason, sizeof(warning.reason),
				"interface %s has %u queue%s, fewer than %u, and weir-dataplane "
				"would not start; lower \"queues\", or run \"ethtool -L %s "
				"combined %u\" if the device supports it",
				name, queues, weir_plural(queues), port->queues, name,
				port->queues);
		} else {
			continue;
		}
		r = weir_config_add_warning(errors, &warning);
	}
	if_freenameindex(interfaces);
	return r;
}

// Returns whether a CPU is online, according to the kernel's files. Without these files, every CPU
// is assumed to be online.
static bool is_online(uint32_t cpu) {
	char path[64], state = '1';
	FILE *file;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u", cpu);
	if (access(path, F_OK) < 0) {
		return access("/sys/devices/system/cpu/cpu0", F_OK) < 0;
	}
	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/online", cpu);
	file = fopen(path, "re");
	if (file != NULL) { // without the file, the CPU cannot be taken offline
		(void)fread(&state, 1, 1, file);
		fclose(file);
	}
	return state != '0';
}

int weir_config_warn_cpus(const struct weir_config *config, struct weir_config_errors *errors) {
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < config->workers.count; i++) {
		struct weir_config_error warning = {0};

		if (is_online(config->workers.cores[i])) {
			continue;
		}
		snprintf(warning.path, sizeof(warning.path), "workers.cores[%u]", i);
		snprintf(warning.reason, sizeof(warning.reason),
			"CPU %u is not online on this host, and weir-dataplane would not start; "
			"use CPUs that \"lscpu -e\" lists as online",
			config->workers.cores[i]);
		r = weir_config_add_warning(errors, &warning);
	}
	return r;
}

// Returns whether a file contains the first line of a certificate in PEM. The line may have a word
// before CERTIFICATE: "TRUSTED" or "X509".
static bool has_certificate(FILE *file) {
	static const char begin[] = "-----BEGIN ", end[] = "CERTIFICATE-----";
	char line[256];

	while (fgets(line, sizeof(line), file) != NULL && ftell(file) <= CA_READ_MOST) {
		if (strncmp(line, begin, strlen(begin)) == 0 && strstr(line, end) != NULL) {
			return true;
		}
	}
	return false;
}

// Returns an open regular file, or -1 with errno. Opening a pipe does not block.
static int open_regular(const char *file) {
	const int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat status;

	if (fd >= 0 && (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode))) {
		close(fd);
		errno = EINVAL;
		return -1;
	}
	return fd;
}

int weir_config_try_ca_file(const char *file, char why[WEIR_CONFIG_CA_WHY_BYTES]) {
	const int fd = open_regular(file);
	FILE *stream = fd >= 0 ? fdopen(fd, "r") : NULL;
	int r = stream == NULL ? -errno : has_certificate(stream) ? 0 : -EBADMSG;

	if (r < 0) {
		snprintf(why, WEIR_CONFIG_CA_WHY_BYTES, "cannot read CA certificates from %s: %s",
			file,
			r == -EBADMSG  ? "no certificate in PEM"
			: r == -EINVAL ? "not a regular file"
				       : strerror(-r));
	}
	if (stream != NULL) {
		fclose(stream);
	} else if (fd >= 0) {
		close(fd);
	}
	return r;
}

// Returns whether the file is not in `seen` yet, and adds it. Also returns true if out of memory.
static bool is_first(json_t *seen, const char *file) {
	const bool first = json_object_get(seen, file) == NULL;

	(void)json_object_set_new_nocheck(seen, file, json_true());
	return first;
}

int weir_config_warn_ca_files(const struct weir_config *config, weir_config_ca_fault_fn fault,
	struct weir_config_errors *errors) {
	json_t *seen = json_object();
	int r = 0;

	for (uint32_t i = 0; i < config->service_count; i++) {
		struct weir_config_checks at = {.service = &config->services[i]};

		while (r == 0 && weir_config_next_check(&at)) {
			const char *file = at.check->verify ? at.check->ca_file : "";
			struct weir_config_error warning = {0};

			if (file[0] != '\0' && is_first(seen, file) &&
				fault(file, warning.reason, sizeof(warning.reason))) {
				warning.line = weir_config_check_path(config, &at, ".ca_file",
					warning.path, sizeof(warning.path));
				r = weir_config_add_warning(errors, &warning);
			}
		}
	}
	json_decref(seen);
	return r;
}

// Returns whether weir-control may run the programs of this user: root, the user of this process
// (if weir-control is not started as root), or a default of --script-user.
static bool may_own_programs(uid_t user) {
	const struct passwd *known = user == 0 || user == geteuid() ? NULL : getpwuid(user);

	return user == 0 || user == geteuid() ||
	       (known != NULL && (strcmp(known->pw_name, "weir-script") == 0 ||
					 strcmp(known->pw_name, "nobody") == 0));
}

// Returns why weir-control would not run a program, or NULL if it would or if this is unknown.
static const char *program_fault(const char *file) {
	struct stat status;

	if (stat(file, &status) < 0) {
		return errno == EACCES ? NULL : strerror(errno);
	}
	if (!S_ISREG(status.st_mode)) {
		return "not a regular file";
	}
	if ((status.st_mode & 0111) == 0) {
		return "not executable: chmod +x";
	}
	if (!may_own_programs(status.st_uid)) {
		return "its owner is neither root nor the default --script-user: chown root:root";
	}
	return weir_file_others_write(&status)
		       ? "users other than root can change the file: chmod go-w"
		       : NULL;
}

static int warn_program(const struct weir_config_command *command, const char *path, int line,
	struct weir_config_errors *errors) {
	struct weir_config_error warning = {.line = line};
	const char *fault = command->words > 0 ? program_fault(command->text) : NULL;

	if (fault == NULL) {
		return 0;
	}
	snprintf(warning.path, sizeof(warning.path), "%s", path);
	snprintf(warning.reason, sizeof(warning.reason),
		"%.200s: %s; weir-control would not run it on this host", command->text, fault);
	return weir_config_add_warning(errors, &warning);
}

int weir_config_warn_programs(const struct weir_config *config, struct weir_config_errors *errors) {
	int r = warn_program(&config->notify.command, "notify.command", 0, errors);
	json_t *seen = json_object();

	for (uint32_t i = 0; i < config->service_count; i++) {
		struct weir_config_checks at = {.service = &config->services[i]};

		while (r == 0 && weir_config_next_check(&at)) {
			const struct weir_config_command *command = &at.check->command;
			char path[80];

			if (command->words > 0 && is_first(seen, command->text)) {
				const int line = weir_config_check_path(
					config, &at, ".command", path, sizeof(path));

				r = warn_program(command, path, line, errors);
			}
		}
	}
	json_decref(seen);
	return r;
}

// --- backends on this host ----------------------------------------------------------------

static bool is_address_of(const struct ifaddrs *interface, const struct weir_address *address) {
	const struct sockaddr *own = interface->ifa_addr;

	if (own == NULL) {
		return false;
	}
	if (address->family == 6) {
		return own->sa_family == AF_INET6 &&
		       memcmp(&((const struct sockaddr_in6 *)own)->sin6_addr, address->bytes, 16) ==
			       0;
	}
	return own->sa_family == AF_INET &&
	       memcmp(&((const struct sockaddr_in *)own)->sin_addr, address->bytes, 4) == 0;
}

static bool is_local(const struct ifaddrs *interfaces, const struct weir_address *address) {
	while (interfaces != NULL && !is_address_of(interfaces, address)) {
		interfaces = interfaces->ifa_next;
	}
	return interfaces != NULL;
}

static int warn_local(const struct weir_config *config, uint32_t service, uint32_t backend,
	struct weir_config_errors *errors) {
	struct weir_config_error warning = {.line = config->services[service].line};

	snprintf(warning.path, sizeof(warning.path), "services[%u].backends[%u].address", service,
		backend);
	snprintf(warning.reason, sizeof(warning.reason),
		"is an address of this host: weir-dataplane sends no packets to its own host, so "
		"the backend would get none; run the server on another host, or in a network "
		"namespace with an interface on the network of the ports");
	return weir_config_add_warning(errors, &warning);
}

int weir_config_warn_local_backends(
	const struct weir_config *config, struct weir_config_errors *errors) {
	struct ifaddrs *interfaces;
	int r = 0;

	if (getifaddrs(&interfaces) < 0) { // as for if_nameindex
		return errno == ENOMEM || errno == ENOBUFS ? -ENOMEM : 0;
	}
	for (uint32_t i = 0; r == 0 && i < config->service_count; i++) {
		const struct weir_config_service *service = &config->services[i];

		for (uint32_t j = 0; r == 0 && j < service->backend_count; j++) {
			if (is_local(interfaces, &service->backends[j].address)) {
				r = warn_local(config, i, j, errors);
			}
		}
	}
	freeifaddrs(interfaces);
	return r;
}
