/* cuda-checkpoint: the checkpoint calls by hand, through libcuda.so.1. */
#include <dlfcn.h>
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

static const char usage[] =
	"usage: cuda-checkpoint --pid PID --get-state\n"
	"       cuda-checkpoint --pid PID --get-restore-tid\n"
	"       cuda-checkpoint --pid PID --action lock [--timeout MS]\n"
	"       cuda-checkpoint --pid PID --action checkpoint|restore|unlock\n"
	"Prints CUDA's result and exits 1 if it is not 0.\n";

static void *symbol(void *library, const char *name)
{
	void *p = dlsym(library, name);
	if (p == NULL)
		usage_error("%s", dlerror());
	return p;
}

static int act(void *library, const char *action, int pid, const char *timeout)
{
	bool lock = strcmp(action, "lock") == 0;
	uint32_t args[16] = { (uint32_t)(lock && timeout != NULL ? atoi(timeout) : 0) };
	char name[64];
	snprintf(name, sizeof name, "cuCheckpointProcess%c%s", action[0] & ~0x20, action + 1);
	int (*call)(int, void *) = (int (*)(int, void *))symbol(library, name);
	return call(pid, args[0] != 0 ? args : NULL);
}

static int get(void *library, const char *name, int pid)
{
	int (*call)(int, int *) = (int (*)(int, int *))symbol(library, name);
	int value = -1, result = call(pid, &value);
	if (result == 0)
		printf("%d\n", value);
	return result;
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "pid", required_argument, NULL, 'p' },      { "get-state", no_argument, NULL, 's' },
		{ "get-restore-tid", no_argument, NULL, 't' }, { "action", required_argument, NULL, 'a' },
		{ "timeout", required_argument, NULL, 'w' },   { NULL, 0, NULL, 0 },
	};
	const char *action = NULL, *getter = NULL, *timeout = NULL;
	int pid = 0, c;
	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (c == 'p')
			pid = atoi(optarg);
		else if (c == 's')
			getter = "cuCheckpointProcessGetState";
		else if (c == 't')
			getter = "cuCheckpointProcessGetRestoreThreadId";
		else if (c == 'a')
			action = optarg;
		else if (c == 'w')
			timeout = optarg;
		else
			exit(2);
	}
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	if (library == NULL)
		usage_error("%s", dlerror());
	if (pid == 0 || (action == NULL) == (getter == NULL)) {
		fputs(usage, stderr);
		exit(2);
	}
	int (*init)(unsigned) = (int (*)(unsigned))symbol(library, "cuInit");
	int result = init(0);
	if (result == 0)
		result = getter != NULL ? get(library, getter, pid) : act(library, action, pid, timeout);
	if (result != 0)
		fprintf(stderr, "CUDA result %d\n", result);
	return result != 0;
}
