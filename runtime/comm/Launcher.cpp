//===- Launcher.cpp - Detect the launcher of a job ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads the environment variables of the supported launchers.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/comm/Launcher.h"

#include "heddle/runtime/io/Diagnostic.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>

using namespace heddle;
using namespace heddle::rt;

namespace {
/// Environment variables; numbers are checked.
class Environment {
public:
  explicit Environment(
      const std::function<const char *(const char *)> &variable)
      : variable(variable) {}

  bool has(const char *name) const { return variable(name) != nullptr; }
  std::string text(const char *name, const std::string &otherwise = "") const {
    const char *value = variable(name);
    return value ? value : otherwise;
  }
  int number(const char *name, int low, int high) const {
    std::string value = text(name);
    char *end = nullptr;
    errno = 0;
    long result = std::strtol(value.c_str(), &end, 10);
    if (value.empty() || *end || errno || result < low || result > high)
      fail(
          "H0224",
          std::string("the environment variable ") + name + " is \"" + value +
              "\", not a number from " + std::to_string(low) + " to " +
              std::to_string(high),
          "start the job with mpirun, srun, torchrun or heddle run, or unset " +
              std::string(name));
    return static_cast<int>(result);
  }
  int number(const char *name, int low, int high, int otherwise) const {
    return has(name) ? number(name, low, high) : otherwise;
  }

private:
  const std::function<const char *(const char *)> &variable;
};
} // namespace

static constexpr int mostRanks = 1 << 20;

/// Reads rank and size, and local rank and size if they are set.
static void readRank(const Environment &environment, Launch &launch,
                     const char *rank, const char *size, const char *localRank,
                     const char *localSize) {
  launch.size = environment.number(size, 1, mostRanks);
  launch.rank = environment.number(rank, 0, launch.size - 1);
  launch.localRank = environment.number(localRank, 0, launch.size - 1, 0);
  // Limit `localSize` to the number of ranks: under Slurm it is a setting of
  // the whole job, but a step of srun may run fewer tasks.
  launch.localSize =
      std::min(environment.number(localSize, 1, mostRanks, 1), launch.size);
}

static void readMaster(const Environment &environment, Launch &launch) {
  launch.kind = Launch::Kind::Tcp;
  readRank(environment, launch, "RANK", "WORLD_SIZE", "LOCAL_RANK",
           "LOCAL_WORLD_SIZE");
  launch.address = environment.text("MASTER_ADDR");
  launch.port = environment.number("MASTER_PORT", 1, 65535, 29500);
  launch.job = environment.text("TORCHELASTIC_RUN_ID");
  // torchrun itself listens on MASTER_PORT, so use another port.
  if (environment.has("TORCHELASTIC_RUN_ID"))
    launch.port += launch.port < 65000 ? 1 : -1000;
}

/// Returns the first host of a Slurm list such as "n[10,20-22],m3".
static std::string firstHost(const std::string &list) {
  size_t bracket = list.find('['), comma = list.find(',');
  if (bracket == std::string::npos || comma < bracket)
    return list.substr(0, comma);
  size_t end = list.find_first_of(",-]", bracket);
  return list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1);
}

static void readSlurm(const Environment &environment, Launch &launch) {
  launch.launcher = "srun";
  const char *size = environment.has("SLURM_STEP_NUM_TASKS")
                         ? "SLURM_STEP_NUM_TASKS"
                         : "SLURM_NTASKS";
  readRank(environment, launch, "SLURM_PROCID", size, "SLURM_LOCALID",
           "SLURM_NTASKS_PER_NODE");
  launch.kind = environment.has("PMIX_RANK")  ? Launch::Kind::OpenMpi
                : environment.has("PMI_RANK") ? Launch::Kind::Mpich
                                              : Launch::Kind::Tcp;
  launch.address = firstHost(environment.text(
      "SLURM_STEP_NODELIST", environment.text("SLURM_JOB_NODELIST")));
  if (launch.address.empty())
    launch.address = "localhost";
  launch.job = environment.text("SLURM_JOB_ID") + "." +
               environment.text("SLURM_STEP_ID");
  launch.port =
      20000 + environment.number("SLURM_JOB_ID", 0, INT32_MAX, 0) % 10000;
}

Launch
rt::detectLaunch(const std::function<const char *(const char *)> &variable) {
  Environment environment(variable);
  Launch launch;
  bool hasMaster = environment.has("RANK") && environment.has("WORLD_SIZE") &&
                   environment.has("MASTER_ADDR");
  if (hasMaster && environment.has("TORCHELASTIC_RUN_ID")) {
    launch.launcher = "torchrun";
    readMaster(environment, launch);
  } else if (environment.has("OMPI_COMM_WORLD_RANK")) {
    launch.kind = Launch::Kind::OpenMpi;
    launch.launcher = "mpirun of Open MPI";
    readRank(environment, launch, "OMPI_COMM_WORLD_RANK",
             "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
             "OMPI_COMM_WORLD_LOCAL_SIZE");
  } else if (environment.has("PMI_RANK") && environment.has("PMI_SIZE") &&
             !environment.has("SLURM_STEP_ID")) {
    launch.kind = Launch::Kind::Mpich;
    launch.launcher = "mpirun of MPICH";
    readRank(environment, launch, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID",
             "MPI_LOCALNRANKS");
  } else if (hasMaster) {
    launch.launcher = "RANK and WORLD_SIZE";
    readMaster(environment, launch);
  } else if (environment.has("SLURM_STEP_ID") &&
             environment.has("SLURM_PROCID")) {
    // Require SLURM_STEP_ID: the shell of an sbatch script also has a
    // SLURM_PROCID, but is not started by srun and so is no rank of a job.
    readSlurm(environment, launch);
  }
  if (launch.size == 1 && launch.kind == Launch::Kind::Tcp)
    launch.kind = Launch::Kind::Alone;
  return launch;
}

Launch rt::detectLaunch() {
  return detectLaunch([](const char *name) { return std::getenv(name); });
}

std::unique_ptr<Transport> rt::openTransport(const Launch &launch) {
  switch (launch.kind) {
  case Launch::Kind::Alone:
    return makeLoopback();
  case Launch::Kind::Tcp:
    return openTcp(launch);
  case Launch::Kind::OpenMpi:
  case Launch::Kind::Mpich:
    break;
  }
  bool canUseSockets = launch.launcher == "srun";
  try {
    return openMpi(launch);
  } catch (const UserError &error) {
    bool isMissing =
        error.diagnostic.code == "H0221" || error.diagnostic.code == "H0223";
    if (!canUseSockets || !isMissing)
      throw;
  }
  return openTcp(launch);
}
