//===- PluginApi.h - What a plug-in for an MPI offers -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The functions of an MPI plug-in. The same source is compiled once for each
// MPI whose headers are installed. A plug-in is not linked to an MPI: its
// symbols come from the MPI library that the runtime has loaded before.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_COMM_MPI_PLUGINAPI_H
#define HEDDLE_RUNTIME_COMM_MPI_PLUGINAPI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum HeddleMpiThreads {
  HeddleMpiThreadsSingle,
  HeddleMpiThreadsSerialized,
  HeddleMpiThreadsMultiple
};

/// Storage for a request of any MPI.
typedef struct HeddleMpiRequest {
  uint64_t storage;
} HeddleMpiRequest;

/// Functions return 0, or an MPI error code that `errorText` explains. `comm`
/// is a number that `splitGroup` returned; 0 is the world.
typedef struct HeddleMpiPlugin {
  /// Initializes MPI; sets `threads` to an HeddleMpiThreads.
  int (*init)(int *rank, int *size, int *threads);
  int (*finish)(void);
  void (*abort)(int status);
  int (*isend)(const void *data, int bytes, int peer, int tag,
               HeddleMpiRequest *request);
  int (*irecv)(void *data, int bytes, int peer, int tag,
               HeddleMpiRequest *request);
  /// Sets `done` if the request is complete, and then frees it. `received` is
  /// the size of the message for a receive.
  int (*test)(HeddleMpiRequest *request, int *done, int *received);
  /// Creates a group of `numRanks` world ranks; all of them call it with the
  /// same arguments.
  int (*splitGroup)(const int *ranks, int numRanks, int tag, int *comm);
  /// Sums floats; `in` may be null to sum in place.
  int (*allReduce)(const void *in, void *out, int count, int comm);
  int (*reduceScatter)(const void *in, void *out, int countPerRank, int comm);
  /// Gathers elements of 2 or 4 bytes.
  int (*allGather)(const void *in, void *out, int countPerRank,
                   int elementBytes, int comm);
  int (*allToAll)(const void *in, void *out, int countPerRank, int elementBytes,
                  int comm);
  void (*errorText)(int error, char *text, int size);
} HeddleMpiPlugin;

/// Name of the plug-in's only symbol.
#define HEDDLE_MPI_PLUGIN_SYMBOL "heddleMpiPlugin"
typedef const HeddleMpiPlugin *(*HeddleMpiPluginEntry)(void);

#ifdef __cplusplus
}
#endif

#endif // HEDDLE_RUNTIME_COMM_MPI_PLUGINAPI_H
