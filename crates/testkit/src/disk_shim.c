/* Slows down every sync to disk of the process into which it is preloaded.
 *
 * The control file, which QUORLOCK_DISK_FILE names, holds one 64-bit word: the
 * extra time of each sync in microseconds. The word is aligned, so no reader sees half of a change.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MICROS_PER_SECOND 1000000

static const volatile int64_t *control;

/* Ends the process. A disk that silently stayed fast would make a test prove
 * nothing. */
static void give_up(const char *why) {
    if (write(STDERR_FILENO, why, strlen(why)) < 0) {
        _exit(126);
    }
    _exit(127);
}

__attribute__((constructor)) static void map_control(void) {
    const char *path = getenv("QUORLOCK_DISK_FILE");
    if (path == NULL) {
        return;
    }
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        give_up("disk shim: cannot open QUORLOCK_DISK_FILE\n");
    }
    void *page = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    if (page == MAP_FAILED) {
        give_up("disk shim: cannot map QUORLOCK_DISK_FILE\n");
    }
    close(file);
    control = page;
}

static void wait_for_disk(void) {
    if (control == NULL) {
        return;
    }
    int64_t micros = __atomic_load_n(control, __ATOMIC_ACQUIRE);
    struct timespec pause = {micros / MICROS_PER_SECOND, micros % MICROS_PER_SECOND * 1000};
    nanosleep(&pause, NULL);
}

int fsync(int file) {
    wait_for_disk();
    return (int)syscall(SYS_fsync, file);
}

int fdatasync(int file) {
    wait_for_disk();
    return (int)syscall(SYS_fdatasync, file);
}
