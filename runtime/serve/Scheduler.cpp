//===- Scheduler.cpp - Continuous batching --------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Admission, preemption, page allocation and results of the scheduler. `step`
// runs the phases in order.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/serve/Scheduler.h"

#include <algorithm>
#include <cassert>
#include <limits>

using namespace heddle::rt;

/// Cost of a generated token in the fair queue, relative to a prompt token.
static constexpr double newTokenCharge = 2;

/// Returns limits that both engine and draft can satisfy. The attention window
/// is the larger of the two (0 is unlimited), so that a page is only released
/// when neither model's attention reads it any more.
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
  // With an attention window, a sequence has pages for one chunk beyond its
  // window, so a token and its drafted tokens must fit into a chunk.
  limits.maxGuesses = std::min(limits.maxGuesses, limits.maxChunk - 1);
  bool seesAll = limits.window == 0 || other.window == 0;
  limits.window = seesAll ? 0 : std::max(limits.window, other.window);
  return limits;
}

Scheduler::Scheduler(Engine &engine, SequenceListener &listener,
                     bool checksPages, Engine *draft)
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

/// Without an attention window a sequence gets the pages for all its present
/// tokens at once, so that its prompt need not wait for pages after it has
/// begun.
int64_t Scheduler::pagesFor(const Sequence &seq, int64_t computed) const {
  int64_t tokens = seq.tokens.size();
  if (limits.window)
    tokens = std::min(tokens, computed + limits.maxChunk);
  return limits.cachePages().pagesFor(tokens);
}

void Scheduler::submit(SequenceRequest request) {
  assert(request.id != 0 && !request.prompt.empty() &&
         int64_t(request.prompt.size()) < mostTokens &&
         (request.maxTokens > 0 || request.scoresPrompt) &&
         (!request.scoresPrompt || limits.maxScored > 0));
  queue.push(request.client, request.id);
  ++sequencesOfClient[request.client];
  uint64_t id = request.id;
  sequences.emplace(id, std::move(request)).first->second.reach =
      limits.maxGuesses;
}

bool Scheduler::cancel(uint64_t id) {
  auto found = sequences.find(id);
  if (found == sequences.end())
    return false;
  drop(found);
  return true;
}

void Scheduler::stopRunning(Sequence &seq) {
  Group &group = *seq.group;
  // Release the sequence's last pages first: then the pool reuses them first,
  // and keeps the first pages, which other prompts may share.
  for (size_t i = seq.pages.size(); i-- > 0;)
    if (seq.pages[i] != noPage)
      group.pool.release(seq.pages[i]);
  seq.pages.clear();
  seq.computed = seq.drafted = seq.published = seq.givenBack = 0;
  seq.chain = 0;
  seq.group = nullptr;
  group.running.erase(
      std::find(group.running.begin(), group.running.end(), &seq));
}

void Scheduler::drop(Sequences::iterator found) {
  Sequence &seq = found->second;
  const std::string &client = seq.request.client;
  if (seq.group)
    stopRunning(seq);
  else
    queue.remove(client, seq.request.id);
  if (--sequencesOfClient[client] == 0) {
    sequencesOfClient.erase(client);
    queue.forget(client);
  }
  sequences.erase(found);
}

void Scheduler::expire(Clock::time_point now) {
  for (auto next = sequences.begin(); next != sequences.end();) {
    auto seq = next++;
    if (seq->second.request.deadline > now)
      continue;
    uint64_t id = seq->first;
    drop(seq);
    listener.onEnd(id, FinishReason::Expired);
  }
}

bool Scheduler::tryToBegin(Sequence &seq) {
  Group *best = nullptr;
  size_t fewest = limits.maxRows;
  for (const Group &group : groups)
    fewest = std::min(fewest, group.running.size());
  std::pair<int64_t, int64_t> most; // Shared pages, and pages left.
  for (Group &group : groups) {
    const auto running = int64_t(group.running.size());
    if (running == limits.maxRows)
      continue;
    PagePool::Found found = group.pool.find(seq.tokens, mostShared(seq));
    int64_t needed =
        pagesFor(seq, found.pages * limits.pageTokens) - found.pages;
    int64_t left = group.pool.available() - found.kept - needed;
    // Leave a page for each running sequence, since it may soon need another
    // one.
    if (left < running)
      continue;
    // If a group already runs more sequences than others, do not prefer it for
    // a shared prefix. Otherwise, if all sequences have the same prefix, one
    // group would get all of them.
    bool mayShare = group.running.size() <= fewest + 1;
    std::pair comes(mayShare ? found.pages : 0, left - running);
    if (!best || comes > most) {
      best = &group;
      most = comes;
    }
  }
  if (best)
    begin(seq, *best);
  return best;
}

void Scheduler::begin(Sequence &seq, Group &group) {
  PagePool::Prefix prefix = group.pool.share(seq.tokens, mostShared(seq));
  seq.pages = std::move(prefix.pages);
  seq.chain = prefix.chain;
  seq.published = seq.pages.size();
  seq.givenBack = std::count(seq.pages.begin(), seq.pages.end(), noPage);
  seq.computed = seq.drafted = seq.published * limits.pageTokens;
  counted.sharedTokens += seq.computed;
  int64_t needed = pagesFor(seq, seq.computed) - seq.published;
  for (; needed > 0; --needed)
    seq.pages.push_back(*group.pool.take());
  seq.group = &group;
  group.running.push_back(&seq);
}

void Scheduler::admit() {
  auto mayBegin = [&](uint64_t id) {
    auto leader = sequences.find(sequences.at(id).request.after);
    return leader == sequences.end() || leader->second.hasBegun;
  };
  while (numRunning() < limits.maxRows * numGroups()) {
    std::optional<uint64_t> id = queue.next(mayBegin);
    // A sequence that does not fit waits, and no other one overtakes it.
    if (!id || !tryToBegin(sequences.at(*id)))
      return;
    queue.remove(sequences.at(*id).request.client, *id);
  }
}

void Scheduler::preempt(Sequence &seq) {
  stopRunning(seq);
  queue.pushFront(seq.request.client, seq.request.id);
  ++counted.preempted;
}

void Scheduler::growPages(Group &group) {
  for (size_t i = 0; i < group.running.size(); ++i) {
    Sequence &seq = *group.running[i];
    while (seq.group &&
           int64_t(seq.pages.size()) < pagesFor(seq, seq.computed)) {
      if (std::optional<PagePool::Page> page = group.pool.take())
        seq.pages.push_back(*page);
      else
        preempt(*group.running.back());
    }
  }
}

int64_t Scheduler::roomForGuesses(Sequence &seq) {
  int64_t tokens = seq.tokens.size();
  int64_t wanted = std::min({seq.reach, seq.request.maxTokens - seq.made - 1,
                             mostTokens - tokens - 1});
  Group &group = *seq.group;
  // Leave a page for each running sequence, since it may need one for tokens
  // that are not drafted.
  while (int64_t(seq.pages.size()) <
             limits.cachePages().pagesFor(tokens + wanted) &&
         group.pool.available() > int64_t(group.running.size()))
    seq.pages.push_back(*group.pool.take());
  int64_t room = int64_t(seq.pages.size()) * limits.pageTokens - tokens;
  return std::clamp<int64_t>(wanted, 0, room);
}

void Scheduler::guess() {
  std::vector<DraftedSequence> drafted;
  for (Group &group : groups)
    for (Sequence *seq : group.running) {
      if (int64_t(seq->tokens.size()) - seq->computed > 1)
        continue;
      seq->guessed = roomForGuesses(*seq);
      counted.guesses += seq->guessed;
      drafted.push_back({seq->request.id, &seq->tokens, &seq->pages,
                         &seq->sampler, &seq->drafted, seq->guessed,
                         group.number});
    }
  drafter->guess(std::move(drafted));
}

/// Returns the limit of prompt tokens for one run. The limit is lower if any
/// group has tokens to generate: all groups wait for the run, so a long prompt
/// would delay these tokens.
int64_t Scheduler::promptTokensOfRun() const {
  constexpr int64_t mostBesideTokens = 128;
  for (const Group &group : groups)
    for (const Sequence *seq : group.running)
      if (!isPrompt(*seq))
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
  for (Sequence *seq : group.running) {
    int64_t left = seq->tokens.size() - seq->computed;
    int64_t most = isScored(*seq) ? std::min(promptTokens, limits.maxScored)
                                  : promptTokens;
    int64_t count = isPrompt(*seq) ? std::min(left, most) : left;
    if (count == 0)
      continue;
    if (isPrompt(*seq))
      promptTokens -= count;
    auto first = seq->tokens.begin() + seq->computed;
    int64_t numLogits = count == left ? 1 + seq->guessed : 0;
    if (isScored(*seq))
      numLogits = count;
    feeds.push_back({seq->request.id,
                     {first, first + count},
                     seq->computed,
                     seq->pages,
                     numLogits,
                     group.number});
    if (group.checker)
      group.checker->check(feeds.back(), seq->tokens);
    if (drafter && isPrompt(*seq)) {
      drafter->compute(feeds.back(), seq->tokens);
      seq->drafted += count;
    }
  }
}

void Scheduler::publishPages(Sequence &seq) {
  while ((seq.published + 1) * limits.pageTokens <= cached(seq)) {
    const int32_t *tokens = &seq.tokens[seq.published * limits.pageTokens];
    seq.chain =
        seq.group->pool.publish(seq.pages[seq.published], tokens, seq.chain);
    ++seq.published;
  }
}

void Scheduler::giveBackPages(Sequence &seq) {
  int64_t end = std::min(limits.cachePages().firstSeen(cached(seq)),
                         int64_t(seq.pages.size()));
  for (; seq.givenBack < end; ++seq.givenBack) {
    seq.group->pool.release(seq.pages[seq.givenBack]);
    seq.pages[seq.givenBack] = noPage;
  }
}

std::optional<FinishReason> Scheduler::addToken(Sequence &seq, float *logits) {
  const SequenceRequest &request = seq.request;
  if (!areFinite(logits, limits.vocab))
    return FinishReason::NotFinite;
  // Log probabilities are those of the model, before bias and penalties.
  std::vector<float> own;
  if (request.logprobs >= 0)
    own.assign(logits, logits + limits.vocab);
  int32_t token = seq.sampler.next(logits, limits.vocab, seq.tokens);
  if (std::find(request.ends.begin(), request.ends.end(), token) !=
      request.ends.end())
    return FinishReason::Stop;
  std::vector<TokenLogprob> logprobs;
  if (request.logprobs >= 0)
    logprobs = logprobsOf(own.data(), limits.vocab, token, request.logprobs);
  seq.tokens.push_back(token);
  ++seq.made;
  ++counted.newTokens;
  if (listener.onToken(request.id, token, logprobs))
    return FinishReason::Stop;
  if (seq.made == request.maxTokens || int64_t(seq.tokens.size()) == mostTokens)
    return FinishReason::Length;
  return std::nullopt;
}

std::optional<FinishReason> Scheduler::tellPrompt(Sequence &seq,
                                                  int64_t position,
                                                  int64_t count,
                                                  float *logits) {
  const SequenceRequest &request = seq.request;
  if (seq.told == 0) {
    constexpr double none = std::numeric_limits<double>::quiet_NaN();
    listener.onPrompt(request.id, {{request.prompt[0], none}});
    seq.told = 1;
  }
  for (size_t at = size_t(position) + 1; at <= size_t(position + count);
       ++at, logits += limits.vocab) {
    if (!areFinite(logits, limits.vocab))
      return FinishReason::NotFinite;
    // After a preemption the prompt is computed again, but not reported again.
    if (at < seq.told || at >= request.prompt.size())
      continue;
    listener.onPrompt(request.id,
                      logprobsOf(logits, limits.vocab, request.prompt[at],
                                 std::max<int64_t>(request.logprobs, 0)));
    ++seq.told;
  }
  return std::nullopt;
}

std::optional<FinishReason> Scheduler::addTokens(Sequence &seq,
                                                 std::vector<int32_t> guesses,
                                                 float *logits) {
  std::optional<FinishReason> end = addToken(seq, logits);
  size_t right = 0;
  for (; !end && right < guesses.size() && seq.tokens.back() == guesses[right];
       ++right) {
    ++seq.computed;
    logits += limits.vocab;
    end = addToken(seq, logits);
  }
  // The draft's cache is valid up to the accepted tokens.
  seq.drafted = std::min(seq.drafted, seq.computed);
  counted.rightGuesses += int64_t(right);
  // Draft more tokens next time if all drafted tokens were accepted, else
  // fewer, as Hugging Face's transformers does.
  if (!guesses.empty())
    seq.reach = std::clamp<int64_t>(
        seq.reach + (right == guesses.size() ? 2 : -1), 1, limits.maxGuesses);
  return end;
}

void Scheduler::takeResult(Sequence &seq, const Feed &feed, float *logits) {
  std::vector<int32_t> guesses(seq.tokens.end() - seq.guessed,
                               seq.tokens.end());
  seq.tokens.resize(seq.tokens.size() - guesses.size());
  seq.guessed = 0;
  int64_t count = int64_t(feed.tokens.size() - guesses.size());
  seq.computed += count;
  bool isOfPrompt =
      count > 1 || feed.position < int64_t(seq.request.prompt.size());
  if (isOfPrompt)
    counted.promptTokens += count;
  int64_t before = seq.made;
  std::optional<FinishReason> end;
  if (isScored(seq)) {
    end = tellPrompt(seq, feed.position, count, logits);
    // Go on to the logits of the last prompt token, from which the next token
    // is sampled. Logits of drafted tokens follow.
    logits += (count - 1) * limits.vocab;
  }
  if (!end && seq.computed == int64_t(seq.tokens.size())) {
    seq.hasBegun = true;
    end = seq.request.maxTokens == 0
              ? FinishReason::Length
              : addTokens(seq, std::move(guesses), logits);
  }
  queue.charge(seq.request.client,
               isOfPrompt ? double(count)
                          : newTokenCharge * double(seq.made - before));
  publishPages(seq);
  giveBackPages(seq);
  if (!end)
    return;
  uint64_t id = seq.request.id;
  drop(sequences.find(id));
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
    takeResult(sequences.at(feed.sequence), feed, next);
    next += feed.numLogits * limits.vocab;
  }
}
