//===- LaunchRanks.cpp - Starts the ranks of a job ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the start of ranks for `heddle run`. Sets each rank's environment
// variables, and starts local ranks by fork and remote ranks by ssh. Passes
// signals on to them, and ends all ranks after one has failed.
//
//===----------------------------------------------------------------------===//

#include "LaunchRanks.h"
#include "heddle/runtime/io/Diagnostic.h"
#include "heddle/runtime/io/StopSignals.h"
#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <netinet/in.h>
#include <optional>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

using namespace heddle;
using namespace heddle::driver;

namespace fs = std::filesystem;

using Variables = std::vector<std::pair<std::string, std::string>>;
using Clock = std::chrono::steady_clock;

/// How long the ranks may take to end after one has failed. For `graceToNotice`
/// they may end by themselves. Then they get SIGTERM, and after `graceToEnd`
/// SIGKILL. If a rank hangs instead of failing, the others notice it and fail
/// after about seven seconds (runtime/comm/Heartbeat.cpp). The job thus ends
/// within ten seconds if the ranks obey SIGTERM.
static constexpr std::chrono::seconds graceToNotice(2), graceToEnd(5);

//===----------------------------------------------------------------------===//
// The environment
//===----------------------------------------------------------------------===//

/// Environment variables of other launchers. They are removed, since a rank
/// would read a wrong number of ranks from them.
static constexpr const char *otherLaunchers[] = {
    "OMPI_COMM_WORLD_RANK", "PMI_RANK", "TORCHELASTIC_RUN_ID"};

/// Returns a free port of this machine, or 29500 if none can be found.
static int64_t freePort() {
  int64_t port = 29500;
  int handle = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (handle < 0)
    return port;
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto *plain = reinterpret_cast<sockaddr *>(&address);
  if (bind(handle, plain, size) == 0 && getsockname(handle, plain, &size) == 0)
    port = ntohs(address.sin_port);
  close(handle);
  return port;
}

/// Returns the environment variables that are the same for all ranks: the
/// address of rank 0, and the number of ranks.
static Variables commonVariables(const LaunchRequest &request) {
  bool allHere = std::all_of(
      request.ranks.begin(), request.ranks.end(),
      [](const Placement &rank) { return isThisMachine(rank.host); });
  std::string address = request.masterAddress;
  int64_t port = request.masterPort;
  if (address.empty() && allHere)
    address = "127.0.0.1";
  if (address.empty()) {
    const std::string &first = request.ranks.front().host;
    char self[256] = {};
    gethostname(self, sizeof(self) - 1);
    address = isThisMachine(first) ? self : first.substr(first.find('@') + 1);
  }
  if (port == 0)
    port = allHere ? freePort() : 29500;
  return {{"MASTER_ADDR", address},
          {"MASTER_PORT", std::to_string(port)},
          {"WORLD_SIZE", std::to_string(request.ranks.size())}};
}

static void addRankVariables(const Placement &placement, size_t rank,
                             Variables &variables) {
  std::string slots;
  for (int64_t slot : placement.slots)
    slots += (slots.empty() ? "" : ",") + std::to_string(slot);
  variables.insert(variables.end(),
                   {{"RANK", std::to_string(rank)},
                    {"LOCAL_RANK", std::to_string(placement.localRank)},
                    {"LOCAL_WORLD_SIZE", std::to_string(placement.localSize)},
                    {"CUDA_VISIBLE_DEVICES", slots}});
}

/// Returns the environment variables that ranks on other machines get from this
/// process, as with DeepSpeed's launcher. These are the variables of
/// communication libraries, and the lines of `.deepspeed_env` in the working or
/// home directory.
static Variables carriedVariables() {
  Variables variables;
  auto add = [&](const std::string &line) {
    size_t equals = line.find('=');
    if (equals != std::string::npos && equals > 0)
      variables.emplace_back(line.substr(0, equals), line.substr(equals + 1));
  };
  for (char **entry = environ; *entry; ++entry)
    for (const char *prefix : {"NCCL", "UCX"})
      if (std::strncmp(*entry, prefix, std::strlen(prefix)) == 0)
        add(*entry);
  const char *home = std::getenv("HOME");
  for (const std::string &folder :
       {std::string("."), std::string(home ? home : ".")}) {
    std::ifstream file(fs::path(folder) / ".deepspeed_env");
    if (!file)
      continue;
    for (std::string line; std::getline(file, line);)
      add(line);
    break;
  }
  return variables;
}

static std::string quote(const std::string &text) {
  std::string result = "'";
  for (char c : text)
    result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

std::string driver::remoteCommand(const std::string &directory,
                                  const Variables &variables,
                                  const std::vector<std::string> &command) {
  // The remote shell ends with an exec of the command, so that $$ is also the
  // process id of the command. Before that, it starts a subshell. The subshell
  // reads names of signals from the connection and sends these signals to the
  // command. If the connection ends, the subshell sends SIGTERM, unless it has
  // sent a signal before.
  std::string script =
      "cd " + quote(directory) +
      " || exit; exec 3<&0; (n=; while read -r s; do kill -s \"$s\" $$; n=1; "
      "done; [ $n ] || kill -s TERM $$) <&3 >/dev/null 2>&1 & exec env " +
      io::launcherVariable + "=$!";
  for (const auto &[name, value] : variables)
    script += " " + quote(name + "=" + value);
  for (const std::string &word : command)
    script += " " + quote(word);
  return "exec sh -c " + quote(script + " 3<&- </dev/null");
}

//===----------------------------------------------------------------------===//
// Processes
//===----------------------------------------------------------------------===//

namespace {

/// A file descriptor. The destructor closes it, and exec does, too.
class Handle {
public:
  explicit Handle(int number = -1) : number(number) {}
  Handle(Handle &&other) noexcept : number(std::exchange(other.number, -1)) {}
  Handle &operator=(Handle &&other) noexcept {
    std::swap(number, other.number);
    return *this;
  }
  ~Handle() {
    if (number >= 0)
      close(number);
  }
  int get() const { return number; }
  void reset() { *this = Handle(); }

private:
  int number;
};

struct Pipe {
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
      fail("H0425", std::string("no pipe can be made: ") + std::strerror(errno),
           "raise the limit of open files (ulimit -n)");
    read = Handle(ends[0]);
    write = Handle(ends[1]);
  }
  Handle read, write;
};

/// The process of a local rank, or the process of ssh that starts a remote
/// rank.
struct Process {
  pid_t id = -1;
  bool running = false;
  bool stopped = false; ///< A signal stopped the process: only SIGKILL ends it.
  bool isRemote = false;
  Handle control; ///< Pipe to a remote rank's ssh, for names of signals.
  Handle errors;  ///< The rank's stderr. Rank 0 inherits this process's.
  std::string line;
};

class Job {
public:
  explicit Job(const LaunchRequest &request);
  ~Job();
  int run();

private:
  void start(size_t rank, const Variables &common);
  [[noreturn]] void become(size_t rank, const std::vector<std::string> &command,
                           const Variables &variables, int input, int errors,
                           int failure);
  void sendAll(int signal);
  void reap();
  int statusOf(const Process &process, int state) const;
  void readSignals();
  void forwardErrors(size_t rank);
  void escalate();
  int timeout() const;

  const LaunchRequest &request;
  std::vector<Process> processes;
  sigset_t caught, before;
  Handle signals;
  io::StopRequests requests;
  int status = 0;   ///< Exit status of the first rank that failed.
  int nextStep = 0; ///< After a failure, the next signal: SIGTERM or SIGKILL.
  Clock::time_point deadline;
};

const char *signalName(int signal) {
  return signal == SIGINT    ? "INT"
         : signal == SIGHUP  ? "HUP"
         : signal == SIGKILL ? "KILL"
                             : "TERM";
}

} // namespace

Job::Job(const LaunchRequest &request) : request(request) {
  sigemptyset(&caught);
  for (int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP})
    sigaddset(&caught, signal);
  requests.setParent();
  sigprocmask(SIG_BLOCK, &caught, &before);
  signals = Handle(signalfd(-1, &caught, SFD_CLOEXEC | SFD_NONBLOCK));
  // SIGPIPE is ignored: it would kill this process when it writes a signal's
  // name to the ssh of a rank that has ended.
  signal(SIGPIPE, SIG_IGN);
  processes.resize(request.ranks.size());
}

Job::~Job() {
  sendAll(SIGKILL);
  for (Process &process : processes)
    if (process.running)
      waitpid(process.id, nullptr, 0);
  sigprocmask(SIG_SETMASK, &before, nullptr);
}

void Job::start(size_t rank, const Variables &common) {
  const Placement &placement = request.ranks[rank];
  Process &process = processes[rank];
  process.isRemote = !isThisMachine(placement.host);
  Variables variables = common;
  addRankVariables(placement, rank, variables);
  std::vector<std::string> command = request.command;
  if (process.isRemote) {
    Variables carried = carriedVariables();
    variables.insert(variables.end(), carried.begin(), carried.end());
    std::string line =
        remoteCommand(fs::current_path().string(), variables, command);
    command = request.ssh;
    command.insert(command.end(), {placement.host, line});
    variables.clear();
  }
  Pipe failure;
  std::optional<Pipe> input, errors;
  if (process.isRemote)
    input.emplace();
  if (rank > 0)
    errors.emplace();
  process.id = fork();
  if (process.id == 0)
    become(rank, command, variables, input ? input->read.get() : -1,
           errors ? errors->write.get() : -1, failure.write.get());
  process.running = process.id > 0;
  int reason = process.running ? 0 : errno;
  failure.write.reset();
  if (process.running && read(failure.read.get(), &reason, sizeof(reason)) <= 0)
    reason = 0;
  if (reason)
    fail("H0425",
         command.front() + " cannot be started: " + std::strerror(reason),
         process.isRemote ? "say with --ssh how to reach " + placement.host
                          : "check the binary and the system's limits");
  if (input)
    process.control = std::move(input->write);
  if (errors) {
    process.errors = std::move(errors->read);
    fcntl(process.errors.get(), F_SETFL, O_NONBLOCK);
  }
}

void Job::become(size_t rank, const std::vector<std::string> &command,
                 const Variables &variables, int input, int errors,
                 int failure) {
  // The rank gets its own process group. Ctrl-C on a terminal then only reaches
  // `heddle run`, which passes the signal on once.
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  signal(SIGPIPE, SIG_DFL);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  bool readsTerminal = rank == 0 && isatty(STDIN_FILENO);
  if (input < 0 && (rank > 0 || readsTerminal))
    input = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (input >= 0)
    dup2(input, STDIN_FILENO);
  if (errors >= 0)
    dup2(errors, STDERR_FILENO);
  for (const char *name : otherLaunchers)
    unsetenv(name);
  setenv(io::launcherVariable, std::to_string(getppid()).c_str(), 1);
  for (const auto &[name, value] : variables)
    setenv(name.c_str(), value.c_str(), 1);
  std::vector<char *> words;
  for (const std::string &word : command)
    words.push_back(const_cast<char *>(word.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
  int reason = errno;
  ssize_t written = write(failure, &reason, sizeof(reason));
  _exit(written == sizeof(reason) ? 127 : 126);
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

void Job::sendAll(int signal) {
  for (Process &process : processes) {
    if (!process.running)
      continue;
    if (process.isRemote) {
      std::string line = std::string(signalName(signal)) + "\n";
      ssize_t written = write(process.control.get(), line.data(), line.size());
      if (written == ssize_t(line.size()) && signal != SIGKILL)
        continue;
    }
    // The process may not have made its process group yet; then signal the
    // process itself.
    if (kill(-process.id, signal) != 0)
      kill(process.id, signal);
  }
}

/// Returns the exit status of a rank. A rank that was killed by a signal counts
/// as failed, unless this process passed the signal on.
int Job::statusOf(const Process &process, int state) const {
  if (WIFEXITED(state))
    return WEXITSTATUS(state);
  int signal = WTERMSIG(state);
  if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP ||
      process.isRemote || status != 0)
    return 128 + signal;
  Diagnostic problem;
  problem.code = "H0421";
  problem.message = "rank " + std::to_string(&process - processes.data()) +
                    " was killed by signal " + std::to_string(signal) + " (" +
                    strsignal(signal) + ")";
  if (signal == SIGKILL)
    problem.help = "the system may have run out of memory: see dmesg";
  std::string text = problem.format();
  (void)!write(STDERR_FILENO, text.data(), text.size());
  return problem.exitCode();
}

void Job::reap() {
  int state = 0;
  while (pid_t id = waitpid(-1, &state, WNOHANG | WUNTRACED | WCONTINUED)) {
    if (id < 0)
      return;
    int code = 0;
    for (Process &process : processes) {
      if (process.id != id)
        continue;
      process.stopped = WIFSTOPPED(state);
      if (WIFSTOPPED(state) || WIFCONTINUED(state))
        continue;
      process.running = false;
      process.control.reset();
      code = statusOf(process, state);
    }
    if (code == 0 || status != 0)
      continue;
    status = code;
    nextStep = SIGTERM;
    deadline = Clock::now() + graceToNotice;
  }
}

void Job::readSignals() {
  signalfd_siginfo information;
  while (read(signals.get(), &information, sizeof(information)) ==
         sizeof(information)) {
    int signal = int(information.ssi_signo);
    io::SignalSender sender = {information.ssi_code == SI_KERNEL,
                               pid_t(information.ssi_pid)};
    // SIGCHLD says that a rank has ended. The other signals are requests to
    // stop, and are passed on to the ranks. A second request tells the ranks to
    // end at once. Repetitions of the same request are not passed on.
    if (signal == SIGCHLD)
      reap();
    else if (requests.judge(signal, sender) != io::StopRequests::Kind::Repeated)
      sendAll(signal);
  }
}

void Job::forwardErrors(size_t rank) {
  Process &process = processes[rank];
  char buffer[4096];
  ssize_t count;
  while ((count = read(process.errors.get(), buffer, sizeof(buffer))) > 0)
    process.line.append(buffer, count);
  bool isAtEnd = count == 0;
  if (isAtEnd && !process.line.empty() && process.line.back() != '\n')
    process.line += '\n';
  std::string text, prefix = "[rank " + std::to_string(rank) + "] ";
  size_t begin = 0;
  for (size_t end; (end = process.line.find('\n', begin)) != std::string::npos;
       begin = end + 1)
    text += prefix + process.line.substr(begin, end + 1 - begin);
  process.line.erase(0, begin);
  if (!text.empty() && write(STDERR_FILENO, text.data(), text.size()) < 0)
    process.line.clear();
  if (isAtEnd)
    process.errors.reset();
}

void Job::escalate() {
  if (nextStep == 0 || Clock::now() < deadline)
    return;
  sendAll(nextStep);
  for (const Process &process : processes)
    if (process.running && process.stopped)
      kill(-process.id, SIGKILL);
  nextStep = nextStep == SIGTERM ? SIGKILL : 0;
  deadline = Clock::now() + graceToEnd;
}

/// Returns the milliseconds until the next deadline, or -1 if there is none.
int Job::timeout() const {
  if (nextStep == 0)
    return -1;
  auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline - Clock::now());
  return std::max(0, int(left.count()) + 1);
}

int Job::run() {
  Variables common = commonVariables(request);
  for (size_t rank = 0; rank < processes.size(); ++rank)
    start(rank, common);
  auto anyRuns = [&] {
    return std::any_of(processes.begin(), processes.end(),
                       [](const Process &process) { return process.running; });
  };
  while (anyRuns()) {
    std::vector<pollfd> events = {{signals.get(), POLLIN, 0}};
    // A rank whose pipe is closed has a negative descriptor, which poll
    // ignores.
    for (const Process &process : processes)
      events.push_back({process.errors.get(), POLLIN, 0});
    poll(events.data(), events.size(), timeout());
    for (size_t rank = 0; rank < processes.size(); ++rank)
      if (events[rank + 1].revents)
        forwardErrors(rank);
    readSignals();
    escalate();
  }
  // Reads what is left in the pipes of stderr. Does not wait for more if
  // another process still has a pipe open.
  for (size_t rank = 0; rank < processes.size(); ++rank)
    if (processes[rank].errors.get() >= 0)
      forwardErrors(rank);
  return status;
}

int driver::launchRanks(const LaunchRequest &request) {
  return Job(request).run();
}
