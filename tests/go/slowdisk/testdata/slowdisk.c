/* Loaded before a member: each sync of a file takes as many milliseconds longer as the file SLOW_DISK says. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static void wait_as_told(void) {
	const char *path = getenv("SLOW_DISK");
	FILE *file = path ? fopen(path, "re") : NULL;
	unsigned milliseconds = 0;
	if (file) {
		if (fscanf(file, "%u", &milliseconds) != 1)
			milliseconds = 0;
		fclose(file);
	}
	usleep(milliseconds * 1000);
}

int fdatasync(int descriptor) {
	wait_as_told();
	return (int)syscall(SYS_fdatasync, descriptor);
}

int fsync(int descriptor) {
	wait_as_told();
	return (int)syscall(SYS_fsync, descriptor);
}
