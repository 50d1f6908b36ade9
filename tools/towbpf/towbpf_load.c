/*
 * towbpf_load.c - loads the programs that this kernel accepts, and gives the reasons for the
 * others.
 *
 *	tracepoint missing in the kernel's BTF     that program is left out
 *	the kernel refuses one (its verifier)      left out, too; each is loaded alone to find it
 *	no CAP_BPF, no CAP_PERFMON, no BTF         nothing runs, and the reason is reported
 *
 * The messages of libbpf mislead a user without privileges, so they are shown on demand only.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include <counters.skel.h>

#include "tools/towbpf/towbpf.h"

static const struct {
	const char *name, *tracepoint;
} programs[] = {
#define TWI_BPF_PROGRAM(name, tracepoint, help) { #name, tracepoint },
#include "diag/bpf/abi/bpf_program.def"
#undef TWI_BPF_PROGRAM
};

static int print_nothing(enum libbpf_print_level level, const char *format, va_list args)
{
	(void)level, (void)format, (void)args;
	return 0;
}

static int print_all(enum libbpf_print_level level, const char *format, va_list args)
{
	(void)level;
	return vfprintf(stderr, format, args);
}

/* Adds one more missing program to the text. */
static void add_lack(struct loaded *out, const char *program, const char *what, const char *which)
{
	size_t used = strlen(out->why);

	snprintf(out->why + used, sizeof(out->why) - used, "%s%s: %s%s", used > 0 ? "; " : "",
		 program, what, which);
}

/* Returns the number of arguments of a tracepoint; -1: there is no such tracepoint. */
static int argument_count(const struct btf *btf, const char *tracepoint)
{
	const struct btf_type *type;
	char name[96];
	int id;

	snprintf(name, sizeof(name), "btf_trace_%s", tracepoint);
	id = btf__find_by_name_kind(btf, name, BTF_KIND_TYPEDEF);
	if (id < 0)
		return -1;
	type = btf__type_by_id(btf, btf__type_by_id(btf, (unsigned)id)->type);
	if (type == NULL || !btf_is_ptr(type))
		return -1;
	type = btf__type_by_id(btf, type->type);
	/* The first argument is internal to the tracepoint. */
	return type != NULL && btf_is_func_proto(type) ? btf_vlen(type) - 1 : -1;
}

static bool has_function(const struct btf *btf, const char *name)
{
	return btf__find_by_name_kind(btf, name, BTF_KIND_FUNC) > 0;
}

#define DROP_NEW 4 /* number of arguments of kfree_skb: with the receiving socket, and without */
#define DROP_OLD 3

/* Returns the programs whose tracepoints this kernel has. */
static unsigned find_present(const struct btf *btf, bool registration_time, struct loaded *out)
{
	unsigned present = 0;

	for (unsigned i = 0; i < TWI_BPF_PROGRAMS; i++) {
		int count = argument_count(btf, programs[i].tracepoint);

		if (i == TWI_BPF_PROGRAM_registration_time && !registration_time)
			continue;
		if (count < 0)
			add_lack(out, programs[i].name, "no tracepoint ", programs[i].tracepoint);
		else if (i == TWI_BPF_PROGRAM_zerocopy &&
			 !(has_function(btf, "bpf_task_from_pid") &&
			   has_function(btf, "bpf_task_release") &&
			   has_function(btf, "bpf_rdonly_cast")))
			add_lack(out, programs[i].name, "no kfuncs of kernel 6.2", "");
		else if (i == TWI_BPF_PROGRAM_drop && count < DROP_OLD)
			add_lack(out, programs[i].name, "kfree_skb says no reasons",
				 " (kernel 5.17)");
		else
			present |= 1u << i;
	}
	return present;
}

static struct bpf_program *program_of(const struct loaded *out, unsigned i, bool old_drop)
{
	const char *name = i == TWI_BPF_PROGRAM_drop && old_drop ? "drop_old" : programs[i].name;

	return bpf_object__find_program_by_name(out->skeleton->obj, name);
}

/* Returns 0, or the error of libbpf. */
static int attempt_load(struct loaded *out, unsigned mask, bool old_drop)
{
	int err;

	out->skeleton = counters_bpf__open();
	if (out->skeleton == NULL)
		return -errno;
	out->skeleton->rodata->owner_uid = out->uid;
	bpf_program__set_autoload(out->skeleton->progs.drop, false);
	bpf_program__set_autoload(out->skeleton->progs.drop_old, false);
	for (unsigned i = 0; i < TWI_BPF_PROGRAMS; i++)
		bpf_program__set_autoload(program_of(out, i, old_drop), (mask >> i & 1) != 0);
	err = counters_bpf__load(out->skeleton);
	if (err != 0) {
		counters_bpf__destroy(out->skeleton);
		out->skeleton = NULL;
	}
	return err;
}

/* Returns the programs of the mask that load alone. */
static unsigned find_loadable(struct loaded *out, unsigned mask, bool old_drop)
{
	unsigned good = 0;

	for (unsigned i = 0; i < TWI_BPF_PROGRAMS; i++) {
		int err;

		if ((mask >> i & 1) == 0)
			continue;
		err = attempt_load(out, 1u << i, old_drop);
		if (err == 0)
			good |= 1u << i;
		else
			add_lack(out, programs[i].name, "the kernel refuses it: ", strerror(-err));
		counters_bpf__destroy(out->skeleton);
		out->skeleton = NULL;
	}
	return good;
}

/* Returns the missing privilege after EPERM. */
static const char *lacking_privilege(void)
{
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "tow_try", 4, 8, 1, NULL);

	if (fd < 0)
		return "no CAP_BPF (kernel.unprivileged_bpf_disabled)";
	close(fd);
	return "CAP_BPF present, but no CAP_PERFMON, or kernel lockdown";
}

static void attach_all(struct loaded *out, unsigned mask, bool old_drop)
{
	for (unsigned i = 0; i < TWI_BPF_PROGRAMS; i++) {
		struct bpf_program *program = program_of(out, i, old_drop);

		if ((mask >> i & 1) == 0)
			continue;
		/* The link ends with this process, however that ends. */
		out->links[i] = bpf_program__attach(program);
		if (out->links[i] != NULL)
			out->programs |= 1u << i;
		else
			add_lack(out, programs[i].name, "cannot be attached: ", strerror(errno));
	}
}

/* SKB_DROP_REASON_TCP_OLD_DATA becomes TCP_OLD_DATA. */
static void read_reasons(const struct btf *btf, struct loaded *out)
{
	static const char prefix[] = "SKB_DROP_REASON_";
	int id = btf__find_by_name_kind(btf, "skb_drop_reason", BTF_KIND_ENUM);
	const struct btf_type *type = id > 0 ? btf__type_by_id(btf, (unsigned)id) : NULL;
	const struct btf_enum *e = type != NULL ? btf_enum(type) : NULL;

	for (unsigned i = 0; type != NULL && i < btf_vlen(type); i++) {
		const char *name = btf__name_by_offset(btf, e[i].name_off);

		if (name == NULL || e[i].val < 0 || e[i].val >= TWI_BPF_REASONS)
			continue;
		if (strncmp(name, prefix, strlen(prefix)) == 0)
			name += strlen(prefix);
		snprintf(out->reasons[e[i].val], TWI_BPF_REASON_BYTES, "%s", name);
	}
}

static int load_with(const struct btf *btf, const struct load_options *options, struct loaded *out)
{
	bool old_drop = argument_count(btf, "kfree_skb") < DROP_NEW;
	unsigned mask = find_present(btf, options->registration_time, out);
	int err = attempt_load(out, mask, old_drop);

	if (err == -EPERM) {
		snprintf(out->why, sizeof(out->why), "%s", lacking_privilege());
		return -1;
	}
	if (err != 0) {
		mask = find_loadable(out, mask, old_drop);
		if (mask == 0)
			return -1;
		err = attempt_load(out, mask, old_drop);
	}
	if (err == 0)
		err = bpf_map_freeze(loaded_map(out, TWI_BPF_MAP_COUNTERS));
	if (err != 0) {
		snprintf(out->why, sizeof(out->why), "the programs cannot be loaded: %s",
			 strerror(-err));
		return -1;
	}
	read_reasons(btf, out);
	attach_all(out, mask, old_drop);
	return out->programs != 0 ? 0 : -1;
}

int load(uid_t uid, const struct load_options *options, struct loaded *out)
{
	struct btf *btf;
	int status;

	*out = (struct loaded){ .uid = uid };
	libbpf_set_print(options->verbose ? print_all : print_nothing);
	btf = btf__load_vmlinux_btf();
	if (btf == NULL) {
		snprintf(out->why, sizeof(out->why),
			 "kernel has no BTF (CONFIG_DEBUG_INFO_BTF) or /sys is hidden");
		return -1;
	}
	status = load_with(btf, options, out);
	btf__free(btf);
	if (status != 0)
		unload(out);
	return status;
}

void unload(struct loaded *loaded)
{
	for (unsigned i = 0; i < TWI_BPF_PROGRAMS; i++) {
		bpf_link__destroy(loaded->links[i]); /* NULL is allowed, below too */
		loaded->links[i] = NULL;
	}
	counters_bpf__destroy(loaded->skeleton);
	loaded->skeleton = NULL;
}

int loaded_map(const struct loaded *loaded, enum twi_bpf_map map)
{
	const struct bpf_map *maps[TWI_BPF_MAPS] = {
		[TWI_BPF_MAP_COUNTERS] = loaded->skeleton->maps.tow_counters,
		[TWI_BPF_MAP_SOCKETS] = loaded->skeleton->maps.tow_sockets,
		[TWI_BPF_MAP_TASKS] = loaded->skeleton->maps.tow_tasks,
	};

	return bpf_map__fd(maps[map]);
}
