/* The plugin's line in plugstack.conf. */
#include "gimbal.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_SOCKET "/run/gimbal/gimbald.sock"
#define DEFAULT_PENDING "/run/gimbal/pending"
#define DEFAULT_TIMEOUT_MS 1000
#define CORE_FILE "gimbal_core.so"

/*
 * An address in this very object. Not plugin_name, which other objects have
 * too: the linker may bind it to theirs.
 */
static const char here;

/* The core lies beside this library unless the line says otherwise. */
static void core_beside_us(char *out, size_t size)
{
	Dl_info self;
	const char *slash;

	out[0] = '\0';
	if (!dladdr(&here, &self) || !self.dli_fname)
		return;
	slash = strrchr(self.dli_fname, '/');
	int folder = slash ? (int)(slash - self.dli_fname) + 1 : 0;
	if ((size_t)snprintf(out, size, "%.*s" CORE_FILE, folder, self.dli_fname) >= size)
		out[0] = '\0';
}

/* An absolute path that fits. */
static bool set_path(char *out, size_t size, const char *value)
{
	if (value[0] != '/' || strlen(value) >= size)
		return false;
	strcpy(out, value);
	return true;
}

/* "2s" or "500ms", from 10 ms to 10 s. */
static bool set_timeout(uint32_t *ms, const char *value)
{
	char *unit;
	unsigned long n = value[0] >= '0' && value[0] <= '9' ? strtoul(value, &unit, 10) : 0;

	if (n == 0 || n > 10000)
		return false;
	if (strcmp(unit, "s") == 0)
		n *= 1000;
	else if (strcmp(unit, "ms") != 0)
		return false;
	if (n < 10 || n > 10000)
		return false;
	*ms = (uint32_t)n;
	return true;
}

static bool set_argument(struct plugstack *out, const char *arg)
{
	if (strncmp(arg, "socket=", 7) == 0)
		return set_path(out->socket, sizeof out->socket, arg + 7);
	if (strncmp(arg, "core=", 5) == 0)
		return set_path(out->core, sizeof out->core, arg + 5);
	if (strncmp(arg, "pending=", 8) == 0)
		return set_path(out->pending, sizeof out->pending, arg + 8);
	if (strncmp(arg, "timeout=", 8) == 0)
		return set_timeout(&out->timeout_ms, arg + 8);
	return false;
}

/*
 * A node's name as it may stand in a path: it must not lead elsewhere. It comes
 * from slurmstepd's own environment, which is slurmd's, not the job's.
 */
static bool is_node_name(const char *name)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

	return name && name[0] != '\0' && name[0] != '.' && name[strspn(name, allowed)] == '\0';
}

bool plugstack_path(char *out, size_t size, const char *path, const char *node)
{
	size_t length = 0, part;

	for (; *path; path += part) {
		bool named = strncmp(path, "%n", 2) == 0 && is_node_name(node);
		const char *text = named ? node : path;
		part = named ? 2 : 1;
		size_t add = named ? strlen(node) : 1;
		if (length + add >= size)
			return false;
		memcpy(out + length, text, add);
		length += add;
	}
	out[length] = '\0';
	return true;
}

void plugstack_parse(struct plugstack *out, int ac, char **av, void (*complain)(const char *arg))
{
	strcpy(out->socket, DEFAULT_SOCKET);
	strcpy(out->pending, DEFAULT_PENDING);
	out->timeout_ms = DEFAULT_TIMEOUT_MS;
	core_beside_us(out->core, sizeof out->core);
	for (int i = 0; av && i < ac; i++)
		if (av[i] && !set_argument(out, av[i]) && complain)
			complain(av[i]);
}

/* Whether the loaded object at path is a SPANK plugin by our name. */
static bool is_gimbal(const char *path, ElfW(Addr) base)
{
	void *handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
	bool found = false;
	Dl_info where;

	if (!handle)
		return false;
	const char *name = dlsym(handle, "plugin_name");
	const char *type = dlsym(handle, "plugin_type");
	/* dlsym also looks into what the object depends on. */
	if (name && type && dladdr(name, &where) && (ElfW(Addr))where.dli_fbase == base)
		found = strcmp(name, "gimbal") == 0 && strcmp(type, "spank") == 0;
	dlclose(handle);
	return found;
}

/* Where this object is, and the first copy that was found. */
struct copies { ElfW(Addr) self, first; };

/* The base address of the first loaded copy, in the order of loading. */
static int find_first(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct copies *copies = arg;

	(void)size;
	if (info->dlpi_addr == copies->self || (info->dlpi_name && info->dlpi_name[0] == '/' && is_gimbal(info->dlpi_name, info->dlpi_addr)))
		copies->first = info->dlpi_addr;
	return copies->first != 0;
}

bool plugstack_loaded_twice(void)
{
	struct copies copies = { 0, 0 };
	Dl_info self;

	/* Not every object's load address is where it begins: ask for ours. */
	if (!dladdr(&here, &self))
		return false;
	copies.self = (ElfW(Addr))self.dli_fbase;
	dl_iterate_phdr(find_first, &copies);
	return copies.first != 0 && copies.first != copies.self;
}
