//===- Metrics.cpp - Metrics of a server for Prometheus -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Metrics.h"

#include <algorithm>
#include <nlohmann/json.hpp>

using namespace heddle::rt;

Metrics::Metrics()
    : first{{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}},
      between{{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1}} {}

void Metrics::Histogram::add(double value) {
  size_t place =
      std::lower_bound(bounds.begin(), bounds.end(), value) - bounds.begin();
  ++counts[place];
  sum += value;
}

static std::string number(double value) { return nlohmann::json(value).dump(); }

static void describe(std::string &text, const std::string &name,
                     const char *kind, const char *help) {
  text +=
      "# HELP " + name + " " + help + "\n# TYPE " + name + " " + kind + "\n";
}

void Metrics::Histogram::write(std::string &text, const char *name,
                               const char *help) const {
  describe(text, name, "histogram", help);
  int64_t all = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    all += counts[i];
    std::string bound = i < bounds.size() ? number(bounds[i]) : "+Inf";
    text +=
        name + ("_bucket{le=\"" + bound + "\"} ") + std::to_string(all) + "\n";
  }
  text += name + ("_sum " + number(sum)) + "\n";
  text += name + ("_count " + std::to_string(all)) + "\n";
}

void Metrics::countRequest(const std::string &path, int status) {
  std::lock_guard lock(mutex);
  ++requests[{path, status}];
}

void Metrics::firstToken(double seconds) {
  std::lock_guard lock(mutex);
  first.add(seconds);
}

void Metrics::betweenTokens(double seconds) {
  std::lock_guard lock(mutex);
  between.add(seconds);
}

void Metrics::update(const Scheduler &scheduler) {
  std::lock_guard lock(mutex);
  counts = scheduler.counts();
  waiting = scheduler.numWaiting();
  groups.resize(scheduler.numGroups());
  for (size_t i = 0; i < groups.size(); ++i) {
    const PagePool &pool = scheduler.pagePool(int64_t(i));
    groups[i] = {scheduler.numRunning(int64_t(i)), pool.numOwned(),
                 pool.numKept(), pool.numPages()};
  }
}

void Metrics::update(const SchedulerCounts &newCounts, int64_t newWaiting,
                     int64_t newRunning) {
  std::lock_guard lock(mutex);
  counts = newCounts;
  waiting = newWaiting;
  groups.front().running = newRunning;
}

/// Writes the metrics of each data-parallel group of ranks. If there are
/// several groups, the index of the group is a label.
void Metrics::writeGroups(std::string &text) const {
  auto add = [&](const std::string &name, const std::string &label,
                 size_t group, int64_t value) {
    std::string labels = label;
    if (groups.size() > 1)
      labels += std::string(label.empty() ? "" : ",") + "group=\"" +
                std::to_string(group) + "\"";
    text += name + (labels.empty() ? "" : "{" + labels + "}") + " " +
            std::to_string(value) + "\n";
  };
  describe(text, "heddle_texts_running", "gauge", "Texts that are computed.");
  for (size_t i = 0; i < groups.size(); ++i)
    add("heddle_texts_running", "", i, groups[i].running);
  describe(text, "heddle_pages", "gauge",
           "Pages of the cache: used by texts, kept for later ones, free.");
  for (size_t i = 0; i < groups.size(); ++i) {
    const Group &group = groups[i];
    add("heddle_pages", "state=\"used\"", i, group.owned);
    add("heddle_pages", "state=\"kept\"", i, group.kept);
    add("heddle_pages", "state=\"free\"", i,
        group.pages - group.owned - group.kept);
  }
}

std::string Metrics::text() const {
  std::lock_guard lock(mutex);
  std::string text;
  describe(text, "heddle_requests_total", "counter", "Requests answered.");
  for (const auto &[key, count] : requests)
    text += "heddle_requests_total{path=\"" + key.first + "\",status=\"" +
            std::to_string(key.second) + "\"} " + std::to_string(count) + "\n";
  auto add = [&](const std::string &name, const char *kind, int64_t value,
                 const char *help) {
    describe(text, name, kind, help);
    text += name + " " + std::to_string(value) + "\n";
  };
  add("heddle_prompt_tokens_total", "counter", counts.promptTokens,
      "Tokens of prompts that were computed.");
  add("heddle_shared_tokens_total", "counter", counts.sharedTokens,
      "Tokens that were found in the cache.");
  add("heddle_new_tokens_total", "counter", counts.newTokens,
      "Tokens that were chosen.");
  add("heddle_runs_total", "counter", counts.runs, "Runs of the model.");
  add("heddle_draft_tokens_total", "counter", counts.guesses,
      "Tokens that a draft guessed.");
  add("heddle_draft_right_tokens_total", "counter", counts.rightGuesses,
      "Tokens of texts among them.");
  add("heddle_preemptions_total", "counter", counts.preempted,
      "Texts that gave their pages back and waited again.");
  add("heddle_texts_waiting", "gauge", waiting, "Texts that wait.");
  writeGroups(text);
  first.write(text, "heddle_first_token_seconds",
              "From a request to its first token.");
  between.write(text, "heddle_between_tokens_seconds",
                "From one token of a text to the next.");
  return text;
}
