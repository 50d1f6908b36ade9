/*
 * place.c - finds the module of an address, and reads its notes and symbols in memory.
 *
 * A module's own data is not trusted: only bytes that lie wholly in one of its readable segments
 * are read. See place.h for why dladdr is not used.
 */
#include "diag/base/place.h"

#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <internal/base.h>

#include "diag/base/emit.h"

/* No more symbols of a module are searched. The largest known have some 100,000. */
#define SYMBOLS_MAX (1u << 20)

struct search {
	uintptr_t address;
	struct twi_place *out;
};

/* Where `bytes` at module offset `at` are mapped. NULL: no single readable segment has them all. */
static const unsigned char *mapped_at(const struct dl_phdr_info *info, uint64_t at, uint64_t bytes)
{
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *load = &info->dlpi_phdr[i];

		if (load->p_type == PT_LOAD && (load->p_flags & PF_R) != 0 && at >= load->p_vaddr &&
		    at - load->p_vaddr <= load->p_memsz &&
		    bytes <= load->p_memsz - (at - load->p_vaddr))
			return (const unsigned char *)(uintptr_t)(info->dlpi_addr + at);
	}
	return NULL;
}

static bool module_holds(const struct dl_phdr_info *info, uintptr_t address)
{
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *load = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + load->p_vaddr;

		if (load->p_type == PT_LOAD && address >= start && address - start < load->p_memsz)
			return true;
	}
	return false;
}

static bool put_hex(const unsigned char *bytes, size_t count, char *out, size_t out_bytes)
{
	if (count == 0 || 2 * count + 1 > out_bytes)
		return false;
	for (size_t i = 0; i < count; i++)
		snprintf(out + 2 * i, 3, "%02x", bytes[i]);
	return true;
}

bool twi_place_build_id(const void *notes, size_t bytes, size_t align, char *out, size_t out_bytes)
{
	const unsigned char *at = notes;
	uint32_t head[3]; /* name bytes, description bytes, type */

	align = align == 8 ? 8 : 4; /* any other value means 4 */
	while (bytes >= sizeof(head)) {
		uint64_t name_end, end;

		memcpy(head, at, sizeof(head));
		name_end = twi_align_up(sizeof(head) + (uint64_t)head[0], align);
		end = name_end + head[1];
		if (end > bytes)
			return false;
		if (head[2] == NT_GNU_BUILD_ID && head[0] == 4 &&
		    memcmp(at + sizeof(head), "GNU", 4) == 0)
			return put_hex(at + name_end, head[1], out, out_bytes);
		end = twi_align_up(end, align);
		if (end >= bytes)
			return false;
		at += end;
		bytes -= end;
	}
	return false;
}

static void find_build_id(const struct dl_phdr_info *info, struct twi_place *out)
{
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *note = &info->dlpi_phdr[i];
		const unsigned char *at;

		if (note->p_type != PT_NOTE)
			continue;
		at = mapped_at(info, note->p_vaddr, note->p_memsz);
		if (at != NULL && twi_place_build_id(at, note->p_memsz, note->p_align,
						     out->build_id, sizeof(out->build_id)))
			return;
	}
}

/* Offsets in the module of the tables that name symbols, from its dynamic section. */
struct tables {
	uint64_t symbols, names, name_bytes, hash, gnu_hash;
};

static void read_tables(const struct dl_phdr_info *info, const ElfW(Phdr) * dynamic,
			struct tables *out)
{
	const unsigned char *at = mapped_at(info, dynamic->p_vaddr, dynamic->p_memsz);
	ElfW(Dyn) entry;

	for (size_t i = 0; at != NULL && i < dynamic->p_memsz / sizeof(entry); i++) {
		uint64_t value;

		memcpy(&entry, at + i * sizeof(entry), sizeof(entry));
		if (entry.d_tag == DT_NULL)
			return;
		/* The loader has relocated the addresses, except in a read-only section. */
		value = entry.d_un.d_ptr;
		if (entry.d_tag != DT_STRSZ && value >= info->dlpi_addr)
			value -= info->dlpi_addr;
		if (entry.d_tag == DT_SYMTAB)
			out->symbols = value;
		else if (entry.d_tag == DT_STRTAB)
			out->names = value;
		else if (entry.d_tag == DT_STRSZ)
			out->name_bytes = value;
		else if (entry.d_tag == DT_HASH)
			out->hash = value;
		else if (entry.d_tag == DT_GNU_HASH)
			out->gnu_hash = value;
	}
}

/* The 32-bit word there; 0 where nothing is mapped. */
static uint32_t word_at(const struct dl_phdr_info *info, uint64_t at)
{
	const unsigned char *from = mapped_at(info, at, sizeof(uint32_t));
	uint32_t word = 0;

	if (from != NULL)
		memcpy(&word, from, sizeof(word));
	return word;
}

/* No table has the number of symbols. It is one more than the last index of the hash table. */
static uint32_t count_symbols(const struct dl_phdr_info *info, const struct tables *tables)
{
	uint64_t buckets, chains;
	uint32_t bucket_count, first, last = 0;

	if (tables->hash != 0)
		return twi_min(word_at(info, tables->hash + 4), SYMBOLS_MAX);
	if (tables->gnu_hash == 0)
		return 0;
	bucket_count = twi_min(word_at(info, tables->gnu_hash), SYMBOLS_MAX);
	first = word_at(info, tables->gnu_hash + 4);
	buckets = tables->gnu_hash + 16 +
		  (uint64_t)word_at(info, tables->gnu_hash + 8) * sizeof(ElfW(Addr));
	chains = buckets + 4 * (uint64_t)bucket_count;
	for (uint32_t i = 0; i < bucket_count; i++)
		last = twi_max(last, word_at(info, buckets + 4 * (uint64_t)i));
	if (last < first)
		return 0;
	while (last < SYMBOLS_MAX) {
		uint64_t chain = chains + 4 * (uint64_t)(last - first);

		if (mapped_at(info, chain, 4) == NULL || (word_at(info, chain) & 1) != 0)
			break;
		last++;
	}
	return twi_min(last + 1, SYMBOLS_MAX);
}

static void take_symbol(const struct dl_phdr_info *info, const struct tables *tables,
			const ElfW(Sym) * symbol, struct twi_place *out)
{
	uint64_t room = tables->name_bytes - twi_min(tables->name_bytes, symbol->st_name);
	const unsigned char *name = mapped_at(info, tables->names + symbol->st_name, room);

	if (name == NULL || room == 0)
		return;
	snprintf(out->symbol, sizeof(out->symbol), "%.*s",
		 (int)strnlen((const char *)name, twi_min(room, sizeof(out->symbol) - 1)), name);
	out->symbol_offset = out->module_offset - symbol->st_value;
}

static void find_symbol(const struct dl_phdr_info *info, struct twi_place *out)
{
	struct tables tables = { 0 };
	const unsigned char *symbols;
	uint32_t count;

	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			read_tables(info, &info->dlpi_phdr[i], &tables);
	}
	count = count_symbols(info, &tables);
	symbols = mapped_at(info, tables.symbols, (uint64_t)count * sizeof(ElfW(Sym)));
	for (uint32_t i = 0; symbols != NULL && i < count; i++) {
		ElfW(Sym) symbol;

		memcpy(&symbol, symbols + (size_t)i * sizeof(symbol), sizeof(symbol));
		if (symbol.st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol.st_info) != STT_FUNC ||
		    out->module_offset - 1 < symbol.st_value ||
		    out->module_offset - 1 - symbol.st_value >= symbol.st_size)
			continue;
		take_symbol(info, &tables, &symbol, out);
		return;
	}
}

/* dl_iterate_phdr calls it with the list of modules locked, until one call returns other than 0. */
static int visit_module(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	struct search *search = arg;
	struct twi_place *out = search->out;

	(void)bytes;
	if (!module_holds(info, search->address - 1))
		return 0;
	out->found = true;
	out->module_offset = search->address - info->dlpi_addr;
	snprintf(out->module, sizeof(out->module), "%s",
		 info->dlpi_name != NULL ? info->dlpi_name : "");
	find_build_id(info, out);
	find_symbol(info, out);
	return 1;
}

/* The loader has no name for the program itself. */
static void name_program(struct twi_place *out)
{
	static const char deleted[] = " (deleted)";
	ssize_t bytes = readlink("/proc/self/exe", out->module, sizeof(out->module) - 1);
	size_t used = bytes > 0 ? (size_t)bytes : 0;

	if (used > sizeof(deleted) &&
	    memcmp(out->module + used - (sizeof(deleted) - 1), deleted, sizeof(deleted) - 1) == 0)
		used -= sizeof(deleted) - 1;
	out->module[used] = '\0';
}

void twi_place_find(const void *address, struct twi_place *out)
{
	struct search search = { (uintptr_t)address, out };

	*out = (struct twi_place){ .address = address };
	if (address == NULL)
		return;
	dl_iterate_phdr(visit_module, &search);
	if (out->found && out->module[0] == '\0')
		name_program(out);
}

void twi_place_text(const struct twi_place *place, char *out, size_t bytes)
{
	const char *slash = strrchr(place->module, '/');
	const char *file = slash != NULL ? slash + 1 : place->module;

	if (!place->found || file[0] == '\0')
		snprintf(out, bytes, "0x%llx", (unsigned long long)(uintptr_t)place->address);
	else if (place->symbol[0] != '\0')
		snprintf(out, bytes, "%s+0x%llx in %s", place->symbol,
			 (unsigned long long)place->symbol_offset, file);
	else
		snprintf(out, bytes, "%s+0x%llx", file, (unsigned long long)place->module_offset);
}

/* Writes null for an empty text. */
static void emit_known(struct twi_emit *e, const char *key, const char *text)
{
	twi_emit_str(e, key, text[0] != '\0' ? text : NULL);
}

void twi_place_emit(struct twi_emit *e, const struct twi_place *place)
{
	char address[32] = "";

	if (place->address != NULL)
		snprintf(address, sizeof(address), "0x%llx",
			 (unsigned long long)(uintptr_t)place->address);
	emit_known(e, "address", address);
	emit_known(e, "module", place->module);
	if (place->found)
		twi_emit_u64(e, "module_offset", place->module_offset);
	else
		twi_emit_str(e, "module_offset", NULL);
	emit_known(e, "build_id", place->build_id);
	emit_known(e, "symbol", place->symbol);
	if (place->symbol[0] != '\0')
		twi_emit_u64(e, "symbol_offset", place->symbol_offset);
	else
		twi_emit_str(e, "symbol_offset", NULL);
}
