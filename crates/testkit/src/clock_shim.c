/* Moves the wall clock of the process into which it is preloaded.
 *
 * The control file, which QUORLOCK_CLOCK_FILE names, holds one 64-bit word
 * twice. Bit 0 says whether the clock is frozen. The other bits are a number
 * of microseconds: the time since the epoch if the clock is frozen, and
 * otherwise the offset from the real time. The writer writes the first copy,
 * then the second copy. Readers load the second copy, then the first copy, and
 * retry while they differ, so no reader acts on a half-written change.
 *
 * Nothing here allocates: malloc itself may ask for the time. Raw system calls
 * keep libc from calling back into these functions. Monotonic clocks stay real.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MICROS_PER_SECOND 1000000

static const volatile int64_t *control;

/* Ends the process. A clock that silently stayed real would make a test
 * prove nothing. */
static void give_up(const char *why) {
    if (write(STDERR_FILENO, why, strlen(why)) < 0) {
        _exit(126);
    }
    _exit(127);
}

__attribute__((constructor)) static void map_control(void) {
    const char *path = getenv("QUORLOCK_CLOCK_FILE");
    if (path == NULL) {
        return;
    }
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        give_up("clock shim: cannot open QUORLOCK_CLOCK_FILE\n");
    }
    void *page = mmap(NULL, 2 * sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    if (page == MAP_FAILED) {
        give_up("clock shim: cannot map QUORLOCK_CLOCK_FILE\n");
    }
    close(file);
    control = page;
}

static int64_t read_control(void) {
    int64_t first, second;
    do {
        second = __atomic_load_n(&control[1], __ATOMIC_ACQUIRE);
        first = __atomic_load_n(&control[0], __ATOMIC_ACQUIRE);
    } while (first != second);
    return first;
}

static int wall_clock(clockid_t clock, struct timespec *now) {
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (result != 0 || control == NULL) {
        return result;
    }
    int64_t word = read_control();
    int64_t micros = word >> 1;
    int64_t nanos = 0;
    if ((word & 1) == 0) {
        micros += (int64_t)now->tv_sec * MICROS_PER_SECOND + now->tv_nsec / 1000;
        nanos = now->tv_nsec % 1000;
    }
    int64_t seconds = micros / MICROS_PER_SECOND;
    int64_t rest = micros % MICROS_PER_SECOND;
    if (rest < 0) {
        rest += MICROS_PER_SECOND;
        seconds -= 1;
    }
    now->tv_sec = seconds;
    now->tv_nsec = rest * 1000 + nanos;
    return 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) {
        return wall_clock(clock, now);
    }
    return (int)syscall(SYS_clock_gettime, clock, now);
}

/* timeval comes from <sys/select.h>: the prototype of gettimeofday in
 * <sys/time.h> varies by libc. */
int gettimeofday(struct timeval *now, void *zone) {
    struct timespec wall;
    if (zone != NULL) {
        memset(zone, 0, 2 * sizeof(int));
    }
    if (now == NULL) {
        return 0;
    }
    if (wall_clock(CLOCK_REALTIME, &wall) != 0) {
        return -1;
    }
    now->tv_sec = wall.tv_sec;
    now->tv_usec = wall.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec wall;
    if (wall_clock(CLOCK_REALTIME, &wall) != 0) {
        return (time_t)-1;
    }
    if (out != NULL) {
        *out = wall.tv_sec;
    }
    return wall.tv_sec;
}
