/*
 * Stands in for the core where what matters is who installs signal handlers:
 * while it is loaded, it installs one of its own (USR2), as Go's runtime does,
 * and, as a thread of slurmstepd's might at that moment, one that is not (USR1).
 */
#include <signal.h>
#include <stdlib.h>

#include "../../gimbal_core.h"

static void own(int sig) { (void)sig; }

__attribute__((constructor)) static void install(void)
{
	signal(SIGUSR2, own);
	signal(SIGUSR1, (void (*)(int))(void *)abs); /* any function that is not here */
}

int gimbal_core_abi(void);
int gimbal_core_read(struct gimbal_core_request *, struct gimbal_core_reply *);
int gimbal_core_leave(struct gimbal_core_request *, struct gimbal_core_reply *);

int gimbal_core_abi(void) { return GIMBAL_CORE_ABI; }

int gimbal_core_read(struct gimbal_core_request *req, struct gimbal_core_reply *reply)
{
	(void)req, (void)reply;
	return 0;
}

int gimbal_core_leave(struct gimbal_core_request *req, struct gimbal_core_reply *reply)
{
	(void)req, (void)reply;
	return 0;
}
