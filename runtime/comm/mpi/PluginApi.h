//===- PluginApi.h - What a plug-in for an MPI offers -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The same source is compiled once for each MPI whose headers are there. A
// plug-in is linked to no MPI: its symbols come from the MPI library that the
// runtime loaded before it.
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

/// Room for the request of any MPI.
typedef struct HeddleMpiRequest {
  uint64_t storage;
} HeddleMpiRequest;

/// A function returns 0, or an MPI error code that `errorText` explains. `comm`
/// is a number that `splitGroup` gave; 0 is the world.
typedef struct HeddleMpiPlugin {
  /// Starts MPI; `threads` becomes an HeddleMpiThreads.
  int (*init)(int *rank, int *size, int *threads);
  int (*finish)(void);
  void (*abort)(int status);
  int (*isend)(const void *data, int bytes, int peer, int tag,
               HeddleMpiRequest *request);
  int (*irecv)(void *data, int bytes, int peer, int tag,
               HeddleMpiRequest *request);
  /// When done is not 0, the request is used up; `received` is then the size
  /// of the message, where the request was one to receive.
  int (*test)(HeddleMpiRequest *request, int *done, int *received);
  /// Collective over `numRanks` world ranks, which all call it alike.
  int (*splitGroup)(const int *ranks, int numRanks, int tag, int *comm);
  /// Sums of floats; `in` may be null: in place.
  int (*allReduce)(const void *in, void *out, int count, int comm);
  int (*reduceScatter)(const void *in, void *out, int countPerRank, int comm);
  /// Elements of 2 or 4 bytes.
  int (*allGather)(const void *in, void *out, int countPerRank,
                   int elementBytes, int comm);
  int (*allToAll)(const void *in, void *out, int countPerRank, int elementBytes,
                  int comm);
  void (*errorText)(int error, char *text, int size);
} HeddleMpiPlugin;

/// The one symbol of a plug-in.
#define HEDDLE_MPI_PLUGIN_SYMBOL "heddleMpiPlugin"
typedef const HeddleMpiPlugin *(*HeddleMpiPluginEntry)(void);

#ifdef __cplusplus
}
#endif

#endif // HEDDLE_RUNTIME_COMM_MPI_PLUGINAPI_H
