/*
 * A stand-in for a process of Slurm: loads the plugin and calls it as it is
 * told, one command a line on standard input. What the plugin says to Slurm is
 * printed.
 *
 *   load PATH | unload           the current copy of the plugin
 *   context N                    enum spank_context
 *   args A B ...                 of the plugstack line
 *   now SECONDS                  what time() returns
 *   env N=V | unenv N            this process's environment
 *   jobenv N=V                   the job's environment
 *   item N V                     spank_get_item(N) gives V; others fail
 *   hook NAME                    calls slurm_spank_NAME, if there is one
 *   opt NAME [V]                 calls the option's callback, locally
 *   ropt NAME [V]                the same, remotely
 *   tasks N                      forks N tasks and lets the hooks see them
 *   show env|jobenv|control|state
 *   get N | getcontrol N         one variable of env or control
 *   echo TEXT
 *   big NAME N C                 like jobenv, N times the character C
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <slurm/spank.h>

extern char **environ;

struct pair { char *name, *value; };
struct list { struct pair *pairs; int count; };

static struct list job_env, control_env;
static struct { int set; uint32_t value; } items[64];
static struct spank_option options[32];
static int option_count;
static spank_context_t context = S_CTX_REMOTE;
static time_t fake_now;
static char *args[64];
static int arg_count;
static void *plugin;
static int handle; /* &handle is our spank_t */

/* ---- what the plugin calls ---- */

static struct pair *find(struct list *list, const char *name)
{
	for (int i = 0; i < list->count; i++)
		if (strcmp(list->pairs[i].name, name) == 0)
			return &list->pairs[i];
	return NULL;
}

static void put(struct list *list, const char *name, const char *value)
{
	struct pair *pair = find(list, name);

	if (!pair) {
		list->pairs = realloc(list->pairs, sizeof *pair * (size_t)(list->count + 1));
		pair = &list->pairs[list->count++];
		pair->name = strdup(name);
	} else {
		free(pair->value);
	}
	pair->value = strdup(value);
}

static void drop(struct list *list, const char *name)
{
	struct pair *pair = find(list, name);

	if (!pair)
		return;
	free(pair->name);
	free(pair->value);
	*pair = list->pairs[--list->count];
}

time_t time(time_t *out)
{
	struct timespec ts;
	time_t now = fake_now;

	if (!now) {
		clock_gettime(CLOCK_REALTIME, &ts);
		now = ts.tv_sec;
	}
	if (out)
		*out = now;
	return now;
}

spank_context_t spank_context(void) { return context; }

spank_err_t spank_option_register(spank_t sp, struct spank_option *opt)
{
	(void)sp;
	for (int i = 0; i < option_count; i++)
		if (strcmp(options[i].name, opt->name) == 0) {
			printf("option %s provided by both\n", opt->name);
			return ESPANK_BAD_ARG;
		}
	options[option_count++] = *opt;
	options[option_count - 1].name = strdup(opt->name);
	return ESPANK_SUCCESS;
}

spank_err_t spank_getenv(spank_t sp, const char *var, char *buf, int len)
{
	struct pair *pair = find(&job_env, var);

	(void)sp;
	if (context != S_CTX_REMOTE)
		return ESPANK_NOT_REMOTE;
	if (!pair)
		return ESPANK_ENV_NOEXIST;
	/* As Slurm does it: a value that does not fit is cut. */
	if ((int)strlen(pair->value) >= len) {
		memcpy(buf, pair->value, (size_t)len);
		buf[len - 1] = '\0';
		return ESPANK_NOSPACE;
	}
	strcpy(buf, pair->value);
	return ESPANK_SUCCESS;
}

spank_err_t spank_setenv(spank_t sp, const char *var, const char *val, int overwrite)
{
	(void)sp;
	if (context != S_CTX_REMOTE)
		return ESPANK_NOT_REMOTE;
	if (find(&job_env, var) && !overwrite)
		return ESPANK_ENV_EXISTS;
	put(&job_env, var, val);
	return ESPANK_SUCCESS;
}

spank_err_t spank_unsetenv(spank_t sp, const char *var)
{
	(void)sp;
	drop(&job_env, var);
	return ESPANK_SUCCESS;
}

spank_err_t spank_job_control_setenv(spank_t sp, const char *name, const char *value, int overwrite)
{
	(void)sp;
	if (find(&control_env, name) && !overwrite)
		return ESPANK_ENV_EXISTS;
	put(&control_env, name, value);
	return ESPANK_SUCCESS;
}

spank_err_t spank_get_item(spank_t sp, spank_item_t item, ...)
{
	va_list ap;
	uint32_t *out;

	(void)sp;
	if ((unsigned)item >= 64 || !items[item].set)
		return ESPANK_ERROR;
	va_start(ap, item);
	out = va_arg(ap, uint32_t *);
	va_end(ap);
	*out = items[item].value;
	return ESPANK_SUCCESS;
}

#define LOGGER(name, prefix) \
	void name(const char *format, ...) \
	{ \
		va_list ap; \
		va_start(ap, format); \
		fputs(prefix, stdout); \
		vprintf(format, ap); \
		putchar('\n'); \
		va_end(ap); \
	}
LOGGER(slurm_error, "error: ")
LOGGER(slurm_info, "info: ")
LOGGER(slurm_debug, "debug: ")

/* ---- commands ---- */

static int call(const char *name)
{
	char symbol[64];
	int (*hook)(spank_t, int, char **);

	snprintf(symbol, sizeof symbol, "slurm_spank_%s", name);
	*(void **)&hook = plugin ? dlsym(plugin, symbol) : NULL;
	return hook ? hook((spank_t)&handle, arg_count, arg_count ? args : NULL) : 0;
}

static void load(const char *path)
{
	plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!plugin)
		printf("load: %s\n", dlerror());
}

static void option(const char *rest, int remote)
{
	char name[64] = "";
	const char *value = strchr(rest, ' ');

	snprintf(name, sizeof name, "%.*s", value ? (int)(value - rest) : 63, rest);
	for (int i = 0; i < option_count; i++)
		if (strcmp(options[i].name, name) == 0) {
			printf("%s rc %d\n", name, options[i].cb(options[i].val, value ? value + 1 : NULL, remote));
			return;
		}
	printf("%s unknown\n", name);
}

static void child(int gate)
{
	char byte;

	call("task_init_privileged");
	call("task_init");
	/* As in slurmstepd: waits until every task_post_fork is over. */
	while (read(gate, &byte, 1) < 0 && errno == EINTR)
		;
	_exit(7);
}

static void tasks(int n)
{
	pid_t *pids = calloc((size_t)n, sizeof *pids);
	int gate[2], status;

	fflush(stdout);
	if (pipe(gate) != 0)
		exit(2);
	for (int i = 0; i < n; i++) {
		if ((pids[i] = fork()) == 0) {
			close(gate[1]);
			child(gate[0]);
		}
	}
	for (int i = 0; i < n; i++) {
		items[S_TASK_ID].set = items[S_TASK_GLOBAL_ID].set = items[S_TASK_PID].set = 1;
		items[S_TASK_ID].value = items[S_TASK_GLOBAL_ID].value = (uint32_t)i;
		items[S_TASK_PID].value = (uint32_t)pids[i];
		call("task_post_fork");
	}
	close(gate[0]);
	close(gate[1]);
	for (int i = 0; i < n; i++) {
		if (waitpid(pids[i], &status, 0) != pids[i] || !WIFEXITED(status) || WEXITSTATUS(status) != 7)
			printf("task %d: status %#x\n", i, status);
		items[S_TASK_ID].value = items[S_TASK_GLOBAL_ID].value = (uint32_t)i;
		items[S_TASK_PID].value = (uint32_t)pids[i];
		items[S_TASK_EXIT_STATUS].set = 1;
		items[S_TASK_EXIT_STATUS].value = (uint32_t)status;
		call("task_exit");
	}
	free(pids);
}

static void show_state(void)
{
	char line[256];
	FILE *status = fopen("/proc/self/status", "r");
	struct rlimit files;

	while (status && fgets(line, sizeof line, status))
		if (strncmp(line, "Sig", 3) == 0 && line[3] != 'Q')
			fputs(line, stdout);
	rewind(status);
	while (status && fgets(line, sizeof line, status))
		if (strncmp(line, "Threads", 7) == 0)
			fputs(line, stdout);
	if (status)
		fclose(status);
	getrlimit(RLIMIT_NOFILE, &files);
	printf("files: %llu %llu\n", (unsigned long long)files.rlim_cur, (unsigned long long)files.rlim_max);
}

static void show(const char *what)
{
	struct list *list = strcmp(what, "jobenv") == 0 ? &job_env : &control_env;

	if (strcmp(what, "state") == 0) {
		show_state();
	} else if (strcmp(what, "env") == 0) {
		for (char **e = environ; *e; e++)
			puts(*e);
	} else {
		for (int i = 0; i < list->count; i++)
			printf("%s=%s\n", list->pairs[i].name, list->pairs[i].value);
	}
}

static void get(const char *name, const char *value)
{
	if (value)
		printf("%s=%s\n", name, value);
}

static void set_args(char *rest)
{
	arg_count = 0;
	for (char *a = strtok(rest, " "); a && arg_count < 63; a = strtok(NULL, " "))
		args[arg_count++] = strdup(a);
}

static void big(char *rest)
{
	char name[128], c;
	int n;

	if (sscanf(rest, "%127s %d %c", name, &n, &c) != 3)
		exit(2);
	char *value = malloc((size_t)n + 1);
	memset(value, c, (size_t)n);
	value[n] = '\0';
	put(&job_env, name, value);
	free(value);
}

static void obey(char *line)
{
	char *rest = strchr(line, ' '), *equals;

	if (rest)
		*rest++ = '\0';
	else
		rest = line + strlen(line);
	equals = strchr(rest, '=');
	if (strcmp(line, "load") == 0)
		load(rest);
	else if (strcmp(line, "unload") == 0)
		dlclose(plugin), plugin = NULL, option_count = 0;
	else if (strcmp(line, "context") == 0)
		context = (spank_context_t)atoi(rest);
	else if (strcmp(line, "args") == 0)
		set_args(rest);
	else if (strcmp(line, "now") == 0)
		fake_now = atoll(rest);
	else if (strcmp(line, "env") == 0 && equals)
		*equals = '\0', setenv(rest, equals + 1, 1);
	else if (strcmp(line, "unenv") == 0)
		unsetenv(rest);
	else if (strcmp(line, "jobenv") == 0 && equals)
		*equals = '\0', put(&job_env, rest, equals + 1);
	else if (strcmp(line, "item") == 0) {
		unsigned item = (unsigned)strtoul(rest, &rest, 10) % 64;
		items[item].set = 1;
		items[item].value = (uint32_t)strtoul(rest, NULL, 10);
	} else if (strcmp(line, "hook") == 0)
		printf("%s rc %d\n", rest, call(rest));
	else if (strcmp(line, "opt") == 0)
		option(rest, 0);
	else if (strcmp(line, "ropt") == 0)
		option(rest, 1);
	else if (strcmp(line, "tasks") == 0)
		tasks(atoi(rest));
	else if (strcmp(line, "show") == 0)
		show(rest);
	else if (strcmp(line, "get") == 0)
		get(rest, getenv(rest));
	else if (strcmp(line, "getcontrol") == 0)
		get(rest, find(&control_env, rest) ? find(&control_env, rest)->value : NULL);
	else if (strcmp(line, "echo") == 0)
		puts(rest);
	else if (strcmp(line, "big") == 0)
		big(rest);
	else
		printf("what is %s?\n", line);
}

static void *nothing(void *arg) { return arg; }

int main(void)
{
	pthread_t thread;
	char *line = NULL;
	size_t size = 0;
	ssize_t n;

	/* slurmstepd has threads: the C library's own signals are set up. */
	if (pthread_create(&thread, NULL, nothing, NULL) != 0 || pthread_join(thread, NULL) != 0)
		return 2;
	while ((n = getline(&line, &size, stdin)) > 0) {
		if (line[n - 1] == '\n')
			line[n - 1] = '\0';
		obey(line);
	}
	free(line);
	return 0;
}
