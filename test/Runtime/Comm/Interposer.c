//===- Interposer.c - Counts what MPI is asked to send --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Preloaded into the ranks of a job, it counts the bytes of MPI_Send and
// MPI_Isend. At exit each rank writes the file RANK in the directory
// $HEDDLE_TRAFFIC, with a line "PEER TAG MESSAGES BYTES" for each peer and tag;
// include/heddle/runtime/comm/Tags.h says what a tag means. It fits every MPI:
// handles, pointers in one and ints in another, are passed on as they are.
//
//===----------------------------------------------------------------------===//

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef uintptr_t Handle;

struct Entry {
  int peer, tag;
  long messages, bytes;
};

enum { maxEntries = 1 << 16 };
static struct Entry entries[maxEntries];
static int numEntries;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *find(const char *name) {
  void *function = dlsym(RTLD_DEFAULT, name);
  if (!function) {
    fprintf(stderr, "interposer: no %s\n", name);
    abort();
  }
  return function;
}

static void count(int elements, Handle type, int peer, int tag) {
  int size = 0;
  ((int (*)(Handle, int *))find("PMPI_Type_size"))(type, &size);
  pthread_mutex_lock(&mutex);
  int i = 0;
  while (i < numEntries && (entries[i].peer != peer || entries[i].tag != tag))
    ++i;
  if (i == maxEntries)
    abort();
  if (i == numEntries)
    entries[numEntries++] = (struct Entry){peer, tag, 0, 0};
  entries[i].messages += 1;
  entries[i].bytes += (long)elements * size;
  pthread_mutex_unlock(&mutex);
}

int MPI_Isend(const void *data, int elements, Handle type, int peer, int tag,
              Handle comm, void *request) {
  typedef int Function(const void *, int, Handle, int, int, Handle, void *);
  count(elements, type, peer, tag);
  return ((Function *)find("PMPI_Isend"))(data, elements, type, peer, tag, comm,
                                          request);
}

int MPI_Send(const void *data, int elements, Handle type, int peer, int tag,
             Handle comm) {
  typedef int Function(const void *, int, Handle, int, int, Handle);
  count(elements, type, peer, tag);
  return ((Function *)find("PMPI_Send"))(data, elements, type, peer, tag, comm);
}

__attribute__((destructor)) static void writeFile(void) {
  const char *directory = getenv("HEDDLE_TRAFFIC");
  const char *rank = getenv("OMPI_COMM_WORLD_RANK");
  if (!rank)
    rank = getenv("PMI_RANK");
  if (!directory || !rank || numEntries == 0)
    return;
  char name[4096];
  snprintf(name, sizeof name, "%s/%s", directory, rank);
  FILE *file = fopen(name, "w");
  for (int i = 0; file && i < numEntries; ++i)
    fprintf(file, "%d %d %ld %ld\n", entries[i].peer, entries[i].tag,
            entries[i].messages, entries[i].bytes);
  if (file)
    fclose(file);
}
