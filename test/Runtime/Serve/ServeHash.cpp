//===- ServeHash.cpp - A server of hashes ---------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//
// usage: HeddleServeHash MILLISECONDS [KEY [FAILS_AT [POISON]]]
//
// Serves a HashEngine whose tokens are bytes, and which takes MILLISECONDS for
// a run, on a free port. For test/EndToEnd/test_serve.py. The engine fails in
// its run number FAILS_AT. Its logits after the token POISON are not finite.
//
//===----------------------------------------------------------------------===//

#include "HashEngine.h"
#include "heddle/runtime/app/Signals.h"
#include "heddle/runtime/io/Diagnostic.h"
#include "heddle/runtime/serve/AccessLog.h"
#include "heddle/runtime/serve/Service.h"

#include <cstdio>
#include <thread>

using namespace heddle;
using namespace heddle::rt;

static int serve(int argc, char **argv) {
  int milliseconds = std::stoi(argv[1]);
  int64_t failsAt = argc > 3 ? std::stoll(argv[3]) : 0;
  HashEngine engine({256, 8, 32, 8, 96, 256});
  engine.poison = argc > 4 ? std::stoi(argv[4]) : -1;
  engine.onRun = [&](const std::vector<Feed> &) {
    if (engine.runs == failsAt)
      fail("H0421", "rank 1 died");
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  };
  auto tokenizer = io::openTokenizer("bytes");
  io::ChatTemplate chat("{% for m in messages %}{% if m.role == 'tool' %}"
                        "{{ raise_exception('no tools here') }}{% endif %}"
                        "{% if m.role == 'slow' %}{% for i in range(2) %}"
                        "{% for j in range(200000) %}{% set k = j %}"
                        "{% endfor %}{% endfor %}{% endif %}"
                        "{{ m.role }}: {{ m.content }}\n{% endfor %}",
                        {"chat_template.jinja"});
  ServiceOptions options;
  options.http.port = 0;
  options.http.maxBody = 1 << 20;
  options.http.seconds = 3;
  options.http.maxConnections = 64;
  options.models = {"hash", "other/name"};
  options.http.allowedOrigins = {"http://page.example"};
  AccessLog log("-");
  options.http.onAnswered = [&](const HttpAccess &access) {
    log.write(access);
  };
  options.apiKey = argc > 2 ? argv[2] : "";
  options.maxTexts = 40;
  options.checksPages = true;
  SamplingOptions sampling;
  sampling.temperature = 1;
  catchStopSignals();
  std::unique_ptr<Service> service =
      serveCompletions(engine, /*draft=*/nullptr,
                       {tokenizer.get(), &chat, {}, sampling}, options);
  service->listen();
  printf("%d\n", int(service->port()));
  fflush(stdout);
  return service->run(stopSignal);
}

int main(int argc, char **argv) {
  try {
    return serve(argc, argv);
  } catch (const UserError &error) {
    fputs(error.diagnostic.format().c_str(), stderr);
    return error.diagnostic.exitCode();
  }
}
