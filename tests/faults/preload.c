/* Faults of disk and clock for a program that does not know of them (LD_PRELOAD).
 *
 * FAULTS_CONTROL  a file of one page, mapped: what is to go wrong now, and what has happened
 * FAULTS_UNDER    folder whose files are meant, with a slash at its end; -shm files never are
 * FAULTS_DURABLE  folder of what a loss of power leaves: one file of the same name each, which
 *                 gets what was written when it is synced; <name>.entry once the folder is synced
 *
 * A sync that is made to fail loses what it should have written, as Linux does: the pages count
 * as clean afterwards, and only writing them again makes them durable.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct control {
  volatile int64_t sync_errno, write_errno, read_errno;
  volatile int64_t short_writes; /* 1: half, the caller goes on; 2: half, then no space */
  volatile int64_t sync_delay_us;
  volatile int64_t clock_us; /* added to the wall clock */
  volatile int64_t every;    /* only each so-many-th call fails; 0 and 1: each */
  volatile int64_t calls, failed, syncs;
};

struct range { off_t start, end; };
struct tracked {
  char name[256];
  struct range *dirty;
  size_t count, room;
};

#define MOST_FILES 64
static struct tracked files[MOST_FILES];
static size_t file_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const char *under, *durable;
static struct control *control;

static int (*real_fsync)(int), (*real_fdatasync)(int), (*real_ftruncate)(int, off64_t);
static ssize_t (*real_pwrite)(int, const void *, size_t, off64_t);
static ssize_t (*real_pread)(int, void *, size_t, off64_t);
static ssize_t (*real_write)(int, const void *, size_t);
static int (*real_clock)(clockid_t, struct timespec *);
static int (*real_unlink)(const char *);

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("FAULTS_CONTROL");
  real_fsync = dlsym(RTLD_NEXT, "fsync");
  real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
  real_ftruncate = dlsym(RTLD_NEXT, "ftruncate64");
  real_pwrite = dlsym(RTLD_NEXT, "pwrite64");
  real_pread = dlsym(RTLD_NEXT, "pread64");
  real_write = dlsym(RTLD_NEXT, "write");
  real_clock = dlsym(RTLD_NEXT, "clock_gettime");
  real_unlink = dlsym(RTLD_NEXT, "unlink");
  under = getenv("FAULTS_UNDER");
  durable = getenv("FAULTS_DURABLE");
  if (path) {
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0) {
      void *page = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
      if (page != MAP_FAILED) control = page;
      close(fd);
    }
  }
}

/* The folder itself: its path has no slash at its end. */
static int is_folder(const char *path) {
  size_t length = strlen(under) - 1;
  return strlen(path) == length && strncmp(path, under, length) == 0;
}

/* The file's path if it is meant; its name is what follows the last slash. */
static const char *meant(int fd, char *path, size_t size) {
  char link[48];
  ssize_t length;
  if (!control || !under) return NULL;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  length = readlink(link, path, size - 1);
  if (length <= 0) return NULL;
  path[length] = 0;
  if (strncmp(path, under, strlen(under)) != 0 && !is_folder(path)) return NULL;
  if (length > 4 && strcmp(path + length - 4, "-shm") == 0) return NULL;
  return path;
}

static const char *name_of(const char *path) { return strrchr(path, '/') + 1; }

static int fails(int64_t error) {
  int64_t call;
  if (!error) return 0;
  call = __atomic_add_fetch(&control->calls, 1, __ATOMIC_RELAXED);
  if (control->every > 1 && call % control->every) return 0;
  __atomic_add_fetch(&control->failed, 1, __ATOMIC_RELAXED);
  errno = (int)error;
  return 1;
}

/* ------------------------------------------------------------------ what survives */

static struct tracked *tracked_file(const char *name) {
  size_t at;
  for (at = 0; at < file_count; at++)
    if (strcmp(files[at].name, name) == 0) return &files[at];
  if (file_count == MOST_FILES) return NULL;
  snprintf(files[file_count].name, sizeof files[0].name, "%s", name);
  return &files[file_count++];
}

static void dirtied(const char *path, off_t start, size_t size) {
  struct tracked *file;
  struct range *last;
  if (!durable) return;
  pthread_mutex_lock(&lock);
  file = tracked_file(name_of(path));
  if (file) {
    last = file->count ? &file->dirty[file->count - 1] : NULL;
    if (last && last->end == start) {
      last->end = start + (off_t)size;
    } else {
      if (file->count == file->room) {
        file->room = file->room ? 2 * file->room : 64;
        file->dirty = realloc(file->dirty, file->room * sizeof *file->dirty);
      }
      file->dirty[file->count++] = (struct range){start, start + (off_t)size};
    }
  }
  pthread_mutex_unlock(&lock);
}

static struct tracked taken(const char *path) {
  struct tracked *file, copy = {{0}, NULL, 0, 0};
  pthread_mutex_lock(&lock);
  file = tracked_file(name_of(path));
  if (file) {
    copy = *file;
    file->dirty = NULL;
    file->count = file->room = 0;
  }
  pthread_mutex_unlock(&lock);
  return copy;
}

static void persist(int fd, const char *path, struct tracked *file) {
  static char buffer[1 << 16];
  static pthread_mutex_t copying = PTHREAD_MUTEX_INITIALIZER;
  char target[640];
  struct stat facts;
  size_t at;
  int out;
  snprintf(target, sizeof target, "%s/%s", durable, name_of(path));
  pthread_mutex_lock(&copying);
  out = open(target, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (out >= 0) {
    for (at = 0; at < file->count; at++) {
      off_t place = file->dirty[at].start;
      while (place < file->dirty[at].end) {
        size_t part = sizeof buffer;
        ssize_t size;
        if ((off_t)part > file->dirty[at].end - place) part = (size_t)(file->dirty[at].end - place);
        size = real_pread(fd, buffer, part, place);
        if (size <= 0) break;
        real_pwrite(out, buffer, (size_t)size, place);
        place += size;
      }
    }
    if (fstat(fd, &facts) == 0) real_ftruncate(out, facts.st_size);
    close(out);
  }
  pthread_mutex_unlock(&copying);
}

static void persist_entries(const char *path) {
  char entry[900];
  struct dirent *each;
  DIR *folder = opendir(path);
  if (!folder) return;
  while ((each = readdir(folder))) {
    int fd;
    if (each->d_name[0] == '.') continue;
    snprintf(entry, sizeof entry, "%s/%s.entry", durable, each->d_name);
    fd = open(entry, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0) close(fd);
  }
  closedir(folder);
}

/* ------------------------------------------------------------------ calls */

static int synced(int fd, int (*real)(int)) {
  char path[512];
  struct stat facts;
  struct tracked file;
  int done;
  if (!meant(fd, path, sizeof path)) return real(fd);
  __atomic_add_fetch(&control->syncs, 1, __ATOMIC_RELAXED);
  if (control->sync_delay_us) usleep((useconds_t)control->sync_delay_us);
  if (fstat(fd, &facts) == 0 && S_ISDIR(facts.st_mode)) {
    if (fails(control->sync_errno)) return -1;
    done = real(fd);
    if (done == 0 && durable) persist_entries(path);
    return done;
  }
  file = durable ? taken(path) : (struct tracked){{0}, NULL, 0, 0};
  if (fails(control->sync_errno)) {
    int error = errno;
    free(file.dirty);
    errno = error;
    return -1;
  }
  done = real(fd);
  if (done == 0 && durable) persist(fd, path, &file);
  free(file.dirty);
  return done;
}

int fsync(int fd) { return synced(fd, real_fsync); }
int fdatasync(int fd) { return synced(fd, real_fdatasync); }

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
  char path[512];
  ssize_t written;
  if (!meant(fd, path, sizeof path)) return real_pwrite(fd, data, size, at);
  if (fails(control->write_errno)) return -1;
  if (control->short_writes && size > 512 && fails(ENOSPC)) {
    written = real_pwrite(fd, data, size / 2, at);
    if (written > 0) dirtied(path, at, (size_t)written);
    errno = ENOSPC;
    return control->short_writes == 2 ? -1 : written;
  }
  written = real_pwrite(fd, data, size, at);
  if (written > 0) dirtied(path, at, (size_t)written);
  return written;
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { return pwrite64(fd, data, size, at); }

ssize_t write(int fd, const void *data, size_t size) {
  char path[512];
  ssize_t written;
  off_t at;
  if (!real_write) real_write = dlsym(RTLD_NEXT, "write");
  if (!meant(fd, path, sizeof path)) return real_write(fd, data, size);
  if (fails(control->write_errno)) return -1;
  at = lseek(fd, 0, SEEK_CUR);
  written = real_write(fd, data, size);
  if (written > 0 && at >= 0) dirtied(path, at, (size_t)written);
  return written;
}

ssize_t pread64(int fd, void *data, size_t size, off64_t at) {
  char path[512];
  if (control && control->read_errno && meant(fd, path, sizeof path) && fails(control->read_errno)) return -1;
  return real_pread(fd, data, size, at);
}

ssize_t pread(int fd, void *data, size_t size, off_t at) { return pread64(fd, data, size, at); }

int ftruncate64(int fd, off64_t size) {
  char path[512];
  if (meant(fd, path, sizeof path) && fails(control->write_errno)) return -1;
  return real_ftruncate(fd, size);
}

int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

int unlink(const char *path) {
  int done = real_unlink(path);
  if (done == 0 && durable && under && strncmp(path, under, strlen(under)) == 0) {
    char target[640];
    snprintf(target, sizeof target, "%s/%s", durable, name_of(path));
    real_unlink(target);
    snprintf(target, sizeof target, "%s/%s.entry", durable, name_of(path));
    real_unlink(target);
  }
  return done;
}

static void moved(struct timespec *time) {
  int64_t nanoseconds = time->tv_nsec + (control->clock_us % 1000000) * 1000;
  time->tv_sec += control->clock_us / 1000000;
  if (nanoseconds < 0) { nanoseconds += 1000000000; time->tv_sec--; }
  if (nanoseconds >= 1000000000) { nanoseconds -= 1000000000; time->tv_sec++; }
  time->tv_nsec = nanoseconds;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  int done;
  if (!real_clock) real_clock = dlsym(RTLD_NEXT, "clock_gettime");
  done = real_clock(clock, time);
  if (done == 0 && control && control->clock_us && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
    moved(time);
  return done;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
  struct timespec now;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *out) {
  struct timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}
