/*
 * lines.c - finds lines with libdwfl. Each module is opened once. See lines.h.
 */
#include "tools/towstat/lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#ifdef TOWSTAT_DWARF

#include <elfutils/libdwfl.h>
#include <stdbool.h>

struct module {
	char *path, *build_id;
	Dwfl *dwfl;
	Dwfl_Module *dwfl_module; /* NULL: no such file */
	int other;                /* a file exists, but of another build */
	struct module *next;
};

struct lines {
	long pid;
	struct module *modules;
};

static char *debuginfo_path; /* NULL: where libdwfl looks by itself */

static const Dwfl_Callbacks callbacks = {
	.find_elf = dwfl_build_id_find_elf,
	.find_debuginfo = dwfl_standard_find_debuginfo,
	.section_address = dwfl_offline_section_address,
	.debuginfo_path = &debuginfo_path,
};

struct lines *lines_open(long pid)
{
	struct lines *lines = calloc(1, sizeof(*lines));

	/* With this variable libdwfl would fetch from servers, for as long as they take. */
	unsetenv("DEBUGINFOD_URLS");
	if (lines != NULL)
		lines->pid = pid;
	return lines;
}

void lines_close(struct lines *lines)
{
	struct module *next;

	if (lines == NULL)
		return;
	for (struct module *module = lines->modules; module != NULL; module = next) {
		next = module->next;
		if (module->dwfl != NULL)
			dwfl_end(module->dwfl);
		free(module->path);
		free(module->build_id);
		free(module);
	}
	free(lines);
}

static int has_build_id(Dwfl_Module *module, const char *build_id)
{
	const unsigned char *bits;
	GElf_Addr at;
	int bytes = dwfl_module_build_id(module, &bits, &at);

	if (bytes <= 0 || strlen(build_id) != 2 * (size_t)bytes)
		return 0;
	for (int i = 0; i < bytes; i++) {
		char hex[3];

		snprintf(hex, sizeof(hex), "%02x", bits[i]);
		if (memcmp(hex, build_id + 2 * (size_t)i, 2) != 0)
			return 0;
	}
	return 1;
}

/* Addresses are as in the file: a shared object's base is 0, and a program's is its own. */
static int try_file(struct module *module, const char *path)
{
	Dwfl_Module *found;
	struct stat st;

	/* Another process has chosen the path, and reading a pipe or a device could block. */
	if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
		return 0;
	dwfl_report_begin(module->dwfl);
	found = dwfl_report_elf(module->dwfl, "module", path, -1, 0, true);
	dwfl_report_end(module->dwfl, NULL, NULL);
	if (found == NULL)
		return 0;
	if (!has_build_id(found, module->build_id)) {
		module->other = 1;
		return 0;
	}
	module->dwfl_module = found;
	return 1;
}

/*
 * Tries three paths: the file itself; the file as the process sees it; the program's executable.
 * The process may live in a container, or its path may be relative to its folder. The executable is
 * there even when its file was deleted.
 */
static void open_module(struct module *module, long pid)
{
	bool absolute = module->path[0] == '/';
	char path[1024];

	module->dwfl = dwfl_begin(&callbacks);
	if (module->dwfl == NULL || (absolute && try_file(module, module->path)) || pid <= 0)
		return;
	snprintf(path, sizeof(path), "/proc/%ld/%s%s", pid, absolute ? "root" : "cwd/",
		 module->path);
	if (try_file(module, path))
		return;
	snprintf(path, sizeof(path), "/proc/%ld/exe", pid);
	try_file(module, path);
}

static struct module *find_module(struct lines *lines, const char *path, const char *build_id)
{
	struct module *module;

	for (module = lines->modules; module != NULL; module = module->next) {
		if (strcmp(module->path, path) == 0 && strcmp(module->build_id, build_id) == 0)
			return module;
	}
	module = calloc(1, sizeof(*module));
	if (module == NULL)
		return NULL;
	module->path = strdup(path);
	module->build_id = strdup(build_id);
	module->next = lines->modules;
	lines->modules = module;
	if (module->path != NULL && module->build_id != NULL)
		open_module(module, lines->pid);
	return module;
}

/*
 * Finds the unit of an address by asking each unit. clang writes no .debug_aranges. When another
 * part of the program has one, libdwfl takes it as complete.
 */
static const char *ask_units(Dwfl_Module *module, uint64_t at, int *line_out)
{
	Dwarf_Die *unit = NULL;
	Dwarf_Addr bias;

	while ((unit = dwfl_module_nextcu(module, unit, &bias)) != NULL) {
		Dwarf_Line *line;
		const char *file;

		if (dwarf_haspc(unit, at - bias) != 1)
			continue;
		line = dwarf_getsrc_die(unit, at - bias);
		file = line != NULL ? dwarf_linesrc(line, NULL, NULL) : NULL;
		if (file != NULL && dwarf_lineno(line, line_out) == 0)
			return file;
	}
	return NULL;
}

static const char *read_line(Dwfl_Module *module, uint64_t at, struct line *out)
{
	const char *symbol, *file = NULL;
	GElf_Off offset = 0;
	Dwfl_Line *line;
	Dwarf_Addr bias;
	GElf_Sym sym;

	symbol = dwfl_module_addrinfo(module, at, &offset, &sym, NULL, NULL, NULL);
	if (symbol != NULL) {
		snprintf(out->symbol, sizeof(out->symbol), "%s", symbol);
		out->symbol_offset = offset + 1;
	}
	if (dwfl_module_getdwarf(module, &bias) == NULL)
		return "has no debug information; compile it with -g";
	line = dwfl_module_getsrc(module, at);
	if (line != NULL)
		file = dwfl_lineinfo(line, NULL, &out->line, NULL, NULL, NULL);
	if (file == NULL)
		file = ask_units(module, at, &out->line);
	if (file == NULL || out->line <= 0)
		return "has debug information, but none for that place";
	snprintf(out->file, sizeof(out->file), "%s", file);
	return NULL;
}

int lines_find(struct lines *lines, const char *module_path, const char *build_id, uint64_t offset,
	       struct line *out, char *missing_out, size_t missing_size)
{
	struct module *module;
	const char *missing = NULL;

	*out = (struct line){ 0 };
	module = build_id != NULL ? find_module(lines, module_path, build_id) : NULL;
	if (build_id == NULL)
		missing = "has no build-id, so its file cannot be told from another build";
	else if (module == NULL || module->path == NULL || module->build_id == NULL)
		missing = "could not be looked at: no memory";
	else if (module->dwfl_module == NULL && module->other)
		missing = "was built anew since the process started (another build-id)";
	else if (module->dwfl_module == NULL)
		missing = "cannot be read here, or is no ELF file";
	else /* the call is before its return address */
		missing = read_line(module->dwfl_module, offset - 1, out);
	if (missing != NULL)
		snprintf(missing_out, missing_size, "%s %s", module_path, missing);
	return missing == NULL;
}

#else

struct lines {
	long pid;
};

struct lines *lines_open(long pid)
{
	struct lines *lines = calloc(1, sizeof(*lines));

	if (lines != NULL)
		lines->pid = pid;
	return lines;
}

void lines_close(struct lines *lines)
{
	free(lines);
}

int lines_find(struct lines *lines, const char *module, const char *build_id, uint64_t offset,
	       struct line *out, char *missing_out, size_t missing_size)
{
	(void)lines, (void)module, (void)build_id, (void)offset;
	*out = (struct line){ 0 };
	snprintf(missing_out, missing_size,
		 "this towstat was built without libdw; install libdw-dev and build it again");
	return 0;
}

#endif

const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL ? slash + 1 : path;
}
