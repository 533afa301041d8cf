/* Loaded before a member: each sync of a file takes as many milliseconds longer as the file SLOW_DISK says. A sync that
   waits reads the file again and again, so that a disk that stands still can be released. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_PAUSE_MS 50

static unsigned told_milliseconds(void) {
	const char *path = getenv("SLOW_DISK");
	FILE *file = path ? fopen(path, "re") : NULL;
	unsigned milliseconds = 0;
	if (file) {
		if (fscanf(file, "%u", &milliseconds) != 1)
			milliseconds = 0;
		fclose(file);
	}
	return milliseconds;
}

static void wait_as_told(void) {
	unsigned waited = 0, told;
	while ((told = told_milliseconds()) > waited) {
		unsigned pause = told - waited < MAX_PAUSE_MS ? told - waited : MAX_PAUSE_MS;
		usleep(pause * 1000);
		waited += pause;
	}
}

int fdatasync(int descriptor) {
	wait_as_told();
	return (int)syscall(SYS_fdatasync, descriptor);
}

int fsync(int descriptor) {
	wait_as_told();
	return (int)syscall(SYS_fsync, descriptor);
}
