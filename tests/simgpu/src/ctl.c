/* simgpu-device ctl: sends a command to a running device. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "device.h"
#include "util.h"

int control_command(int argc, char **argv)
{
	char reply[sizeof(struct simgpu_msg) + SIMGPU_REPLY];
	struct simgpu_msg m = { .op = OP_CONTROL };
	const char *dir = device_dir();
	int i = 2;
	if (argc > 3 && strcmp(argv[2], "--dir") == 0) {
		dir = argv[3];
		i = 4;
	}
	for (size_t used = 0; i < argc; i++) {
		int n = snprintf(m.text + used, sizeof m.text - used, "%s ", argv[i]);
		used += (size_t)n;
		if (used >= sizeof m.text)
			usage_error("command too long");
	}
	int fd = device_connect(dir);
	if (fd < 0 || send(fd, &m, sizeof m, MSG_NOSIGNAL) < 0 || recv(fd, reply, sizeof reply, 0) < (ssize_t)sizeof m) {
		fprintf(stderr, "simgpu-device: no device in %s\n", dir);
		return 1;
	}
	struct simgpu_msg *answer = (struct simgpu_msg *)(void *)reply;
	if (answer->text[0] != '\0')
		fprintf(answer->result ? stderr : stdout, "%s\n", answer->text);
	return answer->result ? 1 : 0;
}
