/*
 * towdoctor_library.c - asks the library itself: a pool, libfabric, GPUs, and measurements between
 * two processes on its lanes. Each runs in a child, because drivers and providers may hang or
 * crash.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towline/towline.h>

#include "tools/common/words.h"
#include "tools/towdoctor/towdoctor.h"

struct tow_runtime *open_probe(int fd, int64_t pool_bytes)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_runtime *runtime = NULL;

	options.premap_memory_bytes = pool_bytes;
	options.stats = 0;
	options.strict_premap = 0;
	if (tow_runtime_open(&options, &runtime) < 0) {
		dprintf(fd, "failed: %s", tow_error_message());
		return NULL;
	}
	return runtime;
}

int library_pool(int fd, void *arg)
{
	struct tow_runtime *runtime = open_probe(fd, PROBE_POOL);
	json_t *pool = NULL, *extent, *registrar;
	char *text = NULL;

	(void)arg;
	if (runtime == NULL)
		return 0;
	if (tow_stats_get(runtime, "/v1/pool", &text) == TOW_OK)
		pool = json_loads(text, 0, NULL);
	extent = json_array_get(json_object_get(pool, "extents"), 0);
	registrar = json_array_get(json_object_get(pool, "registrars"), 0);
	dprintf(fd, "pages=%s locked=%d registered=%d ns_per_gib=%lld",
		json_string_value(json_object_get(extent, "pages")) != NULL
			? json_string_value(json_object_get(extent, "pages"))
			: "?",
		json_is_true(json_object_get(extent, "mlocked")),
		json_is_true(json_object_get(registrar, "registered")),
		(long long)json_integer_value(json_object_get(extent, "populate_ns")) *
			((1 << 30) / PROBE_POOL));
	json_decref(pool);
	tow_stats_release(text);
	tow_runtime_close(runtime);
	return 0;
}

int library_gpu(int fd, void *arg)
{
	struct tow_runtime *runtime = open_probe(fd, PROBE_POOL);
	struct tow_device_info info = { .size = sizeof(info) };
	struct tow_device *device;
	char spec[16];

	(void)arg;
	if (runtime == NULL)
		return 0;
	for (int i = 0; i < 16; i++) {
		snprintf(spec, sizeof(spec), "cuda:%d", i);
		if (tow_device_open(runtime, spec, &device) < 0) {
			if (i == 0)
				dprintf(fd, "none: %s", tow_error_message());
			break;
		}
		if (tow_device_info(device, &info) == TOW_OK)
			dprintf(fd, "%s%s %s%s%s", i > 0 ? "; " : "", spec, info.name,
				info.unmapped_because[0] != '\0' ? ", pool not mapped: " : "",
				info.unmapped_because);
	}
	tow_runtime_close(runtime);
	return 0;
}

static bool find_lane(const char *name, struct tow_lane_info *row)
{
	for (size_t i = 0; tow_lane_info(i, row) == TOW_OK; i++) {
		if (strcmp(row->name, name) == 0)
			return true;
	}
	return false;
}

int library_lane(int fd, void *arg)
{
	struct tow_lane_info row = TOW_LANE_INFO_INIT;
	char address[TOW_ADDRESS_MAX] = "";
	struct tow_endpoint *endpoint;
	struct tow_runtime *runtime;

	if (!find_lane(arg, &row)) {
		dprintf(fd, "none: this library has no such lane");
		return 0;
	}
	runtime = open_probe(fd, LEAST_POOL);
	if (runtime == NULL)
		return 0;
	if (tow_endpoint_open(runtime, row.local, &endpoint) < 0)
		dprintf(fd, "none: %s", tow_error_message());
	else if (tow_endpoint_address(endpoint, address, sizeof(address)) == TOW_OK)
		dprintf(fd, "uses %s", address);
	tow_runtime_close(runtime);
	return 0;
}

int library_ofi(int fd, void *arg)
{
	static char name[] = "ofi";

	(void)arg;
	return library_lane(fd, name);
}

static int loopback_server(const char *lane, int announce_fd)
{
	struct tow_lane_info row = TOW_LANE_INFO_INIT;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!find_lane(lane, &row))
		return 1;
	return serve(&(struct serve_options){
		.address = row.local, .idle_ms = 5000, .announce_fd = announce_fd, .once = true });
}

static void print_loopback(int fd, json_t *measured)
{
	json_t *latency = json_object_get(measured, "latency_ns");
	json_t *rate = json_object_get(measured, "bandwidth_bytes_per_s");

	dprintf(fd, "p50_ns=%lld p99_ns=%lld there=%lld back=%lld",
		(long long)json_integer_value(json_object_get(latency, "p50")),
		(long long)json_integer_value(json_object_get(latency, "p99")),
		(long long)json_integer_value(json_object_get(rate, "there")),
		(long long)json_integer_value(json_object_get(rate, "back")));
}

int loopback_probe(int fd, void *arg)
{
	char address[TOW_ADDRESS_MAX] = "", error[512];
	json_t *measured;
	int ends[2];
	pid_t server;
	ssize_t got;

	if (pipe(ends) != 0)
		return 1;
	server = fork();
	if (server < 0)
		return 1;
	if (server == 0) {
		close(ends[0]);
		close(fd);
		_exit(loopback_server(arg, ends[1]));
	}
	close(ends[1]);
	got = read(ends[0], address, sizeof(address) - 1);
	if (got <= 0) {
		dprintf(fd, "failed: no server could be started at %s", (const char *)arg);
	} else {
		address[strcspn(address, "\n")] = '\0';
		measured = measure(&(struct measure_options){ .address = address,
							      .latency_ms = 150,
							      .phase_ms = 250,
							      .patience_ms = 1000 },
				   error, sizeof(error));
		if (measured != NULL)
			print_loopback(fd, measured);
		else
			dprintf(fd, "failed: %s", error);
		json_decref(measured);
	}
	kill(server, SIGTERM);
	waitpid(server, NULL, 0);
	return 0;
}

/* Counts NVIDIA's PCI devices of class 03 (display). */
static size_t pci_gpus(const struct doctor *doctor)
{
	char vendor[16], class[16];
	struct names names;
	size_t count = 0;

	root_names(doctor, "/sys/bus/pci/devices", &names);
	for (size_t i = 0; i < names.count; i++) {
		count += root_text(doctor, vendor, sizeof(vendor), "/sys/bus/pci/devices/%s/vendor",
				   names.rows[i]) &&
			 root_text(doctor, class, sizeof(class), "/sys/bus/pci/devices/%s/class",
				   names.rows[i]) &&
			 strcmp(vendor, "0x10de") == 0 && strncmp(class, "0x03", 4) == 0;
	}
	return count;
}

void check_gpus(struct doctor *doctor, struct finding *out)
{
	const size_t count = pci_gpus(doctor);
	char answer[FOUND_BYTES] = "";
	const bool driver = root_exists(doctor, "/proc/driver/nvidia/version") ||
			    root_exists(doctor, "/dev/nvidiactl");

	SAY(out->wanted, "each with its driver, and the pool mapped for it");
	if (count == 0 && !driver) {
		SAY(out->found, "none");
		return;
	}
	if (!doctor->probe || !ask(doctor, "library.gpu", answer, sizeof(answer)))
		SAY(answer, "not asked");
	SAY(out->found, "%zu NVIDIA devices on the bus, driver %s; the library: %s", count,
	    driver ? "loaded" : "not loaded", answer);
	if (!driver || strncmp(answer, "none", 4) == 0 || strncmp(answer, "failed", 6) == 0) {
		raise_to(out, SEVERITY_WARNING);
		SAY(out->effect, "device memory cannot be used: tow_device_open(\"cuda\") fails");
		SAY(out->mend, driver ? "apt-get install libcuda1; docker: --gpus all"
				      : "install NVIDIA's driver, modprobe nvidia; docker: "
					"--gpus all");
	} else if (strstr(answer, "not mapped") != NULL) {
		raise_to(out, SEVERITY_WARNING);
		SAY(out->effect, "copies to and from the device go through the staging part: one "
				 "copy more");
		SAY(out->mend, "ulimit -l unlimited (see the check memlock)");
	}
}

void check_libfabric(struct doctor *doctor, struct finding *out)
{
	char answer[FOUND_BYTES] = "";
	struct names devices = { 0 };

	SAY(out->wanted, "a provider for each RDMA device; without devices none is needed");
	root_names(doctor, "/sys/class/infiniband", &devices);
	if (!doctor->probe || !ask(doctor, "library.ofi", answer, sizeof(answer)))
		SAY(answer, "not asked");
	for (size_t i = 0; i < devices.count && i < 16; i++)
		SAY_MORE(out->found, "%s%s", i > 0 ? ", " : "", devices.rows[i]);
	SAY_MORE(out->found, "%s; the library: %.240s%s",
		 devices.count == 0 ? "no RDMA devices" : "", answer,
		 strlen(answer) > 240 ? " ..." : "");
	if (devices.count == 0 || strncmp(answer, "uses ", 5) == 0 ||
	    strcmp(answer, "not asked") == 0)
		return;
	raise_to(out, SEVERITY_WARNING);
	SAY(out->effect, "the RDMA devices are not used: messages go by TCP, at a multiple of the "
			 "latency and of the CPU time");
	SAY(out->mend, "apt-get install libfabric1 rdma-core (for EFA: Amazon's installer); "
		       "docker: --device /dev/infiniband --ulimit memlock=-1");
}

static bool value_in(const char *text, const char *key, unsigned long long *out)
{
	const char *at = strstr(text, key);

	if (at == NULL)
		return false;
	*out = strtoull(at + strlen(key), NULL, 10);
	return true;
}

static bool say_loopback(struct finding *out, const struct tow_lane_info *row, const char *answer)
{
	const char *lane = row->name;
	char p50_text[WORDS_BYTES], p99_text[WORDS_BYTES], rate_text[WORDS_BYTES];
	unsigned long long p50, p99, there;

	if (!value_in(answer, "p50_ns=", &p50) || !value_in(answer, "p99_ns=", &p99) ||
	    !value_in(answer, "there=", &there)) {
		SAY_MORE(out->found, "%s%s: %s", out->found[0] != '\0' ? "; " : "", lane, answer);
		return false;
	}
	words_ns(p50, p50_text);
	words_ns(p99, p99_text);
	words_bytes(there, rate_text);
	SAY_MORE(out->found, "%s%s: a call and its answer in %s (p50), %s (p99), large ones ",
		 out->found[0] != '\0' ? "; " : "", lane, p50_text, p99_text);
	/* The other side maps memory of the pool, so a rate would mean nothing. */
	if (strcmp(row->reach, "host") == 0)
		SAY_MORE(out->found, "are mapped, not moved");
	else
		SAY_MORE(out->found, "%s/s", rate_text);
	return true;
}

/* A lane within one process needs no measurement, and libfabric has a check of its own. */
static bool is_measured(const struct tow_lane_info *row)
{
	return strcmp(row->reach, "process") != 0 && strcmp(row->name, "ofi") != 0;
}

void check_loopback(struct doctor *doctor, struct finding *out)
{
	struct tow_lane_info row = TOW_LANE_INFO_INIT;
	char key[32], answer[FOUND_BYTES];
	bool known = false;

	SAY(out->wanted,
	    "an answer on every lane; on an idle host about 20 us by tcp and 2 by shm");
	for (size_t i = 0; tow_lane_info(i, &row) == TOW_OK; i++) {
		SAY(key, "loopback.%s", row.name);
		if (!is_measured(&row) || !doctor->probe ||
		    !ask(doctor, key, answer, sizeof(answer)))
			continue;
		known = true;
		if (say_loopback(out, &row, answer))
			continue;
		raise_to(out, SEVERITY_ERROR);
		SAY(out->effect, "processes of this host cannot talk to each other");
		SAY(out->mend, "do what the message says; ip link set lo up");
	}
	if (!known)
		not_known(out, "the lanes");
}
