/*
 * figures.c - see figures.h.
 */
#include "diag/bpf/figures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <internal/base.h>

#include "diag/base/error.h"
#include "diag/record/diag.h"

static const struct twi_bpf_counter_info counters[] = {
#define TWI_BPF_COUNTER(name, unit, program, help)                                                 \
	{ #name, #unit, help, TWI_BPF_PROGRAM_##program },
#include "diag/bpf/abi/bpf_counter.def"
#undef TWI_BPF_COUNTER
};

const struct twi_bpf_counter_info *twi_bpf_counter_describe(enum twi_bpf_counter counter)
{
	return &counters[counter];
}

/* What the library can find without privilege. When towbpf comes, it sends the true reason. */
static const char *first_guess(void)
{
	if (access("/sys/kernel/btf/vmlinux", R_OK) != 0)
		return "the kernel has no BTF (CONFIG_DEBUG_INFO_BTF), or /sys is hidden";
#ifdef TWI_BPF_OFF
	return "no helper has come, and this build has none: " TWI_BPF_OFF;
#else
	return "no helper has come: run towbpf as root, or with CAP_BPF and CAP_PERFMON";
#endif
}

void twi_bpf_figures_init(struct twi_bpf_figures *figures, struct twi_diag *diag)
{
	*figures = (struct twi_bpf_figures){ .diag = diag };
	pthread_mutex_init(&figures->lock, NULL);
	for (unsigned i = 0; i < TWI_BPF_MAPS; i++)
		figures->maps.fds[i] = -1;
	snprintf(figures->why, sizeof(figures->why), "%s", first_guess());
}

void twi_bpf_figures_fini(struct twi_bpf_figures *figures)
{
	twi_bpf_maps_give(&figures->maps);
	free(figures->sockets);
	pthread_mutex_destroy(&figures->lock);
}

/* The programs count meanwhile. Each word is whole, but the words are not of one moment. */
static void read_slot(const struct twi_bpf_slot *from, struct twi_bpf_slot *out)
{
	for (unsigned i = 0; i < TWI_BPF_COUNTERS; i++)
		out->counters[i] = __atomic_load_n(&from->counters[i], __ATOMIC_RELAXED);
	for (unsigned i = 0; i < TWI_BPF_REASONS; i++)
		out->drops[i] = __atomic_load_n(&from->drops[i], __ATOMIC_RELAXED);
}

static void subtract_slot(struct twi_bpf_slot *from, const struct twi_bpf_slot *what)
{
	for (unsigned i = 0; i < TWI_BPF_COUNTERS; i++)
		from->counters[i] -= what->counters[i];
	for (unsigned i = 0; i < TWI_BPF_REASONS; i++)
		from->drops[i] -= what->drops[i];
}

void twi_bpf_figures_refresh(struct twi_bpf_figures *figures)
{
	if (!figures->on)
		return;
	read_slot(&figures->maps.slots[figures->slot], &figures->last);
	subtract_slot(&figures->last, &figures->before);
	read_slot(&figures->maps.slots[0], &figures->host);
	figures->library_last = twi_counter_sum(figures->diag, TWI_C_zerocopy_kernel_copy_bytes) -
				figures->library_before;
}

static void enrol_socket(struct twi_bpf_figures *figures, int fd)
{
	if (twi_bpf_enrol_socket(&figures->maps, figures->slot, fd) == TOW_OK)
		figures->enrolled++;
	else
		figures->missed++;
}

static void enrol_sockets(struct twi_bpf_figures *figures)
{
	for (uint32_t word = 0; word < figures->sockets_room / 64; word++) {
		uint64_t bits = figures->sockets[word];

		for (; bits != 0; bits &= bits - 1)
			enrol_socket(figures, (int)(word * 64) + __builtin_ctzll(bits));
	}
}

/* The lock is held. On failure only `why` changes. */
static int start_figures(struct twi_bpf_figures *figures, const struct twi_bpf_hello *hello,
			 const int fds[TWI_BPF_MAPS], pid_t helper)
{
	struct twi_bpf_maps maps;
	int status = twi_bpf_maps_take(fds, &maps);

	if (status == TOW_OK) {
		status = twi_bpf_enrol_process(&maps, hello->slot);
		if (status < 0)
			twi_bpf_maps_give(&maps);
	}
	if (status < 0) {
		snprintf(figures->why, sizeof(figures->why), "%s", tow_error_message());
		return status;
	}
	figures->maps = maps;
	figures->slot = hello->slot;
	figures->programs = hello->programs;
	figures->helper = helper;
	figures->enrolled = figures->missed = 0;
	figures->library_before = twi_counter_sum(figures->diag, TWI_C_zerocopy_kernel_copy_bytes);
	read_slot(&maps.slots[hello->slot], &figures->before);
	memcpy(figures->reasons, hello->reasons, sizeof(figures->reasons));
	figures->on = figures->ever = true;
	enrol_sockets(figures);
	return TOW_OK;
}

int twi_bpf_figures_start(struct twi_bpf_figures *figures, const struct twi_bpf_hello *hello,
			  const int fds[TWI_BPF_MAPS], pid_t helper, uint32_t *enrolled_out)
{
	int status = TOW_OK;

	*enrolled_out = 0;
	pthread_mutex_lock(&figures->lock);
	if (hello->on != 0)
		status = start_figures(figures, hello, fds, helper);
	if (status == TOW_OK) {
		snprintf(figures->why, sizeof(figures->why), "%s", hello->why);
		*enrolled_out = figures->enrolled;
	}
	pthread_mutex_unlock(&figures->lock);
	return status;
}

void twi_bpf_figures_stop(struct twi_bpf_figures *figures, const char *why)
{
	pthread_mutex_lock(&figures->lock);
	twi_bpf_figures_refresh(figures);
	figures->on = false;
	snprintf(figures->why, sizeof(figures->why), "%s", why);
	twi_bpf_maps_give(&figures->maps);
	pthread_mutex_unlock(&figures->lock);
}

/* Makes room for the bit of `fd`. The lock is held. */
static bool make_room(struct twi_bpf_figures *figures, uint32_t fd)
{
	uint32_t room = twi_max(figures->sockets_room, 1024u);
	uint64_t *sockets;

	if (fd < figures->sockets_room)
		return true;
	if (fd >= TWI_BPF_FDS_MAX)
		return false;
	while (room <= fd)
		room *= 2;
	sockets = realloc(figures->sockets, room / 8);
	if (sockets == NULL)
		return false;
	memset((char *)sockets + figures->sockets_room / 8, 0, (room - figures->sockets_room) / 8);
	figures->sockets = sockets;
	figures->sockets_room = room;
	return true;
}

void twi_bpf_figures_socket(struct twi_bpf_figures *figures, int fd, bool comes)
{
	uint32_t at = (uint32_t)fd;

	if (fd < 0)
		return;
	pthread_mutex_lock(&figures->lock);
	if (!comes) {
		if (at < figures->sockets_room)
			figures->sockets[at / 64] &= ~(1ull << at % 64);
	} else if (make_room(figures, at)) {
		figures->sockets[at / 64] |= 1ull << at % 64;
		if (figures->on)
			enrol_socket(figures, fd);
	} else {
		figures->missed++;
	}
	pthread_mutex_unlock(&figures->lock);
}

static bool counter_is_known(const struct twi_bpf_figures *figures, enum twi_bpf_counter counter)
{
	return figures->ever && (figures->programs >> counters[counter].program & 1) != 0;
}

bool twi_bpf_figure(struct twi_bpf_figures *figures, enum twi_bpf_counter counter,
		    uint64_t *value_out)
{
	bool is_known;

	pthread_mutex_lock(&figures->lock);
	twi_bpf_figures_refresh(figures);
	is_known = counter_is_known(figures, counter);
	*value_out = is_known ? figures->last.counters[counter] : 0;
	pthread_mutex_unlock(&figures->lock);
	return is_known;
}
