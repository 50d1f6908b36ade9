/*
 * nccl_sockets.c - NCCL's own sockets as a network plugin, which tow-nccl can call as any other:
 *
 *	tow-nccl libnccl-net-towline.so nccl-sockets.so
 *
 * NCCL has its sockets inside: their table, ncclNetSocket, is a local symbol of libnccl.so.2. The
 * symbol is looked up in the file's own list of symbols, and the table is copied when this library
 * is loaded. So the measured code is the code that NCCL's makers have compiled.
 *
 * That code calls CUDA once for a connection, to know the current device (cudaGetDevice, which lies
 * in libnccl.so.2 as well). Without a driver the call fails, and the connection with it. In this
 * case the first instructions of cudaGetDevice are replaced by code that returns 0. No message
 * passes that code.
 *
 * The build defines the table's version (NCCL_TABLE_VERSION) and the path of NCCL (NCCL_LIBRARY).
 */
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef NCCL_LIBRARY
#define NCCL_LIBRARY "libnccl.so.2"
#endif
#ifndef NCCL_TABLE_VERSION
#define NCCL_TABLE_VERSION 11
#endif

#define TABLE_SYMBOL "ncclNetSocket"
#define CUDA_SYMBOL  "cudaGetDevice"
#define TABLE_WORDS  32
#define PASTE(a, b)  a##b
#define NAMED(n)     PASTE(ncclNetPlugin_v, n)
#define OUR_TABLE    NAMED(NCCL_TABLE_VERSION)

extern void *OUR_TABLE[TABLE_WORDS];
__attribute__((visibility("default"))) void *OUR_TABLE[TABLE_WORDS];

#if defined(__x86_64__)
/* *device = 0; return 0. */
static const unsigned char answer_zero[] = { 0xc7, 0x07, 0, 0, 0, 0, 0x31, 0xc0, 0xc3 };
#else
static const unsigned char answer_zero[] = { 0 };
#endif

struct image {
	const char *bytes;
	size_t length;
};

/* The address of a symbol in memory, and its size. */
struct place {
	char *at;
	size_t bytes;
};

/* `count` items of `each` bytes at an offset of the file; NULL: not all of them are in it. */
static const void *image_part(const struct image *image, uint64_t offset, uint64_t count,
			      uint64_t each)
{
	if (offset > image->length || count > (image->length - offset) / each)
		return NULL;
	return image->bytes + offset;
}

/* The symbol of that name in one list; NULL: there is none. */
static const Elf64_Sym *find_in_list(const struct image *image, const Elf64_Shdr *list,
				     const Elf64_Shdr *strings, const char *name)
{
	uint64_t count = list->sh_size / sizeof(Elf64_Sym), length = strlen(name) + 1;
	const Elf64_Sym *symbols = image_part(image, list->sh_offset, count, sizeof(*symbols));
	const char *text = image_part(image, strings->sh_offset, strings->sh_size, 1);

	if (symbols == NULL || text == NULL || strings->sh_size < length)
		return NULL;
	for (uint64_t i = 0; i < count; i++)
		if (symbols[i].st_value != 0 && symbols[i].st_name <= strings->sh_size - length &&
		    memcmp(text + symbols[i].st_name, name, length) == 0)
			return &symbols[i];
	return NULL;
}

static const Elf64_Sym *find_symbol(const struct image *image, const char *name)
{
	const Elf64_Ehdr *head = image_part(image, 0, 1, sizeof(*head));
	const Elf64_Shdr *sections;

	if (head == NULL || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
	    head->e_ident[EI_CLASS] != ELFCLASS64)
		return NULL;
	sections = image_part(image, head->e_shoff, head->e_shnum, sizeof(*sections));
	for (unsigned i = 0; sections != NULL && i < head->e_shnum; i++) {
		const Elf64_Sym *found = NULL;

		if (sections[i].sh_type == SHT_SYMTAB && sections[i].sh_link < head->e_shnum)
			found = find_in_list(image, &sections[i], &sections[sections[i].sh_link],
					     name);
		if (found != NULL)
			return found;
	}
	return NULL;
}

/*
 * Finds both symbols in the library that is loaded at `base`. Returns false when the file lacks
 * one.
 */
static bool find_places(const char *path, uint64_t base, struct place *table, struct place *cuda)
{
	const struct {
		const char *name;
		struct place *out;
	} wanted[] = { { TABLE_SYMBOL, table }, { CUDA_SYMBOL, cuda } };
	int fd = open(path, O_RDONLY | O_CLOEXEC), missing = 0;
	struct stat about;
	struct image image;

	if (fd < 0 || fstat(fd, &about) != 0)
		return false;
	image.length = (size_t)about.st_size;
	image.bytes = mmap(NULL, image.length, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (image.bytes == MAP_FAILED)
		return false;
	for (unsigned i = 0; i < 2; i++) {
		const Elf64_Sym *found = find_symbol(&image, wanted[i].name);

		missing += found == NULL;
		if (found != NULL)
			*wanted[i].out =
				(struct place){ (char *)(uintptr_t)(base + found->st_value),
						found->st_size };
	}
	munmap((void *)(uintptr_t)image.bytes, image.length);
	return missing == 0;
}

static bool has_driver(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	return driver != NULL;
}

/* Replaces the function at that address by one that returns 0. */
static bool replace_code(const struct place *place)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t first = (uintptr_t)place->at & ~(page - 1);
	size_t bytes = (uintptr_t)place->at + sizeof(answer_zero) - first;

	if (sizeof(answer_zero) == 1 || place->bytes < sizeof(answer_zero) ||
	    mprotect((void *)first, bytes, PROT_READ | PROT_WRITE) != 0)
		return false;
	memcpy(place->at, answer_zero, sizeof(answer_zero));
	return mprotect((void *)first, bytes, PROT_READ | PROT_EXEC) == 0;
}

__attribute__((noreturn)) static void give_up(const char *what, const char *why)
{
	fprintf(stderr, "nccl-sockets: %s: %s\n", what, why);
	exit(1);
}

/* NCCL stays loaded to the end of the process, as the table has pointers to its functions. */
__attribute__((constructor)) static void load_table(void)
{
	void *library = dlopen(NCCL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
	struct link_map *map = NULL;
	struct place table, cuda;

	if (library == NULL || dlinfo(library, RTLD_DI_LINKMAP, &map) != 0)
		give_up(NCCL_LIBRARY, dlerror());
	if (!find_places(map->l_name, map->l_addr, &table, &cuda))
		give_up(map->l_name, "no " TABLE_SYMBOL " or " CUDA_SYMBOL " among its symbols");
	if (!has_driver() && !replace_code(&cuda))
		give_up(map->l_name, "NCCL's sockets cannot be used here without a CUDA driver");
	memcpy(OUR_TABLE, table.at,
	       table.bytes < sizeof(OUR_TABLE) ? table.bytes : sizeof(OUR_TABLE));
}
