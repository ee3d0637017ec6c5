//===- Scheduler.cpp - What is computed next ------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/serve/Scheduler.h"

#include <algorithm>
#include <cassert>
#include <limits>

using namespace heddle::rt;

/// What a token of a text costs a client's turn, beside one of a prompt.
static constexpr double newTokenCharge = 2;

/// What an engine and its draft can both do. A page of theirs is given back
/// when neither sees it.
static EngineLimits commonLimits(const Engine &engine, const Engine *draft) {
  EngineLimits limits = engine.limits();
  if (!draft)
    return limits;
  const EngineLimits &other = draft->limits();
  assert(other.vocab == limits.vocab && other.pageTokens == limits.pageTokens &&
         other.groups == limits.groups && other.maxGuesses >= 1 &&
         "a draft that fits the engine");
  limits.maxRows = std::min(limits.maxRows, other.maxRows);
  limits.maxChunk = std::min(limits.maxChunk, other.maxChunk);
  limits.numPages = std::min(limits.numPages, other.numPages);
  limits.maxContext = std::min(limits.maxContext, other.maxContext);
  // Pages behind a window are counted for a chunk.
  limits.maxGuesses = std::min(limits.maxGuesses, limits.maxChunk - 1);
  bool seesAll = limits.window == 0 || other.window == 0;
  limits.window = seesAll ? 0 : std::max(limits.window, other.window);
  return limits;
}

Scheduler::Scheduler(Engine &engine, TextListener &listener, bool checksPages,
                     Engine *draft)
    : engine(engine), listener(listener), limits(commonLimits(engine, draft)),
      mostTokens(limits.maxContext) {
  if (limits.cachePages().mostOf(mostTokens, limits.maxChunk) > limits.numPages)
    mostTokens = std::min(mostTokens, limits.numPages * limits.pageTokens);
  std::vector<const PagePool *> checked;
  for (int64_t number = 0; number < limits.groups; ++number) {
    Group &group = groups.emplace_back(number, limits);
    if (!checksPages)
      continue;
    group.checker.emplace(group.pool);
    checked.push_back(&group.pool);
  }
  if (draft)
    drafter.emplace(*draft, checked);
}

int64_t Scheduler::numRunning() const {
  int64_t count = 0;
  for (const Group &group : groups)
    count += int64_t(group.running.size());
  return count;
}

/// Without a window a text has the pages for all its tokens at once: what began
/// will not wait for room.
int64_t Scheduler::pagesFor(const Text &text, int64_t computed) const {
  int64_t tokens = text.tokens.size();
  if (limits.window)
    tokens = std::min(tokens, computed + limits.maxChunk);
  return limits.cachePages().pagesFor(tokens);
}

void Scheduler::submit(TextRequest request) {
  assert(request.id != 0 && !request.prompt.empty() &&
         int64_t(request.prompt.size()) < mostTokens &&
         (request.maxTokens > 0 || request.scoresPrompt) &&
         (!request.scoresPrompt || limits.maxScored > 0));
  queue.push(request.client, request.id);
  ++textsOfClient[request.client];
  uint64_t id = request.id;
  texts.emplace(id, std::move(request)).first->second.reach = limits.maxGuesses;
}

bool Scheduler::cancel(uint64_t id) {
  auto found = texts.find(id);
  if (found == texts.end())
    return false;
  drop(found);
  return true;
}

void Scheduler::stopRunning(Text &text) {
  Group &group = *text.group;
  // The end first: what others may share stays the longest.
  for (size_t i = text.pages.size(); i-- > 0;)
    if (text.pages[i] != noPage)
      group.pool.release(text.pages[i]);
  text.pages.clear();
  text.computed = text.drafted = text.published = text.givenBack = 0;
  text.chain = 0;
  text.group = nullptr;
  group.running.erase(
      std::find(group.running.begin(), group.running.end(), &text));
}

void Scheduler::drop(Texts::iterator found) {
  Text &text = found->second;
  const std::string &client = text.request.client;
  if (text.group)
    stopRunning(text);
  else
    queue.remove(client, text.request.id);
  if (--textsOfClient[client] == 0) {
    textsOfClient.erase(client);
    queue.forget(client);
  }
  texts.erase(found);
}

void Scheduler::expire(Clock::time_point now) {
  for (auto next = texts.begin(); next != texts.end();) {
    auto text = next++;
    if (text->second.request.deadline > now)
      continue;
    uint64_t id = text->first;
    drop(text);
    listener.onEnd(id, TextEnd::Expired);
  }
}

bool Scheduler::tryToBegin(Text &text) {
  Group *best = nullptr;
  size_t fewest = limits.maxRows;
  for (const Group &group : groups)
    fewest = std::min(fewest, group.running.size());
  std::pair<int64_t, int64_t> most; // Pages that it shares, and has left.
  for (Group &group : groups) {
    const auto running = int64_t(group.running.size());
    if (running == limits.maxRows)
      continue;
    PagePool::Found found = group.pool.find(text.tokens, mostShared(text));
    int64_t needed =
        pagesFor(text, found.pages * limits.pageTokens) - found.pages;
    int64_t left = group.pool.available() - found.kept - needed;
    // Those that run may each need a page soon.
    if (left < running)
      continue;
    // A prefix that all texts have is no reason to leave other groups idle.
    bool mayShare = group.running.size() <= fewest + 1;
    std::pair comes(mayShare ? found.pages : 0, left - running);
    if (!best || comes > most) {
      best = &group;
      most = comes;
    }
  }
  if (best)
    begin(text, *best);
  return best;
}

void Scheduler::begin(Text &text, Group &group) {
  PagePool::Prefix prefix = group.pool.share(text.tokens, mostShared(text));
  text.pages = std::move(prefix.pages);
  text.chain = prefix.chain;
  text.published = text.pages.size();
  text.givenBack = std::count(text.pages.begin(), text.pages.end(), noPage);
  text.computed = text.drafted = text.published * limits.pageTokens;
  counted.sharedTokens += text.computed;
  int64_t needed = pagesFor(text, text.computed) - text.published;
  for (; needed > 0; --needed)
    text.pages.push_back(*group.pool.take());
  text.group = &group;
  group.running.push_back(&text);
}

void Scheduler::admit() {
  auto mayBegin = [&](uint64_t id) {
    auto leader = texts.find(texts.at(id).request.after);
    return leader == texts.end() || leader->second.hasBegun;
  };
  while (numRunning() < limits.maxRows * numGroups()) {
    std::optional<uint64_t> id = queue.next(mayBegin);
    // What does not fit waits, and nobody overtakes it.
    if (!id || !tryToBegin(texts.at(*id)))
      return;
    queue.remove(texts.at(*id).request.client, *id);
  }
}

void Scheduler::preempt(Text &text) {
  stopRunning(text);
  queue.pushFront(text.request.client, text.request.id);
  ++counted.preempted;
}

void Scheduler::growPages(Group &group) {
  for (size_t i = 0; i < group.running.size(); ++i) {
    Text &text = *group.running[i];
    while (text.group &&
           int64_t(text.pages.size()) < pagesFor(text, text.computed)) {
      if (std::optional<PagePool::Page> page = group.pool.take())
        text.pages.push_back(*page);
      else
        preempt(*group.running.back());
    }
  }
}

int64_t Scheduler::roomForGuesses(Text &text) {
  int64_t tokens = text.tokens.size();
  int64_t wanted = std::min({text.reach, text.request.maxTokens - text.made - 1,
                             mostTokens - tokens - 1});
  Group &group = *text.group;
  // Those that run may each need a page soon.
  while (int64_t(text.pages.size()) <
             limits.cachePages().pagesFor(tokens + wanted) &&
         group.pool.available() > int64_t(group.running.size()))
    text.pages.push_back(*group.pool.take());
  int64_t room = int64_t(text.pages.size()) * limits.pageTokens - tokens;
  return std::clamp<int64_t>(wanted, 0, room);
}

void Scheduler::guess() {
  std::vector<DraftedText> drafted;
  for (Group &group : groups)
    for (Text *text : group.running) {
      if (int64_t(text->tokens.size()) - text->computed > 1)
        continue;
      text->guessed = roomForGuesses(*text);
      counted.guesses += text->guessed;
      drafted.push_back({text->request.id, &text->tokens, &text->pages,
                         &text->sampler, &text->drafted, text->guessed,
                         group.number});
    }
  drafter->guess(std::move(drafted));
}

/// All groups wait for the run, so tokens that are due in one of them do.
int64_t Scheduler::promptTokensOfRun() const {
  constexpr int64_t mostBesideTokens = 128;
  for (const Group &group : groups)
    for (const Text *text : group.running)
      if (!isPrompt(*text))
        return std::min(limits.maxChunk, mostBesideTokens);
  return limits.maxChunk;
}

void Scheduler::collectFeeds() {
  feeds.clear();
  const int64_t promptTokens = promptTokensOfRun();
  for (Group &group : groups)
    collectFeeds(group, promptTokens);
}

void Scheduler::collectFeeds(Group &group, int64_t promptTokens) {
  for (Text *text : group.running) {
    int64_t left = text->tokens.size() - text->computed;
    int64_t most = isScored(*text) ? std::min(promptTokens, limits.maxScored)
                                   : promptTokens;
    int64_t count = isPrompt(*text) ? std::min(left, most) : left;
    if (count == 0)
      continue;
    if (isPrompt(*text))
      promptTokens -= count;
    auto first = text->tokens.begin() + text->computed;
    int64_t numLogits = count == left ? 1 + text->guessed : 0;
    if (isScored(*text))
      numLogits = count;
    feeds.push_back({text->request.id,
                     {first, first + count},
                     text->computed,
                     text->pages,
                     numLogits,
                     group.number});
    if (group.checker)
      group.checker->check(feeds.back(), text->tokens);
    if (drafter && isPrompt(*text)) {
      drafter->compute(feeds.back(), text->tokens);
      text->drafted += count;
    }
  }
}

void Scheduler::publishPages(Text &text) {
  while ((text.published + 1) * limits.pageTokens <= cached(text)) {
    const int32_t *tokens = &text.tokens[text.published * limits.pageTokens];
    text.chain = text.group->pool.publish(text.pages[text.published], tokens,
                                          text.chain);
    ++text.published;
  }
}

void Scheduler::giveBackPages(Text &text) {
  int64_t end = std::min(limits.cachePages().firstSeen(cached(text)),
                         int64_t(text.pages.size()));
  for (; text.givenBack < end; ++text.givenBack) {
    text.group->pool.release(text.pages[text.givenBack]);
    text.pages[text.givenBack] = noPage;
  }
}

std::optional<TextEnd> Scheduler::addToken(Text &text, float *logits) {
  const TextRequest &request = text.request;
  if (!areFinite(logits, limits.vocab))
    return TextEnd::NotFinite;
  // Logprobs are the model's own, so they come before bias and penalties.
  std::vector<float> own;
  if (request.logprobs >= 0)
    own.assign(logits, logits + limits.vocab);
  int32_t token = text.sampler.next(logits, limits.vocab, text.tokens);
  if (std::find(request.ends.begin(), request.ends.end(), token) !=
      request.ends.end())
    return TextEnd::Stop;
  std::vector<TokenLogprob> logprobs;
  if (request.logprobs >= 0)
    logprobs = logprobsOf(own.data(), limits.vocab, token, request.logprobs);
  text.tokens.push_back(token);
  ++text.made;
  ++counted.newTokens;
  if (listener.onToken(request.id, token, logprobs))
    return TextEnd::Stop;
  if (text.made == request.maxTokens ||
      int64_t(text.tokens.size()) == mostTokens)
    return TextEnd::Length;
  return std::nullopt;
}

std::optional<TextEnd> Scheduler::tellPrompt(Text &text, int64_t position,
                                             int64_t count, float *logits) {
  const TextRequest &request = text.request;
  if (text.told == 0) {
    constexpr double none = std::numeric_limits<double>::quiet_NaN();
    listener.onPrompt(request.id, {{request.prompt[0], none}});
    text.told = 1;
  }
  for (size_t at = size_t(position) + 1; at <= size_t(position + count);
       ++at, logits += limits.vocab) {
    if (!areFinite(logits, limits.vocab))
      return TextEnd::NotFinite;
    // A text that had to begin again has told some already.
    if (at < text.told || at >= request.prompt.size())
      continue;
    listener.onPrompt(request.id,
                      logprobsOf(logits, limits.vocab, request.prompt[at],
                                 std::max<int64_t>(request.logprobs, 0)));
    ++text.told;
  }
  return std::nullopt;
}

std::optional<TextEnd>
Scheduler::addTokens(Text &text, std::vector<int32_t> guesses, float *logits) {
  std::optional<TextEnd> end = addToken(text, logits);
  size_t right = 0;
  for (; !end && right < guesses.size() && text.tokens.back() == guesses[right];
       ++right) {
    ++text.computed;
    logits += limits.vocab;
    end = addToken(text, logits);
  }
  // As far as the draft has read what the text has now.
  text.drafted = std::min(text.drafted, text.computed);
  counted.rightGuesses += int64_t(right);
  // More where all were right, else fewer, as in Hugging Face's transformers.
  if (!guesses.empty())
    text.reach = std::clamp<int64_t>(
        text.reach + (right == guesses.size() ? 2 : -1), 1, limits.maxGuesses);
  return end;
}

void Scheduler::takeResult(Text &text, const Feed &feed, float *logits) {
  std::vector<int32_t> guesses(text.tokens.end() - text.guessed,
                               text.tokens.end());
  text.tokens.resize(text.tokens.size() - guesses.size());
  text.guessed = 0;
  int64_t count = int64_t(feed.tokens.size() - guesses.size());
  text.computed += count;
  bool isOfPrompt =
      count > 1 || feed.position < int64_t(text.request.prompt.size());
  if (isOfPrompt)
    counted.promptTokens += count;
  int64_t before = text.made;
  std::optional<TextEnd> end;
  if (isScored(text)) {
    end = tellPrompt(text, feed.position, count, logits);
    logits += (count - 1) * limits.vocab; // Those of guesses come behind.
  }
  if (!end && text.computed == int64_t(text.tokens.size())) {
    text.hasBegun = true;
    end = text.request.maxTokens == 0
              ? TextEnd::Length
              : addTokens(text, std::move(guesses), logits);
  }
  queue.charge(text.request.client,
               isOfPrompt ? double(count)
                          : newTokenCharge * double(text.made - before));
  publishPages(text);
  giveBackPages(text);
  if (!end)
    return;
  uint64_t id = text.request.id;
  drop(texts.find(id));
  listener.onEnd(id, *end);
}

void Scheduler::step(Clock::time_point now) {
  expire(now);
  for (Group &group : groups)
    growPages(group);
  admit();
  if (drafter)
    guess();
  collectFeeds();
  if (feeds.empty())
    return;
  logits.resize(countLogits(feeds) * limits.vocab);
  engine.run(feeds, logits.data());
  ++counted.runs;
  float *next = logits.data();
  for (const Feed &feed : feeds) {
    takeResult(texts.at(feed.sequence), feed, next);
    next += feed.numLogits * limits.vocab;
  }
}
