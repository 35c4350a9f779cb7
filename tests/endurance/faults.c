/* What a machine does wrong, done on purpose: preloaded (LD_PRELOAD), told by a file in memory.
 *
 * FAULTS names a file that holds a `struct control`; whoever changes it changes what fails, while the
 * process runs. Only files whose path begins with FAULTS_UNDER fail. Clocks are those of the time of
 * day: what waits is measured by another one.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { WRITE = 1, SHORT = 2, SYNC = 4, OPEN = 8, READ = 16, SLOW = 32 };

struct control {
    double offset, rate, since; /* seconds added to the time of day, and its speed from then on */
    int64_t failing, number;    /* which calls, and the errno they end with */
    int64_t hits;               /* how many have failed */
    int64_t spared;             /* the process of which none fails: whoever watches */
};

static struct control *control;
static const char *under;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAULTS");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    under = getenv("FAULTS_UNDER");
    if (file < 0)
        return;
    control = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (control == MAP_FAILED)
        control = NULL;
    close(file);
}

static int concerns(const char *path) { return under && !strncmp(path, under, strlen(under)); }

static int fails(int64_t what, int file) {
    char link[64], path[4096];
    ssize_t size;
    if (!control || !(control->failing & what) || control->spared == getpid())
        return 0;
    char *end = link + sizeof link - 1, *at = end;
    *at = 0;
    for (unsigned rest = (unsigned)file; at == end || rest; rest /= 10)
        *--at = (char)('0' + rest % 10);
    at -= 14;
    memcpy(at, "/proc/self/fd/", 14);
    size = readlink(at, path, sizeof path - 1);
    if (size < 0)
        return 0;
    path[size] = 0;
    if (!concerns(path))
        return 0;
    control->hits++;
    return 1;
}

#define REAL(name) ({ static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name); real; })
#define FAIL(what, file) if (fails(what, file)) { errno = (int)control->number; return -1; }
#define LESS(size, file) ((size) > 1 && fails(SHORT, file) ? (size) / 2 : (size))

ssize_t write(int file, const void *data, size_t size) {
    FAIL(WRITE, file)
    return REAL(write)(file, data, LESS(size, file));
}
ssize_t pwrite(int file, const void *data, size_t size, off_t at) {
    FAIL(WRITE, file)
    return REAL(pwrite)(file, data, LESS(size, file), at);
}
ssize_t pwrite64(int file, const void *data, size_t size, off64_t at) {
    FAIL(WRITE, file)
    return REAL(pwrite64)(file, data, LESS(size, file), at);
}
ssize_t writev(int file, const struct iovec *parts, int number) {
    FAIL(WRITE, file)
    return REAL(writev)(file, parts, number);
}
int ftruncate(int file, off_t size) { FAIL(WRITE, file) return REAL(ftruncate)(file, size); }
int ftruncate64(int file, off64_t size) { FAIL(WRITE, file) return REAL(ftruncate64)(file, size); }
int fallocate(int file, int mode, off_t at, off_t size) { FAIL(WRITE, file) return REAL(fallocate)(file, mode, at, size); }
int posix_fallocate(int file, off_t at, off_t size) {
    if (fails(WRITE, file)) return (int)control->number;
    return REAL(posix_fallocate)(file, at, size);
}
int fsync(int file) { FAIL(SYNC, file) return REAL(fsync)(file); }
int fdatasync(int file) { FAIL(SYNC, file) return REAL(fdatasync)(file); }
ssize_t read(int file, void *data, size_t size) {
    FAIL(READ, file)
    return REAL(read)(file, data, LESS(size, file));
}
ssize_t pread(int file, void *data, size_t size, off_t at) { FAIL(READ, file) return REAL(pread)(file, data, size, at); }
ssize_t pread64(int file, void *data, size_t size, off64_t at) { FAIL(READ, file) return REAL(pread64)(file, data, size, at); }

static int open_fails(const char *path) {
    if (!control || !(control->failing & OPEN) || control->spared == getpid() || !concerns(path))
        return 0;
    control->hits++;
    errno = (int)control->number;
    return 1;
}
#define MODE mode_t mode = 0; va_list more; va_start(more, flags); if (flags & (O_CREAT | __O_TMPFILE)) mode = va_arg(more, mode_t); va_end(more);
int open(const char *path, int flags, ...) { MODE return open_fails(path) ? -1 : REAL(open)(path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE return open_fails(path) ? -1 : REAL(open64)(path, flags, mode); }
int openat(int folder, const char *path, int flags, ...) { MODE return open_fails(path) ? -1 : REAL(openat)(folder, path, flags, mode); }
int openat64(int folder, const char *path, int flags, ...) { MODE return open_fails(path) ? -1 : REAL(openat64)(folder, path, flags, mode); }
int mkdir(const char *path, mode_t mode) { return open_fails(path) ? -1 : REAL(mkdir)(path, mode); }
int rename(const char *from, const char *to) { return open_fails(to) ? -1 : REAL(rename)(from, to); }
int link(const char *from, const char *to) { return open_fails(to) ? -1 : REAL(link)(from, to); }

/* A network that delivers and takes one byte at a time. */
ssize_t recv(int file, void *data, size_t size, int flags) {
    return REAL(recv)(file, data, control && (control->failing & SLOW) && size ? 1 : size, flags);
}
ssize_t send(int file, const void *data, size_t size, int flags) {
    return REAL(send)(file, data, control && (control->failing & SLOW) && size ? 1 : size, flags);
}

static double shifted(double now) { return now + control->offset + (now - control->since) * (control->rate - 1); }

int clock_gettime(clockid_t which, struct timespec *found) {
    int result = REAL(clock_gettime)(which, found);
    if (!result && control && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) {
        double now = shifted((double)found->tv_sec + 1e-9 * (double)found->tv_nsec);
        found->tv_sec = (time_t)now;
        found->tv_nsec = (long)(1e9 * (now - (double)found->tv_sec));
    }
    return result;
}
time_t time(time_t *found) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (found)
        *found = now.tv_sec;
    return now.tv_sec;
}
int gettimeofday(struct timeval *found, void *zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    found->tv_sec = now.tv_sec;
    found->tv_usec = now.tv_nsec / 1000;
    return 0;
}
