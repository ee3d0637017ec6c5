//===- Mpi.cpp - Messages through an MPI library --------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The transport over an MPI library. The library and the matching plug-in are
// loaded only when a launcher of that MPI has started the process. The plug-ins
// are inside this binary, see Plugins.cpp.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/comm/Launcher.h"
#include "heddle/runtime/comm/Plugins.h"
#include "heddle/runtime/io/Diagnostic.h"
#include "runtime/comm/Mailbox.h"
#include "runtime/comm/mpi/PluginApi.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <dlfcn.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

using namespace heddle;
using namespace heddle::rt;

namespace {
/// What is known about an MPI implementation before it is loaded.
struct Library {
  const char *name;
  EmbeddedPlugin plugin;
  std::vector<const char *> sonames;
  const char *help;
};

class MpiTransport : public Transport, private LibraryCollectives {
public:
  MpiTransport(const HeddleMpiPlugin &mpi, const char *name)
      : mpi(mpi), libraryName(name) {
    int error = mpi.init(&self, &ranks, &threads);
    if (error)
      failWith("MPI_Init", error);
  }

  int rank() const override { return self; }
  int size() const override { return ranks; }
  const char *name() const override { return libraryName; }
  bool isConcurrent() const override {
    return threads == HeddleMpiThreadsMultiple;
  }

  Request isend(int peer, int tag, const void *data, int64_t bytes) override;
  Request irecv(int peer, int tag, void *data, int64_t bytes) override;
  bool test(Request &request) override;
  void wait(Request &request) override;
  void finish() override { check("MPI_Finalize", mpi.finish()); }
  void abort(int status) override {
    mpi.abort(status);
    _exit(status);
  }
  LibraryCollectives *library() override { return this; }

  int addGroup(const std::vector<int> &worldRanks) override;
  void allReduce(const float *in, float *out, int64_t count,
                 int group) override {
    check("MPI_Allreduce",
          mpi.allReduce(in == out ? nullptr : in, out, count, group));
  }
  void reduceScatter(const float *in, float *out, int64_t countPerRank,
                     int group) override {
    check("MPI_Reduce_scatter_block",
          mpi.reduceScatter(in, out, countPerRank, group));
  }
  void allGather(const void *in, void *out, int64_t countPerRank,
                 int64_t elementBytes, int group) override {
    check("MPI_Allgather",
          mpi.allGather(in, out, countPerRank, elementBytes, group));
  }
  void allToAll(const void *in, void *out, int64_t countPerRank,
                int64_t elementBytes, int group) override {
    check("MPI_Alltoall",
          mpi.allToAll(in, out, countPerRank, elementBytes, group));
  }

private:
  void check(const char *call, int error) {
    if (error)
      failWith(call, error);
  }
  [[noreturn]] void failWith(const char *call, int error) {
    char text[512] = "";
    mpi.errorText(error, text, sizeof text);
    fail("H0424", "rank " + std::to_string(self) + ": " + call + " of " +
                      libraryName + " failed: " + text);
  }

  const HeddleMpiPlugin &mpi;
  const char *libraryName;
  int self = 0, ranks = 1, threads = HeddleMpiThreadsSingle;
};
} // namespace

static HeddleMpiRequest packed(const Request &request) {
  return {request.storage};
}

Request MpiTransport::isend(int peer, int tag, const void *data,
                            int64_t bytes) {
  HeddleMpiRequest request;
  check("MPI_Isend", mpi.isend(data, bytes, peer, tag, &request));
  return {request.storage, bytes, peer, false};
}

Request MpiTransport::irecv(int peer, int tag, void *data, int64_t bytes) {
  HeddleMpiRequest request;
  check("MPI_Irecv", mpi.irecv(data, bytes, peer, tag, &request));
  return {request.storage, bytes, peer, true};
}

bool MpiTransport::test(Request &request) {
  HeddleMpiRequest mine = packed(request);
  int done = 0, received = 0;
  int error = mpi.test(&mine, &done, &received);
  request.storage = mine.storage;
  check("MPI_Test", error);
  if (done && request.receives && received != request.bytes)
    failMessageSize(request.peer, received, request.bytes);
  return done;
}

/// Polls with MPI_Test. Between two polls it yields the core, since ranks may
/// share cores. After a long wait, for example in an idle server, it also
/// sleeps. A sleep lasts a small fraction of the time waited so far, so that it
/// delays a message only a little. MPI moves large messages only during calls
/// of MPI_Test. Therefore the function polls many times between two sleeps.
void MpiTransport::wait(Request &request) {
  using namespace std::chrono;
  constexpr int politeTests = 100, testsBetweenSleeps = 100;
  constexpr nanoseconds patience = milliseconds(10), longest = milliseconds(5);
  constexpr int share = 200;
  steady_clock::time_point begin;
  for (int tests = 0; !test(request); ++tests) {
    if (tests < politeTests)
      continue;
    if (tests == politeTests)
      begin = steady_clock::now();
    nanoseconds waited{};
    if (tests % testsBetweenSleeps == 0)
      waited = steady_clock::now() - begin;
    if (waited > patience)
      std::this_thread::sleep_for(std::min(waited / share, longest));
    else
      sched_yield();
  }
}

int MpiTransport::addGroup(const std::vector<int> &worldRanks) {
  int group = 0;
  check("MPI_Comm_create_group",
        mpi.splitGroup(worldRanks.data(), static_cast<int>(worldRanks.size()),
                       /*tag=*/0, &group));
  return group;
}

static Library describe(Launch::Kind kind) {
  if (kind == Launch::Kind::OpenMpi)
    return {"Open MPI",
            openMpiPlugin(),
            {"libmpi.so.40"},
            "install Open MPI (package libopenmpi3, or openmpi-bin) on every "
            "host, or set LD_LIBRARY_PATH to where libmpi.so.40 is"};
  return {"MPICH",
          mpichPlugin(),
          {"libmpich.so.12", "libmpi.so.12"},
          "install MPICH (package libmpich12, or mpich) on every host, or set "
          "LD_LIBRARY_PATH to where libmpich.so.12 is"};
}

/// Loads the MPI library, which is the first one of `library.sonames` that
/// exists. Makes its symbols global, because the plug-in uses them.
static void loadLibrary(const Library &library) {
  std::string reasons;
  for (const char *soname : library.sonames) {
    if (dlopen(soname, RTLD_NOW | RTLD_GLOBAL))
      return;
    const char *reason = dlerror();
    reasons += (reasons.empty() ? "" : "; ") + std::string(reason);
  }
  fail("H0221",
       std::string("the job was started by ") + library.name +
           ", whose library is not on this machine: " + reasons,
       library.help);
}

/// Loads the plug-in from a file in memory.
static const HeddleMpiPlugin &loadPlugin(const EmbeddedPlugin &plugin) {
  int file = memfd_create("heddle_mpi", MFD_CLOEXEC);
  size_t written = 0;
  while (file >= 0 && written < plugin.size) {
    ssize_t result = write(file, plugin.begin + written, plugin.size - written);
    if (result < 0 && errno != EINTR)
      break;
    written += result > 0 ? result : 0;
  }
  void *handle = nullptr;
  if (written == plugin.size)
    handle = dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(),
                    RTLD_NOW | RTLD_LOCAL);
  std::string reason = handle ? "" : dlerror() ?: std::strerror(errno);
  if (file >= 0)
    close(file);
  void *entry = handle ? dlsym(handle, HEDDLE_MPI_PLUGIN_SYMBOL) : nullptr;
  if (!entry)
    fail("H0221", "the MPI plug-in does not fit the MPI library: " + reason,
         "install the MPI of the mpirun that started the job");
  return *reinterpret_cast<HeddleMpiPluginEntry>(entry)();
}

std::unique_ptr<Transport> rt::openMpi(const Launch &launch) {
  Library library = describe(launch.kind);
  if (library.plugin.size == 0)
    fail(
        "H0223",
        "the job was started by " + launch.launcher +
            ", and this binary carries these MPI plug-ins: " + carriedPlugins(),
        std::string("build Heddle where the headers of ") + library.name +
            " are installed, or start the job with heddle run or torchrun");
  loadLibrary(library);
  return std::make_unique<MpiTransport>(loadPlugin(library.plugin),
                                        library.name);
}

std::string rt::carriedPlugins() {
  std::string names;
  for (Launch::Kind kind : {Launch::Kind::OpenMpi, Launch::Kind::Mpich}) {
    Library library = describe(kind);
    if (library.plugin.size > 0)
      names += (names.empty() ? "" : ", ") + std::string(library.name);
  }
  return names.empty() ? "none" : names;
}
