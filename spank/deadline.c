/*
 * The time forms of sbatch's --deadline and --begin. As there: a time without
 * a date is the next one to come, a date without a time is its first second,
 * a date without a year is the next one to come.
 */
#include "gimbal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a text says; -1 where it says nothing. */
struct moment {
	int year, month, day;     /* month 1 to 12 */
	int hour, minute, second; /* all three or none */
};

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Takes between least and most digits off *p, or returns -1. */
static int take_number(const char **p, int least, int most)
{
	int n = 0, value = 0;

	for (; is_digit((*p)[n]) && n < most; n++)
		value = value * 10 + ((*p)[n] - '0');
	if (n < least || is_digit((*p)[n]))
		return -1;
	*p += n;
	return value;
}

/* Takes exactly n digits off *p, of however many follow, or returns -1. */
static int take_digits(const char **p, int n)
{
	int value = 0;

	for (; n > 0; n--, (*p)++) {
		if (!is_digit(**p))
			return -1;
		value = value * 10 + (**p - '0');
	}
	return value;
}

static bool take_char(const char **p, char c)
{
	if (**p != c)
		return false;
	++*p;
	return true;
}

/* Takes a word off *p if it stands there and no letter follows. */
static bool take_word(const char **p, const char *word)
{
	size_t length = strlen(word);
	char after;

	if (strncmp(*p, word, length) != 0)
		return false;
	after = (*p)[length];
	if (after >= 'a' && after <= 'z')
		return false;
	*p += length;
	return true;
}

static void skip_blanks(const char **p)
{
	while (**p == ' ' || **p == '\t')
		++*p;
}

/* HH:MM[:SS] [AM|PM] */
static bool take_time(const char **p, struct moment *m)
{
	if (m->hour >= 0)
		return false;
	m->hour = take_number(p, 1, 2);
	if (m->hour < 0 || !take_char(p, ':'))
		return false;
	m->minute = take_number(p, 2, 2);
	m->second = take_char(p, ':') ? take_number(p, 2, 2) : 0;
	if (m->minute < 0 || m->minute > 59 || m->second < 0 || m->second > 59)
		return false;
	skip_blanks(p);
	bool am = take_word(p, "am"), pm = !am && take_word(p, "pm");
	if (!am && !pm)
		return m->hour <= 23;
	if (m->hour < 1 || m->hour > 12)
		return false;
	m->hour = m->hour % 12 + (pm ? 12 : 0);
	return true;
}

/* [YY]YY, or -1 for anything else */
static int take_year(const char **p)
{
	int digits = (int)strspn(*p, "0123456789");
	int year = take_number(p, 2, 4);

	if (digits == 2)
		return year + 2000;
	return digits == 4 ? year : -1;
}

/* YYYY-MM-DD[THH:MM[:SS]] */
static bool take_iso(const char **p, struct moment *m)
{
	m->year = take_number(p, 4, 4);
	if (m->year < 0 || !take_char(p, '-') || (m->month = take_number(p, 1, 2)) < 0)
		return false;
	if (!take_char(p, '-') || (m->day = take_number(p, 1, 2)) < 0)
		return false;
	return !take_char(p, 't') || take_time(p, m);
}

/* MM/DD[/YY][-HH:MM[:SS]], with / or . */
static bool take_slashed(const char **p, struct moment *m)
{
	char separator;

	m->month = take_number(p, 1, 2);
	separator = **p;
	if (m->month < 0 || (separator != '/' && separator != '.'))
		return false;
	++*p;
	if ((m->day = take_number(p, 1, 2)) < 0)
		return false;
	if (take_char(p, separator) && (m->year = take_year(p)) < 0)
		return false;
	return !take_char(p, '-') || take_time(p, m);
}

/* MMDD[YY][-HH:MM[:SS]] */
static bool take_packed(const char **p, int digits, struct moment *m)
{
	m->month = take_digits(p, 2);
	m->day = take_digits(p, 2);
	if (digits == 6)
		m->year = 2000 + take_digits(p, 2);
	return !take_char(p, '-') || take_time(p, m);
}

static bool take_date(const char **p, struct moment *m)
{
	int digits = (int)strspn(*p, "0123456789");
	char after = (*p)[digits];

	if (m->month >= 0)
		return false;
	if (digits == 4 && after == '-' && (*p)[5 + strspn(*p + 5, "0123456789")] == '-')
		return take_iso(p, m);
	if (after == '/' || after == '.')
		return take_slashed(p, m);
	return (digits == 4 || digits == 6) && take_packed(p, digits, m);
}

static bool take_named_time(const char **p, struct moment *m)
{
	static const struct { const char *name; int hour; } times[] = {
		{ "midnight", 0 }, { "elevenses", 11 }, { "noon", 12 }, { "fika", 15 }, { "teatime", 16 },
	};

	for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
		if (m->hour < 0 && take_word(p, times[i].name)) {
			m->hour = times[i].hour;
			m->minute = m->second = 0;
			return true;
		}
	}
	return false;
}

static bool take_named_date(const char **p, time_t now, struct moment *m)
{
	bool tomorrow = take_word(p, "tomorrow");
	struct tm tm;

	if ((!tomorrow && !take_word(p, "today")) || m->month >= 0 || !localtime_r(&now, &tm))
		return false;
	tm.tm_mday += tomorrow;
	tm.tm_hour = 12;
	tm.tm_isdst = -1;
	if (mktime(&tm) == -1)
		return false;
	m->year = tm.tm_year + 1900;
	m->month = tm.tm_mon + 1;
	m->day = tm.tm_mday;
	return true;
}

static bool parse_moment(const char *p, time_t now, struct moment *m)
{
	for (skip_blanks(&p); *p; skip_blanks(&p)) {
		bool taken;
		if (!is_digit(*p))
			taken = take_named_time(&p, m) || take_named_date(&p, now, m);
		else if (p[strspn(p, "0123456789")] == ':')
			taken = take_time(&p, m);
		else
			taken = take_date(&p, m);
		if (!taken || (*p && *p != ' ' && *p != '\t'))
			return false;
	}
	return m->month >= 0 || m->hour >= 0;
}

/* Unix seconds of a complete moment, or -1 when there is no such day. */
static int64_t to_unix(const struct moment *m)
{
	struct tm tm = {
		.tm_year = m->year - 1900, .tm_mon = m->month - 1, .tm_mday = m->day,
		.tm_hour = m->hour, .tm_min = m->minute, .tm_sec = m->second, .tm_isdst = -1,
	};
	time_t t = mktime(&tm);

	if (t == -1 || tm.tm_mday != m->day || tm.tm_mon != m->month - 1)
		return -1;
	return t;
}

/* Fills in what the text left open, so that the moment is to come. */
static int64_t resolve(struct moment m, time_t now)
{
	bool no_year = m.year < 0, no_date = m.month < 0;
	struct tm tm;
	int64_t t;

	if (!localtime_r(&now, &tm))
		return -1;
	if (m.hour < 0)
		m.hour = m.minute = m.second = 0;
	if (no_date) {
		tm.tm_hour = m.hour, tm.tm_min = m.minute, tm.tm_sec = m.second, tm.tm_isdst = -1;
		struct tm later = tm;
		later.tm_mday++;
		t = mktime(&tm);
		return t > now ? t : mktime(&later);
	}
	if (m.month < 1 || m.month > 12 || m.day < 1 || m.day > 31)
		return -1;
	if (no_year)
		m.year = tm.tm_year + 1900;
	t = to_unix(&m);
	/* A leap day without a year is up to eight years away. */
	for (int tries = 0; no_year && t <= now && tries < 8; tries++) {
		m.year++;
		t = to_unix(&m);
	}
	return t;
}

/* now[+N[unit]]; p stands after "now". */
static int64_t parse_now(const char *p, time_t now)
{
	static const struct { const char *name; int64_t seconds; } units[] = {
		{ "", 1 }, { "second", 1 }, { "minute", 60 }, { "hour", 3600 }, { "day", 86400 }, { "week", 604800 },
	};
	int64_t count;

	skip_blanks(&p);
	if (!*p)
		return now;
	if (!take_char(&p, '+'))
		return -1;
	skip_blanks(&p);
	if ((count = take_number(&p, 1, 9)) < 0)
		return -1;
	skip_blanks(&p);
	for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
		size_t length = strlen(units[i].name);
		if (strncmp(p, units[i].name, length) != 0)
			continue;
		if (p[length] == '\0' || (length > 0 && strcmp(p + length, "s") == 0))
			return now + count * units[i].seconds;
	}
	return -1;
}

int64_t parse_deadline(const char *text, time_t now)
{
	struct moment m = { -1, -1, -1, -1, -1, -1 };
	char lower[64];
	size_t length = strlen(text);

	if (length >= sizeof lower)
		return -1;
	for (size_t i = 0; i <= length; i++)
		lower[i] = text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] | 0x20) : text[i];
	const char *p = lower;
	skip_blanks(&p);
	if (strncmp(p, "now", 3) == 0)
		return parse_now(p + 3, now);
	return parse_moment(p, now, &m) ? resolve(m, now) : -1;
}

/*
 * The canonical form is "uts" and unix seconds, as Slurm itself writes a
 * resolved time. A job may outlive its deadline, so one that was resolved
 * before may have passed; a new one may not.
 */
bool check_deadline(const char *value, char *out)
{
	time_t now = time(NULL);
	int64_t t;

	if (!value)
		return false;
	if (strncmp(value, "uts", 3) == 0) {
		size_t digits = strspn(value + 3, "0123456789");
		if (digits < 1 || digits > 12 || value[3 + digits] != '\0')
			return false;
		t = strtoll(value + 3, NULL, 10);
	} else {
		t = parse_deadline(value, now);
		if (t <= now)
			return false;
	}
	snprintf(out, OPTION_SIZE, "uts%lld", (long long)t);
	return true;
}
