/* A plugin of Gimbal's name that takes any value for its options. */
#include <stddef.h>

#include <slurm/spank.h>

SPANK_PLUGIN(gimbal, 1);

static int take(int value, const char *text, int remote)
{
	(void)value;
	(void)text;
	(void)remote;
	return ESPANK_SUCCESS;
}

static struct spank_option options[] = {
	{ "gimbal-pack", "", "", 2, 0, take },
	{ "gimbal-memory", "", "", 1, 0, take },
};

int slurm_spank_init(spank_t sp, int argc, char **argv)
{
	(void)argc;
	(void)argv;
	for (size_t i = 0; i < sizeof options / sizeof *options; i++)
		if (spank_option_register(sp, &options[i]) != ESPANK_SUCCESS)
			return ESPANK_ERROR;
	return ESPANK_SUCCESS;
}
