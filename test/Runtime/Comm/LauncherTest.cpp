//===- LauncherTest.cpp - Whom a process finds itself started by ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/comm/Launcher.h"
#include "heddle/runtime/comm/Rendezvous.h"
#include "heddle/runtime/io/Diagnostic.h"
#include "test/Runtime/Comm/JobRun.h"

#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::test;

static Launch detectIn(const Variables &variables) {
  return detectLaunch([&](const char *name) -> const char * {
    auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  });
}

static std::string codeIn(const Variables &variables) {
  try {
    detectIn(variables);
  } catch (const UserError &error) {
    return error.diagnostic.code;
  }
  return "none";
}

TEST(Launcher, NoneIsAWorldOfOne) {
  Launch launch = detectIn({{"RANK", "3"}, {"SLURM_PROCID", "0"}});
  EXPECT_EQ(launch.kind, Launch::Kind::Alone);
  EXPECT_EQ(launch.size, 1);
}

TEST(Launcher, Mpirun) {
  Launch open =
      detectIn({{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}});
  EXPECT_EQ(open.kind, Launch::Kind::OpenMpi);
  EXPECT_EQ(open.rank, 2);
  EXPECT_EQ(open.size, 4);
  Launch mpich = detectIn({{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}});
  EXPECT_EQ(mpich.kind, Launch::Kind::Mpich);
  EXPECT_EQ(mpich.rank, 1);
  EXPECT_EQ(mpich.size, 3);
}

TEST(Launcher, SaysHowManyRanksAreOnThisMachine) {
  EXPECT_EQ(detectIn({{"OMPI_COMM_WORLD_RANK", "5"},
                      {"OMPI_COMM_WORLD_SIZE", "8"},
                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}})
                .localSize,
            2);
  EXPECT_EQ(
      detectIn({{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}, {"MPI_LOCALNRANKS", "4"}})
          .localSize,
      4);
  EXPECT_EQ(detectIn({{"RANK", "5"},
                      {"WORLD_SIZE", "8"},
                      {"MASTER_ADDR", "h"},
                      {"LOCAL_WORLD_SIZE", "8"}})
                .localSize,
            8);
  Variables slurm = {{"SLURM_STEP_ID", "0"},
                     {"SLURM_PROCID", "1"},
                     {"SLURM_NTASKS", "2"},
                     {"SLURM_NTASKS_PER_NODE", "4"}};
  EXPECT_EQ(detectIn(slurm).localSize, 2);
  EXPECT_EQ(detectIn({{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}}).localSize, 1);
}

TEST(Launcher, SaysTheRankOnThisMachine) {
  EXPECT_EQ(detectIn({{"OMPI_COMM_WORLD_RANK", "5"},
                      {"OMPI_COMM_WORLD_SIZE", "8"},
                      {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}})
                .localRank,
            1);
  EXPECT_EQ(
      detectIn({{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}, {"MPI_LOCALRANKID", "2"}})
          .localRank,
      2);
  EXPECT_EQ(detectIn({{"RANK", "5"},
                      {"WORLD_SIZE", "8"},
                      {"MASTER_ADDR", "h"},
                      {"LOCAL_RANK", "3"}})
                .localRank,
            3);
  EXPECT_EQ(detectIn({{"SLURM_STEP_ID", "0"},
                      {"SLURM_PROCID", "5"},
                      {"SLURM_NTASKS", "8"},
                      {"SLURM_LOCALID", "4"}})
                .localRank,
            4);
  EXPECT_EQ(detectIn({{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}}).localRank, 0);
  EXPECT_EQ(
      codeIn({{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}, {"MPI_LOCALRANKID", "x"}}),
      "H0224");
}

TEST(Launcher, Torchrun) {
  Variables variables = {{"RANK", "1"},
                         {"WORLD_SIZE", "2"},
                         {"LOCAL_WORLD_SIZE", "2"},
                         {"MASTER_ADDR", "10.0.0.1"},
                         {"MASTER_PORT", "29400"}};
  Launch plain = detectIn(variables);
  EXPECT_EQ(plain.kind, Launch::Kind::Tcp);
  EXPECT_EQ(plain.port, 29400);
  EXPECT_EQ(plain.address, "10.0.0.1");
  // One torchrun per node, started by mpirun: the rank is torchrun's.
  variables["TORCHELASTIC_RUN_ID"] = "a";
  variables["OMPI_COMM_WORLD_RANK"] = "0";
  variables["OMPI_COMM_WORLD_SIZE"] = "1";
  Launch torchrun = detectIn(variables);
  EXPECT_EQ(torchrun.kind, Launch::Kind::Tcp);
  EXPECT_EQ(torchrun.launcher, "torchrun");
  EXPECT_EQ(torchrun.rank, 1);
  EXPECT_NE(torchrun.port, 29400) << "torchrun listens there itself";
  // Variables that a user's script left behind do not win over mpirun.
  variables.erase("TORCHELASTIC_RUN_ID");
  EXPECT_EQ(detectIn(variables).kind, Launch::Kind::OpenMpi);
}

TEST(Launcher, Srun) {
  Variables variables = {{"SLURM_PROCID", "5"},
                         {"SLURM_NTASKS", "9"},
                         {"SLURM_STEP_NUM_TASKS", "8"},
                         {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"},
                         {"SLURM_JOB_ID", "123456"},
                         {"SLURM_STEP_NODELIST", "gpu[07,20-22],m3"}};
  // The shell of an sbatch script has these too, but is in no step.
  EXPECT_EQ(detectIn(variables).kind, Launch::Kind::Alone);
  variables["SLURM_STEP_ID"] = "0";
  Launch launch = detectIn(variables);
  EXPECT_EQ(launch.kind, Launch::Kind::Tcp);
  EXPECT_EQ(launch.rank, 5);
  EXPECT_EQ(launch.size, 8);
  EXPECT_EQ(launch.address, "gpu07");
  EXPECT_EQ(launch.port, 23456);
  EXPECT_EQ(launch.job, "123456.0");
  variables["SLURM_STEP_NODELIST"] = "m3,m4";
  EXPECT_EQ(detectIn(variables).address, "m3");
  variables["PMI_RANK"] = "5";
  variables["PMI_SIZE"] = "8";
  EXPECT_EQ(detectIn(variables).kind, Launch::Kind::Mpich);
  variables["PMIX_RANK"] = "5";
  EXPECT_EQ(detectIn(variables).kind, Launch::Kind::OpenMpi);
}

TEST(Launcher, RefusesNonsense) {
  for (const char *rank : {"", "x", "-1", "4", "1.5", "99999999999999999999"})
    EXPECT_EQ(
        codeIn({{"OMPI_COMM_WORLD_RANK", rank}, {"OMPI_COMM_WORLD_SIZE", "4"}}),
        "H0224")
        << rank;
  EXPECT_EQ(codeIn({{"OMPI_COMM_WORLD_RANK", "0"}}), "H0224");
  EXPECT_EQ(codeIn({{"RANK", "0"},
                    {"WORLD_SIZE", "2"},
                    {"MASTER_ADDR", "a"},
                    {"MASTER_PORT", "70000"}}),
            "H0224");
}

/// Every rank says how it is connected.
static void expectLaunch(Starter starter, const std::string &text) {
  if (!isInstalled(starter))
    GTEST_SKIP() << "no mpirun of " << nameOf(starter);
  Outcome job = runJob(starter, 3, {"launch"});
  EXPECT_EQ(job.status, 0) << job.output;
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_EQ(countOf(job.output,
                      "rank " + std::to_string(rank) + " of 3 by " + text),
              1u)
        << job.output;
}

TEST(Plugin, OpenMpi) {
  expectLaunch(Starter::OpenMpi,
               "mpirun of Open MPI over Open MPI, library libmpi.so.40");
}
TEST(Plugin, Mpich) {
  expectLaunch(Starter::Mpich,
               "mpirun of MPICH over MPICH, library libmpich.so.12");
}
TEST(Plugin, NoneOverSockets) {
  expectLaunch(Starter::Sockets, "RANK and WORLD_SIZE over TCP, library none");
}
TEST(Plugin, NoneAlone) {
  Process process({HEDDLE_TEST_PROBE, "launch"}, {});
  EXPECT_EQ(process.wait(20), 0);
  EXPECT_EQ(process.output(), "rank 0 of 1 by none over one rank, library "
                              "none\n");
}

TEST(Plugin, LibraryNotInstalled) {
  // What the loader finds first is no library.
  std::string directory = testing::TempDir() + "/heddle-no-mpi";
  mkdir(directory.c_str(), 0755);
  for (const char *name : {"libmpi.so.40", "libmpich.so.12", "libmpi.so.12"})
    std::ofstream(directory + "/" + name)
        << "not a library, and not short: " << std::string(4096, 'x');
  struct {
    Variables variables;
    const char *package;
  } cases[] = {{{{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}},
                "package libopenmpi3"},
               {{{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}, "package libmpich12"}};
  for (auto &each : cases) {
    each.variables["LD_LIBRARY_PATH"] = directory;
    Process process({HEDDLE_TEST_PROBE, "launch"}, each.variables);
    EXPECT_EQ(process.wait(20), 4);
    EXPECT_EQ(countOf(process.output(), "error[H0221]"), 1u)
        << process.output();
    EXPECT_EQ(countOf(process.output(), each.package), 1u) << process.output();
  }
}

TEST(Plugin, NotCarried) {
  Process process({HEDDLE_TEST_PROBE_WITHOUT_MPI, "launch"},
                  {{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}});
  EXPECT_EQ(process.wait(20), 4);
  EXPECT_EQ(countOf(process.output(), "error[H0223]"), 1u) << process.output();
  EXPECT_EQ(countOf(process.output(), "MPI plug-ins: none"), 1u)
      << process.output();
}

TEST(Plugin, SrunFallsBackToSockets) {
  Variables variables = {{"SLURM_STEP_ID", "0"},
                         {"SLURM_NTASKS", "2"},
                         {"SLURM_STEP_NUM_TASKS", "2"},
                         {"SLURM_JOB_ID", "7311"},
                         {"PMIX_RANK", "0"},
                         {"SLURM_STEP_NODELIST", "localhost"}};
  variables["SLURM_PROCID"] = "0";
  Process first({HEDDLE_TEST_PROBE_WITHOUT_MPI, "launch"}, variables);
  variables["SLURM_PROCID"] = "1";
  Process second({HEDDLE_TEST_PROBE_WITHOUT_MPI, "launch"}, variables);
  EXPECT_EQ(first.wait(20), 0) << first.output();
  EXPECT_EQ(second.wait(20), 0) << second.output();
  EXPECT_EQ(second.output(), "rank 1 of 2 by srun over TCP, library none\n");
}

/// torchrun listens at MASTER_PORT itself.
TEST(Plugin, AsUnderTorchrun) {
  Socket agent = listenOn(0, 8);
  Outcome job = runJob(Starter::Sockets, 2, {"launch"},
                       {{"TORCHELASTIC_RUN_ID", "7"},
                        {"MASTER_PORT", std::to_string(portOf(agent))}});
  EXPECT_EQ(job.status, 0) << job.output;
  EXPECT_EQ(countOf(job.output, " of 2 by torchrun over TCP"), 2u)
      << job.output;
  EXPECT_FALSE(acceptFrom(agent, 0)) << "somebody spoke to torchrun";
}

TEST(Plugin, UnderTorchrun) {
  const char *torchrun = "/usr/bin/torchrun";
  if (access(torchrun, X_OK))
    GTEST_SKIP() << "no torchrun";
  Process process({"/usr/bin/python3", torchrun, "--no_python",
                   "--nproc_per_node", "2", HEDDLE_TEST_PROBE, "launch"},
                  {});
  int status = process.wait(60);
  // Debian's torch and Python do not always fit each other.
  if (countOf(process.output(), "Traceback") &&
      !countOf(process.output(), "rank "))
    GTEST_SKIP() << process.output();
  EXPECT_EQ(status, 0) << process.output();
  EXPECT_EQ(countOf(process.output(), " of 2 by torchrun over TCP"), 2u)
      << process.output();
}

static std::string messageOf(const std::function<void()> &function) {
  try {
    function();
  } catch (const UserError &error) {
    return error.diagnostic.code + ": " + error.diagnostic.message;
  }
  return "none";
}

TEST(Rendezvous, NamesWhoDidNotCome) {
  Launch launch;
  launch.kind = Launch::Kind::Tcp;
  launch.size = 3;
  launch.address = "127.0.0.1";
  launch.port = portOf(listenOn(0, 1));
  std::string message = messageOf([&] { meet(launch, 200); });
  EXPECT_EQ(countOf(message, "H0225"), 1u) << message;
  EXPECT_EQ(countOf(message, "rank 1, 2 did not come to 127.0.0.1:" +
                                 std::to_string(launch.port)),
            1u)
      << message;
  launch.rank = 1;
  message = messageOf([&] { meet(launch, 200); });
  EXPECT_EQ(countOf(message, "H0225"), 1u) << message;
  EXPECT_EQ(countOf(message, "nobody answers for rank 0"), 1u) << message;
}

TEST(Rendezvous, PassesTakenPortsAndStrangers) {
  Socket taken = listenOn(0, 8);
  std::string port = std::to_string(portOf(taken));
  Variables variables = {{"WORLD_SIZE", "2"},
                         {"MASTER_ADDR", "127.0.0.1"},
                         {"MASTER_PORT", port},
                         {"RANK", "0"}};
  Process first({HEDDLE_TEST_PROBE, "launch"}, variables);
  // A stranger comes first, with a message that is no hello.
  Socket stranger;
  for (int i = 0; i < 200 && !stranger; ++i) {
    stranger = connectTo("127.0.0.1", portOf(taken) + 1, 100);
    usleep(10000);
  }
  std::string noise(4096, 'x');
  sendAll(stranger, noise.data(), noise.size(), 1000);
  // A rank of another job is no rank of this one.
  variables["RANK"] = "1";
  variables["TORCHELASTIC_RUN_ID"] = "another";
  Process other({HEDDLE_TEST_PROBE, "launch"}, variables);
  variables.erase("TORCHELASTIC_RUN_ID");
  Process second({HEDDLE_TEST_PROBE, "launch"}, variables);
  EXPECT_EQ(second.wait(30), 0) << second.output();
  EXPECT_EQ(first.wait(30), 0) << first.output();
  EXPECT_EQ(other.wait(0), -1) << other.output();
}

class Plans : public testing::TestWithParam<Starter> {
protected:
  void SetUp() override {
    if (!isInstalled(GetParam()))
      GTEST_SKIP() << "no mpirun of " << nameOf(GetParam());
  }
};

TEST_P(Plans, Same) {
  Outcome job = runJob(GetParam(), 3, {"plan", "-1", "1", "3", "1", "1"});
  EXPECT_EQ(job.status, 0) << job.output;
}

TEST_P(Plans, OneDiffers) {
  Outcome job = runJob(GetParam(), 3, {"plan", "2", "1", "3", "1", "1"});
  EXPECT_EQ(job.status, 4) << job.output;
  EXPECT_EQ(countOf(job.output, "error[H0222]: rank 2 ("), 3u) << job.output;
  EXPECT_EQ(countOf(job.output, "0bad, not 900d"), 3u) << job.output;
}

TEST_P(Plans, MeshOfAnotherSize) {
  Outcome job = runJob(GetParam(), 3, {"plan", "-1", "2", "2", "1", "2"});
  EXPECT_EQ(job.status, 4) << job.output;
  EXPECT_EQ(countOf(job.output, "error[H0220]: the plan is for 8 ranks "
                                "(data=2,tensor=2,pipe=2), the job has 3"),
            3u)
      << job.output;
  EXPECT_EQ(countOf(job.output, "heddle run, or with mpirun -n 8; or compile "
                                "it for these ranks, as with --mesh data=3"),
            3u)
      << job.output;
}

INSTANTIATE_TEST_SUITE_P(Comm, Plans,
                         testing::Values(Starter::Sockets, Starter::OpenMpi,
                                         Starter::Mpich),
                         [](const auto &info) { return nameOf(info.param); });

TEST(Plan, MeshForOneAlone) {
  Process process({HEDDLE_TEST_PROBE, "plan", "-1", "1", "2", "1", "1"}, {});
  EXPECT_EQ(process.wait(20), 4);
  EXPECT_EQ(countOf(process.output(), "for 2 ranks (data=2), the job has 1"),
            1u)
      << process.output();
}
