//===- SwapFaults.c - A disk that fails -----------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Preloaded into a binary that swaps. With HEDDLE_SWAP_IO=threads, of files that
// have lost their names, which swap files are, HEDDLE_TEST_FAULT says what
// becomes of reads and writes:
//   read EIO 7      the seventh reading fails, and all that follow
//   write ENOSPC 7  the same of writing, with another error
//   short 0         each moves half of what it could
//   slow 0          each takes 5 ms more
//   full 2          the second file cannot be allocated, and none that follows
//   count 0         how many there were of both goes to HEDDLE_TEST_COUNT
// The kernel itself fails the requests of io_uring, which call no function:
//   replace EIO 0   a signal SIGUSR1 puts a file that gives EIO in the place of
//                   the swap file; of ENOSPC, /dev/full
//
//===----------------------------------------------------------------------===//

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static char kind[16], error[16];
static long number;
static atomic_long reads, writes, files;

__attribute__((constructor)) static void readFault(void) {
  const char *fault = getenv("HEDDLE_TEST_FAULT");
  if (!fault || sscanf(fault, "%15s %ld", kind, &number) == 2)
    return;
  sscanf(fault, "%15s %15s %ld", kind, error, &number);
}

static int swapFile = -1, failingFile = -1;

static void replaceFile(int signal) {
  (void)signal;
  dup2(failingFile, swapFile);
}

// No address as low as an offset of a swap file is mapped.
static void prepareToReplace(int descriptor) {
  int fills = strcmp(error, "ENOSPC") == 0;
  failingFile = open(fills ? "/dev/full" : "/proc/self/mem", O_RDWR);
  swapFile = descriptor;
  signal(SIGUSR1, replaceFile);
}

__attribute__((destructor)) static void writeCount(void) {
  const char *path = getenv("HEDDLE_TEST_COUNT");
  FILE *file = path ? fopen(path, "w") : NULL;
  if (!file)
    return;
  fprintf(file, "%ld %ld\n", (long)reads, (long)writes);
  fclose(file);
}

static int isSwapFile(int descriptor) {
  struct stat status;
  return fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) &&
         status.st_nlink == 0;
}

// How many bytes to move; -1 with errno: none.
static ssize_t chooseBytes(int isWrite, int descriptor, size_t bytes) {
  if (!isSwapFile(descriptor))
    return bytes;
  long now = 1 + atomic_fetch_add(isWrite ? &writes : &reads, 1);
  if (strcmp(kind, isWrite ? "write" : "read") == 0 && now >= number) {
    errno = strcmp(error, "ENOSPC") == 0 ? ENOSPC : EIO;
    return -1;
  }
  if (strcmp(kind, "slow") == 0)
    usleep(5000);
  if (strcmp(kind, "short") == 0 && bytes > 4096)
    return bytes / 8192 * 4096;
  return bytes;
}

ssize_t pread64(int descriptor, void *memory, size_t bytes, off64_t offset) {
  static ssize_t (*real)(int, void *, size_t, off64_t);
  if (!real)
    real = dlsym(RTLD_NEXT, "pread64");
  ssize_t most = chooseBytes(0, descriptor, bytes);
  return most < 0 ? -1 : real(descriptor, memory, most, offset);
}

ssize_t pread(int descriptor, void *memory, size_t bytes, off_t offset) {
  return pread64(descriptor, memory, bytes, offset);
}

ssize_t pwrite64(int descriptor, const void *memory, size_t bytes,
                 off64_t offset) {
  static ssize_t (*real)(int, const void *, size_t, off64_t);
  if (!real)
    real = dlsym(RTLD_NEXT, "pwrite64");
  ssize_t most = chooseBytes(1, descriptor, bytes);
  return most < 0 ? -1 : real(descriptor, memory, most, offset);
}

ssize_t pwrite(int descriptor, const void *memory, size_t bytes, off_t offset) {
  return pwrite64(descriptor, memory, bytes, offset);
}

int fallocate64(int descriptor, int mode, off64_t offset, off64_t bytes) {
  static int (*real)(int, int, off64_t, off64_t);
  if (!real)
    real = dlsym(RTLD_NEXT, "fallocate64");
  if (strcmp(kind, "full") == 0 && 1 + atomic_fetch_add(&files, 1) >= number) {
    errno = ENOSPC;
    return -1;
  }
  if (strcmp(kind, "replace") == 0)
    prepareToReplace(descriptor);
  return real(descriptor, mode, offset, bytes);
}

int fallocate(int descriptor, int mode, off_t offset, off_t bytes) {
  return fallocate64(descriptor, mode, offset, bytes);
}
