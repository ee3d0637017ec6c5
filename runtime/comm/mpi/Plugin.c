//===- Plugin.c - The runtime's calls, made of MPI's ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Written in C, so that the shared object needs no C++ library.
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/mpi/PluginApi.h"

#include <mpi.h>
#include <string.h>

enum { maxComms = 64 };
static MPI_Comm comms[maxComms];
static int numComms;

static int init(int *rank, int *size, int *threads) {
  int provided = MPI_THREAD_SINGLE;
  int error = MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided);
  if (error)
    return error;
  comms[0] = MPI_COMM_WORLD;
  numComms = 1;
  *threads = provided >= MPI_THREAD_MULTIPLE     ? HeddleMpiThreadsMultiple
             : provided >= MPI_THREAD_SERIALIZED ? HeddleMpiThreadsSerialized
                                                 : HeddleMpiThreadsSingle;
  // The runtime prints its own message instead of MPI's.
  error = MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (!error)
    error = MPI_Comm_rank(MPI_COMM_WORLD, rank);
  return error ? error : MPI_Comm_size(MPI_COMM_WORLD, size);
}

static int finish(void) {
  while (numComms > 1)
    MPI_Comm_free(&comms[--numComms]);
  return MPI_Finalize();
}

static void abortAll(int status) { MPI_Abort(MPI_COMM_WORLD, status); }

/// MPI_Request is a pointer in one MPI and an int in another.
static void pack(MPI_Request from, HeddleMpiRequest *to) {
  to->storage = 0;
  memcpy(&to->storage, &from, sizeof from);
}

static int isend(const void *data, int bytes, int peer, int tag,
                 HeddleMpiRequest *request) {
  MPI_Request made = MPI_REQUEST_NULL;
  int error =
      MPI_Isend(data, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &made);
  pack(made, request);
  return error;
}

static int irecv(void *data, int bytes, int peer, int tag,
                 HeddleMpiRequest *request) {
  MPI_Request made = MPI_REQUEST_NULL;
  int error =
      MPI_Irecv(data, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &made);
  pack(made, request);
  return error;
}

static int test(HeddleMpiRequest *request, int *done, int *received) {
  MPI_Request mine;
  MPI_Status status;
  memcpy(&mine, &request->storage, sizeof mine);
  int error = MPI_Test(&mine, done, &status);
  pack(mine, request);
  *received = 0;
  if (!error && *done)
    error = MPI_Get_count(&status, MPI_BYTE, received);
  return error;
}

static int splitGroup(const int *ranks, int numRanks, int tag, int *comm) {
  MPI_Group world, group;
  if (numComms == maxComms)
    return MPI_ERR_COMM;
  int error = MPI_Comm_group(MPI_COMM_WORLD, &world);
  if (!error)
    error = MPI_Group_incl(world, numRanks, ranks, &group);
  if (!error)
    error = MPI_Comm_create_group(MPI_COMM_WORLD, group, tag, &comms[numComms]);
  if (error)
    return error;
  MPI_Group_free(&group);
  MPI_Group_free(&world);
  *comm = numComms++;
  return MPI_Comm_set_errhandler(comms[*comm], MPI_ERRORS_RETURN);
}

static MPI_Datatype typeOf(int elementBytes) {
  return elementBytes == 4 ? MPI_INT32_T : MPI_INT16_T;
}

static int allReduce(const void *in, void *out, int count, int comm) {
  return MPI_Allreduce(in ? in : MPI_IN_PLACE, out, count, MPI_FLOAT, MPI_SUM,
                       comms[comm]);
}

static int reduceScatter(const void *in, void *out, int countPerRank,
                         int comm) {
  return MPI_Reduce_scatter_block(in, out, countPerRank, MPI_FLOAT, MPI_SUM,
                                  comms[comm]);
}

static int allGather(const void *in, void *out, int countPerRank,
                     int elementBytes, int comm) {
  return MPI_Allgather(in ? in : MPI_IN_PLACE, countPerRank,
                       typeOf(elementBytes), out, countPerRank,
                       typeOf(elementBytes), comms[comm]);
}

static int allToAll(const void *in, void *out, int countPerRank,
                    int elementBytes, int comm) {
  return MPI_Alltoall(in, countPerRank, typeOf(elementBytes), out, countPerRank,
                      typeOf(elementBytes), comms[comm]);
}

static void errorText(int error, char *text, int size) {
  char full[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(error, full, &length);
  strncpy(text, full, size - 1);
  text[size - 1] = 0;
}

static const HeddleMpiPlugin plugin = {
    init,       finish,    abortAll,      isend,     irecv,    test,
    splitGroup, allReduce, reduceScatter, allGather, allToAll, errorText,
};

__attribute__((visibility("default"))) const HeddleMpiPlugin *
heddleMpiPlugin(void) {
  return &plugin;
}
