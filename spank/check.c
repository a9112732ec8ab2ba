/* Syntax of the options' values. ASCII only, whatever the locale says. */
#include "gimbal.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_lower(char c) { return c >= 'a' && c <= 'z'; }

static bool one_of(const char *value, const char *const *words)
{
	for (; *words; words++)
		if (strcmp(value, *words) == 0)
			return true;
	return false;
}

/* A whole number of at most nine digits and nothing else, or -1. */
static long whole_number(const char *text)
{
	size_t digits = strspn(text, "0123456789");

	return digits > 0 && digits <= 9 && text[digits] == '\0' ? atol(text) : -1;
}

static bool policy_name(const char *value)
{
	size_t length = strlen(value);

	if (length > 32 || !is_lower(value[0]))
		return false;
	for (const char *c = value; *c; c++)
		if (!is_lower(*c) && !is_digit(*c) && *c != '_' && *c != '-')
			return false;
	return true;
}

/* A bare option comes as NULL, "" or, through some of Slurm's doors, "(null)". */
bool check_pack(const char *value, char *out)
{
	static const char *const yes[] = { "", "(null)", "1", "yes", "on", "true", NULL };
	static const char *const no[] = { "0", "no", "off", "false", NULL };

	if (!value || one_of(value, yes))
		value = "1";
	else if (one_of(value, no))
		value = "off";
	else if (!policy_name(value))
		return false;
	snprintf(out, OPTION_SIZE, "%s", value);
	return true;
}

/* The power of two of a unit: K, KB, KiB and so on, in either case; or -1. */
static int unit_shift(const char *unit)
{
	static const char letters[] = "kmgt";
	const char *letter = unit[0] ? strchr(letters, unit[0] | 0x20) : NULL;

	if (!letter)
		return -1;
	if (unit[1] != '\0' && strcasecmp(unit + 1, "b") != 0 && strcasecmp(unit + 1, "ib") != 0)
		return -1;
	return 10 * (int)(letter - letters + 1);
}

/*
 * The canonical form is whole MiB, rounded up: that is how fine NVML and the
 * frameworks count. Fractions are taken to six digits.
 */
bool check_memory(const char *value, char *out)
{
	const uint64_t million = 1000000, most_mib = UINT64_C(1024) * 1024 * 1024;
	uint64_t whole = 0, fraction = 0, scale = million;
	const char *c = value;

	if (!c || !is_digit(*c))
		return false;
	for (; is_digit(*c); c++)
		if ((whole = whole * 10 + (uint64_t)(*c - '0')) > most_mib)
			return false;
	if (*c == '.' && !is_digit(*++c))
		return false;
	for (; is_digit(*c); c++) {
		scale /= 10;
		fraction += scale * (uint64_t)(*c - '0');
	}
	int shift = unit_shift(c);
	if (shift < 0)
		return false;
	/* In KiB: whole < 2^30 and shift - 10 <= 30, so nothing overflows. */
	uint64_t kib = whole << (shift - 10);
	kib += (fraction * (UINT64_C(1) << (shift - 10)) + million - 1) / million;
	uint64_t mib = (kib + 1023) / 1024;
	if (mib == 0 || mib > most_mib)
		return false;
	snprintf(out, OPTION_SIZE, "%lluMiB", (unsigned long long)mib);
	return true;
}

bool check_class(const char *value, char *out)
{
	static const char *const classes[] = { "guaranteed", "opportunistic", NULL };

	if (!value || !one_of(value, classes))
		return false;
	snprintf(out, OPTION_SIZE, "%s", value);
	return true;
}

bool check_weight(const char *value, char *out)
{
	long weight = value ? whole_number(value) : -1;

	if (weight < 1 || weight > 10000)
		return false;
	snprintf(out, OPTION_SIZE, "%ld", weight);
	return true;
}

static const struct { const char *name; int number; } signal_names[] = {
	{ "HUP", SIGHUP }, { "INT", SIGINT }, { "QUIT", SIGQUIT }, { "ILL", SIGILL }, { "TRAP", SIGTRAP },
	{ "ABRT", SIGABRT }, { "BUS", SIGBUS }, { "FPE", SIGFPE }, { "KILL", SIGKILL }, { "USR1", SIGUSR1 },
	{ "SEGV", SIGSEGV }, { "USR2", SIGUSR2 }, { "PIPE", SIGPIPE }, { "ALRM", SIGALRM }, { "TERM", SIGTERM },
	{ "CHLD", SIGCHLD }, { "CONT", SIGCONT }, { "STOP", SIGSTOP }, { "TSTP", SIGTSTP }, { "TTIN", SIGTTIN },
	{ "TTOU", SIGTTOU }, { "URG", SIGURG }, { "XCPU", SIGXCPU }, { "XFSZ", SIGXFSZ }, { "VTALRM", SIGVTALRM },
	{ "PROF", SIGPROF }, { "WINCH", SIGWINCH }, { "IO", SIGIO }, { "PWR", SIGPWR }, { "SYS", SIGSYS },
};

#define SIGNAL_NAMES (sizeof signal_names / sizeof signal_names[0])

/* The number of a signal given by name (with or without SIG) or number, or 0. */
static int signal_number(const char *text)
{
	long number = whole_number(text);

	if (number >= 0)
		return number <= 64 ? (int)number : 0;
	if (strncasecmp(text, "SIG", 3) == 0)
		text += 3;
	for (size_t i = 0; i < SIGNAL_NAMES; i++)
		if (strcasecmp(text, signal_names[i].name) == 0)
			return signal_names[i].number;
	return 0;
}

/*
 * KILL and STOP cannot be caught, CONT would undo a pause, and 32 and 33
 * belong to the C library.
 */
static bool signal_allowed(int number)
{
	return number > 0 && number != SIGKILL && number != SIGSTOP && number != SIGCONT && number != 32 && number != 33;
}

/* The canonical form is NAME[@SECONDS]; a real-time signal stays a number. */
bool check_signal(const char *value, char *out)
{
	const char *at = value ? strchr(value, '@') : NULL;
	long seconds = at ? whole_number(at + 1) : 0;
	char name[16];

	if (!value || seconds < 0 || seconds > 65535)
		return false;
	size_t length = at ? (size_t)(at - value) : strlen(value);
	if (length >= sizeof name)
		return false;
	memcpy(name, value, length);
	name[length] = '\0';
	int number = signal_number(name);
	if (!signal_allowed(number))
		return false;
	snprintf(name, sizeof name, "%d", number);
	for (size_t i = 0; i < SIGNAL_NAMES; i++)
		if (signal_names[i].number == number)
			snprintf(name, sizeof name, "%s", signal_names[i].name);
	if (at)
		snprintf(out, OPTION_SIZE, "%s@%ld", name, seconds);
	else
		snprintf(out, OPTION_SIZE, "%s", name);
	return true;
}

static long unit_seconds(char unit)
{
	return unit == 's' ? 1 : unit == 'm' ? 60 : unit == 'h' ? 3600 : 0;
}

/* Such as 30s or 1m30s, a second to a day. The canonical form is whole seconds. */
bool check_pause(const char *value, char *out)
{
	const long most = 24 * 3600;
	long seconds = 0;

	for (const char *c = value ? value : ""; *c; c++) {
		char *unit;
		long n = is_digit(*c) ? strtol(c, &unit, 10) : most + 1;
		if (n > most || unit_seconds(*unit) == 0)
			return false;
		seconds += n * unit_seconds(*unit);
		if (seconds > most)
			return false;
		c = unit;
	}
	if (seconds == 0)
		return false;
	snprintf(out, OPTION_SIZE, "%lds", seconds);
	return true;
}
