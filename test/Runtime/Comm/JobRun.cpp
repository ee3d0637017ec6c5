//===- JobRun.cpp - Starts ranks and reads what they say ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Runtime/Comm/JobRun.h"

#include "heddle/runtime/comm/Socket.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <sstream>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace heddle;
using namespace heddle::test;

using Clock = std::chrono::steady_clock;

std::string test::nameOf(Starter starter) {
  return starter == Starter::Sockets   ? "Sockets"
         : starter == Starter::OpenMpi ? "OpenMpi"
                                       : "Mpich";
}

static std::string mpirunOf(Starter starter) {
  return starter == Starter::OpenMpi ? "/usr/bin/mpirun.openmpi"
                                     : "/usr/bin/mpirun.mpich";
}

bool test::isInstalled(Starter starter) {
  return starter == Starter::Sockets ||
         access(mpirunOf(starter).c_str(), X_OK) == 0;
}

Process::Process(const std::vector<std::string> &arguments,
                 const Variables &variables) {
  char name[] = "/tmp/heddle-comm-XXXXXX";
  int out = mkstemp(name);
  file = name;
  child = fork();
  if (child == 0) {
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    setpgid(0, 0);
    for (const auto &[key, value] : variables)
      value.empty() ? unsetenv(key.c_str())
                    : setenv(key.c_str(), value.c_str(), 1);
    std::vector<char *> argv;
    for (const std::string &argument : arguments)
      argv.push_back(const_cast<char *>(argument.c_str()));
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(out);
}

Process::~Process() {
  wait(0);
  std::remove(file.c_str());
}

int Process::wait(double seconds) {
  Clock::time_point end =
      Clock::now() + std::chrono::milliseconds(int64_t(seconds * 1000));
  while (result == -2) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) {
      result =
          WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    } else if (Clock::now() > end) {
      kill(-child, SIGKILL);
      waitpid(child, &status, 0);
      result = -1;
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  return result;
}

static std::string readFile(const std::string &name) {
  std::ifstream in(name);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string Process::output() const { return readFile(file); }

/// A port that nobody listened at a moment ago.
static std::string freePort() {
  rt::Socket socket = rt::listenOn(0, 1);
  return std::to_string(rt::portOf(socket));
}

JobRun::JobRun(Starter starter, int ranks,
               const std::vector<std::string> &arguments,
               const Variables &variables, Survivors survivors)
    : ranks(ranks) {
  std::vector<std::string> command = {HEDDLE_TEST_PROBE};
  command.insert(command.end(), arguments.begin(), arguments.end());
  Variables all = variables;
  if (starter == Starter::Sockets) {
    all["WORLD_SIZE"] = std::to_string(ranks);
    all["MASTER_ADDR"] = "127.0.0.1";
    if (!all.count("MASTER_PORT"))
      all["MASTER_PORT"] = freePort();
    for (int rank = 0; rank < ranks; ++rank) {
      all["RANK"] = std::to_string(rank);
      processes.push_back(std::make_unique<Process>(command, all));
    }
    return;
  }
  // What the MPI libraries leave behind is not ours.
  all["ASAN_OPTIONS"] = "detect_leaks=0";
  std::vector<std::string> mpirun = {mpirunOf(starter), "-n",
                                     std::to_string(ranks)};
  if (starter == Starter::OpenMpi) {
    all["OMPI_ALLOW_RUN_AS_ROOT"] = all["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1";
    mpirun.push_back("--oversubscribe");
  }
  if (starter == Starter::OpenMpi && survivors == Survivors::LeftAlone) {
    // An mpirun that ends loses what its ranks said last.
    char name[] = "/tmp/heddle-comm-XXXXXX";
    close(mkstemp(name));
    errors = name;
    command.insert(command.begin(),
                   {"/bin/sh", "-c", "exec \"$@\" 2>>" + errors, "sh"});
    mpirun.push_back("--enable-recovery");
  }
  mpirun.insert(mpirun.end(), command.begin(), command.end());
  processes.push_back(std::make_unique<Process>(mpirun, all));
}

JobRun::~JobRun() {
  if (!errors.empty())
    std::remove(errors.c_str());
}

int JobRun::wait(double seconds) {
  Clock::time_point begin = Clock::now();
  int worst = -1000;
  bool killed = false;
  for (auto &process : processes) {
    std::chrono::duration<double> passed = Clock::now() - begin;
    int status = process->wait(std::max(0.0, seconds - passed.count()));
    killed |= status == -1;
    worst = std::max(worst, status);
  }
  return killed ? -1 : worst;
}

std::string JobRun::output() const {
  std::string text;
  for (const auto &process : processes)
    text += process->output();
  return text + (errors.empty() ? "" : readFile(errors));
}

std::vector<int> JobRun::waitForPids(double seconds) const {
  std::vector<int> pids(ranks, -1);
  Clock::time_point end =
      Clock::now() + std::chrono::milliseconds(int64_t(seconds * 1000));
  while (Clock::now() < end) {
    std::istringstream text(output());
    std::string line, word;
    while (std::getline(text, line)) {
      std::istringstream words(line);
      int rank = 0, pid = 0;
      if (words >> word >> rank >> pid && word == "PID")
        pids.at(rank) = pid;
    }
    if (std::count(pids.begin(), pids.end(), -1) == 0)
      return pids;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return pids;
}

Outcome test::runJob(Starter starter, int ranks,
                     const std::vector<std::string> &arguments,
                     const Variables &variables) {
  JobRun job(starter, ranks, arguments, variables);
  int status = job.wait();
  return {status, job.output()};
}

size_t test::countOf(const std::string &text, const std::string &part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + part.size()))
    ++count;
  return count;
}
