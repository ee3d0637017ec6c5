//===- JobRun.h - Starts ranks and reads what they say ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_RUNTIME_COMM_JOBRUN_H
#define HEDDLE_TEST_RUNTIME_COMM_JOBRUN_H

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace heddle::test {

enum class Starter { Sockets, OpenMpi, Mpich };
/// For the names of parameterised tests.
std::string nameOf(Starter starter);
/// Whether mpirun of that MPI is here; sockets always are.
bool isInstalled(Starter starter);

using Variables = std::map<std::string, std::string>;

/// One started program, with its output, stdout and stderr together.
class Process {
public:
  /// The variables are added to the environment, the empty ones taken away.
  Process(const std::vector<std::string> &arguments,
          const Variables &variables);
  Process(const Process &) = delete;
  ~Process();
  /// The exit status, or 1000 + the signal that ended it. After `seconds` it is
  /// killed: -1.
  int wait(double seconds);
  std::string output() const;
  int pid() const { return child; }

private:
  int child = -1;
  int result = -2;
  std::string file;
};

/// What mpirun does when a rank was killed; that of MPICH kills them all.
enum class Survivors { Killed, LeftAlone };

/// The ranks of a job: one process each over sockets, one mpirun otherwise.
class JobRun {
public:
  JobRun(Starter starter, int ranks, const std::vector<std::string> &arguments,
         const Variables &variables = {},
         Survivors survivors = Survivors::Killed);
  JobRun(const JobRun &) = delete;
  ~JobRun();
  /// The largest exit status of its processes, as Process::wait.
  int wait(double seconds = 60);
  /// The exit status of one rank that was started over sockets.
  int waitForRank(int rank, double seconds) {
    return processes.at(rank)->wait(seconds);
  }
  std::string output() const;
  /// Waits until each rank has said "PID rank pid"; their process ids.
  std::vector<int> waitForPids(double seconds = 20) const;

private:
  int ranks;
  std::string errors; ///< The file of the ranks' stderr, if not mpirun's.
  std::vector<std::unique_ptr<Process>> processes;
};

/// Runs a job of the probe to its end.
struct Outcome {
  int status;
  std::string output;
};
Outcome runJob(Starter starter, int ranks,
               const std::vector<std::string> &arguments,
               const Variables &variables = {});

size_t countOf(const std::string &text, const std::string &part);

} // namespace heddle::test

#endif // HEDDLE_TEST_RUNTIME_COMM_JOBRUN_H
