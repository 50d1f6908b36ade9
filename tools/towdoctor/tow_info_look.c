/*
 * tow_info_look.c - gathers the document of tow-info: build, lanes, the report of a runtime that is
 * opened here, host, interfaces, and the variables of the environment.
 *
 *   {"version", "library": {"version", "file"},
 *    "build": {"compiler", "buildtype", "sanitize", "options": [{"name", "there", "why"}]},
 *    "runtime": {"opens", "why", "poller", "poller_why", "log": [{"level", "text"}], "require",
 *                "refused_lanes": [{"lane", "why"}]},
 *    "lanes": [{"name", "reach", "help", "there", "address", "why"}],
 *    "host": [{"group", "name", "severity", "found"}],
 *    "interfaces": [{"name", "up", "loopback", "speed_mbits", "mtu_bytes", "numa_node",
 *                    "addresses"}],
 *    "interfaces_left_out",
 *    "environment": [{"name", "value", "knob"}]}
 *
 * Unknown values are null. Without a probe it is unknown whether a lane works: "there" is null.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <towline/towline.h>

#include "tools/towdoctor/tow_info.h"
#include "tools/towdoctor/towdoctor.h"

#include <info_build.h>

#define RUNTIME_MS     10000
#define RUNTIME_BYTES  (128 << 10)
#define INTERFACES_MAX 64
#define VALUE_BYTES    256

static const struct {
	const char *name, *off;
} options[] = {
	{ "diagnostics", INFO_DIAGNOSTICS_OFF },
	{ "libfabric", INFO_OFI_OFF },
	{ "xspace", INFO_XSPACE_OFF },
	{ "usdt", INFO_USDT_OFF },
	{ "bpf", INFO_BPF_OFF },
	{ "dwarf", INFO_DWARF_OFF },
};

/*
 * The checks of towdoctor that show what a host has. The others only judge, and stay with
 * towdoctor.
 */
static const struct {
	const char *group, *name;
	void (*check)(struct doctor *doctor, struct finding *out);
} checks[] = {
	{ "limits", "memlock", check_memlock },
	{ "limits", "cgroup_memory", check_cgroup_memory },
	{ "limits", "files", check_files },
	{ "limits", "cpuset", check_cpuset },
	{ "limits", "cpu_quota", check_cpu_quota },
	{ "limits", "dev_shm", check_dev_shm },
	{ "kernel", "io_uring", check_io_uring },
	{ "kernel", "seccomp", check_seccomp },
	{ "kernel", "cma", check_cma },
	{ "memory", "free_memory", check_free_memory },
	{ "memory", "hugepages", check_hugepages },
	{ "memory", "shmem_thp", check_shmem_thp },
	{ "memory", "numa", check_numa },
	{ "memory", "pool", check_pool },
	{ "devices", "gpus", check_gpus },
	{ "devices", "libfabric", check_libfabric },
};

static json_t *look_at_build(void)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		json_array_append_new(rows,
				      json_pack("{s:s,s:b,s:s}", "name", options[i].name, "there",
						options[i].off[0] == '\0', "why", options[i].off));
	return json_pack("{s:s,s:s,s:s,s:o}", "compiler", INFO_COMPILER, "buildtype",
			 INFO_BUILDTYPE, "sanitize", INFO_SANITIZE, "options", rows);
}

static json_t *look_at_library(void)
{
	const char *(*version)(void) = tow_version;
	char file[PATH_MAX] = "?";
	Dl_info found = { 0 };

	if (dladdr(*(void **)&version, &found) != 0 && found.dli_fname != NULL &&
	    realpath(found.dli_fname, file) == NULL)
		say(file, sizeof(file), "%s", found.dli_fname);
	return json_pack("{s:s,s:o}", "version", tow_version(), "file", json_text(file));
}

static json_t *number_or_null(int64_t number)
{
	return number < 0 ? json_null() : json_integer(number);
}

static json_t *look_at_interface(const struct tow_interface_info *info)
{
	json_t *addresses = json_array();

	for (uint32_t i = 0; i < info->address_count && i < TOW_INTERFACE_ADDRESSES; i++)
		json_array_append_new(addresses, json_text(info->addresses[i]));
	return json_pack("{s:o,s:b,s:b,s:o,s:o,s:o,s:o}", "name", json_text(info->name), "up",
			 info->up, "loopback", info->loopback, "speed_mbits",
			 number_or_null(info->speed_mbits), "mtu_bytes",
			 number_or_null(info->mtu_bytes), "numa_node",
			 number_or_null(info->numa_node), "addresses", addresses);
}

static json_t *look_at_interfaces(struct tow_runtime *runtime, size_t *left_out)
{
	json_t *rows = json_array();
	size_t count = 0;

	tow_interface_count(runtime, &count);
	*left_out = count > INTERFACES_MAX ? count - INTERFACES_MAX : 0;
	for (size_t i = 0; i < count && i < INTERFACES_MAX; i++) {
		struct tow_interface_info info = TOW_INTERFACE_INFO_INIT;

		if (tow_interface_info(runtime, i, &info) == TOW_OK)
			json_array_append_new(rows, look_at_interface(&info));
	}
	return rows;
}

/* Runs in a child: opens a runtime as a job does, and writes JSON to fd, or "failed: WHY". */
static int describe_runtime(int fd, void *arg)
{
	struct tow_runtime *runtime;
	json_t *info = NULL, *peers = NULL, *interfaces, *document;
	char *text = NULL;
	size_t left_out;

	(void)arg;
	runtime = open_probe(fd, LEAST_POOL);
	if (runtime == NULL)
		return 0;
	if (tow_stats_get(runtime, "/v1/info", &text) == TOW_OK)
		info = json_loads(text, 0, NULL);
	tow_stats_release(text);
	if (tow_stats_get(runtime, "/v1/peers", &text) == TOW_OK)
		peers = json_loads(text, 0, NULL);
	tow_stats_release(text);
	interfaces = look_at_interfaces(runtime, &left_out);
	document = json_pack(
		"{s:o*,s:o*,s:O*,s:O*,s:O*,s:O*,s:O*}", "interfaces", interfaces,
		"interfaces_left_out", json_integer((json_int_t)left_out), "poller",
		json_object_get(info, "poller"), "poller_why", json_object_get(info, "poller_why"),
		"log", json_object_get(info, "log"), "require", json_object_get(peers, "require"),
		"refused_lanes", json_object_get(peers, "refused_lanes"));
	json_decref(peers);
	json_dumpfd(document, fd, JSON_COMPACT);
	json_decref(document);
	json_decref(info);
	tow_runtime_close(runtime);
	return 0;
}

/* Fills "runtime", and returns the child's document, which has the interfaces. */
static json_t *look_at_runtime(bool probe, json_t *document)
{
	static char text[RUNTIME_BYTES];
	json_t *said = NULL;
	const char *why = "";

	if (!probe) {
		why = "not asked (--no-probe)";
	} else if (!in_child(describe_runtime, NULL, RUNTIME_MS, text, sizeof(text))) {
		why = "it crashed, or did not answer within 10 s";
	} else {
		said = json_loads(text, 0, NULL);
		if (said == NULL)
			why = strncmp(text, "failed: ", 8) == 0 ? text + 8
								: "its answer is no JSON";
	}
	json_object_set_new(document, "runtime",
			    json_pack("{s:o,s:o,s:O?,s:O?,s:O?,s:O?,s:O?}", "opens",
				      probe ? json_boolean(said != NULL) : json_null(), "why",
				      json_text(why), "poller", json_object_get(said, "poller"),
				      "poller_why", json_object_get(said, "poller_why"), "log",
				      json_object_get(said, "log"), "require",
				      json_object_get(said, "require"), "refused_lanes",
				      json_object_get(said, "refused_lanes")));
	return said;
}

static json_t *look_at_lane(const struct tow_lane_info *row, const struct doctor *doctor)
{
	char key[32], answer[FOUND_BYTES] = "";
	bool asked, there;

	say(key, sizeof(key), "lane.%s", row->name);
	asked = doctor->probe && ask(doctor, key, answer, sizeof(answer));
	there = strncmp(answer, "uses ", 5) == 0;
	return json_pack(
		"{s:s,s:s,s:s,s:o,s:o,s:o}", "name", row->name, "reach", row->reach, "help",
		row->help, "there", asked ? json_boolean(there) : json_null(), "address",
		asked && there ? json_text(answer + 5) : json_null(), "why",
		asked && !there ? json_text(strncmp(answer, "none: ", 6) == 0 ? answer + 6 : answer)
				: json_null());
}

static json_t *look_at_lanes(const struct doctor *doctor)
{
	struct tow_lane_info row = TOW_LANE_INFO_INIT;
	json_t *rows = json_array();

	for (size_t i = 0; tow_lane_info(i, &row) == TOW_OK; i++)
		json_array_append_new(rows, look_at_lane(&row, doctor));
	return rows;
}

static json_t *look_at_host(struct doctor *doctor)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		struct finding finding = { 0 };

		checks[i].check(doctor, &finding);
		json_array_append_new(rows, json_pack("{s:s,s:s,s:s,s:o}", "group", checks[i].group,
						      "name", checks[i].name, "severity",
						      severity_name(finding.severity), "found",
						      json_text(finding.found)));
	}
	return rows;
}

/* Returns the knob that a variable sets; "": none. */
static const char *knob_of(const char *variable, size_t bytes)
{
	struct tow_knob_info knob = TOW_KNOB_INFO_INIT;

	for (size_t i = 0; i < tow_knob_count(); i++) {
		if (tow_knob_info(i, &knob) == TOW_OK && strlen(knob.env) == bytes &&
		    strncmp(knob.env, variable, bytes) == 0)
			return knob.name;
	}
	return "";
}

/* True: the value must not be shown. Names of key files are no secrets. */
static bool is_secret(const char *name)
{
	const size_t bytes = strlen(name);

	return (bytes > 4 && strcmp(name + bytes - 4, "_KEY") == 0) ||
	       (bytes > 6 && strcmp(name + bytes - 6, "_TOKEN") == 0);
}

static json_t *look_at_environment(void)
{
	json_t *rows = json_array();

	for (char **at = environ; *at != NULL; at++) {
		const size_t bytes = strcspn(*at, "=");
		char name[NAME_BYTES], value[VALUE_BYTES];

		if (strncmp(*at, "TOW_", 4) != 0 || (*at)[bytes] != '=')
			continue;
		say(name, sizeof(name), "%.*s", (int)bytes, *at);
		say(value, sizeof(value), "%s", is_secret(name) ? "(set)" : *at + bytes + 1);
		json_array_append_new(rows,
				      json_pack("{s:o,s:o,s:s}", "name", json_text(name), "value",
						json_text(value), "knob", knob_of(*at, bytes)));
	}
	return rows;
}

json_t *info_look(bool probe)
{
	struct doctor doctor = {
		.root = "", .live = true, .probe = probe, .pool_bytes = job_pool_bytes()
	};
	json_t *document =
		json_pack("{s:s,s:o,s:o,s:o}", "version", TOW_VERSION, "library", look_at_library(),
			  "build", look_at_build(), "environment", look_at_environment());
	json_t *said;

	/* The log of the runtimes that open here is in the document, and must not be printed. */
	setenv("TOW_LOG", "none", 1);
	said = look_at_runtime(probe, document);
	json_object_set_new(document, "lanes", look_at_lanes(&doctor));
	json_object_set_new(document, "host", look_at_host(&doctor));
	json_object_set_new(
		document, "interfaces",
		json_incref(said != NULL ? json_object_get(said, "interfaces") : json_null()));
	json_object_set(document, "interfaces_left_out",
			json_object_get(said, "interfaces_left_out"));
	json_decref(said);
	return document;
}
